"""Compiles test kernels to SASS text, and builds instructions by hand; needs no GPU."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

from cuda.bindings import nvrtc

import tilepipe.toolchain
from tilepipe.evidence.sass import Function, decode
from tilepipe.toolchain import disassemble

HERE = Path(__file__).parent
ZOO = HERE.parent / "zoo"
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "sm_121")
_TOOLKIT = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13"
_INCLUDE = (
    _TOOLKIT / "include",
    _TOOLKIT / "include" / "cccl",
    Path(tilepipe.toolchain.__file__).parent / "shims",
    HERE / "emitted",
)


@cache
def listing(path: Path, arch: str, *flags: str) -> str:
    """`nvdisasm -c -hex` of all the kernels of a file, compiled for the architecture at once."""
    options = [f"-arch={arch}", "--std=c++17", "-default-device", *(f"-I{p}" for p in _INCLUDE), *flags]
    program = _checked(nvrtc.nvrtcCreateProgram(path.read_bytes(), path.name.encode(), 0, [], []))
    status, *_ = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if int(status):
        log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    image = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
    nvrtc.nvrtcGetCUBIN(program, image)
    text = disassemble(image)
    assert isinstance(text, str), text
    return text


def forms(arch: str) -> str:
    """The listing of kernels/forms.cu."""
    return listing(HERE / "kernels" / "forms.cu", arch)


def shapes(arch: str) -> str:
    """The listing of kernels/shapes.cu."""
    return listing(HERE / "kernels" / "shapes.cu", arch)


def streams(arch: str) -> str:
    """The listing of kernels/stream.cu."""
    return listing(HERE / "kernels" / "stream.cu", arch)


def only_symbol(text: str) -> str:
    """The name of the one function in a listing."""
    (name,) = decode(text)
    return name


def assemble(*lines: str) -> Function:
    """A function of hand-written instructions, with labels on lines of their own that end in a colon.

    An instruction line is `text` or `text | control`, where control lists what differs from "stall 1, no
    barriers": `w2` (write barrier), `r1` (read barrier), `b04` (waits for scoreboards 0 and 4), `s6` (stall).
    """
    out = ['\t.section\t.text.hand,"ax",@progbits', "hand:", ".text.hand:"]
    address = 0
    for line in lines:
        if line.endswith(":"):
            out.append(line)
            continue
        text, _, control = line.partition("|")
        encoding = _encode(control.split())
        out.append(f"        /*{address:04x}*/   {text.strip()} ;   /* 0x{encoding & (1 << 64) - 1:016x} */")
        out.append(f"                             /* 0x{encoding >> 64:016x} */")
        address += 16
    return decode("\n".join(out))["hand"]


def _encode(control: list[str]) -> int:
    stall, write, read, waits = 1, 7, 7, 0
    for word in control:
        match word[0]:
            case "s":
                stall = int(word[1:])
            case "w":
                write = int(word[1:])
            case "r":
                read = int(word[1:])
            case "b":
                waits = sum(1 << int(digit) for digit in word[1:])
    return stall << 105 | write << 110 | read << 113 | waits << 116


def _checked(result: tuple[Any, ...]) -> Any:
    if int(result[0]):
        raise RuntimeError(str(result[0]))
    return result[1]
