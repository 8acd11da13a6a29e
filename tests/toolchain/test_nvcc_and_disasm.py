"""nvcc on whole files, where there is one, and nvdisasm's text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from zoo_units import units

from tilepipe.diagnostics import Refusal
from tilepipe.toolchain import (
    Cache,
    Compiled,
    CompileOptions,
    NvccToolchain,
    NvrtcToolchain,
    Unit,
    builds_whole_file,
    disassemble,
    select_toolchain,
)
from tilepipe.toolchain import disasm as disasm_module
from tilepipe.toolchain import nvcc as nvcc_module

PROGRAM = Path(__file__).parent / "kernels" / "whole_program.cu"


def test_a_whole_program(nvcc: NvccToolchain, nvrtc: NvrtcToolchain) -> None:
    what = Unit(PROGRAM.read_text(), str(PROGRAM), "tiled", "tiled<float, TILE>")
    by_nvcc, by_nvrtc = nvcc.compile(what, "sm_80", "cubin"), nvrtc.compile(what, "sm_80", "cubin")
    assert isinstance(by_nvcc, Compiled)
    assert isinstance(by_nvrtc, Compiled)
    assert by_nvcc.symbol == by_nvrtc.symbol
    assert by_nvcc.static_shared == by_nvrtc.static_shared
    ptx = nvcc.compile(what, "sm_80", "ptx")
    assert isinstance(ptx, Compiled)
    assert f".entry {ptx.symbol}(".encode() in ptx.image
    assert f'"{PROGRAM}"'.encode() in ptx.image


def test_refusals(nvcc: NvccToolchain) -> None:
    plain = "__global__ void k(int* p) { *p = 1; }\n"
    for text, kernel, code in (
        (plain, "kk", "TP205"),
        ("__device__ void k(int* p) { *p = 1; }", "k", "TP205"),
        ("template <int N> " + plain, "k", "TP205"),
        (plain + "\nint x = qq;", "k", "TP200"),
        ('#include "gone.h"\n' + plain, "k", "TP201"),
    ):
        result = nvcc.compile(Unit(text, "dir/a.cu", kernel), "sm_80", "ptx")
        assert isinstance(result, Refusal)
        assert result.diagnostics[0].code == code, (text, result)
    result = nvcc.compile(Unit(plain + "\nint x = qq;", "dir/a.cu", "k"), "sm_80", "ptx")
    assert isinstance(result, Refusal)
    assert result.diagnostics[0].place is not None
    assert (result.diagnostics[0].place.file, result.diagnostics[0].place.line) == ("dir/a.cu", 3)


def test_whole_files_build_or_not(nvcc: NvccToolchain, cache: Cache) -> None:
    text = PROGRAM.read_text()
    options = CompileOptions()
    assert builds_whole_file(text, str(PROGRAM), options, "sm_80", cache) is True
    broken = text.replace("<<<1, dim3(16, 16)>>>(p, p, p, 16, 1)", "<<<1, dim3(16, 16)>>>(p, p, p, 16)")
    assert broken != text
    assert builds_whole_file(broken, str(PROGRAM), options, "sm_80", cache) is False


def test_without_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    nvcc_module._find.cache_clear()
    try:
        result = select_toolchain("nvcc")
        assert isinstance(result, Refusal)
        assert result.diagnostics[0].code == "TP203"
        assert builds_whole_file("", "a.cu", CompileOptions(), "sm_80") is None
        assert isinstance(select_toolchain("nvrtc"), NvrtcToolchain)
    finally:
        nvcc_module._find.cache_clear()


def test_without_a_host_compiler(nvcc: NvccToolchain, tmp_path: Path) -> None:
    options = CompileOptions(extra=("-ccbin", str(tmp_path / "none")))
    plain = "__global__ void k(int* p) { *p = 1; }\n"
    result = nvcc.compile(Unit(plain, "a.cu", "k", None, options), "sm_80", "ptx")
    assert isinstance(result, Refusal)
    assert result.diagnostics[0].code == "TP203"
    assert builds_whole_file(plain, "a.cu", options, "sm_80", Cache(tmp_path)) is None


INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+\S.*;\s*/\* 0x[0-9a-f]{16} \*/")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_disassembly(nvrtc: NvrtcToolchain, cache: Cache, arch: str) -> None:
    cubin = nvrtc.compile(units()["sgemm_outer84"], arch, "cubin")
    assert isinstance(cubin, Compiled)
    text = disassemble(cubin.image, cubin.symbol, cache=cache)
    assert isinstance(text, str)
    assert len(INSTRUCTION.findall(text)) > 100
    assert re.search(r"^\.L_\w+:", text, re.MULTILINE), "loops have labels"
    assert "BAR.SYNC" in text
    assert disassemble(cubin.image, "no_such_symbol", cache=cache) == ""
    lined = disassemble(cubin.image, cubin.symbol, line_info=True, cache=cache)
    assert isinstance(lined, str)
    assert re.search(r'## File ".*sgemm_outer84\.cu", line \d+', lined)


def test_what_is_no_cubin(cache: Cache) -> None:
    result = disassemble(b"not an ELF file", cache=cache)
    assert isinstance(result, Refusal)
    assert result.diagnostics[0].code == "TP208"


def test_without_nvdisasm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disasm_module, "find_nvdisasm", lambda: None)
    result = disassemble(b"")
    assert isinstance(result, Refusal)
    assert result.diagnostics[0].code == "TP207"
