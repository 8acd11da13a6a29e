"""Audits the labelled set of `tests/sass` on every architecture and writes the verdicts as a table.

    python scripts/audit_labels.py [--write docs/sass-labels.md]

The exit code is 1 where a verdict is not the label's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "sass"))

from sass_labels import Label, audit_form, labels
from sass_listings import ARCHS

HEADER = """\
# The labelled set of the SASS audit

Kernels of known fate (`tests/sass/kernels/forms.cu`, `stream.cu`), compiled for every architecture: pipelined properly,
with one planted defect each, and with so little math a tile that overlap cannot be told. A cell holds the least math
between a load and its wait, of the math of a tile, and the codes that the audit gave. This page is written by

    python scripts/audit_labels.py --write docs/sass-labels.md
"""


def cell(label: Label, arch: str) -> tuple[str, bool]:
    """What the audit said, in a few words, and whether that is the label."""
    sass = audit_form(label.kernel, arch, label.expectation)
    right = (sass.status, sass.codes) == (label.status, label.codes)
    window = (
        f"{sass.window} of {sass.math_per_tile:g}" if sass.window is not None and sass.math_per_tile else ""
    )
    words = " ".join(word for word in (window, ", ".join(sass.codes)) if word)
    return (words or sass.status) + ("" if right else " **wrong**"), right


def table() -> tuple[str, int, int]:
    """The page, the number of pairs, and how many verdicts were wrong."""
    lines = [f"| kernel | label | expected | {' | '.join(ARCHS)} |", "|---" * (len(ARCHS) + 3) + "|"]
    pairs = wrong = 0
    for label in labels():
        cells = [cell(label, arch) for arch in ARCHS]
        pairs, wrong = pairs + len(cells), wrong + sum(not right for _, right in cells)
        expected = ", ".join((label.status, *label.codes))
        name = label.kernel if label.kind != "no asynchronous copy" else f"{label.kernel}, as a ring"
        lines.append(f"| {name} | {label.kind} | {expected} | {' | '.join(text for text, _ in cells)} |")
    summary = f"{pairs} kernel–architecture pairs, {wrong} wrong verdicts.\n"
    return "\n".join([HEADER, summary, *lines]) + "\n", pairs, wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there")
    given = parser.parse_args()
    page, pairs, wrong = table()
    if given.write is not None:
        given.write.write_text(page, encoding="utf-8")
    print(f"{pairs} pairs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
