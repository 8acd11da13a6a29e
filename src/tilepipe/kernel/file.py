"""The kernels and helper functions of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tree_sitter import Node

from tilepipe.kernel.analysis import Analyzer
from tilepipe.kernel.binding import function_name, introduced, opened_by, signature
from tilepipe.kernel.macros import Macro, file_macros, written
from tilepipe.kernel.names import Function
from tilepipe.kernel.operators import may_change
from tilepipe.kernel.statements import Builder, Statement
from tilepipe.kernel.symbols import Symbol, declarators, declared
from tilepipe.kernel.unseen import Unseen
from tilepipe.source import Edit, SourceFile, Span, edited
from tilepipe.source.parse import Tree, parse, span

_MAKING = re.compile(r"__device__|\b(?:operator|struct|class|asm)\b|(?<![=<>!])=(?!=)|\+\+|--")
_DEFINES = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)\b(?:[^\n\\]|\\.)*", re.M | re.S)
_MEMORY = ("__constant__", "__device__", "__managed__", "__shared__")
_USING = re.compile(r"\busing\s+(?!\w+\s*=)([\w\s:,]+);")
_CLASSES = ("struct_specifier", "class_specifier", "union_specifier")
_CONTAINERS = frozenset(
    {"translation_unit", "namespace_definition", "declaration_list", "linkage_specification"}
)


@dataclass(frozen=True)
class KernelText:
    """A `__global__` function of the file: where it stands and what it is called."""

    name: str
    span: Span  # the definition with its template header
    body: Span
    parameters: tuple[str, ...]
    template: tuple[str, ...]
    scope: tuple[str, ...] = ()  # the named namespaces around it, outermost first


@dataclass(frozen=True)
class HeaderCopy:
    """A function of a header that stands in the file's text too (`fromheader.py`): the copy's name, the name of what it
    is a copy of, and its text."""

    name: str
    of: str
    text: str


@dataclass(frozen=True)
class Analysed:
    """A kernel's statements with their effects, and its parameters as symbols."""

    kernel: KernelText
    body: Statement
    parameters: tuple[Symbol, ...]
    macros: dict[str, Macro]
    points: dict[Symbol, frozenset[Symbol]]  # what each pointer may point into
    carved: dict[Symbol, Symbol]  # piece of a shared array -> that array


class CudaFile:
    """A parsed file: its kernels, its helpers, its macros, and those of the headers it includes.

    Functions of headers are known for their effects alone: their text is not the author's to rewrite here.
    """

    def __init__(
        self, source: SourceFile, headers: Sequence[SourceFile] = (), copies: tuple[HeaderCopy, ...] = ()
    ) -> None:
        self.source = source
        self.copies = copies
        self.tree: Tree = parse(source)
        self._header_files = tuple(headers)
        self.header_trees = tuple(
            parse(header) for header in headers
        )  # of the headers that the file includes
        self.macros: dict[str, Macro] = {}
        for tree in (*self.header_trees, self.tree):
            for name, macro in file_macros(tree.root).items():
                self.macros[name] = macro.beside(self.macros.get(name))
        self.functions: dict[str, Function] = {}
        self._nodes: dict[int, Node] = {}  # by where the kernel's text begins: names may be overloaded
        self.kernels: list[KernelText] = []
        for definition, outer, scope in _definitions(self.tree.root):
            self._add(definition, outer, scope)
        for tree in self.header_trees:
            for definition, outer, scope in _definitions(tree.root):
                function = _function(definition, outer, scope)
                if function is not None:
                    self._define(replace(function, foreign=True))
        self.opened = frozenset[str]().union(*(_opened(s) for s in (*self._header_files, source)))
        self._forget_declared()

    @property
    def header_roots(self) -> tuple[Node, ...]:
        """The roots of `header_trees`."""
        return tuple(tree.root for tree in self.header_trees)

    @property
    def roots(self) -> tuple[Node, ...]:
        """The parse trees of the file and of the headers that it includes."""
        return (self.tree.root, *(tree.root for tree in self.header_trees))

    def edited(
        self,
        edits: Iterable[Edit],
        origins: Mapping[Edit, tuple[str, int]] | None = None,
        copies: tuple[HeaderCopy, ...] = (),
    ) -> CudaFile:
        """The file with every edit made, the headers that it has and more copies of functions of theirs; `origins` as
        `source.edited` takes them."""
        made = CudaFile(edited(self.source, edits, origins), self._header_files, (*self.copies, *copies))
        # What is edited defines nothing that the file did not.
        made.unseen, made._operators_change = self.unseen, self._operators_change
        return made

    def _add(self, node: Node, outer: Node, scope: tuple[str, ...]) -> None:
        function = _function(node, outer, scope)
        if function is None:
            return
        head = Span(node.start_byte, function.body.start_byte)
        words = self.source.slice(head).split()
        if any(word.startswith("__global__") for word in words) or "__global__" in self.source.slice(head):
            names = tuple(d.name for p in function.parameters for d in declarators(p)[:1])
            self.kernels.append(
                KernelText(
                    function.name,
                    span(outer),
                    span(function.body),
                    names,
                    function.template,
                    scope,
                )
            )
            self._nodes[outer.start_byte] = node
        else:
            self._define(function)

    def _define(self, function: Function) -> None:
        """Add a helper. One of several of a name, be it overloads, specialisations or namespaces, is known for its
        effects alone."""
        if "<" in function.name:
            function = replace(function, name=function_name(function.node))
        first = self.functions.get(function.name)
        if first is not None:
            function = replace(first, foreign=True, overloads=(*first.overloads, function))
        self.functions[function.name] = function

    def _forget_declared(self) -> None:
        """Functions with a declaration whose parameters no definition has: a call may mean one without a body."""
        for tree in (*self.header_trees, self.tree):
            for name, kinds in _declarations(tree.root):
                function = self.functions.get(name)
                if function is not None and kinds not in {
                    signature(f.node) for f in (function, *function.overloads)
                }:
                    del self.functions[name]

    @cached_property
    def _operators_change(self) -> bool:
        return may_change(self._written_out)

    @cached_property
    def _variables(self) -> tuple[tuple[Symbol, Node | None], ...]:
        return tuple(_file_arrays(self.tree.root, self.source))

    @cached_property
    def _written_out(self) -> tuple[Node, ...]:
        """The parse trees, and where macros may make functions or changes, those of the text with macros replaced."""
        if not any(_MAKING.search(macro.body) for macro in self.macros.values()):
            return self.roots
        texts = [_DEFINES.sub("", source.text) for source in (self.source, *self._header_files)]
        return (
            *self.roots,
            *(parse(SourceFile("", written(text, self.macros))).root for text in texts),
        )

    @cached_property
    def unseen(self) -> Unseen:
        """What classes and operators of the file and its headers do where no call shows it."""
        return Unseen(self._written_out, self.macros)

    def analyse(self, kernel: KernelText) -> Analysed:
        """The statements of one kernel with their effects; pointers are followed to a fixed point first."""
        node = self._nodes[kernel.span.start]
        analyzer = Analyzer(self.source, self.macros, self.functions, self.unseen)
        for symbol, _ in self._variables:
            analyzer.scopes[0][symbol.name] = symbol
        function = _function(node, node, kernel.scope)
        if function is None:
            raise ValueError(f"{kernel.name} is not a function")
        analyzer.caller, analyzer.opened = kernel.scope, self.opened
        analyzer.operators_change = self._operators_change
        body, parameters = self._settled(analyzer, function)
        while whole := analyzer.overlapping() | _only_read(analyzer, body):
            analyzer.forget_views(whole)
            body, parameters = self._settled(analyzer, function)
        points = {s: frozenset(t) for s, t in analyzer.points.items()}
        carved = {view.piece: view.array for view in analyzer.views.values()}
        return Analysed(kernel, body, parameters, self.macros, points, carved)

    def denoted(self, kernel: KernelText, instance: str | None) -> str | None:
        """What tells the compiler which kernel is meant, beside its name: the template-id of an instance, and with
        the namespaces where another kernel of the file has the name too."""
        if sum(k.name == kernel.name for k in self.kernels) < 2:
            return instance
        _, bracket, arguments = (instance or "").partition("<")
        return "::" + "::".join((*kernel.scope, kernel.name)) + bracket + arguments

    def only_set_by_host(self, kernel: KernelText) -> tuple[Symbol, ...]:
        """Variables of the file without an initialiser that the kernel, or a helper that it names, mentions."""
        bare = [s for s, value in self._variables if s.kind == "file" and value is None]
        if not bare:
            return ()
        mentioned: set[str] = set()
        ahead = [self._nodes[kernel.span.start]]
        while ahead:
            node = ahead.pop()
            ahead.extend(node.named_children)
            name = node.text.decode() if node.type == "identifier" and node.text else ""
            if name and name not in mentioned:
                mentioned.add(name)
                if name in self.functions:
                    ahead.append(self.functions[name].body)
        return tuple(s for s in bare if s.name in mentioned)

    @cached_property
    def dynamic_shared(self) -> tuple[tuple[str, Span], ...]:
        """The dynamic shared arrays that are declared outside of functions, with their declarations."""
        return tuple((s.name, s.decl) for s, _ in self._variables if s.kind == "shared" and s.extern)

    @cached_property
    def classes(self) -> dict[str, tuple[tuple[Node, bool], ...]]:
        """Definitions of classes by name, those of included headers too, with whether they stand in one."""
        found: dict[str, tuple[tuple[Node, bool], ...]] = {}
        for tree in (self.tree, *self.header_trees):
            stack = [tree.root]
            while stack:
                node = stack.pop()
                stack.extend(node.named_children)
                name = node.child_by_field_name("name") if node.type in _CLASSES else None
                if name is not None and name.text and node.child_by_field_name("body") is not None:
                    text = name.text.decode().partition("<")[0].strip()
                    found[text] = (*found.get(text, ()), (node, tree is not self.tree))
        return found

    def _settled(self, analyzer: Analyzer, function: Function) -> tuple[Statement, tuple[Symbol, ...]]:
        """Passes until no pointer is found to point anywhere new."""
        before = -1
        while sum(map(len, analyzer.points.values())) != before:
            before = sum(map(len, analyzer.points.values()))
            body, parameters = self._pass(analyzer, function)
        return body, parameters

    def _pass(self, analyzer: Analyzer, function: Function) -> tuple[Statement, tuple[Symbol, ...]]:
        text = self.source.slice(span(function.body))
        with analyzer.scope():
            parameters = []
            for parameter in function.parameters:
                for found, _ in declared(parameter, self.source.slice(span(parameter)), (), "param"):
                    # A macro of that name may leave nothing of it.
                    restrict = found.restrict and not {"__restrict__", "__restrict"} & self.macros.keys()
                    symbol = replace(found, restrict=restrict)
                    analyzer.declare(symbol)
                    parameters.append(symbol)
                    if symbol.pointer or f"{symbol.name}." in text:
                        analyzer.points[symbol].add(symbol)
            return Builder(analyzer).build(function.body), tuple(parameters)


def _only_read(analyzer: Analyzer, body: Statement) -> set[Symbol]:
    """Arrays with a piece that is read and never written by its name: it must overlap another piece."""
    effects = body.effects()
    unwritten = effects.shared_reads() - effects.shared_writes()
    return {v.array for v in analyzer.views.values() if v.piece in unwritten} - analyzer.whole


def _definitions(root: Node) -> Iterator[tuple[Node, Node, tuple[str, ...]]]:
    """Function definitions with the outermost node that belongs to them (their template header), and the namespaces
    around them."""
    stack: list[tuple[Node, Node | None, tuple[str, ...]]] = [(root, None, ())]
    while stack:
        node, outer, scope = stack.pop()
        if node.type == "function_definition":
            yield node, outer if outer is not None else node, scope
        elif node.type == "template_declaration":
            stack.extend((c, node, scope) for c in reversed(node.named_children))
        elif node.type in _CONTAINERS or node.type.startswith("preproc_"):
            inner = (*scope, *opened_by(node))
            stack.extend((c, None, inner) for c in reversed(node.named_children))


def _declarations(root: Node) -> Iterator[tuple[str, str]]:
    """Functions that are declared without a body: name and parameters."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "declaration" and signature(node):
            yield from ((name, signature(node)) for name, _ in introduced(node, {}))
        elif node.type in (*_CONTAINERS, "template_declaration") or node.type.startswith("preproc_"):
            stack.extend(node.named_children)


def _opened(source: SourceFile) -> frozenset[str]:
    """The names that `using namespace` and `using` of a file name, wherever they stand."""
    return frozenset(w for taken in _USING.findall(source.text) for w in re.findall(r"\w+", taken))


def _function(node: Node, outer: Node, scope: tuple[str, ...]) -> Function | None:
    declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator") or next(
            (c for c in declarator.named_children if c.type == "function_declarator"), None
        )
    if declarator is None or body is None:
        return None
    name, listed = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("parameters")
    if name is None or name.text is None or listed is None:
        return None
    parameters = tuple(
        p
        for p in listed.named_children
        if p.type in ("parameter_declaration", "optional_parameter_declaration")
    )
    own = name.text.decode()
    return Function(own, node, parameters, body, _template_parameters(outer), scope=scope)


def _template_parameters(outer: Node) -> tuple[str, ...]:
    if outer.type != "template_declaration":
        return ()
    listed = outer.child_by_field_name("parameters")
    written = (p for p in listed.named_children if p.type != "comment") if listed is not None else ()
    return tuple(p.text.decode() for p in written if p.text)


def _file_arrays(root: Node, source: SourceFile) -> Iterator[tuple[Symbol, Node | None]]:
    """Variables in memory at file scope with their initialisers: `__constant__`, `__device__`, `__managed__`,
    `__shared__`."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "declaration":
            text = source.slice(span(node))
            if any(word in text for word in _MEMORY) and not signature(node):
                yield from (d for d in declared(node, text, (), "file") if d[0].kind in ("file", "shared"))
        elif node.type in _CONTAINERS or node.type.startswith("preproc_"):
            stack.extend(node.named_children)
