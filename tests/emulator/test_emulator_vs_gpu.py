"""The script that holds the emulator against a GPU, with the emulator in the GPU's place: right, wrong and absent."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tilepipe.diagnostics import Refusal, error
from tilepipe.launch import CpuDevice, LaunchOptions, Loaded, RunResult
from tilepipe.launch.cpu import CpuKernel
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.problem import Case
from tilepipe.toolchain import NvrtcToolchain, Unit

ROOT = Path(__file__).parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "emulator_vs_gpu.py"))


@dataclass(frozen=True)
class FakeGpu:
    """Runs on the CPU; `off_by` is added to the first element of every output."""

    toolchain: NvrtcToolchain
    off_by: float = 0.0
    refuses: bool = False
    kind: Literal["cpu", "cuda"] = "cuda"
    name: str = "a GPU"
    arch: str = "sm_80"

    def load(self, unit: Unit, arch: str) -> Loaded | Refusal:
        inner = CpuDevice(self.toolchain).load(unit, arch)
        return inner if isinstance(inner, Refusal) else _FakeKernel(inner, self)


@dataclass(frozen=True)
class _FakeKernel:
    inner: CpuKernel
    gpu: FakeGpu

    def run(self, case: Case, options: LaunchOptions) -> RunResult | Refusal:
        if self.gpu.refuses:
            return error("TP352", "the launch failed")
        done = self.inner.run(case, options)
        for a in case.arrays:
            if a.role != "in" and a.data.size:
                a.data.reshape(-1)[0] += a.data.dtype.type(self.gpu.off_by)
        return done


ZOO = ROOT / "tests" / "zoo"
KERNELS = ["igemm_bytes", "hgemm_wmma_bias"]


def report(gpu: FakeGpu, *kernels: str) -> int:
    return int(SCRIPT["report"](ZOO, kernels, gpu, None))


def test_agreement(nvrtc: NvrtcToolchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert SCRIPT["report"](ZOO, KERNELS, FakeGpu(nvrtc), tmp_path / "table.md") == 0
    out = capsys.readouterr().out
    assert (tmp_path / "table.md").read_text() in out
    rows = [line for line in out.splitlines() if line.startswith(("| igemm_bytes", "| hgemm_wmma_bias"))]
    assert sorted(("bit by bit" in row, "within tolerance (matrix)" in row) for row in rows) == [
        (False, True),
        (True, False),
    ]
    assert all("| 0 | agree |" in row for row in rows)
    assert "2 kernels on a GPU: 2 agree; 1 bit by bit." in out


@pytest.mark.parametrize(
    ("kernel", "off_by", "code"),
    [
        ("igemm_bytes", 1, 1),  # one unit is too much for integers
        ("hgemm_wmma_bias", 1e-3, 0),  # within the tolerance of half precision
        ("hgemm_wmma_bias", 1.0, 1),
        ("hgemm_wmma_bias", float("nan"), 1),
    ],
)
def test_disagreement(
    nvrtc: NvrtcToolchain, kernel: str, off_by: float, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(FakeGpu(nvrtc, off_by=off_by), kernel) == code
    assert ("DISAGREE" in capsys.readouterr().out) == bool(code)


def test_a_kernel_that_is_faulty_is_listed_apart(
    nvrtc: NvrtcToolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(FakeGpu(nvrtc), "gemm_no_tail_sync") == 0
    assert "| faulty: " in capsys.readouterr().out


def test_a_launch_that_fails_is_a_disagreement(
    nvrtc: NvrtcToolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(FakeGpu(nvrtc, refuses=True), "igemm_bytes") == 1
    assert "TP352" in capsys.readouterr().out


def test_comparing_nothing_is_no_success(nvrtc: NvrtcToolchain) -> None:
    assert report(FakeGpu(nvrtc), "no_such_kernel") == 1


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCRIPT["main"].__globals__, "find_gpu", lambda toolchain: None)
    assert SCRIPT["main"]([]) == 2


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("igemm_wmma_chunks.cu", "exact"),
        ("linear_bf16_mma.cu", "matrix"),
        ("sgemm_copyloop.cu", "exact"),
        ("attn_rowblock.cu", "approximate"),
    ],
)
def test_how_closely_kernels_must_agree(nvrtc: NvrtcToolchain, file: str, kind: str) -> None:
    job = open_job(str(ZOO / file), Options(device="cpu", compile=SCRIPT["NO_FUSING"]))
    assert not isinstance(job, Refusal)
    loaded = CpuDevice(nvrtc).load(job.unit(), "sm_80")
    assert not isinstance(loaded, Refusal)
    assert SCRIPT["kind_of"](loaded) == kind
    fused = [i for i in loaded.program.kernel.function.body if getattr(i, "op", "") == "fma"]
    assert not fused or kind != "exact", "the file fuses by itself"
