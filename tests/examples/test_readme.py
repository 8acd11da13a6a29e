"""README.md shows what its command prints, but for the tables that it says are left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilepipe.cli.main import main

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("budget", "not built", "bank conflicts", "SASS")


def sections(text: str) -> list[str]:
    return [part for part in text.strip().split("\n\n") if not part.startswith(LEFT_OUT)]


def test_what_comes_out_is_what_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^`tilepipe (run [^`]+)`;.*?^```\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert found is not None
    compiler = re.search(r"nvrtc [\d.]+", found[2])
    monkeypatch.chdir(ROOT)
    assert main(found[1].split()) == 0
    printed = capsys.readouterr().out
    assert compiler is not None
    if compiler[0] not in printed:
        pytest.skip(f"{compiler[0]} made what is shown")
    assert sections(printed) == sections(found[2])
