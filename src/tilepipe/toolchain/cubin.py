"""Cubins that somebody else compiled: what is in the file, told from its ELF headers and its disassembly."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from tilepipe.diagnostics import Refusal, error
from tilepipe.toolchain.disasm import disassemble

_ELF = b"\x7fELF"
_CUDA = 190  # e_machine of CUDA's ELF files (EM_CUDA)
_MACHINE_AT = 18
_FATBINS = (b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46")  # magic numbers of a fat binary and of its wrapper
_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[a-z]?)", re.MULTILINE)
_ENTRY = re.compile(r'^\s*\.other\s+(\S+?),@"[^"]*STO_CUDA_ENTRY', re.MULTILINE)
_EXTRACT = "take the cubin out of it with `cuobjdump -xelf all FILE`"


@dataclass(frozen=True)
class Cubin:
    """A cubin as text: `listing` holds all its functions, `kernels` their symbols by the name in the source."""

    path: str
    arch: str
    listing: str
    kernels: tuple[tuple[str, str], ...]


def is_binary(path: str) -> bool:
    """Whether the file is machine code rather than source: by its first bytes, or, empty or broken, its name."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(4)
    except OSError:
        start = b""
    return start == _ELF or start in _FATBINS or path.endswith(".cubin")


def read_cubin(path: str) -> Cubin | Refusal:
    """The functions of a cubin. TP211: no cubin; TP208: nvdisasm does not read it; TP212: nothing in it to audit."""
    try:
        image = Path(path).read_bytes()
    except OSError as problem:
        return error("TP147", f"cannot read {path}: {problem.strerror or problem}", help="check the path")
    refused = _not_a_cubin(path, image)
    if refused is not None:
        return refused
    listing = disassemble(image, line_info=True)
    if isinstance(listing, Refusal):
        return _named(path, listing)
    target = _TARGET.search(listing)
    symbols = list(dict.fromkeys(_ENTRY.findall(listing)))
    if target is None or not symbols:
        why = "its symbol table is gone (stripped)" if ".text." in listing else "it holds no code of a kernel"
        return error(
            "TP212", f"{path} has no kernel to audit: {why}", help="give the cubin as it was compiled"
        )
    return Cubin(path, target[1], listing, tuple((source_name(symbol), symbol) for symbol in symbols))


def _named(path: str, refusal: Refusal) -> Refusal:
    """The refusal of nvdisasm with the file's own name in it, not that of the copy that was read."""
    said = refusal.diagnostics[0]
    if said.code != "TP208":
        return refusal
    why = re.sub(r"(File )?/\S+/kernel\.cubin", "the file", said.message.removeprefix("nvdisasm failed: "))
    return error(
        "TP208",
        f"nvdisasm does not read {path}: {why}",
        help="it is cut off, stripped, or of an old architecture",
    )


def _not_a_cubin(path: str, image: bytes) -> Refusal | None:
    if image[:4] in _FATBINS:
        return error("TP211", f"{path} is a fat binary, which holds several cubins", help=_EXTRACT)
    if image[:4] != _ELF or len(image) < _MACHINE_AT + 2:
        return error("TP211", f"{path} is no cubin: it does not begin as an ELF file does", help=_EXTRACT)
    (machine,) = struct.unpack_from("<H", image, _MACHINE_AT)
    if machine != _CUDA:
        return error("TP211", f"{path} is machine code of a host, not of a GPU", help=_EXTRACT)
    return None


def source_name(symbol: str) -> str:
    """The function's own name in a mangled symbol: `_Z4gemmPKfi` and `_ZN2my4gemmEPKf` are `gemm`."""
    start = re.match(r"_ZL?(N?)", symbol)
    if start is None:
        return symbol
    name, rest = "", symbol[start.end() :]
    while digits := re.match(r"\d+", rest):
        end = digits.end() + int(digits[0])
        name, rest = rest[digits.end() : end], rest[end:]
        if not start[1]:
            break
    return name or symbol
