"""Rules on the order of copies, commits, waits, barriers and reads: what is read before it is there, and what
is overwritten while it is read. Each rule looks at the problems that the machine recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilepipe.lint.events import Event
from tilepipe.lint.finding import Found
from tilepipe.lint.machine import Fill, Played, Problem
from tilepipe.lint.runs import Runs


@dataclass(frozen=True)
class Case:
    """A problem at one number of tiles."""

    played: Played
    tiles: int
    problem: Problem

    @property
    def name(self) -> str:
        region = self.problem.event.region
        return region.array.name if region is not None else ""


def order_findings(runs: Runs) -> Iterator[Found]:
    """One finding for each kind of problem and buffer, at the smallest usual number of tiles."""
    seen: set[tuple[str, str]] = set()
    for case in _cases(runs):
        found = _found(runs, case)
        if found is not None and (found.code, case.name) not in seen:
            seen.add((found.code, case.name))
            yield found


def depth_of(runs: Runs) -> int:
    """The number of stages of the deepest buffer."""
    played = runs.steady
    return max((played.depth(name) for name in played.fills), default=1)


def _cases(runs: Runs) -> Iterator[Case]:
    depth = depth_of(runs)
    usual = [n for n in runs.tiles if n == 0 or n >= depth]
    for n in usual:
        for problem in runs.tiles[n].problems:
            yield Case(runs.tiles[n], n, problem)


def _found(runs: Runs, case: Case) -> Found | None:
    kind = case.problem.kind
    in_flight = kind in ("no wait", "short wait", "uncommitted")
    if in_flight and _swapped(case):
        return _swap(case)
    if in_flight and case.problem.fill is not None and case.problem.fill.displaced is not None:
        return _overrun(case)
    if kind == "short wait":
        return _conditional_commit(runs, case) or _short_wait(runs, case)
    handlers = {
        "uncommitted": _late_commit,
        "no wait": _no_wait,
        "not published": _no_barrier,
        "early barrier": _early_barrier,
        "refill": _refill,
        "reuse": _reuse,
        "unfilled": _wrong_stage,
        "stale": _stale,
    }
    return handlers[kind](case)


def _overrun(case: Case) -> Found | None:
    """A copy that took the place of a tile nobody has read yet."""
    fill = case.problem.fill
    if fill is None:
        return None
    site = fill.events[0].site
    return Found(
        "TP521",
        site.span,
        f"this overwrites a tile of `{case.name}` that was loaded and not yet computed{_at(case)}",
        f"stage {fill.stage} is still waiting to be read"
        if fill.stage is not None
        else "still waiting to be read",
        "keep at most S - 1 tiles ahead of the one that is computed, or add a stage",
        array=case.name,
        file=site.file,
    )


def _read(case: Case, code: str, message: str, label: str, help: str) -> Found:
    site = case.problem.event.site
    return Found(code, site.span, message, label, help, array=case.name, file=site.file)


def _at(case: Case) -> str:
    return f" (with {case.tiles} tiles)" if case.tiles else ""


def line_of(played: Played, position: int) -> int:
    """The byte at which an event of the trace stands."""
    return played.trace.events[position].site.span.start


def _late_commit(case: Case) -> Found | None:
    events, fill = case.played.trace.events, case.problem.fill
    if fill is None or case.problem.other is None:
        return None
    wait = events[case.problem.other]
    later = next((e for e in events[case.problem.other :] if e.kind == "commit"), None)
    what = "are committed only after it" if later is not None else "are never committed"
    return Found(
        "TP500",
        wait.site.span,
        f"this wait does not cover the copies into `{case.name}`: they {what}",
        "covers earlier groups only",
        "commit right after the copies, before the wait",
        array=case.name,
        file=wait.site.file,
    )


def _no_wait(case: Case) -> Found:
    return _read(
        case,
        "TP503",
        f"`{case.name}` is read while its copies may still be in flight: no wait stands between{_at(case)}",
        "read here",
        "wait for the group before the barrier that publishes the tile",
    )


def _short_wait(runs: Runs, case: Case) -> Found | None:
    fill, at = case.problem.fill, case.problem.other
    if fill is None or at is None or fill.group is None:
        return None
    wait = case.played.trace.events[at]
    if wait.count < 0:
        return _behind(case, wait)
    allowed = case.played.waits[at] - 1 - fill.group
    return Found(
        "TP502",
        wait.site.span,
        f"this wait leaves the tile of `{case.name}` in flight that is read next: up to {wait.count} groups stay "
        f"pending, {allowed} may{_at(case)}",
        f"waits for all but the newest {wait.count}",
        f"wait for all but {allowed}; N counts the groups that may stay pending, not the group to wait for",
        array=case.name,
        file=wait.site.file,
    )


def _behind(case: Case, wait: Event) -> Found:
    return Found(
        "TP502",
        wait.site.span,
        f"this wait is for an older group than that of the tile of `{case.name}` that is read next{_at(case)}",
        "waits for one group, the oldest",
        "wait once for every group that was committed",
        array=case.name,
        file=wait.site.file,
    )


def _conditional_commit(runs: Runs, case: Case) -> Found | None:
    """A wait that is right in the steady state and too weak at the end, since the last turns commit nothing."""
    at, fill = case.problem.other, case.problem.fill
    events = case.played.trace.events
    if at is None or fill is None:
        return None
    commits = [events[c] for c in case.played.commits]
    guarded = [c for c in commits if c.conditional and c.turns]
    steady = runs.steady
    short = [p for p in steady.problems if p.kind == "short wait" and p.event.region is not None]
    mine = [p.fill.number for p in short if p.fill is not None and p.fill.name == case.name]
    if not guarded or any(number < steady.filled(case.name) - events[at].count - 1 for number in mine):
        return None
    commit = guarded[0]
    return Found(
        "TP519",
        commit.site.span,
        f"this commit is skipped when there is nothing to load, so the wait for all but {events[at].count} groups "
        f"no longer reaches the last tiles of `{case.name}`",
        "skipped in the last turns",
        "commit in every turn: an empty group keeps the count right",
        array=case.name,
        file=commit.site.file,
    )


def _no_barrier(case: Case) -> Found:
    fill = case.problem.fill
    if fill is not None and fill.asynchronous:
        return _read(
            case,
            "TP504",
            f"`{case.name}` is read after the wait without a barrier: a wait covers the copies of its own thread only",
            "may be another thread's copy",
            "put __syncthreads() between the wait and the first read",
        )
    return _read(
        case,
        "TP504",
        f"`{case.name}` is read with no barrier after the stores that fill it",
        "may be another thread's store",
        "put __syncthreads() between the stores and the first read",
    )


def _early_barrier(case: Case) -> Found:
    return _read(
        case,
        "TP505",
        f"the barrier before this read of `{case.name}` stands before the wait: other threads' copies are not "
        "complete when it is passed",
        "read here",
        "wait first, then __syncthreads()",
    )


def _refill(case: Case) -> Found:
    site = case.problem.event.site
    what = "copy into" if case.problem.event.kind == "copy" else "store to"
    return Found(
        "TP506",
        site.span,
        f"this {what} `{case.name}` may overwrite a stage that other threads still read: no barrier since{_at(case)}",
        "refills the stage read before",
        "put __syncthreads() between the last read of the stage and its refill, or add a stage",
        array=case.name,
        file=site.file,
    )


def _reuse(case: Case) -> Found:
    site = case.problem.event.site
    return Found(
        "TP509",
        site.span,
        f"`{case.name}` is reused while asynchronous copies into it are still in flight{_at(case)}",
        "a copy may land after this store",
        "wait for all groups and pass a barrier before the memory is reused",
        array=case.name,
        file=site.file,
    )


def _wrong_stage(case: Case) -> Found:
    region = case.problem.event.region
    stage = region.stage if region is not None else None
    return _read(
        case,
        "TP518",
        f"stage {stage} of `{case.name}` is read before anything was loaded into it{_at(case)}",
        "nothing there yet",
        "tile t lives in stage t mod S, for the loads and for the reads",
    )


def _stale(case: Case) -> Found | None:
    if all(f.reads for f in case.played.tiles(case.name)):
        return None
    fill = case.problem.fill
    return _read(
        case,
        "TP518",
        f"stage {fill.stage if fill else '?'} of `{case.name}` is read again though its tile is done, and a loaded "
        f"tile is never read{_at(case)}",
        "an old tile",
        "advance the stage that is read with every tile, and name the last one by its number mod S",
    )


def _swapped(case: Case) -> bool:
    """Whether the stage that is being loaded is read while the tile to compute waits in another one."""
    fill, at = case.problem.fill, case.problem.at
    if fill is None:
        return False
    ready = [f for f in case.played.tiles(case.name) if _is_ready(f, at) and f.number < fill.number]
    turn = case.problem.event.turns
    return bool(ready) and bool(turn) and case.played.trace.events[fill.first].turns[:1] == turn[:1]


def _is_ready(fill: Fill, at: int) -> bool:
    unread = not any(r < at for r in fill.reads)
    return (
        unread and fill.done is not None and fill.done < at and (fill.replaced is None or fill.replaced > at)
    )


def _swap(case: Case) -> Found:
    fill = case.problem.fill
    return _read(
        case,
        "TP517",
        f"the stage of `{case.name}` that is being loaded is read, while the tile to compute waits in another one",
        f"reads stage {fill.stage}, just being filled"
        if fill and fill.stage is not None
        else "just being filled",
        "swap the indices: load into the next stage, compute on the current one",
    )
