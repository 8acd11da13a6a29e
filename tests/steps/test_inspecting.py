"""Machine code as it is: cubins of every kind that may be given, and kernels pipelined by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from cuda.bindings import nvrtc

from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.report import RunReport
from tilepipe.steps import inspect_cubin, inspect_kernel
from tilepipe.toolchain.cubin import is_binary, source_name
from tilepipe.toolchain.types import Compiled

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "hgemm_wmma.cu"
RING = ROOT / "tests" / "lint" / "cases" / "TP500" / "good_ring.cu"
TWO = (
    "__global__ void first(int* p) { *p = 1; }\nnamespace n { __global__ void second(int* p) { *p = 2; } }\n"
)


def whole_file(text: str) -> bytes:
    """A cubin for sm_90 with all the kernels of a text."""
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"k.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"])
    assert int(status) == 0
    image = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, image)
    return image


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, un-pipelined, for sm_90."""
    job = open_job(str(EXAMPLE), Options(device="cpu", arch="sm_90"))
    assert isinstance(job, Job) and isinstance(job.original, Compiled)
    path = tmp_path_factory.mktemp("cubin") / "hgemm.cubin"
    path.write_bytes(job.original.image)
    return path


def said(answer: RunReport | Refusal) -> tuple[str, str]:
    assert isinstance(answer, Refusal), answer
    return answer.diagnostics[0].code, answer.diagnostics[0].message


def test_a_cubin_is_audited_as_it_is(cubin: Path) -> None:
    report = inspect_cubin(str(cubin), Options())
    assert isinstance(report, RunReport) and report.kernel is not None and report.evidence.sass is not None
    assert (report.kernel.name, report.arch, report.outcome) == ("hgemm_wmma", "sm_90", "failed")
    assert report.evidence.sass.codes == ("TP420",)
    assert any(" 42  " in line for line in report.evidence.sass.excerpt), "the source lines"
    named = inspect_cubin(str(cubin), Options(kernel="hgemm_wmma", arch="sm_90"))
    assert named == report


def test_a_kernel_pipelined_by_hand_is_audited_as_it_stands() -> None:
    job = open_job(str(RING), Options(device="cpu"))
    assert isinstance(job, Job)
    report = inspect_kernel(job)
    assert isinstance(report, RunReport) and report.evidence.sass is not None
    assert (report.evidence.sass.status, report.outcome) == ("passed", None), report.evidence.sass.reasons
    assert report.evidence.sass.registers


def test_kernels_are_named_as_in_the_source(tmp_path: Path) -> None:
    path = tmp_path / "two.cubin"
    path.write_bytes(whole_file(TWO))
    code, message = said(inspect_cubin(str(path), Options()))
    assert code == "TP146" and "first" in message and "second" in message
    report = inspect_cubin(str(path), Options(kernel="second"))
    assert isinstance(report, RunReport) and report.evidence.sass is not None
    assert (report.evidence.sass.status, report.evidence.sass.codes) == (
        "unknown",
        ("TP430",),
    )  # no loop in it
    assert said(inspect_cubin(str(path), Options(kernel="third")))[0] == "TP145"


def test_names_in_mangled_symbols() -> None:
    names = {
        "gemm": "gemm",
        "_Z4gemmPKfi": "gemm",
        "_ZN2my4gemmEPKf": "gemm",
        "_ZN12_GLOBAL__N_14gemmILi64EEEvPf": "gemm",
        "_ZL4gemmPf": "gemm",
        "_Z": "_Z",
    }
    assert {symbol: source_name(symbol) for symbol in names} == names


def section_table(image: bytes, kept: Callable[[int], bool]) -> bytes:
    """The cubin with every section typed 0 (unused) whose type is not `kept`."""
    out = bytearray(image)
    (start,) = struct.unpack_from("<Q", image, 40)
    (count,) = struct.unpack_from("<H", image, 60)
    for at in range(start, start + 64 * count, 64):
        if not kept(struct.unpack_from("<I", image, at + 4)[0]):
            struct.pack_into("<I", out, at + 4, 0)
    return bytes(out)


SYMBOLS = 2
BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda image: b"", "TP211"),
    "text": (lambda image: b"__global__ void k() {}", "TP211"),
    "a few bytes": (lambda image: image[:9], "TP211"),
    "the header alone": (lambda image: image[:64], "TP208"),
    "cut off": (lambda image: image[: len(image) // 2], "TP208"),
    "stripped": (lambda image: section_table(image, lambda kind: kind != SYMBOLS), "TP208"),
    "of a host": (lambda image: image[:18] + struct.pack("<H", 62) + image[20:], "TP211"),
    "a fat binary": (lambda image: b"\x50\xed\x55\xba" + image, "TP211"),
    "of sm_70": (lambda image: image[:49] + b"\x46" + image[50:], "TP208"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_files_that_are_no_whole_cubin_are_named(kind: str, cubin: Path, tmp_path: Path) -> None:
    breaks, code = BROKEN[kind]
    path = tmp_path / "broken.cubin"
    path.write_bytes(breaks(cubin.read_bytes()))
    assert is_binary(str(path))
    found, message = said(inspect_cubin(str(path), Options()))
    assert found == code and str(path) in message and "/tilepipe-" not in message


def test_an_absent_file(tmp_path: Path) -> None:
    assert said(inspect_cubin(str(tmp_path / "absent.cubin"), Options()))[0] == "TP147"


def test_another_architecture_than_asked_for(cubin: Path) -> None:
    assert said(inspect_cubin(str(cubin), Options(arch="sm_80")))[0] == "TP213"
    assert said(inspect_cubin(str(cubin), Options(arch="sm_1")))[0] == "TP110"


def test_damaged_bytes_never_break_the_audit(cubin: Path, tmp_path: Path) -> None:
    image, path = cubin.read_bytes(), tmp_path / "damaged.cubin"
    for start in range(64, len(image), len(image) // 12):
        damaged = bytes(b ^ 0x5A for b in image[start : start + 40])
        path.write_bytes(image[:start] + damaged + image[start + 40 :])
        answer = inspect_cubin(str(path), Options())
        assert isinstance(answer, RunReport) or answer.diagnostics[0].code.startswith("TP")
