"""Where a command's results go, and getting them there."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilepipe.cli.output import TextStyle, replace_in_place, unified_diff, unwritable, write_file
from tilepipe.cli.streams import json_text, print_diagnostics, progress
from tilepipe.diagnostics import Diagnostic, Refusal, error

if TYPE_CHECKING:
    from tilepipe.options import Options
    from tilepipe.report import RunReport

STDOUT = "-"
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_ERROR = 2  # usage or compile error
_SOURCE_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".toml")


@dataclass(frozen=True)
class Targets:
    """What the user asked to have written. `to_stdout`: the source is printed where no other place is named
    for it (`rewrite`). `html` and `trace` are files."""

    file: str
    output: str | None = None
    diff: bool = False
    in_place: bool = False
    or_original: bool = False
    json: str | None = None
    to_stdout: bool = False
    html: str | None = None
    trace: str | None = None

    @property
    def source_on_stdout(self) -> bool:
        elsewhere = self.output is not None or self.in_place or self.diff or self.json == STDOUT
        return self.output == STDOUT or (self.to_stdout and not elsewhere)

    @property
    def stdout_is_taken(self) -> bool:
        return self.source_on_stdout or self.diff or self.json == STDOUT

    def conflict(self) -> Refusal | None:
        """TP140 where two targets exclude each other or one would destroy an input."""
        if self.in_place and self.output is not None:
            return error("TP140", "--in-place and -o exclude each other", help="leave one of them out")
        if self.or_original and self.output is None:
            return error("TP140", "--or-original needs -o", help="name the file to leave a kernel in with -o")
        if self.json == STDOUT and (self.diff or self.output == STDOUT):
            return error("TP140", "two results would share stdout", help="give --json or -o a file")
        if self.output is not None and _same_file(self.output, self.file):
            return error(
                "TP140",
                f"-o would overwrite the input `{self.file}`",
                help="use --in-place: it keeps a backup",
            )
        if self.output is not None and (
            self.output.endswith(".toml") or _is_included(self.output, self.file)
        ):
            return error(
                "TP140", f"-o would overwrite `{self.output}`, which is read", help="name another file"
            )
        for name, target in (("--json", self.json), ("--html", self.html), ("--trace", self.trace)):
            if target is not None and target.endswith(_SOURCE_SUFFIXES):
                return error(
                    "TP140",
                    f"{name} would overwrite the source file `{target}`",
                    help=f"put FILE before {name}, or name another file",
                )
        for name, target in (("--html", self.html), ("--trace", self.trace)):
            if target == STDOUT:
                return error("TP140", f"{name} is written to a file only", help=f"name a file after {name}")
        files = [t for t in (self.output, self.json, self.html, self.trace) if t not in (None, STDOUT)]
        if len({os.path.abspath(t) for t in files if t is not None}) < len(files):
            return error("TP140", "two results would share a file", help="give each a file of its own")
        return None

    def unwritable(self) -> Refusal | None:
        """TP142 for the first target that cannot be written, before anything is done for it."""
        files = [self.output, self.json, self.html, self.trace, self.file if self.in_place else None]
        found = (unwritable(name) for name in files if name not in (None, STDOUT) and name is not None)
        return next((refusal for refusal in found if refusal is not None), None)


def _is_included(name: str, file: str) -> bool:
    """Whether a file is one of those that FILE includes by a relative path."""
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(_same_file(name, str(Path(file).parent / i)) for i in _INCLUDE.findall(text))


def deliver_source(report: RunReport, code: int, targets: Targets) -> tuple[RunReport, Refusal | None]:
    """Put the new source where it was asked for; returns `report` with `output` set, and what failed.

    A source is written only where `code` is 0: a kernel that did not earn the evidence asked for replaces
    nothing. With --or-original the input is written instead, unless `code` is 2: it may not even compile.
    """
    try:
        original = Path(targets.file).read_bytes()
    except OSError:  # the steps could not read it either, and the report says so
        return report, None
    wanted = report.source is not None and code == 0
    instead = targets.or_original and not wanted and code != _ERROR
    data = TextStyle.of(original).encode(report.source) if wanted and report.source is not None else original
    if wanted and targets.diff:
        _print_bytes(_diff(original, data, targets.file))
    if wanted and targets.source_on_stdout:
        _print_bytes(data)
    if wanted and targets.in_place:
        backup = replace_in_place(targets.file, data)
        if isinstance(backup, Refusal):
            return report, backup
        progress(f"changed {targets.file}; the old text is in {backup}")
        return replace(report, output=targets.file), None
    if targets.output not in (None, STDOUT) and (wanted or instead):
        failed = write_file(str(targets.output), data)
        if not failed:
            progress(f"wrote {targets.output}" + ("" if wanted else ", the original as it was"))
        return (report if failed else replace(report, output=targets.output)), failed
    if targets.output == STDOUT and instead:
        _print_bytes(data)
    elif targets.output not in (None, STDOUT):
        progress(f"{targets.output} is not written")
    return report, None


def deliver_json(value: object, target: str | None) -> Refusal | None:
    """Write `value` as JSON to stdout, a file, or (None) nowhere."""
    if target is None:
        return None
    data = json_text(value).encode()
    if target != STDOUT:
        return write_file(target, data)
    _print_bytes(data)
    return None


def original_text(path: str) -> str | None:
    """The file as the steps read it, None where it cannot be read."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig", "replace").replace("\r\n", "\n")
    except OSError:
        return None


def deliver_page(
    reports: Sequence[RunReport], targets: Targets, verb: str, options: Options, before: str | None
) -> Refusal | None:
    """Write the page where it was asked for; `before` is the file's text before the command `verb` wrote any.
    Returns what failed."""
    if targets.html is None:
        return None
    from tilepipe.cli.reproduce import origin
    from tilepipe.report.page import render_page

    origins = [origin(verb, targets.file, options, report, before) for report in reports]
    return _written(targets.html, render_page(reports, origins))


def deliver_trace(report: RunReport, targets: Targets) -> Refusal | None:
    """Write the trace where it was asked for; TP120 where there is no schedule to trace."""
    if targets.trace is None:
        return None
    from tilepipe.report.chrome_trace import chrome_trace

    trace = chrome_trace(report)
    if trace is None:
        sass = report.evidence.sass
        why = "; ".join(sass.reasons) if sass and sass.reasons else "the machine code was not audited"
        note = Diagnostic("TP120", "warning", f"`{targets.trace}` is not written: {why}")
        print_diagnostics((note,))
        return None
    return _written(targets.trace, json_text(trace))


def _written(path: str, text: str) -> Refusal | None:
    """Write a file and say so; returns what failed."""
    failed = write_file(path, text.encode())
    if failed is None:
        progress(f"wrote {path}")
    return failed


def _diff(before: bytes, after: bytes, path: str) -> bytes:
    old, new = (data.decode("utf-8", "surrogateescape") for data in (before, after))
    return unified_diff(old, new, path).encode("utf-8", "surrogateescape")


def _same_file(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.abspath(first) == os.path.abspath(second)


def _print_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
