"""Names of dynamic shared memory: every `extern __shared__` array begins where all others do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.file import Analysed, CudaFile, KernelText
from tilepipe.kernel.symbols import Symbol, declarators, declared
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.source import Span
from tilepipe.source.parse import span

_WORD = re.compile(r"[A-Za-z_]\w*")
_DYNAMIC = re.compile(r"\bextern\s+__shared__\b|\b__shared__\s+extern\b")
_NAMES = ("identifier", "type_identifier", "field_identifier", "namespace_identifier")


@dataclass(frozen=True, eq=False)
class _Part:
    """Text that a kernel may run: its own body (`own`), that of a function, a class. `parameters` are the names that a
    function declares, `foreign` says that it stands in a header."""

    body: Node
    own: bool
    foreign: bool
    parameters: frozenset[str] = frozenset()


def hidden_names(file: CudaFile, analysed: Analysed, tile: TileLoop) -> Refusal | None:
    """TP023: dynamic shared memory with tiles in it has one name, and helpers get it as an argument."""
    pools = {s.decl for s in _arrays(analysed)} & {b.decl for b in tile.staged}
    if not pools:
        return None
    for part in _reached(file, analysed):
        for node, what in _others(file, part, pools):
            return refusal(
                "TP023",
                f"{what}, which is not followed: what is changed or read through it is not known",
                file.source.place(tile.loop.span if part.foreign else span(node)),
                "reached from here" if part.foreign else "not followed beyond this point",
                "declare the array once, in the kernel, and hand a pointer to it to helpers",
            )
    return None


def has_dynamic_shared(file: CudaFile, kernel: KernelText) -> bool:
    """Whether a kernel, or what it names, declares dynamic shared memory or names such an array of the file's."""
    at_file = {name for name, _ in file.dynamic_shared}
    ahead, seen = [file.source.slice(kernel.body)], set[str]()
    while ahead:
        text = ahead.pop()
        words = set(_WORD.findall(text)) - seen
        if words & at_file or _DYNAMIC.search(text):
            return True
        seen |= words
        ahead += [
            (file.functions[word].body.text or b"").decode() for word in words if word in file.functions
        ]
        ahead += [file.macros[word].body for word in words if word in file.macros]
    return False


def _arrays(analysed: Analysed) -> Iterator[Symbol]:
    """The dynamic shared arrays that the kernel touches or declares."""
    effects = analysed.body.effects()
    touched = effects.shared_reads() | effects.shared_writes()
    inside = {s for st in analysed.body.walk() for s in st.declares}
    pointed = {t for targets in analysed.points.values() for t in targets}
    yield from (s for s in touched | inside | pointed if s.kind == "shared" and s.extern)


def _others(file: CudaFile, part: _Part, pools: set[Span]) -> Iterator[tuple[Node, str]]:
    """Other names of the tiles' memory in a part, with what they are."""
    at_file = {name for name, decl in file.dynamic_shared if decl not in pools or not part.own}
    at_file -= part.parameters
    for node in _walk(part.body):
        text = (node.text or b"").decode()
        if node.type == "declaration" and "__shared__" in text:
            own = [s for s, _ in declared(node, text, (), "local") if s.kind == "shared" and s.extern]
            if own and not (part.own and span(node) in pools):
                yield node, f"`{own[0].name}` is another name of the dynamic shared memory that tiles lie in"
        elif node.type in _NAMES:
            said = {w for body in _macros(file, text) for w in _WORD.findall(body)} | {text}
            if said & at_file or (not part.own and {"extern", "__shared__"} <= said):
                yield (
                    node,
                    f"`{text}` names the tiles' dynamic shared memory in another way than as an argument",
                )


def _reached(file: CudaFile, analysed: Analysed) -> Iterator[_Part]:
    """The kernel's body, and the functions and classes that it may use, by their names."""
    kernel = analysed.kernel.body
    root = file.tree.root.named_descendant_for_byte_range(kernel.start, kernel.end)
    ahead, seen = [_Part(root, True, False)] if root is not None else [], set[str]()
    while ahead:
        part = ahead.pop(0)
        yield part
        texts = {(n.text or b"").decode() for n in _walk(part.body) if n.type in _NAMES}
        words = {w for text in texts for body in _macros(file, text) for w in _WORD.findall(body)} | texts
        for name in sorted(words - seen):
            seen.add(name)
            function = file.functions.get(name)
            for one in (function, *function.overloads) if function is not None else ():
                declares = frozenset(d.name for p in one.parameters for d in declarators(p))
                ahead.append(_Part(one.body, False, one.foreign, declares))
            ahead += [_Part(node, False, foreign) for node, foreign in file.classes.get(name, ())]


def _macros(file: CudaFile, name: str) -> Iterator[str]:
    """The body of a macro, and those of the macros in it."""
    work, seen = [name], set[str]()
    while work:
        word = work.pop()
        if word in file.macros and word not in seen:
            seen.add(word)
            yield file.macros[word].body
            work += _WORD.findall(file.macros[word].body)


def _walk(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.named_children))
