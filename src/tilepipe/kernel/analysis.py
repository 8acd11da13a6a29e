"""Walks expressions with names resolved: the effects of each statement of a kernel.

Pointers are followed flow-insensitively: `points[p]` is the set of arrays that `p` may point into. A first
pass over the function fills it, the second collects effects. Helper functions and lambdas of the file are
walked at each call with their parameters bound to the arguments.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tree_sitter import Node

from tilepipe.kernel.calls import Calls
from tilepipe.kernel.effects import Access, Effects
from tilepipe.kernel.loads import Loads
from tilepipe.kernel.macros import expansion_body
from tilepipe.kernel.names import NOTHING, TYPES, Bases, Place, View, has, operator_of, uncast
from tilepipe.kernel.operators import PLAIN
from tilepipe.kernel.symbols import THREAD, Symbol, declared

_QUOTED = re.compile(
    r"\"(?:[^\"\\]|\\.)*\"|(?<!#)#\s*\w+"
)  # a literal, or a parameter that a macro makes one of
_REFERRING = re.compile(r"\b(atomic_ref|reference_wrapper)\b")  # classes that keep a reference
_LEAVING = (
    "break_statement",
    "continue_statement",
    "goto_statement",
    "return_statement",
    "labeled_statement",
)


class Analyzer(Calls):
    """Resolves names and collects effects for one kernel of one file."""

    def expression(self, node: Node) -> Effects:
        """The effects of an expression or of a declaration's initialisers."""
        self.position = self.context[0] if self.context else self.where(node).start
        with self.collecting() as out:
            self.value(node)
            out.loads += Loads(self).below(node)
        return out.frozen()

    def declaration(self, node: Node) -> Effects:
        """The effects of a declaration; its names become visible."""
        self.position = self.context[0] if self.context else self.where(node).start
        with self.collecting() as out:
            self.declare_all(node)
            out.loads += Loads(self).below(node)
        return out.frozen()

    def declare_all(self, node: Node) -> None:
        for found, value in declared(node, self.text(node), self.context, "local"):
            symbol = self._one_for_all(found)
            if symbol.kind == "lambda" and value is not None:
                self.lambdas[symbol] = value
                self.declare(symbol)
                continue
            if value is not None:
                if symbol.reference:
                    self.declare_alias(symbol, value)
                    continue
                self.points[symbol] |= self._initial(symbol, value)
                if _REFERRING.search(symbol.type):
                    self.points[symbol] |= self._referred(value)
                self.out.defs.add(symbol)
            self.declare(symbol)

    def _one_for_all(self, symbol: Symbol) -> Symbol:
        """A variable that is one for all calls of its function, in shared memory or static, is one symbol, too."""
        words = self.source.slice(symbol.decl).partition("=")[0].split() if self.site is None else []
        if symbol.kind == "shared" and self.context:
            return replace(symbol, key=(symbol.key[0], () if self.site is None else (-3,)))
        if symbol.kind == "local" and "static" in words and not symbol.const:
            return replace(symbol, key=(symbol.key[0], ()), kind="file")
        return symbol

    def _referred(self, value: Node) -> Bases:
        """The arrays that what an object is made of lies in."""
        listed = value.named_children if value.type in ("initializer_list", "argument_list") else [value]
        return frozenset(b for n in listed if n.type == "subscript_expression" for b in self.place(n).bases)

    def _initial(self, symbol: Symbol, value: Node) -> Bases:
        """The arrays an initialiser points into; a uniform carve of shared memory becomes a view."""
        direct = dict(self.direct)
        with self.collecting() as inner:
            bases = self.value(value)
        self.merge(inner)
        if inner.uses & self.divergent:
            self.divergent.add(symbol)
            return bases
        if len(bases) != 1 or self.context or self.site is not None or not symbol.pointer:
            return bases
        (base,) = bases
        array = next((v.array for v in self.views.values() if v.piece == base), base)
        offset = any(has(value, kind) for kind in ("binary_expression", "subscript_expression"))
        if base.kind != "shared" or array in self.whole:
            return bases
        self.direct = direct  # to carve a piece out of an array is no use of it
        if not (offset or base.extern):
            return bases
        piece = replace(base, key=(symbol.key[0], (-2,)), name=symbol.name, rank=0, extern=False)
        self.views[symbol] = View(symbol, piece, array, self.text(uncast(value)))
        return frozenset({piece})

    def declare_alias(self, symbol: Symbol, value: Node) -> None:
        """A reference names its initialiser's place, settled where it is declared."""
        at = self.place(value)
        self.points[symbol] |= at.bases
        self.out.defs.add(symbol)
        self.scopes[-1][symbol.name] = replace(at, alias=symbol)

    # -- values --------------------------------------------------------------------------------------------

    def value(self, node: Node) -> Bases:
        """Walk an rvalue; the arrays that its value may point into."""
        kind = node.type
        if kind == "identifier":
            return self._name_value(node)
        if kind in ("subscript_expression", "field_expression") or (
            kind == "pointer_expression" and operator_of(node) == "*"
        ):
            return self._read(node)
        if kind == "pointer_expression":
            at = self.place(node.child_by_field_name("argument") or node)
            self.out.uses |= at.variables
            return at.bases | at.variables
        if kind == "assignment_expression":
            return self.assign(node)
        if kind == "update_expression":
            at = self.place(node.child_by_field_name("argument") or node)
            self.write(at, node, also_read=True)
            return self.pointees(at.variables)
        if kind == "call_expression":
            return self.call(node)
        if kind == "gnu_asm_expression":
            return self.asm(node)
        if kind == "lambda_expression":
            return self.lambda_value(node)
        if kind == "qualified_identifier":
            self._function_value(self.text(node).rpartition("::")[2].strip())
            return NOTHING
        if kind in TYPES:
            return NOTHING
        if kind == "binary_expression" and self.operators_change:
            self._operands(node)
        return self.children(node)

    def _operands(self, node: Node) -> None:
        """An operator of the author's may change what stands on its other side, too: `stream >> x >> y`."""
        named = [self.lookup(self.text(n)) for n in _operands_of(node) if n.type == "identifier"]
        found = {s for s in named if isinstance(s, Symbol) and s.kind in ("local", "param") and not s.const}
        if any(not (s.pointer or s.is_array or PLAIN.fullmatch(s.type)) for s in found):
            self.out.defs |= found

    def _name_value(self, node: Node) -> Bases:
        name = node.text.decode() if node.text else ""
        found = self.named(name)
        if found is None:
            if name == "threadIdx":
                self.out.uses.add(THREAD)
            return self._object_macro(name, node)
        if isinstance(found, Place):
            self._used(found.variables)
            if found.memory:
                self.out.reads += [Access(b, self.where(node)) for b in found.bases]
                return NOTHING
            return found.bases | self.pointees(found.variables)
        if found.kind in ("file", "shared") and not found.is_array:
            self.out.reads.append(Access(found, self.where(node)))
            self._operated(frozenset({found}), node)
            return NOTHING
        if found.kind == "shared":
            return frozenset({found})
        self._used(frozenset({found}))
        if found.is_array:
            return frozenset({found})
        return frozenset(self.points[found])

    def _object_macro(self, name: str, node: Node) -> Bases:
        macro = self.macro(name)
        if macro is None or macro.parameters is not None:
            self._function_value(name)
            return NOTHING
        with self.expansion(name):
            return self.expanded(macro.body, node)

    def _function_value(self, name: str) -> None:
        """A function of the author's that is handed on: whoever gets it may call it."""
        if name in self.unseen.functions:
            self.out.flags.add("structure")

    def expanded(self, text: str, node: Node) -> Bases:
        body = expansion_body(_QUOTED.sub(lambda m: '""' if m.group()[0] == "#" else m.group(), text) + ";")
        if body is None:
            self.out.opaque.append((self.text(node)[:40], self.where(node)))
            self.out.flags.add("structure")
            return NOTHING
        outer = self.site
        self.site = self.where(node)
        try:
            result = NOTHING
            for statement in body.named_children:
                if statement.type == "declaration":
                    self.declare_all(statement)
                elif statement.type == "expression_statement":
                    for child in statement.named_children:
                        result |= self.value(child)
                elif statement.type != "comment":
                    self._body(statement)
                    if any(has(statement, kind) for kind in _LEAVING):
                        self.out.flags.add("structure")
                    self.out.opaque.append((self.source.slice(self.site)[:40], self.site))
            return result
        finally:
            self.site = outer

    def _read(self, node: Node) -> Bases:
        if node.type == "field_expression":
            name = self._root_name(node)
            if name == "threadIdx":
                self.out.uses.add(THREAD)
                return NOTHING
        at = self.place(node)
        if at.memory:
            self.out.reads += self.accesses(at.bases, node)
            field = node.child_by_field_name("field")
            if field is None or self.text(field) in self.unseen.objects:
                self._operated(at.bases, node)
            return NOTHING
        self._used(frozenset(v for v in at.variables if v.kind != "shared"))
        return at.bases | self.pointees(at.variables)

    def _used(self, variables: Bases) -> None:
        """Variables are read; by an operator of the author's they may be changed, too."""
        self.out.uses |= variables
        if self.operators_change:
            self.out.defs |= {v for v in variables if not (v.const or v.pointer or PLAIN.fullmatch(v.type))}

    def _operated(self, bases: Bases, node: Node) -> None:
        """Objects in memory are read; an operator of the author's may change them, as it may variables."""
        if self.operators_change:
            classes = [
                b for b in bases if set(b.type.split()) & self.unseen.classes and not (b.const or b.pointer)
            ]
            self.out.writes += [Access(b, self.where(node)) for b in classes]

    def _root_name(self, node: Node) -> str:
        current: Node | None = node
        while current is not None and current.type != "identifier":
            current = current.child_by_field_name("argument") or current.child_by_field_name("function")
        return current.text.decode() if current is not None and current.text else ""


def _operands_of(node: Node) -> list[Node]:
    """The operands of an expression of binary operators, through parentheses."""
    if node.type not in ("binary_expression", "parenthesized_expression"):
        return [node]
    return [n for child in node.named_children for n in _operands_of(child)]
