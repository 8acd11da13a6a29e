"""Names of a file whose meaning is not followed: macros with several texts, and CUDA's names declared anew (TP020)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.binding import introduced, introductions, names_within
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.macros import ambiguous
from tilepipe.kernel.names import Function

_WORD = re.compile(r"[A-Za-z_]\w*")
_COORDINATES = ("blockDim", "blockIdx", "gridDim", "threadIdx", "warpSize")
_SCOPES = ("namespace_definition", "declaration_list", "linkage_specification")
_OWN_COORDINATE = re.compile(rb"\b(?:blockDim|blockIdx|gridDim|threadIdx|warpSize)\b(?!\s*\.)")


def unclear_macro(file: CudaFile, kernel: KernelText) -> Refusal | None:
    """TP020: a macro that kernel, functions that it may call, or macros in either use has one meaning in the file."""
    node = node_of(file, kernel)
    own = names_within(node, file.macros)
    # A value that names a variable of the kernel is more than a value.
    several = {n: m for n, m in file.macros.items() if m.others}
    naming = {n for n, m in several.items() if own & set(_WORD.findall(" ".join((m.body, *m.others))))}
    unclear = ambiguous(file.tree.root) | naming
    used = sorted(unclear & reached(file, node)) if unclear else []
    if not used:
        return None
    return refusal(
        "TP020",
        f"the macro `{used[0]}` is defined in several ways, and which of them holds in this kernel is not followed",
        file.source.place(kernel.span),
        "used by this kernel, or by what it may call",
        "give the definitions different names",
    )


def taken_coordinate(file: CudaFile, kernel: KernelText) -> Refusal | None:
    """TP020: a name of CUDA's for threads and blocks that the kernel, what it may call, or the file around them
    declares itself, which proofs take for CUDA's. What host functions call so is theirs."""
    if not _OWN_COORDINATE.search(file.source.data):
        return None
    node = node_of(file, kernel)
    words = reached(file, node)
    within = [node, *(f.node for name in words for f in functions_of(file, name))]
    names = {name for root in within for name, _ in introductions(root, file.macros)}
    names |= _of_the_file(file) | file.macros.keys()
    name = next((n for n in sorted(_COORDINATES) if n in names), None)
    if name is None:
        return None
    return refusal(
        "TP020",
        f"`{name}` is declared in this file, and is taken for CUDA's",
        file.source.place(kernel.span),
        "a name of CUDA's for threads and blocks",
        f"give the file's own `{name}` another name",
    )


@lru_cache(maxsize=8)  # a file has many kernels
def _of_the_file(file: CudaFile) -> frozenset[str]:
    """The names that the file or one of its namespaces declares."""
    declaring = _at_file_scope(file.tree.root)
    return frozenset(name for child in declaring for name, _ in introduced(child, file.macros))


def node_of(file: CudaFile, kernel: KernelText) -> Node:
    """The definition of a kernel."""
    found = file.tree.root.named_descendant_for_byte_range(kernel.span.start, kernel.span.end)
    return found if found is not None else file.tree.root


def functions_of(file: CudaFile, name: str) -> tuple[Function, ...]:
    """The functions of the file and its headers that have a name."""
    found = file.functions.get(name)
    return (found, *found.overloads) if found is not None else ()


def reached(file: CudaFile, kernel: Node) -> frozenset[str]:
    """The words of the kernel's text, and of the functions and macros of the file that any of them names in turn."""
    words: set[str] = set()
    ahead = set(_WORD.findall((kernel.text or b"").decode()))
    while ahead:
        word = ahead.pop()
        words.add(word)
        texts = [(f.node.text or b"").decode() for f in functions_of(file, word)]
        macro = file.macros.get(word)
        texts += [macro.body, *macro.others] if macro is not None else []
        ahead |= {w for text in texts for w in _WORD.findall(text)} - words
    return frozenset(words)


def _at_file_scope(root: Node) -> Iterator[Node]:
    """What stands in the file or in one of its namespaces, under a condition perhaps."""
    for node in root.named_children:
        if node.type in _SCOPES or node.type.startswith("preproc_"):
            yield from _at_file_scope(node)
        else:
            yield node
