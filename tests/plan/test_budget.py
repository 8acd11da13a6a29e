"""Budget rows, the ratio by its formula, and what the time model must say whatever the numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilepipe.gpu import ARCHS, occupancy
from tilepipe.plan.budget import (
    L2_BYTES_PER_CLOCK,
    LOAD_LATENCY_CYCLES,
    TileWork,
    budget,
    compute_cycles,
    compute_load_ratio,
    load_cycles,
    predicted_speedup,
    ratio_class,
    stages_to_hide_latency,
    staging_registers,
    tile_ratio,
    tiles_per_cycle,
)
from tilepipe.plan.types import BudgetRow

SM_90, SM_86 = ARCHS["sm_90"], ARCHS["sm_86"]
archs = st.sampled_from(list(ARCHS.values()))
works = st.builds(
    TileWork,
    st.integers(64, 1 << 16),
    st.integers(0, 1 << 22),
    st.sampled_from(["fp32", "int32", "mma_fp16", "mma_int8"]),
    st.floats(0.5, 200),
)


def test_a_staged_buffer_is_added_per_stage() -> None:
    rows = budget(SM_86, 256, 64, static_shared=20_000, staged_bytes=16_384, dynamic_shared=512, max_stages=4)
    assert [r.stages for r in rows] == [1, 2, 3, 4]
    assert [r.shared_bytes for r in rows] == [20_512 + 16_384 * i for i in range(4)]
    for row in rows:
        fit = occupancy(SM_86, 256, 64, row.shared_bytes)
        assert (row.blocks_per_sm, row.warps_per_sm, row.limit) == (fit.blocks, fit.warps, fit.limit)


def test_the_classic_cliff() -> None:
    """Doubling 28 KB on sm_86 leaves one block of three; 24 KB keep two."""
    rows = budget(SM_86, 128, 32, static_shared=28 << 10, staged_bytes=28 << 10, max_stages=4)
    assert [r.blocks_per_sm for r in rows] == [3, 1, 1, 0]
    assert rows[3].limit == "shared"
    assert (
        budget(SM_86, 128, 32, static_shared=24 << 10, staged_bytes=24 << 10, max_stages=2)[1].blocks_per_sm
        == 2
    )


def test_impossible_stagings_are_bugs() -> None:
    with pytest.raises(ValueError):
        budget(SM_90, 128, 32, static_shared=10, staged_bytes=11, max_stages=2)


def test_ratio_by_hand() -> None:
    assert tile_ratio(64, 64, 32, 1) == 64.0
    assert tile_ratio(32, 32, 32, 4) == 8.0
    assert tile_ratio(128, 64, 7, 2) == pytest.approx(2 * 128 * 64 / ((128 + 64) * 2))
    assert [ratio_class(v) for v in (None, 4.99, 5, 20, 20.01)] == [
        "unknown",
        "low",
        "middle",
        "middle",
        "high",
    ]


@given(st.integers(1, 256), st.integers(1, 256), st.integers(1, 256), st.sampled_from([1, 2, 4, 8]))
def test_ratio_does_not_depend_on_depth(bm: int, bn: int, bk: int, size: int) -> None:
    assert tile_ratio(bm, bn, bk, size) == pytest.approx(tile_ratio(bm, bn, 1, size))


@given(st.integers(0, 1 << 17), st.integers(1, 1024))
def test_staging_registers_hold_the_tile(size: int, threads: int) -> None:
    registers = staging_registers(size, threads)
    assert registers * 4 * threads >= size > (registers - 1) * 4 * threads


def test_cycles_by_hand() -> None:
    work = TileWork(bytes=4700, fma=12_800, unit="fp32")
    dram = 4800e9 / (132 * 1.98e9)
    assert load_cycles(SM_90, work) == pytest.approx(4700 / dram)
    assert load_cycles(SM_90, TileWork(4700, 0, "fp32", reuse=1000)) == pytest.approx(
        4700 / L2_BYTES_PER_CLOCK
    )
    assert compute_cycles(SM_90, work) == pytest.approx(100.0)
    assert compute_cycles(ARCHS["sm_75"], TileWork(1, 1, "mma_tf32")) is None


def test_latency_bound_kernels_gain_until_something_else_binds() -> None:
    """One block, little math: two stages nearly double the rate; eight resident blocks leave nothing to
    gain."""
    work = TileWork(bytes=1024, fma=1024, unit="fp32", reuse=64)
    one = [BudgetRow(s, 0, 1, 8, "shared") for s in (1, 2, 3)]
    assert predicted_speedup(SM_90, work, 256, one[0], one[1]) == pytest.approx(2.0)
    assert predicted_speedup(SM_90, work, 256, one[0], one[2]) == pytest.approx(3.0)
    bandwidth = TileWork(bytes=16_384, fma=1024, unit="fp32")
    many = [BudgetRow(s, 0, 8, 64, "shared") for s in (1, 2)]
    assert predicted_speedup(SM_90, bandwidth, 256, many[0], many[1]) == pytest.approx(1.0)


def test_losing_blocks_can_cost_more_than_stages_bring() -> None:
    work = TileWork(bytes=28 << 10, fma=200_000, unit="fp32", reuse=16)
    before, after = BudgetRow(1, 28 << 10, 3, 12, "shared"), BudgetRow(2, 56 << 10, 1, 4, "shared")
    speedup = predicted_speedup(SM_86, work, 128, before, after)
    assert speedup is not None and speedup < 1


@settings(max_examples=300, deadline=None)
@given(archs, works, st.integers(32, 1024), st.integers(1, 16), st.integers(1, 8))
def test_the_model_is_monotone_and_bounded(arch, work, threads, blocks, stages) -> None:  # type: ignore[no-untyped-def]
    rate = tiles_per_cycle(arch, work, threads, blocks, stages)
    assert rate is not None and rate > 0
    assert rate <= tiles_per_cycle(arch, work, threads, blocks + 1, stages) * (1 + 1e-9)
    assert rate <= tiles_per_cycle(arch, work, threads, blocks, stages + 1) * (1 + 1e-9)
    assert rate <= 1 / load_cycles(arch, work) * (1 + 1e-9)
    assert rate * LOAD_LATENCY_CYCLES <= blocks * stages
    same = BudgetRow(stages, 0, blocks, 1, "shared")
    assert predicted_speedup(arch, work, threads, same, same) == 1.0


def test_unknown_is_none() -> None:
    tf32 = TileWork(1024, 1024, "mma_tf32")
    row, dead = BudgetRow(1, 0, 2, 8, "shared"), BudgetRow(2, 0, 0, 0, "shared")
    assert predicted_speedup(ARCHS["sm_75"], tf32, 128, row, row) is None
    assert predicted_speedup(SM_90, tf32, 128, row, dead) is None
    assert stages_to_hide_latency(SM_90, tf32, 128, [dead]) is None
    assert compute_load_ratio(SM_90, None, row).cls == "unknown"
    assert compute_load_ratio(SM_90, TileWork(0, 1, "fp32"), row).flops_per_byte is None


def test_fewest_sufficient_stages() -> None:
    work = TileWork(
        bytes=1024, fma=25_600, unit="fp32", reuse=64
    )  # 702 cycles from request to result, 200 of math: four in flight
    rows = [BudgetRow(s, 0, 1, 8, "shared") for s in range(1, 7)]
    assert stages_to_hide_latency(SM_90, work, 256, rows) == 4
    assert (
        stages_to_hide_latency(SM_90, work, 256, [BudgetRow(s, 0, 8, 64, "shared") for s in range(1, 7)]) == 1
    )


def test_reasons() -> None:
    work = TileWork(bytes=4096, fma=64 * 64 * 32, unit="mma_int8")
    ratio = compute_load_ratio(SM_90, work, BudgetRow(1, 4096, 10, 40, "registers"))
    assert ratio.flops_per_byte == 64.0 and ratio.cls == "high"
    assert "loading a tile takes longer" in ratio.reasons[0] and "classic rule" in ratio.reasons[-1]
    few = compute_load_ratio(SM_90, work, BudgetRow(1, 4096, 1, 4, "shared"))
    assert "only 4 warps" in few.reasons[-1]
