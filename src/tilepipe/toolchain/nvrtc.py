"""The default toolchain: NVRTC, which needs no toolkit, driver, GPU or host compiler."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from tilepipe.diagnostics import Diagnostic, Refusal, error
from tilepipe.toolchain.base import PROBE_ARCH, CachingToolchain
from tilepipe.toolchain.cache import Cache
from tilepipe.toolchain.device_source import DeviceSource, prepare
from tilepipe.toolchain.headers import SHIMS, CudaHeaders, find_headers
from tilepipe.toolchain.includes import Files
from tilepipe.toolchain.messages import CompilerError, compile_refusal, parse_errors
from tilepipe.toolchain.nvrtc_program import Library, Program, library, run
from tilepipe.toolchain.options import nvrtc_flags
from tilepipe.toolchain.probes import Failed, TextEdit
from tilepipe.toolchain.resources import Resources, calls_nothing, parse_resources
from tilepipe.toolchain.types import Compiled, Unit

_NAME_MAP = "__nv_name_map"  # NVRTC's pseudo-file for the names it is asked to lower
_ATTEMPTS = 24  # rounds of blanking what turns out to be host code


class NvrtcToolchain(CachingToolchain):
    """Compiles kernels of `.cu` files through NVRTC: host code and other kernels of the file are left out.

    The object keeps what it learnt of which parts of a file are host code.
    """

    def __init__(self, cache: Cache | None = None) -> None:
        super().__init__(cache)
        self._learnt: dict[str, DeviceSource] = {}

    compiles_several = True

    @property
    def name(self) -> str:
        found = library()
        return f"nvrtc {found.name}" if isinstance(found, Library) else "nvrtc"

    def unavailable(self) -> Refusal | None:
        found = library()
        if isinstance(found, Refusal):
            return found
        if find_headers(found.path) is not None:
            return None
        return error(
            "TP202",
            "no CUDA headers found: neither beside NVRTC, nor as pip packages, nor in a toolkit",
            help='`pip install "nvidia-cuda-runtime==13.*" "nvidia-cuda-crt==13.*" '
            '"nvidia-cuda-cccl==13.*"`, or set CUDA_HOME to a toolkit',
        )

    def _identity(self) -> list[str]:
        nvrtc, headers = _loaded()
        return ["nvrtc", nvrtc.name, headers.version, *headers.directories]

    def _architectures(self) -> tuple[int, ...]:
        return _loaded()[0].architectures

    def _kernel_name(self, unit: Unit, files: Files) -> str:
        return self._device_source(unit, files).kernel_name

    def _compile(
        self, unit: Unit, files: Files, number: str, kind: Literal["ptx", "cubin"]
    ) -> Compiled | Refusal:
        target = [f"--gpu-architecture=compute_{number}"]
        if kind == "cubin":
            target = _machine_code(number)
        program = self._build(unit, files, [*target, "--generate-line-info"])
        if isinstance(program, Failed):
            return program.refusal
        resources = (parse_resources(program.log, program.symbol) if kind == "cubin" else None) or Resources()
        image = program.cubin if kind == "cubin" else program.ptx
        return Compiled(kind, image, program.symbol, f"sm_{number}", program.log, **vars(resources))

    def _usage(self, unit: Unit, files: Files, number: str) -> list[Resources | None]:
        program = self._build(unit, files, [*_machine_code(number), "--generate-line-info"])
        if isinstance(program, Failed):
            return []
        ptx = program.ptx.decode()
        return [
            parse_resources(program.log, symbol) if calls_nothing(ptx, symbol) else None
            for symbol in program.symbols
        ]

    def _probe(self, unit: Unit, files: Files, edit: TextEdit) -> str | Failed:
        flags = [
            f"--gpu-architecture={PROBE_ARCH}",
            "--pre-include=tilepipe_probe.h",
            *_loaded()[0].all_errors,
        ]
        # Without optimisation, since nothing of the code is wanted but the answers in it. An intrinsic that cannot be
        # generated that way, like those that the header replaces, is no error of any line.
        program = self._build(unit, files, [*flags, "-G"], edit)
        if isinstance(program, Failed) and not parse_errors(program.log):
            program = self._build(unit, files, flags, edit)
        return program if isinstance(program, Failed) else program.ptx.decode()

    def _build(
        self, unit: Unit, files: Files, flags: list[str], edit: TextEdit = lambda text: text
    ) -> Program | Failed:
        """Compile the unit, its main text passed through `edit`, blanking what turns out to be host code."""
        # Take out all that the compiler objects to at once; should that have been too much, one by one.
        hasty = self._attempt(unit, files, flags, edit, only_first=False)
        if not isinstance(hasty, Failed) or hasty.rounds == 1:
            return hasty
        return self._attempt(unit, files, flags, edit, only_first=True)

    def _attempt(
        self, unit: Unit, files: Files, flags: list[str], edit: TextEdit, *, only_first: bool
    ) -> Program | Failed:
        source = self._device_source(unit, files)
        first: Failed | None = None
        for rounds in range(1, _ATTEMPTS + 1):
            program = _run(source, flags, edit)
            if program.ok:
                self._learnt[self._key(unit, files)] = source
                return _with_entry(program, unit)
            failed = Failed(program.log, _refuse(program, source), rounds)
            first = first or failed
            errors = parse_errors(program.log)
            without = source.without(errors, only_first)
            if without is None:
                # What the compiler says of the text as the author wrote it is worth more than what it says
                # after something was blanked, which may only be the consequence.
                news = set(errors) - set(parse_errors(first.log))
                told = not news or all(one.file == _NAME_MAP for one in errors)
                return replace(failed if told else first, rounds=rounds)
            source = without
        return replace(first or failed, rounds=_ATTEMPTS)

    def _device_source(self, unit: Unit, files: Files) -> DeviceSource:
        key = self._key(unit, files)
        if key not in self._learnt:
            self._learnt[key] = prepare(unit, files)
        return self._learnt[key]


def _machine_code(number: str) -> list[str]:
    return [f"--gpu-architecture=sm_{number}", "--ptxas-options=-v"]


def _loaded() -> tuple[Library, CudaHeaders]:
    """The library and headers, where `unavailable` found both."""
    nvrtc = library()
    assert isinstance(nvrtc, Library)
    headers = find_headers(nvrtc.path)
    assert headers is not None
    return nvrtc, headers


def _run(source: DeviceSource, flags: list[str], edit: TextEdit) -> Program:
    nvrtc, headers = _loaded()
    options = source.unit.options
    folders = [*options.include_dirs, str(SHIMS), *headers.directories]
    text, in_memory = source.program(edit(source.text))
    all_flags = [
        *nvrtc_flags(options),
        "--device-as-default-execution-space",
        "--pre-include=tilepipe_prelude.h",
        *nvrtc.afresh,
        *flags,
        *(f"-I{folder}" for folder in folders),
        *(["-DTILEPIPE_USES_STD"] if source.uses_std else []),
    ]
    return run(nvrtc.module, source.unit.path, text, in_memory, all_flags, expressions=source.names)


def _with_entry(program: Program, unit: Unit) -> Program | Failed:
    """The program, if the name asked for is a kernel's."""
    if re.search(rf"\.entry\s+{re.escape(program.symbol)}\b".encode(), program.ptx):
        return program
    return Failed(
        program.log, error("TP205", f"`{unit.kernel}` in {unit.path} is not a `__global__` function")
    )


def _refuse(program: Program, source: DeviceSource) -> Refusal:
    """A failed compilation in the user's terms."""
    if program.bad_option:
        return error("TP210", f"NVRTC does not take a flag: {program.log}", help="leave it out, or use nvcc")
    errors = parse_errors(program.log)
    naming = [one for one in errors if one.file == _NAME_MAP]
    if naming and len(naming) == len(errors):
        return _name_refusal(naming[0], source.unit)
    refused = compile_refusal(program.log, source.sources, "NVRTC")
    return Refusal(tuple(one for one in refused.diagnostics if _about_source(one))) if naming else refused


def _about_source(diagnostic: Diagnostic) -> bool:
    return diagnostic.place is None or diagnostic.place.file != _NAME_MAP


def _name_refusal(found: CompilerError, unit: Unit) -> Refusal:
    wanted = unit.instantiate or unit.kernel
    if "which instance" in found.message or "argument list for" in found.message:
        return error(
            "TP209",
            f"`{wanted}` stands for several functions: {found.message}",
            help=f'say which in the problem file, e.g. instantiate = "{unit.kernel}<128, 8>"',
        )
    return error("TP205", f"{unit.path} has no kernel `{wanted}`: {found.message}")
