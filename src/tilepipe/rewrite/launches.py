"""Launches of a kernel in the same file: the dynamic shared memory that they must ask for now."""

from __future__ import annotations

from functools import lru_cache

from tree_sitter import Node

from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.rewrite.lines import indent_of
from tilepipe.source import Edit, Span
from tilepipe.source.parse import span


def find_launches(file: CudaFile, kernel: KernelText) -> list[Node]:
    """The launch expressions `kernel<<<…>>>(…)` of the file."""
    return [node for name, node in _launches(file) if name == kernel.name]


@lru_cache(maxsize=8)  # a file has many kernels
def _launches(file: CudaFile) -> tuple[tuple[str, Node], ...]:
    """Every launch of the file with the name of its kernel, in source order."""
    found: list[tuple[str, Node]] = []
    stack = [file.tree.root] if b"<<<" in file.source.data else []
    while stack:
        node = stack.pop()
        if node.type == "call_expression" and any(c.type == "kernel_call_syntax" for c in node.children):
            callee = node.child_by_field_name("function")
            name = file.source.slice(span(callee)) if callee is not None else ""
            found.append((name.split("<")[0].strip(), node))
        stack.extend(node.named_children)
    return tuple(sorted(found, key=lambda pair: pair[1].start_byte))


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
