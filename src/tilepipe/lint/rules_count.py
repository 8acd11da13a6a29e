"""Rules on how many tiles are loaded and read: the last tile, short trips, loads past the end, drains, and how
much a wait gives away."""

from __future__ import annotations

from collections.abc import Iterator

from tilepipe.lint.finding import Found
from tilepipe.lint.machine import Fill, Played
from tilepipe.lint.rules_order import depth_of
from tilepipe.lint.runs import Runs

_UNREADY = ("no wait", "short wait", "uncommitted", "unfilled")
_FEW = 4  # fills from which on a loop has a steady state


def count_findings(runs: Runs, known: frozenset[str]) -> Iterator[Found]:
    """Findings from comparing numbers of tiles; buffers in `known` have findings that explain theirs."""
    for name in runs.steady.fills:
        if name in known or not _countable(runs.steady, name):
            continue
        found = list(_last_tile(runs, name))
        known |= {f.array for f in found}
        yield from found
    yield from _short(runs, known)


def _countable(played: Played, name: str) -> bool:
    """Whether every read of the buffer is known to be of one stage."""
    known = name not in played.trace.opaque and name not in played.uncertain
    return known and played.consumed(name) > 0


def _rate(runs: Runs, name: str) -> float:
    top = max(runs.tiles)
    return (
        (runs.tiles[top].filled(name) - runs.tiles[top - 2].filled(name)) / 2 if top - 2 in runs.tiles else 0
    )


def _last_tile(runs: Runs, name: str) -> Iterator[Found]:
    depth, rate = runs.steady.depth(name), _rate(runs, name)
    usual = [n for n in runs.tiles if n and n >= max(depth, 2)]
    if runs.driver is None or not rate or not usual:
        yield from _lost(runs.steady, name)
        return
    want = {n: rate * n for n in usual}
    missing = [n for n in usual if runs.tiles[n].filled(name) == want[n] > runs.tiles[n].consumed(name)]
    beyond = [n for n in usual if runs.tiles[n].filled(name) > want[n] == runs.tiles[n].consumed(name)]
    lost = [n for n in usual if any(_is_lost(f) for f in runs.tiles[n].tiles(name))]
    if missing == usual and not lost:
        fill = [f for f in runs.steady.tiles(name) if not f.reads][-1]
        if _read_after(runs.steady, fill):
            yield _parity(runs, name, missing)
            return
        yield _at_fill(
            fill,
            "TP507",
            f"the last tile of `{name}` is loaded and never computed",
            "the last tile goes unread",
            "compute the tile that is left after the loop, or let the loop run over all tiles",
        )
    elif missing and not lost:
        yield _parity(runs, name, missing)
    elif lost:
        yield from _lost(runs.tiles[lost[0]], name)
    elif beyond == usual:
        yield from _beyond(runs, name)


def _read_after(played: Played, fill: Fill) -> bool:
    """Whether the buffer is read after the tile was ready: from another stage, then."""
    after = played.trace.events[fill.done or len(played.trace.events) :]
    return any(e.kind == "read" and e.region is not None and e.region.array.name == fill.name for e in after)


def _parity(runs: Runs, name: str, missing: list[int]) -> Found:
    played = runs.tiles[missing[0]]
    reads = [e for e in played.trace.events if e.kind == "read" and e.region and e.region.array.name == name]
    counts = ", ".join(map(str, missing[:3]))
    site = reads[-1].site
    stage = reads[-1].region.stage if reads[-1].region else None
    return Found(
        "TP518",
        site.span,
        f"the wrong stage of `{name}` is read at the end: with {counts} tiles the last one lies elsewhere",
        f"stage {stage} whatever the number of tiles" if stage is not None else "not the last tile",
        "name the last tile's stage by its number: (tiles - 1) % S",
        array=name,
        file=site.file,
    )


def _is_lost(fill: Fill) -> bool:
    return not fill.reads and fill.replaced is not None and not fill.blurred


def _lost(played: Played, name: str) -> Iterator[Found]:
    fill = next((f for f in played.tiles(name) if _is_lost(f)), None)
    if fill is not None and fill.replaced is not None:
        site = played.trace.events[fill.replaced].site
        yield Found(
            "TP521",
            site.span,
            f"this overwrites a tile of `{name}` that was loaded and not yet computed",
            f"stage {fill.stage} is still waiting to be read"
            if fill.stage is not None
            else "still waiting to be read",
            "keep at most S - 1 tiles ahead of the one that is computed, or add a stage",
            array=name,
            file=site.file,
        )


def _beyond(runs: Runs, name: str) -> Iterator[Found]:
    played = runs.steady
    tiles = played.tiles(name)
    fill = next((f for f in reversed(tiles) if not f.reads), None)
    if fill is None or any(e.maybe or e.sized for e in fill.events) or _repeats(fill, tiles):
        return
    if not fill.asynchronous:
        return
    yield _at_fill(
        fill,
        "TP522",
        f"the last turns load tiles of `{name}` that do not exist: the copies read past the end",
        "not guarded by the number of tiles",
        "guard the load with the loader's own counter, and commit an empty group where there is nothing to load",
    )


def _repeats(fill: Fill, tiles: list[Fill]) -> bool:
    """Whether the copy reads again what an earlier one has read."""
    source = fill.events[0].source
    if source is None:
        return True
    earlier = [f.events[0].source for f in tiles if f.number < fill.number]
    return any(s is not None and s.offset.lo >= source.offset.lo for s in earlier)


def _at_fill(fill: Fill, code: str, message: str, label: str, help: str) -> Found:
    site = fill.events[0].site
    return Found(code, site.span, message, label, help, array=fill.name, file=site.file)


def _short(runs: Runs, known: frozenset[str]) -> Iterator[Found]:
    """Trips of fewer tiles than stages."""
    depth = depth_of(runs)
    if runs.driver is None:
        return
    for n in [n for n in runs.tiles if 0 < n < depth]:
        played = runs.tiles[n]
        for name in played.fills:
            if name in known or not _countable(played, name):
                continue
            rate = _rate(runs, name)
            usual = [m for m in runs.tiles if m >= depth and m > 1]
            if not rate or any(runs.tiles[m].filled(name) != rate * m for m in usual):
                continue
            fill = _superfluous(played, name, rate * n)
            if fill is not None:
                yield _at_fill(
                    fill,
                    "TP508",
                    f"with {n} tile{'s' if n > 1 else ''} this loads more tiles of `{name}` than there are",
                    f"{played.filled(name)} tiles are loaded",
                    "guard every load of the prologue, and commit an empty group where there is nothing to load",
                )
                return
        early = [p for p in played.problems if p.kind in _UNREADY and p.event.region]
        problem = next((p for p in early if p.event.region and p.event.region.array.name not in known), None)
        if problem is not None:
            name = problem.event.region.array.name if problem.event.region else ""
            yield Found(
                "TP508",
                problem.event.site.span,
                f"with {n} tile{'s' if n > 1 else ''} `{name}` is read before it is complete",
                "fewer tiles than stages",
                "make the prologue, the waits and the epilogue hold for every number of tiles from 0",
                array=name,
                file=problem.event.site.file,
            )
            return


def _superfluous(played: Played, name: str, tiles: float) -> Fill | None:
    listed = played.tiles(name)
    if len(listed) <= tiles:
        return None
    fill = listed[int(tiles)]
    return None if any(e.maybe or e.sized for e in fill.events) else fill


def drain_findings(runs: Runs) -> Iterator[Found]:
    """Copies that are still in flight when the kernel ends."""
    for n, played in runs.tiles.items():
        if n and n < depth_of(runs) and n != max(runs.tiles):
            continue
        if played.pending_at_exit:
            fill = played.pending_at_exit[0]
            yield _at_fill(
                fill,
                "TP509",
                f"copies into `{fill.name}` are still in flight when the kernel ends",
                "no wait covers the last of these",
                "wait for all groups after the loop",
            )
            return


def overlap_findings(runs: Runs) -> Iterator[Found]:
    """Waits that leave nothing, or less than could be, of the overlap; commits that come late."""
    played = runs.steady
    tiles = [f for name in played.fills for f in played.tiles(name) if f.asynchronous and _in_loop(played, f)]
    if len(tiles) < _FEW:
        return
    yield from _late_commits(played, tiles)
    middle = [f for f in tiles if f.done is not None]
    if middle and not any(_overlaps(played, f) for f in middle):
        wait = played.trace.events[middle[-1].done or 0]
        yield Found(
            "TP513",
            wait.site.span,
            f"nothing overlaps: every tile of `{middle[-1].name}` is waited for before anything is computed",
            "right after the copies",
            "issue the next tile's copies, compute the present tile, then wait",
            "warning",
            array=middle[-1].name,
            file=wait.site.file,
        )
        return
    yield from _drained_early(runs, played)


def _in_loop(played: Played, fill: Fill) -> bool:
    return bool(fill.events[0].turns)


def _overlaps(played: Played, fill: Fill) -> bool:
    events = played.trace.events
    if fill.done is None:
        return True
    between = events[fill.first : fill.done]
    worked = events[fill.done].work > events[fill.first].work
    return worked or any(e.kind == "read" for e in between)


def _late_commits(played: Played, tiles: list[Fill]) -> Iterator[Found]:
    events = played.trace.events
    for fill in tiles:
        if fill.committed is None:
            continue
        reads = [e for e in events[fill.last : fill.committed] if e.kind == "read"]
        waited = any(e.kind == "wait" for e in events[fill.last : fill.committed])
        if reads and not waited:
            commit = events[fill.committed]
            yield Found(
                "TP501",
                commit.site.span,
                f"the copies into `{fill.name}` are committed after the compute that should overlap them",
                "closes the group late",
                "commit right after the copies: a wait that is moved up would cover nothing",
                "warning",
                array=fill.name,
                file=commit.site.file,
            )
            return


def _drained_early(runs: Runs, played: Played) -> Iterator[Found]:
    """Waits of the main loop that wait for newer groups than what is read next."""
    by_site: dict[int, list[int]] = {}
    events = played.trace.events
    positions = sorted(played.waits)
    depth = depth_of(runs)
    for index, at in enumerate(positions):
        event = events[at]
        if not event.turns or event.count < 0 or not event.turns[-1].number:
            continue
        following = positions[index + 1] if index + 1 < len(positions) else len(events)
        groups = [
            f.group
            for listed in played.fills.values()
            for f in listed
            if f.group is not None
            and f.committed is not None
            and f.committed < at
            and any(at < r < following for r in f.reads)
        ]
        last_turn = max(
            (e.turns[-1].number for e in events if e.turns and e.turns[-1].loop == event.turns[-1].loop),
            default=0,
        )
        if groups and event.turns[-1].number <= last_turn - depth:
            by_site.setdefault(event.site.span.start, []).append(
                played.waits[at] - 1 - max(groups) - event.count
            )
    for start, slack in by_site.items():
        if min(slack) > 0:
            event = next(events[at] for at in positions if events[at].site.span.start == start)
            more = event.count + min(slack)
            yield Found(
                "TP514",
                event.site.span,
                f"this wait drains {min(slack)} newer group{'s' if min(slack) > 1 else ''} than the tile that is read "
                "next needs: that many stages buy no overlap",
                f"all but {more} would do",
                f"wait for all but {more} groups",
                "warning",
                file=event.site.file,
            )
