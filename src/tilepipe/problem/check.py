"""A problem file held against its kernel before anything is built: what is wrong in it is found first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from tilepipe.diagnostics import Place, Refusal, error
from tilepipe.problem.cases import check_case, make_case
from tilepipe.problem.expressions import evaluate
from tilepipe.problem.locate import place_at, place_of, table_of
from tilepipe.problem.reference import evaluate_reference
from tilepipe.problem.types import ArraySpec, KernelProblem, Parameter

FILL_IN = "FILL IN"  # the mark that a draft leaves where only the author knows
_TRIED_ELEMENTS = 1 << 22  # a reference over more elements is first run where the kernel runs, too


def check_problem(problem: KernelProblem, path: str, parameters: Sequence[Parameter]) -> Refusal | None:
    """Why `problem`, read from `path`, does not fit the kernel with these `parameters`; None where it does.

    TP122: the draft's marks are still there. TP113 to TP119: arguments, launches and contents at every size set.
    TP118: the reference fails at the smallest size set.
    """
    text = Path(path).read_text(encoding="utf-8")
    marked = _unfilled(problem, path, text)
    if marked is not None:
        return marked
    for size in problem.sizes:
        found = check_case(problem, size, parameters, path, text)
        if found is not None:
            return found
    return _reference(problem, path, parameters)


def no_such_kernel(path: str, name: str, kernels: Sequence[str]) -> Refusal:
    """TP121: the problem file's table `[kernels.name]` is for none of the file's `kernels`."""
    place = place_of(path, Path(path).read_text(encoding="utf-8"), f"kernels.{name}")
    return error(
        "TP121", f"there is no kernel `{name}`", place, help=f"the kernels of the file: {', '.join(kernels)}"
    )


def place_in(path: str, kernel: str, key: str) -> Place:
    """Where `key` stands in the table of `kernel`, or that table where it is missing."""
    return place_of(path, Path(path).read_text(encoding="utf-8"), f"kernels.{kernel}", key)


def _unfilled(problem: KernelProblem, path: str, text: str) -> Refusal | None:
    for start, end in table_of(text, f"kernels.{problem.name}"):
        at = text.find(FILL_IN, start, end)
        if at >= 0:
            return error(
                "TP122",
                f"the problem file of `{problem.name}` is not filled in yet",
                place_at(path, text, at, len(FILL_IN)),
                help="put in what the comment asks for, and delete the words FILL IN",
            )
    return None


def _reference(problem: KernelProblem, path: str, parameters: Sequence[Parameter]) -> Refusal | None:
    def elements(size: str) -> int:
        arrays = [a for a in problem.args if isinstance(a, ArraySpec)]
        return sum(math.prod(evaluate(d, problem.sizes[size]) for d in a.shape) for a in arrays)

    names = problem.reference_at if problem.reference_at is not None else tuple(problem.sizes)
    smallest = min(names, key=elements, default=None)
    if problem.reference is None or smallest is None or elements(smallest) > _TRIED_ELEMENTS:
        return None
    case = make_case(problem, smallest, parameters, 0)
    found = case if isinstance(case, Refusal) else evaluate_reference(problem, path, case)
    return found if isinstance(found, Refusal) else None
