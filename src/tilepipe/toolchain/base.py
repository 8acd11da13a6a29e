"""What every toolchain does the same way: checks, the cache, and questions put as probes."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from tilepipe.diagnostics import Refusal, error
from tilepipe.problem.types import Parameter
from tilepipe.toolchain.cache import Cache, digest, text_digest
from tilepipe.toolchain.compiled import pack, unpack
from tilepipe.toolchain.includes import Files, gather
from tilepipe.toolchain.options import architecture
from tilepipe.toolchain.probes import Failed, TextEdit, ask, ask_parameters
from tilepipe.toolchain.resources import Resources
from tilepipe.toolchain.together import merged, together
from tilepipe.toolchain.types import Answer, Asked, Compiled, Question, Unit

# Constants and types are asked for the oldest architecture with asynchronous copies.
PROBE_ARCH = "compute_80"


class CachingToolchain(ABC):
    """A `Toolchain` over one compiler. Processes may share a cache, threads an object."""

    compiles_several = False  # whether a unit's `beside` is heeded

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache if cache is not None else Cache()

    @property
    @abstractmethod
    def name(self) -> str:
        """The compiler and its version, e.g. "nvrtc 13.5"."""

    def compile(self, unit: Unit, arch: str, kind: Literal["ptx", "cubin"]) -> Compiled | Refusal:
        """The unit's kernel for `arch` ("sm_80").

        Refusals: TP200 the source does not compile, TP201 an include is missing, TP202 and TP203 the compiler
        is not at hand, TP204 it does not know the architecture, TP205 no such kernel, TP206 the assembler
        refuses, TP209 which instance is meant, TP210 an unknown flag.
        """
        number = self._number(arch)
        if isinstance(number, Refusal):
            return number
        files = gather(unit)
        key = self._key(unit, files, "compile", number, kind)
        compiled = unpack(self._cache.get(key))
        if compiled is not None:
            return compiled
        made = self._compile(unit, files, number, kind)
        if not isinstance(made, Refusal):
            self._cache.put(key, pack(made))
        return made

    def usage(self, unit: Unit, arch: str) -> Resources | Refusal:
        """What the unit's kernel takes on `arch`. Refusals as of `compile`."""
        cached = self._cache.get(self._key(unit, gather(unit), "usage", arch))
        if cached is not None:
            return Resources(**json.loads(cached))
        made = self.compile(unit, arch, "cubin")
        return made if isinstance(made, Refusal) else made.resources

    def usage_together(self, base: str, asked: Sequence[Asked], arch: str) -> None:
        """Compile kernels of the file `base` in one program; `usage` then finds what each takes in the cache.

        Only of kernels with all calls inlined: how much is inlined may depend on which other kernels call it, so what
        is left is compiled on its own. Nothing is remembered where the program does not compile.
        """
        number = self._number(arch)
        keyed = {self._key(a.unit, gather(a.unit), "usage", arch): a for a in asked}
        wanted = self._unknown(base, keyed)
        put = together(base, list(wanted.values()))
        if put is None or not self.compiles_several or isinstance(number, Refusal):
            return
        for key, used in zip(wanted, self._usage(put.unit, gather(put.unit), number), strict=False):
            if used is not None:
                self._cache.put(key, json.dumps(asdict(used)).encode())

    def _number(self, arch: str) -> str | Refusal:
        """The architecture's number, where the compiler is at hand and knows it."""
        missing = self.unavailable()
        if missing is not None:
            return missing
        number = architecture(arch)
        known = self._architectures()
        if number is None or int(number.rstrip("af")) not in known:
            listed = ", ".join(f"sm_{one}" for one in known)
            return error("TP204", f"{self.name} does not compile for `{arch}`", help=f"one of {listed}")
        return number

    def answer(self, unit: Unit, questions: tuple[Question, ...]) -> dict[str, Answer] | Refusal:
        """Answers by key, see `Question`: one compilation for all, a second where some have no answer."""
        missing = self.unavailable()
        if missing is not None:
            return missing
        files = gather(unit)
        key = self._answer_key(unit, files, questions)
        cached = self._cache.get(key)
        if cached is not None:
            return dict(json.loads(cached))
        answers = ask(lambda edit: self._probe(unit, files, edit), unit.path, questions)
        if not isinstance(answers, Refusal):
            self._cache.put(key, json.dumps(answers).encode())
        return answers

    def answer_together(self, base: str, asked: Sequence[Asked]) -> None:
        """Answer questions about several kernels of the file `base` at once; `answer` then finds them in the cache.

        Where that does not work out, nothing is remembered, and each is asked on its own.
        """
        keyed = {self._answer_key(a.unit, gather(a.unit), a.questions): a for a in asked}
        wanted = self._unknown(base, keyed)
        put = together(base, list(wanted.values()))
        if put is None or not self.compiles_several or self.unavailable() is not None:
            return
        files = gather(put.unit)
        answers = ask(lambda edit: self._probe(put.unit, files, edit), put.unit.path, put.questions)
        if isinstance(answers, Refusal) or not any(value is not None for value in answers.values()):
            return
        for number, (key, one) in enumerate(wanted.items()):
            own = {question.key: answers[f"{number}:{question.key}"] for question in one.questions}
            self._cache.put(key, json.dumps(own).encode())

    def _unknown(self, base: str, keyed: dict[str, Asked]) -> dict[str, Asked]:
        """What is not in the cache under its key and can be put together with others."""
        return {
            key: one
            for key, one in keyed.items()
            if self._cache.get(key) is None and merged(base, [one]) is not None
        }

    def _answer_key(self, unit: Unit, files: Files, questions: tuple[Question, ...]) -> str:
        return self._key(unit, files, "answer", [[q.key, q.kind, q.expression, q.offset] for q in questions])

    def parameter_types(self, unit: Unit) -> tuple[Parameter, ...] | Refusal:
        """The kernel's parameters, with typedefs and template parameters resolved (to "unsigned char")."""
        missing = self.unavailable()
        if missing is not None:
            return missing
        files = gather(unit)
        key = self._key(unit, files, "parameters")
        cached = self._cache.get(key)
        if cached is not None:
            return tuple(Parameter(*fields) for fields in json.loads(cached))
        texts = [source.text for source in (files.main, *files.headers)]
        parameters = ask_parameters(
            lambda edit: self._probe(unit, files, edit), texts, unit.kernel, self._kernel_name(unit, files)
        )
        if not isinstance(parameters, Refusal):
            self._cache.put(key, json.dumps([[p.name, p.type, p.pointee] for p in parameters]).encode())
        return parameters

    @abstractmethod
    def unavailable(self) -> Refusal | None:
        """Why this machine cannot run the compiler; None where it can."""

    @abstractmethod
    def _identity(self) -> list[str]:
        """What changes whenever the compiler or its headers do."""

    @abstractmethod
    def _architectures(self) -> tuple[int, ...]: ...

    @abstractmethod
    def _kernel_name(self, unit: Unit, files: Files) -> str:
        """The C++ expression that denotes the wanted kernel at global scope."""

    @abstractmethod
    def _compile(
        self, unit: Unit, files: Files, number: str, kind: Literal["ptx", "cubin"]
    ) -> Compiled | Refusal: ...

    def _usage(self, unit: Unit, files: Files, number: str) -> list[Resources | None]:
        """What each kernel of a unit of several takes, None where others may have a part in it; [] where the unit does
        not compile."""
        del unit, files, number
        return []

    @abstractmethod
    def _probe(self, unit: Unit, files: Files, edit: TextEdit) -> str | Failed:
        """PTX of the unit, its main text passed through `edit`, with `tilepipe_probe.h` before it."""

    def _key(self, unit: Unit, files: Files, *more: object) -> str:
        """A cache key over everything that decides a result: texts, names, flags and versions."""
        options = unit.options
        return digest(
            self._identity(),
            [os.path.abspath(unit.path), unit.path, unit.kernel, unit.instantiate, unit.beside],
            [options.include_dirs, options.defines, options.std, options.extra],
            [text_digest(files.main.text), [[h.name, text_digest(h.text)] for h in files.headers]],
            files.stand_ins,
            more,
        )
