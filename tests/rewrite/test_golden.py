"""Emitted files as they are read by people: compared to the letter, and executed against the original.

`pytest tests/rewrite --update-golden` writes them anew; look at the difference before committing it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewrite.harness import EXAMPLES, ZOO, Kernel, parse_candidate, zoo_kernel

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.model import study
from tilepipe.rewrite import Rewrite
from tilepipe.source import SourceFile

GOLDEN = Path(__file__).parent / "golden"
FILES = [
    (EXAMPLES, "sgemm_tiled", "ldg-2-textbook"),
    (EXAMPLES, "igemm_wmma", "ldg-2-ring"),
    (EXAMPLES, "hgemm_wmma", "cp_async-3-ring"),
    (ZOO, "sgemm_copyloop", "cp_async-2-textbook"),
    (ZOO, "attn_rowblock", "cp_async-3-ring"),
    (ZOO, "w8a16_groups", "mixed-2-ring"),
    (ZOO, "w8a16_groups", "stash-4-ring"),
    (ZOO, "sgemm_outer84", "stash-2-ring"),
    (ZOO, "linear_bf16_mma", "cp_async-4-ring"),
    (ZOO, "sgemm_descend", "cp_async-3-ring"),
    (ZOO, "conv_igemm", "prefetch-1-ring"),
    (ZOO, "batch_loop_gemm", "ldg-2-ring"),
    (ZOO, "hgemm_widen", "ldg-2-textbook"),
    (EXAMPLES, "hgemm_mma", "cp_async-4-ring-frags-spread"),
    (EXAMPLES, "sgemm_tiled", "ldg-2-ring-frags"),
]
IDS = [f"{name}.{form}" for _, name, form in FILES]
_QUICK = (1, 5, 6, 8, 13)  # those executed in every run


def made(folder: Path, name: str, form: str) -> tuple[Kernel, Rewrite]:
    kernel = zoo_kernel(folder / f"{name}.cu")
    answer = kernel.emit(parse_candidate(form))
    assert isinstance(answer, Rewrite), answer
    return kernel, answer


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_the_emitted_file_is_as_recorded(file: tuple[Path, str, str], request: pytest.FixtureRequest) -> None:
    _, emitted = made(*file)
    path = GOLDEN / f"{file[1]}.{file[2]}.cu"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(emitted.text)
    assert emitted.text == path.read_text()


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_the_recorded_file_is_not_pipelined_again(file: tuple[Path, str, str]) -> None:
    """Whatever the form: register staging and prefetching too, told by their flow and not by their names."""
    text = (GOLDEN / f"{file[1]}.{file[2]}.cu").read_text().replace("tp_", "my_").replace("TP_", "MY_")
    parsed = CudaFile(SourceFile("again.cu", text))
    answer = study(parsed, next(k for k in parsed.kernels if k.name == file[1]))
    assert isinstance(answer, Refusal)
    assert answer.diagnostics[0].code == "TP002"


def compare(file: tuple[Path, str, str]) -> str:
    kernel, emitted = made(*file)
    sizes = {name: size for name, size in kernel.problem.sizes.items() if name != "target"}
    return kernel.difference(emitted, sizes)


@pytest.mark.parametrize("file", [FILES[i] for i in _QUICK], ids=[IDS[i] for i in _QUICK])
def test_the_emitted_file_equals_the_original(file: tuple[Path, str, str]) -> None:
    assert compare(file) == ""


@pytest.mark.full
@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_emitted_file_equals_the_original(file: tuple[Path, str, str]) -> None:
    assert compare(file) == ""
