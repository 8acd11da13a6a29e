"""A pipeline made for one instance of a template: it is right for that one, and does not compile for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilepipe import steps
from tilepipe.builds import Built, build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate

CANDIDATE = Candidate("ldg-2-ring", "ldg", 2, "ring")
COPIES = Candidate("cp_async-3-ring", "cp_async", 3, "ring")
BODY = """
{
    __shared__ float s[WIDTH];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        for (int i = 0; i < WIDTH / 64; ++i) s[threadIdx.x + i * 64] = a[k * WIDTH + threadIdx.x + i * 64];
        __syncthreads();
        for (int j = 0; j < WIDTH; ++j) sum = sum * 0.5f + s[j] * ((j ^ threadIdx.x) & 15);
        __syncthreads();
    }
    c[threadIdx.x] = sum;
}
"""
PROBLEM = """schema = 1
[kernels.f]
{instantiate}
grid = ["1"]
block = ["64"]
tile = {{ N = 1 }}
args = [
  {{ name = "a", in = ["N", "2048"] }},
  {{ name = "c", out = ["64"] }},
  {{ value = "N" }},
]
[kernels.f.sizes]
small = {{ N = 5 }}
"""
ARGUMENTS = "const float* __restrict__ a, float* __restrict__ c, int n"


def opened(
    folder: Path,
    template: str,
    width: str,
    host: str,
    *,
    head: str = "",
    tail: str = "",
    instantiate: str = "",
) -> Job:
    """A kernel `f` with so many template parameters and a tile of `width` elements, in a file of its own."""
    body = BODY.replace("WIDTH", f"({width})")
    text = f"{head}\ntemplate <{template}>\n__global__ void f({ARGUMENTS}){body}{tail}\n{host}\n"
    path = folder / "f.cu"
    path.write_text(text, encoding="utf-8")
    named = f'instantiate = "{instantiate}"' if instantiate else ""
    path.with_suffix(".toml").write_text(PROBLEM.format(instantiate=named), encoding="utf-8")
    job = steps.open_job(str(path), Options(device="cpu"))
    assert isinstance(job, Job), job
    return job


def launch(*instances: str) -> str:
    """A host function that launches these instances."""
    calls = " ".join(f"{one}<<<1, 64>>>(a, c, n);" for one in instances)
    return f"void host(const float* a, float* c, int n) {{ {calls} }}"


def built(job: Job, candidate: Candidate = CANDIDATE) -> Built:
    model = job.model
    assert not isinstance(model, Refusal), model
    made = build_candidate(job, model, candidate)
    assert not isinstance(made, Refusal), made
    return made


def is_right(job: Job, made: Built) -> None:
    """The pipeline is bitwise equal to its original in the emulator, and free of races."""
    assert job.problem is not None
    answer = verify_candidate(job, job.device, made, job.problem.sizes)
    assert not isinstance(answer, Refusal), answer
    assert [one.status for one in answer] == ["passed", "passed"], answer
    assert all(s.bitwise for s in answer[0].sizes.values())


def compiles(job: Job, made: Built, instance: str, more: str = "") -> str:
    """ "" where an instance of the emitted text compiles, else what the compiler says."""
    unit = replace(job.unit(made.rewrite.text + more), instantiate=instance)
    compiled = job.toolchain.compile(unit, "sm_80", "ptx")
    return " ".join(d.message for d in compiled.diagnostics) if isinstance(compiled, Refusal) else ""


CFG = "template <int A, int B> struct Cfg { static constexpr int W = A * B; };"
HALF = "template <class T> struct Half { static constexpr int W = 64 * sizeof(T); };"
TWICE = HALF.replace("Half", "Twice").replace("64", "128")


# template parameters, width of the tile, instance, another one, what stands before the kernel, what the message says
SINGLE = {
    "int": ("int N", "N", "f<128>", "f<256>", "", "N = 128"),
    "computed": ("int N", "N", "f<(200 > 100 ? 128 : 64)>", "f<256>", "", "N = 128"),
    "constant": ("int N", "N", "f<SIZE>", "f<64>", "constexpr int SIZE = 128;", "N = 128"),
    "macro": ("int N", "N", "f<WIDE(2)>", "f<64>", "#define WIDE(x) ((x) << 6)", "N = 128"),
    "sizeof": ("unsigned N", "N * 32", "f<sizeof(int)>", "f<8>", "", "N = 4"),
    "default": ("int M, int N = M * 2", "N", "f<64>", "f<64, 64>", "", "N = 128"),
    "long": ("long long N", "N", "f<1ll << 7>", "f<64>", "", "N = 128"),
    "auto": ("auto N", "sizeof(N) * 16 + N", "f<64>", "f<64ll>", "", "N = 64"),
    "bool": ("bool B", "B ? 128 : 64", "f<true>", "f<false>", "", "B = true"),
    "enum": ("Mode M", "M == Mode::a ? 128 : 64", "f<Mode::a>", "f<Mode::b>", "enum class Mode { b, a };", "M = 1"),
    "plain_enum": ("Mode M", "64 * M", "f<two>", "f<one>", "enum Mode { one = 1, two };", "M = 2"),
    "function": (
        "float (*F)(float)", "F == up ? 128 : 64", "f<up>", "f<down>",
        "__device__ float up(float x) { return x; } __device__ float down(float x) { return -x; }", "F = up",
    ),
    "class": ("class T", "sizeof(T) * 32", "f<float>", "f<double>", "", "T = float"),
    "const": ("typename T", "sizeof(T) * 32", "f<const int*>", "f<int*>", "", "T = const int*"),
    "config": ("class C", "C::W", "f<Cfg<(8 > 2), 128>>", "f<Cfg<2, 128>>", CFG, "C = Cfg<(8 > 2), 128>"),
    "type_default": ("class T, class U = T", "sizeof(U) * 32", "f<float>", "f<float, double>", "", "U = T"),
    "unnamed": ("int N, class = int", "N", "f<128>", "f<64>", "", "N = 128"),
    "values": ("int... N", "64 * sizeof...(N)", "f<1, 2>", "f<1>", "", "N = 1, 2"),
    "unsigned_values": ("unsigned... N", "(N + ...)", "f<64, 64>", "f<64, 128>", "", "N = 64, 64"),
    "types": ("class... T", "64 * sizeof...(T)", "f<float, int>", "f<float>", "", "T = float, int"),
    "no_types": ("class... T", "64 + 64 * sizeof...(T)", "f<>", "f<float>", "", "T = "),
    "template": ("template <class> class S", "S<char>::W", "f<Half>", "f<Twice>", HALF + TWICE, "S = Half"),
    "comment": ("int N /* the tile */, int M = 1", "N * M", "f<128>", "f<128, 2>", "", "M = 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
def test_the_instance_is_right_and_no_other_compiles(name: str, tmp_path: Path) -> None:
    template, width, instance, other, head, words = SINGLE[name]
    job = opened(tmp_path, template, width, launch(instance), head=head)
    made = built(job)
    assert compiles(job, made, instance) == ""
    assert f"this pipeline was made for {words}" in compiles(job, made, other)
    is_right(job, made)
