"""Times `tilepipe check` on one file of 3,000 lines with 30 kernels, with an empty compile cache and with a full one.

    python benchmarks/check_speed.py [--lines 3000] [--keep FILE.cu] [--repeat 3]

The file is made of the zoo's: each in a namespace of its own, macros and kernels with a number in their names. Wall
clock and processor time are those of the whole command, with its modules compiled to bytecode, as an installer leaves
them.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ZOO = Path(__file__).resolve().parents[1] / "tests" / "zoo"
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include.*\n", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_KERNEL = re.compile(r"__global__[^{;]*?\b(\w+)\s*\((?=[^()]*\)\s*\{)")
KERNELS = 30


def large_file(lines: int) -> str:
    """So many lines of kernels, one zoo file after the other, comments in between where they are too short."""
    parts: list[str] = []
    includes: dict[str, None] = {}
    for number, path in enumerate(sorted(ZOO.glob("*.cu")) * 2):
        text = path.read_text()
        kernels = _KERNEL.findall(text)
        if len(kernels) != 1 or re.search(r"extern|namespace|cooperative|template", text):
            continue
        includes |= dict.fromkeys(line.strip() for line in _INCLUDE.findall(text))
        text = _INCLUDE.sub("", text)
        for name in {*_DEFINE.findall(text), *kernels}:
            text = re.sub(rf"\b{name}\b", f"{name}_{number}", text)
        parts.append(f"namespace n{number} {{\n{text}}}\n")
        if len(parts) == KERNELS:
            break
    whole = "\n".join([*includes, *parts])
    missing = max(0, lines - whole.count("\n"))
    return whole + "// a line that says nothing\n" * missing


def seconds(path: Path, cache: Path) -> tuple[float, float]:
    """Wall clock and processor time of one `check`."""
    environment = {**os.environ, "TILEPIPE_CACHE_DIR": str(cache)}
    environment["PYTHONPYCACHEPREFIX"] = str(path.parent / "bytecode")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "tilepipe", "check", str(path)]
    begun, used = time.perf_counter(), _processor_time()
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    if done.stdout.count(b"candidates\n") < KERNELS // 2:  # some are refused, and that is an exit code
        raise SystemExit(done.stderr.decode()[-2000:] or done.stdout.decode()[-2000:])
    return time.perf_counter() - begun, _processor_time() - used


def _processor_time() -> float:
    """Seconds of all children so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def told(times: list[tuple[float, float]]) -> str:
    wall, processor = (statistics.median(column) for column in zip(*times, strict=True))
    return f"{wall:.2f} s (processor time {processor:.2f} s)"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.keep or Path(folder) / "large.cu"
        path.write_text(large_file(given.lines))
        seconds(path, Path(folder) / "first")  # compiles the modules
        cold, warm = [], []
        for turn in range(given.repeat):
            cache = Path(folder) / f"cache{turn}"
            cold.append(seconds(path, cache))
            warm.append(seconds(path, cache))
    print(f"{os.cpu_count()} cores; cold {told(cold)}, warm {told(warm)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
