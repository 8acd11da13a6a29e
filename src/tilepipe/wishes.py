"""What the options narrow the choice of a candidate to: flags, or the plan of an earlier run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from tilepipe.diagnostics import Refusal, error
from tilepipe.options import Options
from tilepipe.plan.candidates import Wishes


def wishes_of(options: Options, kernel: str) -> Wishes | Refusal:
    """What the options say of `kernel`'s candidates; TP143 where they name a plan that cannot be read."""
    chosen = options.candidate
    if options.plan is not None:
        replayed = _replayed(options.plan, kernel)
        if isinstance(replayed, Refusal):
            return replayed
        chosen = replayed
    o = options
    return Wishes(chosen, o.variant, o.stages, o.form, o.allow_launch_change, o.fragments, o.api)


def _replayed(path: str, kernel: str) -> str | Refusal:
    """The candidate that an earlier run's JSON chose."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        entries = data if isinstance(data, list) else [data]
        chosen = next(e["chosen"] for e in entries if e.get("kernel", {}).get("name") == kernel)
    except (OSError, ValueError, KeyError, StopIteration, AttributeError, TypeError) as problem:
        return error(
            "TP143",
            f"{path} holds no plan for `{kernel}`: {problem}",
            help="give the --json output of an earlier run",
        )
    return str(chosen)


def others_listed(ids: Sequence[str], wanted: str | None) -> str:
    """The candidates that there are: those spelled nearly as `wanted` first, then all, with the numbers of stages that
    one name goes with as a range: `cp_async-2…8-ring`."""
    stages: dict[tuple[str, str], list[int]] = {}
    for one in ids:
        before, number, behind = re.fullmatch(r"(\D*)(\d+)(.*)", one).groups()  # type: ignore[union-attr]
        stages.setdefault((before, behind), []).append(int(number))
    folded = ", ".join(f"{before}{_range(numbers)}{behind}" for (before, behind), numbers in stages.items())
    close = [f"`{one}`" for one in get_close_matches(wanted or "", ids, 3, 0.8)]
    asked = f"is {' or '.join(close)} meant? " if close else ""
    return f"{asked}the candidates are: {folded}"


def _range(numbers: Sequence[int]) -> str:
    """Numbers as `2…8`, as `2` or as `2/5`."""
    first, last = min(numbers), max(numbers)
    if last - first > 1 and sorted(numbers) == list(range(first, last + 1)):
        return f"{first}…{last}"
    return "/".join(map(str, sorted(numbers)))
