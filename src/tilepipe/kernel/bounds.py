"""What is known of an integer expression's value at compile time: bounds, and a number that divides it.

Names are followed from where they stand to their one declaration: a variable that is set there alone, the counter of a
`for` that nothing else moves, a macro. What no declaration of the kernel explains (a template argument, a constant of
the file) is asked of the compiler. Everything else may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import gcd

from tree_sitter import Node

from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.flow import Flow
from tilepipe.kernel.holding import upper_bounds
from tilepipe.kernel.intervals import ANY, Range, joined, made, number, operated
from tilepipe.kernel.macros import expand, expansion_body
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.names import arguments_of, callee, has, operator_of
from tilepipe.kernel.symbols import declarators
from tilepipe.source.parse import span

MOST_THREADS = 1024  # per block, and along x and y: CUDA's limit since compute capability 2.0
_WORD = re.compile(r"[A-Za-z_]\w*")
_HEADED = ("if_statement", "while_statement", "for_range_loop", "switch_statement")
_NARROW = {
    "bool": 1, "unsigned char": 255, "uint8_t": 255, "uchar": 255, "unsigned short": 65535, "uint16_t": 65535,
    "ushort": 65535,
}  # fmt: skip
DEPTH = 12  # definitions followed through definitions
_SIGNED = ("int", "long", "long long", "ptrdiff_t", "int32_t", "int64_t")
_INTEGERS = (
    *_SIGNED, "unsigned", "unsigned int", "unsigned long", "unsigned long long", "size_t", "std::size_t", "uint32_t",
    "uint64_t",
)  # fmt: skip


def _set_once(analysed: Analysed) -> dict[int, bool]:
    """Whether a variable is set where it is declared and nowhere else, by the offset of its declarator; those of
    helpers that are walked statement by statement too."""
    found: dict[int, bool] = {}
    for symbol, items in Flow([analysed.body]).definers.items():
        once = len(items) == 1 and symbol in items[0].statement.declares
        found[symbol.key[0]] = once and found.get(symbol.key[0], True)
    return found


def _bare(kind: str) -> str:
    """A type without its `const`."""
    return " ".join(word for word in kind.split() if word != "const")


class Ranges:
    """Ranges of the expressions of one kernel.

    `threads` bounds the threads of a block, if known, and `block` is its shape; `asked` gives the compiler's value of
    a text at the offset `asked_at`, None where it has none (yet).
    """

    def __init__(
        self,
        file: CudaFile,
        analysed: Analysed,
        threads: int | None,
        asked: Callable[[str], int | None],
        asked_at: int,
        block: tuple[int, int, int] | None = None,
    ) -> None:
        self.file = file
        self.threads = threads or MOST_THREADS
        self.block = dict(zip("xyz", block, strict=True)) if block is not None else {}
        self.asked = asked
        self._set_once = _set_once(analysed)
        self._known = meanings(file)
        place = file.tree.root.named_descendant_for_byte_range(asked_at, asked_at + 1)
        self._asked_at = place if place is not None else file.tree.root

    def of(self, node: Node, at: Node, depth: int = 0) -> Range:
        """The range of an expression. `at` is the node of the file whose scope its names mean."""
        kind = node.type
        if depth > DEPTH:
            return ANY
        if kind == "parenthesized_expression" and node.named_children:
            return self.of(node.named_children[0], at, depth)
        if kind == "number_literal":
            return self._literal(self._text(node))
        if kind in ("identifier", "type_identifier"):  # the latter: a number among template arguments
            return self._named(self._text(node), at, depth)
        if kind == "field_expression":
            return self._below(self._text(node), at, self._coordinate(self._text(node)), depth)
        if kind in ("qualified_identifier", "sizeof_expression"):
            return self._asked(self._text(node), at)
        if kind == "cast_expression":
            return self._cast(node.child_by_field_name("type"), node.child_by_field_name("value"), at, depth)
        if kind == "call_expression":
            return self._called(node, at, depth)
        parts = [node.child_by_field_name(n) for n in ("left", "right", "consequence", "alternative")]
        if kind == "binary_expression" and parts[0] is not None and parts[1] is not None:
            return operated(
                operator_of(node), self.of(parts[0], at, depth + 1), self.of(parts[1], at, depth + 1)
            )
        if kind == "conditional_expression" and parts[2] is not None and parts[3] is not None:
            return joined(self.of(parts[2], at, depth + 1), self.of(parts[3], at, depth + 1))
        return ANY

    def _text(self, node: Node) -> str:
        return node.text.decode() if node.text else ""

    def value_of(self, text: str, at: Node) -> int | None:
        """The compiler's value of a text at a place, None where it has none or cannot be asked about it."""
        same = self._known.same(_WORD.findall(text), at, self._asked_at)
        return self.asked(text) if same else None

    def _asked(self, text: str, at: Node) -> Range:
        value = self.value_of(text, at)
        return number(value) if value is not None else ANY

    def _literal(self, text: str) -> Range:
        try:
            return number(int(text.rstrip("uUlL"), 0))
        except ValueError:
            return ANY

    def _coordinate(self, text: str) -> Range:
        base, _, axis = text.partition(".")
        if axis not in ("x", "y", "z"):
            return ANY
        if base == "threadIdx":
            return Range(0, self.block.get(axis, self.threads) - 1)
        if base == "blockDim":
            return number(self.block[axis]) if self.block else Range(1, self.threads)
        return Range(0, None) if base in ("blockIdx", "gridDim") else ANY

    def _cast(self, kind: Node | None, value: Node | None, at: Node, depth: int) -> Range:
        """A cast to an integer of 32 bits or more keeps what is not negative and bounded."""
        if kind is None or value is None or _bare(self._text(kind)) not in _INTEGERS:
            return ANY
        found = self.of(value, at, depth + 1)
        small = found.natural and found.high is not None and found.high < 1 << 31
        return found if small else ANY

    def _called(self, node: Node, at: Node, depth: int) -> Range:
        macro = self.file.macros.get(callee(node))
        if macro is not None and not self._known.sure(macro.name, at.start_byte):
            return ANY
        if macro is not None and macro.parameters is not None:
            return self._macro(expand(macro, [self._text(a) for a in arguments_of(node)]), at, depth)
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        name = function.child_by_field_name("name") if function is not None else None
        types = function.child_by_field_name("arguments") if function is not None else None
        if name is None or types is None or listed is None or self._text(name) != "static_cast":
            return ANY
        if len(types.named_children) != 1 or len(listed.named_children) != 1:
            return ANY
        return self._cast(types.named_children[0], listed.named_children[0], at, depth)

    # -- names ---------------------------------------------------------------------------------------------------

    def _named(self, name: str, at: Node, depth: int) -> Range:
        found = self.declaration(name, at)
        bound = self._known.bound(name, at)
        if found is None and bound is None:
            return self._outside(name, at, depth)
        if found is None or bound is None or found[1] != bound[0]:
            return ANY  # a type, a `using`, or another form that is not followed
        place, declared, value = found
        kind = self._type(place)
        if _bare(kind) in _NARROW and not any(d.pointer for d in declarators(place) if d.offset == declared):
            return Range(0, _NARROW[_bare(kind)])
        if value is None or _bare(kind) not in (*_INTEGERS, "auto") or not self._set_once.get(declared):
            return ANY
        if place.type == "for_statement":
            return self._below(name, at, self._counter(place, name, value, at, depth), depth)
        initial = self.of(value, value, depth + 1)
        # Below zero an unsigned variable holds something else.
        known = initial.natural or _bare(kind) in _SIGNED
        return self._below(name, at, initial, depth) if known else ANY

    def _below(self, name: str, at: Node, found: Range, depth: int) -> Range:
        """The range of a name that keeps its value, with what the branches to `at` say of it."""
        high = found.high
        for other, equal in upper_bounds(name, at) if found.natural else ():
            bound = self.of(other, other, depth + 1)
            same = self.declaration(name, other) == self.declaration(name, at)
            if same and bound.natural and bound.high is not None:
                last = bound.high if equal else bound.high - 1
                high = last if high is None else min(high, last)
        return made(found.low, high, found.step) if high is not None and high >= (found.low or 0) else found

    def _type(self, place: Node) -> str:
        """The type that a declaration or `for` declares."""
        node = place.child_by_field_name("initializer") if place.type == "for_statement" else place
        kind = node.child_by_field_name("type") if node is not None else None
        return self._text(kind) if kind is not None else ""

    def _outside(self, name: str, at: Node, depth: int) -> Range:
        macro = self.file.macros.get(name)
        if macro is None or (macro.parameters is None and not self._known.sure(name, at.start_byte)):
            return self._asked(name, at)
        return self._macro(macro.body, at, depth) if macro.parameters is None else ANY

    def _macro(self, text: str, at: Node, depth: int) -> Range:
        body = expansion_body(f"({text})")
        if body is None or len(body.named_children) != 1 or not body.named_children[0].named_children:
            return ANY
        return self.of(body.named_children[0].named_children[0], at, depth + 1)

    def declaration(self, name: str, at: Node) -> tuple[Node, int, Node | None] | None:
        """What declares a name seen from a place: the declaration (or `for`, or another node whose scope it is), the
        offset of the name there, and its initialiser; None where nothing in the function does."""
        node = at
        while node.parent is not None:
            outer = node.parent
            if outer.type == "compound_statement":
                before = [c for c in outer.named_children if c.end_byte <= node.start_byte]
                for child in reversed(before):
                    if found := self._declares(child, name):
                        return child, found[0], found[1]
            elif outer.type == "declaration":  # names declared before in the same declaration
                if found := self._declares(outer, name, node.start_byte):
                    return outer, found[0], found[1]
            elif outer.type == "for_statement":
                start = outer.child_by_field_name("initializer")
                if start is not None and (found := self._declares(start, name)):
                    return outer, found[0], found[1]
            elif outer.type in ("function_definition", "lambda_expression"):
                if self._is_parameter(outer, name):
                    return outer, -1, None
                if outer.type == "function_definition":
                    return None
            elif self._head_declares(outer, name):
                return outer, -1, None
            node = outer
        return None

    def _declares(self, node: Node, name: str, before: int | None = None) -> tuple[int, Node | None] | None:
        if node.type != "declaration":
            return None
        found = (d for d in declarators(node) if d.name == name and (before is None or d.offset < before))
        return next(((d.offset, d.value) for d in found), None)

    def _head_declares(self, node: Node, name: str) -> bool:
        """Whether a branch, loop or `switch` declares a name in its head, which is not followed."""
        heads = [node.child_by_field_name(f) for f in ("condition", "declarator", "initializer")]
        declaring = node.type == "for_range_loop"
        for head in heads:
            if head is None or node.type not in _HEADED:
                continue
            found = declaring or has(head, "declaration") or has(head, "init_declarator")
            if found and name in _WORD.findall(self._text(head)):
                return True
        return False

    def _is_parameter(self, function: Node, name: str) -> bool:
        head = function.child_by_field_name("declarator")
        stack = [head] if head is not None else []
        while stack:
            node = stack.pop()
            if node.type.endswith("parameter_declaration"):
                if any(d.name == name for d in declarators(node)):
                    return True
            else:
                stack.extend(node.named_children)
        return False

    def _counter(self, loop: Node, name: str, start: Node, at: Node, depth: int) -> Range:
        """`for (i = start; i < bound; i += step)`, seen from the loop's body."""
        body = loop.child_by_field_name("body")
        condition, update = loop.child_by_field_name("condition"), loop.child_by_field_name("update")
        if body is None or condition is None or update is None:
            return ANY
        inside = span(body).start <= at.start_byte and at.end_byte <= span(body).end
        step = self._step(update, name)
        left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
        if not inside or step is None or left is None or right is None or self._text(left) != name:
            return ANY
        first, bound = self.of(start, loop, depth + 1), self.of(right, body, depth + 1)
        by = number(1) if step is update else self.of(step, body, depth + 1)
        sign = operator_of(condition)
        if not by.natural or not bound.natural or sign not in ("<", "<="):
            return ANY
        last = bound if sign == "<=" else bound + number(-1)
        return made(first.low, last.high, gcd(first.step, by.step))

    def _step(self, update: Node, name: str) -> Node | None:
        """What a `for` header adds to its counter: the update itself for `++i`."""
        if update.type == "comma_expression":
            found = [s for c in update.named_children if (s := self._step(c, name)) is not None]
            return found[0] if len(found) == 1 else None
        if update.type == "update_expression":
            return update if self._text(update).replace(" ", "") in (f"++{name}", f"{name}++") else None
        left = update.child_by_field_name("left")
        if update.type == "assignment_expression" and left is not None and self._text(left) == name:
            return update.child_by_field_name("right") if operator_of(update) == "+=" else None
        return None
