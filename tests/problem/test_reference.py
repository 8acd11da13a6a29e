"""References: expressions and functions, what they see, and how they fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilepipe.diagnostics import Refusal
from tilepipe.problem import ArraySpec, Case, KernelProblem, Parameter, evaluate_reference, make_case

ARGS = (ArraySpec("x", "in", ("N",)), ArraySpec("u", "inout", ("N",)), ArraySpec("y", "out", ("N",)))
PROBLEM = KernelProblem("k", None, ("1",), ("32",), "0", ARGS, {"small": {"N": 5}, "big": {"N": 9}})


def made(problem: KernelProblem, pointee: str = "float", size: str = "small") -> Case:
    case = make_case(problem, size, [Parameter("p", f"{pointee} *", pointee)] * 3, 1)
    assert isinstance(case, Case)
    return case


def test_several_outputs_are_a_tuple_in_the_order_of_the_parameters() -> None:
    case = made(PROBLEM)
    x, u = case.arrays[0].data, case.arrays[1].data
    answer = evaluate_reference(replace(PROBLEM, reference="(u + x, N * x)"), "p.toml", case)
    assert isinstance(answer, dict) and list(answer) == ["u", "y"]
    assert (answer["u"] == u + x).all() and (answer["y"] == 5 * x).all()


def test_narrow_floats_are_seen_as_float32() -> None:
    case = made(PROBLEM, "__nv_bfloat16")
    answer = evaluate_reference(replace(PROBLEM, reference="(x, u)"), "p.toml", case)
    assert isinstance(answer, dict) and answer["u"].dtype == np.float32
    assert (answer["u"] == case.arrays[0].data.astype(np.float32)).all()


def test_a_reference_cannot_change_the_case() -> None:
    case = made(PROBLEM)
    before = case.arrays[0].data.copy()
    assert isinstance(evaluate_reference(replace(PROBLEM, reference="(x.sort() or x, u)"), "p", case), dict)
    assert (case.arrays[0].data == before).all()


def test_functions_stand_beside_the_problem_file(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text("def f(x, u, N, **_):\n    return u + N, x * 2\n")
    case = made(PROBLEM)
    answer = evaluate_reference(replace(PROBLEM, reference="right.py:f"), str(tmp_path / "p.toml"), case)
    assert isinstance(answer, dict) and (answer["y"] == case.arrays[0].data * 2).all()


def test_no_reference() -> None:
    assert evaluate_reference(PROBLEM, "p.toml", made(PROBLEM)) is None
    partial = replace(PROBLEM, reference="(x, u)", reference_at=("small",))
    assert evaluate_reference(partial, "p.toml", made(PROBLEM, size="big")) is None
    assert evaluate_reference(partial, "p.toml", made(PROBLEM)) is not None


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("x", "1 arrays for 2 outputs"),
        ("(x, u[1:])", "has shape"),
        ("(x, missing)", "NameError"),
        ("(x, 1 // 0)", "ZeroDivisionError"),
        ("(x, ", "SyntaxError"),
        ("absent.py:f", "FileNotFoundError"),
    ],
)
def test_failures_are_values(reference: str, reason: str, tmp_path: Path) -> None:
    answer = evaluate_reference(
        replace(PROBLEM, reference=reference), str(tmp_path / "p.toml"), made(PROBLEM)
    )
    assert isinstance(answer, Refusal) and answer.diagnostics[0].code == "TP118"
    assert reason in answer.diagnostics[0].message
