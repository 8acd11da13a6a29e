"""Copy loops with a trip count that is known at compile time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tree_sitter import Node

from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import declarators
from tilepipe.source import SourceFile, Span
from tilepipe.source.parse import span

_EXTENT = re.compile(r"(?:blockDim|gridDim|blockIdx)\.[xyz]")


@dataclass(frozen=True)
class CountedLoop:
    """`for (T i = start; i < bound; i += step)` with the texts of its parts.

    `low` and `high` bound the start over all threads, None where not known.
    """

    counter: str
    type: str
    start: str
    bound: str
    step: str
    inclusive: bool
    header: Span  # from `for` to the closing parenthesis
    low: int | None
    high: int | None
    bound_question: str  # the bound with never-assigned locals replaced by their values, for the compiler
    step_question: str


@dataclass(frozen=True)
class Trips:
    """A counted loop whose bound and step the compiler knows: at most `count` iterations for any thread."""

    loop: CountedLoop
    count: int
    simple: bool  # starts at 0 with step 1: the counter itself numbers the iterations
    exact: bool  # every thread makes `count` iterations


def counted(
    file: CudaFile, loop: Statement, threads: int | None, call: Statement | None = None
) -> CountedLoop | None:
    """Take a `for` apart, None where it is of another form.

    `threads` bounds blockDim.x, if known; `call` is the helper call that the loop is reached through.
    """
    if loop.kind != "for" or loop.counter is None or loop.start is None:
        return None
    if loop.condition is None or loop.update is None or not loop.children:
        return None
    root = file.tree.root
    condition = root.named_descendant_for_byte_range(loop.condition.start, loop.condition.end)
    update = root.named_descendant_for_byte_range(loop.update.start, loop.update.end)
    start = root.named_descendant_for_byte_range(loop.start.start, loop.start.end)
    if condition is None or update is None or start is None or condition.type != "binary_expression":
        return None
    start = _unbraced(start)
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    operator = condition.child_by_field_name("operator")
    if left is None or right is None or operator is None:
        return None
    step = _step(file, update, loop.counter.name)
    sign = file.source.slice(span(operator))
    addend = _addend(file, left, loop.counter.name)
    if step is None or sign not in ("<", "<=") or addend is None:
        return None
    spelled_start = file.source.slice(span(start))
    known_start = spelled_start.rstrip("uUlL") == "0"
    # `i + n <= b` is `i <= b - n` while b - n cannot wrap, as for a start at 0.
    if addend and not known_start:
        return None
    if any(loop.counter in s.own.defs for s in loop.children[0].walk()):
        return None
    body = loop.children[0].span.start
    end = file.source.data.rfind(b")", loop.span.start, body) + 1
    bounds = Bounds(file, threads, call)
    low, high = bounds.of(start)
    return CountedLoop(
        loop.counter.name,
        loop.counter_type,
        spelled_start,
        _less(file.source.slice(span(right)), [file.source.slice(span(a)) for a in addend]),
        "1" if step is update else file.source.slice(span(step)),
        sign == "<=",
        Span(loop.span.start, end),
        low,
        high,
        _less(bounds.spelled(right), [bounds.spelled(a) for a in addend]),
        "1" if step is update else bounds.spelled(step),
    )


def trips(loop: CountedLoop, bound: int | None, step: int | None) -> Trips | None:
    """The trip count: ceil((bound − lowest start) ÷ step), None unless all three are known."""
    if bound is None or step is None or step <= 0 or loop.low is None:
        return None
    end = bound + 1 if loop.inclusive else bound
    count = max(0, -(-(end - loop.low) // step))
    exact = loop.high is not None and (count == 0 or loop.high + (count - 1) * step < end)
    return Trips(loop, count, loop.low == 0 == loop.high and step == 1, exact)


def _step(file: CudaFile, update: Node, counter: str) -> Node | None:
    """What the header adds to the counter: the update itself for `++i`, X in `i += X` and `i = i + X`."""
    text = file.source.slice
    if update.type == "update_expression":
        return update if text(span(update)).replace(" ", "") in (f"++{counter}", f"{counter}++") else None
    left, right = update.child_by_field_name("left"), update.child_by_field_name("right")
    operator = update.child_by_field_name("operator")
    if update.type != "assignment_expression" or left is None or right is None or operator is None:
        return None
    if text(span(left)) != counter:
        return None
    if text(span(operator)) == "+=":
        return right
    first, added = right.child_by_field_name("left"), right.child_by_field_name("right")
    plus = right.child_by_field_name("operator")
    if right.type != "binary_expression" or first is None or added is None or plus is None:
        return None
    spelled = text(span(operator)) == "=" and text(span(plus)) == "+" and text(span(first)) == counter
    return added if spelled else None


def _addend(file: CudaFile, left: Node, counter: str) -> list[Node] | None:
    """What a condition adds to the counter: nothing in `i < n`, [n] in `i + n <= b`, None for other forms."""
    if file.source.slice(span(left)) == counter:
        return []
    first, added = left.child_by_field_name("left"), left.child_by_field_name("right")
    operator = left.child_by_field_name("operator")
    if left.type != "binary_expression" or first is None or added is None or operator is None:
        return None
    plus = file.source.slice(span(operator)) == "+" and file.source.slice(span(first)) == counter
    return [added] if plus else None


def _unbraced(value: Node) -> Node:
    """The one value in braces, `{0U}`, or the value itself."""
    return (
        value.named_children[0]
        if value.type == "initializer_list" and value.named_child_count == 1
        else value
    )


def _less(bound: str, addends: list[str]) -> str:
    return bound + "".join(f" - ({a})" for a in addends)


class Bounds:
    """Interval arithmetic on the start of a copy loop: thread coordinates are never negative.

    A divisor whose value is not known here (a template argument, a tile's extent) is taken to be positive.
    """

    def __init__(self, file: CudaFile, threads: int | None, call: Statement | None) -> None:
        self.file = file
        self.threads = threads
        self.arguments = _arguments(file, call)

    def spelled(self, node: Node, depth: int = 0) -> str:
        """The expression with locals that are never assigned replaced by their initialisers.

        `int stride = BM / 4;` is no constant to C++, but its value is one.
        """
        text = self.file.source.slice(span(node))
        if node.type == "identifier":
            value = self._only_value(node, text) if depth < 6 else None
            return f"({self.spelled(value, depth + 1)})" if value is not None else text
        if node.type == "qualified_identifier":
            return text  # `Cfg::BK` is no local BK
        edits = [
            (
                child.start_byte - node.start_byte,
                child.end_byte - node.start_byte,
                self.spelled(child, depth + 1),
            )
            for child in node.named_children
            if child.type not in ("comment", "type_descriptor", "template_argument_list")
        ]
        data = text.encode()
        for start, end, new in reversed(edits):
            data = data[:start] + new.encode() + data[end:]
        return data.decode()

    def of(self, node: Node, depth: int = 0) -> tuple[int | None, int | None]:
        """Lowest and highest value, None where unbounded or unknown."""
        text = self.file.source.slice(span(node))
        if node.type == "parenthesized_expression" and node.named_children:
            return self.of(node.named_children[0], depth)
        if node.type == "number_literal":
            try:
                return int(text.rstrip("uUlL"), 0), int(text.rstrip("uUlL"), 0)
            except ValueError:
                return None, None
        if text in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
            return 0, self.threads - 1 if self.threads and text == "threadIdx.x" else None
        if _EXTENT.fullmatch(text):
            return (1, None) if "Dim" in text else (0, None)
        if node.type == "identifier":
            return self._named(node, text, depth)
        if node.type == "binary_expression":
            return self._binary(node, depth)
        return None, None

    def _named(self, node: Node, name: str, depth: int) -> tuple[int | None, int | None]:
        macro = self.file.macros.get(name)
        if macro is not None and macro.body.isdigit() and meanings(self.file).sure(name, node.start_byte):
            return int(macro.body), int(macro.body)
        if depth > 6:
            return None, None
        value = self._only_value(node, name)
        return self.of(value, depth + 1) if value is not None else (None, None)

    def _only_value(self, at: Node, name: str) -> Node | None:
        """The initialiser of a name that the enclosing function declares once and never assigns, or the argument
        that the call gives for it."""
        node: Node | None = at
        while node is not None and node.type not in ("function_definition", "translation_unit"):
            node = node.parent
        if node is None:
            return None
        found: list[Node] = []
        parameter = self.arguments.get(name)
        if parameter is not None and node.start_byte <= parameter[0] < node.end_byte:
            found.append(parameter[1])
        for current in _written(node, self.file.source).get(name, ()):
            if current.type != "init_declarator":
                return None
            value = current.child_by_field_name("value")
            if value is not None:
                found.append(value)
        return _unbraced(found[0]) if len(found) == 1 else None

    def _binary(self, node: Node, depth: int) -> tuple[int | None, int | None]:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None or operator is None:
            return None, None
        (a, b), (c, d) = self.of(left, depth), self.of(right, depth)
        sign = self.file.source.slice(span(operator))
        if sign == "+":
            return _sum(a, c), _sum(b, d)
        if sign == "-":
            return _sum(a, -d if d is not None else None), _sum(b, -c if c is not None else None)
        both = a is not None and a >= 0 and c is not None and c >= 0
        if sign in ("*", "<<"):
            if both and b is not None and d is not None:
                return 0, b * d if sign == "*" else b << d
            return (0, None) if both else (None, None)
        if a is None or a < 0 or (sign == "/" and c is not None and c <= 0):
            return None, None
        if sign == "/" and c == d and c:
            return a // c, b // c if b is not None else None
        if sign == ">>" and c == d and c is not None and c >= 0:
            return a >> c, b >> c if b is not None else None
        if sign == "%" and c == d and c and c > 0:
            return (a, b) if b is not None and b < c else (0, c - 1)
        if sign == "&" and c == d and c is not None and c >= 0:
            return 0, c if b is None else min(b, c)
        if sign in ("/", ">>", "%", "&"):
            return 0, b
        return None, None


def _arguments(file: CudaFile, call: Statement | None) -> dict[str, tuple[int, Node]]:
    """A helper call's arguments by parameter name, with the offset of the parameter."""
    if call is None or call.call is None:
        return {}
    function = file.functions.get(call.call.name)
    root = file.tree.root
    listed = root.named_descendant_for_byte_range(call.call.arguments.start, call.call.arguments.end)
    if function is None or listed is None:
        return {}
    values = [a for a in listed.named_children if a.type != "comment"]
    names = [(d[0].name, d[0].offset) for p in function.parameters if (d := declarators(p))]
    return {name: (offset, value) for (name, offset), value in zip(names, values, strict=False)}


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


@lru_cache(maxsize=64)  # every name of a function asks
def _written(function: Node, source: SourceFile) -> Mapping[str, list[Node]]:
    """What declares or changes each name in a function's body, by the name as written."""
    found: dict[str, list[Node]] = {}
    stack = [c for c in function.named_children if c.type == "compound_statement"]
    while stack:
        current = stack.pop()
        field = {"assignment_expression": "left", "update_expression": "argument"}.get(
            current.type, "declarator"
        )
        written = current.child_by_field_name(field)
        if written is not None:
            found.setdefault(source.slice(span(written)), []).append(current)
        stack.extend(current.named_children)
    return found
