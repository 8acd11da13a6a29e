"""Macros whose text binds otherwise than their name reads, written out before anything is looked at.

    #define ROW threadIdx.x & 31
    s[ROW * 4]                         is s[threadIdx.x & 31 * 4]

The tree of the author's text has a product of `ROW` and 4 there, and so would every proof. Where such a macro is an
operand of an operator that binds as strongly as those in its text, or stronger, its text takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.macros import certain, expansion_body, written
from tilepipe.kernel.names import callee, operator_of
from tilepipe.source import Edit
from tilepipe.source.parse import span

_WORD = re.compile(r"[A-Za-z_]\w*")
_PRIMARY, _UNARY, _CONDITIONAL = 16, 15, 3
_BINDS = {
    **dict.fromkeys(("*", "/", "%"), 13), **dict.fromkeys(("+", "-"), 12), **dict.fromkeys(("<<", ">>"), 11),
    **dict.fromkeys(("<", "<=", ">", ">="), 9), **dict.fromkeys(("==", "!="), 8),
    "&": 7, "^": 6, "|": 5, "&&": 4.5, "||": 4,
}  # fmt: skip
_PREFIXED = ("unary_expression", "pointer_expression", "cast_expression", "update_expression")


def open_macros(file: CudaFile, kernel: KernelText) -> tuple[Edit, ...] | Refusal:
    """The uses of such macros in a kernel and in the functions of the file that it may call, as their texts;
    TP020 where such a text is not known for sure."""
    edits = []
    known = certain(file.tree.root)
    for use in (use for root in texts(file, kernel) for use in _misread(file, root)):
        named = set(_WORD.findall(_text(use)))
        bodies = {n for name in named & file.macros.keys() for n in _WORD.findall(file.macros[name].body)}
        for name in sorted((named | bodies) & file.macros.keys()):
            if known.get(name, use.end_byte) > use.start_byte:
                return refusal(
                    "TP020",
                    f"the text of the macro `{name}` binds otherwise than it reads, and what it is "
                    "depends on conditions",
                    file.source.place(span(use)),
                    "its operators belong to what stands around it",
                    "put the macro's text in parentheses",
                )
        edits.append(Edit(span(use), written(_text(use), file.macros)))
    return tuple(edits)


def texts(file: CudaFile, kernel: KernelText) -> list[Node]:
    """The kernel, and the functions of the file whose names are mentioned on the way from it."""
    top = file.tree.root.named_descendant_for_byte_range(kernel.span.start, kernel.span.end)
    found = [top] if top is not None else []
    seen: set[str] = set()
    work = list(found)
    while work:
        for name in set(_WORD.findall(written(_text(work.pop()), file.macros))) - seen:
            function = file.functions.get(name)
            seen.add(name)
            for one in (function, *function.overloads) if function is not None else ():
                if file.source.slice(span(one.node)) == _text(one.node) and one.node not in found:
                    found.append(one.node)
                    work.append(one.node)
    return [n for n in found if not any(m is not n and _within(n, m) for m in found)]


def _within(inner: Node, outer: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def _misread(file: CudaFile, root: Node) -> Iterator[Node]:
    """The outermost uses of macros that read otherwise than they are."""
    stack = [root]
    while stack:
        node = stack.pop()
        if _is_use(file, node) and (_loose(file, node) or _misread_inside(file, node)):
            yield node
        else:
            stack.extend(node.named_children)


def _is_use(file: CudaFile, node: Node) -> bool:
    if node.type == "call_expression":
        macro = file.macros.get(callee(node))
        return macro is not None and macro.parameters is not None
    macro = file.macros.get(_text(node)) if node.type == "identifier" else None
    return macro is not None and macro.parameters is None


def _misread_inside(file: CudaFile, use: Node) -> bool:
    """Whether the text of a macro misreads another one."""
    name = callee(use) if use.type == "call_expression" else _text(use)
    others = {n: m for n, m in file.macros.items() if n == name}
    text = written(_text(use), others)
    body = expansion_body(text) if text != _text(use) else None
    return body is not None and next(_misread(file, body), None) is not None


def _loose(file: CudaFile, use: Node) -> bool:
    """Whether a macro's text falls apart where it stands."""
    needed = _needed(use)
    if needed <= 0:
        return False
    body = expansion_body(written(_text(use), file.macros))
    if body is None or len(body.named_children) != 1 or not body.named_children[0].named_children:
        return False
    inner = body.named_children[0].named_children[0]
    same = use.parent is not None and _sign(use.parent) == _sign(inner) in (
        "+",
        "*",
        "&",
        "|",
        "^",
        "&&",
        "||",
    )
    return _binding(inner) < needed and not (same and inner.type == "binary_expression")


def _needed(use: Node) -> float:
    """How strongly a text has to bind to stay together in the place of a node; 0 where anything does."""
    outer = use.parent
    if outer is None:
        return 0
    if outer.type == "binary_expression":
        binds = _BINDS.get(_sign(outer), 0)
        return binds + 0.25 if outer.child_by_field_name("right") == use else binds
    if outer.type in _PREFIXED:
        return 0 if outer.child_by_field_name("type") == use else _UNARY
    if outer.type in ("subscript_expression", "field_expression"):
        return _PRIMARY if outer.child_by_field_name("argument") == use else 0
    if outer.type == "call_expression":
        return _PRIMARY if outer.child_by_field_name("function") == use else 0
    if outer.type == "conditional_expression":
        head = outer.child_by_field_name("condition") == use
        return _CONDITIONAL + 0.5 if head else _CONDITIONAL if outer.children[-1] == use else 0
    return 0


def _binding(node: Node) -> float:
    if node.type == "binary_expression":
        return _BINDS.get(_sign(node), 0)
    if node.type == "conditional_expression":
        return _CONDITIONAL
    if node.type in ("assignment_expression", "comma_expression"):
        return 1
    return _UNARY if node.type in _PREFIXED else _PRIMARY


def _sign(node: Node) -> str:
    return operator_of(node) if node.type == "binary_expression" else ""


def _text(node: Node) -> str:
    return node.text.decode() if node.text else ""
