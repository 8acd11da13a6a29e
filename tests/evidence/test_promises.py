"""What a launch must meet so that wide copies need no dispatch."""

from __future__ import annotations

import numpy as np
import pytest

from tilepipe.evidence.promises import broken_promise
from tilepipe.problem import Array, Case, Parameter, Scalar

PARAMETERS = (
    Parameter("a", "const float *", "float"),
    Parameter("n", "int", None),
    Parameter("scale", "float", None),
)


def case(offset: int = 0, n: int = 24, scale: float = float("nan")) -> Case:
    base = np.zeros(64, np.float32)
    array = Array("a", "in", base, base[offset:])
    args = (array, Scalar(np.int32(n)), Scalar(np.float32(scale)))
    return Case("s", {"N": n}, (1, 1, 1), (16, 8, 1), 0, args, None, None)


@pytest.mark.parametrize(
    "condition",
    [
        "tp_aligned(a, 16)",
        "n % 8 == 0",
        "(n / 2) % 4 == 0",
        "(n >> 1) % 4 == 0",
        "blockDim.x == 16 && blockDim.y == 8 && blockDim.z == 1",
        "blockDim.x == 16 && blockDim.x * blockDim.y == 128 && blockDim.z == 1",
    ],
)
def test_a_promise_that_is_kept(condition: str) -> None:
    assert broken_promise((condition,), case(), PARAMETERS) is None


@pytest.mark.parametrize(
    ("condition", "launch"),
    [
        ("tp_aligned(a, 16)", case(offset=1)),
        ("tp_aligned(b, 16)", case()),
        ("n % 16 == 0", case()),
        ("(n / 2) % 4 == 0", case(n=12)),
        ("(n >> 2) % 4 == 0", case()),
        ("blockDim.x == 16 && blockDim.y == 4 && blockDim.z == 1", case()),
        ("scale % 4 == 0", case()),
        ("blockDim.x == 128 && blockDim.y * blockDim.z == 1", case()),
        ("something else", case()),
    ],
)
def test_a_promise_that_is_broken_or_not_understood(condition: str, launch: Case) -> None:
    assert broken_promise(("n % 4 == 0", condition), launch, PARAMETERS) == condition
