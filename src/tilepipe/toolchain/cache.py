"""A content-addressed store of compiler outputs, shared by processes and safe to lose.

An entry is one file named by the SHA-256 of everything that decides its content. Writers write a temporary
file and rename it, so a reader sees a whole entry or none; an entry carries a digest of itself, so a damaged
one is a miss. No failure of the file system reaches the caller: without a usable directory nothing is
remembered.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from functools import lru_cache
from pathlib import Path

_MAGIC = b"tilepipe-cache-1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_DEFAULT_LIMIT = 512 * 2**20
_PRUNE_EVERY = 64  # writes of one process between two looks at the total size


def cache_directory() -> Path:
    """`TILEPIPE_CACHE_DIR`, else `tilepipe` in `XDG_CACHE_HOME`, else `~/.cache/tilepipe`."""
    override = os.environ.get("TILEPIPE_CACHE_DIR")
    if override:
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME")
    # `expanduser` raises where there is no home to be found.
    with contextlib.suppress(RuntimeError):
        return (Path(base) if base else Path("~/.cache").expanduser()) / "tilepipe"
    return Path(tempfile.gettempdir()) / f"tilepipe-{os.getuid()}"


def digest(*parts: object) -> str:
    """The key of JSON-serialisable `parts`; order and structure count."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=256)  # a file's text stands in many keys
def text_digest(text: str) -> str:
    """What stands for a text in a key."""
    return hashlib.sha256(text.encode()).hexdigest()


class Cache:
    """Bytes by key under `directory`, at most about `limit` bytes, the least recently used going first."""

    def __init__(self, directory: Path | None = None, limit: int = _DEFAULT_LIMIT) -> None:
        self._directory = directory if directory is not None else cache_directory()
        self._limit = limit
        self._writes = 0

    def get(self, key: str) -> bytes | None:
        """The value under `key`, or None where there is none that is whole."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        header = len(_MAGIC) + _DIGEST_BYTES
        value = data[header:]
        if data[:header] != _MAGIC + hashlib.sha256(value).digest():
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # recently used
        return value

    def put(self, key: str, value: bytes) -> None:
        """Store `value`; silently nothing where the directory cannot be written."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(value).digest() + value)
                os.replace(temporary, path)
            except OSError:
                Path(temporary).unlink(missing_ok=True)
        if self._writes % _PRUNE_EVERY == 0:
            self._prune()
        self._writes += 1

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / key[2:]

    def _prune(self) -> None:
        """Delete the least recently used entries until three quarters of the limit are left."""
        entries: list[tuple[float, int, Path]] = []
        for path in self._directory.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self._limit:
            return
        for _, size, path in sorted(entries):
            if total <= self._limit * 3 // 4:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
