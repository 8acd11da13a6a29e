"""What the toolchain takes and gives. Everything that runs a compiler stands behind these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tilepipe.diagnostics import Refusal
from tilepipe.problem.types import Parameter
from tilepipe.source import Span
from tilepipe.toolchain.resources import Resources


@dataclass(frozen=True)
class CompileOptions:
    """Flags that a user can give: `-I`, `-D`, `-std`, and what stands after `--`."""

    include_dirs: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    std: str = "c++17"
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unit:
    """A CUDA source text with the kernel wanted from it.

    `path` names the file in messages and its folder is searched for quoted includes. `instantiate` is the
    template-id of a kernel template (`"sgemm<128, 8>"`), None for a plain kernel. `beside` are other kernels of the
    text, with their template-ids, that are to be compiled too: questions may be asked in them.
    """

    text: str
    path: str
    kernel: str
    instantiate: str | None = None
    options: CompileOptions = CompileOptions()
    beside: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class Compiled:
    """One kernel compiled for one architecture.

    `image` is PTX text (kind "ptx") or a cubin (kind "cubin"); `symbol` the lowered kernel name. The resource
    fields are per thread (registers, bytes of local memory and spills) and per block (static shared bytes);
    they are known for cubins only and are 0 for PTX.
    """

    kind: Literal["ptx", "cubin"]
    image: bytes
    symbol: str
    arch: str
    log: str = ""
    registers: int = 0
    static_shared: int = 0
    local_bytes: int = 0
    spill_stores: int = 0
    spill_loads: int = 0

    @property
    def resources(self) -> Resources:
        return Resources(
            self.registers, self.static_shared, self.local_bytes, self.spill_stores, self.spill_loads
        )


@dataclass(frozen=True)
class Question:
    """Something only the compiler knows, asked at byte `offset` of the unit's text (a statement boundary).

    kind "value": the integer constant `expression`, or None where it is not a constant;
    kind "type": the spelled type of `decltype((expression))` without reference and cv, e.g. "float4";
    kind "plain": 1 where that type is trivially copyable, 0 where it is not;
    kind "blank": 1 where its default constructor is trivial, so that an empty initialiser leaves zeros, else 0.
    """

    key: str
    kind: Literal["value", "type", "plain", "blank"]
    expression: str
    offset: int


@dataclass(frozen=True)
class Asked:
    """Questions about one kernel. The unit's text is the file's but for edits within `kernel`, a span of the file."""

    unit: Unit
    questions: tuple[Question, ...]
    kernel: Span


Answer = int | str | None


class Toolchain(Protocol):
    """A compiler that turns units into PTX and cubins and answers questions about them."""

    @property
    def name(self) -> str: ...  # e.g. "nvrtc 13.5"

    def compile(self, unit: Unit, arch: str, kind: Literal["ptx", "cubin"]) -> Compiled | Refusal: ...

    def usage(self, unit: Unit, arch: str) -> Resources | Refusal: ...

    def answer(self, unit: Unit, questions: tuple[Question, ...]) -> dict[str, Answer] | Refusal: ...

    # Ahead of `usage` and `answer`, for many kernels of a file.

    def usage_together(self, base: str, asked: Sequence[Asked], arch: str) -> None: ...

    def answer_together(self, base: str, asked: Sequence[Asked]) -> None: ...

    def parameter_types(self, unit: Unit) -> tuple[Parameter, ...] | Refusal: ...
