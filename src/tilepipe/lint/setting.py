"""What the text says about a launch: threads per block and template arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

from tilepipe.kernel.file import KernelText
from tilepipe.lint.events import NotUnderstoodError
from tilepipe.lint.nodes import text_of
from tilepipe.lint.program import Program
from tilepipe.lint.state import Launch
from tilepipe.lint.values import Num
from tilepipe.lint.walk import Walker, expression, template_names
from tilepipe.source import Span

_BOUNDS = re.compile(r"__launch_bounds__\s*\(([^,()]+(?:\([^()]*\)[^,()]*)*)")
_COUNTER = frozenset({"update_expression", "assignment_expression"})


def launch_of(
    program: Program, kernel: KernelText, instantiate: str | None, block: Sequence[int] | None
) -> Launch:
    """The launch to walk under: block extents as given, else `__launch_bounds__`, else the launch in the file;
    template arguments from `instantiate`, else from a use whose arguments are all known, else the defaults."""
    template = _template(program, kernel, instantiate)
    extents, shared = _launched(program, kernel)
    if block:
        x, y, z = (*block, 1, 1)[:3]
        extents = x, y, z
    if extents is not None:
        x, y, z = extents
        return Launch(extents, x * y * z, template=template, dynamic_shared=shared)
    head = program.files[0].source.slice(Span(kernel.span.start, kernel.body.start))
    bound = _BOUNDS.search(head)
    threads = _evaluate(program, bound[1], kernel, template) if bound else None
    return Launch(threads=threads, template=template, dynamic_shared=shared)


def _template(program: Program, kernel: KernelText, instantiate: str | None) -> tuple[str, ...]:
    names = template_names(program, kernel)
    if not names:
        return ()
    uses = program.instantiations(kernel.name)
    if instantiate and "<" in instantiate:
        inner = instantiate[instantiate.index("<") + 1 : instantiate.rindex(">")]
        return tuple(part.strip() for part in inner.split(","))
    for use in uses:
        values = [
            name[2] or _evaluate(program, text, kernel, ()) is not None
            for name, text in zip(names, use, strict=False)
        ]
        if use and all(values):
            return tuple(use)
    return ()


def _evaluate(program: Program, text: str, kernel: KernelText, template: tuple[str, ...]) -> int | None:
    """A constant expression of the file; template parameters of the kernel have their values."""
    node = expression(text)
    if node is None:
        return None
    walker = Walker(program, Launch(template=template))
    try:
        walker.bind_kernel_template(kernel.name)
        value = walker.value(node)
    except NotUnderstoodError:
        return None
    return value.known if isinstance(value, Num) else None


def _launched(program: Program, kernel: KernelText) -> tuple[tuple[int, int, int] | None, int | None]:
    """Block extents and dynamic shared bytes of a launch in the files, where they are constants."""
    for file in program.files:
        pattern = rf"\b{re.escape(kernel.name)}\s*(?:<[^;{{}}]*?>)?\s*<<<([^;]*?)>>>"
        for match in re.finditer(pattern, file.source.text):
            parts = _split(match[1])
            if len(parts) < 2:
                continue
            extents = _extents(program, kernel, parts[1], file.source.text[: match.start()])
            shared = _evaluate(program, parts[2], kernel, ()) if len(parts) > 2 else 0
            if extents is not None:
                return extents, shared
    return None, None


def _extents(program: Program, kernel: KernelText, text: str, before: str) -> tuple[int, int, int] | None:
    text = text.strip()
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        declared = list(re.finditer(rf"\bdim3\s+{text}\s*[({{]([^;]*?)[)}}]\s*[;,]", before))
        if declared:
            return _numbers(program, kernel, _split(declared[-1][1]))
    if call := re.fullmatch(r"dim3\s*[({](.*)[)}]", text, re.DOTALL):
        return _numbers(program, kernel, _split(call[1]))
    return _numbers(program, kernel, [text])


def _numbers(program: Program, kernel: KernelText, parts: list[str]) -> tuple[int, int, int] | None:
    values = [_evaluate(program, part, kernel, ()) for part in parts]
    if not values or len(values) > 3 or any(v is None or v < 1 for v in values):
        return None
    x, y, z = ([v for v in values if v is not None] + [1, 1])[:3]
    return x, y, z


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def idle_counters(program: Program, kernel: KernelText) -> frozenset[str]:
    """Variables that the kernel moves on (`b += step`) and uses for nothing else."""
    definition, _, _ = program.functions[kernel.name]
    body = definition.child_by_field_name("body")
    moved: set[str] = set()
    used: set[str] = set()
    stack: list[Node] = [body] if body is not None else []
    while stack:
        node = stack.pop()
        if node.type in _COUNTER:
            target = node.child_by_field_name("left") or node.child_by_field_name("argument")
            operator = text_of(node.child_by_field_name("operator"))
            if target is not None and target.type == "identifier" and operator != "=":
                moved.add(text_of(target))
                right = node.child_by_field_name("right")
                stack.extend([right] if right is not None else [])
                continue
        if node.type == "init_declarator":
            value = node.child_by_field_name("value")
            stack.extend([value] if value is not None else [])
            continue
        if node.type == "identifier":
            used.add(text_of(node))
        stack.extend(node.named_children)
    return frozenset(moved - used)
