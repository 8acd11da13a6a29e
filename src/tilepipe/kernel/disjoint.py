"""Streaming in place: the proof that no tile loads what an earlier tile stores to the same array.

A load of tile j is made before the stores of tiles i < j, which stand after it in the original. Both addresses are
taken apart into what all threads of the block agree on, which must cancel in their difference, and a distance
between bounds over all threads and inner loops (`ranges.py`). If both move by the same step D > 0 from tile to tile,
they never meet where every store ends at or before the lowest load of the next tile:

    end of stores  ≤  start of loads + D        (D < 0: end of loads + D  ≤  start of stores)

Later tiles are further away still. Within one tile the load must stand first. What does not fit this is not proved.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tree_sitter import Node

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.affine import ONE, Form, number, symbol
from tilepipe.kernel.flow import Item
from tilepipe.kernel.increments import step_nodes
from tilepipe.kernel.meetings import CASTS, Meeting, size_key
from tilepipe.kernel.names import arguments_of, callee, operator_of
from tilepipe.kernel.ranges import Range, coefficients, constant, exactly, never_negative, product, quotient
from tilepipe.kernel.resolve import NotProvedError, Resolver, Symbols
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.trips import counted
from tilepipe.source import Span

if TYPE_CHECKING:
    from tilepipe.kernel.model import KernelModel

_DEPTH = 8  # definitions followed through definitions
_WHOLE = re.compile(r"(?:int|unsigned|unsigned int|long|long long|size_t|ptrdiff_t|u?int(?:32|64)_t)")


def settled(
    model: KernelModel, meetings: tuple[Meeting, ...], divergent: frozenset[Symbol]
) -> Refusal | None:
    """The first meeting of a load and a store that is not proved never to happen."""
    for meeting in meetings:
        try:
            apart = _Proof(model, divergent).apart(meeting)
        except NotProvedError:
            apart = False
        if not apart:
            return meeting.refusal
    return None


class _Proof:
    """One attempt; whatever is not understood raises NotProvedError."""

    def __init__(self, model: KernelModel, divergent: frozenset[Symbol]) -> None:
        self.model = model
        self.divergent = divergent
        self.names = Resolver(model, model.answers)
        self.loop = model.tile.loop
        self.moving: dict[str, Symbol] = {}  # loop variables met, by their names in forms
        self.met: list[int] = []  # the order of the body's statements that were evaluated

    def apart(self, meeting: Meeting) -> bool:
        stored, width = self._place(meeting.stored, meeting.store)
        loaded, length = self._place(meeting.loaded, meeting.load)
        step = self._step(loaded)
        threads = self.model.max_threads
        if never_negative(step - number(1), threads):
            near, far = loaded.lo, stored.hi
            gap = near + step - far - number(width) if near is not None and far is not None else None
        elif never_negative(number(-1) * step - number(1), threads):
            near, far = stored.lo, loaded.hi
            gap = near - step - far - number(length) if near is not None and far is not None else None
        else:
            return False
        return gap is not None and never_negative(gap, threads)

    # -- addresses, in bytes ---------------------------------------------------------------------------------------

    def _place(self, at: Span, item: Item) -> tuple[Range, int]:
        """Where an access begins, and how many bytes it covers."""
        node = self.names.node(at)
        if node.type == "assignment_expression":
            node = node.child_by_field_name("left") or node
        elif node.type == "update_expression":
            node = node.child_by_field_name("argument") or node
        self.met.append(item.order)
        return self._address(node, item.own.uses, item.statement.span.start)

    def _address(self, node: Node, uses: Symbols, start: int) -> tuple[Range, int]:
        argument = node.child_by_field_name("argument")
        if node.type == "parenthesized_expression":
            return self._address(node.named_children[0], uses, start)
        if node.type == "field_expression" and argument is not None and operator_of(node) == ".":
            return self._address(argument, uses, start)
        if node.type == "pointer_expression" and operator_of(node) == "*" and argument is not None:
            return self._pointer(argument, uses, start, 0), self._size(self.names.text(node), start)
        listed = node.child_by_field_name("indices")
        if node.type != "subscript_expression" or argument is None or listed is None:
            raise NotProvedError("the access is not an array element")
        size = self._size(self.names.text(node), start)
        index = self._value(listed.named_children[0], uses, 0)
        return self._pointer(argument, uses, start, 0) + self._bytes(index, size), size

    def _size(self, expression: str, start: int) -> int:
        found = self.model.answers.get(size_key(start, expression))
        if not isinstance(found, int):
            raise NotProvedError("the size of the element is not known")
        return found

    def _bytes(self, index: Range, size: int) -> Range:
        found = product(index, exactly(number(size)))
        assert found is not None
        return found

    def _pointer(self, node: Node, uses: Symbols, start: int, depth: int) -> Range:
        """The address that a pointer holds."""
        if node.type == "parenthesized_expression":
            return self._pointer(node.named_children[0], uses, start, depth)
        if node.type == "cast_expression":
            value = node.child_by_field_name("value")
            return self._pointer(value or node, uses, start, depth)
        if node.type == "call_expression" and callee(node) in CASTS:
            return self._pointer(arguments_of(node)[0], uses, start, depth)
        if node.type == "pointer_expression" and operator_of(node) == "&":
            return self._address(node.child_by_field_name("argument") or node, uses, start)[0]
        if node.type == "binary_expression" and operator_of(node) in ("+", "-"):
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is None or right is None:
                raise NotProvedError("a pointer is not understood")
            size = self._size(f"*({self.names.text(left)})", start)
            added = self._bytes(self._value(right, uses, 0), size)
            base = self._pointer(left, uses, start, depth)
            return base + added if operator_of(node) == "+" else base + -added
        if node.type != "identifier" or depth > _DEPTH:
            raise NotProvedError("a pointer is not understood")
        found = self._symbol(self.names.text(node), uses)
        if found is None or found.reference or not (found.pointer or found.is_array):
            raise NotProvedError("a pointer is not understood")
        agreed = self._agreed(found)
        try:
            if found in self.model.split.carried:
                raise NotProvedError(f"`{found.name}` moves")
            item, value = self._followed(found, uses)
            return self._pointer(value, item.own.uses, item.statement.span.start, depth + 1)
        except NotProvedError:
            if agreed is None:
                raise
            return agreed

    # -- values ----------------------------------------------------------------------------------------------------

    def _symbol(self, name: str, uses: Symbols) -> Symbol | None:
        found = [s for s in uses if s.name == name]
        if len(found) > 1:
            raise NotProvedError(f"`{name}` is not one variable")
        return found[0] if found else None

    def _agreed(self, found: Symbol) -> Range | None:
        """A variable as a symbol: one that has the same value for all threads, at store and load alike."""
        name = f"{found.name}@{found.key[0]}"
        if found in self.model.split.carried:
            if found in self.divergent:
                return self._started(found, name)
            self.moving[name] = found
            return exactly(symbol(name))
        if self.model.tile.flow.definers[found] or found in self.divergent or found in self.loop.own.defs:
            return None
        return exactly(symbol(name))

    def _started(self, found: Symbol, name: str) -> Range:
        """A loop variable that starts differently for each thread: its start, and what it has moved since."""
        item = self.loop if found in self.loop.declares else None
        value = self.names.value(self.loop, found.name) if item is not None else None
        if value is None or found.pointer or self.loop.init_effects.uses & self.model.split.carried - {found}:
            raise NotProvedError(f"`{found.name}` differs between threads")
        self.moving[name] = found
        return self._value(value, self.loop.init_effects.uses, 1) + exactly(symbol(name))

    def _followed(self, found: Symbol, uses: Symbols) -> tuple[Item, Node]:
        """The one declaration that gives a variable its value, made of what has that value still."""
        defined = self.names.defined(found.name, uses)
        if defined is None or defined[0].statement.context:
            raise NotProvedError(f"`{found.name}` is not followed")
        item = defined[0]
        here = self.model.tile.flow.of.get(id(item.statement))
        if here is not None:
            self.met.append(here.order)
        for used in item.own.uses:
            moved = used in self.model.split.carried
            changed = len(self.names.flow.definers[used]) > (0 if used.kind == "param" else 1)
            if (moved and here is None) or (changed and not moved):
                raise NotProvedError(f"`{used.name}` changes after `{found.name}` is made of it")
        return item, defined[1]

    def _value(self, node: Node, uses: Symbols, depth: int) -> Range:
        text = self.names.text(node)
        if depth > _DEPTH:
            raise NotProvedError("too many definitions")
        if node.type == "parenthesized_expression":
            return self._value(node.named_children[0], uses, depth)
        if node.type == "cast_expression":
            value = node.child_by_field_name("value")
            if value is not None and _WHOLE.fullmatch(
                self.names.text(node.child_by_field_name("type") or node)
            ):
                return self._value(value, uses, depth)
        if node.type == "number_literal":
            digits = text.rstrip("uUlL")
            if digits.isdigit() and (digits == "0" or not digits.startswith("0")):
                return exactly(number(int(digits)))
        if node.type == "field_expression":
            base, _, axis = text.partition(".")
            if base == "threadIdx" and axis in ("x", "y", "z"):
                return Range(number(0), symbol(f"blockDim.{axis}") - number(1))
            if base in ("blockIdx", "blockDim", "gridDim") and axis in ("x", "y", "z"):
                return exactly(symbol(text))
        if node.type == "identifier":
            return self._named(text, uses, depth)
        if node.type == "unary_expression" and operator_of(node) == "-":
            return -self._value(node.child_by_field_name("argument") or node, uses, depth + 1)
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if node.type != "binary_expression" or left is None or right is None:
            raise NotProvedError(f"`{text}` is not understood")
        return self._binary(
            operator_of(node), self._value(left, uses, depth), self._value(right, uses, depth), text
        )

    def _binary(self, sign: str, a: Range, b: Range, text: str) -> Range:
        if sign in ("+", "-"):
            return a + b if sign == "+" else a + -b
        found = None
        divisor = constant(b.point)
        if sign == "*":
            found = product(a, b)
        elif sign in ("/", "%", ">>", "<<", "&") and divisor is not None:
            found = quotient(sign, a, divisor)
        if found is None:
            raise NotProvedError(f"`{text}` has no bounds")
        return found

    def _named(self, name: str, uses: Symbols, depth: int) -> Range:
        found = self._symbol(name, uses)
        value = self.names.constant(name)
        if found is None or (found.const and value is not None):
            if value is None or self._declared_elsewhere(name, found):
                raise NotProvedError(f"`{name}` is not known")
            return exactly(value)
        if found.pointer or found.is_array or found.reference:
            raise NotProvedError(f"`{name}` is not a number")
        agreed = self._agreed(found)
        if agreed is not None:
            return agreed
        counter = next(
            (i for i in self.model.tile.flow.items if i.statement.is_loop and i.statement.counter == found),
            None,
        )
        if counter is not None:
            return self._counter(counter, depth)
        item, node = self._followed(found, uses)
        return self._value(node, item.own.uses, depth + 1)

    def _declared_elsewhere(self, name: str, found: Symbol | None) -> bool:
        """Whether the kernel has another variable of that name, which the compiler may have been asked about."""
        declared = (s for st in self.model.analysed.body.walk() for s in st.declares)
        return any(s.name == name and s != found for s in declared)

    def _counter(self, item: Item, depth: int) -> Range:
        """The counter of a `for` that counts up: from its lowest start to below its bound."""
        loop = counted(self.model.file, item.statement, None)
        if loop is None or item.statement.context:
            raise NotProvedError("a loop is not understood")
        uses = item.own.uses
        start, bound, step = (
            self._value(self.names.expression(t), uses, depth + 1)
            for t in (loop.start, loop.bound, loop.step)
        )
        if step.lo is None or not never_negative(step.lo):
            raise NotProvedError("a loop counts down")
        self.met.append(item.order)
        return Range(start.lo, (bound + exactly(number(0 if loop.inclusive else -1))).hi)

    # -- from tile to tile -----------------------------------------------------------------------------------------

    def _step(self, loaded: Range) -> Form:
        """What one tile adds to an address, in bytes."""
        bound = loaded.lo if loaded.lo is not None else loaded.hi
        if bound is None:
            raise NotProvedError("the load's address has no bounds")
        total = number(0)
        for monomial, factor in coefficients(bound).items():
            moved = [name for name in monomial if name in self.moving]
            if len(moved) > 1:
                raise NotProvedError("the address is not linear in the tile's number")
            if moved:
                rest = [name for name in monomial if name != moved[0]]
                term = number(factor) * self._moves(self.moving[moved[0]])
                for name in rest:
                    term = term * symbol(name)
                total = total + term
        return total

    def _moves(self, state: Symbol) -> Form:
        """What an iteration adds to a loop variable: in its unit, in bytes for a pointer."""
        body = self.model.tile.flow.definers[state]
        if state in self.loop.condition_effects.defs or any(i.parents for i in body):
            raise NotProvedError(f"`{state.name}` does not move evenly")
        if any(not (i.order < min(self.met) or i.order > max(self.met)) for i in body):
            raise NotProvedError(f"`{state.name}` moves between load and store")
        if any("continue" in i.own.flags for i in self.model.tile.flow.items):
            raise NotProvedError("a `continue` may skip what moves the loop on")
        total = number(0)
        places = [(i.statement.span, i.own.uses) for i in body]
        if self.loop.update is not None and state in self.loop.update_effects.defs:
            places.append((self.loop.update, self.loop.update_effects.uses))
        for at, uses in places:
            steps = step_nodes(self.names.node(at), state.name, self.names.text)
            if steps is None:
                raise NotProvedError(f"`{state.name}` does not move evenly")
            for sign, node in steps:
                value = self._value(node, uses, 0).point if node is not None else number(1)
                if value is None or any(name in self.moving for m in value.terms for name in m if m != ONE):
                    raise NotProvedError(f"`{state.name}` does not move evenly")
                total = total + number(sign) * value
        return total * number(self._pointee(state)) if state.pointer else total

    def _pointee(self, pointer: Symbol) -> int:
        wanted = f"*({pointer.name})"
        sizes = {
            v for k, v in self.model.answers.items() if k.startswith("bytes:") and k.endswith(f":{wanted}")
        }
        known = [s for s in sizes if isinstance(s, int)]
        if len(known) != 1:
            raise NotProvedError("the size of the element is not known")
        return known[0]
