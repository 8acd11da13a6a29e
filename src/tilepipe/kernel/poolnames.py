"""Names of dynamic shared memory: every `extern __shared__` array begins where all others do."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.names import Function
from tilepipe.kernel.symbols import Symbol, declarators, declared
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.source import Span
from tilepipe.source.parse import span


def hidden_names(file: CudaFile, analysed: Analysed, tile: TileLoop) -> Refusal | None:
    """TP023: dynamic shared memory with tiles in it has one name, and helpers get it as an argument."""
    pools = {s.decl: s for s in _arrays(analysed) if s.decl in {b.decl for b in tile.staged}}
    if not pools:
        return None
    kernel = analysed.kernel.body
    root = file.tree.root.named_descendant_for_byte_range(kernel.start, kernel.end)
    reached = list(_reached(file, root)) if root is not None else []
    for function, body in ((None, root), *((f, f.body) for f in reached)):
        for node, what in _others(file, body, function, pools) if body is not None else ():
            foreign = function is not None and function.foreign
            return refusal(
                "TP023",
                f"{what}, which is not followed: what is changed or read through it is not known",
                file.source.place(tile.loop.span if foreign else span(node)),
                "reached from here" if foreign else "not followed beyond this point",
                "declare the array once, in the kernel, and hand a pointer to it to helpers",
            )
    return None


def _arrays(analysed: Analysed) -> Iterator[Symbol]:
    """The dynamic shared arrays that the kernel touches or declares."""
    effects = analysed.body.effects()
    touched = effects.shared_reads() | effects.shared_writes()
    inside = {s for st in analysed.body.walk() for s in st.declares}
    pointed = {t for targets in analysed.points.values() for t in targets}
    yield from (s for s in touched | inside | pointed if s.kind == "shared" and s.extern)


def _others(
    file: CudaFile, body: Node, function: Function | None, pools: dict[Span, Symbol]
) -> Iterator[tuple[Node, str]]:
    """Other names of the tiles' memory below a function's body, with what they are."""
    at_file = {name for name, decl in file.dynamic_shared if decl not in pools or function is not None}
    at_file -= {d.name for p in (function.parameters if function is not None else ()) for d in declarators(p)}
    for node in _walk(body):
        text = (node.text or b"").decode()
        if node.type == "declaration" and "__shared__" in text:
            own = [s for s, _ in declared(node, text, (), "local") if s.kind == "shared" and s.extern]
            if own and (function is not None or span(node) not in pools):
                yield node, f"`{own[0].name}` is another name of the dynamic shared memory that tiles lie in"
        elif node.type == "identifier" and text in at_file:
            yield (
                node,
                f"the tiles' dynamic shared memory is named in another way than as an argument: `{text}`",
            )


def _reached(file: CudaFile, kernel: Node) -> Iterator[Function]:
    """The functions that may be called from a kernel, by their names."""
    ahead, seen = [kernel], set[str]()
    while ahead:
        for node in _walk(ahead.pop()):
            name = (node.text or b"").decode() if node.type == "identifier" else ""
            if name in file.functions and name not in seen:
                seen.add(name)
                found = file.functions[name]
                for function in (found, *found.overloads):
                    yield function
                    ahead.append(function.body)


def _walk(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.named_children))
