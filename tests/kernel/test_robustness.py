"""Damaged sources: whatever the text, the answer is a value and comes in time."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from tests.rewrite.harness import FORMS

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import Study, build, study
from tilepipe.rewrite import Rewrite, rewrite
from tilepipe.source import SourceFile

ZOO = sorted((Path(__file__).parents[1] / "zoo").glob("*.cu"))
SECONDS = 10.0


def damaged(seed: int) -> str:
    """A zoo source cut short, with pieces deleted, or with pieces or words exchanged."""
    chance = random.Random(seed)
    text = chance.choice(ZOO).read_text()
    for _ in range(chance.randint(1, 4)):
        if not text:
            break
        a, b = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        kind = chance.randrange(4)
        if kind == 0:
            text = text[: max(a, len(text) // 3)]
        elif kind == 1:
            text = text[:a] + text[min(b, a + chance.randint(1, 60)) :]
        elif kind == 2:
            size = min(chance.randint(1, 40), (b - a) // 2)
            text = text[:a] + text[b - size : b] + text[a + size : b - size] + text[a : a + size] + text[b:]
        else:
            words = text.split(" ")
            i, j = chance.randrange(len(words)), chance.randrange(len(words))
            words[i], words[j] = words[j], words[i]
            text = " ".join(words)
    return text


class _Guesses(dict[str, int | str | None]):
    """What a compiler might have said: one answer for each kind of question."""

    def get(self, key: str, default: object = None) -> int | str | None:  # type: ignore[override]
        numbers = {"bound": 64, "array": 64, "threads": 64, "size": 4, "step": 1, "start": 0}
        return numbers.get(key.split(":", maxsplit=1)[0], "float")


def check(seed: int) -> None:
    start = time.process_time()
    file = CudaFile(SourceFile("damaged.cu", damaged(seed)))
    for kernel in file.kernels:
        answer = study(file, kernel)
        assert isinstance(answer, Study | Refusal)
        if isinstance(answer, Refusal):
            assert all(d.code.startswith("TP0") and d.message for d in answer.diagnostics)
            continue
        model = build(answer, _Guesses())
        if isinstance(model, Refusal):
            continue
        for form in FORMS:
            assert isinstance(rewrite(model, form), Rewrite | Refusal)
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_source_gets_an_answer(seed: int) -> None:
    check(seed)


@pytest.mark.full
@pytest.mark.parametrize("hundred", range(20))
def test_damaged_sources_get_answers(hundred: int) -> None:
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        check(seed)
