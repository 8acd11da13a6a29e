"""The second pipeline: fragments in two slots, those of the next group loaded while one group is multiplied."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

from tilepipe.kernel.alignment import stated
from tilepipe.kernel.fragments import FragmentLoop
from tilepipe.kernel.macros import operand
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.rewrite.lines import indent_of, line_start, reindent, with_comments, with_pragmas
from tilepipe.source import Edit, SourceFile, Span
from tilepipe.source.parse import span

_STEP = "    "


def slot_lines(model: KernelModel, found: FragmentLoop) -> list[str]:
    """Declarations of the two slots, one line for each of the author's declarations."""
    by_declaration: dict[Span, list[Symbol]] = {}
    for symbol in found.names:
        by_declaration.setdefault(symbol.decl, []).append(symbol)
    lines = []
    for at, symbols in by_declaration.items():
        node = _node(model, at)
        first = node.children_by_field_name("declarator")[0].start_byte
        words = re.sub(r"\bconst\b", " ", model.file.source.slice(Span(at.start, first))).split()
        names = [_slotted(model.file.source, d, {s.name for s in symbols}) for d in _declarators(node)]
        aligned = "".join(
            f"alignas({model.file.source.slice(within)}) " for _, within in stated(model.file.source, at)
        )
        lines.append(f"{aligned}{' '.join(words)} {', '.join(n for n in names if n)};")
    return lines


def bind_lines(found: FragmentLoop, slot: str) -> list[str]:
    """The author's names of the fragments for one slot."""
    return [f"auto& {s.name} = {s.name}_slots[{slot}];" for s in found.names]


def load_text(model: KernelModel, found: FragmentLoop, indent: str) -> str:
    """The statements that load the fragments of one group, names of stage, slot and group bound."""
    return "".join(reindent(_as_load(model, found, s), indent).rstrip("\n") + "\n" for s in found.loads)


def next_group(model: KernelModel, found: FragmentLoop, by: int = 1) -> str:
    """The counter's value `by` groups on."""
    step = operand(found.counted.step, model.file.macros)
    return f"{found.counted.counter} + {step if by == 1 else f'{by} * {step}'}"


def group(model: KernelModel, found: FragmentLoop) -> str:
    """The number of the group that the counter stands for."""
    counter, step = found.counted.counter, operand(found.counted.step, model.file.macros)
    return counter if step == "1" else f"{counter} / {step}"


def is_before_end(found: FragmentLoop, value: str) -> str:
    """The condition under which a counter's value belongs to this tile."""
    return f"{value} {'<=' if found.counted.inclusive else '<'} {found.counted.bound}"


def loop_edits(model: KernelModel, found: FragmentLoop, lines: Sequence[str]) -> list[Edit]:
    """The loop over groups unrolled, `lines` at the start of its body."""
    source = model.file.source
    loop, block = found.loop, found.loop.children[0].span
    indent = indent_of(source, loop.span.start)
    text = "".join(f"{indent}{_STEP}{line}\n" for line in lines)
    end = source.data.find(b"\n", block.start)
    alone = not source.data[block.start + 1 : end].split(b"//")[0].strip()
    at = end + 1 if alone else block.start + 1
    edits = [Edit(Span(at, at), text if alone else "\n" + text + indent + _STEP)]
    start = with_pragmas(source, loop.span.start)
    head = source.data[line_start(source, loop.span.start) : loop.span.start]
    if b"unroll" not in source.data[start : loop.span.start]:
        own_line = "" if not head.strip() else f"\n{indent}"
        edits.append(Edit(Span(loop.span.start, loop.span.start), f"{own_line}#pragma unroll\n{indent}"))
    else:
        whole = line_start(source, loop.span.start)
        edits.append(Edit(Span(line_start(source, start), whole), f"{indent}#pragma unroll\n"))
    return edits


def _as_load(model: KernelModel, found: FragmentLoop, statement: Statement) -> str:
    """A statement of the loop's body as one of the loading function: a fragment's declaration becomes an assignment."""
    source = model.file.source
    start = with_comments(source, with_pragmas(source, statement.span.start))
    if statement.kind != "declaration" or not statement.declares & frozenset(found.names):
        indent = "" if start == line_start(source, start) else indent_of(source, start)
        return indent + source.slice(Span(start, statement.span.end))
    node = _node(model, statement.span)
    values = [(d, d.child_by_field_name("value")) for d in _declarators(node)]
    lines = [f"{_name(source, d)} = {source.slice(span(v))};" for d, v in values if v is not None]
    above = source.slice(Span(min(start, line_start(source, statement.span.start)), statement.span.start))
    above = above[: above.rfind("\n") + 1]
    return above + "".join(f"{indent_of(source, statement.span.start)}{line}\n" for line in lines)


def _node(model: KernelModel, at: Span) -> Node:
    node = model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
    assert node is not None
    return node


def _declarators(declaration: Node) -> list[Node]:
    return declaration.children_by_field_name("declarator")


def _name(source: SourceFile, declarator: Node) -> str:
    return source.slice(_name_span(declarator))


def _name_span(declarator: Node) -> Span:
    node = declarator
    while node.type != "identifier":
        inner = node.child_by_field_name("declarator")
        assert inner is not None
        node = inner
    return span(node)


def _slotted(source: SourceFile, declarator: Node, names: set[str]) -> str:
    """The declarator without its value, `_slots[2]` behind its name; "" where it declares another name."""
    at = _name_span(declarator)
    if source.slice(at) not in names:
        return ""
    whole = (
        declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
    )
    assert whole is not None
    before = source.slice(Span(whole.start_byte, at.start))
    value = declarator.child_by_field_name("value")
    # Zeros are those of elements that no group loads.
    zero = " = {}" if value is not None and value.type == "initializer_list" else ""
    return f"{before}{source.slice(at)}_slots[2]{source.slice(Span(at.end, whole.end_byte))}{zero}"
