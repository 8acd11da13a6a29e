"""Calls: helpers and lambdas of the program are entered with their parameters bound, macros expanded."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import replace
from typing import Any

from tree_sitter import Node

from tilepipe.lint.asynchronous import Asynchronous
from tilepipe.lint.events import NotUnderstoodError, Site
from tilepipe.lint.nodes import Closure, Memory, text_of
from tilepipe.lint.state import MAX_DEPTH, expansion, flat
from tilepipe.lint.values import ANY, Cell, Num, Object, Pointer

_BARRIERS = frozenset({"__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or"})
_CASTS = frozenset({"reinterpret_cast", "static_cast", "const_cast"})
_TO_SHARED = frozenset({"__cvta_generic_to_shared", "cast_smem_ptr_to_uint", "__nvvm_get_smem_pointer"})
_READS_FIRST = frozenset({"__ldg", "__ldcs", "__ldca", "__ldcg"})
_THIN = 6  # statements; a function with no more, which copies or waits by itself, stands for what it does
_WORD = re.compile(r"[A-Za-z_]\w*")


class Calls(Asynchronous):
    """Walks calls."""

    @abstractmethod
    def run_function(self, body: Node) -> Any:
        """Walk a function's body; what it returns."""

    def call(self, node: Node) -> Any:
        function = node.child_by_field_name("function")
        arguments = arguments_of(node)
        template: list[Node] = []
        if function is None:
            return ANY
        if function.type == "field_expression":
            return self._method(function, arguments, node)
        if function.type == "qualified_identifier":
            function = function.child_by_field_name("name") or function
            while function.type == "qualified_identifier":
                function = function.child_by_field_name("name") or function
        if function.type == "template_function":
            listed = function.child_by_field_name("arguments")
            template = list(listed.named_children) if listed is not None else []
            function = function.child_by_field_name("name") or function
        name = text_of(function)
        if function.type == "primitive_type":
            return self.cast(name, self.value(arguments[0])) if arguments else ANY
        if function.type in ("identifier", "type_identifier"):
            return self._named_call(name, arguments, template, node)
        target = self.value(function)
        if isinstance(target, Closure):
            return self._closure(target, arguments, node)
        return self._unknown(arguments)

    def _named_call(self, name: str, arguments: list[Node], template: list[Node], node: Node) -> Any:
        cell = self.lookup(name)
        if cell is not None:
            if isinstance(cell.value, Closure):
                return self._closure(cell.value, arguments, node)
            return self._unknown(arguments)
        macro = self.program.macros.get(name)
        if macro is not None and macro[0] is not None:
            return self.expanded(substitute(macro[0], macro[1], [text_of(a) for a in arguments]), node)
        if name in self.program.overloads:
            return self._function(name, arguments, template, node)
        if self.asynchronous_call(name, arguments, template, node):
            return ANY
        return self._known(name, arguments, template, node)

    def _known(self, name: str, arguments: list[Node], template: list[Node], node: Node) -> Any:
        if name in _BARRIERS:
            self.emit("barrier", self.site(node, name))
            return ANY
        if name in ("__syncwarp", "__shfl_sync"):
            self.trace.warp_synchronous = self.trace.warp_synchronous or name == "__syncwarp"
        if name in _CASTS and template and arguments:
            at = self.lvalue(arguments[0]) if "&" in text_of(template[0]) else None
            if isinstance(at, Memory):
                size = self.size_of(text_of(template[0]).replace("&", " ").strip())
                return Memory(replace(at.pointer, dims=(), elem=size))
            return self.cast(text_of(template[0]), self.value(arguments[0]))
        if name in _TO_SHARED and arguments:
            value = self.value(arguments[-1])
            return flat(value, 1) if isinstance(value, Pointer) else ANY
        if name in ("min", "max") and len(arguments) == 2:
            return _extreme(name, self.number(arguments[0]), self.number(arguments[1]))
        if name in ("aligned_size_t", "forward", "move") and arguments:
            return self.value(arguments[0])
        if name in _READS_FIRST and arguments:
            self.value(arguments[0])
            return ANY
        if name in ("load_matrix_sync", "store_matrix_sync") and len(arguments) > 1:
            return self._matrix(name, arguments, node)
        if name == "make_pipeline":
            return Object("pipeline", "block" if arguments else "thread")
        if name in ("this_thread_block", "tiled_partition", "coalesced_threads"):
            return Object("group", "block" if name == "this_thread_block" else "part")
        if name.startswith("atomic"):
            for argument in arguments[1:]:
                self.value(argument)
            return ANY
        if name in self.program.sync_names and name not in ("sync", "wait", "quit"):
            raise NotUnderstoodError(f"`{name}` is not known")
        return self._unknown(arguments)

    def _matrix(self, name: str, arguments: list[Node], node: Node) -> Any:
        pointer = self.value(arguments[1] if name.startswith("load") else arguments[0])
        if isinstance(pointer, Pointer):
            self.access("read" if name.startswith("load") else "store", pointer, pointer.elem * 16, node)
        return ANY

    def _unknown(self, arguments: list[Node]) -> Any:
        values = [self.value(a) for a in arguments]
        self.work += 1
        self.opaque(values)
        tags = frozenset(t for v in values if isinstance(v, Num) for t in v.tags)
        return replace(ANY, tags=tags)

    def opaque(self, values: list[Any]) -> None:
        for value in values:
            if isinstance(value, Pointer) and value.array.space == "shared":
                self.trace.opaque.add(value.array.name)

    def _method(self, function: Node, arguments: list[Node], node: Node) -> Any:
        owner_node, name = (
            function.child_by_field_name("argument"),
            text_of(function.child_by_field_name("field")),
        )
        owner = self.value(owner_node) if owner_node is not None else ANY
        if isinstance(owner, Object):
            return self.method(owner, name.split("<")[0], node)
        if name in ("producer_commit", "consumer_wait", "arrive_and_wait", "producer_acquire"):
            raise NotUnderstoodError(f"`{text_of(function)}` acts on an object that cannot be followed")
        return self._unknown(arguments)

    # -- functions, lambdas, macros ------------------------------------------------------------------------

    def _closure(self, closure: Closure, arguments: list[Node], node: Node) -> Any:
        declarator = closure.node.child_by_field_name("declarator")
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        body = closure.node.child_by_field_name("body")
        if body is None:
            return ANY
        bound = self._bind(list(listed.named_children) if listed is not None else [], arguments)
        return self._enter([*closure.scopes], bound, body, node, closure.header, thin=False)

    def _function(self, name: str, arguments: list[Node], template: list[Node], node: Node) -> Any:
        definition, outer, header = self._overload(name, len(arguments))
        body, parameters = definition.child_by_field_name("body"), parameters_of(definition)
        if body is None:
            return ANY
        bound = self._bind(parameters, arguments)
        scope: dict[str, Cell] = {}
        types: dict[str, str] = {}
        self._bind_template(outer, template, scope, types)
        self._deduce(parameters, bound, outer, types)
        self.types.append(types)
        try:
            return self._enter([self.scopes[0], scope], bound, body, node, header, self._is_thin(body))
        finally:
            self.types.pop()

    def _overload(self, name: str, count: int) -> tuple[Node, Node, str | None]:
        listed = self.program.overloads[name]
        return next((f for f in listed if len(parameters_of(f[0])) == count), listed[0])

    def _is_thin(self, body: Node) -> bool:
        statements = [c for c in body.named_children if c.type != "comment"]
        text = text_of(body)
        return (
            len(statements) <= _THIN
            and "for" not in _WORD.findall(text)
            and ("asm" in text or "__pipeline" in text or "memcpy_async" in text or "__syncthreads" in text)
        )

    def _bind(self, parameters: list[Node], arguments: list[Node]) -> list[tuple[Node, Any]]:
        """Parameters with what their arguments designate (references) or are worth."""
        bound: list[tuple[Node, Any]] = []
        for number, parameter in enumerate(parameters):
            declarator = parameter.child_by_field_name("declarator")
            if number < len(arguments):
                by_reference = declarator is not None and "&" in text_of(declarator)
                bound.append(
                    (
                        parameter,
                        self.lvalue(arguments[number]) if by_reference else self.value(arguments[number]),
                    )
                )
            else:
                default = parameter.child_by_field_name("default_value")
                bound.append((parameter, self.value(default) if default is not None else ANY))
        return bound

    def _enter(
        self,
        scopes: list[dict[str, Cell]],
        bound: list[tuple[Node, Any]],
        body: Node,
        node: Node,
        header: str | None,
        thin: bool,
    ) -> Any:
        if self.depth >= MAX_DEPTH:
            raise NotUnderstoodError("calls are nested too deeply")
        outer = self.scopes, self.anchor, self.header
        if self.anchor is None and (thin or (header is not None and header != self.header)):
            self.anchor = Site(self.span(node), "", False, self.header)
        self.depth, self.header = self.depth + 1, header
        self.scopes = [*scopes, {}]
        try:
            for parameter, value in bound:
                declarator = parameter.child_by_field_name("declarator")
                if declarator is not None:
                    self.declare_parameter(declarator, text_of(parameter.child_by_field_name("type")), value)
            return self.run_function(body)
        finally:
            self.scopes, self.anchor, self.header = outer
            self.depth -= 1

    def declare_parameter(self, declarator: Node, type_text: str, value: Any) -> None:
        """Make an argument visible under the parameter's name; a reference stands for what it refers to."""
        name = name_of(declarator)
        if not name:
            return
        if isinstance(value, Cell):
            self.scopes[-1][name] = value
            return
        if isinstance(value, Memory) and not value.pointer.dims and "&" not in text_of(declarator):
            value = ANY
        size = self.size_of(type_text)
        if isinstance(value, Pointer) and "*" in text_of(declarator):
            value = replace(
                value, elem=size or value.elem, dims=value.dims if not size or size == value.elem else ()
            )
        self.scopes[-1][name] = Cell(value, size, type_text)

    def _bind_template(
        self, outer: Node, template: list[Node], scope: dict[str, Cell], types: dict[str, str]
    ) -> None:
        for number, (name, default, is_type) in enumerate(template_parameters(outer)):
            given = template[number] if number < len(template) else default
            if given is None:
                continue
            if is_type:
                types[name] = text_of(given)
            else:
                inner = (
                    given.named_children[0]
                    if given.type == "type_descriptor" and given.named_children
                    else given
                )
                scope[name] = Cell(
                    self.value(inner) if inner.type != "type_identifier" else self._identifier(inner), 4
                )

    def _deduce(
        self, parameters: list[Node], bound: list[tuple[Node, Any]], outer: Node, types: dict[str, str]
    ) -> None:
        """Type parameters that stand under a pointer have the size of what the argument points to."""
        names = {name for name, _, is_type in template_parameters(outer) if is_type}
        for parameter, value in bound:
            type_name = text_of(parameter.child_by_field_name("type"))
            if type_name in names and type_name not in types and isinstance(value, Pointer) and value.elem:
                types[type_name] = str(value.elem)

    def expanded(self, text: str, node: Node) -> Any:
        if self.depth >= MAX_DEPTH:
            raise NotUnderstoodError("macros are nested too deeply")
        body = expansion(text)
        statements = [c for c in body.named_children if c.type != "comment"]
        outer = self.anchor
        if self.anchor is None:
            self.anchor = Site(self.span(node), "", True, self.header)
        self.depth += 1
        try:
            if len(statements) == 1 and statements[0].type == "expression_statement":
                return self.lvalue(statements[0].named_children[0]) if statements[0].named_children else ANY
            self.run_block(statements)
            return ANY
        finally:
            self.anchor = outer
            self.depth -= 1

    @abstractmethod
    def run_block(self, statements: list[Node]) -> None:
        """Walk statements in the present scope."""


def substitute(parameters: tuple[str, ...], body: str, arguments: list[str]) -> str:
    """A macro's body with its parameters replaced, stringified or pasted."""
    values = dict(zip(parameters, arguments, strict=False))
    if parameters and parameters[-1] == "...":
        values["__VA_ARGS__"] = ", ".join(arguments[len(parameters) - 1 :])
    body = re.sub(
        r"(?<!#)#\s*([A-Za-z_]\w*)", lambda m: f'"{values[m[1]]}"' if m[1] in values else m[0], body
    )
    pieces = re.split(r'("(?:[^"\\]|\\.)*")', body)
    out = [p if p.startswith('"') else _WORD.sub(lambda m: values.get(m[0], m[0]), p) for p in pieces]
    return re.sub(r"\s*##\s*", "", "".join(out))


def _extreme(name: str, a: Num, b: Num) -> Num:
    pick = min if name == "min" else max
    return Num(pick(a.lo, b.lo), pick(a.hi, b.hi), a.tags | b.tags)


def arguments_of(node: Node) -> list[Node]:
    """The arguments of a call."""
    listed = node.child_by_field_name("arguments")
    return [c for c in listed.named_children if c.type != "comment"] if listed is not None else []


def parameters_of(definition: Node) -> list[Node]:
    """The parameter declarations of a function definition."""
    declarator = definition.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator") or next(
            (c for c in declarator.named_children if c.type == "function_declarator"), None
        )
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    kinds = ("parameter_declaration", "optional_parameter_declaration")
    return [p for p in listed.named_children if p.type in kinds] if listed is not None else []


def template_parameters(outer: Node) -> list[tuple[str, Node | None, bool]]:
    """Name, default and whether it is a type, of a template's parameters."""
    if outer.type != "template_declaration":
        return []
    listed = outer.child_by_field_name("parameters")
    found: list[tuple[str, Node | None, bool]] = []
    for p in listed.named_children if listed is not None else []:
        is_type = "type_parameter" in p.type
        if is_type:
            named = [c for c in p.named_children if c.type == "type_identifier"]
            found.append((text_of(named[0]) if named else "", p.child_by_field_name("default_type"), True))
        elif p.type.endswith("parameter_declaration"):
            declarator = p.child_by_field_name("declarator")
            found.append(
                (
                    name_of(declarator) if declarator is not None else "",
                    p.child_by_field_name("default_value"),
                    False,
                )
            )
    return found


def name_of(declarator: Node) -> str:
    """The name that a declarator declares."""
    node: Node | None = declarator
    while node is not None and node.type not in ("identifier", "field_identifier", "type_identifier"):
        node = node.child_by_field_name("declarator") or next(iter(node.named_children), None)
    return text_of(node)
