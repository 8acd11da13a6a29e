"""Where a command's results go, and getting them there."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilepipe.cli.output import TextStyle, replace_in_place, unified_diff, write_file
from tilepipe.cli.streams import json_text
from tilepipe.diagnostics import Refusal, error

if TYPE_CHECKING:
    from tilepipe.report import RunReport

STDOUT = "-"
_SOURCE_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".toml")


@dataclass(frozen=True)
class Targets:
    """What the user asked to have written. `to_stdout`: the source is printed where no other place is named
    for it (`rewrite`)."""

    file: str
    output: str | None = None
    diff: bool = False
    in_place: bool = False
    or_original: bool = False
    json: str | None = None
    to_stdout: bool = False

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
        if self.json not in (None, STDOUT) and self.json.endswith(_SOURCE_SUFFIXES):
            return error(
                "TP140",
                f"--json would overwrite the source file `{self.json}`",
                help="put FILE before --json, or name a .json file",
            )
        return None


def deliver_source(report: RunReport, code: int, targets: Targets) -> tuple[RunReport, Refusal | None]:
    """Put the new source where it was asked for; returns `report` with `output` set, and what failed.

    A source is written only where `code` is 0: a kernel that did not earn the evidence asked for replaces
    nothing. With --or-original the input is written instead.
    """
    try:
        original = Path(targets.file).read_bytes()
    except OSError:  # the steps could not read it either, and the report says so
        return report, None
    wanted = report.source is not None and code == 0
    data = TextStyle.of(original).encode(report.source) if wanted and report.source is not None else original
    if wanted and targets.diff:
        _print_bytes(_diff(original, data, targets.file))
    if wanted and targets.source_on_stdout:
        _print_bytes(data)
    if wanted and targets.in_place:
        backup = replace_in_place(targets.file, data)
        if isinstance(backup, Refusal):
            return report, backup
        return replace(report, output=targets.file), None
    if targets.output not in (None, STDOUT) and (wanted or targets.or_original):
        failed = write_file(str(targets.output), data)
        return (report if failed else replace(report, output=targets.output)), failed
    if targets.output == STDOUT and targets.or_original and not wanted:
        _print_bytes(data)
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
