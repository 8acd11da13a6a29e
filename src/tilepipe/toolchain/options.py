"""User flags in the form that NVRTC takes, and architecture names."""

from __future__ import annotations

import re

from tilepipe.toolchain.types import CompileOptions

_ARCH = re.compile(r"(?:sm_|compute_)?(\d{2,3}[af]?)\Z")

# Flags of nvcc that concern its host side or its output, with the number of words that follow each.
_HOST_FLAGS = {
    **dict.fromkeys(
        ["-O0", "-O1", "-O2", "-O3", "-c", "-w", "-Wall", "-Wextra", "-lineinfo", "--generate-line-info"], 0
    ),
    **dict.fromkeys(["--expt-relaxed-constexpr", "--expt-extended-lambda", "--extended-lambda"], 0),
    **dict.fromkeys(["-rdc=true", "-rdc=false"], 0),
    **dict.fromkeys(
        ["-Xcompiler", "--compiler-options", "-Xlinker", "-ccbin", "-gencode", "-arch", "-code", "-o", "-x"],
        1,
    ),
}
_HOST_PREFIXES = ("-l", "-L", "-gencode=", "-arch=", "-code=", "-Xcompiler=", "-ccbin=", "--threads", "-std=")


def architecture(name: str) -> str | None:
    """`80`, `sm_80` or `compute_80` as `80`; None where it is no architecture's name."""
    match = _ARCH.match(name)
    return match[1] if match else None


def nvrtc_flags(options: CompileOptions) -> list[str]:
    """Language flags for NVRTC: standard, definitions, and what of `extra` concerns device code."""
    flags = [f"--std={options.std}", *(f"-D{define}" for define in options.defines)]
    words = iter(options.extra)
    for word in words:
        if word in _HOST_FLAGS:
            for _ in range(_HOST_FLAGS[word]):
                next(words, None)
        elif word in ("-Xptxas", "--ptxas-options"):
            flags.append(f"--ptxas-options={next(words, '')}")
        elif word in ("-maxrregcount", "--maxrregcount"):
            flags.append(f"--maxrregcount={next(words, '')}")
        elif word.startswith("-Xptxas="):
            flags.append(f"--ptxas-options={word.partition('=')[2]}")
        elif not word.startswith(_HOST_PREFIXES):
            flags.append(word)
    return flags
