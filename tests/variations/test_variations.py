"""What changes nothing in a kernel's meaning changes nothing in what the tool makes of it.

Every kernel of the zoo and every example under every transform: the same candidates or the same refusal, and the same
results bit for bit. All of them are in the `full` tier, a fixed sample in CI.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tests.variations.transforms import TRANSFORMS

from tilepipe.builds import Built, build_candidate, verify_candidate
from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.kernel.file import CudaFile
from tilepipe.opening import open_job
from tilepipe.options import Options
from tilepipe.plan.types import Candidate
from tilepipe.source import SourceFile

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "tests" / "zoo").glob("*.cu"), *(ROOT / "examples").glob("*.cu")])
CANDIDATES = (
    Candidate("cp_async-3-ring", "cp_async", 3, "ring"),
    Candidate("ldg-2-ring", "ldg", 2, "ring"),
    Candidate("mixed-2-ring", "mixed", 2, "ring"),
    Candidate("stash-3-ring", "stash", 3, "ring"),
)
SAMPLE = (
    ("sgemm_outer84", "rename_locals"),
    ("sgemm_copyloop", "spelled_steps"),
    ("attn_rowblock", "reformat"),
    ("linear_bf16_mma", "barrier_macro"),
    ("qgemm_dp4a", "while_loops"),
    ("graph_walk", "rename_locals"),
    ("codebook_mv", "shuffled_declarations"),
    ("hgemm_wmma", "braces"),
)


def kernels() -> list[tuple[Path, str]]:
    return [(f, k.name) for f in FILES for k in CudaFile(SourceFile(f.name, f.read_text())).kernels]


def variations() -> list[tuple[Path, str, str]]:
    return [
        (path, kernel, name)
        for path, kernel in kernels()
        for name, transform in TRANSFORMS.items()
        if transform(path.read_text()) is not None
    ]


ALL = variations()


def job(path: Path, kernel: str, text: str | None = None) -> Job:
    opened = open_job(str(path), Options(device="cpu", kernel=kernel))
    assert not isinstance(opened, Refusal), opened
    if text is None:
        return opened
    file = CudaFile(SourceFile(opened.path, text))
    return replace(opened, file=file, kernel=next(k for k in file.kernels if k.name == kernel))


def outcome(opened: Job) -> tuple[str, ...] | list[Built]:
    """The refusal's code, or the candidates that can be built."""
    model = opened.model
    if isinstance(model, Refusal):
        return (model.diagnostics[0].code,)
    made = [build_candidate(opened, model, c) for c in CANDIDATES]
    return [b for b in made if not isinstance(b, Refusal)]


@cache
def expected(path: Path, kernel: str) -> tuple[str, ...]:
    found = outcome(job(path, kernel))
    return found if isinstance(found, tuple) else tuple(b.candidate.id for b in found)


def examine(path: Path, kernel: str, name: str) -> None:
    text = TRANSFORMS[name](path.read_text())
    assert text is not None
    changed = job(path, kernel, text)
    found = outcome(changed)
    ids = found if isinstance(found, tuple) else tuple(b.candidate.id for b in found)
    assert ids == expected(path, kernel), text
    if isinstance(found, tuple) or not found or changed.problem is None:
        return
    # The author's own text is the original: the varied and pipelined kernel must equal it bit for bit.
    sizes = {n: s for n, s in changed.problem.sizes.items() if n in ("ragged", "short1", "short2")}
    original = job(path, kernel)
    correctness, races = verify_candidate(original, original.device, found[0], sizes)
    assert correctness.status == "passed", correctness
    assert races.status == "passed", races


def test_there_are_two_hundred_variations() -> None:
    assert len(ALL) >= 200


@pytest.mark.parametrize(("kernel", "name"), SAMPLE)
def test_a_sample_of_variations(kernel: str, name: str) -> None:
    path = next(p for p, k in kernels() if k == kernel)
    examine(path, kernel, name)


@pytest.mark.full
@pytest.mark.parametrize(("path", "kernel", "name"), ALL, ids=lambda v: v.stem if isinstance(v, Path) else v)
def test_every_variation(path: Path, kernel: str, name: str) -> None:
    examine(path, kernel, name)
