"""Names, addresses and memory of a kernel: what an expression designates, and the events of reading and storing."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from tree_sitter import Node

from tilepipe.lint.nodes import Memory, argument_of, free, is_zero, operator_of, stride_of, text_of
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
    unknown,
)

_MAX_THREADS = 1024
_GRID = 1 << 16


class Places(State):
    """Evaluates lvalues, and loads and stores through them."""

    @abstractmethod
    def value(self, node: Node) -> Any:
        """The value of an expression, with its events recorded."""

    @abstractmethod
    def call(self, node: Node) -> Any:
        """Walk a call; its value."""

    @abstractmethod
    def expanded(self, text: str, node: Node) -> Any:
        """Walk a macro's expansion in the place of its use; its value if it is one expression."""

    def number(self, node: Node) -> Num:
        """The value of an expression as a number."""
        found = self.value(node)
        return found if isinstance(found, Num) else ANY

    # -- names ---------------------------------------------------------------------------------------------

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

    def _cast(self, node: Node) -> Any:
        kind = text_of(node.child_by_field_name("type"))
        inner = node.child_by_field_name("value")
        return self.cast(kind, self.value(inner) if inner is not None else ANY)

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
