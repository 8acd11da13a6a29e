"""What a command may end with: an exit code, and never a traceback."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable

import typer

from tilepipe.cli.streams import print_diagnostics
from tilepipe.diagnostics import error

INTERRUPTED = 130  # 128 + SIGINT, as shells say it
PIPE_CLOSED = 141  # 128 + SIGPIPE
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
DEBUG_VARIABLE = "TILEPIPE_DEBUG"


def exit_code_of(command: Callable[[], int]) -> int:
    """Run `command` and return its exit code: TP161 (2) for what nests too deeply; anything unforeseen is TP199, an
    internal error (2)."""
    try:
        code = command()
        sys.stdout.flush()
    except (typer.Exit, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        print("tilepipe: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, `head` say, has seen enough; stdout and stderr may be one pipe
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return PIPE_CLOSED
    except OSError as failure:
        return _stdout_is_full(failure) if failure.errno in _NO_ROOM else _internal_error(failure)
    except RecursionError:
        return _too_deep()
    except Exception as bug:
        return _internal_error(bug)
    return code


def _too_deep() -> int:
    """Python's limit, some hundred levels of an expression or of statements; no author's file comes near it."""
    advice = "split the expression, or generate it with fewer parentheses"
    refusal = error("TP161", "the source is nested too deeply to be followed", help=advice)
    print_diagnostics(refusal.diagnostics)
    return refusal.exit_code


def _stdout_is_full(failure: OSError) -> int:
    """Files are written elsewhere, with their own answers, so it is stdout or stderr that takes no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    reason = failure.strerror or str(failure)
    refusal = error("TP142", f"cannot write to stdout: {reason}", help="free the space, or write elsewhere")
    print_diagnostics(refusal.diagnostics)
    return refusal.exit_code


def _internal_error(bug: Exception) -> int:
    debugging = bool(os.environ.get(DEBUG_VARIABLE))
    if debugging:
        traceback.print_exception(bug)
    frame = traceback.extract_tb(bug.__traceback__)[-1]
    advice = "report this with the input that shows it"
    refusal = error(
        "TP199",
        f"internal error: {type(bug).__name__}: {bug} ({os.path.basename(frame.filename)}:{frame.lineno})",
        help=advice if debugging else f"{advice} and the output under {DEBUG_VARIABLE}=1",
    )
    print_diagnostics(refusal.diagnostics)
    return refusal.exit_code
