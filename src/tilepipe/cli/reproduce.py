"""The command lines that make a result again, as the page shows them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tilepipe.report.page import Command, Origin

if TYPE_CHECKING:
    from tilepipe.options import Options
    from tilepipe.report import RunReport


def origin(verb: str, file: str, options: Options, report: RunReport, text: str | None) -> Origin:
    """Where a result of `tilepipe verb file` came from. What was decided on the way (kernel, architecture,
    device) is spelled out, so that another machine decides the same. `text` is the file's."""
    common = _common(options, report)
    choice = _choice(options)
    running = _running(options, report) if verb == "run" else []
    commands = [Command("The same again:", _line(verb, file, [*common, *running, *choice], options))]
    if report.chosen:
        pinned = [*common, "--candidate", report.chosen]
        pinned += ["--allow-launch-change"] if options.allow_launch_change else []
        commands += [
            Command(
                "Only the source that came out, without running anything:",
                _line("rewrite", file, pinned, options),
            ),
            Command("Only the audit of its machine code:", _line("sass", file, pinned, options)),
        ]
    return Origin(text, tuple(commands), options.seed if verb == "run" else None)


def _line(verb: str, file: str, arguments: list[str], options: Options) -> str:
    flags = ["--", *options.compile.extra] if options.compile.extra else []
    return shlex.join(["tilepipe", verb, file, *arguments, *flags])


def _common(options: Options, report: RunReport) -> list[str]:
    """The kernel, its problem file, and how it is compiled."""
    kernel = report.kernel.name if report.kernel else options.kernel
    compile = options.compile
    words = ["-k", kernel] if kernel else []
    words += ["-p", options.problem] if options.problem else []
    words += ["--arch", report.arch] if report.arch else []
    words += ["--toolchain", options.toolchain] if options.toolchain != "nvrtc" else []
    words += [word for folder in compile.include_dirs for word in ("-I", folder)]
    words += [word for macro in compile.defines for word in ("-D", macro)]
    words += ["-std", compile.std] if compile.std != "c++17" else []
    words += ["--assume", f"no-alias={','.join(sorted(options.no_alias))}"] if options.no_alias else []
    words += ["--assume", "align=16"] if options.aligned else []
    return words


def _running(options: Options, report: RunReport) -> list[str]:
    device = "cpu" if report.tool.device == "cpu" else "cuda" if report.tool.device else options.device
    words = ["--device", device, "--seed", str(options.seed)]
    words += [word for size in options.sizes for word in ("--size", size)]
    words += ["--max-steps", str(options.max_steps)] if options.max_steps is not None else []
    return words + ([] if options.use_reference else ["--no-reference"])


def _choice(options: Options) -> list[str]:
    given = (
        ("--candidate", options.candidate),
        ("--variant", options.variant),
        ("--stages", options.stages),
        ("--form", options.form),
        ("--fragments", options.fragments if options.fragments != "auto" else None),
        ("--api", options.api if options.api != "ptx" else None),
        ("--layout", options.layout if options.layout != "auto" else None),
        ("--plan", options.plan),
    )
    words = [word for name, value in given if value is not None for word in (name, str(value))]
    return words + (["--allow-launch-change"] if options.allow_launch_change else [])
