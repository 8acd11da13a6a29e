"""One candidate with everything that its text is made of, and the lambdas that are its parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilepipe.kernel.fragments import FragmentLoop
from tilepipe.kernel.model import KernelModel
from tilepipe.plan.types import Candidate
from tilepipe.rewrite.issue import Spread
from tilepipe.rewrite.lines import indented as _lines
from tilepipe.rewrite.project import Projection
from tilepipe.rewrite.registers import Staging
from tilepipe.rewrite.rings import Ring
from tilepipe.rewrite.state import LoaderState

STEP = "    "  # one level of indentation
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, eq=False)
class Loader:
    """The load phase: asynchronous copies, register staging, or both."""

    load: Projection | None
    staging: Staging | None
    spread: Spread | None = None


@dataclass(frozen=True, eq=False)
class Shape:
    """One candidate with everything that its text is made of; `indent` is that of the loop."""

    model: KernelModel
    candidate: Candidate
    state: LoaderState
    loader: Loader
    ring: Ring
    indent: str
    fragments: FragmentLoop | None = None

    @property
    def is_ring(self) -> bool:
        return self.candidate.variant == "cp_async" and self.candidate.form == "ring"

    @property
    def single(self) -> bool:
        return self.candidate.variant == "prefetch"

    @property
    def fence(self) -> list[str]:
        """The remedy for loads that the compiler sinks below the math: ptxas moves them across an empty
        `asm volatile` (it never sees it), and not across this."""
        return ["__syncwarp();  // keeps the loads above the math"] * (self.candidate.remedy == "fence")

    @property
    def overruns(self) -> bool:
        """Whether the loader runs past the last tile."""
        return self.candidate.remedy == "overrun"

    @property
    def rolled(self) -> list[str]:
        """The remedy for a tile loop that the compiler unrolls."""
        return ["#pragma unroll 1"] * (self.candidate.remedy == "unroll1")

    @property
    def peeled(self) -> bool:
        return self.candidate.form == "textbook"


def lambda_text(
    s: Shape,
    name: str,
    parameters: str,
    body: Projection,
    binds: Sequence[str],
    step: str,
    end: str | None = None,
) -> str:
    """A lambda of some statements, with the names that these mention bound before them and a step after, or the text
    `end` that takes that step under a condition."""
    inside = s.indent + STEP
    text = f"{s.indent}auto {name} = [&]({parameters}) {{\n"
    words = words_in(s, body.text(inside) + step)
    text += _lines(inside, [b for b in binds if bound_name(b) in words])
    text += body.text(inside)
    if end is None:
        end = _lines(inside, [step]) if step else ""
    return text + end + f"{s.indent}}};\n"


def bound_name(line: str) -> str:
    """The name that a line such as `auto& As = As_ring[tp_stage];` binds."""
    return line.partition(" = ")[0].rpartition(" ")[2].lstrip("&")


def words_in(s: Shape, text: str) -> set[str]:
    """The names that a text mentions, those of all macros where it mentions one."""
    words = set(_WORD.findall(text))
    macros = s.model.file.macros
    if words & macros.keys():
        words.update(*(_WORD.findall(m.body) for m in macros.values()))
    return words
