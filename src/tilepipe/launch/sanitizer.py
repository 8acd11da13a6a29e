"""Running a launch under the vendor's compute-sanitizer, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tilepipe.launch.once import LAUNCHED, write_job
from tilepipe.problem.types import Case
from tilepipe.toolchain.types import Compiled

TIMEOUT_S = 600.0


@dataclass(frozen=True)
class SanitizerRun:
    """What the tool left behind: `exit_code` None where it had to be stopped; `launched` says that the launch
    under it came to its end."""

    output: str
    exit_code: int | None
    launched: bool


def find_sanitizer() -> str | None:
    """The path of compute-sanitizer, from PATH or the usual toolkit folder."""
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer"
    )


def run_racecheck(tool: str, compiled: Compiled, case: Case, timeout_s: float = TIMEOUT_S) -> SanitizerRun:
    """One launch of `case`, in a process of its own, under `compute-sanitizer --tool racecheck`."""
    with tempfile.TemporaryDirectory(prefix="tilepipe-") as folder:
        write_job(Path(folder), compiled, case)
        command = [tool, "--tool", "racecheck", "--print-limit", "20", "--racecheck-report", "all"]
        command += [sys.executable, "-m", "tilepipe.launch.once", folder]
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as stopped:
            output = stopped.output or b""
            return SanitizerRun(
                output.decode(errors="replace") if isinstance(output, bytes) else output, None, False
            )
        except OSError as failure:
            return SanitizerRun(str(failure), None, False)
    return SanitizerRun(done.stdout, done.returncode, LAUNCHED in done.stdout)
