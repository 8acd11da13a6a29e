"""Expressions of a kernel, evaluated to ranges and addresses; reads of shared memory become events."""

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
    is_zero,
    node_span,
    operator_of,
    stride_of,
    text_of,
)
from tilepipe.lint.state import State, step
from tilepipe.lint.values import (
    ANY,
    DATA,
    NO_TAGS,
    THREAD,
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
_MAX_THREADS = 1024
_GRID = 1 << 16


class Expressions(State):
    """Evaluates rvalues and lvalues."""

    @abstractmethod
    def call(self, node: Node) -> Any:
        """Walk a call; its value."""

    @abstractmethod
    def assembly(self, node: Node) -> None:
        """Walk inline assembly."""

    @abstractmethod
    def expanded(self, text: str, node: Node) -> Any:
        """Walk a macro's expansion in the place of its use; its value if it is one expression."""

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

    def number(self, node: Node) -> Num:
        """The value of an expression as a number."""
        found = self.value(node)
        return found if isinstance(found, Num) else ANY

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

    def named(self, name: str, node: Node) -> Any:
        """A name that no scope holds: a macro, a constant of the file, or unknown."""
        if name in self.resolving or len(self.resolving) > 32:
            return ANY
        self.resolving.add(name)
        try:
            if name in self.program.macros:
                parameters, body = self.program.macros[name]
                return self.expanded(body, node) if parameters is None and body else ANY
            if name in self.program.constants:
                return self.value(self.program.constants[name])
        finally:
            self.resolving.discard(name)
        return {"true": const(1), "false": const(0), "nullptr": const(0), "warpSize": const(32)}.get(
            name, ANY
        )

    def builtin(self, name: str, axis: str) -> Any:
        """threadIdx, blockIdx, blockDim, gridDim."""
        at = "xyz".index(axis) if axis in "xyz" else 0
        extent = self.launch.block[at]
        if name == "threadIdx":
            if extent == 1:
                return const(0)
            most = extent or self.launch.threads or _MAX_THREADS
            return Num(0, most - 1, frozenset({THREAD}), f"threadIdx.{axis}")
        if name == "blockIdx":
            return const(0)
        if name == "blockDim":
            if extent is not None:
                return const(extent)
            return Num(1, self.launch.threads or _MAX_THREADS, NO_TAGS, f"blockDim.{axis}")
        return const(_GRID)

    # -- lvalues -------------------------------------------------------------------------------------------

    def lvalue(self, node: Node) -> Any:
        """What an expression designates: a Cell, a Memory, or (no lvalue) its value."""
        kind = node.type
        if kind == "identifier":
            name = text_of(node)
            cell = self.lookup(name)
            if cell is not None:
                return cell.value if isinstance(cell.value, Memory) else cell
            return self.named(name, node)
        if kind in ("parenthesized_expression", "condition_clause"):
            inner = [c for c in node.named_children if c.type != "comment"]
            return self.lvalue(inner[-1]) if inner else ANY
        if kind == "subscript_expression":
            return self._element(node)
        if kind == "pointer_expression" and operator_of(node) == "*":
            return self._through(self.value(argument_of(node)), const(0))
        if kind == "field_expression":
            return self._member(node)
        if kind == "call_expression":
            return self.call(node)
        if kind == "cast_expression":
            at = self.lvalue(node.child_by_field_name("value") or node)
            return (
                at
                if isinstance(at, Memory) and "*" not in text_of(node.child_by_field_name("type"))
                else self._cast(node)
            )
        return self.value(node)

    def load(self, at: Any, node: Node) -> Any:
        """The value of what `lvalue` returned."""
        if isinstance(at, Cell):
            return at.value
        if isinstance(at, Memory):
            pointer = at.pointer
            if pointer.dims:
                return pointer  # an array decays to a pointer
            if pointer.array.space == "shared" and not self.silent:
                self.access("read", pointer, pointer.elem, node)
            return unknown(frozenset({DATA}))
        return at

    def _element(self, node: Node) -> Any:
        listed = node.child_by_field_name("indices")
        base = self.value(node.child_by_field_name("argument") or node)
        index = self.number(listed.named_children[0]) if listed is not None and listed.named_children else ANY
        return self._through(base, index)

    def _through(self, base: Any, index: Num) -> Any:
        """`base[index]`."""
        if not isinstance(base, Pointer):
            return ANY
        if not base.dims:
            start = base if index.known == 0 else free(base)
            return Memory(step(start, index, base.elem or None))
        lead = base.lead
        whole = base.dims == base.array.dims and len(base.dims) > 1 and not base.array.dynamic
        stride = stride_of(base)
        moved = step(base, index, stride, base.dims[0])
        if whole:
            before = lead.known if lead is not None else 0
            at = arithmetic("+", index, const(before)) if before is not None else unknown(index.tags)
            extent = base.dims[0]
            if extent is not None and at.known is None:
                at = replace(at, lo=max(at.lo, 0), hi=min(at.hi, extent - 1))
            moved = replace(moved, lead=at, inner=const(0))
        return Memory(replace(moved, dims=base.dims[1:]))

    def _member(self, node: Node) -> Any:
        owner, name = node.child_by_field_name("argument"), text_of(node.child_by_field_name("field"))
        if owner is not None and owner.type == "identifier":
            text = text_of(owner)
            if text in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
                return self.builtin(text, name)
        at = self.lvalue(owner) if owner is not None else ANY
        if isinstance(at, Cell):
            at = at.value
        if isinstance(at, Memory):
            return at if not at.pointer.dims else ANY
        if isinstance(at, Pointer) and operator_of(node) == "->":
            return Memory(replace(at, dims=()))
        return ANY

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

    def store(
        self, at: Any, value: Any, node: Node, right: Node | None, operator: str, moves: bool = False
    ) -> None:
        """Assign to what `lvalue` returned."""
        if isinstance(at, Cell):
            self.assign(at, value, moves)
        elif isinstance(at, Memory) and at.pointer.array.space == "shared":
            if operator != "=":
                self.access("read", at.pointer, at.pointer.elem, node)
            zero = right is not None and is_zero(text_of(right))
            tags = value.tags if isinstance(value, Num) else NO_TAGS
            self.access("store", at.pointer, at.pointer.elem, node, zero=zero, source_tags=tags)

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

    def _cast(self, node: Node) -> Any:
        kind = text_of(node.child_by_field_name("type"))
        inner = node.child_by_field_name("value")
        return self.cast(kind, self.value(inner) if inner is not None else ANY)

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
