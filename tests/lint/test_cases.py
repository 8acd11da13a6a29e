"""Every kind of finding on small kernels that have it, and silence on their right twins."""

from pathlib import Path

import pytest

from tilepipe.lint import fix, lint
from tilepipe.source import SourceFile

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.glob("TP*/*.cu"))
BAD = [path for path in FILES if path.name.startswith("bad_")]
GOOD = [path for path in FILES if path.name.startswith("good_")]
# Kinds whose remedy changes the algorithm: nothing is edited there.
WITHOUT_FIX = {
    "TP503", "TP507", "TP508", "TP511", "TP512", "TP513", "TP515", "TP516", "TP517", "TP518", "TP520", "TP521", "TP522",
}  # fmt: skip


def source(path: Path) -> SourceFile:
    return SourceFile(str(path), path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", BAD, ids=name)
def test_a_mistake_is_found_and_nothing_else(path: Path) -> None:
    report = lint(source(path))
    assert {f.diagnostic.code for f in report.findings} == {path.parent.name}
    assert report.notes == ()
    for finding in report.findings:
        assert finding.diagnostic.place is not None
        assert finding.diagnostic.label and finding.diagnostic.help


@pytest.mark.parametrize("path", GOOD, ids=name)
def test_a_right_kernel_has_no_finding_and_is_understood(path: Path) -> None:
    report = lint(source(path))
    assert [f.diagnostic for f in report.findings] == []
    assert report.notes == ()


@pytest.mark.parametrize("path", [p for p in BAD if p.parent.name not in WITHOUT_FIX], ids=name)
def test_safe_fixes_leave_a_clean_kernel_where_there_are_any(path: Path) -> None:
    if not any(f.fix for f in lint(source(path)).findings):
        pytest.skip("the mistake stands where no edit is safe")
    fixed, lifted = fix(source(path))
    assert lifted
    assert lint(fixed).findings == ()


def test_every_kind_has_three_cases_of_each() -> None:
    for folder in sorted(CASES.iterdir()):
        for prefix in ("bad_", "good_"):
            assert len(list(folder.glob(f"{prefix}*.cu"))) >= 3, (folder.name, prefix)
    assert len(list(CASES.iterdir())) >= 14
