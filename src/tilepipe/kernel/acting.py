"""Classes whose copies run code of their own, so that copying their bytes is another thing.

Of those that stand in the file the text tells; of those in headers, and of templates, the compiler does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache

from tilepipe.kernel.copies import Copy
from tilepipe.kernel.file import CudaFile

Answers = Mapping[str, int | str | None]

_WORD = re.compile(r"[A-Za-z_]\w*")
_CLASS = re.compile(rb"\b(?:struct|class|union)\b")


# Types of the CUDA headers whose copies are written out there, and copy the bits.
_WRITTEN_OUT = frozenset(("__half2", "__nv_bfloat162"))
_MEMBER = re.compile(r"\s*(\.|->)\s*[A-Za-z_]\w*\s*$")


def acting_class(file: CudaFile, copy: Copy, answers: Answers) -> str:
    """A class whose copies run code of their own and that a copy goes through; "" for none."""
    at = copy.use.item.statement.span.start
    stored = answers.get(f"type:{at}")
    spelled = " ".join([str(stored), copy.source, *(s.type for s in copy.uses)])
    written = sorted(set(_WORD.findall(spelled)) & acting_classes(file))
    keys = [f"{at}", *(f"{at}:{number}" for number in range(len(objects_of(copy.source))))]
    types = [str(answers.get(f"type:{key}")) for key in keys if answers.get(f"plain:{key}") == 0]
    return next(iter([*written, *(t for t in types if t not in _WRITTEN_OUT)]), "")


def acting_type(file: CudaFile, type_: str, answers: Answers) -> str:
    """`type_` where it is, holds or extends a class whose copies run code of their own; "" where it does not: a value
    that waits in a register is assigned once more than in the original."""
    bare = " ".join(word for word in type_.split() if word not in ("const", "volatile"))
    told = {
        str(answers.get(f"type:{key[6:]}"))
        for key, plain in answers.items()
        if key[:6] == "plain:" and plain == 0
    }
    acts = bool(set(_WORD.findall(bare)) & acting_classes(file)) or bare in told - _WRITTEN_OUT
    return bare if acts else ""


def objects_of(source: str) -> list[str]:
    """The objects that a text like `a[i].first.x` takes a member of: a variable in between may have copied them."""
    found = []
    while (member := _MEMBER.search(source)) is not None:
        source = source[: member.start()]
        found.append(source if member[1] == "." else f"*({source})")
    return found


@lru_cache(maxsize=8)  # a file has many copies
def acting_classes(file: CudaFile) -> frozenset[str]:
    """Names of classes with a copy or move constructor or an assignment that is written out, and of those that hold
    or extend such a class."""
    texts: dict[str, str] = {}
    at = [word.start() for word in _CLASS.finditer(file.source.data)]
    stack = [file.tree.root]
    while stack:
        node = stack.pop()
        if bisect_left(at, node.start_byte) == bisect_left(at, node.end_byte):
            continue  # no class in it
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
