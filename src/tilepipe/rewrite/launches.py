"""Launches of a kernel in the same file: which instance they name, and the dynamic shared memory that they must ask for
now."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.symbols import declarators
from tilepipe.rewrite.lines import indent_of
from tilepipe.source import Edit, Span
from tilepipe.source.parse import span

_NAMING = ("alias_declaration", "struct_specifier", "class_specifier", "enum_specifier")
_NAMES = ("qualified_identifier", "template_function")
# Host functions that are given a kernel without launching it: `cudaFuncSetAttribute`, `cudaOccupancyMaxActive…`.
_ASKING = (b"cudaFunc", b"cudaOccupancy", b"cudaGetFuncBySymbol")
_DECLARING = ("declaration", "parameter_declaration", "optional_parameter_declaration")


def find_launches(file: CudaFile, kernel: KernelText) -> list[Node]:
    """The launch expressions `kernel<<<…>>>(…)` of the file, the namespaces before the name being the kernel's or the
    last of them; without any, each launch of that name."""
    found = []
    for (*namespaces, name), node in _launches(file):
        depth = len(namespaces)
        if name == kernel.name and kernel.scope[len(kernel.scope) - depth :] == tuple(namespaces):
            found.append(node)
    return found


def asked_shared(file: CudaFile, kernel: KernelText) -> tuple[tuple[int, str], ...]:
    """What each launch asks for in dynamic shared memory, as it is written ("0" where nothing is), with its line."""
    asked = []
    for launch in find_launches(file, kernel):
        syntax = next(c for c in launch.children if c.type == "kernel_call_syntax")
        arguments = [c for c in syntax.named_children if c.type != "comment"]
        text = file.source.slice(span(arguments[2])) if len(arguments) > 2 else "0"
        asked.append((file.source.line_of(launch.start_byte), text))
    return tuple(asked)


def mentions_beside_launches(file: CudaFile, kernel: KernelText) -> tuple[int, ...]:
    """Lines in which the kernel is named but neither declared nor launched nor asked about: launched from there,
    perhaps, by a pointer or by `cudaLaunchKernel`."""
    lines: dict[int, None] = {}
    for node in _below(file.tree.root):
        if node.type == "identifier" and node.text == kernel.name.encode():
            whole = _whole(node)
            declares = whole.parent is not None and whole.parent.type == "function_declarator"
            if not (declares or _is_launched(whole) or _is_asked_about(whole)):
                lines[file.source.line_of(node.start_byte)] = None
    return tuple(sorted(lines))


def _whole(name: Node) -> Node:
    """A name with its namespaces and template arguments."""
    outer = name.parent
    return _whole(outer) if outer is not None and outer.type in _NAMES else name


def _is_launched(node: Node) -> bool:
    call = node.parent
    return (
        call is not None
        and call.type == "call_expression"
        and call.child_by_field_name("function") == node
        and any(c.type == "kernel_call_syntax" for c in call.children)
    )


def _is_asked_about(node: Node) -> bool:
    """Whether a name is given to a function that sets or tells what a kernel is like."""
    at = node.parent
    while at is not None and at.type != "expression_statement":
        if at.type == "call_expression":
            called = at.child_by_field_name("function")
            return called is not None and bool(called.text) and (called.text or b"").startswith(_ASKING)
        at = at.parent
    return False


@lru_cache(maxsize=8)  # a file has many kernels
def _launches(file: CudaFile) -> tuple[tuple[tuple[str, ...], Node], ...]:
    """Every launch of the file with the name of its kernel, namespaces first, in source order."""
    found: list[tuple[tuple[str, ...], Node]] = []
    at = [sign.start() for sign in re.finditer(rb"<<<", file.source.data)]
    stack = [file.tree.root]
    while stack:
        node = stack.pop()
        if bisect_left(at, node.start_byte) == bisect_left(at, node.end_byte):
            continue  # no launch in it
        if node.type == "call_expression" and any(c.type == "kernel_call_syntax" for c in node.children):
            callee = node.child_by_field_name("function")
            if callee is not None:
                found.append((_named(callee), node))
        stack.extend(node.named_children)
    return tuple(sorted(found, key=lambda pair: pair[1].start_byte))


def _named(callee: Node) -> tuple[str, ...]:
    """The name of a launched kernel, with the namespaces before it; `("",)` for an expression."""
    if callee.type == "qualified_identifier":
        scope, inner = callee.child_by_field_name("scope"), callee.child_by_field_name("name")
        return ((_text(scope),) if scope is not None else ()) + (_named(inner) if inner is not None else ())
    named = callee.child_by_field_name("name") if callee.type == "template_function" else callee
    return (_text(named),) if named is not None and named.type == "identifier" else ("",)


def _text(node: Node) -> str:
    return node.text.decode() if node.text else ""


def launched_instance(file: CudaFile, kernel: KernelText) -> str | None:
    """The template-id that every launch of a template names; where nothing is launched, the only one that the file
    names otherwise (an explicit instantiation, a pointer to it). None where there is none, where they differ, or where
    an argument is a name of the function around it."""
    launches = [launch.child_by_field_name("function") for launch in find_launches(file, kernel)]
    nodes = [node for node in launches if node is not None] or _template_ids(file, kernel)
    if any(_is_local(node) for node in nodes):
        return None
    named = {_spelled(file, node) for node in nodes}
    return named.pop() if len(named) == 1 and all("<" in name for name in named) else None


def named_instances(file: CudaFile, kernel: KernelText) -> tuple[str, ...]:
    """Every template-id of a template that the file names, be it launched, instantiated or pointed to, but for those
    with a name of the function around them among their arguments."""
    nodes = [node for node in _template_ids(file, kernel) if not _is_local(node)]
    return tuple(dict.fromkeys(_spelled(file, node) for node in nodes))


def unclear_instances(file: CudaFile, kernel: KernelText) -> tuple[str, ...]:
    """How a template is named or launched where what stands there does not say which instance that is."""
    launched = [launch.child_by_field_name("function") for launch in find_launches(file, kernel)]
    nodes = [n for n in _template_ids(file, kernel) if _is_local(n)]
    nodes += [n for n in launched if kernel.template and n is not None and "<" not in _spelled(file, n)]
    return tuple(dict.fromkeys(_spelled(file, node) for node in nodes))


def _template_ids(file: CudaFile, kernel: KernelText) -> list[Node]:
    """The template-ids of a template with the qualification before them, in source order."""
    found: list[Node] = []
    for node in _below(file.tree.root) if kernel.template else ():
        name = node.child_by_field_name("name") if node.type == "template_function" else None
        if name is not None and name.text == kernel.name.encode():
            found.append(_qualified(node))
    return sorted(found, key=lambda node: node.start_byte)


def _qualified(node: Node) -> Node:
    """A name with the namespaces before it."""
    outer = node.parent
    return _qualified(outer) if outer is not None and outer.type == "qualified_identifier" else node


def _spelled(file: CudaFile, node: Node) -> str:
    return " ".join(file.source.slice(span(node)).split())


def _is_local(node: Node) -> bool:
    """Whether a template-id has a name of the function around it among its arguments."""
    return bool(_locals(node) & _words(node))


def _locals(inner: Node) -> set[str]:
    """Names that the functions around a node declare, template parameters and types among them."""
    found: set[str] = set()
    at = inner.parent
    while at is not None:
        if at.type == "template_declaration":
            listed = at.child_by_field_name("parameters")
            found |= _words(listed) if listed is not None else set()
        elif at.type == "function_definition":
            found |= {d.name for node in _below(at) if node.type in _DECLARING for d in declarators(node)}
            found |= {name for node in _below(at) for name in _types_named(node)}
        at = at.parent
    return found


def _types_named(node: Node) -> set[str]:
    """The names of the types that a node declares."""
    if node.type == "type_definition":
        return {d.text.decode() for d in node.children_by_field_name("declarator") if d.text}
    named = node.child_by_field_name("name") if node.type in _NAMING else None
    return {named.text.decode()} if named is not None and named.text else set()


def _words(root: Node) -> set[str]:
    """The names below a node, but for those that say in which scope they are to be looked up."""
    named = (n for n in _below(root) if n.type in ("identifier", "type_identifier") and n.text)
    return {n.text.decode() for n in named if n.text and not _is_qualified(n)}


def _is_qualified(node: Node) -> bool:
    outer = node.parent
    return (
        outer is not None
        and outer.type == "qualified_identifier"
        and outer.child_by_field_name("name") == node
    )


def _below(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.named_children)


def edit_launches(
    file: CudaFile, kernel: KernelText, bytes_of: str
) -> tuple[tuple[Edit, ...], tuple[int, ...]]:
    """Edits that make every launch ask for `bytes_of` (`{old}` stands for what it asked for), and their lines.

    More than 48 KB needs the kernel's attribute raised first, so the call that does it goes before the launch.
    """
    edits: list[Edit] = []
    lines: list[int] = []
    for launch in find_launches(file, kernel):
        edited = _edit(file, launch, bytes_of)
        if edited is None:
            return (), ()
        edits += edited
        lines.append(file.source.line_of(launch.start_byte))
    return tuple(edits), tuple(lines)


def _edit(file: CudaFile, launch: Node, bytes_of: str) -> list[Edit] | None:
    syntax = next(c for c in launch.children if c.type == "kernel_call_syntax")
    arguments = [c for c in syntax.named_children if c.type != "comment"]
    callee = launch.child_by_field_name("function")
    statement: Node | None = launch
    while statement is not None and statement.type != "expression_statement":
        statement = statement.parent
    if callee is None or statement is None or statement.parent is None or len(arguments) < 2:
        return None
    old = file.source.slice(span(arguments[2])) if len(arguments) > 2 else "0"
    wanted = bytes_of.replace("{old}", old)
    edits = []
    if len(arguments) > 2:
        edits.append(Edit(span(arguments[2]), wanted))
    else:
        edits.append(Edit(Span(arguments[1].end_byte, arguments[1].end_byte), f", {wanted}"))
    name = file.source.slice(span(callee))
    call = f"cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>({wanted}));"
    at = statement.start_byte
    if statement.parent.type == "compound_statement":
        edits.append(Edit(Span(at, at), f"{call}\n{indent_of(file.source, at)}"))
    else:
        edits.append(Edit(Span(at, at), f"{{ {call} "))
        edits.append(Edit(Span(statement.end_byte, statement.end_byte), " }"))
    return edits
