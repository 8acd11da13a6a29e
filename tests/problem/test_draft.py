"""Drafts load as they stand, make a case, and mark what the author must fill in."""

from __future__ import annotations

from tilepipe.problem import (
    ArraySpec,
    Case,
    KernelDraft,
    Parameter,
    Problem,
    ScalarSpec,
    draft_problem,
    make_case,
    parse_problem,
)

GEMM = [
    Parameter("A", "const float *", "float"),
    Parameter("v", "const float4 *", "float4"),
    Parameter("C", "float *", "float"),
    Parameter("M", "int", None),
    Parameter("n", "unsigned long", None),
    Parameter("alpha", "float", None),
    Parameter("N", "int", None),
]


def load(text: str) -> Problem:
    problem = parse_problem(text, "draft.toml")
    assert isinstance(problem, Problem), problem
    return problem


def test_a_bare_draft_loads_and_makes_a_case() -> None:
    text = draft_problem([KernelDraft("gemm", GEMM)])
    gemm = load(text).kernels["gemm"]
    assert [a.role for a in gemm.args if isinstance(a, ArraySpec)] == ["in", "in", "out"]
    assert isinstance(gemm.args[1], ArraySpec) and gemm.args[1].dtype == "float32"
    case = make_case(gemm, "small", GEMM, 1)
    assert isinstance(case, Case), case
    # three shapes, one value, grid, block and the sizes are the author's
    assert text.count("FILL IN") == 7


def test_float_scalars_are_neither_0_nor_1_nor_alike() -> None:
    """A changed kernel that drops `alpha *` or `+ beta`, or takes one for the other, is to differ."""
    scalars = [Parameter(name, type_, None) for name in "abc" for type_ in ("float", "double", "__half")]
    kernel = load(draft_problem([KernelDraft("k", scalars[:6])])).kernels["k"]
    values = [a.value for a in kernel.args if isinstance(a, ScalarSpec)]
    assert len(set(values)) == 6 and not {float(v) for v in values} & {0.0, 1.0}
    many = load(draft_problem([KernelDraft("k", scalars)])).kernels["k"]
    assert isinstance(make_case(many, "small", scalars, 1), Case)


def test_what_the_source_says_is_kept() -> None:
    draft = KernelDraft(
        "gemm",
        GEMM,
        grid=["cdiv(N, 64)"],
        block=["16", "16"],
        shared="4*M",
        tile={"K": 8},
        instantiate="gemm<8>",
    )
    gemm = load(draft_problem([draft])).kernels["gemm"]
    assert (gemm.grid, gemm.block, gemm.shared) == (("cdiv(N, 64)",), ("16", "16"), "4*M")
    assert gemm.tile == {"K": 8} and gemm.instantiate == "gemm<8>" and "K" in gemm.sizes["small"]


def test_several_kernels_share_a_file() -> None:
    problem = load(draft_problem([KernelDraft("a", GEMM), KernelDraft("ns::b", [])]))
    assert list(problem.kernels) == ["a", "ns::b"] and problem.kernels["ns::b"].args == ()


def test_clashing_names() -> None:
    clash = [Parameter("N", "int *", "int"), Parameter("n", "int", None), Parameter("count", "int", None)]
    problem = load(draft_problem([KernelDraft("k", clash)]))
    assert isinstance(make_case(problem.kernels["k"], "small", clash, 1), Case)


def test_comments_are_in_the_names_of_the_kernel() -> None:
    stencil = [
        Parameter("in", "const float *", "float"),
        Parameter("out", "float *", "float"),
        Parameter("n", "int", None),
    ]
    text = draft_problem([KernelDraft("stencil", stencil)])
    assert 'flops = "2*N"' in text and 'reference = "in_.astype(np.float64)"' in text
    assert 'name = "in_"' in text  # no expression can say `in`
    assert 'reference = "A.astype(np.float64) @ v.astype(np.float64)"' in draft_problem(
        [KernelDraft("gemm", GEMM)]
    )


def test_the_work_of_a_template_is_not_guessed_from_too_few_sizes() -> None:
    """M and K of `gemm<64, 64>(A, B, C, N)` are no parameters: 2*N is not the work."""
    arrays = [Parameter(n, "const float *", "float") for n in "AB"] + [Parameter("C", "float *", "float")]
    sizes = [Parameter(n, "int", None) for n in ("M", "N", "K")]
    few = draft_problem([KernelDraft("gemm", (*arrays, sizes[1]), instantiate="gemm<64, 64>")])
    assert '# flops = "…"' in few
    assert '# flops = "2*N"' in draft_problem([KernelDraft("scale", (*arrays, sizes[1]))])
    assert '# flops = "2*M*N*K"' in draft_problem(
        [KernelDraft("gemm", (*arrays, *sizes), instantiate="gemm<float>")]
    )
