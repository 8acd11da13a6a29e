"""The expression language against Python's own arithmetic, and what it must not accept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilepipe.problem.expressions import ExpressionError, cdiv, evaluate, evaluate_number, size_names

SIZES = {"M": 130, "N": 70, "K": 0}

leaves = st.sampled_from(["M", "N", "K", "7", "64", "0"])
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["cdiv", "min", "max"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        inner.map(lambda t: f"-{t}"),
    ),
    max_leaves=12,
)


@given(expressions)
def test_agrees_with_python(text: str) -> None:
    scope = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max, **SIZES}
    try:
        expected = eval(text, {"__builtins__": {}}, scope)
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="zero"):
            evaluate(text, SIZES)
    else:
        assert evaluate(text, SIZES) == expected
        assert size_names(text) <= SIZES.keys()


@given(st.integers(-1000, 1000), st.integers(1, 50))
def test_cdiv_is_the_least_cover(a: int, b: int) -> None:
    q = cdiv(a, b)
    assert q * b >= a > (q - 1) * b


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("M / 2", "use `//`"),
        ("M ** 2", "not integer arithmetic"),
        ("Q", "no size name"),
        ("__import__('os')", "no function"),
        ("M.real", "not integer arithmetic"),
        ("[M][0]", "not integer arithmetic"),
        ("M if N else K", "not integer arithmetic"),
        ("min(M)", "at least two"),
        ("cdiv(M, N, K)", "two arguments"),
        ("max(*[1, 2], 3)", "not integer arithmetic"),
        ("cdiv(a=1, b=2)", "two arguments"),
        ("'64'", "not integer arithmetic"),
        ("True", "not integer arithmetic"),
        ("1.5", "float"),
        ("M <", "not an expression"),
        ("", "not an expression"),
        ("M; N", "not an expression"),
        ("(" * 400 + "M" + ")" * 400, "not an expression"),
        ("M+" * 600 + "M", "longer than"),
        ("M // K", "zero"),
        ("M % K", "zero"),
        ("lambda: M", "not integer arithmetic"),
        ("(M := 3)", "not integer arithmetic"),
        ("M & N", "not integer arithmetic"),
        ("~M", "not integer arithmetic"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        evaluate(text, SIZES)


def test_values_may_be_floats() -> None:
    assert evaluate_number("-1.25", {}) == -1.25
    assert evaluate_number("2 * 0.5", {}) == 1.0
    assert evaluate_number("M*K", SIZES) == 0
    with pytest.raises(ExpressionError, match="too large"):
        evaluate_number(f"1{'0' * 400} * 0.5", {})
