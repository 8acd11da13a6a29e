"""What a user can ask for, as one value that every step reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tilepipe.plan.types import Api, Fragments
from tilepipe.toolchain.types import CompileOptions


@dataclass(frozen=True)
class Options:
    """`None` and empty mean: decide for me.

    `problem`: path of the problem file (default: FILE.toml beside FILE.cu); `changed_problem` that of the
    changed kernel of `verify`, where its launch differs. `candidate` names one candidate; `variant`, `stages`,
    `form` and `fragments` narrow the choice instead. `plan`: path of a plan to replay. `sizes`: size sets of the
    problem to run, all of them when empty. `max_steps` bounds what a block may do in the emulator.
    """

    kernel: str | None = None
    problem: str | None = None
    changed_problem: str | None = None
    device: Literal["auto", "cuda", "cpu"] = "auto"
    arch: str | None = None
    toolchain: Literal["nvrtc", "nvcc"] = "nvrtc"
    compile: CompileOptions = field(default_factory=CompileOptions)
    candidate: str | None = None
    variant: str | None = None
    stages: int | None = None
    form: str | None = None
    fragments: Fragments = "auto"
    api: Api = "ptx"
    plan: str | None = None
    sizes: tuple[str, ...] = ()
    seed: int = 0
    use_reference: bool = True
    max_steps: int | None = None
    allow_launch_change: bool = False
    layout: Literal["auto", "keep"] = "auto"  # auto: padded rows are tried where timing can judge them
    # Pointers promised to overlap no other, and to be loaded and stored in different places: --assume no-alias=A,B.
    no_alias: frozenset[str] = frozenset()
    # Pointers, strides and blocks promised to be such that whole copies of 16 bytes can be made: --assume align=16.
    aligned: bool = False
