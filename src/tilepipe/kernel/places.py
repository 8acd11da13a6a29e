"""Where lvalues stand: variables, and memory with the arrays that it may be in."""

from __future__ import annotations

from abc import abstractmethod

from tree_sitter import Node

from tilepipe.kernel import known
from tilepipe.kernel.effects import Effects, Store
from tilepipe.kernel.macros import expand, expansion_body
from tilepipe.kernel.names import NOTHING, TYPES, Bases, Names, Place, arguments_of, callee, operator_of
from tilepipe.kernel.symbols import Symbol


class Places(Names):
    """Resolves lvalues and records writes to them."""

    @abstractmethod
    def value(self, node: Node) -> Bases:
        """Walk an rvalue; the arrays that its value may point into."""

    def effects_of(self, node: Node) -> Effects:
        """What an rvalue does, leaving no trace in the effects gathered."""
        direct = dict(self.direct)
        with self.collecting() as out:
            self.value(node)
        self.direct = direct
        return out.frozen()

    def children(self, node: Node) -> Bases:
        """Walk everything below a node."""
        result = NOTHING
        for child in node.named_children:
            if child.type not in TYPES:
                result |= self.value(child)
        return result

    def place(self, node: Node) -> Place:
        """Resolve an lvalue, walking the values that its address needs."""
        kind = node.type
        if kind == "identifier":
            return self._name_place(node)
        if kind in ("parenthesized_expression", "cast_expression"):
            inner = node.child_by_field_name("value") or (
                node.named_children[0] if node.named_children else node
            )
            return self.place(inner)
        if kind == "subscript_expression":
            return self._subscript_place(node)
        if kind == "pointer_expression" and operator_of(node) == "*":
            return self._designated(node.child_by_field_name("argument") or node)
        if kind == "field_expression":
            argument = node.child_by_field_name("argument") or node
            if operator_of(node) == "->":
                return self._designated(argument)
            return self.place(argument)
        if kind == "call_expression":
            return self._call_place(node)
        bases = self.value(node)
        return Place(NOTHING, False, bases)

    def _designated(self, pointer: Node) -> Place:
        """What a pointer expression points at. Taking a local's address for that is no use of its value."""
        with self.collecting() as inner:
            at = self._through(self.value(pointer))
        inner.uses -= at.variables
        self.merge(inner)
        return at

    def _through(self, bases: Bases) -> Place:
        """What a dereferenced pointer designates."""
        variables = frozenset(b for b in bases if b.kind == "local")
        if variables and variables == bases:
            return Place(variables, False, NOTHING)
        return Place(NOTHING, True, bases)

    def _name_place(self, node: Node) -> Place:
        name = node.text.decode() if node.text else ""
        found = self.named(name)
        if isinstance(found, Place):
            return found
        if found is None:
            macro = self.macro(name)
            if macro is not None and macro.parameters is None:
                with self.expansion(name):
                    return self._expanded_place(macro.body, node)
            return Place(NOTHING, False, NOTHING)
        if found.kind in ("shared", "file"):
            return Place(NOTHING, found.rank == 0, frozenset({found}))
        return Place(frozenset({found}), False, NOTHING)

    def _expanded_place(self, text: str, node: Node) -> Place:
        body = expansion_body(text + ";")
        statement = body.named_children[0] if body is not None and body.named_children else None
        if statement is None or statement.type != "expression_statement" or not statement.named_children:
            self.out.opaque.append((self.text(node)[:40], self.where(node)))
            return Place(NOTHING, True, NOTHING)
        outer = self.site
        self.site = self.where(node)
        try:
            return self.place(statement.named_children[0])
        finally:
            self.site = outer

    def _subscript_place(self, node: Node) -> Place:
        indices = node.child_by_field_name("indices")
        if indices is not None:
            self.children(indices)
        argument = node.child_by_field_name("argument") or node
        depth, root = 1, argument
        while root.type == "subscript_expression":
            depth, root = depth + 1, root.child_by_field_name("argument") or root
        if root.type == "identifier":
            found = self.named(root.text.decode() if root.text else "")
            if isinstance(found, Place) and not found.memory and (found.variables or found.bases):
                self._indices(argument)
                whole = frozenset(b for b in found.variables | found.bases if b.is_array)
                if whole and not (found.variables | found.bases) - whole:
                    return self._element(next(iter(whole)), depth, found)
            if isinstance(found, Symbol) and found.is_array:
                self._indices(argument)
                return self._element(found, depth, None)
        return self._designated(argument)

    def _indices(self, node: Node) -> None:
        """Walk the indices of nested subscripts."""
        while node.type == "subscript_expression":
            indices = node.child_by_field_name("indices")
            if indices is not None:
                self.children(indices)
            node = node.child_by_field_name("argument") or node

    def _element(self, array: Symbol, depth: int, through: Place | None) -> Place:
        if array.kind == "local":
            return Place(frozenset({array}), False, NOTHING)
        # Fewer subscripts than dimensions leave an array, which decays to a pointer.
        whole = through is None and depth < array.rank
        return Place(NOTHING, not whole, frozenset({array}))

    def _call_place(self, node: Node) -> Place:
        name = callee(node)
        arguments = arguments_of(node)
        if name in known.CASTS and arguments:
            return self.place(arguments[0])
        macro = self.macro(name)
        if macro is not None and macro.parameters is not None:
            with self.expansion(name):
                return self._expanded_place(expand(macro, [self.text(a) for a in arguments]), node)
        return Place(NOTHING, False, self.value(node))

    # -- writes --------------------------------------------------------------------------------------------

    def assign(self, node: Node) -> Bases:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return self.children(node)
        bases = self.value(right)
        with self.collecting() as address:
            at = self.place(left)
        self.merge(address)
        operator = operator_of(node) or "="
        self.write(at, node, also_read=operator != "=")
        for variable in at.variables:
            if variable.kind != "shared":
                self.points[variable] |= bases
        if at.memory:
            for base in at.bases:
                if base.kind == "shared":
                    in_macro = self.site is not None
                    where = (self.where(node), self.where(left), self.where(right))
                    names = frozenset(address.uses)
                    self.out.stores.append(Store(base, *where, operator, in_macro, names))
        return bases

    def write(self, at: Place, node: Node, also_read: bool) -> None:
        """Record a write to a place; a name that nobody here declares may be memory of any kind."""
        if not (at.variables or at.memory or at.bases):
            at = Place(NOTHING, True, NOTHING)
        self.out.defs |= {v for v in at.variables if v.kind != "shared"}
        if also_read:
            self.out.uses |= {v for v in at.variables if v.kind != "shared"}
        if at.memory:
            accesses = self.accesses(at.bases, node)
            self.out.writes += accesses
            if also_read:
                self.out.reads += accesses
