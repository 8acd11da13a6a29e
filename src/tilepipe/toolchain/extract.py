"""The device part of a CUDA file, in place: host code is blanked, so every offset, line and column stays.

A device-only compiler rejects host code, so functions that are neither `__device__`, `__global__` nor
`constexpr` go, with host variables, other kernels, explicit instantiations, and types that hold what only the
host has. What might be host code but cannot be told without compiling (a struct with a member of a type from
some library) stays and is a *suspect*: when the compiler rejects it, it is blanked and the rest tried again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import tree_sitter

from tilepipe.source import SourceFile, Span, parse_tree
from tilepipe.source.lexical import blank, closing, directives, lexemes, words_of

_DEVICE = frozenset({b"__device__", b"__global__", b"__constant__", b"__managed__", b"__shared__"})
_KERNEL = frozenset({b"__global__"})
_COMPILE_TIME = frozenset({b"constexpr", b"consteval", b"constinit"})
# A word in capitals in front of a function may be somebody's macro for `__device__`.
_MACRO_LIKE = re.compile(rb"[A-Z][A-Z0-9_]*(?![\w])")
# What no device code can say: types and streams of the host's library, calls of the runtime's API, launches.
_HOST_ONLY = re.compile(
    rb"\bstd\s*::\s*(?:vector|string|map|set|unordered_\w+|list|deque|queue|stack|[io]?f?stream|[io]?stringstream"
    rb"|cout|cerr|clog|endl|chrono|thread|mutex|unique_ptr|shared_ptr|function|mt19937\w*|random_device"
    rb"|\w*_distribution|runtime_error|exception|to_string|filesystem)\b"
    rb"|\bcuda[A-Z]\w*\s*\(|<<<|\bstd\s*::\s*\w*printf\b|\b(?:torch|at|c10|pybind11|py)\s*::"
)
_NOTHING_DECLARED = re.compile(rb"[ \t]*\r?\n\s*(?=[A-Za-z_#/]|\Z)|[ \t]*\Z")
_DEFINE = re.compile(rb"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)([\s\S]*)")
# Directives that stay where the code around them goes: they decide what the rest of the file says.
_STRUCTURAL = re.compile(rb"[ \t]*#[ \t]*(?:define|undef|if|ifdef|ifndef|elif|else|endif)\b")

_REMEMBERED = 128  # files: candidates of one file differ, the headers they include do not

_GROUPS = frozenset(
    {
        "translation_unit",
        "preproc_if",
        "preproc_ifdef",
        "preproc_elif",
        "preproc_elifdef",
        "preproc_else",
        "declaration_list",
    }
)
_FUNCTIONS = frozenset({"function_definition", "template_declaration", "linkage_specification"})
_TYPE_BODIES = frozenset({"field_declaration_list", "enumerator_list"})


@dataclass(frozen=True)
class Macros:
    """Names that stand, directly or through other macros, for device code, for a kernel, for host code."""

    device: frozenset[bytes]
    kernel: frozenset[bytes]
    host: frozenset[bytes]


@dataclass(frozen=True)
class Extraction:
    """The text with host code blanked, and the spans to blank too if the compiler objects to them."""

    text: str
    suspects: tuple[Span, ...]


def macros(sources: list[SourceFile]) -> Macros:
    """The qualifier macros of a file and its headers."""
    bodies: dict[bytes, set[bytes]] = {}
    host: set[bytes] = set()
    for source in sources:
        for name, body in _definitions(source):
            bodies.setdefault(name, set()).update(words_of(body))
            if _HOST_ONLY.search(body):
                host.add(name)
    device = _closure(bodies, _DEVICE)
    return Macros(device, _closure(bodies, _KERNEL), frozenset(host - device))


@lru_cache(maxsize=_REMEMBERED)
def defines_kernel(source: SourceFile, kernel: str, known: Macros) -> bool:
    """Whether a function of this name with `__global__` stands in the file as such, not through a macro."""
    return any(
        _function_name(item) == kernel and words_of(_head(source.data, item)) & known.kernel
        for item in _items(_root(source.data))
        if item.type in _FUNCTIONS
    )


@lru_cache(maxsize=_REMEMBERED)
def kernel_scope(source: SourceFile, kernel: str) -> tuple[str, ...]:
    """The named namespaces around the kernel's definition, outermost first; () where it is not found."""
    for item in _items(_root(source.data)):
        if item.type in _FUNCTIONS and _function_name(item) == kernel:
            return _namespaces(source.data, item)
    return ()


def extract(
    source: SourceFile,
    kernels: frozenset[str],
    known: Macros,
    other_kernels: bool,
    also: tuple[Span, ...] = (),
) -> Extraction:
    """Blank the host code of one file, and kernels of other names than `kernels`.

    `other_kernels`: keep these too (where a kernel itself comes out of a macro, nobody can tell which they are).
    `also`: suspects of an earlier extraction to blank as well.
    """
    host, suspects = _sorted_items(source, kernels, known, other_kernels)
    data = source.data
    for gone in (*host, *also):
        data = data[: gone.start] + _blank_code(data[gone.start : gone.end]) + data[gone.end :]
    return Extraction(data.decode(), tuple(one for one in suspects if one not in also))


@lru_cache(maxsize=_REMEMBERED)
def _sorted_items(
    source: SourceFile, kernels: frozenset[str], known: Macros, other_kernels: bool
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The host code of a file, and its suspects."""
    sorter = _Sorter(source.data, kernels, known, other_kernels)
    sorter.sort()
    return tuple(sorter.host), tuple(sorter.suspects)


@lru_cache(maxsize=_REMEMBERED)
def _definitions(source: SourceFile) -> tuple[tuple[bytes, bytes], ...]:
    """The macros of one file, each with its parameters and body."""
    data = source.data
    found = (_DEFINE.match(data, start, end) for start, end in directives(data))
    return tuple((match.group(1), match.group(2)) for match in found if match)


@dataclass
class _Sorter:
    """Walks the top level of a file and sorts its items."""

    data: bytes
    kernels: frozenset[str]
    known: Macros
    other_kernels: bool
    host: list[Span] = field(default_factory=list)
    suspects: list[Span] = field(default_factory=list)

    def sort(self) -> None:
        """Sort every item at the top level, and macros that stand alone there."""
        items = [item for item in _items(_root(self.data)) if item.type != "comment"]
        for item in items:
            verdict = self._verdict(item)
            if verdict == "host":
                self.host.append(_statement(self.data, item))
            elif verdict == "suspect":
                self._suspect(item)
        for call in _lone_macros(self.data):
            name = _MACRO_LIKE.match(self.data, call.start)
            inside = any(item.start_byte <= call.start < item.end_byte for item in items)
            if not inside and name is not None and name.group() not in self.known.device:
                (self.host if name.group() in self.known.host else self.suspects).append(call)

    def _verdict(self, item: tree_sitter.Node) -> str:
        """ "keep", "host" or "suspect"."""
        words = words_of(_head(self.data, item))
        inner = _declared(item)
        if words & self.known.kernel:
            return self._kernel_verdict(item, inner)
        if words & self.known.device:
            return "keep"
        if words & _COMPILE_TIME:
            return "suspect"
        if item.type == "template_instantiation" and item.child_by_field_name("declarator") is not None:
            return "host"  # of a function that is
        specifiers = words_of(_specifiers(self.data, inner))
        if inner.type == "function_definition":
            return "suspect" if any(_MACRO_LIKE.match(word) for word in specifiers) else "host"
        if inner.type == "declaration" and not _defines_type(inner):
            return "suspect" if b"const" in specifiers else "host"
        if inner.type.startswith("preproc"):
            return "keep"
        return "suspect"

    def _kernel_verdict(self, item: tree_sitter.Node, inner: tree_sitter.Node) -> str:
        if self.other_kernels:
            return "keep"
        if item.type == "template_instantiation":
            return "host"  # the wanted instance is asked for by name
        if inner.type != "function_definition":
            return "keep"
        return "keep" if _function_name(inner) in self.kernels else "host"

    def _suspect(self, item: tree_sitter.Node) -> None:
        """File an item that may be host code; it certainly is if it says so outside its member functions."""
        whole = _statement(self.data, item)
        rest = bytearray(self.data[whole.start : whole.end])
        members = list(self._members(item))
        for member in members:
            rest[member.start - whole.start : member.end - whole.start] = bytes(member.end - member.start)
            verdict = self.host if _HOST_ONLY.search(self.data, member.start, member.end) else self.suspects
            verdict.append(member)
        (self.host if _HOST_ONLY.search(rest) else self.suspects).append(whole)

    def _members(self, item: tree_sitter.Node) -> Iterator[Span]:
        """Host member functions of a class: suspects too, so that the class can stay without them."""
        body = next(
            (child for child in _descend(_declared(item)) if child.type == "field_declaration_list"), None
        )
        for member in body.named_children if body is not None else ():
            if _declared(member).type == "function_definition":
                words = words_of(_head(self.data, member))
                if not words & self.known.device and not words & _COMPILE_TIME:
                    yield Span(_start(self.data, member), member.end_byte)


@lru_cache(maxsize=_REMEMBERED)
def _root(data: bytes) -> tree_sitter.Node:
    """The tree without macros that stand alone on a line: `MAKE_KERNEL(float)` is no declaration."""
    for call in list(_lone_macros(data)):
        data = data[: call.start] + blank(data[call.start : call.end]) + data[call.end :]
    return parse_tree(data.decode()).root_node


def _lone_macros(data: bytes) -> Iterator[Span]:
    """Calls of what is named like a macro, with nothing after them on their line that could be declared."""
    listed = list(lexemes(data))
    for lexeme, following in pairwise(listed):
        is_call = lexeme.kind == "word" and data[following.start : following.end] == b"("
        if not is_call or not _MACRO_LIKE.match(data, lexeme.start, lexeme.end):
            continue
        end = closing(data, following.start)
        if end is not None and _NOTHING_DECLARED.match(data, end):
            yield Span(lexeme.start, end)


def _items(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """The items of the file, through namespaces, `extern "C"` and conditional directives."""
    for child in node.named_children:
        body = child.child_by_field_name("body")
        if child.type in _GROUPS:
            yield from _items(child)
        elif body is not None and body.type == "declaration_list":  # a namespace or `extern "C" { }`
            yield from _items(body)
        elif node.type not in ("preproc_if", "preproc_ifdef", "preproc_elif") or child != _condition(node):
            yield child


def _condition(node: tree_sitter.Node) -> tree_sitter.Node | None:
    return node.child_by_field_name("condition") or node.child_by_field_name("name")


def _descend(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    yield node
    for child in node.named_children:
        if child.type != "compound_statement":
            yield from _descend(child)


def _declared(item: tree_sitter.Node) -> tree_sitter.Node:
    """What a template or a linkage specification declares; any other item itself."""
    while item.type in ("template_declaration", "linkage_specification") and item.named_children:
        item = item.named_children[-1]
    return item


def _head(data: bytes, item: tree_sitter.Node) -> bytes:
    """The text of an item before its body: where qualifiers stand."""
    body = _declared(item).child_by_field_name("body")
    return data[_start(data, item) : body.start_byte if body is not None else item.end_byte]


def _start(data: bytes, item: tree_sitter.Node) -> int:
    """Where an item begins as written: the tree does not know of qualifiers that were masked before it."""
    before = item.prev_sibling
    first_of_file = before is None and item.parent is not None and item.parent.parent is None
    at = before.end_byte if before is not None else 0 if first_of_file else item.start_byte
    between = data[at : item.start_byte]
    return at + next((lexeme.start for lexeme in lexemes(between) if lexeme.kind == "word"), len(between))


def _specifiers(data: bytes, item: tree_sitter.Node) -> bytes:
    """What stands before the name that a function or variable declares."""
    declarator = item.child_by_field_name("declarator")
    return data[_start(data, item) : declarator.start_byte if declarator is not None else item.end_byte]


def _defines_type(declaration: tree_sitter.Node) -> bool:
    kind = declaration.child_by_field_name("type")
    return kind is not None and any(child.type in _TYPE_BODIES for child in kind.named_children)


def _statement(data: bytes, item: tree_sitter.Node) -> Span:
    """The item with the semicolon that may stand after it."""
    end = item.end_byte
    following = re.compile(rb"[ \t]*;").match(data, end)
    start = _start(data, item)
    return Span(start, following.end() if following and item.type != "function_definition" else end)


def _function_name(item: tree_sitter.Node) -> str | None:
    """The unqualified name that a function definition (or a template of one) defines."""
    node = _declared(item).child_by_field_name("declarator")
    while node is not None and node.type not in ("identifier", "field_identifier"):
        if node.type in ("template_function", "template_method", "qualified_identifier"):
            node = node.child_by_field_name("name")
        else:
            node = node.child_by_field_name("declarator") or (
                node.named_children[0]
                if node.named_children and node.type == "reference_declarator"
                else None
            )
    return node.text.decode() if node is not None and node.text is not None else None


def _namespaces(data: bytes, node: tree_sitter.Node) -> tuple[str, ...]:
    names: list[str] = []
    parent = node.parent
    while parent is not None:
        name = parent.child_by_field_name("name") if parent.type == "namespace_definition" else None
        if name is not None:
            names.insert(0, data[name.start_byte : name.end_byte].decode())
        parent = parent.parent
    return tuple(names)


def _closure(bodies: dict[bytes, set[bytes]], seeds: frozenset[bytes]) -> frozenset[bytes]:
    names = set(seeds)
    while True:
        more = {name for name, body in bodies.items() if name not in names and body & names}
        if not more:
            return frozenset(names)
        names |= more


def _blank_code(text: bytes) -> bytes:
    """Blank all but the directives that other code may depend on."""
    out: list[bytes] = []
    at = 0
    for start, end in directives(text):
        if _STRUCTURAL.match(text, start, end):
            out += [blank(text[at:start]), text[start:end]]
            at = end
    return b"".join([*out, blank(text[at:])])
