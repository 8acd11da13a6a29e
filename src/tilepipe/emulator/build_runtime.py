"""Compiles the runtime's C to LLVM IR text. Needs `ziglang`; runs when the package is built, and by hand as
`python -m tilepipe.emulator.build_runtime`. Stands alone, so that the build hook can load it by path."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

RUNTIME = Path(__file__).parent / "runtime"
OUTPUT = RUNTIME / "runtime.ll"

# Contraction would fuse mul + add.
FLAGS = (
    *("-O2", "-S", "-emit-llvm", "-g0", "-fno-unroll-loops", "-fno-inline-functions", "-ffp-contract=off"),
    *("-fno-stack-protector", "-fno-sanitize=all", "-Wall", "-Wextra", "-Werror"),
    "-Wno-unused-command-line-argument",
)
# Vectorised for what `jit.missing_features` asks of a host; the IR's vectors themselves are portable.
_PROCESSORS = {"x86_64": ("-mcpu=x86_64_v3",)}

_HOST_ATTRIBUTES = re.compile(r'"(?:target-cpu|target-features|tune-cpu|probe-stack|frame-pointer)"="[^"]*"')
_TARGET_LINES = re.compile(r"^target (?:datalayout|triple).*\n", re.M)


def build(output: Path = OUTPUT) -> Path:
    """Writes the IR text to `output` and returns its path; raises `CalledProcessError` if clang fails."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine())
    target = ("-target", f"{machine}-linux-gnu", *_PROCESSORS.get(machine, ()))
    command = [sys.executable, "-m", "ziglang", "cc", *target, *FLAGS]
    subprocess.run([*command, "runtime.c", "-o", str(output)], cwd=RUNTIME, check=True)
    text = output.read_text()
    output.write_text(_TARGET_LINES.sub("", _HOST_ATTRIBUTES.sub("", text)))
    return output


if __name__ == "__main__":
    print(build())
