"""The commands: each parses, calls one step and prints. Heavy imports wait until a command runs.

Annotations are evaluated here (no `from __future__ import annotations`): `command` reads them.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilepipe.cli import options as opt
from tilepipe.cli.command import command
from tilepipe.cli.output import unwritable, write_file
from tilepipe.cli.steps import load_steps
from tilepipe.cli.streams import console, print_diagnostics, print_report, progress
from tilepipe.cli.targets import (
    Targets,
    deliver_json,
    deliver_page,
    deliver_source,
    deliver_trace,
    original_text,
)
from tilepipe.diagnostics import Refusal, error

if TYPE_CHECKING:
    from tilepipe.options import Options
    from tilepipe.report import RunReport

ALL_EVIDENCE = (
    "correctness",
    "races",
    "sass",
    "benchmark",
)  # `tilepipe.report.EVIDENCE`, not imported for a help

app = typer.Typer(
    help="Software-pipelines the tile loop of a CUDA kernel, and proves what it did.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Compiler flags may follow after --. Exit codes: 0 the evidence asked for passed, 1 refused or "
    "original kept, 2 usage or compile error, 3 verification failed, 4 evidence asked for could not be had, "
    "130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from tilepipe import __version__

        print(f"tilepipe {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version


@command(app, opt.KERNEL, opt.RUNNING, opt.BUILD, opt.CHOICE)
def run(
    options: "Options",
    file: opt.File,
    output: opt.OutputFile = None,
    diff: opt.Diff = False,
    in_place: opt.InPlace = False,
    or_original: opt.OrOriginal = False,
    json: opt.Json = None,
    html: opt.Html = None,
    trace: opt.Trace = None,
    require: opt.require(*ALL_EVIDENCE) = "",  # type: ignore[valid-type]
) -> int:
    """All steps: plan, rewrite, verify, audit, measure, choose. Writes source only where it is told to."""
    targets = Targets(
        str(file), _text(output), diff, in_place, or_original, json, html=_text(html), trace=_text(trace)
    )
    return _emit(targets, opt.required_evidence(require, *ALL_EVIDENCE), options, with_evidence=True)


@command(app, opt.KERNEL, opt.BUILD, opt.CHOICE)
def check(
    options: "Options",
    file: opt.File,
    json: opt.Json = None,
    html: opt.Html = None,
) -> int:
    """What could be done with every kernel of the file: model, budget, plan. Writes no source."""
    from tilepipe.report import exit_code, refused_report, to_json, worst

    targets = Targets(str(file), json=json, html=_text(html))
    if (code := _cannot_deliver(targets)) is not None:
        return code
    steps = load_steps()
    jobs = steps.open_jobs(str(file), options, runs=False)
    if isinstance(jobs, Refusal):
        reports = [refused_report(jobs)]
    else:
        reports = [_as_report(report) for report in steps.check_all(jobs)]
    values = [to_json(report) for report in reports] if json is not None else [None]
    failed = deliver_json(values if len(values) > 1 else values[0], json)
    failed = failed or deliver_page(reports, targets, "check", options, original_text(str(file)))
    for number, report in enumerate(reports):
        if number:
            print(file=sys.stderr if targets.stdout_is_taken else sys.stdout)
        print_report(report, targets.stdout_is_taken)
    return _refuse(failed) if failed else worst(exit_code(report) for report in reports)


@command(app, opt.KERNEL, opt.BUILD, opt.CHOICE)
def rewrite(
    options: "Options",
    file: opt.File,
    output: opt.OutputFile = None,
    diff: opt.Diff = False,
    in_place: opt.InPlace = False,
    or_original: opt.OrOriginal = False,
    json: opt.Json = None,
) -> int:
    """Print the pipelined source of one candidate (the best predicted one), without running anything."""
    targets = Targets(str(file), _text(output), diff, in_place, or_original, json, to_stdout=True)
    return _emit(targets, (), options, with_evidence=False)


@command(app, opt.KERNEL, opt.CHANGED, opt.RUNNING, opt.BUILD)
def verify(
    options: "Options",
    original: Annotated[Path, typer.Argument(help="The kernel as it was.", show_default=False)],
    changed: Annotated[Path, typer.Argument(help="The kernel to hold against it.", show_default=False)],
    json: opt.Json = None,
    require: opt.require("correctness", "races") = "",  # type: ignore[valid-type]
) -> int:
    """Hold CHANGED against ORIGINAL: the same bits at every size, and no races."""
    steps = load_steps()
    return _examine(
        Targets(str(original), json=json),
        opt.required_evidence(require, "correctness", "races"),
        options,
        lambda job: steps.verify(job, str(changed), progress),
    )


@command(app, opt.KERNEL, opt.RUNNING, opt.BUILD, opt.CHOICE)
def bench(
    options: "Options",
    file: opt.File,
    json: opt.Json = None,
    require: opt.require("benchmark") = "",  # type: ignore[valid-type]
) -> int:
    """Time the original and its candidates on the GPU, interleaved. Exits with 4 where there is none."""
    opt.required_evidence(require, "benchmark")  # nothing else can be asked for, and this always is
    steps = load_steps()
    return _examine(
        Targets(str(file), json=json),
        ("benchmark",),
        options,
        lambda job: steps.bench(job, progress),
    )


@command(app, opt.KERNEL, opt.BUILD, opt.CHOICE)
def sass(
    options: "Options",
    file: opt.FileOrCubin,
    as_is: opt.AsIs = False,
    json: opt.Json = None,
    require: opt.require("sass") = "",  # type: ignore[valid-type]
) -> int:
    """Audit the machine code of one candidate against the original: is the load under the math? A cubin, and with
    --as-is a kernel that is pipelined by hand, is audited as it stands."""
    from tilepipe.report import exit_code
    from tilepipe.toolchain import is_binary

    targets, required = Targets(str(file), json=json), opt.required_evidence(require, "sass")
    steps = load_steps()
    if not is_binary(str(file)):
        return _examine(targets, required, options, steps.inspect_kernel if as_is else steps.sass)
    if (code := _cannot_deliver(targets)) is not None:
        return code
    report = _as_report(steps.inspect_cubin(str(file), options))
    return _finish(report, exit_code(report, required), targets, brief=True)


@command(app, opt.KERNEL, opt.EMULATING, opt.BUILD)
def emulate(
    options: "Options",
    file: opt.File,
    blocks: opt.Blocks = "",
    json: opt.Json = None,
) -> int:
    """Run a kernel as it is on the CPU: races and faults, bank conflicts, coalescing, compute against load."""
    from tilepipe.cli.emulation import blocks_of, emulation_json, print_emulation
    from tilepipe.report import refused_report

    wanted, targets = blocks_of(blocks), Targets(str(file), json=json)
    if (code := _cannot_deliver(targets)) is not None:
        return code
    steps = load_steps()
    job = steps.open_job(str(file), replace(options, device="cpu"))
    result = job if isinstance(job, Refusal) else steps.emulate(job, wanted, progress)
    if isinstance(result, Refusal):
        return _finish(refused_report(result), result.exit_code, targets)
    failed = deliver_json(emulation_json(result), json)
    print_diagnostics(result.diagnostics)
    print_emulation(result, console(sys.stderr if targets.stdout_is_taken else sys.stdout))
    return _refuse(failed) if failed else 0 if result.is_clean else 3


@command(app, opt.KERNEL, opt.BUILD)
def lint(
    options: "Options",
    file: opt.File,
    fix: opt.Fix = False,
    verbose: opt.Verbose = False,
    json: opt.Json = None,
) -> int:
    """Mistakes in a pipeline that exists: order, counts, stages, edges. With -p also under the emulator."""
    from tilepipe.cli.lint import run_lint

    targets = Targets(str(file), json=json)
    if (code := _cannot_deliver(targets)) is not None:
        return code
    return run_lint(str(file), options, fix, verbose, json)


@command(app, opt.NAMED, opt.BUILD)
def init(
    options: "Options",
    file: opt.File,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to; default FILE.toml, - is stdout.")
    ] = None,
) -> int:
    """Write a first problem file beside FILE, to be filled in. Overwrites nothing."""
    target = str(output) if output else str(file.with_suffix(".toml"))
    if target != "-" and Path(target).exists():
        return _refuse(
            error("TP140", f"`{target}` exists already", help="name another file with -o, or - for stdout")
        )
    text = load_steps().draft(str(file), options)
    if isinstance(text, Refusal):
        return _refuse(text)
    if target == "-":
        sys.stdout.write(text)
        return 0
    failed = write_file(target, text.encode())
    if failed is not None:
        return _refuse(failed)
    print(f"tilepipe: wrote {target}; look for FILL IN", file=sys.stderr)
    return 0


@command(app)
def gpus() -> int:
    """What one SM of each architecture holds, and where shared memory costs a resident block."""
    from tilepipe.cli.gpu_table import print_gpus

    print_gpus()
    return 0


@command(app)
def explain(
    code: Annotated[str | None, typer.Argument(help="Such as TP012; without one, all are listed.")] = None,
) -> int:
    """The page behind a code."""
    from tilepipe.diagnostics.explain import explain as page_of
    from tilepipe.diagnostics.explain import titles

    if code is None:
        for known, title in titles().items():
            print(f"{known}  {title}")
        return 0
    page = page_of(code)
    if isinstance(page, Refusal):
        return _refuse(page)
    sys.stdout.write(page)
    return 0


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _refuse(refusal: Refusal) -> int:
    print_diagnostics(refusal.diagnostics)
    return refusal.exit_code


def _cannot_deliver(targets: Targets) -> int | None:
    """The exit code where targets conflict or cannot be written, None where nothing speaks against them."""
    from tilepipe.report import refused_report

    if (conflict := targets.conflict()) is not None:
        return _refuse(conflict)
    failed = targets.unwritable()
    if failed is None:
        return None
    json = targets.json if targets.json is None or unwritable(targets.json) is None else None
    return _finish(refused_report(failed), failed.exit_code, replace(targets, json=json))


def _as_report(result: "RunReport | Refusal") -> "RunReport":
    from tilepipe.report import refused_report

    return refused_report(result) if isinstance(result, Refusal) else result


def _emit(targets: Targets, required: Sequence[str], options: "Options", with_evidence: bool) -> int:
    """`run` and `rewrite`: one kernel in, source and report out."""
    from tilepipe.report import exit_code, refused_report

    if (code := _cannot_deliver(targets)) is not None:
        return code
    steps = load_steps()
    job = steps.open_job(targets.file, options)
    if isinstance(job, Refusal):
        report = refused_report(job)
    else:
        report = _as_report(steps.run(job, progress) if with_evidence else steps.rewrite(job))
    code = exit_code(report, required)
    if targets.or_original and [d.code for d in report.diagnostics] == ["TP144"]:
        code = 1  # host code alone: there is nothing to gain, and a build wants the file
    before = original_text(targets.file)
    report, failed = deliver_source(report, code, targets)
    if failed is not None:
        report, code = replace(report, diagnostics=report.diagnostics + failed.diagnostics), failed.exit_code
    code = _finish(report, code, targets, brief=not with_evidence)
    failed = deliver_page([report], targets, "run", options, before) or deliver_trace(report, targets)
    if failed is not None:
        return _refuse(failed)
    return 0 if code == 1 and targets.or_original else code


def _examine(targets: Targets, required: Sequence[str], options: "Options", examine: Any) -> int:
    """`verify`, `bench` and `sass`: one kernel in, a report out."""
    from tilepipe.report import exit_code, refused_report

    if (code := _cannot_deliver(targets)) is not None:
        return code
    job = load_steps().open_job(targets.file, options)
    report = refused_report(job) if isinstance(job, Refusal) else _as_report(examine(job))
    return _finish(report, exit_code(report, required), targets, brief=True)


def _finish(report: "RunReport", code: int, targets: Targets, brief: bool = False) -> int:
    """The JSON, the report for people (`brief`: without the plan), and the exit code."""
    from tilepipe.report import to_json, without_plan

    failed = deliver_json(to_json(report), targets.json)
    print_report(without_plan(report) if brief else report, targets.stdout_is_taken)
    return _refuse(failed) if failed else code
