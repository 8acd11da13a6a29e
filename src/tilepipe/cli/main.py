"""The entry point: tidies the arguments, then hands over to the commands."""

from __future__ import annotations

import gc
import io
import signal
import sys
from collections.abc import Sequence
from itertools import zip_longest
from types import FrameType

TERMINATED = 143  # 128 + SIGTERM
INTERRUPTED = 130  # 128 + SIGINT
USAGE = 2
_ALLOCATIONS = 100_000  # between two looks for garbage: at Python's 700 they take a fifth of a `check`


class EndedError(SystemExit):
    """A signal ended the program: told from a `SystemExit` of somebody's own code by its type."""


def entry() -> None:
    """The `tilepipe` script. The commands are imported under its signal handlers, so that Ctrl-C in the first
    moments shows no traceback either."""
    gc.set_threshold(_ALLOCATIONS)
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the caller has it ignored
        signal.signal(signal.SIGINT, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without `→` gets `?`, not a traceback
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. What stands after `--` is for the compiler."""
    from tilepipe.cli.commands import app

    own, flags = list(arguments) or ["--help"], []
    if "--" in own:
        cut = own.index("--")
        own, flags = own[:cut], own[cut + 1 :]
    try:
        app(args=_bare_json(own), prog_name="tilepipe", obj=tuple(flags))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
        return code if arguments else code or USAGE
    return 0 if arguments else USAGE


def _bare_json(arguments: list[str]) -> list[str]:
    """A `--json` without a value means `--json -`; an option or a CUDA file behind it is not its value."""
    out: list[str] = []
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
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
    raise EndedError(TERMINATED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C, the same way."""
    del number, frame
    print("tilepipe: interrupted", file=sys.stderr)
    raise EndedError(INTERRUPTED)
