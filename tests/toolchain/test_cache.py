"""The cache never hands out what was not put in, and never fails its caller."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilepipe.toolchain.cache import Cache, cache_directory, digest

KEY = digest("a", 1)


def entries(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get(KEY) is None
    for value in (b"", b"x", os.urandom(100_000)):
        cache.put(KEY, value)
        assert Cache(tmp_path).get(KEY) == value


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "append"])
def test_a_damaged_entry_is_a_miss_and_is_rewritten(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"value" * 100)
    (path,) = entries(tmp_path)
    data = path.read_bytes()
    changed = {
        "truncate": data[:-7],
        "flip": data[:-1] + bytes([data[-1] ^ 1]),
        "empty": b"",
        "append": data + b"x",
    }[damage]
    path.write_bytes(changed)
    assert cache.get(KEY) is None
    cache.put(KEY, b"again")
    assert cache.get(KEY) == b"again"


def test_an_unusable_directory_only_forgets(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    cache = Cache(blocked / "cache")
    cache.put(KEY, b"value")
    assert cache.get(KEY) is None


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    Cache(tmp_path).put(KEY, b"value")
    assert entries(tmp_path) == []


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    keys = [digest(index) for index in range(8)]
    for age, key in enumerate(keys):
        Cache(tmp_path).put(key, bytes(1000))
        path = tmp_path / key[:2] / key[2:]
        os.utime(path, (1_000_000 + age, 1_000_000 + age))
    assert Cache(tmp_path).get(keys[0]) is not None  # the oldest was just used
    Cache(tmp_path, limit=6000).put(digest("new"), bytes(1000))
    kept = [key for key in keys if Cache(tmp_path).get(key) is not None]
    assert keys[0] in kept
    assert keys[1] not in kept
    assert sum(path.stat().st_size for path in entries(tmp_path)) <= 6000


def _hammer(directory: Path, worker: int) -> bool:
    cache = Cache(directory, limit=40_000)
    for round_ in range(60):
        key = digest(round_ % 7)
        cache.put(key, bytes([round_ % 7]) * 3000)
        found = cache.get(key)
        if found is not None and found != bytes([round_ % 7]) * 3000:
            return False
    return True


def test_parallel_processes_see_whole_entries(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert all(pool.starmap(_hammer, [(tmp_path, worker) for worker in range(4)]))
    assert not [path for path in entries(tmp_path) if path.name.startswith(".writing")]


def test_where_it_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEPIPE_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine"
    monkeypatch.delenv("TILEPIPE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "tilepipe"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_directory() == tmp_path / "home" / ".cache" / "tilepipe"


PARTS = st.lists(st.text(max_size=5) | st.integers() | st.none(), max_size=4)


@given(PARTS, PARTS)
def test_keys_differ_where_parts_do(left: list[object], right: list[object]) -> None:
    assert (digest(*left) == digest(*right)) == (left == right)
