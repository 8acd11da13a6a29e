"""One kernel of one file, opened: source, problem, compiler, device, and what the compiler says of the original."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tilepipe.diagnostics import Refusal, error
from tilepipe.gpu import Arch, normalise_arch
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.model import KernelModel, build, study
from tilepipe.kernel.widen import Wide, constants_wanted, widen
from tilepipe.launch import CpuDevice, Device, find_gpu
from tilepipe.options import Options
from tilepipe.plan.candidates import Resources, Wishes, make_plan
from tilepipe.plan.types import Plan
from tilepipe.plan.work import tile_work
from tilepipe.problem import KernelProblem, Problem, Sizes, load_problem
from tilepipe.problem.expressions import evaluate
from tilepipe.rewrite.launches import find_launches
from tilepipe.source import SourceFile
from tilepipe.toolchain import Question, Toolchain, Unit, select_toolchain
from tilepipe.toolchain.includes import gather
from tilepipe.toolchain.types import Compiled

DEFAULT_ARCH = "sm_80"
DEFAULT_THREADS = 256  # a block where neither problem file nor __launch_bounds__ says


@dataclass(frozen=True, eq=False)
class Job:
    """Everything that the steps start from. `problem` is None without a problem file."""

    file: CudaFile
    kernel: KernelText
    problem: KernelProblem | None
    problem_path: str
    options: Options
    toolchain: Toolchain
    device: Device
    arch: Arch

    @property
    def path(self) -> str:
        return self.file.source.name

    def unit(self, text: str | None = None, path: str | None = None) -> Unit:
        """The kernel as a compilation unit; `text` stands for the file's own."""
        instantiate = self.problem.instantiate if self.problem is not None else None
        source = self.file.source.text if text is None else text
        return Unit(source, path or self.path, self.kernel.name, instantiate, self.options.compile)

    @cached_property
    def original(self) -> Compiled | Refusal:
        """The original as a cubin for the job's architecture."""
        return self.toolchain.compile(self.unit(), self.arch.name, "cubin")

    @cached_property
    def model(self) -> KernelModel | Refusal:
        """The kernel's model, or why it is not pipelined."""
        found = self._studied
        return found if isinstance(found, Refusal) else found[0]

    @cached_property
    def wide(self) -> tuple[Wide, ...]:
        """The copies that may be re-partitioned, with the conditions under which they may."""
        found = self._studied
        return () if isinstance(found, Refusal) else found[1]

    @cached_property
    def _studied(self) -> tuple[KernelModel, tuple[Wide, ...]] | Refusal:
        found = study(self.file, self.kernel, self.options.no_alias)
        if isinstance(found, Refusal):
            return found
        asks = (*found.asks, *constants_wanted(found))
        questions = tuple(Question(a.key, a.kind, a.expression, a.offset) for a in asks)
        answers = self.toolchain.answer(self.unit(found.text), questions)
        if isinstance(answers, Refusal):
            return answers
        model = build(found, answers)
        return model, tuple(w for w in widen(model, answers) if isinstance(w, Wide))

    @cached_property
    def plan(self) -> Plan | Refusal:
        """Budget, ratio and candidates."""
        model, original = self.model, self.original
        if isinstance(model, Refusal):
            return model
        if isinstance(original, Refusal):
            return original
        wishes = self._wishes()
        if isinstance(wishes, Refusal):
            return wishes
        size = self.main_size
        dynamic = evaluate(self.problem.shared, size) if self.problem is not None and size else 0
        have = Resources(
            original.registers,
            original.static_shared,
            self.threads,
            dynamic,
            bool(find_launches(self.file, self.kernel)),
        )
        return make_plan(model, self.arch, have, self._work(model, size), wishes, self.wide)

    @cached_property
    def threads(self) -> int:
        """Threads per block: the problem file's, else the kernel's bound, else a guess."""
        bound = None if isinstance(self.model, Refusal) else self.model.max_threads
        return (
            self._product(self.problem.block if self.problem else (), self.main_size)
            or bound
            or DEFAULT_THREADS
        )

    @cached_property
    def main_size(self) -> Sizes:
        """The sizes that planning looks at: the target, else the largest set."""
        sizes = self.problem.sizes if self.problem is not None else {}
        if "target" in sizes:
            return sizes["target"]
        return max(sizes.values(), key=lambda s: sum(s.values()), default={})

    def _product(self, expressions: tuple[str, ...], size: Sizes) -> int:
        total = 1
        for text in expressions:
            total *= evaluate(text, size)
        return total if expressions else 0

    def _work(self, model: KernelModel, size: Sizes):  # type: ignore[no-untyped-def]
        problem = self.problem
        if problem is None or problem.flops is None or not problem.tile or not size:
            return None
        name, step = next(iter(problem.tile.items()))
        staged = sum({b.array: b.bytes or 0 for b in model.buffers}.values())
        least = evaluate(problem.bytes, size) if problem.bytes else None
        blocks = self._product(problem.grid, size)
        return tile_work(model, evaluate(problem.flops, size), least, blocks, size[name] / step, staged)

    def _wishes(self) -> Wishes | Refusal:
        o = self.options
        chosen = o.candidate
        if o.plan is not None:
            replayed = _replayed(o.plan, self.kernel.name)
            if isinstance(replayed, Refusal):
                return replayed
            chosen = replayed
        return Wishes(chosen, o.variant, o.stages, o.form, o.allow_launch_change)


def _replayed(path: str, kernel: str) -> str | Refusal:
    """The candidate that an earlier run's JSON chose."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        entries = data if isinstance(data, list) else [data]
        chosen = next(e["chosen"] for e in entries if e.get("kernel", {}).get("name") == kernel)
    except (OSError, ValueError, KeyError, StopIteration, AttributeError, TypeError) as problem:
        return error(
            "TP143",
            f"{path} holds no plan for `{kernel}`: {problem}",
            help="give the --json output of an earlier run",
        )
    return str(chosen)


def open_jobs(path: str, options: Options) -> tuple[Job, ...] | Refusal:
    """Every kernel of the file, or the one that `options` names. Reads the file and its problem file."""
    source = read_source(path)
    if isinstance(source, Refusal):
        return source
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
    problem = _problem(path, options)
    if isinstance(problem, Refusal):
        return problem
    device = _device(toolchain, options)
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
    except UnicodeDecodeError:
        return error("TP147", f"{path} is not UTF-8 text", help="give a CUDA source file")
    return SourceFile(path, text.replace("\r\n", "\n"))


def _problem(path: str, options: Options) -> tuple[dict[str, KernelProblem], str] | Refusal:
    beside = Path(path).with_suffix(".toml")
    where = options.problem or (str(beside) if beside.is_file() else None)
    if where is None:
        return {}, ""
    loaded: Problem | Refusal = load_problem(where)
    if isinstance(loaded, Refusal):
        return loaded
    kernels = dict(loaded.kernels)
    if options.sizes:
        for name, problem in kernels.items():
            unknown = [s for s in options.sizes if s not in problem.sizes]
            if unknown and name == options.kernel:
                known = ", ".join(problem.sizes)
                return error(
                    "TP148", f"`{name}` has no size set `{unknown[0]}`", help=f"its size sets are: {known}"
                )
            kept = {s: v for s, v in problem.sizes.items() if s in options.sizes}
            kernels[name] = replace(problem, sizes=kept or problem.sizes)
    if not options.use_reference:
        kernels = {n: replace(p, reference=None) for n, p in kernels.items()}
    return kernels, where


def _device(toolchain: Toolchain, options: Options) -> Device | Refusal:
    gpu = find_gpu(toolchain) if options.device != "cpu" else None
    if gpu is not None:
        return gpu
    if options.device == "cuda":
        return error(
            "TP149", "no CUDA GPU was found on this machine", help="use --device cpu, or leave --device out"
        )
    return CpuDevice(toolchain)
