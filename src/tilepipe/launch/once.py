"""One launch in a process of its own: `python -m tilepipe.launch.once FOLDER`, for tools that wrap a process.

`write_job` puts a kernel and its case into a folder; the process loads the cubin, launches it once on
device 0 and says `LAUNCHED` on stdout when the launch came to its end. Nothing is compiled and nothing is
written back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tilepipe.diagnostics import Refusal
from tilepipe.launch.driver import CoreDriver
from tilepipe.launch.gpu import CudaDevice
from tilepipe.launch.types import LaunchOptions
from tilepipe.problem.types import Array, Case, Scalar
from tilepipe.toolchain.types import Compiled

LAUNCHED = "tilepipe: launched"


def write_job(folder: Path, compiled: Compiled, case: Case) -> None:
    """Everything that `read_job` needs, as a cubin, a JSON file and one raw file per argument."""
    args = []
    for i, arg in enumerate(case.args):
        raw = arg.base if isinstance(arg, Array) else np.asarray(arg.value)
        (folder / f"arg{i}").write_bytes(raw.tobytes())
        offset = arg.data.ctypes.data - arg.base.ctypes.data if isinstance(arg, Array) else None
        args.append({"dtype": raw.dtype.itemsize, "offset": offset})
    launch = {
        "symbol": compiled.symbol,
        "arch": compiled.arch,
        "static_shared": compiled.static_shared,
        "grid": case.grid,
        "block": case.block,
        "shared": case.shared,
        "args": args,
    }
    (folder / "kernel.cubin").write_bytes(compiled.image)
    (folder / "launch.json").write_text(json.dumps(launch))


def read_job(folder: Path) -> tuple[Compiled, Case]:
    """What `write_job` wrote; elements are unsigned integers of their size, since a launch looks at no
    value."""
    launch: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    args: list[Array | Scalar] = []
    for i, arg in enumerate(launch["args"]):
        base = np.fromfile(folder / f"arg{i}", f"u{arg['dtype']}")
        if arg["offset"] is None:
            args.append(Scalar(base[0]))
        else:
            args.append(Array(f"arg{i}", "in", base, base[arg["offset"] // arg["dtype"] :]))
    compiled = Compiled(
        "cubin",
        (folder / "kernel.cubin").read_bytes(),
        launch["symbol"],
        launch["arch"],
        static_shared=launch["static_shared"],
    )
    grid, block = tuple(launch["grid"]), tuple(launch["block"])
    return compiled, Case("job", {}, grid, block, launch["shared"], tuple(args), None, None)


def main(folder: str) -> int:
    compiled, case = read_job(Path(folder))
    kernel = CudaDevice(CoreDriver(), None).load_compiled(compiled)
    result = kernel if isinstance(kernel, Refusal) else kernel.run(case, LaunchOptions())
    if isinstance(result, Refusal):
        print(result.diagnostics[0].code, result.diagnostics[0].message, file=sys.stderr)
        return 1
    print(LAUNCHED, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
