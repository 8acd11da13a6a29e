"""Source and JSON go to stdout, messages to stderr, a report to stdout where nothing else claims that."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from tilepipe.diagnostics import Diagnostic
    from tilepipe.report import RunReport

PLAIN_WIDTH = 120  # columns where there is no terminal to ask


def console(stream: TextIO) -> Console:
    """A console on `stream`: coloured on a terminal unless NO_COLOR is set, else plain text."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Ends the command like every other write that nobody reads (`guard.py`), not with Rich's own exit code."""
            raise BrokenPipeError

    return Plain(file=stream, width=None if stream.isatty() else PLAIN_WIDTH, highlight=False)


def print_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """Coded messages on stderr."""
    if sys.stderr.isatty():
        from tilepipe.diagnostics.render import styled

        out = console(sys.stderr)
        for diagnostic in diagnostics:
            out.print(styled(diagnostic), soft_wrap=True)
    else:
        from tilepipe.diagnostics.render import plain

        for diagnostic in diagnostics:
            print(plain(diagnostic), file=sys.stderr)


def print_report(report: RunReport, stdout_is_taken: bool) -> None:
    """The report for people, and its diagnostics on stderr."""
    from tilepipe.report.terminal import render_terminal

    print_diagnostics(report.diagnostics)
    render_terminal(report, console(sys.stderr if stdout_is_taken else sys.stdout))


def progress(message: str) -> None:
    """Say on stderr what begins."""
    sys.stderr.write(f"tilepipe: {message}\n")  # whole lines: several threads tell
    sys.stderr.flush()


def json_text(value: Any) -> str:
    """`value` as indented JSON with a newline at the end."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
