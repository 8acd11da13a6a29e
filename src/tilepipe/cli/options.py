"""The command line's options, declared once, and the values that they make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

if TYPE_CHECKING:
    from tilepipe.options import Options

# The choices of `tilepipe.plan.types`, which is not imported for a help text; a test compares them.
VARIANTS, FORMS = "ldg|prefetch|cp_async|mixed|stash", "ring|textbook"
APIS = "ptx|primitives|cuda-pipeline|cuda-pipeline-block"
_KERNEL, _BUILD, _CHOICE, _OUTPUT = "Kernel", "Compiler", "Choice of the candidate", "Output"


def _option(panel: str, *names: str, help: str, **more: Any) -> Any:
    """A typer option in one panel of the help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def _flag(panel: str, *names: str, help: str) -> Any:
    """An option without a value."""
    return _option(panel, *names, help=help, metavar="")


File = Annotated[Path, typer.Argument(help="The CUDA file.", show_default=False)]
FileOrCubin = Annotated[Path, typer.Argument(help="The CUDA file, or a cubin.", show_default=False)]

# Where results go: parameters of a command's own.
OutputFile = Annotated[Path | None, _option(_OUTPUT, "-o", "--output", help="Write the new source here.")]
Diff = Annotated[bool, _flag(_OUTPUT, "--diff", help="Print the change as a diff.")]
InPlace = Annotated[bool, _flag(_OUTPUT, "--in-place", help="Change FILE itself; keeps FILE.bak.")]
OrOriginal = Annotated[
    bool,
    _flag(
        _OUTPUT,
        "--or-original",
        help="Leave the original at -o where nothing better came out, and count that as success.",
    ),
]
Json = Annotated[
    str | None, _option(_OUTPUT, "--json", metavar="[FILE]", help="The result as JSON; - is stdout.")
]
Html = Annotated[
    Path | None, _option(_OUTPUT, "--html", metavar="FILE", help="The result as one page to read.")
]
Trace = Annotated[
    Path | None,
    _option(_OUTPUT, "--trace", metavar="FILE", help="The main loops' schedules as a Chrome trace."),
]


def require(*kinds: str) -> Any:
    """The option `--require` of a command that can give evidence of these kinds."""
    help = f"Evidence that must be had: {', '.join(kinds)}."
    return Annotated[str, _option(_OUTPUT, "--require", metavar="KIND,…", help=help)]


Blocks = Annotated[
    str,
    _option(_KERNEL, "--blocks", metavar="N|all", help="Blocks of each grid; default what runs in seconds."),
]

AsIs = Annotated[
    bool, _flag(_KERNEL, "--as-is", help="Audit the kernel as it stands, not a candidate made from it.")
]
Fix = Annotated[bool, _flag(_OUTPUT, "--fix", help="Make the safe fixes in FILE itself; keeps FILE.bak.")]
Verbose = Annotated[
    bool, _option(_OUTPUT, "-v", "--verbose", help="Name the kernels that could not be followed, and why.")
]

# Groups of what makes an `Options`: name → annotation and default.
KERNEL = {
    "kernel": (
        Annotated[str | None, _option(_KERNEL, "-k", "--kernel", help="The kernel.", metavar="NAME")],
        None,
    ),
    "problem": (
        Annotated[
            Path | None,
            _option(
                _KERNEL,
                "-p",
                "--problem",
                help="How to launch and check it; default FILE.toml beside FILE.cu.",
            ),
        ],
        None,
    ),
}
NAMED = {"kernel": KERNEL["kernel"]}
RUNNING = {
    "device": (
        Annotated[str, _option(_KERNEL, "--device", metavar="auto|cuda|cpu", help="Where kernels run.")],
        "auto",
    ),
    "size": (
        Annotated[
            list[str] | None,
            _option(_KERNEL, "--size", metavar="NAME", help="Only this size set (repeatable)."),
        ],
        None,
    ),
    "seed": (
        Annotated[int, _option(_KERNEL, "--seed", metavar="N", min=0, help="Seed of the random data.")],
        0,
    ),
    "max_steps": (
        Annotated[
            int | None,
            _option(
                _KERNEL,
                "--max-steps",
                metavar="N",
                min=1,
                help="Loop turns and barriers of a block before it counts as endless, in the emulator.",
            ),
        ],
        None,
    ),
    "no_reference": (
        Annotated[bool, _flag(_KERNEL, "--no-reference", help="Do not run the problem's reference code.")],
        False,
    ),
}
EMULATING = {name: option for name, option in RUNNING.items() if name != "device"}
CHANGED = {
    "changed_problem": (
        Annotated[
            Path | None,
            _option(
                _KERNEL,
                "--changed-problem",
                help="The problem file of CHANGED where its launch differs: more `shared`, say.",
            ),
        ],
        None,
    ),
}
BUILD = {
    "arch": (
        Annotated[
            str | None,
            _option(_BUILD, "--arch", metavar="sm_NN", help="Architecture; default the GPU's, else sm_80."),
        ],
        None,
    ),
    "toolchain": (
        Annotated[str, _option(_BUILD, "--toolchain", metavar="nvrtc|nvcc", help="The compiler.")],
        "nvrtc",
    ),
    "include": (
        Annotated[
            list[str] | None, _option(_BUILD, "-I", metavar="DIR", help="Include folder (repeatable).")
        ],
        None,
    ),
    "define": (
        Annotated[
            list[str] | None, _option(_BUILD, "-D", metavar="NAME[=VALUE]", help="Macro (repeatable).")
        ],
        None,
    ),
    "std": (
        Annotated[str, _option(_BUILD, "-std", "--std", metavar="DIALECT", help="C++ dialect.")],
        "c++17",
    ),
}
CHOICE = {
    "candidate": (
        Annotated[str | None, _option(_CHOICE, "--candidate", metavar="ID", help="This one, by its id.")],
        None,
    ),
    "variant": (
        Annotated[
            str | None,
            _option(_CHOICE, "--variant", metavar=VARIANTS, help="Only this way of copying."),
        ],
        None,
    ),
    "stages": (
        Annotated[
            int | None,
            _option(
                _CHOICE, "--stages", metavar="N", min=1, help="Only this many stages: 2 to 8; 1 is prefetch."
            ),
        ],
        None,
    ),
    "form": (
        Annotated[str | None, _option(_CHOICE, "--form", metavar=FORMS, help="Only this form of the loop.")],
        None,
    ),
    "layout": (
        Annotated[
            str,
            _option(
                _CHOICE, "--layout", metavar="auto|keep", help="Try padded rows of tiles on a GPU; or never."
            ),
        ],
        "auto",
    ),
    "fragments": (
        Annotated[
            str,
            _option(
                _CHOICE,
                "--fragments",
                metavar="auto|on|off",
                help="Load the next group's fragments while one is multiplied: where measured faster, only so, never.",
            ),
        ],
        "auto",
    ),
    "api": (
        Annotated[
            str,
            _option(_CHOICE, "--api", metavar=APIS, help="What asynchronous copies are written in."),
        ],
        "ptx",
    ),
    "plan": (
        Annotated[Path | None, _option(_CHOICE, "--plan", help="Replay the plan of an earlier --json.")],
        None,
    ),
    "assume": (
        Annotated[
            list[str] | None,
            _option(
                _CHOICE,
                "--assume",
                metavar="no-alias=A,…|align=16",
                help="Promise that these pointers overlap no other and that the loop loads nothing that it stores "
                "through them, or that launches allow whole copies of 16 bytes (repeatable).",
            ),
        ],
        None,
    ),
    "allow_launch_change": (
        Annotated[
            bool,
            _flag(_CHOICE, "--allow-launch-change", help="Allow candidates that need another launch."),
        ],
        False,
    ),
}


def build_options(extra_flags: Sequence[str] = (), **given: Any) -> Options:
    """`Options` from what typer parsed, by parameter name; `extra_flags` stood after `--`.

    Raises typer.BadParameter (exit 2, with the usage) for words that are none of the choices.
    """
    from tilepipe.options import Options
    from tilepipe.plan.types import Api, Form, Fragments, Variant
    from tilepipe.toolchain.types import CompileOptions

    def path(name: str) -> str | None:
        return str(given[name]) if given.get(name) is not None else None

    if given.get("candidate") and (given.get("variant") or given.get("stages") or given.get("form")):
        raise typer.BadParameter("--candidate names one already: leave out --variant, --stages and --form")
    device = _one_of("--device", given.get("device", "auto"), "auto", "cuda", "cpu")
    toolchain = _one_of("--toolchain", given.get("toolchain", "nvrtc"), "nvrtc", "nvcc")
    return Options(
        kernel=given.get("kernel"),
        problem=path("problem"),
        changed_problem=path("changed_problem"),
        device=cast(Literal["auto", "cuda", "cpu"], device),
        arch=given.get("arch"),
        toolchain=cast(Literal["nvrtc", "nvcc"], toolchain),
        compile=CompileOptions(
            include_dirs=tuple(given.get("include") or ()),
            defines=_macros(given.get("define") or ()),
            std=given.get("std", "c++17"),
            extra=tuple(extra_flags),
        ),
        candidate=given.get("candidate"),
        variant=_one_of("--variant", given.get("variant"), *get_args(Variant)),
        stages=given.get("stages"),
        form=_one_of("--form", given.get("form"), *get_args(Form)),
        fragments=cast(
            Fragments, _one_of("--fragments", given.get("fragments", "auto"), *get_args(Fragments))
        ),
        api=cast(Api, _one_of("--api", given.get("api", "ptx"), *get_args(Api))),
        layout=cast(
            Literal["auto", "keep"], _one_of("--layout", given.get("layout", "auto"), "auto", "keep")
        ),
        plan=path("plan"),
        sizes=tuple(given.get("size") or ()),
        seed=given.get("seed", 0),
        max_steps=given.get("max_steps"),
        use_reference=not given.get("no_reference", True),  # what runs nothing does not ask
        allow_launch_change=given.get("allow_launch_change", False),
        no_alias=_no_alias(given.get("assume") or ()),
        aligned=any(promise.startswith("align=") for promise in given.get("assume") or ()),
    )


def _no_alias(promises: Sequence[str]) -> frozenset[str]:
    names: set[str] = set()
    for promise in promises:
        kind, _, listed = promise.partition("=")
        _one_of("--assume", kind, "no-alias", "align")
        if kind == "align":
            _one_of("--assume align", listed, "16")
            continue
        given = [name.strip() for name in listed.split(",")]
        if not all(name.isidentifier() for name in given):
            raise typer.BadParameter(f"--assume: `{promise}` names no pointers; write no-alias=A,B")
        names.update(given)
    return frozenset(names)


def _macros(given: Sequence[str]) -> tuple[str, ...]:
    """The macros of -D. Raises typer.BadParameter for one without a name."""
    for macro in given:
        if not re.match(r"[A-Za-z_]\w*(\(.*\))?(=|$)", macro):
            raise typer.BadParameter(f"-D: `{macro}` is no NAME or NAME=VALUE")
    return tuple(given)


def required_evidence(text: str, *possible: str) -> tuple[str, ...]:
    """The kinds of evidence in a comma-separated list, all of them `possible` for the command. Raises
    typer.BadParameter for any other."""
    kinds = tuple(kind for kind in (part.strip() for part in text.split(",")) if kind)
    for kind in kinds:
        _one_of("--require", kind, *possible)
    return kinds


def _one_of(option: str, value: str | None, *choices: str) -> str | None:
    if value is not None and value not in choices:
        raise typer.BadParameter(f"{option}: `{value}` is none of {', '.join(choices)}")
    return value
