"""The parse tree of CUDA text, with byte offsets that are those of the author's file.

The grammar stumbles over attribute-like tokens (`#pragma` between a header and its body, `__align__(16)`,
`__launch_bounds__(256)`, `__restrict__`, …). They are blanked by as many spaces before parsing, so that every
offset of the tree is valid in the text as written. `__global__`, `__device__`, `__shared__` and their like,
which the grammar knows, stay. Initialisers that read like parameters are shown to it in braces (`initialisers.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import tree_sitter
import tree_sitter_cuda

from tilepipe.source.initialisers import pointers_with_braces, with_braces
from tilepipe.source.lexical import Lexeme, blank, closing, lexemes
from tilepipe.source.text import SourceFile, Span

# Blanked together with the parenthesised group that follows.
_CALLED = frozenset(
    b"__align__ alignas __attribute__ __builtin_align__ __launch_bounds__ __cluster_dims__ __block_size__"
    b" __maxnreg__ __declspec _Pragma __pragma".split()
)
_BARE = frozenset(
    b"__grid_constant__ __restrict__ __restrict __forceinline__ __forceinline __noinline__ __inline__"
    b" __inline __extension__ __nv_pure__".split()
)
# A macro made of these and blanked tokens only is blanked where it is used. `__global__` and `__shared__`
# are not among them: blanking a macro for one of those would change what the tree says.
_FUNCTION_QUALIFIERS = frozenset(b"__device__ __host__ static inline".split())
_PRAGMA = re.compile(rb"[ \t]*#[ \t]*pragma\b")
_OBJECT_MACRO = re.compile(rb"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+(\S[\s\S]*)")
# What follows a statement macro that is used without a semicolon, beside words: the next statement's first token.
_AFTER_STATEMENT = (b"}", b"{", b"(", b"*", b"+", b"-")
_FUNCTION_MACRO = re.compile(rb"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)\([^)]*\)([\s\S]*)")


@dataclass(frozen=True)
class Tree:
    """A source file and its parse. `Node.text` is the blanked text: read text through `text_of`."""

    source: SourceFile
    tree: tree_sitter.Tree

    @property
    def root(self) -> tree_sitter.Node:
        return self.tree.root_node

    def text_of(self, node: tree_sitter.Node) -> str:
        """The author's text of a node."""
        return self.source.slice(span(node))

    def errors(self) -> tuple[Span, ...]:
        """Where the text did not parse: the outermost error nodes and the missing tokens."""
        return tuple(span(node) for node in _broken(self.root))


def parse(source: SourceFile) -> Tree:
    """Parse a file. Never fails: what does not parse is an error node within the tree."""
    return Tree(source, parse_tree(source.text))


@lru_cache(maxsize=16)
def parse_tree(text: str) -> tree_sitter.Tree:
    """The tree of the blanked UTF-8 text; offsets are bytes of `text.encode()`."""
    data = mask(text.encode())
    tree = tree_sitter.Parser(_language()).parse(data)
    changed = with_braces(data, tree.root_node)
    if changed != data:
        tree = tree_sitter.Parser(_language()).parse(changed)
    broken = [span(node) for node in _broken(tree.root_node)]
    again = pointers_with_braces(changed, broken) if broken else changed
    if again == changed:
        return tree
    other = tree_sitter.Parser(_language()).parse(again)
    return other if len(list(_broken(other.root_node))) < len(broken) else tree


def below(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """A node and every named node below it, in the order of the text."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.named_children))


def span(node: tree_sitter.Node) -> Span:
    """The byte range of a node."""
    return Span(node.start_byte, node.end_byte)


def mask(data: bytes) -> bytes:
    """`data` with attribute-like tokens blanked, and a semicolon in the white space after statement macros that are
    used without one: same length, and the same line ends but for those few."""
    listed = list(lexemes(data))
    data = _with_semicolons(data, listed)
    bare = _BARE | _qualifier_macros(data, listed)
    out: list[bytes] = []
    at = 0
    words = bare | _CALLED
    for index, lexeme in enumerate(listed):
        known = lexeme.kind == "word" and data[lexeme.start : lexeme.end] in words
        if not (known or lexeme.kind == "directive") or lexeme.start < at:
            continue
        end = _masked_end(data, listed, index, bare)
        if end is not None:
            out += [data[at : lexeme.start], blank(data[lexeme.start : end])]
            at = end
        elif lexeme.kind == "directive" and b"/*" in data[lexeme.start : lexeme.end]:
            out += [data[at : lexeme.start], _without_comments(data[lexeme.start : lexeme.end])]
            at = lexeme.end
    return b"".join([*out, data[at:]])


def _without_comments(directive: bytes) -> bytes:
    """A directive with its block comments blanked: the grammar ends it at the first of them. What goes on over a
    line end in a comment goes on by a backslash."""
    out: list[bytes] = []
    at = 0
    for lexeme in _parts(directive):
        if lexeme.kind == "comment" and directive[lexeme.start : lexeme.start + 2] == b"/*":
            blanked = re.sub(rb" (?=\r?\n)", rb"\\", blank(directive[lexeme.start : lexeme.end]))
            out += [directive[at : lexeme.start], blanked]
            at = lexeme.end
    return b"".join([*out, directive[at:]])


def _parts(directive: bytes) -> Iterator[Lexeme]:
    """The lexemes of a directive behind its `#`."""
    return lexemes(directive, directive.index(b"#") + 1)


def _with_semicolons(data: bytes, listed: list[Lexeme]) -> bytes:
    """`LOAD(a, b)` at the start of a statement, of a macro whose body ends one, gets its semicolon for the grammar.

    It takes the place of one white-space byte behind the call, so that no offset moves.
    """
    macros = _statement_macros(data, listed)
    if not macros:
        return data
    changed = bytearray(data)
    before = b";"
    for index, lexeme in enumerate(listed):
        text = data[lexeme.start : lexeme.end]
        if lexeme.kind == "word" and text in macros and before in (b";", b"{", b"}", b")"):
            following = listed[index + 1] if index + 1 < len(listed) else None
            if following is not None and data[following.start : following.end] == b"(":
                end = closing(data, following.start)
                after = next((x for x in listed[index + 2 :] if end is not None and x.start >= end), None)
                ended = after is None or after.kind in ("word", "directive")
                ended = ended or (after is not None and data[after.start : after.end] in _AFTER_STATEMENT)
                if end is not None and ended and data[end : end + 1].isspace():
                    changed[end] = ord(";")
        if lexeme.kind != "comment":
            before = b";" if lexeme.kind == "directive" else text
    return bytes(changed)


def _statement_macros(data: bytes, listed: list[Lexeme]) -> frozenset[bytes]:
    """Function-like macros of the file whose body ends with a semicolon or a brace."""
    names = set()
    for lexeme in listed:
        match = _FUNCTION_MACRO.match(data, lexeme.start, lexeme.end) if lexeme.kind == "directive" else None
        if match is not None and match.group(2).rstrip().endswith((b";", b"}")):
            names.add(match.group(1))
    return frozenset(names)


def _masked_end(data: bytes, listed: list[Lexeme], index: int, bare: frozenset[bytes]) -> int | None:
    """Where the masking that begins at this lexeme ends; None where nothing is masked."""
    lexeme = listed[index]
    text = data[lexeme.start : lexeme.end]
    if lexeme.kind == "directive":
        return lexeme.end if _PRAGMA.match(text) else None
    if lexeme.kind != "word":
        return None
    if text in bare:
        return lexeme.end
    if text in _CALLED:
        following = listed[index + 1] if index + 1 < len(listed) else None
        if following is not None and data[following.start : following.end] == b"(":
            return closing(data, following.start)
    return None


def _qualifier_macros(data: bytes, listed: list[Lexeme]) -> frozenset[bytes]:
    """Macros of the file, like `#define FORCE __device__ __forceinline__`, that only spell qualifiers."""
    names = set()
    for lexeme in listed:
        if lexeme.kind != "directive":
            continue
        match = _OBJECT_MACRO.match(data, lexeme.start, lexeme.end)
        if match is None:
            continue
        body = match.group(2)
        words = [body[part.start : part.end] for part in lexemes(body) if part.kind != "comment"]
        if words and all(word in _FUNCTION_QUALIFIERS or word in _BARE for word in words):
            names.add(match.group(1))
    return frozenset(names)


def _broken(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    if node.is_error or node.is_missing:
        yield node
    elif node.has_error:
        for child in node.children:
            yield from _broken(child)


@lru_cache(maxsize=1)
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_cuda.language())
