"""One kernel of one file, opened: source, problem, compiler, device, and what the compiler says of the original."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from tilepipe.asking import mixed, put, switched
from tilepipe.diagnostics import Diagnostic, Place, Refusal, error
from tilepipe.gpu import Arch
from tilepipe.kernel.collisions import settled
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.instance import Guard, guards, instance_asks, more_asks
from tilepipe.kernel.launchbounds import launch_bound_span
from tilepipe.kernel.model import Answers, KernelModel, Study, build, study
from tilepipe.kernel.padding import PAD, Padding, padding
from tilepipe.kernel.pool import tile_part
from tilepipe.kernel.repartition import repartitioned
from tilepipe.kernel.spread import spread_asks
from tilepipe.kernel.vectorstores import vector_asks
from tilepipe.kernel.widen import Narrow, Widened, constants_wanted
from tilepipe.launch import Device
from tilepipe.options import Options
from tilepipe.plan.candidates import MAX_STAGES, Resources, Wishes, make_plan
from tilepipe.plan.padded import with_padded, with_padded_passed_over, without_padding
from tilepipe.plan.tiles import TileCounter, tile_counter
from tilepipe.plan.types import Plan
from tilepipe.plan.work import tile_work
from tilepipe.problem import (
    KernelProblem,
    ScalarSpec,
    Sizes,
    check_problem,
)
from tilepipe.problem.expressions import evaluate, evaluate_number
from tilepipe.problem.launched import block_shape, planned_size, product
from tilepipe.rewrite.launches import find_launches, launched_instance, named_instances
from tilepipe.source import Span
from tilepipe.toolchain import Asked, Question, Toolchain, Unit
from tilepipe.toolchain.resources import Resources as Usage
from tilepipe.toolchain.types import Compiled
from tilepipe.wishes import others_listed, wishes_of

DEFAULT_ARCH = "sm_80"
DIALECTS = ("c++17", "c++20", "c++23")
_UNTIMED = "padded rows are chosen by timing, and there is no GPU here: name one with --candidate"
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
    template_id: str | None = None  # to be looked at in place of what problem file and launches say

    @property
    def path(self) -> str:
        return self.file.source.name

    @property
    def place(self) -> Place:
        """Where the kernel is named."""
        start, name = self.kernel.span.start, self.kernel.name.encode()
        head = self.file.source.data[start : self.kernel.body.start]
        found = re.search(rb"\b%b\s*\(" % re.escape(name), head)
        at = start + (found.start() if found else 0)
        return self.file.source.place(Span(at, at + len(name)))

    def unit(self, text: str | None = None, path: str | None = None) -> Unit:
        """The kernel as a compilation unit; `text` stands for the file's own."""
        source = self.file.source.text if text is None else text
        name = self.file.denoted(self.kernel, self.instance)
        return Unit(source, path or self.path, self.kernel.name, name, self.options.compile)

    @cached_property
    def instance(self) -> str | None:
        """The template-id that is looked at: the problem file's, else that of the file's launches."""
        if self.template_id is not None:
            return self.template_id
        if self.problem is not None and self.problem.instantiate is not None:
            return self.problem.instantiate
        return launched_instance(self.file, self.kernel) if self.kernel.template else None

    @property
    def which_instance(self) -> Refusal:
        """TP209: nothing says which instance of the template is meant."""
        named = ", ".join(f"`{one}`" for one in named_instances(self.file, self.kernel))
        why = f"it names {named}" if named else "no launch in it names one by what is known there"
        return error(
            "TP209",
            f"which instance of the template `{self.kernel.name}` is meant is not known from {self.path}: {why}",
            self.place,
            help=f'say it in the problem file, e.g. instantiate = "{self.kernel.name}<128, 8>"',
        )

    @cached_property
    def original(self) -> Compiled | Refusal:
        """The original as a cubin for the job's architecture."""
        return self.toolchain.compile(self.unit(), self.arch.name, "cubin")

    @cached_property
    def usage(self) -> Usage | Refusal:
        """Registers and memory that the original takes on the job's architecture."""
        return self.toolchain.usage(self.unit(), self.arch.name)

    @cached_property
    def fault(self) -> Refusal | None:
        """What is wrong with the source or the problem file, whatever may come of the loop: a file that does not
        compile, a problem that does not fit the kernel."""
        # The front end says as much of a kernel that is refused anyway, without optimising it.
        refused = isinstance(self._found, Refusal)
        built = self.toolchain.answer(self.unit(), ()) if refused else self.usage
        if isinstance(built, Refusal):
            unclear = self.instance is None and built.diagnostics[0].code == "TP209"
            return self.which_instance if unclear else built
        if self.problem is None:
            return None
        parameters = self.toolchain.parameter_types(self.unit())
        if isinstance(parameters, Refusal):
            return parameters
        return check_problem(self.problem, self.problem_path, parameters)

    @property
    def zeros(self) -> tuple[Diagnostic, ...]:
        """TP126: variables that hold zeros wherever the kernel is run here, since only host code fills them."""
        if self.problem is None:
            return ()
        text = "holds zeros in every run here: only host code fills it"
        cure = "give it an initialiser to be checked with"
        found = self.file.only_set_by_host(self.kernel)
        place = self.file.source.place
        return tuple(
            Diagnostic("TP126", "note", f"`{s.name}` {text}", place(s.decl), help=cure) for s in found
        )

    @property
    def no_problem(self) -> str:
        """Why nothing says how to launch the kernel."""
        if self.problem_path:
            return f"{self.problem_path} has no table [kernels.{self.kernel.name}]"
        return "no problem file says how to launch the kernel; `tilepipe init` drafts one"

    @cached_property
    def model(self) -> KernelModel | Refusal:
        """The kernel's model, or why it is not pipelined."""
        found = self._studied
        return found if isinstance(found, Refusal) else found[0]

    @cached_property
    def wide(self) -> tuple[Widened, ...]:
        """The copies that may be re-partitioned, with the conditions under which they may."""
        found = self._studied
        return () if isinstance(found, Refusal) else tuple(w for w in found[1] if isinstance(w, Widened))

    @cached_property
    def _found(self) -> Study | Refusal:
        """What the source alone says."""
        return study(self.file, self.kernel, self.options.no_alias)

    def _questions(self, found: Study) -> tuple[Question, ...]:
        instance = instance_asks(found.analysed.kernel, self.instance)
        asks = (*found.asks, *vector_asks(found), *constants_wanted(found), *spread_asks(found), *instance)
        return put(asks)

    @cached_property
    def _studied(self) -> tuple[KernelModel, tuple[Widened | Narrow, ...]] | Refusal:
        found = self._found
        if isinstance(found, Refusal):
            return found
        answers = self.toolchain.answer(self.unit(found.text), self._questions(found))
        if isinstance(answers, Refusal):
            return answers
        built = build(found, answers)
        # The problem's launch is that of the instance looked at: another's blocks may have another shape.
        launched = self._block if self.template_id is None else None
        model = built if isinstance(built, Refusal) else settled(built, answers, launched)
        if isinstance(model, Refusal):
            return model
        unit = self.unit(model.file.source.text)
        shared = mixed(self.toolchain, unit, model, launched, self.options.no_alias)
        return shared or (model, repartitioned(model, answers, self._block))

    @cached_property
    def guards(self) -> tuple[Guard, ...] | Refusal:
        """What holds in the instance and build that are looked at and in no other; TP160 where an instance has
        nothing that tells it."""
        found = self._found
        if isinstance(found, Refusal) or isinstance(self.model, Refusal):
            return ()
        answers, kernel = self.model.answers, found.analysed.kernel
        asks = more_asks(kernel, self.instance, answers)
        told = self.toolchain.answer(self.unit(found.text), put(asks)) if asks else {}
        known = answers if isinstance(told, Refusal) else {**answers, **told}
        of_instance = guards(kernel, self.instance, known, self.place)
        if isinstance(of_instance, Refusal):
            return of_instance
        given = self.options.compile.defines
        return *switched(self.toolchain, self.unit(), self.file, self.kernel, given), *of_instance

    @cached_property
    def others(self) -> tuple[Job, ...]:
        """The other instances of the template that the file names."""
        named = named_instances(self.file, self.kernel) if self.instance is not None else ()
        return tuple(replace(self, template_id=name) for name in named if name != self.instance)

    @property
    def narrow(self) -> tuple[Narrow, ...]:
        """The copies that stay as they are, and why."""
        found = self._studied
        return () if isinstance(found, Refusal) else tuple(n for n in found[1] if isinstance(n, Narrow))

    @property
    def _generic(self) -> bool:
        """Whether it is a template without arguments."""
        return bool(self.kernel.template) and self.instance is None

    @property
    def compiled(self) -> Asked | None:
        """The kernel as it is, to be assembled; None where what it takes is not wanted or cannot be known."""
        nothing = self._generic or isinstance(self._found, Refusal)
        return None if nothing else Asked(self.unit(), (), self.kernel.span)

    @property
    def asked(self) -> Asked | None:
        """What the compiler is to be asked about the kernel, nothing but whether it compiles where the rules refuse it;
        None for a template without arguments."""
        found = self._found
        if self._generic:
            return None
        text, questions = (None, ()) if isinstance(found, Refusal) else (found.text, self._questions(found))
        return Asked(self.unit(text), questions, self.kernel.span)

    @cached_property
    def plan(self) -> Plan | Refusal:
        """Budget, ratio and candidates."""
        model, usage = self.model, self.usage
        if isinstance(model, Refusal):
            return model
        if isinstance(usage, Refusal):
            return usage
        wishes = self.wishes
        if isinstance(wishes, Refusal):
            return wishes
        size = self.main_size
        dynamic = evaluate(self.problem.shared, size) if self.problem is not None and size else 0
        have = Resources(
            usage.registers,
            usage.static_shared,
            self.threads,
            dynamic,
            bool(find_launches(self.file, self.kernel)),
        )
        plan = make_plan(model, self.arch, have, self._work(model, size), wishes, self.wide)
        if self.padding is not None and self.padding.edits and not self.tries_padding:
            plan = with_padded_passed_over(plan, PAD, self.padding.added, _UNTIMED)
        elif self.padded is not None and isinstance(self.padded.plan, Plan):
            plan = with_padded(plan, self.padded.plan, PAD)
        if any(wishes.admit(c) for c in plan.candidates):
            return plan
        listed = others_listed([c.id for c in plan.candidates], wishes.candidate)
        if wishes.stages is not None and wishes.stages > MAX_STAGES:
            listed = f"--stages is 2 to {MAX_STAGES}, or 1 for `prefetch`; {listed}"
        return error("TP124", f"there is no candidate {wishes.words}", help=listed)

    @property
    def _block(self) -> tuple[int, int, int] | None:
        """The shape of a block as the problem file launches it."""
        if self.problem is None or not self.main_size:
            return None
        return block_shape(self.problem, self.main_size)

    @property
    def tries_padding(self) -> bool:
        """Whether candidates with padded rows are looked at: timing can judge them, or one is named."""
        named = self.wishes.candidate if isinstance(self.wishes, Wishes) else None
        return self.device.kind == "cuda" or named is not None

    @property
    def _may_be_padded(self) -> bool:
        """Whether padded rows are wanted, as far as the options say."""
        named = self.wishes.candidate if isinstance(self.wishes, Wishes) else None
        return self.options.layout != "keep" and (named is None or without_padding(named) is not None)

    @cached_property
    def padding(self) -> Padding | None:
        """Which tiles can have padded rows, and why others cannot; None where that is not wanted or nothing is
        staged."""
        model = self.model
        if not self._may_be_padded or isinstance(model, Refusal):
            return None
        answers: dict[str, int | str | None] = {}
        while (asked := self.padding_asked(answers)) is not None:
            told = self.toolchain.answer(asked.unit, asked.questions)
            if isinstance(told, Refusal):
                return None
            answers |= told
        return padding(model, answers)

    def padding_asked(self, answers: Answers) -> Asked | None:
        """What more the compiler is to be asked about padded rows, after `answers`; None where nothing is."""
        model = self.model
        if not self._may_be_padded or isinstance(model, Refusal):
            return None
        asks = padding(model, answers).asks
        return Asked(self.unit(model.file.source.text), put(asks), self.kernel.span) if asks else None

    @cached_property
    def padded(self) -> Job | None:
        """The job of the kernel whose tiles have padded rows, None where none has."""
        model, wishes = self.model, self.wishes
        if isinstance(model, Refusal) or isinstance(wishes, Refusal):
            return None
        if self.padding is None or not self.padding.edits:
            return None
        file = model.file.edited(self.padding.edits)
        kernel = file.kernels[model.file.kernels.index(model.kernel)]
        named = without_padding(wishes.candidate) if wishes.candidate is not None else None
        options = replace(self.options, layout="keep", candidate=named, plan=None)
        return replace(self, file=file, kernel=kernel, options=options)

    @cached_property
    def threads(self) -> int:
        """Threads per block: the problem file's, else the kernel's bound, else a guess."""
        return self.known_threads or DEFAULT_THREADS

    @cached_property
    def known_threads(self) -> int | None:
        """Threads per block: the problem file's, else the kernel's bound; None where neither says."""
        bound = None if isinstance(self.model, Refusal) else self.model.max_threads
        return product(self.problem.block if self.problem else (), self.main_size) or bound

    @cached_property
    def unstated_threads(self) -> int:
        """Threads per block that every launch of the problem file has, for a kernel without `__launch_bounds__`; 0
        where the kernel has them, or where nothing says so."""
        if self.problem is None or launch_bound_span(self.file, self.kernel, alone=False) is not None:
            return 0
        counts = {product(self.problem.block, sizes) for sizes in self.problem.sizes.values()}
        return counts.pop() if len(counts) == 1 else 0

    @cached_property
    def main_size(self) -> Sizes:
        """The sizes that planning looks at: the target, else the largest set."""
        return planned_size(self.problem)

    def _work(self, model: KernelModel, size: Sizes):  # type: ignore[no-untyped-def]
        problem = self.problem
        if problem is None or problem.flops is None or not size:
            return None
        staged = sum({b.array: b.bytes or 0 for b in model.buffers}.values()) + (tile_part(model) or 0)
        least = evaluate(problem.bytes, size) if problem.bytes else None
        blocks = product(problem.grid, size)
        return tile_work(model, evaluate(problem.flops, size), least, blocks, self._tiles(size), staged)

    def _tiles(self, size: Sizes) -> float | None:
        """Tiles of a block at `size`: by the problem's `tile`, else by the loop's header; None where not known."""
        problem, counter = self.problem, self.tile_counter
        if problem is not None and problem.tile:
            ((name, extent),) = problem.tile.items()
            return size[name] / extent
        if problem is None or counter is None:
            return None
        given = dict(zip(self.kernel.parameters, problem.args, strict=False))
        values = dict(self.tile_constants)
        for name in counter.parameters:
            scalar = given.get(name)
            value = evaluate_number(scalar.value, size) if isinstance(scalar, ScalarSpec) else None
            if isinstance(value, int):
                values[name] = value
        return counter.count(values)

    @property
    def tile_count(self) -> float | None:
        """Tiles of a block at the size that planning looks at, None where not known."""
        return self._tiles(self.main_size) if self.main_size else None

    @cached_property
    def tile_counter(self) -> TileCounter | None:
        """The tile loop's header, None where it does not tell the number of tiles."""
        return None if isinstance(self.model, Refusal) else tile_counter(self.model)

    @cached_property
    def tile_constants(self) -> dict[str, int]:
        """The constants in the tile loop's header, by name, as far as the compiler knows them."""
        if isinstance(self.model, Refusal) or self.tile_counter is None:
            return {}
        at = self.model.tile.loop.span.start
        asked = tuple(Question(name, "value", name, at) for name in sorted(self.tile_counter.constants))
        answers = self.toolchain.answer(self.unit(self.model.file.source.text), asked) if asked else {}
        if isinstance(answers, Refusal):
            return {}
        return {name: value for name, value in answers.items() if isinstance(value, int)}

    @cached_property
    def wishes(self) -> Wishes | Refusal:
        """What the user narrowed the choice of the candidate to."""
        return wishes_of(self.options, self.kernel.name)
