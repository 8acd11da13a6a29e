"""Which pointers are promised to meet no other (TP016): the word counts where it qualifies, and nowhere else."""

from __future__ import annotations

import pytest
from tests.kernel.test_legality import answer

from tilepipe.diagnostics import Refusal

KERNEL = """{head}
__global__ void f({parameters}, int n)
{{
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {{
        s[threadIdx.x] = {load};
        __syncthreads();
        for (int i = 0; i < 128; ++i)
            sum += s[i];
        c[k * 128 + threadIdx.x] = sum;
        __syncthreads();
    }}
}}
"""
PLAIN = "const float* a, float* c"
LOAD = "a[k * 128 + threadIdx.x]"
PARAMETERS = "struct Params { const float* a; };\n"


def code(parameters: str = PLAIN, head: str = "", load: str = LOAD) -> str | None:
    found = answer(KERNEL.format(head=head, parameters=parameters, load=load))
    return found.diagnostics[0].code if isinstance(found, Refusal) else None


@pytest.mark.parametrize(
    "parameters",
    [
        "const float* a, float* __restrict__ c",
        "const float* __restrict a, float* c",
        "const float* a, float* /* out */ __restrict__ /* of all blocks */ c",
    ],
)
def test_the_word_counts_where_it_qualifies(parameters: str) -> None:
    assert code(parameters) is None


@pytest.mark.parametrize(
    ("parameters", "head"),
    [
        (PLAIN, ""),
        ("const float* /* __restrict__ */ a, float* /* __restrict__ */ c", ""),
        ("const float* a, float* // __restrict__ would be wrong\n c", ""),
        ("const float* __restrict__ a, float* __restrict__ c", "#define __restrict__"),
    ],
)
def test_nowhere_else(parameters: str, head: str) -> None:
    assert code(parameters, head) == "TP016"


def test_nor_in_a_name() -> None:
    assert (
        code("const float* a__restrict_a, float* c", load="a__restrict_a[k * 128 + threadIdx.x]") == "TP016"
    )


@pytest.mark.parametrize(
    ("head", "load", "found"),
    [
        ("__constant__ const float G[4096] = {};", "G[k * 128 + threadIdx.x]", None),
        ("using real = float;\n__constant__ const real G[4096] = {};", "G[k * 128 + threadIdx.x]", None),
        ("typedef float real;\n__constant__ const real G[4096] = {};", "G[k * 128 + threadIdx.x]", None),
        ("using Row = const float*;\n__constant__ const Row G[4] = {};", "G[k][threadIdx.x]", "TP016"),
        ("typedef const float* Row;\n__constant__ const Row G = {};", "G[k * 128 + threadIdx.x]", "TP016"),
        (PARAMETERS + "__constant__ const Params G = {};", "G.a[k * 128 + threadIdx.x]", "TP016"),
    ],
)
def test_constants_of_the_file_are_met_by_no_store_but_what_they_point_to_is(
    head: str, load: str, found: str | None
) -> None:
    assert code("float* c", head, load) == found
