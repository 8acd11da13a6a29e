"""The state of a walk: scopes, guards, loop turns and the trace that grows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tree_sitter import Node, Tree

from tilepipe.lint.events import Event, EventKind, NotUnderstoodError, Region, Site, Trace, Turn
from tilepipe.lint.program import Program
from tilepipe.lint.values import (
    NO_TAGS,
    THREAD,
    TILE,
    Array,
    Cell,
    Num,
    Pointer,
    Tags,
    arithmetic,
    const,
    hull,
    unknown,
)
from tilepipe.source import Span
from tilepipe.source.parse import parse_tree

MAX_EVENTS = 20_000
MAX_DEPTH = 24  # calls within calls

SIZES = {
    **dict.fromkeys(("char", "int8_t", "uint8_t", "bool", "signed char", "unsigned char", "uchar"), 1),
    **dict.fromkeys(
        ("short", "half", "__half", "int16_t", "uint16_t", "__nv_bfloat16", "bfloat16", "char2"), 2
    ),
    **dict.fromkeys(("unsigned short", "nv_bfloat16", "ushort", "uchar2", "float16_t", "bf16"), 2),
    **dict.fromkeys(
        ("int", "unsigned", "float", "int32_t", "uint32_t", "unsigned int", "half2", "__half2"), 4
    ),
    **dict.fromkeys(("char4", "uchar4", "short2", "ushort2", "__nv_bfloat162", "uint", "float32_t"), 4),
    **dict.fromkeys(("double", "long", "int64_t", "uint64_t", "size_t", "long long", "float2", "int2"), 8),
    **dict.fromkeys(("uint2", "short4", "ushort4", "uintptr_t", "unsigned long long", "unsigned long"), 8),
    **dict.fromkeys(("float4", "int4", "uint4", "double2", "longlong2", "ulonglong2"), 16),
}


@dataclass(frozen=True)
class Launch:
    """What is known of a launch: block extents (None unknown) and values of integer parameters."""

    block: tuple[int | None, int | None, int | None] = (None, None, None)
    threads: int | None = None
    parameters: dict[str, int] = field(default_factory=dict)
    template: tuple[str, ...] = ()
    dynamic_shared: int | None = None  # bytes
    forced_turns: int = 4  # for loops of unknown length
    max_turns: int | None = None  # stop the walk when a loop turns more often


class StopWalk(Exception):
    """The walk has seen what it was asked for."""


class State(ABC):
    """Scopes of cells, with a journal that lets a branch be undone and joined."""

    def __init__(self, program: Program, launch: Launch) -> None:
        self.program = program
        self.launch = launch
        self.trace = Trace()
        self.scopes: list[dict[str, Cell]] = [{}]
        self.types: list[dict[str, str]] = [{}]
        self.journals: list[list[tuple[Cell, Any]]] = []
        self.anchor: Site | None = None
        self.header: str | None = None
        self.turns: list[Turn] = []
        self.guards: list[tuple[Span, Tags, bool]] = []
        self.summaries = 0  # summarised loops around
        self.depth = 0
        self.silent = 0  # reads are not recorded while an address is computed for its own sake
        self.arrays: dict[tuple[int, str], Array] = {}
        self.resolving: set[str] = set()
        self.work = 0  # loops and foreign calls so far: a measure of what stands between two events

    # -- names ---------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Cell | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def assign(self, cell: Cell, value: Any, moves: bool = False) -> None:
        """Give a cell a value. `moves`: the new value is made of the old one, so between tiles it advances."""
        if moves and self.turns and not self.summaries and isinstance(value, Num):
            value = replace(value, tags=value.tags | {TILE})
        if self.journals:
            self.journals[-1].append((cell, cell.value))
        cell.value = value

    @abstractmethod
    def span(self, node: Node) -> Span:
        """Where a node stands in the author's text."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    @contextmanager
    def guarded(self, at: Span, tags: Tags, maybe: bool) -> Iterator[None]:
        self.guards.append((at, tags, maybe))
        try:
            yield
        finally:
            self.guards.pop()

    def rollback(self, journal: list[tuple[Cell, Any]]) -> dict[Cell, Any]:
        """Undo the assignments of `journal`; returns the values that they had led to."""
        reached = {cell: cell.value for cell, _ in journal}
        for cell, old in reversed(journal):
            cell.value = old
        return reached

    def join(self, first: dict[Cell, Any], second: dict[Cell, Any], tags: Tags) -> None:
        """Give every cell that one of two branches changed a value that covers both."""
        for cell in {**first, **second}:
            value = hull(first.get(cell, cell.value), second.get(cell, cell.value))
            if isinstance(value, Num):
                value = replace(value, tags=value.tags | tags)
            self.assign(cell, value)

    # -- types ---------------------------------------------------------------------------------------------

    def size_of(self, text: str) -> int:
        """Bytes of a type by its name, 0 where it is not known."""
        words = [
            w for w in text.replace("::", " ").split() if w not in ("const", "volatile", "struct", "std")
        ]
        name = " ".join(words)
        if name.endswith("*"):
            return 8
        for _ in range(8):
            if name in SIZES:
                return SIZES[name]
            bound = next((t[name] for t in reversed(self.types) if name in t), None)
            if bound is None:
                bound = self.program.types.get(name)
            if bound is None and name in self.program.macros:
                bound = self.program.macros[name][1]
            if bound is None or bound == name:
                break
            if bound.isdigit():
                return int(bound)
            name = bound.strip()
        return SIZES.get(words[-1], 0) if words else 0

    def cast(self, kind: str, value: Any) -> Any:
        """`value` as type `kind`: only pointers change."""
        if isinstance(value, Pointer):
            if "*" in kind:
                named = kind.replace("*", " ").strip()
                size = 1 if named.split()[-1:] == ["void"] else self.size_of(named)
                plain = named.split()[-1:] != ["void"]
                return flat(value, size if plain else value.elem)
            if self.size_of(kind):
                return flat(value, 1)
        return value

    # -- events --------------------------------------------------------------------------------------------

    def site(self, node: Node, api: str = "") -> Site:
        """Where an event at `node` is shown: the use of a macro or thin wrapper stands for what is in it."""
        if self.anchor is not None:
            return replace(self.anchor, api=api)
        return Site(Span(node.start_byte, node.end_byte), api, False, self.header)

    def emit(self, kind: EventKind, site: Site, region: Region | None = None, **more: Any) -> None:
        guard: Tags = NO_TAGS
        edge: Tags = NO_TAGS
        for _, tags, maybe in self.guards:
            guard |= tags
            edge |= tags if maybe and THREAD in tags else NO_TAGS
        event = Event(
            kind,
            site,
            tuple(self.turns),
            region,
            guard=guard,
            edge=edge,
            guards=tuple(at for at, _, _ in self.guards),
            maybe=any(maybe for _, _, maybe in self.guards),
            conditional=bool(self.guards),
            work=self.work,
            **more,
        )
        events = self.trace.events
        if (
            events
            and kind in ("read", "copy", "store")
            and replace(events[-1], site=site, work=self.work, index=event.index) == event
        ):
            return
        events.append(event)
        if len(events) > MAX_EVENTS:
            raise NotUnderstoodError("the walk is too long")

    def access(self, kind: EventKind, pointer: Pointer, size: int, node: Node, **more: Any) -> None:
        """A read, store or copy of `size` bytes (0 unknown) at `pointer`, if that is in shared memory."""
        if pointer.array.space != "shared":
            return
        region = region_of(pointer, size)
        if pointer.lead is None and self.launch.threads is None and THREAD in pointer.offset.tags:
            region = replace(region, lo=-math.inf, lead=None)  # how far the threads reach is not known
        if pointer.lead is not None and kind != "read":
            name = pointer.array.name
            seen = self.trace.lead_ranges.get(name)
            self.trace.lead_ranges[name] = pointer.lead if seen is None else hull(seen, pointer.lead)
        self.emit(kind, self.site(node, more.pop("api", "")), region, **more)


def region_of(pointer: Pointer, size: int) -> Region:
    """The bytes that an access of `size` bytes may touch."""
    high = pointer.offset.hi + max(size, 1) - 1
    lead = (pointer.lead.lo, pointer.lead.hi) if pointer.lead is not None else _stages(pointer, high)
    inner = pointer.inner.form if pointer.inner is not None else pointer.offset.form
    per_thread = inner if inner is not None and "thread" in inner else None
    return Region(pointer.array, pointer.offset.lo, high, lead, per_thread)


def _stages(pointer: Pointer, high: float) -> tuple[float, float] | None:
    """The first indices that `pointer` up to byte `high` spans; a range that is a little too wide counts as
    what most of it is in."""
    size, low = stage_bytes(pointer.array), pointer.offset.lo
    if not size or not math.isfinite(low) or not math.isfinite(high):
        return None
    first, last = low // size, high // size
    if last == first + 1 and 2 * (high - last * size) < min(high - low, size):
        last = first
    return first, last


def flat(pointer: Pointer, elem: int) -> Pointer:
    """The address without its array. The stage stays known until the address moves."""
    return replace(pointer, dims=(), elem=elem)


def stage_bytes(array: Array) -> int | None:
    """Bytes from one first index to the next, None where that is not known or there is but one dimension."""
    if array.dynamic or len(array.dims) < 2 or None in array.dims[1:] or not array.elem:
        return None
    return array.elem * math.prod(d for d in array.dims[1:] if d is not None)


def step(pointer: Pointer, index: Num, stride: int | None, clamp: int | None = None) -> Pointer:
    """`pointer` moved by `index` strides of so many bytes; an unknown stride leaves the offset unknown."""
    if clamp is not None and clamp > 0 and (index.lo < 0 or index.hi >= clamp):
        index = Num(
            min(max(index.lo, 0), clamp - 1), max(min(index.hi, clamp - 1), 0), index.tags, index.form
        )
    if stride is None:
        moved = pointer.offset if index.known == 0 else unknown(index.tags)
        return replace(pointer, offset=moved, inner=moved)
    by = arithmetic("*", index, const(stride))
    inner = arithmetic("+", pointer.inner, by) if pointer.inner is not None else None
    return replace(pointer, offset=arithmetic("+", pointer.offset, by), inner=inner)


@lru_cache(maxsize=4096)
def parsed(text: str) -> Tree:
    """The tree of statements that a macro expands to, as the body of a function."""
    return parse_tree("void tp() {" + text + ";}")


def expansion(text: str) -> Node:
    """The compound statement of an expansion. Raises NotUnderstoodError where it does not parse."""
    root = parsed(text).root_node
    body = root.named_children[0].child_by_field_name("body") if root.named_children else None
    if root.has_error or body is None:
        raise NotUnderstoodError(f"a macro's expansion does not parse: {text[:40]}")
    return body
