"""Writing files so that nothing is lost and nothing is half-written."""

from __future__ import annotations

import difflib
import errno
import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tilepipe.diagnostics import Refusal, error

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextStyle:
    """How a file writes its text: with a byte order mark or not, and whether *every* line ends in CRLF."""

    bom: bool = False
    crlf: bool = False

    @staticmethod
    def of(data: bytes) -> TextStyle:
        """The style of a file with this content. Mixed line endings count as LF: they are left alone."""
        newlines = data.count(b"\n")
        return TextStyle(data.startswith(_BOM), newlines > 0 and data.count(b"\r\n") == newlines)

    def encode(self, text: str) -> bytes:
        """`text` as bytes in this style; bytes that were not UTF-8 when read come out as they were."""
        if self.crlf:
            text = re.sub(r"\r?\n", "\r\n", text)
        data = text.encode("utf-8", "surrogateescape")
        return _BOM + data if self.bom and not data.startswith(_BOM) else data


def write_file(path: str, data: bytes) -> Refusal | None:
    """Replace the file at `path` by `data`, whole or not at all.

    The new content is written beside the file and renamed over it, so a full disk or a signal leaves the old
    one. Symbolic links are followed, permissions kept. Devices and pipes are written to directly. TP142 when
    it cannot be written.
    """
    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            _write_stream(path, data)
        else:
            _replace(os.path.realpath(path), data)
    except OSError as failure:
        return _unwritable(path, failure)
    return None


def unwritable(path: str) -> Refusal | None:
    """TP142 where it is plain already that `path` cannot be written, so that no work is done in vain."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    special = os.path.exists(target) and not os.path.isfile(target)
    if os.path.isdir(target):
        reason = os.strerror(errno.EISDIR)
    elif not os.path.isdir(folder):
        reason = os.strerror(errno.ENOENT if not os.path.exists(folder) else errno.ENOTDIR)
    elif (os.path.exists(target) and not os.access(target, os.W_OK)) or not (
        special or os.access(folder, os.W_OK | os.X_OK)
    ):
        reason = os.strerror(errno.EACCES)
    else:
        return None
    return _unwritable(path, OSError(0, reason))


def replace_in_place(path: str, data: bytes) -> str | Refusal:
    """`write_file`, after the old content was saved beside the file; returns the backup's path.

    A backup that exists is never overwritten (it may be the only copy of the true original): the first free
    of `.bak`, `.bak1`, `.bak2`, … is used.
    """
    target = os.path.realpath(path)
    try:
        backup = _copy_beside(target)
    except OSError as failure:
        return _unwritable(path, failure)
    failed = write_file(path, data)
    if failed is not None:
        os.unlink(backup)
        return failed
    return backup


def unified_diff(before: str, after: str, path: str) -> str:
    """The change of the file at `path` as `git apply` and `patch -p1` take it; empty when there is none."""
    name = path.lstrip("/")
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}", n=3, lineterm="\n")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> list[str]:
    """Lines with their ends; unlike `str.splitlines` only a newline ends one (a form feed does not)."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _replace(target: str, data: bytes) -> None:
    folder, name = os.path.split(target)
    mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else 0o666 & ~_umask()
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise PermissionError(f"Permission denied: {target!r}")  # a rename would not ask
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _copy_beside(target: str) -> str:
    """A copy of `target` with its mode and times under the first free backup name."""
    number = 0
    while True:
        backup = f"{target}.bak{number or ''}"
        try:
            with open(target, "rb") as source, open(backup, "xb") as copy:
                try:
                    shutil.copyfileobj(source, copy)
                except BaseException:
                    os.unlink(backup)
                    raise
        except FileExistsError:
            number += 1
            continue
        shutil.copystat(target, backup)
        return backup


def _write_stream(target: str, data: bytes) -> None:
    """Write to a device or pipe; a pipe that nobody reads is an error, not something to wait for."""
    try:
        handle = os.open(target, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as failure:
        raise (
            OSError(errno.ENXIO, "nobody reads this pipe") if failure.errno == errno.ENXIO else failure
        ) from None
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _unwritable(path: str, failure: OSError) -> Refusal:
    reason = failure.strerror or str(failure)
    return error(
        "TP142", f"cannot write `{path}`: {reason}", help="name another file with -o, or free the space"
    )
