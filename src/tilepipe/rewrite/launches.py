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

_DECLARING = ("declaration", "parameter_declaration", "optional_parameter_declaration")


def find_launches(file: CudaFile, kernel: KernelText) -> list[Node]:
    """The launch expressions `kernel<<<…>>>(…)` of the file."""
    return [node for name, node in _launches(file) if name == kernel.name]


@lru_cache(maxsize=8)  # a file has many kernels
def _launches(file: CudaFile) -> tuple[tuple[str, Node], ...]:
    """Every launch of the file with the name of its kernel, in source order."""
    found: list[tuple[str, Node]] = []
    at = [sign.start() for sign in re.finditer(rb"<<<", file.source.data)]
    stack = [file.tree.root]
    while stack:
        node = stack.pop()
        if bisect_left(at, node.start_byte) == bisect_left(at, node.end_byte):
            continue  # no launch in it
        if node.type == "call_expression" and any(c.type == "kernel_call_syntax" for c in node.children):
            callee = node.child_by_field_name("function")
            name = file.source.slice(span(callee)) if callee is not None else ""
            found.append((name.split("<")[0].strip(), node))
        stack.extend(node.named_children)
    return tuple(sorted(found, key=lambda pair: pair[1].start_byte))


def launched_instance(file: CudaFile, kernel: KernelText) -> str | None:
    """The template-id that every launch of a template names, None where there is none, where they differ, or where an
    argument is a name of the function that launches."""
    named: set[str] = set()
    for launch in find_launches(file, kernel):
        callee = launch.child_by_field_name("function")
        if callee is None or _locals(launch) & _words(callee):
            return None
        named.add(" ".join(file.source.slice(span(callee)).split()))
    return named.pop() if len(named) == 1 and all("<" in name for name in named) else None


def _locals(launch: Node) -> set[str]:
    """Names that the functions around a launch declare, template parameters among them."""
    found: set[str] = set()
    at = launch.parent
    while at is not None:
        if at.type == "template_declaration":
            listed = at.child_by_field_name("parameters")
            found |= _words(listed) if listed is not None else set()
        elif at.type == "function_definition":
            found |= {d.name for node in _below(at) if node.type in _DECLARING for d in declarators(node)}
        at = at.parent
    return found


def _words(root: Node) -> set[str]:
    return {n.text.decode() for n in _below(root) if n.type in ("identifier", "type_identifier") and n.text}


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
