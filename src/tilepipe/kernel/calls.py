"""What calls do: helpers of the file walked with their parameters bound, known functions, and unknown ones."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tree_sitter import Node

from tilepipe.kernel import known
from tilepipe.kernel.effects import Access
from tilepipe.kernel.macros import expand
from tilepipe.kernel.names import (
    NOTHING,
    TYPES,
    Bases,
    Function,
    Place,
    arguments_of,
    callee,
    lambda_function,
    reaches,
)
from tilepipe.kernel.operators import PLAIN
from tilepipe.kernel.places import Places
from tilepipe.kernel.symbols import THREAD, Symbol, declared

# Where functions of known names are those that are known.
_LIBRARIES = re.compile(r"(::\s*)?(std|cuda|nvcuda|cooperative_groups|cg|wmma|thrust|nv)\s*::|std\b")
# Library functions that take what they change by reference.
_TAKING = re.compile(r"(iter_)?swap|exchange|atomic_ref|ref|tie")
_COUNTED = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.sync(?:\.aligned)?\s+[^,;]+,")
_SHARED = re.compile(r"\b(?:ld|st|atom|red)\.(?:\w+\.)*shared\b|\b(?:ld|st)matrix\.")
_WRITING = re.compile(r"\b(?:st|stmatrix|red|atom|cp|multimem)\.")
_DEPTH = 8  # calls inlined within calls before a callee counts as opaque


class Calls(Places):
    """Walks calls and inline assembly."""

    @abstractmethod
    def declare_all(self, node: Node) -> None:
        """Walk a declaration; its names become visible."""

    @abstractmethod
    def expanded(self, text: str, node: Node) -> Bases:
        """Walk a macro's expansion in the place of its call."""

    def inlined(self, node: Node) -> tuple[Function, Node] | None:
        """The function or lambda of the file that a call expression calls, if it can be walked."""
        function = node.child_by_field_name("function")
        if function is not None and function.type == "lambda_expression":
            return lambda_function("", function), node
        if function is None or function.type not in (
            "identifier",
            "template_function",
            "qualified_identifier",
        ):
            return None
        if len(self.context) >= _DEPTH:
            return None
        name = callee(node)
        found = self.lookup(name)
        if isinstance(found, Symbol) and found.kind == "lambda" and found in self.lambdas:
            self.out.uses.add(found)
            return lambda_function(name, self.lambdas[found]), node
        known_here = self.functions.get(name)
        if known_here is None or found is not None or known_here.foreign or not self._means(known_here, node):
            return None
        return known_here, node

    def _means(self, function: Function, node: Node) -> bool:
        return reaches(function, node, self.caller, self.opened)

    def _foreign(self, node: Node) -> Function | None:
        """A function whose text cannot stand in for the call: walked for its effects, which stand at the call."""
        name = callee(node)
        function = self.functions.get(name)
        known_here = function is not None and function.foreign and self.lookup(name) is None
        known_here = known_here and function is not None and self._means(function, node)
        return function if known_here and len(self.context) < _DEPTH else None

    @contextmanager
    def entered(self, function: Function, call: Node) -> Iterator[dict[Symbol, frozenset[Symbol]]]:
        """Walk a callee: its parameters bound to the call's arguments in a scope of their own. Yields what each
        parameter that is a variable is made of."""
        arguments = arguments_of(call)
        bound: dict[str, Symbol | Place] = {}
        made_of: dict[Symbol, frozenset[Symbol]] = {}
        context = (*self.context, self.where(call).start)
        for parameter, argument in zip(function.parameters, arguments, strict=False):
            text = parameter.text.decode() if parameter.text else ""
            for named, _ in declared(parameter, text, context, "local"):
                at = self.place(argument) if named.reference or named.is_array else None
                if at is not None and (named.reference or all(v.is_array for v in at.variables)):
                    bound[named.name] = at  # an array parameter is the caller's array
                else:
                    symbol = replace(named, rank=0, pointer=named.pointer or named.is_array)
                    with self.collecting() as inner:
                        self.points[symbol] |= self.value(argument)
                    self.merge(inner)
                    self.out.defs.add(symbol)
                    made_of[symbol] = frozenset(inner.uses | inner.defs)
                    bound[symbol.name] = symbol
        is_lambda = function.node.type == "lambda_expression"
        outer_scopes, outer_context, outer_site = self.scopes, self.context, self.site
        outer_caller, self.caller = self.caller, self.caller if is_lambda else function.scope
        self.scopes = [*outer_scopes, bound] if is_lambda else [outer_scopes[0], bound]
        # A header's text is not the author's file: whatever it does is placed at the call.
        self.context, self.site = context, self.where(call) if function.foreign else None
        try:
            yield made_of
        finally:
            self.scopes, self.context, self.site = outer_scopes, outer_context, outer_site
            self.caller = outer_caller

    def call(self, node: Node) -> Bases:
        name = callee(node)
        arguments = arguments_of(node)
        macro = self.macro(name)
        if macro is not None and macro.parameters is not None:
            with self.expansion(name):
                return self.expanded(expand(macro, [self.text(a) for a in arguments]), node)
        inlined = self.inlined(node)
        if inlined is not None:
            function, call = inlined
            if function.captures_copies:
                self.out.flags.add("structure")
            with self.entered(function, call), self.scope():
                return self._body(function.body)
        foreign = self._foreign(node)
        if foreign is not None:
            result = NOTHING
            for function in (foreign, *foreign.overloads):
                with self.entered(replace(function, foreign=True), node), self.scope():
                    result |= self._body(function.body)
            return result
        group = self._group(node) if name == "sync" else ""
        if name in known.BARRIERS or group == "barrier":
            self.out.flags |= {"barrier", *self._wider_group(node)}
            return self._walk(arguments)
        if known.is_async(name):
            self.out.flags.add("async")
        if name == "__cvta_shared_to_generic":
            bases = self._walk(arguments)
            if not bases:
                self.out.flags.add("structure")  # as above
            return bases
        if name in known.READS and arguments:
            self.out.reads += [Access(b, self.where(node)) for b in self.value(arguments[0])]
            return NOTHING
        if name in known.MATRIX:
            return self._matrix(name, arguments, node)
        if known.is_warp(name) or group == "warp":
            self.out.flags.add("warp")
            self.out.uses.add(THREAD)
            return self._walk(arguments)
        pure = name in known.CASTS or (known.is_pure(name) and not self._found_by_argument(name, arguments))
        if self._converts(node) or (self._known_here(node) and pure):
            return self._walk(arguments)
        if (
            name in known.BY_VALUE
            and self._known_here(node)
            and name not in self.functions
            and not self.lookup(name)
        ):
            bases = self._walk(arguments)
            self.out.reads += self.accesses(bases, node)
            self.out.opaque.append((name, self.where(node)))
            return NOTHING
        return self._unknown(name, arguments, node)

    def _converts(self, node: Node) -> bool:
        """Whether what looks like a call is a conversion, `(T)(x)`."""
        function = node.child_by_field_name("function")
        inner = function.named_children if function is not None else []
        if function is None or function.type != "parenthesized_expression" or len(inner) != 1:
            return False
        name = self.text(inner[0])
        if inner[0].type == "qualified_identifier":
            last = name.rpartition("::")[2].strip()
            return last in self.unseen.types and last not in self.unseen.functions
        return inner[0].type == "identifier" and self.lookup(name) is None and name not in self.functions

    def _found_by_argument(self, name: str, arguments: list[Node]) -> bool:
        """Whether a call may mean a function of the author's that the class of an argument leads to: one in another
        namespace, or a friend."""
        if name not in self.functions and name in self.unseen.free:
            return True  # a macro makes it
        if name not in self.functions and name not in self.unseen.friends:
            return False
        found = [self.lookup(word) for a in arguments for word in re.findall(r"[A-Za-z_]\w*", self.text(a))]
        return any(isinstance(s, Symbol) and not PLAIN.fullmatch(s.type) for s in found)

    def _known_here(self, node: Node) -> bool:
        """Whether a call by a known function's name is one of it: no method, and no function of a class."""
        function = node.child_by_field_name("function")
        if function is None or function.type != "qualified_identifier":
            return function is not None and function.type != "field_expression"
        return (
            function.child_by_field_name("scope") is None or _LIBRARIES.match(self.text(function)) is not None
        )

    def _group(self, node: Node) -> str:
        """What `sync` synchronises: "barrier" for a block or more, "warp" for less, "" for what is none of CUDA's."""
        words = self._words(node)
        if re.search(
            r"tiled_partition|thread_block_tile|coalesced|labeled_partition|binary_partition", words
        ):
            return "warp"
        return "barrier" if re.search(r"this_thread_block|thread_block|grid|cluster", words) else ""

    def _wider_group(self, node: Node) -> set[str]:
        """A group that other blocks belong to: memory that they write may change at its barrier."""
        return {"structure"} if re.search(r"grid|cluster", self._words(node)) else set()

    def _words(self, node: Node) -> str:
        """The text of a call, and what declares the names in it."""
        words = self.text(node)
        for name in re.findall(r"[A-Za-z_]\w*", words):
            found = self.lookup(name)
            if isinstance(found, Symbol) and found.kind != "shared":
                words += f" {found.type} {self.source.slice(found.decl)}"
        return words

    def lambda_value(self, node: Node) -> Bases:
        """A lambda expression handed on: whoever gets it may call it, so that its effects may happen here."""
        self.out.flags.add("structure")
        function = lambda_function("", node)
        with self.scope():
            for parameter in function.parameters:
                for symbol, _ in declared(parameter, self.text(parameter), self.context, "local"):
                    self.declare(symbol)
            self._body(function.body)
        return NOTHING

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
                self.out.defs |= self.place(argument).variables
            accesses = self.accesses(bases, node)
            if i in reads:
                self.out.reads += accesses
            if i in writes:
                self.out.writes += accesses
        return NOTHING

    def _unknown(self, name: str, arguments: list[Node], node: Node) -> Bases:
        """A call that cannot be walked may write whatever it is given by name or by address."""
        result = NOTHING
        touched = False
        for argument in arguments:
            bases = self.value(argument)
            result |= bases
            outside = [Access(b, self.where(node)) for b in bases if b.kind != "local"]
            self.out.reads += outside
            self.out.writes += outside
            variables = {b for b in bases if b.kind == "local"}
            if argument.type in ("identifier", "subscript_expression", "field_expression"):
                at = self.place(argument)
                variables |= {v for v in at.variables if not v.const}
                if at.memory and (_TAKING.fullmatch(name) or self.unseen.takes_reference(name)):
                    self.write(at, node, also_read=True)
                    touched = True
            self.out.defs |= variables
            touched = touched or bool(outside or variables)
        function = node.child_by_field_name("function")
        if function is not None:
            touched |= self._called_object(function, name, node)
        if function is not None and self._reaches_beyond(function, name):
            anywhere = Access(None, self.where(node))
            self.out.reads.append(anywhere)
            self.out.writes.append(anywhere)
            touched = True
        # A constant that a class's function says: it is given nothing, and reaches nothing.
        constant = function is not None and function.type == "qualified_identifier" and not arguments
        authors = name in self.unseen.functions and not (constant and not self.unseen.function_reaches(name))
        if touched or name.startswith("atomic") or authors:
            self.out.opaque.append((name, self.where(node)))
        return result

    def _called_object(self, function: Node, name: str, node: Node) -> bool:
        """What a call may do to the object whose method it is, or which is called itself; whether there is one."""
        if function.type in ("field_expression", "identifier"):
            at = self.place(function.child_by_field_name("argument") or function)
            self.out.uses |= at.variables
            self.out.defs |= at.variables
            held = frozenset(b for v in at.variables for b in self.points[v] if b.kind != "local")
            held |= frozenset() if at.memory else at.bases  # of an object made here
            if held:  # what the object points to
                self.write(Place(NOTHING, True, held), node, also_read=True)
            if at.memory and not self.unseen.only_reads(
                name if function.type == "field_expression" else "operator()"
            ):
                self.write(at, node, also_read=True)
            return bool(at.variables) or at.memory or function.type == "field_expression"
        if function.type in ("qualified_identifier", "template_function"):
            return False
        self.value(function)
        found = map(self.lookup, re.findall(r"[A-Za-z_]\w*", self.text(function)))
        named = frozenset(s for s in found if isinstance(s, Symbol))
        self.out.defs |= {s for s in named if s.kind in ("local", "param")}
        shared = frozenset(s for s in named if s.kind in ("shared", "file"))
        if shared and not self.unseen.only_reads("operator()"):
            self.write(Place(NOTHING, True, shared), node, also_read=True)
        return True

    def _reaches_beyond(self, function: Node, name: str) -> bool:
        """Whether what a call names may change memory that it is not given: a function that is known by a pointer
        alone, or one of a class or namespace that does so in its body."""
        if function.type == "field_expression":
            return name in self.unseen.reaching
        if function.type == "identifier":
            found = self.lookup(name)
            if found is None:
                return name in self.unseen.pointers or self.unseen.function_reaches(name)
            symbols = {found} if isinstance(found, Symbol) else found.variables
            return not all(self._is_object(s) for s in symbols)
        if function.type in ("qualified_identifier", "template_function"):
            return self.unseen.function_reaches(name)
        words = re.findall(r"[A-Za-z_]\w*", self.text(function))
        found_types = [s.type for s in map(self.lookup, words) if isinstance(s, Symbol)]
        named = {word for type_ in (*found_types, *words) for word in re.findall(r"\w+", type_)}
        return not named & self.unseen.classes or "operator()" in self.unseen.reaching

    def _is_object(self, symbol: Symbol) -> bool:
        """Whether a variable that is called is an object whose class changes nothing but itself in that."""
        words = set(re.findall(r"\w+", symbol.type))
        is_class = bool(words & (self.unseen.classes | self.unseen.templates)) and not symbol.pointer
        return is_class and "operator()" not in self.unseen.reaching

    def _body(self, node: Node) -> Bases:
        """Walk every statement under a callee's body for its effects; the value it may return."""
        result = NOTHING
        if node.type == "declaration":
            self.declare_all(node)
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
        return self.value(node) if node.type not in TYPES else NOTHING

    def asm(self, node: Node) -> Bases:
        code = self.text(node)
        if "cp.async" in code or "mbarrier" in code:
            self.out.flags.add("async")
        if "bar.sync" in code or "barrier.sync" in code:
            # With a number of threads it need not be a barrier of the block.
            self.out.flags |= {"barrier", *(("structure",) if _COUNTED.search(code) else ())}
        self.out.flags.add("asm")
        for child in node.named_children:
            if child.type == "gnu_asm_output_operand_list":
                self._asm_outputs(child)
            elif child.type == "gnu_asm_input_operand_list":
                bases = self.children(child)
                if _SHARED.search(code) and not bases:
                    self.out.flags.add("structure")  # an address in shared memory that nobody knows
                accesses = [Access(b, self.where(node)) for b in bases if b.kind != "local"]
                self.out.reads += accesses
                reads_only = "ldmatrix" in code or "ld.shared" in code or "ld.global" in code
                if not reads_only or _WRITING.search(code):
                    self.out.writes += accesses
        return NOTHING

    def _asm_outputs(self, listed: Node) -> None:
        for operand in listed.named_children:
            target = operand.child_by_field_name("value")
            if target is None:
                continue
            at = self.place(target)
            # "+" reads too, and an array element keeps its neighbours: count both as read.
            self.write(at, operand, also_read="+" in self.text(operand).split("(")[0])
