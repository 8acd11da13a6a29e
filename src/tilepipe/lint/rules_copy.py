"""Rules on single copies and on buffers: sizes that do not exist, edges left unfilled, indices of another
array, and what the stages cost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilepipe.gpu import Arch, occupancy
from tilepipe.lint.events import Event
from tilepipe.lint.finding import Found
from tilepipe.lint.machine import Played
from tilepipe.lint.runs import Runs

STATIC_LIMIT = 48 * 1024  # bytes of static shared memory per block, on every architecture
_SIZES = (4, 8, 16)
_FEW_WARPS = 8
_DOUBLED = 2
_NEAR = 40  # events
_REGISTERS = 32  # a guess that lets shared memory decide


def size_findings(runs: Runs) -> Iterator[Found]:
    """Copies of a size that the instruction does not have."""
    seen: set[int] = set()
    for event in runs.steady.trace.events:
        if event.kind != "copy" or not event.bytes or event.site.span.start in seen:
            continue
        name = event.region.array.name if event.region else ""
        if event.modifier == "cg" and event.bytes in (4, 8):
            seen.add(event.site.span.start)
            yield _at(
                event,
                "TP510",
                f"cp.async.cg copies 16 bytes only: {event.bytes} bytes into `{name}` do not assemble",
                f"{event.bytes} bytes",
                "use .ca for 4 and 8 bytes",
            )
        elif event.bytes not in _SIZES and event.site.api not in ("cuda::pipeline", "cuda::barrier"):
            seen.add(event.site.span.start)
            yield _at(
                event,
                "TP511",
                f"an asynchronous copy has 4, 8 or 16 bytes: {event.bytes} into `{name}` trap or do not compile",
                f"{event.bytes} bytes",
                "copy neighbouring elements together, or go through a register",
            )


def _at(event: Event, code: str, message: str, label: str, help: str) -> Found:
    name = event.region.array.name if event.region else ""
    return Found(code, event.site.span, message, label, help, array=name, file=event.site.file)


def edge_findings(runs: Runs) -> Iterator[Found]:
    """Copies that are skipped beyond the edge of the last tile, where what is read was not zeroed."""
    if runs.ragged is None or runs.driver is None:
        return
    tag = f"parameter {runs.driver.parameter}"
    events = runs.ragged.trace.events
    seen: set[str] = set()
    for at, event in enumerate(events):
        if event.kind != "copy" or not event.maybe or event.region is None:
            continue
        name = event.region.array.name
        if name in seen or tag not in event.edge or event.sized:
            continue
        if _filled_otherwise(events, at) or not _read_unguarded(events, name, tag):
            continue
        seen.add(name)
        yield _at(
            event,
            "TP512",
            f"beyond the edge nothing is copied into `{name}`: the last tile then holds what was there before",
            "skipped beyond the edge, not zero-filled",
            "copy with a source size of 0 there (zero-fill), or store zeros in the other branch",
        )


def _filled_otherwise(events: list[Event], at: int) -> bool:
    """Whether a store near the copy, in the other branch say, fills what the copy leaves out."""
    copy = events[at]
    near = events[max(0, at - _NEAR) : at + _NEAR]
    stores = [e.region for e in near if e.kind == "store" and e.region is not None]
    return copy.region is not None and any(region.array is copy.region.array for region in stores)


def _read_unguarded(events: list[Event], name: str, tag: str) -> bool:
    reads = [e for e in events if e.kind == "read" and e.region is not None and e.region.array.name == name]
    return any(tag not in e.guard for e in reads)


def index_findings(runs: Runs, variations: dict[str, Played], moving: frozenset[str]) -> Iterator[Found]:
    """Sources indexed with what belongs to another array. `variations`: the same number of tiles with another
    value of one size; `moving`: counters that the loop moves and nothing uses."""
    copies = [e for e in runs.steady.trace.events if e.kind == "copy" and e.source is not None and e.turns]
    yield from _same_index(copies, moving)
    yield from _foreign_stride(runs, variations)


def _same_index(copies: list[Event], moving: frozenset[str]) -> Iterator[Found]:
    if not moving:
        return
    by_index: dict[str, Event] = {}
    for event in copies:
        if event.source is None or event.region is None:
            continue
        name = event.source.array.name
        index = re.sub(rf"\b{re.escape(name)}\b", "@", event.index)
        other = by_index.setdefault(index, event)
        if other.source is not None and other.source.array.name != name and other.region and "@" in index:
            unused = ", ".join(f"`{m}`" for m in sorted(moving))
            yield _at(
                event,
                "TP520",
                f"`{name}` is indexed exactly as `{other.source.array.name}` is, and {unused} is moved and never used",
                f"the index of `{other.source.array.name}`",
                f"index `{name}` with its own offset and stride",
            )
            return


def _foreign_stride(runs: Runs, variations: dict[str, Played]) -> Iterator[Found]:
    """A tile whose rows lie a stride apart that the step from tile to tile does not know of."""
    if runs.driver is None:
        return
    base = _shape(runs.tiles[4])
    longer = _shape(runs.tiles[5])
    for size, played in variations.items():
        for site, (event, spread, step) in _shape(played).items():
            if site not in base or site not in longer:
                continue
            _, old_spread, old_step = base[site]
            if step != old_step and spread == old_spread and longer[site][1] != old_spread:
                name = event.source.array.name if event.source else ""
                yield _at(
                    event,
                    "TP520",
                    f"the rows of `{name}` lie {runs.driver.parameter} apart, but from tile to tile it advances by "
                    f"rows of {size}",
                    f"stride of {runs.driver.parameter}",
                    f"index the rows with the stride that the step uses (`{size}`)",
                )
                return


def _shape(played: Played) -> dict[int, tuple[Event, float, float]]:
    """By site of a copy: how far apart the threads' sources lie, and the step from tile to tile."""
    found: dict[int, list[Event]] = {}
    for event in played.trace.events:
        if event.kind == "copy" and event.source is not None and event.turns:
            found.setdefault(event.site.span.start, []).append(event)
    shapes = {}
    for site, events in found.items():
        if len(events) > 1 and events[0].source and events[1].source:
            a, b = events[0].source.offset, events[1].source.offset
            shapes[site] = (events[0], a.hi - a.lo, b.lo - a.lo)
    return shapes


def shared_findings(runs: Runs, arch: Arch) -> Iterator[Found]:
    """What the stages cost: more static memory than a block may have, or the last but one resident block."""
    arrays = [a for a in runs.steady.trace.arrays if a.space == "shared" and not a.dynamic]
    if any(a.bytes is None for a in arrays):
        return
    static = sum(a.bytes or 0 for a in arrays)
    if static > STATIC_LIMIT:
        largest = max(arrays, key=lambda a: a.bytes or 0)
        yield Found(
            "TP516",
            largest.declared,
            f"{static} bytes of static shared memory: a block may have {STATIC_LIMIT}",
            f"{largest.bytes} bytes",
            "make the stages dynamic (extern __shared__) and opt in at the launch, or make them smaller",
            array=largest.name,
        )
        return
    yield from _cliff(runs, arch, static)


def _cliff(runs: Runs, arch: Arch, static: int) -> Iterator[Found]:
    """Stages that leave one small block per SM where a single stage leaves several."""
    played, threads, dynamic = runs.steady, runs.launch.threads, runs.launch.dynamic_shared
    arrays = [a for a in played.trace.arrays if a.space == "shared"]
    if not arrays or threads is None or (dynamic is None and any(a.dynamic for a in arrays)):
        return
    sizes = {a: (dynamic if a.dynamic else a.bytes) or 0 for a in arrays}
    depths = {a: max(played.depth(a.name), 1) if a.name in played.fills else 1 for a in arrays}
    total = static + (dynamic or 0)
    single = total - sum(sizes[a] * (depths[a] - 1) // depths[a] for a in arrays)
    before, after = (occupancy(arch, threads, _REGISTERS, size) for size in (single, total))
    if max(depths.values()) != _DOUBLED:  # deeper rings trade blocks for depth on purpose
        return
    if not (after.blocks == 1 < before.blocks and after.limit == "shared" and after.warps <= _FEW_WARPS):
        return
    largest = max(arrays, key=lambda a: sizes[a])
    yield Found(
        "TP515",
        largest.declared,
        f"with its stages the kernel takes {total} bytes, and one block of {after.warps} warps stays resident on "
        f"{arch.name}; with one stage ({single} bytes) {before.blocks} blocks do",
        f"{sizes[largest]} bytes with all stages",
        "make the tile or the number of stages smaller, or prefetch into registers",
        "warning",
        array=largest.name,
    )
