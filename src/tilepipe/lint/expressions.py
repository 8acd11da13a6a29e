"""Expressions of a kernel, evaluated to ranges and addresses."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from dataclasses import replace
from typing import Any

from tree_sitter import Node

from tilepipe.lint.events import NotUnderstoodError
from tilepipe.lint.nodes import (
    Closure,
    Memory,
    argument_of,
    free,
    node_span,
    operator_of,
    stride_of,
    text_of,
)
from tilepipe.lint.places import Places
from tilepipe.lint.state import step
from tilepipe.lint.values import (
    ANY,
    NO_TAGS,
    Cell,
    Num,
    Pointer,
    arithmetic,
    const,
    hull,
    unknown,
)

_INTEGER = re.compile(r"^(0[xX][\da-fA-F']+|0[bB][01']+|[\d']+)[uUlLzZ]*$")
_COORDINATE = r"(?:threadIdx|blockDim)\.[xyz]"
_LINEAR = re.compile(rf"{_COORDINATE}(?:\*{_COORDINATE})*")  # a term of a thread's linear number


class Expressions(Places):
    """Evaluates rvalues."""

    @abstractmethod
    def assembly(self, node: Node) -> None:
        """Walk inline assembly."""

    def value(self, node: Node) -> Any:
        """The value of an expression, with its events recorded."""
        handler = _HANDLERS.get(node.type)
        if handler is not None:
            return handler(self, node)
        result: Any = ANY
        for child in node.named_children:
            if child.type not in ("comment", "type_descriptor"):
                result = self.value(child)
        return ANY if len(node.named_children) != 1 else result

    # -- leaves --------------------------------------------------------------------------------------------

    def _literal(self, node: Node) -> Any:
        match = _INTEGER.match(text_of(node))
        if not match:
            return unknown()
        digits = match.group(1).replace("'", "")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return const(
            int(digits, 8)
            if octal and set(digits) <= set("01234567")
            else int(digits, 0 if not octal else 10)
        )

    def _identifier(self, node: Node) -> Any:
        return self.load(self.lvalue(node), node)

    # -- operators -----------------------------------------------------------------------------------------

    def _binary(self, node: Node) -> Any:
        operator = operator_of(node)
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return ANY
        a = self.value(left)
        if operator in ("&&", "||") and isinstance(a, Num) and a.truth is (operator == "||"):
            return const(int(operator == "||"), a.tags)
        b = self.value(right)
        if isinstance(a, Pointer) and isinstance(b, Num) and operator in "+-":
            return self._moved(a, b if operator == "+" else arithmetic("-", const(0), b))
        if isinstance(b, Pointer) and isinstance(a, Num) and operator == "+":
            return self._moved(b, a)
        if isinstance(a, Num) and isinstance(b, Num):
            return self._linear(arithmetic(operator, a, b))
        tags = a.tags if isinstance(a, Num) else b.tags if isinstance(b, Num) else NO_TAGS
        return unknown(tags)

    def _linear(self, value: Num) -> Num:
        """The linear number of a thread is less than the number of threads, whatever the block's shape."""
        terms = value.form.replace("(", "").replace(")", "").split("+") if value.form else []
        if self.launch.threads and len(terms) > 1 and all(_LINEAR.fullmatch(term) for term in terms):
            return replace(value, hi=min(value.hi, self.launch.threads - 1))
        return value

    def _moved(self, pointer: Pointer, by: Num) -> Pointer:
        if pointer.dims and pointer.dims == pointer.array.dims and len(pointer.dims) > 1:
            before = pointer.lead if pointer.lead is not None else const(0)
            return replace(
                step(pointer, by, stride_of(pointer)), lead=arithmetic("+", before, by), inner=const(0)
            )
        if pointer.dims:
            return step(pointer, by, stride_of(pointer))
        return step(free(pointer), by, pointer.elem or None)

    def _unary(self, node: Node) -> Any:
        operator, inner = operator_of(node), self.value(argument_of(node))
        if not isinstance(inner, Num):
            return ANY
        if operator == "-":
            return arithmetic("-", const(0), inner)
        if operator == "!":
            truth = inner.truth
            return Num(0, 1, inner.tags) if truth is None else const(int(not truth), inner.tags)
        if operator == "~" and inner.known is not None:
            return const(~inner.known, inner.tags)
        return inner if operator == "+" else unknown(inner.tags)

    def _pointer(self, node: Node) -> Any:
        inner = argument_of(node)
        if operator_of(node) == "*":
            return self.load(self.lvalue(node), node)
        at = self.lvalue(inner)
        if isinstance(at, Memory):
            return at.pointer
        return at.value if isinstance(at, Cell) and isinstance(at.value, Pointer) else ANY

    def _assignment(self, node: Node) -> Any:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return ANY
        operator = operator_of(node)
        value = self.value(right)
        at = self.lvalue(left)
        if operator != "=" and isinstance(at, Cell):
            value = self._combined(at.value, operator[:-1], value)
        own = (
            isinstance(at, Cell) and re.search(rf"\b{re.escape(text_of(left))}\b", text_of(right)) is not None
        )
        self.store(at, value, node, right, operator, moves=operator != "=" or own)
        return value

    def _combined(self, old: Any, operator: str, value: Any) -> Any:
        if isinstance(old, Pointer) and isinstance(value, Num) and operator in "+-":
            return self._moved(old, value if operator == "+" else arithmetic("-", const(0), value))
        if isinstance(old, Num) and isinstance(value, Num):
            return arithmetic(operator, old, value)
        return ANY

    def _update(self, node: Node) -> Any:
        at = self.lvalue(argument_of(node))
        sign = "+" if operator_of(node) == "++" else "-"
        if not isinstance(at, Cell):
            if isinstance(at, Memory):
                self.store(at, ANY, node, None, "+=")
            return ANY
        old = at.value
        self.assign(at, self._combined(old, sign, const(1)), moves=True)
        return at.value if text_of(node).startswith(("++", "--")) else old

    def _conditional(self, node: Node) -> Any:
        condition, then, other = (
            node.child_by_field_name(n) for n in ("condition", "consequence", "alternative")
        )
        if condition is None or then is None or other is None:
            return ANY
        test = self.number(condition)
        if test.truth is not None:
            found = self.value(then if test.truth else other)
            return replace(found, tags=found.tags | test.tags) if isinstance(found, Num) else found
        at = node_span(condition)
        with self.guarded(at, test.tags, True):
            a, b = self.value(then), self.value(other)
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Pointer) and (not isinstance(y, Pointer) or x.array is not y.array):
                return x  # the other is an address that is only named
        joined = hull(a, b)
        return replace(joined, tags=joined.tags | test.tags) if isinstance(joined, Num) else joined

    def _sizeof(self, node: Node) -> Any:
        kind, inner = node.child_by_field_name("type"), node.child_by_field_name("value")
        if kind is not None:
            size = self.size_of(text_of(kind))
            return const(size) if size else Num(1, math.inf)
        text = text_of(inner).strip("() ")
        size = self.size_of(text)
        cell = self.lookup(text)
        if not size and cell is not None:
            pointer = cell.value.pointer if isinstance(cell.value, Memory) else cell.value
            if isinstance(pointer, Pointer) and pointer.dims:
                size = (stride_of(pointer) or 0) * (pointer.dims[0] or 0)
            else:
                size = cell.size
        return const(size) if size else Num(1, math.inf)

    def _comma(self, node: Node) -> Any:
        result: Any = ANY
        for child in node.named_children:
            result = self.value(child)
        return result

    def _lambda(self, node: Node) -> Any:
        return Closure(node, list(self.scopes), self.header)

    def _list(self, node: Node) -> Any:
        values = [self.value(c) for c in node.named_children if c.type != "comment"]
        return values[0] if len(values) == 1 else ANY

    def _call(self, node: Node) -> Any:
        return self.load(self.call(node), node)

    def _asm(self, node: Node) -> Any:
        self.assembly(node)
        return ANY

    def _qualified(self, node: Node) -> Any:
        return self.named(text_of(node).rsplit("::", 1)[-1], node)

    def _error(self, node: Node) -> Any:
        raise NotUnderstoodError(f"`{text_of(node)[:40]}` does not parse")


_HANDLERS: dict[str, Any] = {
    "number_literal": Expressions._literal,
    "true": lambda self, node: const(1),
    "false": lambda self, node: const(0),
    "identifier": Expressions._identifier,
    "qualified_identifier": Expressions._qualified,
    "subscript_expression": Expressions._identifier,
    "field_expression": Expressions._identifier,
    "parenthesized_expression": Expressions._identifier,
    "condition_clause": Expressions._comma,
    "pointer_expression": Expressions._pointer,
    "binary_expression": Expressions._binary,
    "unary_expression": Expressions._unary,
    "update_expression": Expressions._update,
    "assignment_expression": Expressions._assignment,
    "conditional_expression": Expressions._conditional,
    "cast_expression": Expressions._cast,
    "sizeof_expression": Expressions._sizeof,
    "comma_expression": Expressions._comma,
    "lambda_expression": Expressions._lambda,
    "initializer_list": Expressions._list,
    "argument_list": Expressions._list,
    "call_expression": Expressions._call,
    "gnu_asm_expression": Expressions._asm,
    "ERROR": Expressions._error,
    "string_literal": lambda self, node: ANY,
    "concatenated_string": lambda self, node: ANY,
    "char_literal": lambda self, node: ANY,
}
