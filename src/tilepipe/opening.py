"""A file's kernels opened: source read, problem file found and checked, compiler and device chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tilepipe.diagnostics import Refusal, error
from tilepipe.gpu import normalise_arch
from tilepipe.job import DEFAULT_ARCH, DIALECTS, Job
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.launch import CpuDevice, Device, find_gpu, see_gpu
from tilepipe.options import Options
from tilepipe.problem import (
    KernelProblem,
    Problem,
    load_problem,
    no_such_kernel,
)
from tilepipe.source import SourceFile
from tilepipe.toolchain import Toolchain, Unit, select_toolchain
from tilepipe.toolchain.includes import gather


def open_jobs(
    path: str, options: Options, with_problem: bool = True, runs: bool = True
) -> tuple[Job, ...] | Refusal:
    """Every kernel of the file, or the one that `options` names. Reads the file and, `with_problem`, its problem
    file; opens the GPU unless nothing `runs` on it."""
    if path.startswith("-"):
        path = f"./{path}"  # a compiler would take it for an option
    source = read_source(path)
    if isinstance(source, Refusal):
        return source
    if options.compile.std not in DIALECTS:
        known = f"give one of {', '.join(DIALECTS)}: the headers of CUDA 13 need C++17"
        return error("TP125", f"-std {options.compile.std} is no dialect to compile with", help=known)
    headers = gather(Unit(source.text, path, "", None, options.compile)).headers
    file = CudaFile(source, headers)
    if not file.kernels:
        return error(
            "TP144", f"there is no `__global__` function in {path}", help="give a file with a CUDA kernel"
        )
    kernels = [k for k in file.kernels if options.kernel in (None, k.name)]
    if not kernels:
        names = ", ".join(k.name for k in file.kernels)
        return error("TP145", f"{path} has no kernel `{options.kernel}`", help=f"its kernels are: {names}")
    toolchain = select_toolchain(options.toolchain)
    if isinstance(toolchain, Refusal):
        return toolchain
    problem = _problem(path, options, file, kernels) if with_problem else ({}, "")
    if isinstance(problem, Refusal):
        return problem
    device = _device(toolchain, options, runs)
    if isinstance(device, Refusal):
        return device
    arch = normalise_arch(options.arch or (device.arch if device.kind == "cuda" else DEFAULT_ARCH))
    if isinstance(arch, Refusal):
        return arch
    return tuple(
        Job(file, k, problem[0].get(k.name), problem[1], options, toolchain, device, arch) for k in kernels
    )


def open_job(path: str, options: Options) -> Job | Refusal:
    """The one kernel that `options` names; asks for a name where the file has several."""
    jobs = open_jobs(path, options)
    if isinstance(jobs, Refusal):
        return jobs
    if len(jobs) > 1:
        names = ", ".join(j.kernel.name for j in jobs)
        return error("TP146", f"{path} has {len(jobs)} kernels: {names}", help="name one with -k NAME")
    return jobs[0]


def read_source(path: str) -> SourceFile | Refusal:
    """The text of a file, with LF line ends and without a byte-order mark."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as problem:
        return error("TP147", f"cannot read {path}: {problem.strerror or problem}", help="check the path")
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        byte = problem.object[problem.start]
        return error(
            "TP147",
            f"{path} is not UTF-8 text: byte 0x{byte:02X} in line {line}",
            help=f"convert it, e.g. iconv -f LATIN1 -t UTF-8 {path}, or give a CUDA source file",
        )
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        return error("TP147", f"{path} has a NUL byte in line {line}", help="compilers stop there: remove it")
    return SourceFile(path, text.replace("\r\n", "\n"))


def _problem(
    path: str, options: Options, file: CudaFile, kernels: list[KernelText]
) -> tuple[dict[str, KernelProblem], str] | Refusal:
    """The problems of `kernels` by name, narrowed to the sizes asked for, and the path of their file."""
    beside = Path(path).with_suffix(".toml")
    where = options.problem or (str(beside) if beside.is_file() else None)
    if where is None:
        return {}, ""
    loaded: Problem | Refusal = load_problem(where)
    if isinstance(loaded, Refusal):
        return loaded
    names = [k.name for k in file.kernels]
    astray = [name for name in loaded.kernels if name not in names]
    if astray and any(k.name not in loaded.kernels for k in kernels):
        return no_such_kernel(where, astray[0], names)
    problems: dict[str, KernelProblem] = {}
    for kernel in kernels:
        if kernel.name in loaded.kernels:
            problem = _at_sizes(loaded.kernels[kernel.name], options.sizes)
            if isinstance(problem, Refusal):
                return problem
            problems[kernel.name] = problem if options.use_reference else replace(problem, reference=None)
    return problems, where


def _at_sizes(problem: KernelProblem, wanted: tuple[str, ...]) -> KernelProblem | Refusal:
    """The problem with the size sets `wanted`, all of its own where that is empty."""
    for name in wanted:
        if name not in problem.sizes:
            known = f"its size sets are: {', '.join(problem.sizes)}"
            return error("TP148", f"`{problem.name}` has no size set `{name}`", help=known)
    kept = {name: sizes for name, sizes in problem.sizes.items() if name in wanted}
    return replace(problem, sizes=kept or problem.sizes)


def _device(toolchain: Toolchain, options: Options, runs: bool) -> Device | Refusal:
    if options.device != "cpu":
        gpu = find_gpu(toolchain) if runs else see_gpu()
        if gpu is not None:
            return gpu
    if options.device == "cuda":
        return error(
            "TP149", "no CUDA GPU was found on this machine", help="use --device cpu, or leave --device out"
        )
    return CpuDevice(toolchain, options.max_steps)
