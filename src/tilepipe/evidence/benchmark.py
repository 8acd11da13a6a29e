"""Timing as evidence: medians, spread, rates, and whether anything beats the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilepipe.diagnostics import Refusal
from tilepipe.evidence.types import Benchmark, Timing
from tilepipe.launch.gpu import Contender, CudaDevice
from tilepipe.problem import Case

ROUNDS = 50
_ORIGINAL = "original"


def benchmark(
    device: CudaDevice | None,
    original: Contender,
    candidates: Mapping[str, Contender],
    case: Case,
    rounds: int = ROUNDS,
    controls: Mapping[str, Contender] | None = None,
) -> Benchmark:
    """Time the original and every candidate, interleaved and with a cold L2, on the arrays of `case`.

    passed: a candidate beats the original by more than the spread; failed: none does, keep the original;
    unknown: nothing could be timed. Candidates that do not launch are left out and named in `reason`.
    """
    if device is None:
        return Benchmark("unknown", case.size, reason="no GPU on this machine")
    running: dict[str, Contender] = {}
    left_out: list[str] = []
    for name, contender in {_ORIGINAL: original, **candidates, **(controls or {})}.items():
        refused = contender.kernel.allow_shared(contender.case.shared)
        if refused is None:
            running[name] = contender
        elif name == _ORIGINAL:
            return Benchmark("unknown", case.size, device=device.name, reason=_words(refused))
        else:
            left_out.append(f"{name}: {_words(refused)}")
    samples = device.time_interleaved(running, case, rounds)
    if isinstance(samples, Refusal):
        return Benchmark("unknown", case.size, device=device.name, reason=_words(samples))
    base = summarise(samples.pop(_ORIGINAL), case)
    timed = {name: summarise(values, case, base) for name, values in samples.items()}
    timings = {name: t for name, t in timed.items() if name in candidates}
    winner = fastest(base, timings)
    if winner is None:
        left_out.append("no candidate beats the original by more than the spread")
    return Benchmark(
        "failed" if winner is None else "passed",
        case.size,
        "GFLOP/s" if case.flops else "GB/s" if case.bytes else "ms",
        base,
        timings,
        device.name,
        "; ".join(left_out),
        {name: t for name, t in timed.items() if name not in candidates},
    )


def _words(refusal: Refusal) -> str:
    return f"{refusal.diagnostics[0].code} {refusal.diagnostics[0].message}"


def summarise(samples_ms: Sequence[float], case: Case, original: Timing | None = None) -> Timing:
    """Median, interquartile range ÷ median, speed-up over `original`, and rate: 10⁹ FLOP per second where the
    problem states its work, else 10⁹ bytes per second where it states its traffic."""
    low, median, high = (float(q) for q in np.percentile(np.asarray(samples_ms), (25, 50, 75)))
    work = case.flops or case.bytes
    return Timing(
        median_ms=median,
        spread=(high - low) / median if median > 0 else 0.0,
        speedup=None if original is None or median <= 0 else original.median_ms / median,
        rate=None if not work or median <= 0 else work / median / 1e6,
        samples_ms=tuple(samples_ms),
    )


def beats(original: Timing, candidate: Timing) -> bool:
    """Whether the candidate is faster by more than the larger of both spreads."""
    gain = (original.median_ms - candidate.median_ms) / original.median_ms if original.median_ms > 0 else 0.0
    return gain > max(original.spread, candidate.spread)


def fastest(original: Timing, candidates: Mapping[str, Timing]) -> str | None:
    """The candidate with the least median among those that beat the original; None: keep the original."""
    winners = [name for name, timing in candidates.items() if beats(original, timing)]
    return min(winners, key=lambda name: candidates[name].median_ms, default=None)


def best_worst_case(benchmarks: Sequence[Benchmark]) -> str | None:
    """The candidate whose least speed-up over several sizes is greatest; None where that one does not beat
    the original at every size, so that a gain at one size is not paid for at another."""
    timed = [b for b in benchmarks if b.original is not None]
    if not timed:
        return None
    common = set.intersection(*(set(b.candidates) for b in timed))
    least = {name: min(b.candidates[name].speedup or 0.0 for b in timed) for name in sorted(common)}
    name = max(least, key=lambda n: least[n], default=None)
    if name is None or not all(b.original and beats(b.original, b.candidates[name]) for b in timed):
        return None
    return name
