"""What the grammar takes for another thing than C++ does, put so that it does not.

    i < n && s > -k            reads like          f<n && s>(k)
    i < n >> 2                                     f<n> > 2
    (T)*p, (T)&x                                   a * p, a & x
    MACRO v = 3;                                   Type v = 3;

C++ decides by whether a name is a template's, a type's or a value's, which a grammar cannot know; the variables and the
memory that such text uses would then not be seen. Comparisons get parentheses, `(i) < n && s > -k` and `i < (n >> 2)`,
and so does what is converted, `(T)(*p)`. What stands in a macro or in a header is refused, and so are a macro in the
place of a type that is none, and a name in parentheses that nothing tells to be a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
_DEFINING = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier", "type_definition",
             "alias_declaration", "type_parameter_declaration", "optional_type_parameter_declaration")  # fmt: skip
_BUILT_IN = frozenset(("warpSize",))
_TYPES = re.compile(
    r"(__)?(half|nv_bfloat16|nv_bfloat162|nv_fp8_\w+)2?|u(char|short|int|long)|dim3"
    r"|u?(char|short|int|long|longlong)[1-4]|(float|double)[1-4]"
)
_TYPE_TEXT = re.compile(r"(typename\s+|decltype\s*\(.*\)|[\w\s:*&<>,])+")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]+")  # a macro of a system header, which is not read
_KEYWORDS = re.compile(
    r"\b(if|else|for|while|do|switch|case|return|goto|break|continue|asm|extern|new|delete)\b"
)


@dataclass(frozen=True)
class _Known:
    """Names of values and of types, and those that classes declare."""

    values: frozenset[str]
    types: frozenset[str]
    member_values: frozenset[str] = frozenset()
    member_types: frozenset[str] = frozenset()

    def is_type(self, name: str, member: bool) -> bool:
        """Whether a name, or the last part of `X::name`, is a type's for sure."""
        if member:
            return name in self.types | self.member_types and name not in self.member_values
        return name in self.types or (name not in self.values and _TYPES.fullmatch(name) is not None)

    def is_value(self, name: str, member: bool) -> bool:
        if member:
            return name in self.values | self.member_values and name not in self.member_types
        values = self.values | self.member_values
        return not self.is_type(name, False) and (name in values or _CONSTANT.fullmatch(name) is not None)


def read_as_written(file: CudaFile, kernel: KernelText) -> tuple[Edit, ...] | Refusal:
    """The edits that let a kernel and the functions of the file that it may call be read as C++ has them; TP020 where
    the text is another file's or a macro's."""
    edits: list[Edit] = []
    top = node_of(file, kernel)
    words = reached(file, top)
    every = outside = _of_file(file)
    for root in (top, *(f.node for word in sorted(words) for f in functions_of(file, word))):
        inside = _within(file, root)
        types = (outside.types - inside.values) | inside.types
        known = replace(outside, values=outside.values | inside.values, types=types)
        every = replace(every, values=every.values | known.values, types=every.types | known.types)
        for node in _misread(root, known):
            edit = _edit(file, node, known) if _owns(file, root) else None
            if edit is None:
                return _refused(file, kernel, node)
            edits.append(edit)
        for node in _typed_by_macro(file, root):
            return _refused(file, kernel, node)
    for name in sorted(words & file.macros.keys()):
        macro = file.macros[name]
        given = frozenset(macro.parameters or ())
        known = replace(every, values=every.values | given, types=every.types - given)
        for text in (f"({macro.body})", macro.body):
            body = expansion_body(text)
            found = next(_misread(body, known), None) if body is not None else None
            if found is not None:
                return _refused(file, kernel, found)
    return tuple(e for e in dict.fromkeys(edits) if not any(_around(e, other) for other in edits))


def _around(edit: Edit, other: Edit) -> bool:
    """Whether an edit holds another one, which comes first."""
    a, b = edit.span, other.span
    return a != b and a.start <= b.start and b.end <= a.end


def _refused(file: CudaFile, kernel: KernelText, node: Node) -> Refusal:
    own = _owns(file, node)
    text = " ".join((file.source.slice(span(node)) if own else (node.text or b"").decode()).split())
    if node.type == "declaration":
        message = f"`{text}` reads like a declaration, and begins with a macro that is no type"
        remedy = "write out the macro at this place"
    elif node.type in _TEMPLATES:
        message = f"`{text}` reads like a template with arguments, and is two comparisons"
        remedy = "put each of the comparisons in parentheses"
    else:
        message = f"`{text}` reads like an operation on two values, and may convert one to a type"
        remedy = "put what is converted in parentheses: `(type)(value)`"
    at = span(node) if own else Span(kernel.body.start, kernel.body.start + 1)
    label = "not understood" if own else "in what this kernel uses"
    return refusal("TP020", message, file.source.place(at), label, remedy)


def _owns(file: CudaFile, node: Node) -> bool:
    """Whether a node is one of the file, not of a header or an expansion."""
    return file.tree.root.named_descendant_for_byte_range(node.start_byte, node.end_byte) == node


def _misread(root: Node, known: _Known) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        wrong = _is_comparison if node.type in _TEMPLATES else _is_conversion
        if wrong(node, known):
            yield node


# -- comparisons ---------------------------------------------------------------------------------------------------


def _is_comparison(node: Node, known: _Known) -> bool:
    """Whether the name of what reads like a template is a value's."""
    name = node.child_by_field_name("name")
    outer = node.parent
    if name is None or outer is None or outer.type == "qualified_identifier":
        return False
    if (name.text or b"").decode() in known.values:
        return True
    listed = node.child_by_field_name("arguments")
    conditions = listed.named_children if listed is not None and node.type == "template_function" else []
    return any(c.type == "binary_expression" and operator_of(c) in ("&&", "||") for c in conditions)


def _edit(file: CudaFile, node: Node, known: _Known) -> Edit | None:
    """What lets a node be read as it is, None where it cannot be told what it is."""
    if node.type == "binary_expression":
        return _converted(file, node) if known.is_type(*_in_front(node)) else None
    return _in_parentheses(file, node) if node.type == "template_function" else None


def _in_parentheses(file: CudaFile, node: Node) -> Edit:
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


# -- conversions ---------------------------------------------------------------------------------------------------


def _is_conversion(node: Node, known: _Known) -> bool:
    """Whether the first of two factors is a type in parentheses, or may be one."""
    name, member = _in_front(node)
    return name != "" and not known.is_value(name, member)


def _in_front(node: Node) -> tuple[str, bool]:
    """The name in parentheses that is the first of two factors, "" where there is none; and whether it is one of
    another scope."""
    left = node.child_by_field_name("left") if node.type == "binary_expression" else None
    if left is None or operator_of(node) not in ("*", "&"):
        return "", False
    function = left.child_by_field_name("function")
    if function is not None and function.type == "parenthesized_expression":  # `(U)(T)*p`
        left = left.child_by_field_name("arguments") or left
    inner = left.named_children if left.type in ("parenthesized_expression", "argument_list") else []
    if len(inner) != 1:
        return "", False
    name = inner[0]
    while name.type == "qualified_identifier" and name.child_by_field_name("name") is not None:
        name = name.child_by_field_name("name") or name
    return (name.text or b"").decode() if name.type == "identifier" else "", name != inner[0]


def _converted(file: CudaFile, node: Node) -> Edit | None:
    """Parentheses around what is converted: the first of the second factor's operands."""
    left, operator, first = (node.child_by_field_name(f) for f in ("left", "operator", "right"))
    if left is None or operator is None or first is None:
        return None
    while first.type in ("binary_expression", "conditional_expression", "assignment_expression"):
        first = first.named_children[0]
    at = Span(operator.start_byte, first.end_byte)
    listed = left.child_by_field_name("arguments") if left.type == "call_expression" else None
    if listed is None:
        return Edit(at, f"({file.source.slice(at)})")
    kind = file.source.slice(span(listed))
    return Edit(Span(listed.start_byte, at.end), f"({kind}({file.source.slice(at)}))")


# -- declarations --------------------------------------------------------------------------------------------------


def _typed_by_macro(file: CudaFile, root: Node) -> Iterator[Node]:
    """The declarations whose type is a macro that says no type."""
    stack = [root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        kind = node.child_by_field_name("type") if node.type == "declaration" else None
        macro = file.macros.get((kind.text or b"").decode()) if kind is not None else None
        if macro is not None and not all(_is_type_text(body) for body in (macro.body, *macro.others)):
            yield node


def _is_type_text(body: str) -> bool:
    return _TYPE_TEXT.fullmatch(body) is not None and not _KEYWORDS.search(body)


# -- names ---------------------------------------------------------------------------------------------------------


def _within(file: CudaFile, root: Node) -> _Known:
    """The names that a function introduces; no template can be declared in one."""
    values: set[str] = set()
    types: set[str] = set()
    outer = root.parent
    stack = [outer if outer is not None and outer.type == "template_declaration" else root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        if node.type in ("using_declaration", "template_declaration"):
            continue
        found = {name for name, _ in introduced(node, file.macros)}
        if node.type in _DEFINING or node.type.endswith("type_parameter_declaration"):
            types |= _defined(node, found)
        else:
            values |= found
    return _Known(frozenset(values - types), frozenset(types))


def _defined(node: Node, found: set[str]) -> set[str]:
    """The types among what a node introduces: enumerators are none."""
    name = node.child_by_field_name("name")
    own = {(name.text or b"").decode()} if name is not None else set[str]()
    return own & found if node.type == "enum_specifier" else found


@lru_cache(maxsize=8)  # a file has many kernels
def _of_file(file: CudaFile) -> _Known:
    """The variables, enumerators, types and macros without parameters of the file and its headers."""
    macros = {name: macro for name, macro in file.macros.items() if macro.parameters is None}
    types = {n for n, m in macros.items() if _says_type(m.body)}
    values = macros.keys() - types
    stack = list(file.roots)
    while stack:
        node = stack.pop()
        if node.type in ("translation_unit", *_CONTAINERS) or node.type.startswith("preproc_"):
            stack.extend(node.named_children)
        elif node.type == "template_declaration":
            stack.extend(n for n in node.named_children if n.type in _DEFINING)
        elif node.type in _DEFINING:
            found = {name for name, _ in introduced(node, {})}
            types |= _defined(node, found)
            values |= found - _defined(node, found)
        elif node.type == "declaration" and not signature(node):
            values |= {name for name, _ in introduced(node, {})}
    return _Known(frozenset(values) | _BUILT_IN, frozenset(types), *_of_classes(file))


def _of_classes(file: CudaFile) -> tuple[frozenset[str], frozenset[str]]:
    """The values and the types that the classes of the file and its headers declare."""
    values: set[str] = set()
    types: set[str] = set()
    for body in (n.child_by_field_name("body") for nodes in file.classes.values() for n, _ in nodes):
        stack = list(body.named_children) if body is not None else []
        while stack:
            node = stack.pop()
            found = {name for name, _ in introduced(node, {})}
            inside = [c for c in node.named_children if c.type in _DEFINING]
            stack += inside
            if node.type in _DEFINING:
                types |= _defined(node, found)
                values |= found - _defined(node, found)
            else:
                values |= found - {name for c in inside for name, _ in introduced(c, {})}
    return frozenset(values), frozenset(types)


def _says_type(body: str) -> bool:
    """Whether a macro's text is a type of the language or of CUDA."""
    words = re.findall(r"\w+", body)
    plain = re.compile(r"const|unsigned|signed|char|short|int|long|float|double|bool|size_t|u?int\d+_t")
    known = all(plain.fullmatch(w) or _TYPES.fullmatch(w) for w in words)
    return known and re.fullmatch(r"[\w\s]+", body) is not None
