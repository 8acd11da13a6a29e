"""Macros of the file, expanded for analysis. What the author wrote stays, unless a macro hides what it does there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tree_sitter import Node, Tree

from tilepipe.source.parse import parse_tree

_WORD = re.compile(r"[A-Za-z_]\w*")
_LINE_JOIN = re.compile(r"\\\r?\n")
_VALUE = re.compile(r"[\w\s.+\-*/%<>]*")
_ACTS = re.compile(r"\+\+|--|restrict|volatile")
_CONTAINERS = ("translation_unit", "declaration_list", "namespace_definition", "linkage_specification")
# A name alone in parentheses, where these change nothing: `(a) && (b)` would be read as a conversion to a type `a`.
_GROUPED = re.compile(r"(?<![\w)>\]])(?<!\bwhile )\(\s*(\w+)\s*\)(?=\s*(?:[-+*&]|$))")
_GLUE = re.compile(r"\s*##\s*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


@dataclass(frozen=True)
class Macro:
    """`#define name(parameters) body`; `parameters` is None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    others: tuple[str, ...] = ()  # what its other definitions say, where which one holds is not followed

    def beside(self, earlier: Macro | None) -> Macro:
        """The macro with what an earlier definition of its name says."""
        bodies = (earlier.body, *earlier.others, *self.others) if earlier is not None else self.others
        return replace(self, others=tuple(dict.fromkeys(b for b in bodies if b != self.body)))


def file_macros(root: Node) -> dict[str, Macro]:
    """Every macro that the file defines, by name; a later definition wins."""
    found: dict[str, Macro] = {}
    for macro in all_macros(root):
        found[macro.name] = macro.beside(found.get(macro.name))
    return found


@lru_cache(maxsize=8)  # a file has many kernels
def ambiguous(root: Node) -> frozenset[str]:
    """Macros defined in several ways of which one is more than a value or a type: which of them holds at a place
    (`#undef`, `#ifdef`) is not followed. Values and types are asked of the compiler where they matter."""
    ways: dict[str, set[Macro]] = {}
    for macro in all_macros(root):
        ways.setdefault(macro.name, set()).add(macro)
    return frozenset(n for n, of in ways.items() if len(of) > 1 and not all(_is_value(m) for m in of))


@lru_cache(maxsize=8)
def certain(root: Node) -> dict[str, int]:
    """Macros that the file defines once, under no condition and for good, each with the offset of its definition."""
    found: dict[str, list[int]] = {}
    stack = [(root, False)]
    guard = include_guard(root)
    while stack:
        node, conditional = stack.pop()
        if node.type in ("preproc_def", "preproc_function_def"):
            name = node.child_by_field_name("name")
            word = (name.text or b"").decode() if name is not None else ""
            plain = not conditional and b"..." not in (node.text or b"").partition(b")")[0]
            found.setdefault(word, []).extend([node.start_byte] if plain else [-1, -1])
        elif node.type == "preproc_call":
            found.setdefault((node.text or b"").decode().split()[-1], []).extend([-1, -1])
        elif node.type.startswith("preproc_") or node.type in (*_CONTAINERS, "compound_statement"):
            below = conditional or (node.type.startswith("preproc_") and node != guard)
            stack.extend((c, below) for c in node.children)
        elif node.type in ("function_definition", "template_declaration"):
            stack.extend((c, conditional) for c in node.children)
    return {name: at[0] for name, at in found.items() if len(at) == 1}


def include_guard(root: Node) -> Node | None:
    """The `#ifndef` around all of a header."""
    parts = [c for c in root.named_children if c.type not in ("comment", "preproc_call")]
    if len(parts) != 1 or parts[0].type != "preproc_ifdef" or parts[0].children[0].type != "#ifndef":
        return None
    name, first, *_ = (*parts[0].named_children, None)
    known = first is not None and first.type == "preproc_def" and name is not None
    return parts[0] if known and first.child_by_field_name("name").text == name.text else None  # type: ignore[union-attr]


def _is_value(macro: Macro) -> bool:
    return _VALUE.fullmatch(macro.body) is not None and not _ACTS.search(macro.body)


def all_macros(root: Node) -> list[Macro]:
    """Every definition of a macro in a file, in order."""
    found: list[Macro] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in ("preproc_def", "preproc_function_def"):
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            parameters = node.child_by_field_name("parameters")
            if name is not None and name.text is not None:
                body = value.text.decode() if value is not None and value.text else ""
                names = None
                if parameters is not None:
                    listed = (c for c in parameters.named_children if c.type != "comment")
                    names = tuple(c.text.decode() for c in listed if c.text)
                macro = Macro(name.text.decode(), names, _COMMENT.sub(" ", _LINE_JOIN.sub(" ", body)).strip())
                found.append(macro)
        elif node.type.startswith("preproc_") or node.type in _CONTAINERS:
            stack.extend(reversed(node.children))
    return found


def expand(macro: Macro, arguments: Sequence[str]) -> str:
    """The macro's body with its parameters replaced by `arguments`, and what it glues glued, one level deep."""
    if macro.parameters is None:
        return macro.body
    values = _values(macro, arguments)
    body = re.sub(r"\bwhile\s*\(", "while (", macro.body)
    text = _WORD.sub(lambda m: values.get(m.group(), m.group()), body)
    return _GROUPED.sub(r"\1", _GLUE.sub("", text))


def _values(macro: Macro, arguments: Sequence[str]) -> dict[str, str]:
    """What stands for each parameter; `__VA_ARGS__` for those beyond."""
    named = macro.parameters or ()
    values = dict(zip(named, arguments, strict=False))
    return {"__VA_ARGS__": ", ".join(arguments[len(named) :]), **values}


def operand(text: str, macros: Mapping[str, Macro]) -> str:
    """The text as an operand of any operator: in parentheses unless it is a number, or a name without operators."""
    work, seen = [text.strip()], set[str]()
    while work:
        word = work.pop()
        macro = macros.get(word)
        if macro is not None and macro.parameters is None and word not in seen:
            seen.add(word)
            work += [macro.body, *macro.others]
        elif not re.fullmatch(r"\w+", word) and not enclosed(word):
            return f"({text.strip()})"
    return text.strip()


_PIECE = re.compile(
    r"[A-Za-z_]\w*|\.?\d[\w.]*|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|//[^\n]*|/\*.*?\*/", re.S
)


def written(text: str, macros: Mapping[str, Macro], hidden: frozenset[str] = frozenset()) -> str:
    """The text as the preprocessor writes it: every macro in it replaced, those within arguments and bodies too. Macros
    that glue or quote stay as they are."""
    out: list[str] = []
    at = 0
    while (piece := _PIECE.search(text, at)) is not None:
        out.append(text[at : piece.start()])
        at = piece.end()
        macro = macros.get(piece.group())
        arguments: list[str] | None = []
        if macro is not None and macro.parameters is not None:
            arguments, at = _arguments(text, at)
        if macro is None or macro.name in hidden or "#" in macro.body or arguments is None:
            out.append(text[piece.start() : at])
            continue
        values = _values(macro, [written(a, macros, hidden) for a in arguments])
        body = _WORD.sub(lambda m, to=values: to.get(m.group(), m.group()), macro.body)  # type: ignore[misc]
        out.append(written(body, macros, hidden | {macro.name}))
    return "".join([*out, text[at:]])


def _arguments(text: str, at: int) -> tuple[list[str] | None, int]:
    """The arguments in the parentheses that follow, and where these end; None where none follow."""
    start = at + len(text[at:]) - len(text[at:].lstrip())
    if text[start : start + 1] != "(":
        return None, at
    found, depth, begin = [], 0, start + 1
    for i in range(start, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 or (depth == 1 and text[i] == "," and i > start):
            found.append(text[begin:i].strip())
            begin = i + 1
        if depth == 0:
            return found, i + 1
    return None, at


_SUM = re.compile(r"[\w.\s+*/%\[\]]+")


def addend(text: str, macros: Mapping[str, Macro]) -> str:
    """The text as an operand of a sum: in parentheses where an operator in it, or in its macros, binds less."""
    bare = text.strip()
    plain = _SUM.fullmatch(bare) is not None and all(operand(w, macros) == w for w in _WORD.findall(bare))
    return bare if plain or enclosed(bare) else f"({bare})"


def enclosed(text: str) -> bool:
    """Whether one pair of parentheses holds all of the text."""
    depth = 0
    for i, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return i == len(text) - 1 and sign == ")"
    return False


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Tree, int]:
    head = "void tp() {"
    return parse_tree(f"{head}{text};}}"), len(head)


def expansion_body(text: str) -> Node | None:
    """The compound statement that holds a parsed macro expansion, None where it does not parse."""
    tree, _ = _parsed(text)
    if tree.root_node.has_error:
        return None
    function = tree.root_node.named_children[0]
    return function.child_by_field_name("body")
