"""Text that is brought into shape before a loop is looked at: registers of the load, and loads that a macro makes.

Two things keep load and computation apart that are one name or one word in the author's text:

    vload(v, &A[i])                 {
    s[x] = v;                           float4 v;
    __syncthreads();                    v = *((float4 *)(&A[i]));
    vload(v, &s[y])          →          s[x] = v;
    sum += v.x;                     }
                                    __syncthreads();
                                    …

A variable that takes loads from global memory in one phase and elements of the tile in another, set anew before each
use in both, is two variables: the load's gets a scope of its own. A statement macro that loads into a variable is
written out, since its text holds the load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from tilepipe.kernel import surroundings
from tilepipe.kernel.effects import Effects
from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.flow import Item
from tilepipe.kernel.layout import indent_of, start_with_pragmas
from tilepipe.kernel.loader import Split
from tilepipe.kernel.macros import expand
from tilepipe.kernel.names import arguments_of, callee
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import Mixed, Phase, TileLoop, header_effects, mixed_registers
from tilepipe.source import Edit, Span
from tilepipe.source.parse import span

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def written_out(file: CudaFile, parts: Split) -> tuple[Edit, ...]:
    """Statement macros of the loader that load into a variable, replaced by what they say."""
    edits = []
    for item in sorted(parts.loader, key=lambda i: i.order):
        text = _expansion(file, item.statement)
        whole = any(load.span.start == item.statement.span.start for load in item.own.loads)
        if whole and text is not None and not item.own.stores and not item.statement.context:
            end = "\n" if file.source.slice(item.statement.span).endswith("\n") else ""
            edits.append(Edit(item.statement.span, f"{text};{end}"))
    return tuple(edits)


def _expansion(file: CudaFile, statement: Statement) -> str | None:
    """`x = value` where a statement is a macro that says no more than that."""
    node = file.tree.root.named_descendant_for_byte_range(statement.span.start, statement.span.end)
    call = node.named_children[0] if node is not None and node.type == "expression_statement" else None
    macro = file.macros.get(callee(call)) if call is not None and call.type == "call_expression" else None
    if call is None or macro is None or macro.parameters is None:
        return None
    arguments = [" ".join(_COMMENT.sub(" ", file.source.slice(span(a))).split()) for a in arguments_of(call)]
    text = expand(macro, arguments).strip().removesuffix(";").strip()
    plain = re.match(r"[A-Za-z_]\w*\s*=(?!=)", text) is not None and not set(text) & set(";{}#\n")
    return text if plain and len(arguments) == len(macro.parameters) else None


def own_registers(file: CudaFile, analysed: Analysed) -> tuple[Edit, ...]:
    """A block around the load phase that declares anew the variables that the computation uses too."""
    found = list(mixed_registers(analysed.body))
    loops = {id(m.tile.loop): m.tile for m in found}
    for tile in loops.values():
        mixed = [m for m in found if m.tile is tile]
        edits = _Phase(file, analysed, tile, mixed).edits()
        if edits:
            return edits
    return ()


class _Phase:
    """The statements between two barriers that load into variables of the computation."""

    def __init__(self, file: CudaFile, analysed: Analysed, tile: TileLoop, mixed: list[Mixed]) -> None:
        self.file, self.analysed, self.tile = file, analysed, tile
        self.symbols = {m.symbol: None for m in mixed}
        tops = [self._top(m.load) for m in mixed]
        interval = tops[0].interval
        touching = [
            p.statement
            for p in tile.phases
            if p.interval == interval and not p.is_barrier and self._names(p.statement.effects())
        ]
        first, last = tile.body.index(touching[0]), tile.body.index(touching[-1])
        self.statements = tile.body[first : last + 1]
        self.one = all(t.interval == interval and not t.inner_barrier for t in tops)

    def _top(self, statement: Statement) -> Phase:
        return next(p for p in self.tile.phases if statement in p.statement.walk())

    def _names(self, effects: Effects) -> bool:
        return bool((effects.uses | effects.defs) & self.symbols.keys())

    def edits(self) -> tuple[Edit, ...]:
        declared = any(s.kind == "declaration" for s in self.statements)
        if not self.one or declared or not all(map(self._is_two, self.symbols)):
            return ()
        data = self.file.source.data
        start = start_with_pragmas(data, self.statements[0].span.start)
        end = self.statements[-1].span.end
        indent = indent_of(data, self.statements[0].span.start)
        words = "".join(f"{indent}{s.type} {s.name};\n" for s in self.symbols)
        head = f"{{\n{words}{indent}" if start == self.statements[0].span.start else f"{indent}{{\n{words}"
        tail = f"{indent}}}\n" if data[end - 1 : end] == b"\n" else f"\n{indent}}}"
        return Edit(Span(start, start), head), Edit(Span(end, end), tail)

    def _is_two(self, symbol: Symbol) -> bool:
        """Whether no value passes between this phase and the rest of the kernel through the variable."""
        local = symbol.kind == "local" and not (
            symbol.pointer or symbol.reference or symbol.rank or symbol.const
        )
        declared = self.file.source.slice(symbol.decl)
        if (
            not local
            or not symbol.type
            or symbol.key[1]
            or re.search(r"\b(auto|static|volatile)\b", declared)
        ):
            return False
        header = header_effects(self.tile.loop)
        needed = surroundings.after_effects(self.tile).uses | header.uses | header.defs
        if symbol in needed or self._escapes(symbol):
            return False
        inside = [s for statement in self.statements for s in statement.walk()]
        here = {id(s) for s in inside}
        items = self.tile.flow.items
        return all(
            self._set_before(symbol, item, [i for i in items if (id(i.statement) in here) == mine])
            for mine in (True, False)
            for item in items
            if symbol in item.own.uses and (id(item.statement) in here) == mine
        )

    def _set_before(self, symbol: Symbol, use: Item, among: list[Item]) -> bool:
        """Whether one of the items sets the whole variable on every way to the use, in the same iteration."""
        return any(
            d.order < use.order and set(d.parents) <= set(use.parents) and self._sets(d.statement, symbol)
            for d in among
        )

    def _sets(self, statement: Statement, symbol: Symbol) -> bool:
        """Whether a statement is `name = value` and no more, with a value that does not need the variable."""
        text = _expansion(self.file, statement) or self.file.source.slice(statement.span).strip().rstrip(";")
        words = rf"\s*{symbol.name}\s*=(?!=)(?![^;]*\b{symbol.name}\b)[^;]*"
        return (
            statement.kind == "leaf" and not statement.context and re.fullmatch(words, text, re.S) is not None
        )

    def _escapes(self, symbol: Symbol) -> bool:
        """Whether the variable is reached in another way than by its name where it stands."""
        if any(symbol in targets for targets in self.analysed.points.values()):
            return True
        body = self.file.tree.root.named_descendant_for_byte_range(
            self.analysed.body.span.start, self.analysed.body.span.end
        )
        texts = [
            (n.text or b"").decode() for n in _kinds(body, ("lambda_expression", "reference_declarator"))
        ]
        text = self.file.source.slice(self.analysed.body.span)
        return bool(re.search(rf"&\s*{symbol.name}\b|\bgoto\b", text)) or any(
            re.search(rf"\b{symbol.name}\b", t) for t in texts
        )


def _kinds(node: Node | None, kinds: tuple[str, ...]) -> Iterator[Node]:
    if node is None:
        return
    if node.type in kinds:
        yield node.parent if node.type == "reference_declarator" and node.parent is not None else node
    for child in node.named_children:
        yield from _kinds(child, kinds)
