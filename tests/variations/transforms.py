"""Edits of a kernel's source that change nothing in its meaning: what the tool says of it must not change either.

Each transform takes a file's text and returns the changed text, or None where it has nothing to change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from tree_sitter import Node

from tilepipe.source import Edit, SourceFile, Span, apply_edits
from tilepipe.source.parse import Tree, parse, span

Transform = Callable[[str], str | None]
_LOOPS = ("for_statement", "while_statement")


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _kernels(tree: Tree) -> list[Node]:
    """Bodies of the file's `__global__` functions."""
    found = []
    for node in _nodes(tree.root):
        body = node.child_by_field_name("body") if node.type == "function_definition" else None
        if body is not None:
            head = tree.source.slice(Span(node.start_byte, body.start_byte))
            if "__global__" in head:
                found.append(body)
    return found


def _parsed(text: str) -> Tree:
    return parse(SourceFile("variation.cu", text))


def rename_locals(text: str) -> str | None:
    """Every local variable of the kernels gets another name; shared arrays and parameters keep theirs."""
    tree = _parsed(text)
    defined = " ".join(re.findall(r"#\s*define[^\n]*(?:\\\n[^\n]*)*", text))
    edits: list[Edit] = []
    for body in _kernels(tree):
        names = set()
        for node in _nodes(body):
            if node.type != "declaration" or "__shared__" in tree.source.slice(span(node)):
                continue
            for child in node.children:
                inner: Node | None = child
                while inner is not None and inner.type in (
                    "init_declarator",
                    "array_declarator",
                    "pointer_declarator",
                ):
                    inner = inner.child_by_field_name("declarator")
                if inner is not None and inner.type == "identifier" and inner.text:
                    names.add(inner.text.decode())
        names = {n for n in names if not re.search(rf"\b{n}\b", defined)}
        for node in _nodes(body):
            if node.type == "identifier" and node.text and node.text.decode() in names:
                edits.append(Edit(Span(node.end_byte, node.end_byte), "Renamed"))
    return apply_edits(text, edits) if edits else None


def reformat(text: str) -> str | None:
    """Statements of the kernels broken at commas and operators, with comments in between."""
    tree = _parsed(text)
    edits = []
    for body in _kernels(tree):
        for node in _nodes(body):
            if node.type in (",", "=", "&&") and _breakable(node):
                edits.append(Edit(Span(node.end_byte, node.end_byte), "  /* . */\n            "))
    return apply_edits(text, edits) if edits else None


def _breakable(node: Node) -> bool:
    current: Node | None = node
    while current is not None:
        if current.type.startswith("preproc") or current.type in ("gnu_asm_expression", "string_literal"):
            return False
        current = current.parent
    return True


def barrier_macro(text: str) -> str | None:
    """The barrier behind a macro."""
    if "__syncthreads();" not in text:
        return None
    head = "#define BLOCK_BARRIER() __syncthreads()\n"
    return _after_comment(text, head, lambda rest: rest.replace("__syncthreads();", "BLOCK_BARRIER();"))


def barrier_group(text: str) -> str | None:
    """The barrier as that of a cooperative group."""
    if "__syncthreads();" not in text:
        return None
    changed = text.replace("__syncthreads();", "cooperative_groups::this_thread_block().sync();")
    return _after_comment(changed, "#include <cooperative_groups.h>\n", lambda rest: rest)


def _after_comment(text: str, head: str, change: Callable[[str], str]) -> str:
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    return "\n".join(lines[:first]) + ("\n" if first else "") + head + change("\n".join(lines[first:]))


def braces(text: str) -> str | None:
    """Braces around every body that has none."""
    tree = _parsed(text)
    edits = []
    for body in _kernels(tree):
        for node in _nodes(body):
            inner = node.child_by_field_name("consequence" if node.type == "if_statement" else "body")
            if (
                node.type in (*_LOOPS, "if_statement")
                and inner is not None
                and inner.type != "compound_statement"
            ):
                edits.append(Edit(Span(inner.start_byte, inner.start_byte), "{ "))
                edits.append(Edit(Span(inner.end_byte, inner.end_byte), " }"))
    # Insertions at one end close from the inside out.
    edits.sort(key=lambda e: (e.span.start, e.text != " }"))
    return apply_edits(text, edits) if edits else None


def spelled_steps(text: str) -> str | None:
    """`k += BK` in loop headers as `k = k + (BK)`."""
    tree = _parsed(text)
    edits = []
    for body in _kernels(tree):
        for node in _nodes(body):
            update = node.child_by_field_name("update") if node.type == "for_statement" else None
            if update is None or update.type != "assignment_expression":
                continue
            left, right = update.child_by_field_name("left"), update.child_by_field_name("right")
            operator = update.child_by_field_name("operator")
            if left is not None and right is not None and operator is not None and operator.text == b"+=":
                name = tree.source.slice(span(left))
                edits.append(Edit(span(update), f"{name} = {name} + ({tree.source.slice(span(right))})"))
    return apply_edits(text, edits) if edits else None


def while_loops(text: str) -> str | None:
    """The tile loop (the outermost loop with a barrier) of each kernel as a `while`, in a block of its own."""
    tree = _parsed(text)
    edits: list[Edit] = []
    for body in _kernels(tree):
        loop = next(
            (n for n in _nodes(body) if n.type == "for_statement" and "__syncthreads" in _text(tree, n)), None
        )
        edits += _as_while(tree, loop) if loop is not None else []
    return apply_edits(text, edits) if edits else None


def _text(tree: Tree, node: Node) -> str:
    return tree.source.slice(span(node))


def _as_while(tree: Tree, loop: Node) -> list[Edit]:
    init, condition = loop.child_by_field_name("initializer"), loop.child_by_field_name("condition")
    update, inner = loop.child_by_field_name("update"), loop.child_by_field_name("body")
    if (
        init is None
        or condition is None
        or update is None
        or inner is None
        or inner.type != "compound_statement"
    ):
        return []
    if "continue" in _text(tree, inner) or _pragma_above(tree, loop):
        return []
    first = _text(tree, init).rstrip(";")
    head = f"{{ {first}; while ({_text(tree, condition)}) "
    return [
        Edit(Span(loop.start_byte, inner.start_byte), head),
        Edit(Span(inner.end_byte - 1, inner.end_byte), f"    {_text(tree, update)};\n    }} }}"),
    ]


def _pragma_above(tree: Tree, node: Node) -> bool:
    before = tree.source.data[: node.start_byte].decode().rstrip().rsplit("\n", 1)[-1]
    return before.lstrip().startswith("#")


def comments(text: str) -> str | None:
    """Comment lines between the statements of the kernels."""
    tree = _parsed(text)
    edits = []
    for body in _kernels(tree):
        for node in _nodes(body):
            if (
                node.type == "expression_statement"
                and node.parent is not None
                and node.parent.type == "compound_statement"
            ):
                at = node.end_byte
                edits.append(Edit(Span(at, at), "  // says nothing"))
    if not edits:
        return None
    changed = apply_edits(text, edits)
    # A comment may have landed before another statement on the same line, which it would hide.
    return changed if all(line.count("// says nothing") <= 1 for line in changed.split("\n")) else None


def shuffled_declarations(text: str) -> str | None:
    """Neighbouring one-name declarations before the tile loop swapped where neither uses the other."""
    tree = _parsed(text)
    rng = random.Random(len(text))
    edits: list[Edit] = []
    for body in _kernels(tree):
        listed = [c for c in body.named_children if c.type != "comment"]
        i = 0
        while i + 1 < len(listed):
            first, second = listed[i], listed[i + 1]
            if _swappable(tree, first, second) and rng.random() < 0.8:
                edits.append(Edit(span(first), _text(tree, second)))
                edits.append(Edit(span(second), _text(tree, first)))
                i += 1
            i += 1
    return apply_edits(text, edits) if edits else None


def _swappable(tree: Tree, first: Node, second: Node) -> bool:
    if first.type != "declaration" or second.type != "declaration":
        return False
    texts = [_text(tree, n) for n in (first, second)]
    if any("\n" in t or "extern" in t for t in texts):
        return False
    names = [set(re.findall(r"[A-Za-z_]\w*", t)) for t in texts]
    targets = [_declared_names(n) for n in (first, second)]
    return not (targets[0] & names[1] or targets[1] & names[0])


def _declared_names(node: Node) -> set[str]:
    found = set()
    for child in node.children:
        inner: Node | None = child
        while inner is not None and inner.type in (
            "init_declarator",
            "array_declarator",
            "pointer_declarator",
        ):
            inner = inner.child_by_field_name("declarator")
        if inner is not None and inner.type == "identifier" and inner.text:
            found.add(inner.text.decode())
    return found


TRANSFORMS: dict[str, Transform] = {
    "rename_locals": rename_locals,
    "reformat": reformat,
    "barrier_macro": barrier_macro,
    "barrier_group": barrier_group,
    "braces": braces,
    "spelled_steps": spelled_steps,
    "while_loops": while_loops,
    "comments": comments,
    "shuffled_declarations": shuffled_declarations,
}
