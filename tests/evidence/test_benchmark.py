"""Benchmarks over a fake GPU: medians, spreads, rates, who wins, and what cannot be timed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilepipe.evidence.benchmark import beats, benchmark, best_worst_case, fastest, summarise
from tilepipe.evidence.types import Benchmark, Timing
from tilepipe.launch.gpu import Contender, CudaDevice, CudaKernel
from tilepipe.problem import ArraySpec, Case, KernelProblem, Parameter, make_case
from tilepipe.toolchain.types import Unit

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
from fakes import FakeDriver, FakeToolchain

PROBLEM = KernelProblem(
    "k", None, ("1",), ("32",), "0", (ArraySpec("y", "inout", ("N",)),), {"target": {"N": 5}}
)


def case(**changes: Any) -> Case:
    made = make_case(PROBLEM, "target", [Parameter("y", "float *", "float")], 1)
    assert isinstance(made, Case)
    return replace(made, **changes)


def timed(
    data: Case, *, shared: dict[str, int] | None = None, control: str = "", **times: list[float]
) -> Benchmark:
    """Kernels that take the given milliseconds in turn; the first is the original. Three warm-up launches."""

    def kernel(values: list[float]) -> Any:
        sequence = iter([0.0] * 3 + values)
        return lambda *_: next(sequence)

    driver = FakeDriver(**{name: kernel(values) for name, values in times.items()})
    device = CudaDevice(driver, FakeToolchain())
    contenders = {}
    for name in times:
        loaded = device.load(Unit("", "k.cu", name), "sm_90")
        assert isinstance(loaded, CudaKernel)
        contenders[name] = Contender(loaded, replace(data, shared=(shared or {}).get(name, 0)))
    first, *rest = times
    rounds = len(times[first])
    candidates = {name: contenders[name] for name in rest if name != control}
    controls = {control: contenders[control]} if control else {}
    return benchmark(device, contenders[first], candidates, data, rounds, controls)


def test_a_control_is_timed_and_never_wins() -> None:
    result = timed(case(), control="b", base=[2.0] * 4, a=[1.9] * 4, b=[1.0] * 4)
    assert (list(result.candidates), list(result.controls)) == (["a"], ["b"])
    assert result.controls["b"].speedup == 2.0 and result.original is not None
    assert fastest(result.original, result.candidates) == "a"


def test_the_fastest_wins() -> None:
    result = timed(case(flops=8_000_000), base=[2.0] * 4, a=[1.0] * 4, b=[1.5] * 4)
    assert (result.status, result.size, result.unit) == ("passed", "target", "GFLOP/s")
    assert result.original == Timing(2.0, 0.0, None, 4.0, (2.0,) * 4)
    assert result.candidates["a"].speedup == 2.0 and result.candidates["a"].rate == 8.0
    assert result.original is not None and fastest(result.original, result.candidates) == "a"
    assert "Fake GPU" in result.device


def test_a_gain_within_the_spread_keeps_the_original() -> None:
    noisy = timed(case(), base=[1.0, 1.1, 1.2, 1.3], a=[1.0, 1.1, 1.15, 1.2])
    assert noisy.status == "failed" and "spread" in noisy.reason and noisy.unit == "ms"
    assert noisy.candidates["a"].speedup is not None and noisy.candidates["a"].rate is None
    assert timed(case(), base=[1.0] * 3, a=[1.0] * 3).status == "failed"
    assert timed(case(), base=[1.0] * 3, a=[2.0] * 3).status == "failed"
    assert timed(case(), base=[1.0] * 3).status == "failed"


def test_bandwidth_is_the_rate_of_kernels_without_flops() -> None:
    result = timed(case(bytes=3_000_000), base=[1.5] * 2, a=[1.0] * 2)
    assert result.unit == "GB/s" and result.original is not None and result.original.rate == 2.0


def test_candidates_that_do_not_fit_are_left_out() -> None:
    result = timed(case(), shared={"a": 300_000}, base=[2.0] * 2, a=[0.1] * 2, b=[1.0] * 2)
    assert set(result.candidates) == {"b"} and "a: TP352" in result.reason and result.status == "passed"
    assert timed(case(), shared={"base": 300_000}, base=[2.0] * 2, a=[1.0] * 2).status == "unknown"


def test_no_gpu_and_faults_are_unknown() -> None:
    loaded: Any = None
    nothing = benchmark(None, Contender(loaded, case()), {}, case())
    assert nothing.status == "unknown" and "no GPU" in nothing.reason
    driver = FakeDriver(k=lambda *_: 1.0)
    device = CudaDevice(driver, FakeToolchain())
    kernel = device.load(Unit("", "k.cu", "k"), "sm_90")
    assert isinstance(kernel, CudaKernel)
    driver.fail["wait"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    data = case()
    result = benchmark(device, Contender(kernel, data), {}, data)
    assert result.status == "unknown" and "TP353" in result.reason


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=40))
def test_summaries_are_order_statistics(samples: list[float]) -> None:
    timing = summarise(samples, case())
    assert timing.median_ms == pytest.approx(float(np.median(samples)))
    assert 0 <= timing.spread * timing.median_ms <= max(samples) - min(samples) + 1e-9
    assert timing == replace(summarise(sorted(samples), case()), samples_ms=tuple(samples))
    assert not beats(timing, timing)


def entry(original: float, **candidates: float) -> Benchmark:
    base = Timing(original, 0.01)
    return Benchmark(
        "passed", original=base, candidates={n: Timing(v, 0.01, original / v) for n, v in candidates.items()}
    )


def test_best_worst_case_over_sizes() -> None:
    steady, moody = entry(1.0, a=0.8, b=0.5), entry(1.0, a=0.85, b=1.07)
    assert best_worst_case([steady, moody]) == "a"
    assert best_worst_case([steady]) == "b"
    assert best_worst_case([entry(1.0, a=0.995)]) is None
    assert best_worst_case([]) is None and best_worst_case([Benchmark("unknown")]) is None
    assert best_worst_case([steady, entry(1.0)]) is None
