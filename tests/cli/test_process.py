"""What only a process of its own shows: start-up, signals, closed pipes, encodings."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TILEPIPE = [sys.executable, "-c", "from tilepipe.cli.main import entry; entry()"]

SCALE = Path(__file__).parents[2] / "examples" / "stream_scale.cu"
HEAVY = ("numpy", "tree_sitter", "llvmlite", "cuda", "rich.console", "ml_dtypes", "tilepipe.report")


def test_help_imports_nothing_heavy() -> None:
    """A budget in modules rather than seconds: it does not depend on how busy the machine is."""
    script = "import sys; import tilepipe.cli.main, tilepipe.cli.commands; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "tilepipe.cli.commands" in loaded
    assert [name for name in loaded if name in HEAVY] == []


def test_the_steps_import_nothing_that_only_running_needs() -> None:
    script = "import sys; import tilepipe.steps; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "tilepipe.launch.cpu" in loaded
    assert [name for name in loaded if name in ("llvmlite", "cuda.core")] == []


def test_a_terminal_without_our_characters_gets_others() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*TILEPIPE, "explain", "TP999"], capture_output=True, env=environment, check=False)
    assert done.returncode == 2
    assert b"TP141 error" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("explain",), ("gpus",), ("emulate", str(SCALE)), ("rewrite", str(SCALE)), ("check", str(SCALE))],
    ids=lambda a: a[0],
)
def test_a_closed_pipe_is_quiet(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*TILEPIPE, *arguments], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=120
    )
    os.close(writing)
    assert done.returncode == 141
    said = done.stderr.decode()
    assert "Error" not in said and "TP199" not in said and "Traceback" not in said, said


def test_a_pipe_that_is_closed_while_a_command_runs() -> None:
    with subprocess.Popen([*TILEPIPE, "explain"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(30) in (0, 141)


def test_a_full_disk_behind_stdout_is_said() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*TILEPIPE, "explain"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert b"TP142 error: cannot write to stdout" in done.stderr


def test_a_closed_pipe_is_quiet_in_the_setup_script_too() -> None:
    script = Path(__file__).parents[2] / "scripts" / "setup.py"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, str(script)], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_signals_leave_nothing_behind(tmp_path: Path) -> None:
    """A run that is ended while it writes leaves neither a half-written file nor a temporary one."""
    script = (
        "import os, sys, time, tilepipe.cli.main as m, tilepipe.cli.output as o\n"
        "import signal; signal.signal(signal.SIGTERM, m._terminate)\n"
        "def slow(handle): print('writing', flush=True); time.sleep(60)\n"
        "o.os.fsync = slow\n"
        "o.write_file(sys.argv[1], b'new')\n"
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        target = tmp_path / "a.cu"
        target.write_bytes(b"old")
        with subprocess.Popen(
            [sys.executable, "-c", script, str(target)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"writing\n"
            started = time.monotonic()
            process.send_signal(number)
            assert process.wait(30) != 0
            assert time.monotonic() - started < 30
        assert [path.name for path in tmp_path.iterdir()] == ["a.cu"]
        assert target.read_bytes() == b"old"


def test_ctrl_c_while_importing_shows_no_traceback() -> None:
    script = (
        "import os, signal, sys, tilepipe.cli.main as m\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tilepipe.cli.commands': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['tilepipe', 'gpus']\n"
        "m.entry()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tilepipe: interrupted\n")


def test_without_arguments_the_help_is_shown_and_the_code_is_that_of_wrong_usage() -> None:
    for command in (TILEPIPE, [sys.executable, "-m", "tilepipe"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, "")
        assert "Usage" in done.stdout
