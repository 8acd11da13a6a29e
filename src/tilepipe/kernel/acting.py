"""Classes of the file whose copies run code of their own, so that copying their bytes is another thing."""

from __future__ import annotations

import re
from functools import lru_cache

from tilepipe.kernel.copies import Copy
from tilepipe.kernel.file import CudaFile

_WORD = re.compile(r"[A-Za-z_]\w*")


def acting_class(file: CudaFile, stored: str, copy: Copy) -> str:
    """A class whose copies run code of their own and that a copy into an element of the type `stored` goes through; ""
    for none."""
    spelled = " ".join([stored, copy.source, *(s.type for s in copy.uses)])
    return next(iter(sorted(set(_WORD.findall(spelled)) & acting_classes(file))), "")


@lru_cache(maxsize=8)  # a file has many copies
def acting_classes(file: CudaFile) -> frozenset[str]:
    """Names of classes with a copy or move constructor or an assignment that is written out, and of those that hold
    or extend such a class."""
    texts: dict[str, str] = {}
    stack = [file.tree.root]
    while stack:
        node = stack.pop()
        name = node.child_by_field_name("name")
        if node.type in ("struct_specifier", "class_specifier", "union_specifier") and name is not None:
            texts[(name.text or b"").decode().partition("<")[0].strip()] = (node.text or b"").decode()
        stack.extend(node.named_children)
    found = {name for name, text in texts.items() if _acts(name, text)}
    while more := {n for n, t in texts.items() if n not in found and set(_WORD.findall(t)) & found}:
        found |= more
    return frozenset(found)


def _acts(name: str, text: str) -> bool:
    copy = rf"\b{re.escape(name)}\s*\(\s*(?:const\s+)?{re.escape(name)}\s*(?:<[^>]*>)?\s*(?:const\s*)?&"
    written = re.finditer(rf"(?:{copy}|\boperator\s*=\s*\()[^;{{]*", text)
    return any(not re.search(r"=\s*default\s*$", m.group(0)) for m in written)
