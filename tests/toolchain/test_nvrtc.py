"""NVRTC compiles whole files of every kind, and says what is wrong where the author wrote it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from zoo_units import units

from tilepipe.diagnostics import Refusal
from tilepipe.toolchain import Cache, Compiled, CompileOptions, NvrtcToolchain, Unit
from tilepipe.toolchain.nvrtc_program import Library, run

PROGRAM = Path(__file__).parent / "kernels" / "whole_program.cu"
SAMPLE = ["sgemm_traits", "hgemm_wmma_bias", "linear_bf16_mma", "nearest_point", "gram_upper", "scale_stream"]
ARCHITECTURES = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]


def compiled(result: Compiled | Refusal) -> Compiled:
    assert isinstance(result, Compiled), result
    return result


def unit(text: str, kernel: str = "k", instantiate: str | None = None, path: str = "dir/a.cu") -> Unit:
    return Unit(text, path, kernel, instantiate)


def refused(nvrtc: NvrtcToolchain, what: Unit, arch: str = "sm_80", code: str = "TP200") -> Refusal:
    result = nvrtc.compile(what, arch, "cubin")
    assert isinstance(result, Refusal)
    assert {one.code for one in result.diagnostics} == {code}, result
    assert result.exit_code == 2
    return result


def check_zoo_kernel(nvrtc: NvrtcToolchain, name: str, archs: list[str]) -> None:
    what = units()[name]
    ptx = compiled(nvrtc.compile(what, "sm_80", "ptx"))
    assert f".entry {ptx.symbol}(".encode() in ptx.image
    assert name in ptx.symbol
    for arch in archs:
        cubin = compiled(nvrtc.compile(what, arch, "cubin"))
        assert cubin.image.startswith(b"\x7fELF")
        assert (cubin.symbol, cubin.arch) == (ptx.symbol, arch)
        assert 8 <= cubin.registers <= 255


@pytest.mark.parametrize("name", SAMPLE)
def test_zoo_sample(nvrtc: NvrtcToolchain, name: str) -> None:
    check_zoo_kernel(nvrtc, name, ["sm_80", "sm_90"])


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(units()))
def test_zoo(nvrtc: NvrtcToolchain, name: str) -> None:
    check_zoo_kernel(nvrtc, name, ARCHITECTURES)
    assert "cp.async" in units()[name].text or compiled(nvrtc.compile(units()[name], "sm_75", "ptx"))


def test_resources_are_the_kernels_own(nvrtc: NvrtcToolchain) -> None:
    got = compiled(nvrtc.compile(units()["sgemm_traits"], "sm_80", "cubin"))
    assert got.static_shared == 4 * (64 * 16 + 16 * 96)
    text = (
        "__global__ void k(float* p, int i)\n"
        "{ float a[64]; for (int j = 0; j < 99; ++j) a[j * i % 64] += p[j]; p[0] = a[i] + a[i + 1]; }"
    )
    got = compiled(nvrtc.compile(unit(text), "sm_80", "cubin"))
    assert got.local_bytes == 256
    assert (got.spill_stores, got.spill_loads, got.static_shared) == (0, 0, 0)


def test_spills_are_counted(nvrtc: NvrtcToolchain) -> None:
    what = units()["sgemm_traits"]
    text = what.text.replace("__launch_bounds__(Cfg::kThreads)", "")
    assert text != what.text
    options = CompileOptions(extra=("-maxrregcount", "40"))
    capped = Unit(text, what.path, what.kernel, what.instantiate, options)
    got = compiled(nvrtc.compile(capped, "sm_80", "cubin"))
    assert got.registers <= 40
    assert got.spill_stores > 0
    assert got.spill_loads > 0


def test_lines_are_the_authors(nvrtc: NvrtcToolchain) -> None:
    ptx = compiled(
        nvrtc.compile(Unit(PROGRAM.read_text(), str(PROGRAM), "tiled", "tiled<float, 16>"), "sm_80", "ptx")
    )
    text = ptx.image.decode()
    (number,) = re.findall(rf'\.file\s+(\d+)\s+"{re.escape(str(PROGRAM))}"', text)
    lines = {int(line) for line in re.findall(rf"\.loc\s+{number} (\d+) ", text)}
    source = PROGRAM.read_text().splitlines()
    assert any("__syncthreads" in source[line - 1] for line in lines)
    assert any("acc += as" in source[line - 1] for line in lines)


def test_a_whole_program_compiles(nvrtc: NvrtcToolchain) -> None:
    what = Unit(PROGRAM.read_text(), str(PROGRAM), "tiled", "tiled<float, TILE>")
    got = compiled(nvrtc.compile(what, "sm_80", "cubin"))
    assert got.symbol == "_ZN7kernels5tiledIfLi16EEEvPKT_S3_PS1_ih"
    assert got.static_shared == 4 * (16 * 16 + 16 * 17)
    other = compiled(nvrtc.compile(Unit(what.text, what.path, "other"), "sm_80", "ptx"))
    assert other.image.count(b".entry") == 1


@pytest.mark.parametrize(
    ("text", "kernel", "instantiate", "symbol"),
    [
        ("__global__ void k(int* p) { *p = 1; }", "k", None, "_Z1kPi"),
        ('extern "C" __global__ void k(int* p) { *p = 1; }', "k", None, "k"),
        ("static __global__ void k(int* p) { *p = 1; }", "k", None, "_Z1kPi"),
        ("namespace a { __global__ void k(int* p) { *p = 1; } }", "k", None, "_ZN1a1kEPi"),
        ("template <int N> __global__ void k(int* p) { *p = N; }", "k", "k<3 + 1>", "_Z1kILi4EEvPi"),
        ("template <int N = 2> __global__ void k(int* p) { *p = N; }", "k", "k<>", "_Z1kILi2EEvPi"),
        ("#define D(n) __global__ void n(int* p) { *p = 1; }\nD(k)", "k", None, "_Z1kPi"),
    ],
)
def test_symbols(nvrtc: NvrtcToolchain, text: str, kernel: str, instantiate: str | None, symbol: str) -> None:
    assert compiled(nvrtc.compile(unit(text, kernel, instantiate), "sm_80", "ptx")).symbol == symbol


@pytest.mark.parametrize(
    "header",
    [
        *("cmath", "cstdint", "cstddef", "climits", "cfloat", "cassert", "limits", "algorithm", "utility"),
        *("type_traits", "vector", "string", "iostream", "chrono", "cstdio", "cstdlib", "math.h", "stdio.h"),
        *("assert.h", "cuda_runtime.h", "cuda.h", "cooperative_groups.h", "mma.h"),
    ],
)
def test_headers(nvrtc: NvrtcToolchain, header: str) -> None:
    compiled(
        nvrtc.compile(unit(f"#include <{header}>\n__global__ void k(float* p) {{ *p = 1; }}"), "sm_80", "ptx")
    )


def test_the_standard_library_that_kernels_use(nvrtc: NvrtcToolchain) -> None:
    text = """
    #include <algorithm>
    #include <cmath>
    #include <cstdint>
    #include <limits>
    __global__ void k(float* p, std::uint8_t* q, uint64_t n)
    {
        assert(n > 0);
        constexpr float top = std::numeric_limits<float>::infinity(), low = -INFINITY;
        float m = std::max(p[0], std::min(p[1], low));
        std::swap(p[2], p[3]);
        p[4] = std::fma(m, std::sqrt(p[5]), std::abs(p[6])) + M_PI + top;
        p[4] += std::numeric_limits<float>::lowest();
        q[0] = std::numeric_limits<uint8_t>::max();
        if (std::isnan(p[7])) printf("%f", NAN);
    }"""
    compiled(nvrtc.compile(unit(text), "sm_80", "cubin"))


def test_errors_stand_at_the_authors_line(nvrtc: NvrtcToolchain) -> None:
    text = "#include <vector>\nint main() { }\n__global__ void k(float* p)\n{\n    p[0] = qq + 1;\n}\n"
    (one,) = refused(nvrtc, unit(text)).diagnostics
    assert one.place is not None
    assert (one.place.file, one.place.line, one.place.column, one.place.width) == ("dir/a.cu", 5, 12, 2)
    assert one.place.text == "    p[0] = qq + 1;"
    assert "qq" in one.message


def test_errors_in_a_host_type_do_not_hide_the_authors(nvrtc: NvrtcToolchain) -> None:
    text = "struct H { Unknown u; };\nstruct I { Other o; };\n__global__ void k(float* p) { p[0] = qq; }\n"
    (one,) = refused(nvrtc, unit(text)).diagnostics
    assert one.place is not None
    assert one.place.line == 3
    compiled(nvrtc.compile(unit(text.replace("qq", "1")), "sm_80", "ptx"))


def test_an_error_in_a_type_that_the_kernel_uses_is_reported_there(nvrtc: NvrtcToolchain) -> None:
    text = "struct H { Unknown u; };\n__global__ void k(H* p) { p[0] = p[1]; }\n"
    first = refused(nvrtc, unit(text)).diagnostics[0]
    assert first.place is not None
    assert first.place.line == 1
    assert "Unknown" in first.message


def test_a_missing_include_is_named(nvrtc: NvrtcToolchain) -> None:
    text = '\n#include "gone.cuh"\n__global__ void k(float* p) { *p = 1; }\n'
    (one,) = refused(nvrtc, unit(text), code="TP201").diagnostics
    assert one.place is not None
    assert one.place.line == 2
    assert "gone.cuh" in one.message
    compiled(
        nvrtc.compile(
            unit(text.replace("\n#inc", "\n#ifdef NEVER\n#inc").replace('h"', 'h"\n#endif')), "sm_80", "ptx"
        )
    )


def test_unknown_system_headers_are_passed_over_where_no_kernel_needs_them(nvrtc: NvrtcToolchain) -> None:
    text = "#include <acme/logging.hpp>\n#include <acme/pool.hpp>\nacme::Pool pool;\n"
    kernel = "__global__ void k(int* p) { *p = 1; }\n"
    compiled(nvrtc.compile(unit(text + kernel), "sm_80", "ptx"))
    needing = text + "__global__ void k(int* p) { *p = acme::one(); }\n"
    (one,) = refused(nvrtc, unit(needing), code="TP201").diagnostics
    assert one.place is not None
    assert (one.place.line, "acme/logging.hpp" in one.message) == (1, True)


def test_macros_that_expand_to_host_code_go(nvrtc: NvrtcToolchain) -> None:
    text = "#define REGISTER(name) static Registrar registrar_##name(#name);\nREGISTER(first)\nREGISTER(second)\n"
    text += "#define HELPER(T) __device__ T half_of(T x) { return x / 2; }\nHELPER(int)\n"
    text += "__global__ void k(int* p) { *p = half_of(*p); }\n"
    compiled(nvrtc.compile(unit(text), "sm_80", "ptx"))


@pytest.mark.parametrize(
    ("text", "kernel", "instantiate", "code"),
    [
        ("__global__ void k(int* p) { *p = 1; }", "kk", None, "TP205"),
        ("__device__ void k(int* p) { *p = 1; }", "k", None, "TP205"),
        ("template <int N> __global__ void k(int* p) { *p = N; }", "k", None, "TP209"),
        (
            "__global__ void k(int* p) { *p = 1; }\n__global__ void k(float* p) { *p = 1; }",
            "k",
            None,
            "TP209",
        ),
        (
            "__global__ void k(int* p) { __shared__ int s[20000]; s[*p] = 1; *p = s[p[1]]; }",
            "k",
            None,
            "TP206",
        ),
    ],
)
def test_refusals(nvrtc: NvrtcToolchain, text: str, kernel: str, instantiate: str | None, code: str) -> None:
    refused(nvrtc, unit(text, kernel, instantiate), code=code)


def test_unknown_architectures_and_flags(nvrtc: NvrtcToolchain) -> None:
    plain = "__global__ void k(int* p) { *p = 1; }"
    for arch in ("sm_70", "sm_999", "hopper", ""):
        refused(nvrtc, unit(plain), arch, "TP204")
    assert compiled(nvrtc.compile(unit(plain), "90a", "cubin")).arch == "sm_90a"
    bad = Unit(plain, "a.cu", "k", None, CompileOptions(extra=("--no-such-flag",)))
    refused(nvrtc, bad, code="TP210")


def test_options(nvrtc: NvrtcToolchain, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "size.cuh").write_text("#include <vector>\nstd::vector<int> v;\n#define SIZE 5\n")
    text = "#include <size.cuh>\n#if __cplusplus < 202002L\n#error old\n#endif\n"
    text += "__global__ void k(int* p) { __shared__ int s[SIZE * TIMES]; s[*p] = 1; *p = s[p[1]]; }"
    options = CompileOptions(
        (str(tmp_path / "include"),), ("TIMES=3",), "c++20", ("-O3", "-lineinfo", "-fmad=false")
    )
    got = compiled(nvrtc.compile(Unit(text, "a.cu", "k", None, options), "sm_80", "cubin"))
    assert got.static_shared == 60


def test_a_second_compilation_comes_from_the_cache(
    nvrtc: NvrtcToolchain, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = tmp_path / "n.cuh"
    header.write_text("#define N 3\n")
    what = unit('#include "n.cuh"\n__global__ void k(int* p) { *p = N; }', path=str(tmp_path / "a.cu"))
    first = compiled(nvrtc.compile(what, "sm_80", "ptx"))
    runs: list[str] = []

    def counted(*arguments: object, **named: object) -> object:
        runs.append("run")
        return run(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("tilepipe.toolchain.nvrtc.run", counted)
    assert NvrtcToolchain(cache).compile(what, "sm_80", "ptx") == first
    assert runs == []
    header.write_text("#define N 4\n")
    assert compiled(NvrtcToolchain(cache).compile(what, "sm_80", "ptx")).image != first.image
    assert runs == ["run"]


@pytest.mark.parametrize(
    ("version", "flags"), [((12, 8), ()), ((12, 9), ("--no-cache",)), ((13, 0), ("--no-cache",))]
)
def test_only_a_library_with_a_cache_of_its_own_is_told_to_leave_it(
    version: tuple[int, int], flags: tuple[str, ...]
) -> None:
    # 12.4, 12.6 and 12.8 answer NVRTC_ERROR_INVALID_OPTION
    assert Library(None, version, None, ()).afresh == flags


@pytest.mark.parametrize("version", [(12, 4), (13, 3), (13, 4), (14, 0)])
def test_the_limit_of_errors_is_lifted_where_nvrtc_knows_how(version: tuple[int, int]) -> None:
    assert bool(Library(None, version, None, ()).all_errors) == (version >= (13, 4))
