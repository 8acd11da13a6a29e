"""Copy loops rewritten with a constant trip count, so that the compiler can unroll them."""

from __future__ import annotations

from tilepipe.kernel.flow import Item
from tilepipe.kernel.macros import addend, operand
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.trips import Trips
from tilepipe.rewrite.lines import indent_of, line_start
from tilepipe.rewrite.wide import NONE, Repartition, loop_edits
from tilepipe.source import Edit, Span


class CountedLoops:
    """The counted loops of a model's load phase and the headers that they get."""

    def __init__(self, model: KernelModel, repartition: Repartition = NONE) -> None:
        self.model = model
        self.wide = repartition.loops()

    def number(self, loop: Statement) -> str:
        """The expression that numbers the loop's iterations from 0."""
        trips = self.model.trips[id(loop)]
        return trips.loop.counter if trips.simple else f"tp_{trips.loop.counter}"

    def edits(self, items: frozenset[Item]) -> dict[int, tuple[Edit, ...]]:
        """Header edits by statement id for every counted loop among the items."""
        return {
            id(i.statement): self._edit(i.statement, self.model.trips[id(i.statement)])
            for i in items
            if id(i.statement) in self.model.trips
        }

    def pragmas(self, items: frozenset[Item]) -> frozenset[int]:
        """Loops whose own pragma lines give way to the unroll pragma of the new header."""
        return frozenset(id(i.statement) for i in items if id(i.statement) in self.model.trips)

    def _edit(self, loop: Statement, trips: Trips) -> tuple[Edit, ...]:
        if id(loop) in self.wide:
            return loop_edits(self.model, self.wide[id(loop)])
        source = self.model.file.source
        indent = indent_of(source, loop.span.start)
        c = trips.loop
        if trips.simple:
            return (
                Edit(
                    Span(loop.span.start, loop.span.start),
                    f"{self._own_line(loop, indent)}#pragma unroll\n{indent}",
                ),
            )
        number = self.number(loop)
        macros = self.model.file.macros
        step = operand(c.step, macros)
        start = f"{addend(c.start, macros)} + " if c.start.strip() != "0" else ""
        lines = [f"const {c.type} {c.counter} = {start}{number} * {step};"]
        if not trips.exact:
            lines.append(f"if ({c.counter} {'>' if c.inclusive else '>='} {c.bound}) break;")
        turns = f"for (int {number} = 0; {number} < {trips.count}; ++{number}) {{"
        header = f"{self._own_line(loop, indent)}#pragma unroll\n{indent}{turns}"
        inside = "".join(f"\n{indent}    {line}" for line in lines)
        body = loop.children[0]
        if body.kind == "block":
            # The header ends where the author's brace opens; their brace is taken along.
            return (Edit(Span(c.header.start, body.span.start + 1), header + inside),)
        return (
            Edit(c.header, header + inside),
            Edit(Span(body.span.end, body.span.end), f"\n{indent}}}"),
        )

    def _own_line(self, loop: Statement, indent: str) -> str:
        """A line break where something stands before the loop on its line: a pragma needs a line of its own."""
        source = self.model.file.source
        before = source.data[line_start(source, loop.span.start) : loop.span.start]
        return f"\n{indent}" if before.strip() else ""
