"""Kernels that invite a wrong pipeline: refused with a code, or exact in every form that is emitted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.rewrite.harness import FORMS, Kernel, candidate, snippet, tile_counts, with_dynamic

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.model import KernelModel
from tilepipe.plan.types import Candidate

_FEW = (candidate("ldg", 2), candidate("cp_async", 3), candidate("ldg", 2, "textbook"))
_SAME = "the original shows the same kinds of findings"
_MORE = (*FORMS, with_dynamic(candidate("ldg", 2)), with_dynamic(candidate("cp_async", 3)))


def _cases() -> dict[str, tuple[str, str, str]]:
    """Expected answer, text before the kernel and body, by name."""
    text = (Path(__file__).parent / "suspicious.cu").read_text()
    found = {}
    for part in re.split(r"^//// (?=\w+: )", text, flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        name, expected = title.split(": ")
        head, _, body = rest.rpartition("//// body\n")
        assert name not in found, name
        found[name] = (expected, head, body.rstrip())
    return found


def _is_code(expected: str) -> bool:
    return expected.startswith("TP") and expected != "TP150"


CASES = _cases()
EXACT = [name for name, case in CASES.items() if case[0] == "exact"]


def _kernel(name: str, folder: Path) -> Kernel:
    _, head, body = CASES[name]
    return snippet(body, folder, head)


def _assert_exact(kernel: Kernel, forms: tuple[Candidate, ...], tiles: tuple[int, ...]) -> None:
    made = {form.id: kernel.emit(form) for form in forms}
    emitted = {name: one for name, one in made.items() if not isinstance(one, Refusal)}
    assert {one.diagnostics[0].code for one in made.values() if isinstance(one, Refusal)} <= {"TP150"}
    wrong = {name: kernel.difference(one, tile_counts(tiles)) for name, one in emitted.items()}
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case[0] == "one buffer"])
def test_only_prefetch_keeps_a_stale_rest(name: str, tmp_path: Path) -> None:
    """Stages would change what an earlier tile left; the one buffer, refilled from registers, is exact."""
    kernel = _kernel(name, tmp_path)
    model = kernel.model
    assert isinstance(model, KernelModel) and model.one_buffer is not None
    assert model.one_buffer.diagnostics[0].code == "TP022"
    staged = [form for form in _MORE if form.variant != "prefetch"]
    assert all(isinstance(kernel.emit(form), Refusal) for form in staged)
    prefetch = next(form for form in _MORE if form.variant == "prefetch")
    made = kernel.emit(prefetch)
    assert not isinstance(made, Refusal)
    # Some of these read what nobody wrote, in the original too.
    assert kernel.difference(made, tile_counts((0, 1, 2, 5))) in ("", "passed ; unknown " + _SAME)


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if _is_code(case[0])])
def test_refused(name: str, tmp_path: Path) -> None:
    answer = _kernel(name, tmp_path).model
    assert isinstance(answer, Refusal)
    assert answer.diagnostics[0].code == CASES[name][0]
    assert answer.exit_code == 1


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case[0] == "TP150"])
def test_no_form_can_be_emitted(name: str, tmp_path: Path) -> None:
    kernel = _kernel(name, tmp_path)
    answers = [kernel.emit(form) for form in _MORE]
    assert all(isinstance(a, Refusal) and a.diagnostics[0].code == "TP150" for a in answers)


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str, tmp_path: Path) -> None:
    """One form of each, in turn; the large tier has them all."""
    turn = EXACT.index(name) % len(_FEW)
    _assert_exact(_kernel(name, tmp_path), (_FEW[turn],), (0, 1, 2, 5))


@pytest.mark.full
@pytest.mark.parametrize("name", EXACT)
def test_exact_in_every_form(name: str, tmp_path: Path) -> None:
    kernel = _kernel(name, tmp_path)
    emitted = [form for form in _MORE if not isinstance(kernel.emit(form), Refusal)]
    assert emitted
    _assert_exact(kernel, _MORE, (0, 1, 2, 3, 4, 7))
