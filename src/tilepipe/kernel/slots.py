"""Loads that can wait in shared memory, each in a slot that only its own thread uses ("stash").

What cannot be copied asynchronously into its place in a tile – the store scatters, converts or computes – can be
copied as it is into a slot of the same thread, and moved on by that thread when the copy has landed. A load may
wait so if it reads 4, 8 or 16 bytes whose type says that they are aligned, from an array that a parameter points to,
at an address that no other load decides and whose evaluation changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from tree_sitter import Node

from tilepipe.kernel import known
from tilepipe.kernel.effects import Load
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.flow import Item
from tilepipe.kernel.launchbounds import launch_bound_text
from tilepipe.kernel.names import callee, operator_of
from tilepipe.kernel.owned import may_be_owned
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.zeros import bare
from tilepipe.source import Span
from tilepipe.source.parse import span

if TYPE_CHECKING:
    from tilepipe.kernel.model import KernelModel, LoadSite

_BYTES = (4, 8, 16)  # what cp.async moves
_WORD = re.compile(r"[A-Za-z_]\w*")
_ASM = re.compile(r"\b(asm|__asm__)\s+(volatile|__volatile__)\b")
_CHANGES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")


@dataclass(frozen=True)
class Element:
    """What a load reads: the part of the author's text that does, that part as an lvalue, and the condition of the
    ternary around it, "" without one."""

    at: Span
    source: str
    guard: str


@dataclass(frozen=True, eq=False)
class Slot:
    """A load that waits in a slot: `type` of `bytes` bytes, one for each of `count` turns of the loops around it.

    `uses` are the names that its address and guard need.
    """

    site: LoadSite
    element: Element
    type: str
    bytes: int
    count: int
    uses: frozenset[Symbol]


@dataclass(frozen=True, eq=False)
class Stash:
    """The ways that the staged buffers go: `direct` by asynchronous copies into their place, those in `through` (with
    the bytes of their copies) by `slots` of `threads` threads each."""

    direct: frozenset[Symbol]
    through: Mapping[Symbol, int]
    slots: tuple[Slot, ...]
    threads: int
    threads_text: str  # as the author states them

    @property
    def slot_bytes(self) -> int:
        """Bytes of all slots of a block for one tile."""
        return self.threads * sum(s.bytes * s.count for s in self.slots)


def stash(model: KernelModel, widths: Mapping[Symbol, int | None]) -> Stash | str:
    """Which buffers to stash and in which slots; a reason where there is nothing to stash, or no way.

    `widths` are the bytes of the asynchronous copies into each buffer, None where it has none. A buffer that is
    copied in narrower pieces than it is loaded in goes through slots too.
    """
    narrow = {b for b, width in widths.items() if width is not None and _loaded_wider(model, b, width)}
    others = frozenset(b for b, width in widths.items() if width is None) | narrow
    if not others:
        return "every buffer is copied asynchronously as wide as it is loaded"
    by_site: dict[int, Slot] = {}
    through: dict[Symbol, int] = {}
    for buffer in sorted(others, key=lambda s: s.key):
        found = _slots(model, buffer)
        if isinstance(found, str):
            return f"`{buffer.name}` has nothing to wait in slots: {found}"
        by_site |= {id(s.site): s for s in found}
        through[buffer] = found[0].bytes
    slots = tuple(by_site[id(site)] for site in model.loads if id(site) in by_site)
    if model.max_threads is None:
        return "the number of threads, of which each has a slot, is not stated in `__launch_bounds__`"
    stated = launch_bound_text(model.file, model.kernel) or str(model.max_threads)
    return Stash(frozenset(widths) - others, through, slots, model.max_threads, stated)


def _loaded_wider(model: KernelModel, buffer: Symbol, width: int) -> bool:
    found = _slots(model, buffer)
    return not isinstance(found, str) and any(s.bytes > width for s in found)


@lru_cache(maxsize=256)  # every candidate asks
def _slots(model: KernelModel, buffer: Symbol) -> tuple[Slot, ...] | str:
    """The loads behind the stores to a buffer that wait in slots; the first obstacle where none can.

    Loads narrower than the widest stay where they are, beside the stores: copies of 4 bytes cost an instruction each,
    and such loads are often one address for several threads, which asynchronous copies are slow at.
    """
    stores = [s.item for s in model.tile.stores if s.buffer == buffer and s.kind != "compute"]
    needed = model.tile.flow.backward(stores)
    answers = [_slot(model, site) for site in model.loads if site.item in needed]
    able = [a for a in answers if isinstance(a, Slot)]
    widest = max((a.bytes for a in able), default=0)
    found = tuple(a for a in able if a.bytes == widest)
    return found or next((a for a in answers if isinstance(a, str)), "nothing is loaded for it")


def _slot(model: KernelModel, site: LoadSite) -> Slot | str:
    file, at = model.file, site.span.start
    line = file.source.line_of(at)
    load = next(load for load in site.item.own.loads if load.span == site.span)
    found = element(file, site.item, load)
    if isinstance(found, str):
        return f"{found} (line {line})"
    type_, size, align = (model.answers.get(f"slot_{k}:{at}") for k in ("type", "size", "align"))
    if not isinstance(type_, str) or not isinstance(size, int) or not isinstance(align, int):
        return f"the type of the load at line {line} is not known"
    if size not in _BYTES or align < size:
        return f"the load at line {line} is of {size} bytes at multiples of {align}: not a piece for cp.async"
    count = 1
    for trips in site.trips:
        if trips is None:
            return f"the trip count of the loop around the load at line {line} is not known at compile time"
        count *= max(trips.count, 1)
    uses = _named(file, site.item, f"{found.source} {found.guard}")
    why = _not_ahead(model, site.item, found, uses)
    return f"{why} (line {line})" if why else Slot(site, found, type_, size, count, uses)


def element(file: CudaFile, item: Item, load: Load) -> Element | str:
    """The one element that a load reads, or why it is not understood as one."""
    reads = [a for a in item.own.global_reads() if _inside(a.span, load.span)]
    if len(reads) != 1 or load.nested:
        return "the load reads several elements"
    base = reads[0].base
    if base is None or base.kind != "param" or not base.pointer:
        return "it is not known to be global memory that is loaded"
    node = file.tree.root.named_descendant_for_byte_range(load.span.start, load.span.end)
    if node is None:
        return "the load is not understood"
    node, guard = bare(node), ""
    if node.type == "conditional_expression":
        parts = [node.child_by_field_name(n) for n in ("condition", "consequence", "alternative")]
        condition, then, other = parts
        if condition is None or then is None or other is None:
            return "the guard of the load is not understood"
        guard = f"({file.source.slice(span(condition))})"
        if _inside(reads[0].span, span(other)):
            then, guard = other, f"!{guard}"
        node = bare(then)
    if span(node) != reads[0].span:
        return "the load is part of a larger expression"
    source = _lvalue(file, node)
    return Element(span(node), source, guard) if source else "the load is not understood"


def _lvalue(file: CudaFile, node: Node) -> str:
    """The text of an element as an lvalue, "" where it is none that is known."""
    text = file.source.slice(span(node))
    if node.type == "subscript_expression":
        return text
    if node.type == "pointer_expression" and operator_of(node) == "*":
        return text
    if node.type == "call_expression":
        listed = node.child_by_field_name("arguments")
        if callee(node) in file.macros:
            return text  # that it is an lvalue is asked of the compiler
        if callee(node) in known.READS and listed is not None and len(listed.named_children) == 1:
            return f"*({file.source.slice(span(listed.named_children[0]))})"
    return ""


def _inside(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _macros_in(file: CudaFile, text: str) -> list[str]:
    """The macros that a text mentions, by themselves or through others."""
    found: list[str] = []
    work = _WORD.findall(text)
    while work:
        word = work.pop()
        if word in file.macros and word not in found:
            found.append(word)
            work += _WORD.findall(file.macros[word].body)
    return found


def _named(file: CudaFile, item: Item, text: str) -> frozenset[Symbol]:
    """The names of a statement that a part of its text mentions; all of them where a macro may hide some."""
    if _macros_in(file, text):
        return item.own.uses
    words = set(_WORD.findall(text))
    return frozenset(s for s in item.own.uses if s.name in words)


def _not_ahead(model: KernelModel, item: Item, found: Element, uses: frozenset[Symbol]) -> str:
    """Why a load cannot be issued ahead of the rest of its statement, "" if it can."""
    if item.statement.children or item.statement.kind not in ("leaf", "declaration"):
        return "the load stands in the header of a branch or loop"
    if "volatile" in _ASM.sub("", model.file.source.slice(model.kernel.span)):
        return "the kernel has volatile memory"
    text = f"{found.source} {found.guard}"
    macros = [model.file.macros[m] for m in _macros_in(model.file, text)]
    words = set(_WORD.findall(text)).union(
        *(set(_WORD.findall(m.body)) - set(m.parameters or ()) for m in macros)
    )
    changed = {s.name for s in item.own.defs} & words
    if changed or any(_CHANGES.search(t) for t in (text, *(m.body for m in macros))):
        return "the load changes a variable on its way"
    if may_be_owned(model.file, model.analysed.body, item.statement, item.own.uses):
        return "what is loaded may lie in memory of the thread's own"
    if any("?" in m.body for m in macros):
        return "a macro chooses what is loaded"
    if item.own.shared_reads() or "asm" in item.own.flags:
        return "the statement of the load reads shared memory"
    needed = model.tile.flow.backward([item], {item: uses}) - {item}
    if any(i.own.loads or i.own.global_reads() for i in needed):
        return "where to load from is loaded itself"
    return ""


def slot_questions(
    file: CudaFile, items: Iterable[Item]
) -> Mapping[str, tuple[Literal["value", "type"], str, int]]:
    """What the compiler must be asked about loads that may wait in slots: kind, expression and place by key."""
    asked: dict[str, tuple[Literal["value", "type"], str, int]] = {}
    for item in items:
        for load in item.own.loads:
            found = element(file, item, load)
            if isinstance(found, Element):
                at, place = load.span.start, item.statement.span.start
                whole = f"*__builtin_addressof({found.source})"  # an address can be taken of an lvalue only
                asked[f"slot_type:{at}"] = ("type", whole, place)
                asked[f"slot_size:{at}"] = ("value", f"sizeof({whole})", place)
                asked[f"slot_align:{at}"] = ("value", f"alignof(decltype({whole}))", place)
    return asked
