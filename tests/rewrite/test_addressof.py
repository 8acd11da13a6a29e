"""Classes whose `operator&` gives something else than their address: elements are copied to where they stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import candidate, snippet, tile_counts

from tilepipe.diagnostics import Refusal
from tilepipe.rewrite.addresses import address

_BODY = """    __shared__ F s[512];
    float acc = 0.f;
    const F* from = reinterpret_cast<const F*>(a);
    for (int k = 0; k < n; ++k) {
        for (int i = threadIdx.x; i < 256; i += 128) s[i + 1] = from[k * 256 + i];
        __syncthreads();
        for (int i = 0; i < 256; i += 3) acc = acc * 0.5f + s[1 + ((i + threadIdx.x) & 255)].v;
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = acc;"""
_MEMBER = "struct F { float v; __device__ F* operator&() { return this + 1; } };"
_CONSTANT = _MEMBER.replace("F* operator&() {", "const F* operator&() const {")
_FREE = "struct F { float v; };\n__device__ F* operator&(F& f);"
_ANOTHER = "struct F { float v; __device__ int operator&() const { return 1; } };"
_PLAIN = "struct F { float v; };"


@pytest.mark.parametrize("head", [_MEMBER, _CONSTANT, _FREE, _ANOTHER, _PLAIN])
@pytest.mark.parametrize("wanted", [candidate("cp_async", 3), candidate("ldg", 2), candidate("prefetch", 1)])
def test_exact(head: str, wanted, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    kernel = snippet(_BODY, tmp_path, head, bounds="__launch_bounds__(128) ")
    made = kernel.emit(wanted)
    assert not isinstance(made, Refusal), made
    assert kernel.difference(made, tile_counts()) == ""


def test_slots(tmp_path: Path) -> None:
    body = _BODY.replace("F s[512]", "float s[512]").replace("].v;", "];")
    body = body.replace(
        "s[i + 1] = from[k * 256 + i];", "{ const F e = from[k * 256 + i]; s[i + 1] = e.v * 2.f; }"
    )
    kernel = snippet(body, tmp_path, _MEMBER, bounds="__launch_bounds__(128) ")
    made = kernel.emit(candidate("stash", 3))
    assert not isinstance(made, Refusal), made
    assert kernel.difference(made, tile_counts()) == ""


@pytest.mark.parametrize(
    ("type_", "expected"),
    [("float", "&s[i]"), ("unsigned int", "&s[i]"), ("ulonglong2", "&s[i]"), ("__half2", "&s[i]"),
     ("F", "__builtin_addressof(s[i])"), ("N::float4", "__builtin_addressof(s[i])"),
     (None, "__builtin_addressof(s[i])")],
)  # fmt: skip
def test_the_language_s_own_address_is_written_where_it_is_known(type_: str | None, expected: str) -> None:
    assert address("s[i]", type_) == expected
    assert address("*p", type_) == "p"
