"""The problem file: how a kernel is launched, on which data, and what right means."""

from tilepipe.problem.cases import check_case, fresh_copy, make_case, tile_sizes
from tilepipe.problem.check import check_problem, no_such_kernel, place_in
from tilepipe.problem.draft import KernelDraft, draft_problem, size_names
from tilepipe.problem.load import load_problem, parse_problem
from tilepipe.problem.reference import evaluate_reference
from tilepipe.problem.types import (
    Array,
    ArraySpec,
    Case,
    KernelProblem,
    Parameter,
    Problem,
    Scalar,
    ScalarSpec,
    Sizes,
)

__all__ = [
    "Array",
    "ArraySpec",
    "Case",
    "KernelDraft",
    "KernelProblem",
    "Parameter",
    "Problem",
    "Scalar",
    "ScalarSpec",
    "Sizes",
    "check_case",
    "check_problem",
    "draft_problem",
    "evaluate_reference",
    "fresh_copy",
    "load_problem",
    "make_case",
    "no_such_kernel",
    "parse_problem",
    "place_in",
    "size_names",
    "tile_sizes",
]
