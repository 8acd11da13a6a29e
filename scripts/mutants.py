"""Breaks every emitted kernel in every way that `tests/mutants` knows, and writes down what caught each bug.

    python scripts/mutants.py [--kernel NAME ...] [--candidate ID ...] [--jobs N] [--results FILE] [--write FILE]

Each mutant is compiled and run in the emulator at several numbers of tiles, with asynchronous copies landing as
late and as early as the memory model allows, and compared bit for bit with the original. The exit code is 1
where a mutant is neither caught nor proved equivalent, or where an unbroken kernel shows a finding. With `--results`
each kernel's fates are kept as a line of JSON, and kernels that the file has are not tried again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.mutants.operators import OPERATORS, mutants
from tests.mutants.trials import (
    CANDIDATES,
    Equivalence,
    Subject,
    equivalence,
    equivalences,
    jobs,
    proof_of,
    subject,
    try_text,
)


@dataclass(frozen=True)
class Result:
    """One mutant's fate. `caught` is None where nothing was observed, and then `proof` says why, if anything."""

    kernel: str
    candidate: str
    operator: str
    region: str
    line: int
    was: str
    caught: str | None
    proof: Equivalence | None

    @property
    def missed(self) -> bool:
        return self.caught is None and self.proof is None


def results(s: Subject) -> Iterator[Result]:
    """The fate of every mutant of one subject; mutants that do not compile are left out.

    Raises ValueError where the unbroken text is not clean: then nothing is known about the broken ones.
    """
    unbroken = try_text(s, s.made.text)
    if unbroken.caught is not None:
        raise ValueError(f"{s.kernel} as {s.candidate} is not clean as emitted: {unbroken.caught}")
    for m in mutants(s.made.text):
        verdict = try_text(s, m.text)
        if verdict.valid:
            proof = equivalence(s, m) if verdict.caught is None else None
            yield Result(s.kernel, s.candidate, m.operator, m.region, m.line, m.was, verdict.caught, proof)


def examine(kernel: str, candidate: str) -> list[Result] | str | None:
    """All fates for one kernel in one form; why nothing is known about it; None where that form is not emitted."""
    found = subject(kernel, candidate)
    if found is None:
        return None
    try:
        return list(results(found))
    except ValueError as problem:
        return str(problem)


def kept(file: Path | None) -> dict[tuple[str, str], list[Result]]:
    """The fates that an earlier run wrote; proofs are looked up anew."""
    known: dict[tuple[str, str], list[Result]] = {}
    for line in file.read_text().splitlines() if file is not None and file.exists() else ():
        entry = json.loads(line)
        of = [Result(**{**r, "proof": None}) for r in entry["results"]]
        known[entry["kernel"], entry["candidate"]] = [
            r
            if r.caught is not None
            else replace(r, proof=proof_of(r.kernel, r.candidate, r.operator, r.region, r.was))
            for r in of
        ]
    return known


def keep(file: Path, kernel: str, candidate: str, of: list[Result]) -> None:
    """Add the fates of one kernel to the file."""
    rows = [asdict(replace(r, proof=None)) for r in of]
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"kernel": kernel, "candidate": candidate, "results": rows}) + "\n")


# -- the page ----------------------------------------------------------------------------------------------------

HEADER = """\
# Mutants

Bugs planted into emitted kernels by text operators (`tests/mutants/operators.py`), each of a kind that
hand-made pipelines have, and what caught them: a finding of the emulator, or a difference from the original's
bytes. This page is written by

    python scripts/mutants.py --write docs/mutants.md

Every mutant runs at 3, stages + 1, 2, 1 and (where the kernel allows it) 0 tiles and at a ragged size, with
asynchronous copies landing as late and as early as the memory model allows; it stops at the first catch, so a
cell names what came first. *equivalent* means proved to change nothing that can be observed; the proofs are at
the end, and kept in `tests/mutants/equivalent.toml`. A kernel or form that is not listed was left out of the run.
"""

SHORT = {
    "write-read race": "race", "read-write race": "race", "write-write race": "race",
    "read of in-flight copy": "in flight", "overwritten while pending": "pending", "pending at exit": "at exit",
    "uninitialised read": "uninitialised", "shared out of bounds": "bounds", "global out of bounds": "bounds",
    "numbers differ": "differs",
}  # fmt: skip


def kinds(result: Result) -> str:
    """What caught a mutant, in a word or two, without the size."""
    if result.caught is None:
        return "equivalent" if result.proof is not None else "**missed**"
    names = [n.strip() for n in result.caught.rsplit(" (", 1)[0].split(",")]
    return ", ".join(dict.fromkeys(SHORT.get(n, n) for n in names))


def page(done: list[Result], clean: int) -> str:
    """The whole page, sorted by kernel; `clean` unbroken kernels showed no finding."""
    caught = [r for r in done if r.caught is not None]
    numbers = sum(kinds(r) == "differs" for r in caught)
    equivalent = sum(r.proof is not None for r in done)
    missed = sum(r.missed for r in done)
    lines = [
        HEADER,
        f"{len(done)} mutants of {clean} emitted kernels: {len(caught)} caught ({numbers} by numbers alone), "
        f"{equivalent} equivalent, {missed} missed. The {clean} unbroken kernels show no finding and no "
        "difference.\n",
        "## By operator\n",
        "| operator | mutants | caught | equivalent | missed | first caught by |",
        "|---|---|---|---|---|---|",
    ]
    for operator in OPERATORS:
        of = [r for r in done if r.operator == operator.name]
        by = Counter(k for r in of if r.caught is not None for k in kinds(r).split(", "))
        words = ", ".join(f"{k} {n}" for k, n in by.most_common())
        equal, lost = sum(r.proof is not None for r in of), sum(r.missed for r in of)
        lines.append(
            f"| {operator.name} | {len(of)} | {len(of) - equal - lost} | {equal} | {lost} | {words} |"
        )
    lines.append("\n## By kernel\n")
    for kernel in sorted({r.kernel for r in done}):
        lines += _kernel_table(kernel, [r for r in done if r.kernel == kernel])
    lines.append("## Proofs of equivalence\n")
    for e in equivalences():
        count = sum(r.proof == e for r in done)
        where = ", ".join(x for x in (e.region, e.candidate, e.kernel, e.line) if x != "*")
        lines.append(f"- **{e.operator}**{f' ({where})' if where else ''}, {count} mutants: {e.why}")
    return "\n".join(lines) + "\n"


def _kernel_table(kernel: str, of: list[Result]) -> list[str]:
    candidates = [c for c in CANDIDATES if any(r.candidate == c for r in of)]
    lines = [
        f"### {kernel}\n",
        f"| operator | {' | '.join(candidates)} |",
        "|---" * (len(candidates) + 1) + "|",
    ]
    for operator in OPERATORS:
        cells = []
        for candidate in candidates:
            words = Counter(kinds(r) for r in of if (r.operator, r.candidate) == (operator.name, candidate))
            cells.append("; ".join(w if n == 1 else f"{n} × {w}" for w, n in sorted(words.items())))
        if any(cells):
            lines.append(f"| {operator.name} | {' | '.join(cells)} |")
    return [*lines, ""]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", action="append", default=[], metavar="NAME")
    parser.add_argument("--candidate", action="append", default=[], metavar="ID")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="kernels tried at a time")
    parser.add_argument("--results", type=Path, metavar="FILE", help="go on from there, and add to it")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there")
    given = parser.parse_args()
    earlier = kept(given.results)
    done = [r for of in earlier.values() for r in of]
    unclean, clean = 0, len(earlier)
    wanted = [
        (kernel, candidate)
        for kernel in jobs()
        for candidate in CANDIDATES
        if (kernel, candidate) not in earlier
        and (not given.kernel or kernel in given.kernel)
        and (not given.candidate or candidate in given.candidate)
    ]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(examine, *names): names for names in wanted}
        for finished in as_completed(running):
            of = finished.result()
            if isinstance(of, str):
                print(of, flush=True)
                unclean += 1
            if not isinstance(of, list):
                continue
            clean += 1
            done += of
            if given.results is not None:
                keep(given.results, *running[finished], of)
            missed = [r for r in of if r.missed]
            print(f"{' '.join(running[finished])}: {len(of)} mutants, {len(missed)} missed", flush=True)
            for r in missed:
                print(f"  missed: {r.operator} in the {r.region}, line {r.line}: {r.was}", flush=True)
            if given.write is not None:  # after each kernel, since all of them take hours on one core
                given.write.write_text(page(done, clean), encoding="utf-8")
    if given.write is not None:
        given.write.write_text(page(done, clean), encoding="utf-8")
    lost = sum(r.missed for r in done)
    print(f"{len(done)} mutants of {clean} kernels: {lost} missed, {unclean} kernels not clean as emitted")
    return 1 if lost or unclean or not done else 0


if __name__ == "__main__":
    sys.exit(main())
