"""Indices of tiles with one extent: the padded index of an element is its row's new start and its old column."""

from __future__ import annotations

import random

import pytest

from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.flat import Place, Rows, place
from tilepipe.source import SourceFile, apply_edits

LENGTH, MORE, THREADS = 32, 8, 64
KERNEL = """
#define BK 32
__global__ void k(int n)
{{
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    for (int j = 0; j < 16; ++j) {{
        int found = {index};
    }}
}}
"""


def placed(index: str) -> tuple[Place | None, str]:
    """Where an index points, and its text with longer rows."""
    text = KERNEL.format(index=index)
    file = CudaFile(SourceFile("k.cu", text))
    ranges = Ranges(file, file.analyse(file.kernels[0]), THREADS, lambda _: None, file.kernels[0].body.start)
    at = text.index("int found = ") + len("int found = ")
    node = file.tree.root.named_descendant_for_byte_range(at, at + len(index))
    assert node is not None
    found = place(node, node, ranges, Rows(LENGTH, MORE, "BK"))
    changed = apply_edits(text, found.edits) if found is not None else text
    start = changed.index("int found = ") + len("int found = ")
    return found, changed[start : changed.index(";", start)]


def random_index(rng: random.Random) -> str:
    """An index as people write them: row times length and a column in any order, or a number of an element."""
    row = rng.choice(["warp", "j", "(warp * 8 + j)", "(tid / 4)", "lane", "(j + 1)", "2"])
    column = rng.choice(
        ["lane", "tid % 8", "(j & 3) * 8", "tid % 4 * 8 + j % 8", "j", "tid / 8 * 4", "lane + 1", "tid"]
    )
    length = rng.choice(["BK", "32", "BK", "(BK)", "16", "64"])
    forms = [
        f"{row} * {length} + {column}",
        f"{column} + {row} * {length}",
        f"{length} * {row} + {column}",
        f"{row} * {length} + ({column})",
        f"{row} * BK + warp * BK + {column}",
        "tid",
        "tid + j * 64",
        "(j * 64 + tid)",
        f"({row} << 5) + {column}",
        f"{row} << 5",
        f"({row} << 5) | ({column})",
        f"{row} * {length} - 1",
        f"n * BK + {column}",
    ]
    return rng.choice(forms)


@pytest.mark.parametrize("seed", range(300))
def test_the_padded_index_is_the_same_element(seed: int) -> None:
    index = random_index(random.Random(seed))
    found, changed = placed(index)
    if found is None:
        return
    for n in (0, 3):
        for tid in range(THREADS):
            for j in range(16):
                names = {"tid": tid, "lane": tid % 32, "warp": tid // 32, "j": j, "BK": 32, "n": n}
                old = eval(index.replace("/", "//"), {}, names)
                new = eval(changed.replace("/", "//"), {}, names)
                row, column = divmod(old, LENGTH)
                assert new == row * (LENGTH + MORE) + column, (index, changed, names)
                for value, known in ((row, found.row), (column, found.column)):
                    assert known.low is None or known.low <= value
                    assert known.high is None or value <= known.high
                    assert value % known.step == 0 if known.step else value == 0


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("tid", "tid + tid / BK * 8"),
        ("j", "j"),  # never leaves the first row
        ("warp * BK + lane", "warp * (BK + 8) + lane"),
        ("lane + BK * (warp + j)", "lane + (BK + 8) * (warp + j)"),
        ("warp * BK + j * 32 + lane / 4", "warp * (BK + 8) + j * (32 + 8) + lane / 4"),
        ("tid << 2", "(tid << 2) + (tid << 2) / BK * 8"),
        (
            "warp * BK + tid",
            "(warp * BK + tid) + (warp * BK + tid) / BK * 8",
        ),  # the column goes on into the next row
    ],
)
def test_an_index_keeps_its_form_where_it_can(index: str, expected: str) -> None:
    assert placed(index)[1] == expected


@pytest.mark.parametrize("index", ["n", "tid - 1", "n * BK + tid", "j++", "unknown(tid)"])
def test_an_index_that_may_be_negative_or_acts_is_not_taken_apart(index: str) -> None:
    assert placed(index)[0] is None
