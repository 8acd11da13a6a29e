"""What the options narrow the choice of a candidate to: flags, or the plan of an earlier run."""

from __future__ import annotations

import json
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
