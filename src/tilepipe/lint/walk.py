"""The walk: statements of one kernel in program order, loops that synchronise turn by turn, others once."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tree_sitter import Node

from tilepipe.kernel.file import KernelText
from tilepipe.lint.calls import name_of, parameters_of, template_parameters
from tilepipe.lint.events import NotUnderstoodError, Trace
from tilepipe.lint.loops import Break, Continue, Loops
from tilepipe.lint.nodes import Memory, operator_of, text_of
from tilepipe.lint.program import Program
from tilepipe.lint.state import Launch, StopWalk
from tilepipe.lint.values import (
    ANY,
    THREAD,
    Array,
    Cell,
    Num,
    Object,
    Pointer,
    Tags,
    arithmetic,
    const,
    unknown,
)
from tilepipe.source import Span
from tilepipe.source.parse import parse_tree

_INTEGERS = re.compile(r"^(unsigned|signed|int|long|short|size_t|u?int\d+_t|uint|dim_t)\b")
_EXPRESSIONS = frozenset(
    {"comment", "preproc_def", "preproc_function_def", "preproc_include", "using_declaration"}
)


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Walker(Loops):
    """Walks the statements of one kernel."""

    def run_kernel(self, definition: Node, outer: Node) -> Trace:
        """The events of the kernel under the launch. Raises NotUnderstoodError."""
        self.bind_template(outer)
        with self.scope():
            for parameter in parameters_of(definition):
                self._parameter(parameter)
            body = definition.child_by_field_name("body")
            try:
                if body is not None:
                    self.run_function(body)
                    self.anchor = None
                    self.emit("exit", self.site(body.children[-1]))
            except StopWalk:
                self.trace.stopped = True
        self.trace.arrays = list(self.arrays.values())
        return self.trace

    def bind_template(self, outer: Node) -> None:
        """Give the template parameters their values: those of the launch, else the defaults."""
        for number, (name, default, is_type) in enumerate(template_parameters(outer)):
            text = self.launch.template[number] if number < len(self.launch.template) else text_of(default)
            node = expression(text) if text and not is_type else None
            if is_type and text:
                self.types[0][name] = text
            elif node is not None:
                self.scopes[0][name] = Cell(self.value(node), 4)

    def bind_kernel_template(self, name: str) -> None:
        """The same for a kernel by name."""
        self.bind_template(self.program.functions[name][1])

    def _parameter(self, parameter: Node) -> None:
        declarator, kind = (
            parameter.child_by_field_name("declarator"),
            text_of(parameter.child_by_field_name("type")),
        )
        if declarator is None:
            return
        name = name_of(declarator)
        value: Any = unknown(frozenset({f"parameter {name}"}))
        if "*" in text_of(declarator) or "[" in text_of(declarator):
            size = self.size_of(kind)
            value = Pointer(Array(name, "global", size), elem=size)
        elif name in self.launch.parameters:
            value = const(self.launch.parameters[name], frozenset({f"parameter {name}"}))
        self.scopes[-1][name] = Cell(value, self.size_of(kind), kind)

    def run_function(self, body: Node) -> Any:
        try:
            with self.scope():
                self.run_block(body.named_children)
        except _Return as end:
            return end.value
        return ANY

    def run_block(self, statements: list[Node]) -> None:
        for statement in statements:
            self.run(statement)

    def span(self, node: Node) -> Span:
        """Where a node stands in the author's text."""
        if self.anchor is not None:
            return self.anchor.span
        return Span(node.start_byte, node.end_byte)

    def run(self, node: Node) -> None:
        """Walk one statement."""
        kind = node.type
        if kind in _EXPRESSIONS or not node.is_named:
            return
        if kind == "compound_statement":
            with self.scope():
                self.run_block(node.named_children)
        elif kind == "declaration":
            self._declaration(node)
        elif kind == "if_statement":
            self._if(node)
        elif kind in ("for_statement", "while_statement", "do_statement"):
            with self.scope():
                self.loop(node)
        elif kind == "return_statement":
            raise _Return(self.value(node.named_children[0]) if node.named_children else ANY)
        elif kind == "break_statement":
            raise Break
        elif kind == "continue_statement":
            raise Continue
        elif kind.startswith("preproc_"):
            self._preprocessor(node)
        elif kind in ("switch_statement", "goto_statement", "try_statement", "for_range_loop"):
            self._foreign(node)
        elif kind in ("type_definition", "alias_declaration"):
            type_node = node.child_by_field_name("type")
            name = node.child_by_field_name("declarator") or node.child_by_field_name("name")
            self.types[-1][text_of(name)] = text_of(type_node)
        else:
            self.value(node)

    def _foreign(self, node: Node) -> None:
        if self.program.synchronises(text_of(node)) or self.program.copies(text_of(node)):
            raise NotUnderstoodError(f"a {node.type.replace('_', ' ')} around synchronisation")

    def _preprocessor(self, node: Node) -> None:
        alternative = node.child_by_field_name("alternative")
        skipped = {
            n.id
            for n in (node.child_by_field_name("name"), node.child_by_field_name("condition"), alternative)
            if n
        }
        own = [c for c in node.named_children if c.id not in skipped]
        if node.type == "preproc_else" or self._holds(node):
            self.run_block(own)
        elif alternative is not None:
            self._preprocessor(alternative)

    def _holds(self, node: Node) -> bool:
        name = text_of(node.child_by_field_name("name"))
        if name:
            wanted = not text_of(node).lstrip().startswith("#ifndef")
            return (name in self.program.macros or name == "__CUDA_ARCH__") is wanted
        condition = text_of(node.child_by_field_name("condition"))
        condition = re.sub(
            r"defined\s*\(?\s*(\w+)\s*\)?", lambda m: str(int(m[1] in self.program.macros)), condition
        )
        condition = re.sub(r"\b__CUDA_ARCH__\b", "800", condition)
        test = expression(condition)
        return test is not None and self.number(test).truth is True

    # -- declarations --------------------------------------------------------------------------------------

    def _declaration(self, node: Node) -> None:
        words = {c.text for c in node.children if c.type in ("type_qualifier", "storage_class_specifier")}
        kind = text_of(node.child_by_field_name("type"))
        shared = b"__shared__" in words
        for i, child in enumerate(node.children):
            if node.field_name_for_child(i) == "declarator":
                self._declare(child, kind, shared, b"extern" in words, node)

    def _declare(self, declarator: Node, kind: str, shared: bool, dynamic: bool, node: Node) -> None:
        value_node = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
        inner = (
            declarator.child_by_field_name("declarator")
            if declarator.type == "init_declarator"
            else declarator
        )
        name, size = name_of(declarator), self.size_of(kind)
        if not name or inner is None:
            return
        dims = self._dims(inner)
        if inner.type == "array_declarator" or (shared and not dims):
            space = "shared" if shared else "local"
            if value_node is not None:
                self.value(value_node)
            if inner.type != "array_declarator" and _is_object(kind):
                self.scopes[-1][name] = Cell(Object("barrier"), 0, kind)
                return
            whole = tuple(dims)
            array = self.arrays.get((node.start_byte, name))
            if array is None:
                array = Array(
                    name, "shared" if space == "shared" else "local", size, whole, self.span(node), dynamic
                )
                if shared:
                    self.arrays[node.start_byte, name] = array
            # A dynamic pool and a scalar have no extent to subscript: both act as memory at a pointer.
            flat = dynamic and len(whole) < 2
            value: Any = Pointer(array, elem=size) if flat else Memory(Pointer(array, elem=size, dims=whole))
            self.scopes[-1][name] = Cell(value, size, kind)
            return
        reference = "&" in text_of(inner).split(name)[0]
        if value_node is None:
            self.scopes[-1][name] = Cell(_fresh(kind), size, kind)
            return
        value = self.lvalue(value_node) if reference else self.value(value_node)
        if isinstance(value, Memory) and not value.pointer.dims and not reference:
            value = self.load(value, value_node)
        pointer = value
        if isinstance(pointer, Pointer) and "*" in text_of(inner) and kind not in ("auto", "void") and size:
            value = replace(pointer, elem=size, dims=pointer.dims if size == pointer.elem else ())
        if isinstance(value, Num) and kind in ("float", "double"):
            value = unknown(value.tags)
        made = Cell(value, size, kind, text_of(value_node))
        self.scopes[-1][name] = value if isinstance(value, Cell) else made

    def _dims(self, declarator: Node) -> list[int | None]:
        dims: list[int | None] = []
        node: Node | None = declarator
        while node is not None:
            if node.type == "array_declarator":
                size = node.child_by_field_name("size")
                dims.insert(0, self.number(size).known if size is not None else None)
            node = node.child_by_field_name("declarator")
        return dims

    # -- branches ------------------------------------------------------------------------------------------

    def _if(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        then, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        with self.scope():
            if condition is not None and condition.child_by_field_name("initializer") is not None:
                self.run(condition.child_by_field_name("initializer"))  # type: ignore[arg-type]
            test, parts = self._conjuncts(condition)
            at = self.span(condition) if condition is not None else self.span(node)
            if test.truth is not None:
                taken = then if test.truth else other
                if taken is not None:
                    with self.guarded(at, test.tags, False):
                        self._arm(taken)
                return
            arm = self._to_follow(then, other, test.tags)
            if arm is not None:
                with self.guarded(at, test.tags, False):
                    self._arm(arm)
                return
            self._both(at, parts, then, other)

    def _conjuncts(self, node: Node | None) -> tuple[Num, list[Num]]:
        """A condition's value, and those of the parts that `&&` joins, which guard one by one."""
        while node is not None and node.type in ("parenthesized_expression", "condition_clause"):
            node = node.child_by_field_name("value") or node.named_children[-1]
        if node is None or node.type != "binary_expression" or operator_of(node) != "&&":
            value = self.condition(node)
            return value, [value]
        left, first = self._conjuncts(node.child_by_field_name("left"))
        if left.truth is False:
            return left, first
        right, second = self._conjuncts(node.child_by_field_name("right"))
        return arithmetic("&&", left, right), [*first, *second]

    def condition(self, node: Node | None) -> Num:
        """The value of a condition; of a pointer, that it is one."""
        if node is None:
            return const(1)
        inner = node.child_by_field_name("value") or (
            node if not node.named_children else node.named_children[-1]
        )
        if node.type not in ("condition_clause", "parenthesized_expression"):
            inner = node
        value = self.value(inner)
        if isinstance(value, Pointer):
            return const(1)
        return value if isinstance(value, Num) else ANY

    def _arm(self, node: Node) -> None:
        self.run(node.named_children[-1] if node.type == "else_clause" else node)

    def _to_follow(self, then: Node | None, other: Node | None, tags: Tags) -> Node | None:
        """Where only one arm synchronises, for some of the threads, that one; where both do, the one with copies: the
        other is for launches that these do not suit. None where neither synchronises."""
        first = self.program.synchronises(text_of(then))
        second = self.program.synchronises(text_of(other))
        if not first and not second:
            return None
        if THREAD in tags and first and not second:
            return then
        copying = [a for a in (then, other) if a is not None and self.program.copies(text_of(a))]
        if THREAD not in tags and first and second and len(copying) == 1:
            return copying[0]
        raise NotUnderstoodError("synchronisation under a condition that cannot be decided")

    def _both(self, at: Span, parts: list[Num], then: Node | None, other: Node | None) -> None:
        reached = []
        tags: Tags = frozenset(tag for part in parts for tag in part.tags)
        for arm in (then, other):
            journal: list[tuple[Cell, Any]] = []
            self.journals.append(journal)
            try:
                if arm is not None:
                    with ExitStack() as guards:
                        for part in parts:
                            guards.enter_context(self.guarded(at, part.tags, part.truth is None))
                        self._arm(arm)
            except (Break, Continue, _Return):
                pass  # some threads leave early: the others are followed
            finally:
                self.journals.pop()
            reached.append(self.rollback(journal))
        self.join(reached[0], reached[1], tags)


def walk(program: Program, kernel: KernelText, launch: Launch) -> Trace:
    """The events of one kernel under one launch. Raises NotUnderstoodError where it cannot be followed."""
    definition, outer, _ = program.functions[kernel.name]
    return Walker(program, launch).run_kernel(definition, outer)


def integer_parameters(program: Program, kernel: KernelText) -> tuple[str, ...]:
    """The kernel's parameters that may be sizes."""
    definition, _, _ = program.functions[kernel.name]
    found = []
    for parameter in parameters_of(definition):
        declarator, kind = (
            parameter.child_by_field_name("declarator"),
            text_of(parameter.child_by_field_name("type")),
        )
        if declarator is not None and "*" not in text_of(declarator) and _INTEGERS.match(kind):
            found.append(name_of(declarator))
    return tuple(found)


def template_names(program: Program, kernel: KernelText) -> list[tuple[str, Node | None, bool]]:
    """The kernel's template parameters."""
    _, outer, _ = program.functions[kernel.name]
    return template_parameters(outer)


def expression(text: str) -> Node | None:
    """A piece of text as an expression, None where it is none."""
    root = parse_tree("void tp() {" + text + ";}").root_node
    body = root.named_children[0].child_by_field_name("body") if root.named_children else None
    statement = body.named_children[0] if body is not None and body.named_children else None
    if statement is None or statement.type != "expression_statement" or not statement.named_children:
        return None
    return statement.named_children[0]


def _is_object(kind: str) -> bool:
    return "barrier" in kind or "pipeline" in kind


def _fresh(kind: str) -> Any:
    if "pipeline" in kind:
        return Object("pipeline", "thread" if "thread_scope_thread" in kind else "block")
    return ANY
