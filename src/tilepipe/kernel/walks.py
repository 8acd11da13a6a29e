"""From an address in shared memory to the accesses that are made with it – or why one is not understood.

The walk goes outwards: subscripts, `&`, what is added to an address, a cast to a pointer to something else, and what
uses the value in the end: a plain read or write, a `wmma` load or store, or inline assembly that takes the address in
shared memory (`ldmatrix`, `ld.shared`). Helpers of the file, pointers that are set once, and macros are followed with
the address that they are given.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tree_sitter import Node

from tilepipe.kernel import known
from tilepipe.kernel.binding import namespaces
from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.handed import hands_out
from tilepipe.kernel.intervals import ANY, Range, number
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.mentions import DEPTH, KeepsLayoutError, Mentions
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.names import Function, arguments_of, callee, operator_of, reaches
from tilepipe.kernel.symbols import declarators
from tilepipe.kernel.wmma import POINTERS, fragment_line
from tilepipe.source.parse import span

_ROWS = re.compile(r"\b(?:ldmatrix|stmatrix)\.[\w.:]*\bb16\b")  # 16 bytes at each lane's address
_SHARED = re.compile(r"\b(?:ld|st)\.(?:volatile\.)?shared(?:::cta)?(?:\.v([248]))?\.[a-z](8|16|32|64)\b")
_VALUES = ("assignment_expression", "binary_expression", "expression_statement", "init_declarator", "unary_expression",
           "conditional_expression", "update_expression", "return_statement", "comma_expression", "condition_clause",
           "initializer_list", "subscript_argument_list", "for_statement", "gnu_asm_input_operand",
           "gnu_asm_output_operand")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Walk:
    """Where a walk stands: the address so far, as a row and a column in elements, the bytes of what a pointer to it
    points to (`unit`), and the node of the file that gives names their meaning. `place` is the last node of the
    kernel's own text, `through` the offsets of the variables that have held the address."""

    row: Range
    column: Range
    unit: int
    at: Node
    depth: int
    own_text: bool  # nodes are those of the kernel's text, not of an expanded macro or a helper
    place: Node
    through: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class RowAccess:
    """One access: the element's row and column, bytes from there within the row, the source line.

    `leading` is the argument that tells a `wmma` access the distance of its `lines`, in elements of `walk.unit` bytes;
    `stored` says that it writes and does not read, `walk` how it is reached.
    """

    row: Range
    column: Range
    bytes: int
    line: int
    walk: Walk
    stored: bool = False
    leading: Node | None = None
    lines: int = 1


class Walks:
    """Accesses to memory that is counted in elements of `element` bytes."""

    def __init__(self, model: KernelModel, ranges: Ranges, element: int) -> None:
        self.model = model
        self.ranges = ranges
        self.element = element
        self.mentions = Mentions(model.file)

    def _subscript(self, node: Node, walk: Walk) -> tuple[Range | None, Node | None]:
        """The index that a node is subscripted with, and the subscript expression."""
        parent = node.parent
        if parent is None or parent.type != "subscript_expression":
            return None, None
        if parent.child_by_field_name("argument") != node:
            return None, None
        listed = parent.child_by_field_name("indices")
        if listed is None or len(listed.named_children) != 1:
            return None, None
        return self.ranges.of(listed.named_children[0], walk.at), parent

    def _lvalue(self, node: Node, walk: Walk, size: int) -> list[RowAccess]:
        """An element, or a vector of `size` bytes that begins at it."""
        parent = self._parent(node, walk)
        kind = parent.type
        access = [self._access(walk, size, _assigned(node))]
        if kind == "parenthesized_expression":
            return self._lvalue(parent, walk, size)
        if kind == "pointer_expression" and operator_of(parent) == "&":
            return self._address(parent, replace(walk, unit=size))
        if kind == "field_expression" and operator_of(parent) == ".":
            outer = parent.parent
            if outer is not None and outer.type in _VALUES and not hands_out(outer):
                return access
        if kind == "cast_expression" and "&" not in self._cast_type(parent):
            return access
        if kind == "argument_list" and parent.parent is not None:
            return self._argument_value(node, parent.parent, walk, access)
        if kind in _VALUES and not hands_out(parent):
            return access
        raise self._not_understood(walk)

    def _argument_value(self, node: Node, call: Node, walk: Walk, access: list[RowAccess]) -> list[RowAccess]:
        """An element as the argument of a call that takes values."""
        name = callee(call)
        function = self._function(call, walk)
        if name in known.CASTS:
            kind = self._template_type(call)
            if kind.endswith("&"):
                size = self._sizeof(kind[:-1], walk)
                return self._lvalue(call, walk, size)
            if name == "static_cast" and "*" not in kind:
                return access
        elif function is not None and not function.foreign:
            index = arguments_of(call).index(node)
            parameter = function.parameters[index] if index < len(function.parameters) else None
            if parameter is not None and all(
                not d.reference and not d.pointer for d in declarators(parameter)
            ):
                return access
        elif function is None and known.is_pure(name):
            return access
        raise self._not_understood(walk)

    # -- from an address to its use ------------------------------------------------------------------------------

    def _address(self, node: Node, walk: Walk) -> list[RowAccess]:
        """A pointer to an element of the row, as an expression."""
        parent = self._parent(node, walk)
        kind = parent.type
        if kind == "parenthesized_expression":
            return self._address(parent, walk)
        if kind == "binary_expression" and operator_of(parent) == "+":
            sides = [parent.child_by_field_name(n) for n in ("left", "right")]
            other = sides[0] if sides[1] == node else sides[1]
            added = self.ranges.of(other, walk.at) if other is not None else ANY
            return self._address(parent, self._moved(walk, added))
        if kind == "binary_expression" and operator_of(parent) == "-":
            left, right = parent.child_by_field_name("left"), parent.child_by_field_name("right")
            if left == node and right is not None:
                return self._address(parent, self._moved(walk, -self.ranges.of(right, walk.at)))
        if kind == "pointer_expression" and operator_of(parent) == "*":
            return self._lvalue(parent, walk, walk.unit)
        if kind == "subscript_expression":
            index, inner = self._subscript(node, walk)
            if index is not None and inner is not None:
                return self._lvalue(inner, self._moved(walk, index), walk.unit)
        if kind == "cast_expression":
            return self._cast_to(parent, self._cast_type(parent), walk)
        if kind == "argument_list" and parent.parent is not None:
            return self._argument(node, parent.parent, walk)
        if kind == "init_declarator":
            return self._variable(node, parent, walk, self._address)
        raise self._not_understood(walk)

    def _moved(self, walk: Walk, by: Range) -> Walk:
        """The walk at an address so many times what it points to further on."""
        if walk.unit % self.element:
            raise self._not_understood(walk)
        return replace(walk, column=walk.column + by * number(walk.unit // self.element))

    def _cast_to(self, node: Node, kind: str, walk: Walk) -> list[RowAccess]:
        """An address cast to a pointer to something else."""
        if not kind.endswith("*"):
            raise self._not_understood(walk)
        return self._address(node, replace(walk, unit=self._sizeof(kind[:-1], walk)))

    def _argument(self, node: Node, call: Node, walk: Walk) -> list[RowAccess]:
        """An address as the argument of a call."""
        name, arguments = callee(call), arguments_of(call)
        self._function(call, walk)
        if name in known.CASTS:
            return self._cast_to(call, self._template_type(call), walk)
        index = arguments.index(node)
        if name == "__cvta_generic_to_shared":
            return self._in_shared(call, walk)
        if POINTERS.get(name) == index and len(arguments) > 2:
            stored = name == "store_matrix_sync"
            line = fragment_line(arguments[1 if stored else 0], walk.at, self.ranges)
            return [replace(self._access(walk, line * walk.unit, stored), leading=arguments[2], lines=line)]
        if name in known.ATOMICS and index == 0:
            return [self._access(walk, walk.unit)]
        return self._helper(call, index, walk, self._address)

    def _in_shared(self, node: Node, walk: Walk) -> list[RowAccess]:
        """An address in the shared window, an integer."""
        parent = self._parent(node, walk)
        kind = parent.type
        if kind in ("parenthesized_expression", "cast_expression"):
            return self._in_shared(parent, walk)
        if kind == "init_declarator":
            return self._variable(node, parent, walk, self._in_shared)
        if kind == "argument_list" and parent.parent is not None:
            call = parent.parent
            if callee(call) in known.CASTS:
                return self._in_shared(call, walk)
            return self._helper(call, arguments_of(call).index(node), walk, self._in_shared)
        while parent.type.startswith("gnu_asm_input") and parent.parent is not None:
            parent = parent.parent
        if parent.type == "gnu_asm_expression":
            return [self._access(walk, self._asm_bytes(parent, walk))]
        raise self._not_understood(walk)

    def _asm_bytes(self, node: Node, walk: Walk) -> int:
        """Bytes that an instruction takes at the one address that its text has."""
        code = node.child_by_field_name("assembly_code")
        text = (code.text or b"").decode() if code is not None else ""
        if len(re.findall(r"\[\s*%\d+\s*\]", text)) == 1 == text.count("["):
            if _ROWS.search(text):
                return 16
            if (found := _SHARED.search(text)) is not None:
                return int(found.group(1) or 1) * int(found.group(2)) // 8
        raise KeepsLayoutError(
            f"the inline assembly reached from line {self._line(walk.at)} is not understood"
        )

    # -- what carries an address on ------------------------------------------------------------------------------

    def _variable(
        self, value: Node, declarator: Node, walk: Walk, use: Callable[[Node, Walk], list[RowAccess]]
    ) -> list[RowAccess]:
        """The uses of a variable that is set to the address where it is declared, and never again."""
        declaration = declarator.parent
        scope = declaration.parent if declaration is not None else None
        names = declarators(declaration) if declaration is not None else []
        own = [d for d in names if d.value == value]
        if scope is None or scope.type != "compound_statement" or len(own) != 1 or own[0].reference:
            raise self._not_understood(walk)
        accesses: list[RowAccess] = []
        for node, at, text in self.mentions.of(scope, own[0].name):
            if (
                declaration is not None
                and text
                and span(declaration).start <= node.start_byte < declaration.end_byte
            ):
                continue
            through = (*walk.through, own[0].offset)
            own_text = walk.own_text and text
            accesses += self._deeper(node, replace(walk, at=at, own_text=own_text, through=through), use)
        return accesses

    def _helper(
        self, call: Node, index: int, walk: Walk, use: Callable[[Node, Walk], list[RowAccess]]
    ) -> list[RowAccess]:
        """The uses of the parameter of a helper that is given the address."""
        name, function = callee(call), self._function(call, walk)
        if function is None or function.foreign or index >= len(function.parameters):
            raise KeepsLayoutError(f"line {self._line(walk.at)} hands its address to `{name}`")
        parameter = declarators(function.parameters[index])
        if len(parameter) != 1 or parameter[0].reference or parameter[0].rank:
            raise KeepsLayoutError(f"line {self._line(walk.at)} hands it to `{name}`")
        accesses: list[RowAccess] = []
        for node, at, _ in self.mentions.of(function.body, parameter[0].name):
            accesses += self._deeper(node, replace(walk, at=at, own_text=False), use)
        return accesses

    def _deeper(
        self, node: Node, walk: Walk, use: Callable[[Node, Walk], list[RowAccess]]
    ) -> list[RowAccess]:
        if walk.depth >= DEPTH:
            raise self._not_understood(walk)
        inside = self.model.kernel.body.start <= walk.at.start_byte < self.model.kernel.body.end
        return use(node, replace(walk, depth=walk.depth + 1, place=walk.at if inside else walk.place))

    def _function(self, call: Node, walk: Walk) -> Function | None:
        """The function of the file that a call means where the walk stands, None for another's: a member, a local's, or
        one of another namespace is not followed."""
        file, name = self.model.file, callee(call)
        named = call.child_by_field_name("function")
        member = named is not None and named.type == "field_expression"
        if member or meanings(file).bound(name, walk.at) is not None:
            raise KeepsLayoutError(f"line {self._line(walk.at)} hands it to `{name}`")
        found = file.functions.get(name)
        if found is not None and not reaches(found, call, namespaces(walk.at), file.opened):
            return None
        return found

    # -- facts ---------------------------------------------------------------------------------------------------

    def _access(self, walk: Walk, size: int, stored: bool = False) -> RowAccess:
        return RowAccess(walk.row, walk.column, size, self._line(walk.at), walk, stored)

    def _sizeof(self, kind: str, walk: Walk) -> int:
        size = self.ranges.value_of(f"sizeof({kind.strip()})", walk.at)
        if size is None:
            raise KeepsLayoutError(f"the size of `{kind.strip()}` in line {self._line(walk.at)} is not known")
        return size

    def _cast_type(self, cast: Node) -> str:
        kind = cast.child_by_field_name("type")
        return (kind.text or b"").decode().strip() if kind is not None else ""

    def _template_type(self, call: Node) -> str:
        function = call.child_by_field_name("function")
        listed = function.child_by_field_name("arguments") if function is not None else None
        kinds = listed.named_children if listed is not None else []
        return (kinds[0].text or b"").decode().strip() if len(kinds) == 1 else ""

    def _parent(self, node: Node, walk: Walk) -> Node:
        if node.parent is None:
            raise self._not_understood(walk)
        return node.parent

    def _line(self, node: Node) -> int:
        return self.model.file.source.line_of(node.start_byte)

    def _not_understood(self, walk: Walk) -> KeepsLayoutError:
        return KeepsLayoutError(f"the access in line {self._line(walk.at)} is not understood")


def _assigned(node: Node) -> bool:
    """Whether an element, or a member of it, is what a plain assignment writes."""
    outer = node.parent
    if outer is not None and outer.type == "field_expression":
        node, outer = outer, outer.parent
    assigns = outer is not None and outer.type == "assignment_expression" and operator_of(outer) == "="
    return assigns and outer is not None and outer.child_by_field_name("left") == node
