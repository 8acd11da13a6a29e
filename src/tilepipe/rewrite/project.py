"""The text of a part of the loop body: some statements kept, some replaced, expressions edited."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tilepipe.kernel.flow import Item
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.rewrite.lines import indent_of, reindent, whole_lines, with_comments, with_pragmas
from tilepipe.source import Edit, SourceFile, Span, apply_edits

_USING = re.compile(r"using\s+(?:namespace\s+|typename\s+)?[\w:\s]*?(\w+)\s*;")
_TYPE = re.compile(r"(?:using\s+(\w+)\s*=|typedef\b[^;]*?(\w+)\s*(?:\[[^;]*)?;)")


def type_named(source: SourceFile, statement: Statement) -> str:
    """The type that `using` or `typedef` declares, or the name that a `using` takes over; "" for another statement."""
    text = source.slice(statement.span) if statement.kind == "leaf" else ""
    if (taken := _USING.match(text)) is not None:
        return taken.group(1)
    found = _TYPE.match(text)
    return (found.group(1) or found.group(2)) if found is not None else ""


def names_type(source: SourceFile, statement: Statement) -> bool:
    """Whether a statement does no more than to give a name to a type, or to take one over."""
    return type_named(source, statement) != ""


@dataclass(frozen=True, eq=False)
class Projection:
    """What to keep of the loop body and how to change it.

    `keep` are the items whose statements stay, `replaced` new texts for whole statements by id, `edits`
    changes within a kept statement by id, `drop_pragmas` loops whose pragma lines go because the new header
    brings its own.
    """

    source: SourceFile
    tile: TileLoop
    keep: frozenset[Item]
    replaced: Mapping[int, str] = field(default_factory=dict)
    edits: Mapping[int, tuple[Edit, ...]] = field(default_factory=dict)
    drop_pragmas: frozenset[int] = frozenset()

    def text(self, indent: str) -> str:
        """The kept statements of the body, one after the other, at the given indentation."""
        parts = []
        for statement in self.tile.body:
            if self._kept(statement):
                parts.append(reindent(self._top(statement), indent))
        return "".join(part if part.endswith("\n") else part + "\n" for part in parts)

    @cached_property
    def _words(self) -> frozenset[str]:
        """The words of what is kept, and of the types that the body names."""
        texts = [self.source.slice(i.statement.span) for i in self.tile.flow.items if self._wanted(i)]
        return frozenset(re.findall(r"[A-Za-z_]\w*", " ".join([*texts, *self.replaced.values()])))

    def _wanted(self, item: Item) -> bool:
        return item in self.keep or names_type(self.source, item.statement)

    def _kept(self, statement: Statement) -> bool:
        if id(statement) in self.replaced:
            return bool(self.replaced[id(statement)])
        if names_type(self.source, statement) and bool(self.keep):
            opens = self.source.slice(statement.span).split()[:2] == ["using", "namespace"]
            return opens or type_named(self.source, statement) in self._words
        return any(
            self.tile.flow.of[id(s)] in self.keep or self.replaced.get(id(s))
            for s in statement.walk()
            if s.kind != "block"
        )

    def _top(self, statement: Statement) -> str:
        start = statement.span.start
        if id(statement) not in self.drop_pragmas:
            start = with_pragmas(self.source, start)
        start = with_comments(self.source, start)
        lines = whole_lines(self.source, Span(start, statement.span.end))
        edits: list[Edit] = []
        self._visit(statement, None, edits)
        if id(statement) in self.drop_pragmas:
            pragmas = with_pragmas(self.source, statement.span.start)
            if pragmas < statement.span.start:
                edits.append(Edit(whole_lines(self.source, Span(pragmas, statement.span.start)), ""))
        return _apply(self.source, lines, edits)

    def _visit(self, statement: Statement, parent: Statement | None, out: list[Edit]) -> None:
        if id(statement) in self.replaced:
            text = self.replaced[id(statement)]
            if text:
                self._without_pragmas(statement, parent, out)
                out.append(Edit(statement.span, _aligned(self.source, statement, text)))
            else:
                self._delete(statement, parent, out)
        elif not self._kept(statement):
            self._delete(statement, parent, out)
        elif statement.kind == "call":
            out.append(Edit(statement.span, self._inlined(statement)))
        else:
            out += self.edits.get(id(statement), ())
            self._without_pragmas(statement, parent, out)
            for child in statement.children:
                self._visit(child, statement, out)

    def _without_pragmas(self, statement: Statement, parent: Statement | None, out: list[Edit]) -> None:
        """Take away the pragma lines above a statement within another one, if they are to go."""
        pragmas = with_pragmas(self.source, statement.span.start)
        if parent is not None and id(statement) in self.drop_pragmas and pragmas < statement.span.start:
            first = self.source.data.rfind(b"\n", 0, statement.span.start) + 1
            out.append(Edit(Span(pragmas, first), ""))

    def _delete(self, statement: Statement, parent: Statement | None, out: list[Edit]) -> None:
        if parent is not None and parent.kind == "if" and len(parent.children) == 2:
            then, other = parent.children
            if statement is other:
                out.append(Edit(Span(then.span.end, other.span.end), ""))
                return
        if parent is not None and parent.kind != "block":
            out.append(Edit(statement.span, "{}"))
            return
        start = with_pragmas(self.source, statement.span.start)
        out.append(Edit(whole_lines(self.source, Span(start, statement.span.end)), ""))

    def _inlined(self, statement: Statement) -> str:
        """A helper's body in place of its call: a block, or a lambda called on the spot with the arguments."""
        callee = statement.call
        assert callee is not None
        edits: list[Edit] = []
        self._visit(statement.children[0], None, edits)
        body = _apply(self.source, callee.body, edits)
        text = body
        returns = any("return" in s.own.flags for s in statement.walk())
        if callee.parameters.end or returns:
            parameters = " ".join(self.source.slice(callee.parameters).split())
            text = f"[&]({parameters}) {body}{self.source.slice(callee.arguments)};"
        named = [_template_name(p, a) for p, a in callee.template]
        named = [n for n in named if n]
        if named:
            text = "{ " + " ".join(named) + " " + text + " }"
        return _aligned(self.source, statement, _outdented(self.source, callee.body.start, text))


def _template_name(parameter: str, argument: str) -> str:
    """A declaration that gives a template parameter its argument inside the inlined body."""
    words = parameter.replace("=", " ").split()
    if len(words) < 2 or words[-1] == argument:
        return ""
    if words[0] in ("class", "typename"):
        return f"using {words[-1]} = {argument};"
    return f"constexpr {' '.join(words[:-1])} {words[-1]} = {argument};"


def _outdented(source: SourceFile, offset: int, text: str) -> str:
    """The text without the indentation that the line at `offset` has."""
    indent = indent_of(source, offset)
    return text.replace("\n" + indent, "\n") if indent else text


def _aligned(source: SourceFile, statement: Statement, text: str) -> str:
    """The text with its later lines indented as the statement that it replaces."""
    indent = indent_of(source, statement.span.start)
    lines = text.split("\n")
    return "\n".join(
        [lines[0], *(indent + line if line and not line.startswith("#") else line for line in lines[1:])]
    )


def _apply(source: SourceFile, within: Span, edits: list[Edit]) -> str:
    moved = [
        Edit(Span(e.span.start - within.start, min(e.span.end, within.end) - within.start), e.text)
        for e in edits
        if within.start <= e.span.start and e.span.start <= within.end
    ]
    return apply_edits(source.slice(within), moved)
