"""Compiler logs become diagnostics at the author's file, line and column."""

from __future__ import annotations

from tilepipe.source import SourceFile
from tilepipe.toolchain.messages import compile_refusal, parse_errors
from tilepipe.toolchain.resources import Resources, parse_resources

LOG = """gemm.cu(2): warning #177-D: variable "z" was declared but never referenced
  int z;
      ^

gemm.cu(3): error: identifier "qq" is undefined
      acc += qq;
             ^
          detected during instantiation of "void k<N>(float *) [with N=3]" 

dir (x)/util.cuh(7): error #20-D: expected a ";"

gemm.cu(9): catastrophic error: cannot open source file "gone.cuh"
  #include "gone.cuh"
                     ^

3 errors detected in the compilation of "gemm.cu".
"""


def test_errors_of_a_device_compiler() -> None:
    found = [(one.file, one.line, one.column, one.message) for one in parse_errors(LOG)]
    assert found[0] == ("gemm.cu", 3, 12, 'identifier "qq" is undefined')
    assert ("gemm.cu", 9, 20, 'cannot open source file "gone.cuh"') in found


def test_errors_of_a_host_compiler() -> None:
    (found,) = parse_errors("gemm.cu:4:10: fatal error: gone.h: No such file or directory\n    4 | #include")
    assert (found.line, found.column) == (4, 10)
    refused = compile_refusal("gemm.cu:4:10: fatal error: gone.h: No such file or directory", [], "nvcc")
    assert refused.diagnostics[0].code == "TP201"


def test_a_place_shows_the_line_and_the_word() -> None:
    source = SourceFile("gemm.cu", "a\nb\n    acc += qq;\n")
    first = compile_refusal(LOG, [source], "NVRTC").diagnostics[0]
    assert first.code == "TP200"
    assert first.place is not None
    assert (first.place.line, first.place.column, first.place.width) == (3, 12, 2)
    assert first.place.text == "    acc += qq;"


def test_the_assembler_and_the_unknown() -> None:
    refused = compile_refusal("ptxas error   : Entry function 'k' uses too much shared data", [], "NVRTC")
    assert refused.diagnostics[0].code == "TP206"
    assert "too much shared data" in refused.diagnostics[0].message
    refused = compile_refusal("", [], "NVRTC")
    assert refused.diagnostics[0].code == "TP200"
    assert refused.exit_code == 2


PTXAS = """ptxas info    : 24 bytes gmem, 48 bytes cmem[4]
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'
ptxas info    : Function properties for _Z6helperv
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _Z1kPf
    40 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 129 registers, used 1 barriers, 40 bytes cumulative stack size, 10240 bytes smem
ptxas info    : Compiling entry function '_Z2k2Pf' for 'sm_80'
ptxas info    : Function properties for _Z2k2Pf
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 384 bytes cmem[0]
"""


def test_resources_are_those_of_the_whole_symbol() -> None:
    assert parse_resources(PTXAS, "_Z1kPf") == Resources(129, 10240, 40, 24, 32)
    assert parse_resources(PTXAS, "_Z2k2Pf") == Resources(8, 0, 0, 0, 0)
    assert parse_resources(PTXAS, "_Z2k") is None
