"""Properties of the emitted forms: a machine that runs prologue, main loop and epilogue, step by step.

The programs below are the emitted loops with their copies replaced by records. A copy may land when it is issued or as
late as its wait allows, so a stage is right only if it is right at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rewrite.harness import candidate, snippet

from tilepipe.rewrite import Rewrite
from tilepipe.source import Edit, Span, apply_edits


@dataclass
class Machine:
    """Stages with the tile that each holds (None: nothing yet, -1: in flight), and groups not yet waited for."""

    stages: int
    held: list[int | None] = field(init=False)
    groups: list[list[tuple[int, int]]] = field(default_factory=list)  # committed, in order
    open: list[tuple[int, int]] = field(default_factory=list)
    committed: int = 0
    computed: list[int] = field(default_factory=list)
    reading: int | None = None  # the stage that slow threads may still read: no barrier since

    def __post_init__(self) -> None:
        self.held = [None] * self.stages

    def copy(self, stage: int, tile: int) -> None:
        assert 0 <= stage < self.stages
        assert stage != self.reading, "overwritten while it is read"
        self.held[stage] = -1
        self.open.append((stage, tile))

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []
        self.committed += 1

    def wait(self, newest: int) -> None:
        while len(self.groups) > newest:
            for stage, tile in self.groups.pop(0):
                self.held[stage] = tile

    def barrier(self) -> None:
        self.reading = None

    def compute(self, stage: int, tile: int) -> None:
        assert self.held[stage] == tile, f"stage {stage} holds {self.held[stage]}, not tile {tile}"
        self.computed.append(tile)
        self.reading = stage


def run_ring(stages: int, tiles: int) -> Machine:
    """The ring of asynchronous copies, as `forms.py` emits it."""
    m = Machine(stages)
    ahead = 0
    for s in range(stages - 1):
        if ahead < tiles:
            m.copy(s, ahead)
            ahead += 1
        m.commit()
    stage = 0
    for tile in range(tiles):
        m.wait(stages - 2)
        m.barrier()
        if ahead < tiles:
            m.copy(stages - 1 if stage == 0 else stage - 1, ahead)
            ahead += 1
        m.commit()
        m.compute(stage, tile)
        stage = 0 if stage + 1 == stages else stage + 1
    m.wait(0)
    return m


def run_textbook(tiles: int) -> Machine:
    """Two buffers, the last tile peeled."""
    m = Machine(2)
    ahead = 0
    if ahead < tiles:
        m.copy(0, ahead)
        ahead += 1
    m.commit()
    m.wait(0)
    m.barrier()
    stage = tile = 0
    while ahead < tiles:
        m.copy(stage ^ 1, ahead)
        ahead += 1
        m.commit()
        m.compute(stage, tile)
        m.wait(0)
        m.barrier()
        stage ^= 1
        tile += 1
    if tile < tiles:
        m.compute(stage, tile)
    return m


@pytest.mark.parametrize("stages", range(2, 9))
def test_a_ring_computes_every_tile_once_from_its_stage(stages: int) -> None:
    for tiles in range(stages + 3):
        m = run_ring(stages, tiles)
        assert m.computed == list(range(tiles))
        assert m.committed == stages - 1 + tiles, "a group per stage and per turn, empty or not"
        assert m.groups == [] and m.open == [], "nothing in flight at the end"


def test_the_textbook_form_computes_every_tile_once() -> None:
    for tiles in range(6):
        m = run_textbook(tiles)
        assert m.computed == list(range(tiles))
        assert m.groups == []


@pytest.mark.parametrize("fault", ["wait", "barrier", "stage"])
def test_the_machine_sees_a_fault(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "wait":
        monkeypatch.setattr(Machine, "wait", lambda self, newest: None)
    elif fault == "barrier":
        monkeypatch.setattr(Machine, "barrier", lambda self: None)
    else:
        right = Machine.copy
        monkeypatch.setattr(Machine, "copy", lambda self, s, t: right(self, (s + 1) % self.stages, t))
    with pytest.raises(AssertionError):
        run_ring(3, 6)


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_the_emitted_ring_is_the_program_of_the_machine(stages: int, tmp_path) -> None:  # type: ignore[no-untyped-def]
    body = """\
    __shared__ float s[128];
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = a[k * 128 + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i)
            sum += s[i];
        __syncthreads();
    }
    c[threadIdx.x] = sum;"""
    made = snippet(body, tmp_path).emit(candidate("cp_async", stages))
    assert isinstance(made, Rewrite)
    kernel = made.text[made.text.index("__global__") :]
    program = [
        f"constexpr int TP_STAGES = {stages};",
        "for (int tp_s = 0; tp_s < TP_STAGES - 1; ++tp_s) {",
        "if (k_next < n)", "tp_load(tp_s);", "tp_commit();",
        "int tp_stage = 0;",
        "tp_wait<TP_STAGES - 2>();", "__syncthreads();",
        "if (k_next < n)", "tp_load(tp_stage == 0 ? TP_STAGES - 1 : tp_stage - 1);", "tp_commit();",
        "auto& s = s_ring[tp_stage];",
        "sum += s[i];",
        "tp_stage = tp_stage + 1 == TP_STAGES ? 0 : tp_stage + 1;",
        "tp_wait<0>();",
    ]  # fmt: skip
    at = 0
    for line in program:
        at = kernel.index(line, at) + len(line)
    assert kernel.count("__syncthreads();") == 1
    assert kernel.count("tp_commit();") == 2


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.text(max_size=5))))
def test_edits_touch_nothing_else(text: str, wanted: list[tuple[int, int, str]]) -> None:
    """Text outside the edited spans stays, in order; with no edits, all of it."""
    edits = []
    at = 0
    for a, b, new in sorted(wanted):
        start, end = sorted((min(a, len(text)), min(b, len(text))))
        if start < at:
            continue
        edits.append((start, end, new))
        at = end
    encoded = [
        Edit(Span(len(text[:start].encode()), len(text[:end].encode())), new) for start, end, new in edits
    ]
    expected = ""
    at = 0
    for start, end, new in sorted(edits, key=lambda e: (e[0], e[1])):
        expected += text[at:start] + new
        at = end
    assert apply_edits(text, encoded) == expected + text[at:]
