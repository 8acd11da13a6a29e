import os
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilepipe.cli import output
from tilepipe.cli.output import TextStyle, replace_in_place, unified_diff, write_file
from tilepipe.diagnostics import Refusal


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(result: object) -> str:
    assert isinstance(result, Refusal)
    assert result.exit_code == 2
    return result.diagnostics[0].code


@pytest.mark.parametrize(
    ("data", "style"),
    [
        (b"", TextStyle()),
        (b"a\nb\n", TextStyle()),
        (b"a\r\nb\r\n", TextStyle(crlf=True)),
        (b"a\r\nb\n", TextStyle()),
        (b"\xef\xbb\xbfa\r\n", TextStyle(bom=True, crlf=True)),
    ],
)
def test_styles(data: bytes, style: TextStyle) -> None:
    assert TextStyle.of(data) == style


def test_new_lines_take_the_endings_of_the_file() -> None:
    assert TextStyle(crlf=True).encode("a\r\nnew\nb\r\n") == b"a\r\nnew\r\nb\r\n"
    assert TextStyle().encode("a\r\nnew\nb\n") == b"a\r\nnew\nb\n"


def test_the_byte_order_mark_stays_one() -> None:
    assert TextStyle(bom=True).encode("a") == TextStyle(bom=True).encode("\ufeffa") == b"\xef\xbb\xbfa"


@given(st.binary(max_size=60))
def test_unchanged_text_comes_out_as_it_was(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    assert TextStyle.of(data).encode(text) == data


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        assert write_file(str(tmp_path / "new.cu"), b"x") is None
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new.cu").stat().st_mode) == 0o640
    assert names(tmp_path) == ["new.cu"]


def test_an_existing_file_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    real, link = tmp_path / "real.cu", tmp_path / "link.cu"
    real.write_bytes(b"old")
    real.chmod(0o755)
    link.symlink_to(real.name)
    assert write_file(str(link), b"new") is None
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o755


@pytest.mark.parametrize("where", ["missing/a.cu", "folder"])
def test_what_cannot_be_written_is_said(tmp_path: Path, where: str) -> None:
    (tmp_path / "folder").mkdir()
    assert refused(write_file(str(tmp_path / where), b"x")) == "TP142"
    assert names(tmp_path) == ["folder"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_device_is_said() -> None:
    assert refused(write_file("/dev/full", b"x" * 10_000)) == "TP142"


def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert write_file(str(pipe), b"through") is None
    assert os.read(reader, 100) == b"through"
    os.close(reader)


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_on_the_way_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    path = tmp_path / "a.cu"
    path.write_bytes(b"old")

    def fail(handle: int) -> None:
        raise failure

    monkeypatch.setattr(output.os, "fsync", fail)
    if isinstance(failure, OSError):
        assert refused(replace_in_place(str(path), b"new")) == "TP142"
        assert names(tmp_path) == ["a.cu"]
    else:
        with pytest.raises(KeyboardInterrupt):
            write_file(str(path), b"new")
        assert names(tmp_path) == ["a.cu"]
    assert path.read_bytes() == b"old"


def test_a_backup_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.cu"
    path.write_bytes(b"1")
    path.chmod(0o640)
    assert replace_in_place(str(path), b"2") == f"{path}.bak"
    assert replace_in_place(str(path), b"3") == f"{path}.bak1"
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"3", b"1", b"2"]
    assert stat.S_IMODE((tmp_path / "a.cu.bak").stat().st_mode) == 0o640


TEXT = st.lists(st.sampled_from(["a", "b", "c", "\f", ""]), max_size=8).map("\n".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(before=TEXT, after=TEXT)
def test_patch_takes_our_diffs(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "k.cu").write_text(before, encoding="utf-8", newline="")
    diff = unified_diff(before, after, "k.cu")
    assert bool(diff) == (before != after)
    if diff:
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"],
            input=diff.encode(),
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        got = (tmp_path / "k.cu").read_text(encoding="utf-8") if (tmp_path / "k.cu").exists() else ""
        assert got == after


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused = write_file(str(pipe), b"source")
    assert isinstance(refused, Refusal) and "nobody reads this pipe" in refused.diagnostics[0].message
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert write_file(str(pipe), b"source") is None
    assert os.read(reading, 99) == b"source"
    os.close(reading)
