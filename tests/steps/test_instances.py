"""A pipeline made for one instance of a template: it is right for that one, and does not compile for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.sampling import sampled

from tilepipe import steps
from tilepipe.builds import Built, build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate
from tilepipe.toolchain import CompileOptions, builds_whole_file

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


@pytest.mark.parametrize("name", sampled(SINGLE))
def test_the_instance_is_right_and_no_other_compiles(name: str, tmp_path: Path) -> None:
    template, width, instance, other, head, words = SINGLE[name]
    job = opened(tmp_path, template, width, launch(instance), head=head)
    made = built(job)
    assert compiles(job, made, instance) == ""
    assert f"this pipeline was made for {words}" in compiles(job, made, other)
    is_right(job, made)


LATER = {
    "constant": ("int N", "N", "f<SIZE>", "f<64>", "constexpr int SIZE = 128;", "N = 128"),
    "enumerator": ("int N", "N", "f<SIZE>", "f<64>", "enum { SIZE = 128 };", "N = 128"),
    "alias": ("class C", "C::W", "f<Later>", "f<Cfg<1, 64>>", "using Later = Cfg<2, 64>;", "C = Cfg<2, 64>"),
}


@pytest.mark.parametrize("name", LATER)
def test_what_arguments_name_may_stand_after_the_kernel(name: str, tmp_path: Path) -> None:
    template, width, instance, other, tail, words = LATER[name]
    job = opened(tmp_path, template, width, launch(instance), head=CFG, tail=tail)
    made = built(job)
    assert f"this pipeline was made for {words}" in compiles(job, made, other)
    is_right(job, made)


@pytest.mark.parametrize("place", ["head", "tail"])
def test_a_type_that_has_no_name_at_the_kernel_is_refused(place: str, tmp_path: Path) -> None:
    declared = {place: "struct Later { static constexpr int W = 128; };"}
    job = opened(tmp_path, "class C", "C::W", launch("f<Later>"), **declared)  # type: ignore[arg-type]
    refused = [d for d in steps.check(job).diagnostics if d.code == "TP160"]
    if place == "head":
        assert not refused
        is_right(job, built(job))
        return
    assert "`f<Later>`" in refused[0].message and "for `C` has no name there" in refused[0].message


def test_types_of_parameters_without_a_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.cu"
    listed = ARGUMENTS.replace("const float*", "const auto*")
    path.write_text(f"__global__ void f({listed}){BODY.replace('WIDTH', '128')}", encoding="utf-8")
    path.with_suffix(".toml").write_text(
        PROBLEM.format(instantiate='instantiate = "f<float>"'), encoding="utf-8"
    )
    job = steps.open_job(str(path), Options(device="cpu", compile=CompileOptions(std="c++20")))
    assert isinstance(job, Job), job
    assert "its argument `float` for `auto`" in steps.check(job).diagnostics[0].message


NAMING = {
    "launch": launch("f<64>"),
    "explicit": f"template __global__ void f<64>({ARGUMENTS.replace('__restrict__ ', '')});",
    "pointer": "auto pointer = &f<64>;",
    "table": "const void* table[] = {(void*)f<64>};",
    "call": "void other() { cudaLaunchKernel((void*)f<64>, 1, 64, nullptr, 0, 0); }",
    "attribute": "void other() { cudaFuncSetAttribute(f<64>, cudaFuncAttributePreferredSharedMemoryCarveout, 50); }",
}


@pytest.mark.parametrize("name", sampled(NAMING))
def test_an_instance_that_is_named_alone_is_looked_at(name: str, tmp_path: Path) -> None:
    job = opened(tmp_path, "int N", "N", NAMING[name])
    assert job.instance == "f<64>"
    is_right(job, built(job))


@pytest.mark.parametrize("name", sampled(NAMING))
def test_instances_that_need_other_texts_are_refused(name: str, tmp_path: Path) -> None:
    """The number of loads that wait in registers is a literal; that of asynchronous copies is not."""
    job = opened(tmp_path, "int N", "N", launch("f<128>") + "\n" + NAMING[name], instantiate="f<128>")
    model = job.model
    assert not isinstance(model, Refusal), model
    refused = build_candidate(job, model, CANDIDATE)
    assert isinstance(refused, Refusal)
    assert "right for `f<128>`, it is not for `f<64>`" in refused.diagnostics[0].message
    made = built(job, COPIES)
    assert [compiles(job, made, one) for one in ("f<128>", "f<64>")] == ["", ""]
    assert "made for N = 128 or N = 64" in compiles(job, made, "f<256>")
    assert any("the text is the same for `f<64>`" in note for note in made.rewrite.notes)
    for instance in ("f<128>", "f<64>"):
        is_right(opened(tmp_path, "int N", "N", launch(instance), instantiate=instance), made)


def test_a_flag_that_the_loop_does_not_read_goes_either_way(tmp_path: Path) -> None:
    host = launch("f<128, true>", "f<128, false>", "f<SIZE, true>")
    job = opened(
        tmp_path, "int N, bool B", "N", host, head="constexpr int SIZE = 128;", instantiate="f<128, true>"
    )
    made = built(job)
    assert [compiles(job, made, f"f<128, {flag}>") for flag in ("true", "false")] == ["", ""]
    assert "static_assert(B == true || B == false" in made.rewrite.text
    assert "N = 128" in compiles(job, made, "f<64, true>")
    is_right(job, made)


def test_which_of_several_instances_is_meant_is_asked(tmp_path: Path) -> None:
    job = opened(tmp_path, "int N", "N", launch("f<64>", "f<128>"))
    told = steps.check(job).diagnostics[0]
    assert (told.code, told.severity) == ("TP209", "error")
    assert "names `f<64>`, `f<128>`" in told.message


def test_a_name_of_the_launching_function_is_no_argument_to_assert(tmp_path: Path) -> None:
    for local in (
        "using T = Cfg<2, 64>;",
        "typedef Cfg<2, 64> T;",
        "struct T { static constexpr int W = 64; };",
    ):
        host = f"void host(const float* a, float* c, int n) {{ {local} f<T><<<1, 64>>>(a, c, n); }}"
        job = opened(tmp_path, "class C", "C::W", host, head=CFG)
        assert job.instance is None
        told = opened(tmp_path, "class C", "C::W", host, head=CFG, instantiate="f<Cfg<2, 64>>")
        made = built(told)
        assert "made for C = Cfg<2, 64>" in compiles(told, made, "f<Cfg<1, 64>>")
        is_right(told, made)


@pytest.mark.parametrize(
    ("call", "told"), [("f<P><<<1, 64>>>(a, c, n);", True), ("f<128><<<1, 64>>>(a, c, n);", False)]
)
def test_launches_of_unknown_instances_are_told_of(call: str, told: bool, tmp_path: Path) -> None:
    host = f"template <int P> void host(const float* a, float* c, int n) {{ {call} }}"
    made = built(opened(tmp_path, "int N", "N", host, instantiate="f<128>"))
    assert any("names `f<P>`" in note for note in made.rewrite.notes) == told


HOSTS = {
    "pointer": "auto pointer = &f<{0}>;",
    "table": "const void* table[] = {{(void*)f<{0}>}};",
    "call": "void other() {{ cudaLaunchKernel((void*)f<{0}>, dim3(1), dim3(64), (void**)nullptr, 0, 0); }}",
    "dispatch": "template <{1}> void go(float* a) {{ f<{2}><<<1, 64>>>(a, a, 1); }} void w(float* a) {{ go<{0}>(a); }}",
}


@pytest.mark.parametrize("name", sampled(HOSTS))
def test_a_host_that_reaches_for_another_instance_does_not_compile(name: str, tmp_path: Path) -> None:
    """Of files with what no analysis of the kernel's file could see when the pipeline was made."""
    for template, word, width, right, wrong in (
        ("int N", "N", "N", "128", "256"),
        ("class... T", "T...", "64 * sizeof...(T)", "float, int", "float, float"),
    ):
        job = opened(tmp_path, template, width, launch(f"f<{right}>"))
        made = built(job)
        for argument, fine in ((right, True), (wrong, False)):
            text = f"{made.rewrite.text}\n{HOSTS[name].format(argument, template, word)}\n"
            answer = builds_whole_file(text, job.path, CompileOptions(), "sm_80")
            if answer is None:
                pytest.skip("no nvcc with a host compiler")
            assert answer == fine


def test_a_kernel_within_a_namespace(tmp_path: Path) -> None:
    head, tail = f"namespace deep {{ {CFG}", "}"
    host = launch("deep::f<deep::Cfg<2, 64>>")
    job = opened(tmp_path, "class C", "C::W", host, head=head, tail=tail)
    made = built(job)
    assert "made for C = deep::Cfg<2, 64>" in compiles(job, made, "deep::f<deep::Cfg<1, 64>>")
    is_right(job, made)
