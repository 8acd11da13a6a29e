"""Planted bugs under two checkers: the emulator, and the vendor's racecheck on a GPU.

    python scripts/racecheck_mutants.py [--write docs/racecheck.md]

Needs a GPU and compute-sanitizer. Of some emitted kernels the unbroken text and one mutant of each kind
(`tests/mutants/operators.py`) run under both. The exit code is 1 where racecheck finds a hazard that the emulator does
not, or either finds something in an unbroken kernel.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.mutants.operators import Mutant, mutants
from tests.mutants.trials import Subject, equivalence, subject, try_text

from tilepipe.diagnostics import Refusal
from tilepipe.evidence.racecheck import interpret
from tilepipe.evidence.types import Races
from tilepipe.launch import find_gpu
from tilepipe.launch.sanitizer import find_sanitizer, run_racecheck
from tilepipe.problem import fresh_copy

SUBJECTS = (
    ("igemm_wmma", "cp_async-3-ring-16"),
    ("hgemm_wmma", "cp_async-3-ring"),
    ("sgemm_tiled", "ldg-2-ring"),
    ("sgemm_tiled", "prefetch-1-ring"),
)
MOST = 12  # mutants of one kernel
AT_A_TIME = 8
PATIENCE_S = 40.0
HEADER = """\
# Mutants under racecheck

Bugs planted into emitted kernels, one of each kind, under the emulator and under the vendor's racecheck on a GPU, both
at the same sizes; racecheck at three tiles, the emulator until it catches something. Written by

    python scripts/racecheck_mutants.py --write docs/racecheck.md

Racecheck looks at hazards in shared memory and compares no numbers. *unknown*: it did not come to an end.

"""


@dataclass(frozen=True)
class Row:
    """One text: what the emulator caught ("" for nothing), whether it is proved equivalent, and racecheck's verdict."""

    kernel: str
    candidate: str
    operator: str
    emulator: str
    is_equivalent: bool
    racecheck: str


def pairs() -> list[tuple[Subject, Mutant | None]]:
    """The unbroken kernels (None) and the first mutant of each kind."""
    found: list[tuple[Subject, Mutant | None]] = []
    for kernel, candidate in SUBJECTS:
        made = subject(kernel, candidate)
        if made is not None:
            first: dict[str, Mutant] = {}
            for m in mutants(made.made.text):
                first.setdefault(m.operator, m)
            found += [(made, None), *((made, m) for m in list(first.values())[:MOST])]
    return found


def raced(tool: str, arch: str, s: Subject, m: Mutant | None) -> Races | None:
    """Racecheck's verdict at the first size; None for what does not compile."""
    compiled = s.job.toolchain.compile(s.job.unit(m.text if m else s.made.text), arch, "cubin")
    if isinstance(compiled, Refusal):
        return None
    return interpret(run_racecheck(tool, compiled, fresh_copy(s.launches[0].changed), PATIENCE_S))


def rows(tool: str, arch: str) -> Iterator[Row]:
    wanted = pairs()
    for s in {id(s): s for s, _ in wanted}.values():
        len(s.launches)  # made once, before several threads ask for them
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        verdicts = list(pool.map(lambda pair: raced(tool, arch, *pair), wanted))
    for (s, m), found in zip(wanted, verdicts, strict=True):
        emulated = try_text(s, m.text if m else s.made.text)
        if found is not None and emulated.valid:
            equal = m is not None and emulated.caught is None and equivalence(s, m) is not None
            name = m.operator if m else "unbroken"
            yield Row(s.kernel, s.candidate, name, emulated.caught or "", equal, found.status)


def is_wrong(row: Row) -> bool:
    """Whether a right text is blamed, or racecheck sees what the emulator does not."""
    if row.operator == "unbroken":
        return bool(row.emulator) or row.racecheck == "failed"
    return row.racecheck == "failed" and not row.emulator


def page(done: list[Row]) -> str:
    broken = [r for r in done if r.operator != "unbroken" and not r.is_equivalent]
    caught = Counter(r.racecheck for r in broken if r.emulator)
    missed = sum(not r.emulator for r in broken)
    lines = [
        f"{len(broken)} mutants that change something: the emulator caught {len(broken) - missed}; of these racecheck "
        f"caught {caught['failed']}, passed {caught['passed']} and came to no end at {caught['unknown']}.\n",
        "| kernel | candidate | mutant | emulator | racecheck |",
        "|---|---|---|---|---|",
    ]
    for r in done:
        said = r.emulator or ("equivalent" if r.is_equivalent else "nothing")
        verdict = {"failed": "hazards", "passed": "nothing"}.get(r.racecheck, r.racecheck)
        lines.append(f"| {r.kernel} | {r.candidate} | {r.operator} | {said} | {verdict} |")
    return HEADER + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there")
    given = parser.parse_args()
    tool = find_sanitizer()
    made = subject(*SUBJECTS[0])
    gpu = find_gpu(made.job.toolchain) if made is not None else None
    if tool is None or gpu is None:
        print("there is no compute-sanitizer, or no GPU, on this machine")
        return 2
    done = []
    for row in rows(tool, gpu.arch):
        print(
            *(row.kernel, row.candidate, row.operator, row.emulator or "nothing", row.racecheck),
            sep=" | ",
            flush=True,
        )
        done.append(row)
    if given.write is not None:
        given.write.write_text(page(done), encoding="utf-8")
    return 1 if any(is_wrong(row) for row in done) else 0


if __name__ == "__main__":
    sys.exit(main())
