"""The entry point: tidies the arguments, then hands over to the commands."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from tilepipe.cli.commands import app

TERMINATED = 143  # 128 + SIGTERM


def entry() -> None:
    """The `tilepipe` script."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without `→` gets `?`, not a traceback
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. What stands after `--` is for the compiler."""
    own, flags = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, flags = own[:cut], own[cut + 1 :]
    try:
        app(args=_bare_json(own), prog_name="tilepipe", obj=tuple(flags))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _bare_json(arguments: list[str]) -> list[str]:
    """A `--json` without a value means `--json -`; an option or a CUDA file behind it is not its value."""
    out: list[str] = []
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        out.append(argument)
        if argument == "--json" and (
            not following
            or (following.startswith("-") and following != "-")
            or following.endswith((".cu", ".cuh"))
        ):
            out.append("-")
    return out


def _terminate(number: int, frame: FrameType | None) -> None:
    """Leave through the `finally` blocks, so that no temporary file stays."""
    del number, frame
    raise SystemExit(TERMINATED)
