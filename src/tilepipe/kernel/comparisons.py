"""Comparisons that the grammar takes for template arguments, put so that it does not.

    i < n && s > -k            reads like          f<n && s>(k)
    i < n >> 2                                     f<n> > 2

C++ decides by whether `i` is a template, which a grammar cannot know; what stands between the brackets would then be
looked at as arguments, which use no variables. Where the name is a value's, it or what it is compared with gets
parentheses: `(i) < n && s > -k`, `i < (n >> 2)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.binding import introduced, signature
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.macros import expansion_body
from tilepipe.kernel.names import has, operator_of
from tilepipe.kernel.unclear import functions_of, node_of, reached
from tilepipe.source import Edit, Span
from tilepipe.source.parse import span

_TEMPLATES = ("template_function", "template_type", "template_method")
_CONTAINERS = ("namespace_definition", "declaration_list", "linkage_specification")
_BUILT_IN = frozenset(("warpSize",))


def read_as_comparisons(file: CudaFile, kernel: KernelText) -> tuple[Edit, ...] | Refusal:
    """The edits that make comparisons of what reads like template arguments in a kernel and in functions of the file
    that it may call; TP020 where the text is another file's or a macro's."""
    edits: dict[Edit, None] = {}
    top = node_of(file, kernel)
    words = reached(file, top)
    outside = _values_of_file(file)
    known = set(outside)
    for root in (top, *(f.node for word in sorted(words) for f in functions_of(file, word))):
        values = outside | _values(file, root)
        known |= values
        for node in _misread(root, values):
            if not _owns(file, root) or node.type != "template_function":
                return _refused(file, kernel, node)
            edits[_edit(file, node)] = None
    for name in sorted(words & file.macros.keys()):
        macro = file.macros[name]
        for text in (f"({macro.body})", macro.body):
            body = expansion_body(text)
            found = (
                next(_misread(body, known | set(macro.parameters or ())), None) if body is not None else None
            )
            if found is not None:
                return _refused(file, kernel, found)
    return tuple(edits)


def _refused(file: CudaFile, kernel: KernelText, node: Node) -> Refusal:
    text = (node.text or b"").decode()
    return refusal(
        "TP020",
        f"`{' '.join(text.split())}` reads like a template with arguments, and is two comparisons",
        file.source.place(Span(kernel.body.start, kernel.body.start + 1)),
        "in this kernel, or in what it calls",
        "put each of the comparisons in parentheses",
    )


def _owns(file: CudaFile, node: Node) -> bool:
    """Whether a node is one of the file, not of a header."""
    return file.tree.root.named_descendant_for_byte_range(node.start_byte, node.end_byte) == node


def _misread(root: Node, values: frozenset[str] | set[str]) -> Iterator[Node]:
    """What reads like a template, whose name is a value's."""
    stack = [root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        if node.type in _TEMPLATES and _is_comparison(node, values):
            yield node


def _is_comparison(node: Node, values: frozenset[str] | set[str]) -> bool:
    name = node.child_by_field_name("name")
    outer = node.parent
    if name is None or outer is None or outer.type == "qualified_identifier":
        return False
    if (name.text or b"").decode() in values:
        return True
    listed = node.child_by_field_name("arguments")
    conditions = listed.named_children if listed is not None and node.type == "template_function" else []
    return any(c.type == "binary_expression" and operator_of(c) in ("&&", "||") for c in conditions)


def _edit(file: CudaFile, node: Node) -> Edit:
    """Parentheses around what the name is compared with where that is a shift, else around the name."""
    name, listed, outer = node.child_by_field_name("name"), node.child_by_field_name("arguments"), node.parent
    assert name is not None and listed is not None and outer is not None
    right = outer.child_by_field_name("right")
    shifted = outer.type == "binary_expression" and operator_of(outer) == ">" and right is not None
    operands = listed.named_children
    if (
        shifted
        and _ends_in_shift(outer, node)
        and len(operands) == 1
        and not has(operands[0], "binary_expression")
    ):
        assert right is not None
        at = Span(operands[0].start_byte, right.end_byte)
        return Edit(at, f"({file.source.slice(at)})")
    return Edit(span(name), f"({(name.text or b'').decode()})")


def _ends_in_shift(outer: Node, node: Node) -> bool:
    """Whether the bracket that ends the arguments is the first half of a shift."""
    at = node.end_byte - outer.start_byte
    return (outer.text or b"")[at - 1 : at + 1] == b">>"


def _values(file: CudaFile, root: Node) -> frozenset[str]:
    """The names that a function introduces: no template can be declared in one."""
    found: set[str] = set()
    outer = root.parent
    stack = [outer if outer is not None and outer.type == "template_declaration" else root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        if node.type not in ("using_declaration", "template_declaration", "type_parameter_declaration"):
            found |= {name for name, _ in introduced(node, file.macros)}
    return frozenset(found)


@lru_cache(maxsize=8)  # a file has many kernels
def _values_of_file(file: CudaFile) -> frozenset[str]:
    """The variables, enumerators and macros without parameters of the file and its headers."""
    found = {name for name, macro in file.macros.items() if macro.parameters is None}
    stack = list(file.roots)
    while stack:
        node = stack.pop()
        if node.type in ("translation_unit", *_CONTAINERS) or node.type.startswith("preproc_"):
            stack.extend(node.named_children)
        elif node.type == "enum_specifier" or (node.type == "declaration" and not signature(node)):
            found |= {name for name, _ in introduced(node, {})}
    return frozenset(found) | _BUILT_IN
