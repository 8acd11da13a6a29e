"""Dynamic shared memory that a class hands out as a pointer, as CUDA's samples do: the array is declared in the kernel.

    template <class T> struct SharedMemory {
        __device__ operator T*() { extern __shared__ int memory[]; return (T*)memory; }
    };
                                             extern __shared__ int memory[];
    float* s = SharedMemory<float>();    →   float* s = reinterpret_cast<float*>(memory);

Every declaration of dynamic shared memory names the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.layout import indent_of
from tilepipe.source import Edit, Span
from tilepipe.source.parse import span

_EXTERN = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*|alignas\s*\(\s*\d+\s*\)\s*)?(?:unsigned\s+)?\w+\s+(\w+)\s*\[\s*\]\s*;"
)
_RETURN = re.compile(
    r"return\s+(?:\(\s*([\w\s]+?)\s*\*\s*\)|reinterpret_cast\s*<\s*([\w\s]+?)\s*\*\s*>)\s*\(?\s*(\w+)\s*\)?\s*;"
)


def declared_here(file: CudaFile, kernel: KernelText) -> tuple[Edit, ...]:
    """A pointer of the kernel that such a class makes, made from the array itself; () where there is none."""
    root = file.tree.root.named_descendant_for_byte_range(kernel.body.start, kernel.body.end)
    for declaration in _declarations(root):
        listed = declaration.children_by_field_name("declarator")
        value = listed[0].child_by_field_name("value") if len(listed) == 1 else None
        made = _made(file, value) if value is not None else None
        around = declaration.parent
        if value is None or made is None or around is None or around.type != "compound_statement":
            continue
        array, name, pointee = made
        if re.search(rf"\b{name}\b", file.source.slice(kernel.span)):
            continue
        at = declaration.start_byte
        first = f"{array}\n{indent_of(file.source.data, at)}"
        return Edit(Span(at, at), first), Edit(span(value), f"reinterpret_cast<{pointee}*>({name})")
    return ()


def _declarations(root: Node | None) -> Iterator[Node]:
    stack = [root] if root is not None else []
    while stack:
        node = stack.pop()
        if node.type == "declaration":
            yield node
        stack.extend(reversed(node.named_children))


def _made(file: CudaFile, value: Node) -> tuple[str, str, str] | None:
    """What `C()` or `C<T>()` stands for: the array's declaration, its name, and the type that is pointed to."""
    called = value.child_by_field_name("function") if value.type == "call_expression" else None
    arguments = value.child_by_field_name("arguments")
    if called is None or arguments is None or arguments.named_children:
        return None
    head, bracket, rest = file.source.slice(span(called)).partition("<")
    classes = file.classes.get(head.strip(), ())
    if len(classes) != 1 or head.strip() in file.functions:
        return None
    node, _ = classes[0]
    found = {_handed_out(member) for member in _members(node)}
    if len(found) != 1 or (one := found.pop()) is None:
        return None
    array, name, pointee = one
    template = _parameter(node)
    if bracket and template == pointee:
        return array, name, rest.rstrip().removesuffix(">").strip()
    return (array, name, pointee) if not bracket and template is None else None


def _members(node: Node) -> list[Node]:
    body = node.child_by_field_name("body")
    return (
        [c for c in body.named_children if c.type not in ("comment", "access_specifier")]
        if body is not None
        else []
    )


def _parameter(node: Node) -> str | None:
    """The one type parameter of a class, None where it is no template, "" where it has others."""
    outer = node.parent
    if outer is None or outer.type != "template_declaration":
        return None
    listed = outer.child_by_field_name("parameters")
    names = [(c.text or b"").decode().split() for c in listed.named_children] if listed is not None else []
    return (
        names[0][1] if len(names) == 1 and len(names[0]) == 2 and names[0][0] in ("class", "typename") else ""
    )


def _handed_out(member: Node) -> tuple[str, str, str] | None:
    """Of a conversion that does no more than hand out dynamic shared memory: declaration, name and type."""
    declarator, body = member.child_by_field_name("declarator"), member.child_by_field_name("body")
    if declarator is None or declarator.type != "operator_cast" or body is None:
        return None
    statements = [c for c in body.named_children if c.type != "comment"]
    texts = [" ".join((c.text or b"").decode().split()) for c in statements]
    if len(texts) != 2:
        return None
    array, returned = _EXTERN.fullmatch(texts[0]), _RETURN.fullmatch(texts[1])
    if array is None or returned is None or array.group(1) != returned.group(3):
        return None
    return texts[0], array.group(1), (returned.group(1) or returned.group(2)).removeprefix("const ").strip()
