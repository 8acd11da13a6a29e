"""What takes questions to the compiler of its own, beside those about the tile loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from tilepipe.diagnostics import Refusal
from tilepipe.kernel.apart import apart
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.instance import Guard
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.questions import Ask
from tilepipe.kernel.switches import switch_asks, switch_guards, switches
from tilepipe.toolchain import Question, Toolchain, Unit


def put(asks: Iterable[Ask]) -> tuple[Question, ...]:
    """The asks of the analysis as the compiler's questions."""
    return tuple(Question(a.key, a.kind, a.expression, a.offset) for a in asks)


def mixed(
    toolchain: Toolchain,
    unit: Unit,
    model: KernelModel,
    block: tuple[int, int, int] | None,
    no_alias: Set[str],
) -> Refusal | None:
    """Why a tile may share elements with something else in its array; `unit` has the model's text."""
    answers: dict[str, int | str | None] = {}
    while (found := apart(model, answers, block, no_alias)).asks:
        told = toolchain.answer(unit, put(found.asks))
        if isinstance(told, Refusal):
            return told
        answers |= told
    return found.refused


def switched(
    toolchain: Toolchain, unit: Unit, file: CudaFile, kernel: KernelText, given: Sequence[str]
) -> tuple[Guard, ...]:
    """What holds in this build, with the macros `given`, and not with others that the kernel depends on."""
    names = switches(file, kernel, given)
    told = toolchain.answer(unit, put(switch_asks(kernel, names))) if names else {}
    return () if isinstance(told, Refusal) else switch_guards(file, names, told)
