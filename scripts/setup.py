"""Sets everything up on a machine with nothing but Python and pip, then runs the demo or the tests.

    python3 scripts/setup.py demo          pipeline a shipped example, on the CPU where there is no GPU
    python3 scripts/setup.py test [ARGS]   check and test the project; ARGS go to pytest

Everything goes into `.venv` beside this folder, at the versions of `requirements.lock`. A second run finds it
there and installs nothing. Only the standard library is used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
BUILT_FROM = ROOT / "src" / "tilepipe" / "emulator"  # its C sources are compiled when tilepipe is installed
STAMP = VENV / "tilepipe-installed"  # what was installed, as a hash of the files that decide it

EXAMPLE = Path("examples") / "igemm_wmma.cu"
RESULT = Path("build") / "igemm_wmma.pipelined.cu"

PYTEST = ["-m", "pytest", "-n", "2", "-m", "not gpu and not full"]
CHECKS = [
    ("lint", ["-m", "ruff", "check", "."]),
    ("format", ["-m", "ruff", "format", "--check", "."]),
    ("types", ["-m", "mypy"]),
]


class SetupError(Exception):
    """Something that the user has to do something about."""


def say(text: str) -> None:
    print(f"==> {text}", flush=True)


def main(arguments: list[str]) -> int:
    commands = {"demo": demo, "test": test}
    if not arguments or arguments[0] not in commands:
        print(__doc__)
        return 2
    os.chdir(ROOT)
    try:
        describe_machine()
        install()
    except SetupError as problem:
        print(f"\nsetup failed: {problem}", file=sys.stderr)
        return 2
    return commands[arguments[0]](arguments[1:])


def run_main() -> int:
    """`main`, quiet where the reader of the output (`head`, say) has seen enough."""
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # 128 + SIGPIPE
    return code


def describe_machine() -> None:
    """Say what this machine has not got, and what that means."""
    if sys.version_info < (3, 10):  # noqa: UP036 - said here, since no installer has checked yet
        raise SetupError(f"Python 3.10 or later is needed; this is {sys.version.split()[0]}")
    gpu = any(Path(path).exists() for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"))
    compiler = next((name for name in ("g++", "clang++") if shutil.which(name)), None)
    say("this machine")
    rows = {
        "Python": sys.version.split()[0],
        "GPU": "found: kernels run and are timed on it"
        if gpu
        else "none: kernels run on the CPU, by emulation. Results and races are checked all the same; "
        "timings stay unknown, and gains are predicted",
        "CUDA toolkit": shutil.which("nvcc")
        or "none, and none is needed: the compiler comes as a Python wheel",
        "host compiler": compiler or "none, and none is needed (only `--toolchain nvcc` would want one)",
    }
    for name, answer in rows.items():
        print(f"    {name:14}{answer}", flush=True)


def install() -> None:
    """Make `.venv` hold the locked packages and tilepipe itself, unless it does already."""
    deciding = [LOCK, ROOT / "pyproject.toml", ROOT / "hatch_build.py", *sorted(BUILT_FROM.rglob("*.[ch]"))]
    content = b"".join(path.read_bytes() for path in deciding)
    wanted = hashlib.sha256(content + sys.version.encode()).hexdigest()
    if PYTHON.exists() and STAMP.exists() and STAMP.read_text() == wanted:
        say(f"{VENV.name} is up to date")
        return
    say(f"1/3 environment {VENV}")
    make_environment()
    say(f"2/3 packages of {LOCK.name} (about 300 MB to fetch; a few minutes)")
    pip("install", "--requirement", str(LOCK), reason="the packages could not be installed")
    say("3/3 tilepipe itself")
    pip(
        "install",
        "--no-build-isolation",
        "--no-deps",
        "--editable",
        ".",
        reason="tilepipe could not be built",
    )
    STAMP.write_text(wanted)


def make_environment() -> None:
    """A fresh `.venv` with pip in it, also where Python came without `ensurepip` (some systems split it)."""
    shutil.rmtree(VENV, ignore_errors=True)
    if run([sys.executable, "-m", "venv", str(VENV)], quiet=True) == 0:
        return
    print("    no ensurepip here; putting pip into the environment with the system's pip", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    site = VENV / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    made = run([sys.executable, "-m", "venv", "--without-pip", str(VENV)], quiet=True)
    if made or run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site), "pip"]):
        raise SetupError(
            "no virtual environment can be made with this Python; install its venv package "
            "(on Debian and Ubuntu: apt install python3-venv) and try again"
        )


def pip(*arguments: str, reason: str) -> None:
    if run([str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]):
        raise SetupError(f"{reason}: see pip's message above; is there a network, and 2 GB of disk?")


def run(command: list[str], quiet: bool = False) -> int:
    """Run `command` and return its exit code; `quiet` drops what it prints."""
    return subprocess.run(
        command,
        check=False,
        stdout=subprocess.DEVNULL if quiet else None,
        stderr=subprocess.DEVNULL if quiet else None,
    ).returncode


def demo(arguments: list[str]) -> int:
    """Pipeline the example, and say where the result is."""
    RESULT.parent.mkdir(exist_ok=True)
    command = ["run", str(EXAMPLE), "-o", str(RESULT), *arguments]
    say(f"tilepipe {' '.join(command)}")
    code = run([str(VENV / "bin" / "tilepipe"), *command])
    if code == 0:
        say(f"the pipelined kernel is in {RESULT}; compare: diff {EXAMPLE} {RESULT}")
        say(f"for the command itself: . {VENV.name}/bin/activate")
    return code


def test(arguments: list[str]) -> int:
    """Lint, format, types and the default tests, all of them even if one fails."""
    results = {}
    for name, command in [*CHECKS, ("tests", [*PYTEST, *arguments])]:
        say(name)
        started = time.monotonic()
        code = run([str(PYTHON), *command])
        results[name] = code
        print(
            f"    {name}: {'passed' if code == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s",
            flush=True,
        )
    failed = [name for name, code in results.items() if code]
    say(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_main())
