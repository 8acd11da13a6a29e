"""Walks expressions with names resolved: the effects of each statement of a kernel.

Pointers are followed flow-insensitively: `points[p]` is the set of arrays that `p` may point into. A first
pass over the function fills it, the second collects effects. Helper functions and lambdas of the file are
walked at each call with their parameters bound to the arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tree_sitter import Node

from tilepipe.kernel import known
from tilepipe.kernel.effects import Access, Collector, Effects, Load, Store
from tilepipe.kernel.macros import Macro, expand, expansion_body
from tilepipe.kernel.symbols import THREAD, Symbol, declared
from tilepipe.source import SourceFile, Span
from tilepipe.source.parse import span

Bases = frozenset[Symbol]
NOTHING: Bases = frozenset()
_DEPTH = 8  # calls inlined within calls before a callee counts as opaque
_TYPES = frozenset(
    ["primitive_type", "type_identifier", "type_descriptor", "sized_type_specifier", "template_argument_list", "namespace_identifier", "type_qualifier", "comment", "string_literal", "lambda_expression", "sizeof_expression", "number_literal", "char_literal", "true", "false", "null", "gnu_asm_clobber_list", "alignof_expression", "field_identifier"]
)


@dataclass(frozen=True)
class Function:
    """A function of the file that a kernel may call: its parameters and body, and its template parameters."""

    name: str
    node: Node
    parameters: tuple[Node, ...]
    body: Node
    template: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """A pointer that carves its own piece out of a shared array: `float* tb = pool + 4096;`.

    `piece` stands for the piece as an array of its own, `array` is the shared array it lies in.
    """

    pointer: Symbol
    piece: Symbol
    array: Symbol


@dataclass(frozen=True)
class Place:
    """Where an lvalue stands: a variable, or memory with the arrays that it may be in."""

    variables: Bases
    memory: bool
    bases: Bases


class Analyzer:
    """Resolves names and collects effects for one kernel of one file."""

    def __init__(self, source: SourceFile, macros: dict[str, Macro], functions: dict[str, Function]) -> None:
        self.source = source
        self.macros = macros
        self.functions = functions
        self.points: dict[Symbol, set[Symbol]] = defaultdict(set)
        self.lambdas: dict[Symbol, Node] = {}
        self.scopes: list[dict[str, Symbol | Place]] = [{}]
        self.context: tuple[int, ...] = ()
        self.views: dict[Symbol, View] = {}  # pointer variable -> the part of shared memory that it names
        self._divergent: set[Symbol] = {THREAD}
        self._site: Span | None = None  # the macro call under expansion
        self._out = Collector()

    # -- names ---------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def declare(self, symbol: Symbol) -> None:
        self.scopes[-1][symbol.name] = symbol

    def lookup(self, name: str) -> Symbol | Place | None:
        for names in reversed(self.scopes):
            if name in names:
                return names[name]
        return None

    def text(self, node: Node) -> str:
        if self._site is not None:
            return node.text.decode() if node.text else ""
        return self.source.slice(span(node))

    def where(self, node: Node) -> Span:
        """The author's text that a node stands for: the macro call, inside an expansion."""
        return self._site if self._site is not None else span(node)

    # -- entry points --------------------------------------------------------------------------------------

    def expression(self, node: Node) -> Effects:
        """The effects of an expression or of a declaration's initialisers."""
        outer, self._out = self._out, Collector()
        try:
            self.value(node)
            self._out.loads += self.find_loads(node)
            return self._out.frozen()
        finally:
            self._out = outer

    def declaration(self, node: Node) -> Effects:
        """The effects of a declaration; its names become visible."""
        outer, self._out = self._out, Collector()
        try:
            self._declare(node)
            self._out.loads += self.find_loads(node)
            return self._out.frozen()
        finally:
            self._out = outer

    def _declare(self, node: Node) -> None:
        for symbol, value in declared(node, self.text(node), self.context, "local"):
            if symbol.kind == "lambda" and value is not None:
                self.lambdas[symbol] = value
                self.declare(symbol)
                continue
            if value is not None:
                if symbol.reference:
                    self.declare_alias(symbol, value)
                    continue
                self.points[symbol] |= self._initial(symbol, value)
                self._out.defs.add(symbol)
            self.declare(symbol)

    def _initial(self, symbol: Symbol, value: Node) -> Bases:
        """The arrays an initialiser points into; a uniform carve of shared memory becomes a view."""
        with self.collecting() as inner:
            bases = self.value(value)
        self._merge(inner)
        if inner.uses & self._divergent:
            self._divergent.add(symbol)
            return bases
        if len(bases) != 1 or self.context or self._site is not None or not symbol.pointer:
            return bases
        (base,) = bases
        array = next((v.array for v in self.views.values() if v.piece == base), base)
        offset = any(_has(value, kind) for kind in ("binary_expression", "subscript_expression"))
        if base.kind != "shared" or not (offset or base.extern):
            return bases
        piece = replace(base, key=(symbol.key[0], (-2,)), name=symbol.name, rank=0, extern=False)
        self.views[symbol] = View(symbol, piece, array)
        return frozenset({piece})

    def declare_alias(self, symbol: Symbol, value: Node) -> None:
        """A reference names its initialiser's place."""
        self.scopes[-1][symbol.name] = self.place(value)

    # -- values --------------------------------------------------------------------------------------------

    def value(self, node: Node) -> Bases:
        """Walk an rvalue; the arrays that its value may point into."""
        kind = node.type
        if kind == "identifier":
            return self._name_value(node)
        if kind in ("subscript_expression", "field_expression") or (
            kind == "pointer_expression" and self._operator(node) == "*"
        ):
            return self._read(node)
        if kind == "pointer_expression":
            at = self.place(node.child_by_field_name("argument") or node)
            self._out.uses |= at.variables
            return at.bases | at.variables
        if kind == "assignment_expression":
            return self._assign(node)
        if kind == "update_expression":
            at = self.place(node.child_by_field_name("argument") or node)
            self._write(at, node, also_read=True)
            return self._pointees(at.variables)
        if kind == "call_expression":
            return self._call(node)
        if kind == "gnu_asm_expression":
            return self._asm(node)
        if kind == "qualified_identifier" or kind in _TYPES:
            return NOTHING
        return self._children(node)

    def _children(self, node: Node) -> Bases:
        result = NOTHING
        for child in node.named_children:
            if child.type not in _TYPES:
                result |= self.value(child)
        return result

    def _pointees(self, symbols: Bases) -> Bases:
        return frozenset(t for s in symbols for t in ({s} if s.is_array else self.points[s]))

    def _name_value(self, node: Node) -> Bases:
        name = node.text.decode() if node.text else ""
        found = self.lookup(name)
        if found is None:
            if name in ("threadIdx",):
                self._out.uses.add(THREAD)
            return self._object_macro(name, node)
        if isinstance(found, Place):
            self._out.uses |= found.variables
            if found.memory:
                self._out.reads += [Access(b, self.where(node)) for b in found.bases]
                return NOTHING
            return found.bases | self._pointees(found.variables)
        if found.kind == "shared":
            return frozenset({found})
        self._out.uses.add(found)
        if found.is_array:
            return frozenset({found})
        return frozenset(self.points[found])

    def _object_macro(self, name: str, node: Node) -> Bases:
        macro = self.macros.get(name)
        if macro is None or macro.parameters is not None:
            return NOTHING
        return self._expanded(macro.body, node)

    def _expanded(self, text: str, node: Node) -> Bases:
        body = expansion_body(text + ";")
        if body is None:
            self._out.opaque.append((self.text(node)[:40], self.where(node)))
            return NOTHING
        outer = self._site
        self._site = self.where(node)
        try:
            result = NOTHING
            for statement in body.named_children:
                if statement.type == "declaration":
                    self._declare(statement)
                elif statement.type == "expression_statement":
                    for child in statement.named_children:
                        result |= self.value(child)
                elif statement.type != "comment":
                    self._out.opaque.append((self.source.slice(self._site)[:40], self._site))
            return result
        finally:
            self._site = outer

    def _read(self, node: Node) -> Bases:
        if node.type == "field_expression":
            name = self._root_name(node)
            if name == "threadIdx":
                self._out.uses.add(THREAD)
                return NOTHING
        at = self.place(node)
        if at.memory:
            self._out.reads += [Access(b, self.where(node)) for b in at.bases] or [
                Access(None, self.where(node))
            ]
            return NOTHING
        self._out.uses |= {v for v in at.variables if v.kind != "shared"}
        return at.bases | self._pointees(at.variables)

    def _root_name(self, node: Node) -> str:
        current: Node | None = node
        while current is not None and current.type != "identifier":
            current = current.child_by_field_name("argument") or current.child_by_field_name("function")
        return current.text.decode() if current is not None and current.text else ""

    # -- lvalues -------------------------------------------------------------------------------------------

    def place(self, node: Node) -> Place:
        """Resolve an lvalue, walking the values that its address needs."""
        kind = node.type
        if kind == "identifier":
            return self._name_place(node)
        if kind == "parenthesized_expression" or kind == "cast_expression":
            inner = node.child_by_field_name("value") or (
                node.named_children[0] if node.named_children else node
            )
            return self.place(inner)
        if kind == "subscript_expression":
            return self._subscript_place(node)
        if kind == "pointer_expression" and self._operator(node) == "*":
            return self._through(self.value(node.child_by_field_name("argument") or node))
        if kind == "field_expression":
            argument = node.child_by_field_name("argument") or node
            if self._operator(node) == "->":
                return self._through(self.value(argument))
            return self.place(argument)
        if kind == "call_expression":
            return self._call_place(node)
        bases = self.value(node)
        return Place(NOTHING, False, bases)

    def _through(self, bases: Bases) -> Place:
        """What a dereferenced pointer designates."""
        variables = frozenset(b for b in bases if b.kind == "local")
        if variables and variables == bases:
            return Place(variables, False, NOTHING)
        return Place(NOTHING, True, bases)

    def _name_place(self, node: Node) -> Place:
        name = node.text.decode() if node.text else ""
        found = self.lookup(name)
        if isinstance(found, Place):
            return found
        if found is None:
            macro = self.macros.get(name)
            if macro is not None and macro.parameters is None:
                return self._expanded_place(macro.body, node)
            return Place(NOTHING, False, NOTHING)
        if found.kind == "shared":
            return Place(NOTHING, found.rank == 0, frozenset({found}))
        return Place(frozenset({found}), False, NOTHING)

    def _expanded_place(self, text: str, node: Node) -> Place:
        body = expansion_body(text + ";")
        statement = body.named_children[0] if body is not None and body.named_children else None
        if statement is None or statement.type != "expression_statement" or not statement.named_children:
            self._out.opaque.append((self.text(node)[:40], self.where(node)))
            return Place(NOTHING, True, NOTHING)
        outer = self._site
        self._site = self.where(node)
        try:
            return self.place(statement.named_children[0])
        finally:
            self._site = outer

    def _subscript_place(self, node: Node) -> Place:
        indices = node.child_by_field_name("indices")
        if indices is not None:
            self._children(indices)
        argument = node.child_by_field_name("argument") or node
        depth, root = 1, argument
        while root.type == "subscript_expression":
            depth, root = depth + 1, root.child_by_field_name("argument") or root
        if root.type == "identifier":
            found = self.lookup(root.text.decode() if root.text else "")
            if isinstance(found, Place) and not found.memory and (found.variables or found.bases):
                self.value_indices(argument)
                whole = found.variables | frozenset(b for b in found.bases if b.is_array)
                if whole and not (found.bases - whole):
                    return self._element(next(iter(whole)), depth, found)
            if isinstance(found, Symbol) and found.is_array:
                self.value_indices(argument)
                return self._element(found, depth, None)
        return self._through(self.value(argument))

    def value_indices(self, node: Node) -> None:
        """Walk the indices of nested subscripts."""
        while node.type == "subscript_expression":
            indices = node.child_by_field_name("indices")
            if indices is not None:
                self._children(indices)
            node = node.child_by_field_name("argument") or node

    def _element(self, array: Symbol, depth: int, through: Place | None) -> Place:
        if array.kind == "local":
            return Place(frozenset({array}), False, NOTHING)
        # Fewer subscripts than dimensions leave an array, which decays to a pointer.
        whole = through is None and depth < array.rank
        return Place(NOTHING, not whole, frozenset({array}))

    def _call_place(self, node: Node) -> Place:
        name = self.callee(node)
        arguments = self.arguments(node)
        if name in known.CASTS and arguments:
            return self.place(arguments[0])
        macro = self.macros.get(name)
        if macro is not None and macro.parameters is not None:
            return self._expanded_place(expand(macro, [self.text(a) for a in arguments]), node)
        return Place(NOTHING, False, self.value(node))

    # -- writes --------------------------------------------------------------------------------------------

    def _operator(self, node: Node) -> str:
        operator = node.child_by_field_name("operator")
        return operator.text.decode() if operator is not None and operator.text else ""

    def _assign(self, node: Node) -> Bases:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return self._children(node)
        bases = self.value(right)
        with self.collecting() as address:
            at = self.place(left)
        self._merge(address)
        operator = self._operator(node) or "="
        self._write(at, node, also_read=operator != "=")
        for variable in at.variables:
            if variable.kind != "shared":
                self.points[variable] |= bases
        if at.memory:
            for base in at.bases:
                if base.kind == "shared":
                    in_macro = self._site is not None
                    where = (self.where(node), self.where(left), self.where(right))
                    names = frozenset(address.uses)
                    self._out.stores.append(Store(base, *where, operator, in_macro, names))
        return bases

    def _write(self, at: Place, node: Node, also_read: bool) -> None:
        self._out.defs |= {v for v in at.variables if v.kind != "shared"}
        if also_read:
            self._out.uses |= {v for v in at.variables if v.kind != "shared"}
        if at.memory:
            accesses = [Access(b, self.where(node)) for b in at.bases] or [Access(None, self.where(node))]
            self._out.writes += accesses
            if also_read:
                self._out.reads += accesses

    # -- calls ---------------------------------------------------------------------------------------------

    def callee(self, node: Node) -> str:
        """The unqualified name that a call expression calls."""
        function = node.child_by_field_name("function")
        while function is not None and function.type not in (
            "identifier",
            "field_identifier",
            "primitive_type",
        ):
            step = function.child_by_field_name("name") or function.child_by_field_name("field")
            if step is None:
                break
            function = step
        return function.text.decode() if function is not None and function.text else ""

    def arguments(self, node: Node) -> list[Node]:
        listed = node.child_by_field_name("arguments")
        return [a for a in listed.named_children if a.type != "comment"] if listed is not None else []

    def inlined(self, node: Node) -> tuple[Function, Node] | None:
        """The function or lambda of the file that a call expression calls, if it can be walked."""
        function = node.child_by_field_name("function")
        if function is None or function.type not in ("identifier", "template_function"):
            return None
        if len(self.context) >= _DEPTH:
            return None
        name = self.callee(node)
        found = self.lookup(name)
        if isinstance(found, Symbol) and found.kind == "lambda" and found in self.lambdas:
            return lambda_function(name, self.lambdas[found]), node
        if name in self.functions and found is None:
            return self.functions[name], node
        return None

    @contextmanager
    def collecting(self) -> Iterator[Collector]:
        """Gather what is walked inside into a collector of its own."""
        outer, self._out = self._out, Collector()
        try:
            yield self._out
        finally:
            self._out = outer

    def _merge(self, inner: Collector) -> None:
        self._out.uses |= inner.uses
        self._out.defs |= inner.defs
        self._out.reads += inner.reads
        self._out.writes += inner.writes
        self._out.stores += inner.stores
        self._out.flags |= inner.flags
        self._out.opaque += inner.opaque

    @contextmanager
    def entered(self, function: Function, call: Node) -> Iterator[None]:
        """Walk a callee: its parameters bound to the call's arguments in a scope of their own."""
        arguments = self.arguments(call)
        bound: dict[str, Symbol | Place] = {}
        context = (*self.context, self.where(call).start)
        for parameter, argument in zip(function.parameters, arguments, strict=False):
            for symbol, _ in declared(parameter, self.source.slice(span(parameter)), context, "local"):
                if symbol.reference:
                    at = self.place(argument)
                    bound[symbol.name] = at
                else:
                    self.points[symbol] |= self.value(argument)
                    self._out.defs.add(symbol)
                    bound[symbol.name] = symbol
        is_lambda = function.node.type == "lambda_expression"
        outer_scopes, outer_context, outer_site = self.scopes, self.context, self._site
        self.scopes = [*outer_scopes, bound] if is_lambda else [outer_scopes[0], bound]
        self.context, self._site = context, None
        try:
            yield
        finally:
            self.scopes, self.context, self._site = outer_scopes, outer_context, outer_site

    def _call(self, node: Node) -> Bases:
        name = self.callee(node)
        arguments = self.arguments(node)
        macro = self.macros.get(name)
        if macro is not None and macro.parameters is not None and self.lookup(name) is None:
            return self._expanded(expand(macro, [self.text(a) for a in arguments]), node)
        inlined = self.inlined(node)
        if inlined is not None:
            function, call = inlined
            with self.entered(function, call), self.scope():
                return self._body(function.body)
        if name in known.BARRIERS or self._is_group_sync(node, name):
            self._out.flags.add("barrier")
            return self._walk(arguments)
        if known.is_async(name):
            self._out.flags.add("async")
        if name in known.READS and arguments:
            self._out.reads += [Access(b, self.where(node)) for b in self.value(arguments[0])]
            return NOTHING
        if name in known.MATRIX:
            return self._matrix(name, arguments, node)
        if known.is_warp(name):
            self._out.flags.add("warp")
            self._out.uses.add(THREAD)
            return self._walk(arguments)
        if name in known.CASTS or known.is_pure(name):
            return self._walk(arguments)
        return self._unknown(name, arguments, node)

    def _is_group_sync(self, node: Node, name: str) -> bool:
        return name == "sync"

    def _walk(self, arguments: list[Node]) -> Bases:
        result = NOTHING
        for argument in arguments:
            result |= self.value(argument)
        return result

    def _matrix(self, name: str, arguments: list[Node], node: Node) -> Bases:
        defines, reads, writes = known.MATRIX[name]
        for i, argument in enumerate(arguments):
            bases = self.value(argument)
            if i in defines:
                self._out.defs |= self.place(argument).variables
            accesses = [Access(b, self.where(node)) for b in bases] or [Access(None, self.where(node))]
            if i in reads:
                self._out.reads += accesses
            if i in writes:
                self._out.writes += accesses
        return NOTHING

    def _unknown(self, name: str, arguments: list[Node], node: Node) -> Bases:
        """A call that cannot be walked may write whatever it is given by name or by address."""
        result = NOTHING
        touched = False
        for argument in arguments:
            bases = self.value(argument)
            result |= bases
            outside = [Access(b, self.where(node)) for b in bases if b.kind != "local"]
            self._out.reads += outside
            self._out.writes += outside
            variables = {b for b in bases if b.kind == "local"}
            if argument.type in ("identifier", "subscript_expression", "field_expression"):
                variables |= {v for v in self.place(argument).variables if not v.const}
            self._out.defs |= variables
            touched = touched or bool(outside or variables)
        function = node.child_by_field_name("function")
        if function is not None and function.type == "field_expression":
            at = self.place(function.child_by_field_name("argument") or function)
            self._out.uses |= at.variables
            self._out.defs |= at.variables
            touched = True
        if touched or name.startswith("atomic"):
            self._out.opaque.append((name, self.where(node)))
        return result

    def _body(self, node: Node) -> Bases:
        """Walk every statement under a callee's body for its effects; the value it may return."""
        result = NOTHING
        if node.type == "declaration":
            self._declare(node)
            return NOTHING
        if node.type in ("expression_statement", "return_statement"):
            for child in node.named_children:
                result |= self.value(child)
            return result
        if node.type in ("compound_statement", "for_statement"):
            with self.scope():
                for child in node.named_children:
                    result |= self._body(child)
            return result
        if node.type.endswith(("_statement", "_clause")):
            for child in node.named_children:
                result |= self._body(child)
            return result
        return self.value(node) if node.type not in _TYPES else NOTHING

    def _asm(self, node: Node) -> Bases:
        code = self.text(node)
        if "cp.async" in code or "mbarrier" in code:
            self._out.flags.add("async")
        if "bar.sync" in code or "barrier.sync" in code:
            self._out.flags.add("barrier")
        self._out.flags.add("asm")
        for child in node.named_children:
            if child.type == "gnu_asm_output_operand_list":
                self._asm_outputs(child)
            elif child.type == "gnu_asm_input_operand_list":
                bases = self._children(child)
                accesses = [Access(b, self.where(node)) for b in bases if b.kind != "local"]
                self._out.reads += accesses
                if not ("ldmatrix" in code or "ld.shared" in code or "ld.global" in code):
                    self._out.writes += accesses
        return NOTHING

    def _asm_outputs(self, listed: Node) -> None:
        for operand in listed.named_children:
            target = operand.child_by_field_name("value")
            if target is None:
                continue
            at = self.place(target)
            # "+" reads too, and an array element keeps its neighbours: count both as read.
            self._write(at, operand, also_read="+" in self.text(operand).split("(")[0])

    # -- loads ---------------------------------------------------------------------------------------------

    def find_loads(self, node: Node) -> list[Load]:
        """The maximal expressions below `node` that read global memory."""
        if node.type in _TYPES or node.type in ("gnu_asm_expression",):
            return []
        if node.type == "assignment_expression":
            right, left = node.child_by_field_name("right"), node.child_by_field_name("left")
            return [
                load
                for part in (right, left)
                if part is not None
                for load in self._below_place(part, part is left)
            ]
        if node.type == "call_expression" and self.inlined(node) is not None:
            return []
        probe = self._probe(node)
        if not probe.global_reads():
            return []
        if self._is_whole_load(node):
            bases = tuple(dict.fromkeys(a.base for a in probe.global_reads() if a.base is not None))
            nested = len(probe.global_reads()) > 1
            return [Load(span(node), bases, node.type != "conditional_expression", nested)]
        return [load for child in node.named_children for load in self.find_loads(child)]

    def _below_place(self, node: Node, is_place: bool) -> list[Load]:
        if not is_place:
            return self.find_loads(node)
        if node.type == "call_expression":
            return []
        return [load for child in node.named_children for load in self.find_loads(child)]

    def _is_whole_load(self, node: Node) -> bool:
        if node.type in ("conditional_expression", "subscript_expression", "field_expression"):
            return node.type != "field_expression" or not self._is_vector_member(node)
        if node.type == "pointer_expression":
            return self._operator(node) == "*"
        if node.type == "binary_expression":
            return self._operator(node) in ("&&", "||")
        if node.type == "identifier":
            return True
        if node.type == "call_expression":
            name = self.callee(node)
            return name in known.READS or (name in self.macros and self.lookup(name) is None)
        return False

    def _is_vector_member(self, node: Node) -> bool:
        """`(whole load).x`: the load is the argument, the member a piece of its value."""
        return self._operator(node) == "."

    def _probe(self, node: Node) -> Effects:
        outer, self._out = self._out, Collector()
        try:
            self.value(node)
            return self._out.frozen()
        finally:
            self._out = outer


def _has(node: Node, kind: str) -> bool:
    return node.type == kind or any(_has(child, kind) for child in node.named_children)


def lambda_function(name: str, node: Node) -> Function:
    """A lambda expression as a function."""
    declarator = node.child_by_field_name("declarator")
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    parameters = tuple(listed.named_children) if listed is not None else ()
    body = node.child_by_field_name("body")
    return Function(name, node, parameters, body if body is not None else node)
