"""The problem file: how a kernel is launched, on which data, and what right means."""

from tilepipe.problem.cases import fresh_copy, make_case, tile_sizes
from tilepipe.problem.draft import KernelDraft, draft_problem
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
    "draft_problem",
    "evaluate_reference",
    "fresh_copy",
    "load_problem",
    "make_case",
    "parse_problem",
    "tile_sizes",
]
