"""The author's reference: a NumPy expression or a function of a file beside the problem.

A reference is the author's own code, like a test, and runs with the rights of whoever runs tilepipe; a
problem with `reference=None` runs none.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilepipe.diagnostics import Refusal, error
from tilepipe.problem.dtypes import is_float
from tilepipe.problem.locate import place_of
from tilepipe.problem.types import Case, KernelProblem

Arrays = dict[str, npt.NDArray[Any]]


def evaluate_reference(problem: KernelProblem, path: str, case: Case) -> Arrays | Refusal | None:
    """The right contents of every `out` and `inout` array of `case`, by name.

    `path` is the problem file, which anchors `module.py:function`. The arrays of `case` must be as before the
    launch; those of bfloat16 and narrower floats are handed over as float32. None: there is no reference, or
    it is not affordable at this size (`reference_at`). TP118: it failed, or gave other shapes.
    """
    if problem.reference is None or (
        problem.reference_at is not None and case.size not in problem.reference_at
    ):
        return None
    inputs: Arrays = {a.name: _widened(a.data) for a in case.arrays if a.role != "out"}
    try:
        value = _call(problem.reference, Path(path).parent, inputs, dict(case.sizes))
    except (Exception, SystemExit) as failure:  # the author's code may raise anything
        if isinstance(failure, SystemExit) and type(failure) is not SystemExit:
            raise  # a signal's, not the author's
        return _failed(problem, path, case.size, f"{type(failure).__name__}: {failure}")
    outputs = [a for a in case.arrays if a.role != "in"]
    values = value if isinstance(value, tuple) else (value,)
    if len(values) != len(outputs):
        return _failed(problem, path, case.size, f"it gives {len(values)} arrays for {len(outputs)} outputs")
    results: Arrays = {}
    for output, array in zip(outputs, map(np.asarray, values), strict=True):
        if array.shape != output.data.shape:
            shapes = f"`{output.name}` has shape {output.data.shape}, it gives {array.shape}"
            return _failed(problem, path, case.size, shapes)
        results[output.name] = array
    return results


def _failed(problem: KernelProblem, path: str, size: str, reason: str) -> Refusal:
    try:
        text = Path(path).read_text(encoding="utf-8")
        place = place_of(path, text, f"kernels.{problem.name}", "reference")
    except (OSError, UnicodeDecodeError):
        place = None
    return error(
        "TP118",
        f"the reference of kernel `{problem.name}` failed at size {size}: {reason}",
        place,
        help="correct `reference` in the problem file, or leave it out with --no-reference",
    )


def _widened(data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy that the author may write to; floats that NumPy has no arithmetic for become float32."""
    return data.astype(np.float32) if is_float(data.dtype) and data.dtype.kind != "f" else data.copy()


def _call(reference: str, folder: Path, inputs: Arrays, sizes: dict[str, int]) -> Any:
    with np.errstate(all="ignore"):
        file, _, function = reference.rpartition(":")
        if file.endswith(".py") and function.isidentifier():
            return _function(folder / file, function)(**inputs, **sizes)
        return eval(reference, {"np": np, **inputs, **sizes})


def _function(file: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(f"tilepipe_reference_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {file}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, name)
    return function
