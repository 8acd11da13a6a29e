"""`tilepipe lint`: options in, findings out; fixes are written only where lint finds less afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilepipe.cli.output import TextStyle, replace_in_place
from tilepipe.cli.streams import print_diagnostics, progress
from tilepipe.cli.targets import deliver_json
from tilepipe.diagnostics import Diagnostic, Refusal, error

if TYPE_CHECKING:
    from tilepipe.lint import Finding, Report
    from tilepipe.lint.engine import LintOptions
    from tilepipe.options import Options

FOUND = 3
SCHEMA_VERSION = 1
_UNCOMPILED = ("TP200", "TP201")


def run_lint(path: str, options: Options, fix: bool, verbose: bool, json: str | None) -> int:
    """Lint the file at `path`; the exit code: 0 clean, 3 findings, 2 where it could not be read or nothing was found in
    what does not compile."""
    from tilepipe.lint import lint
    from tilepipe.opening import read_source

    source = read_source(path)
    if isinstance(source, Refusal):
        return _refuse(source)
    setting = _setting(options)
    if isinstance(setting, Refusal):
        return _refuse(setting)
    names = {kernel.name for kernel in _kernels(source)}
    if options.kernel is not None and options.kernel not in names:
        return _refuse(
            error(
                "TP145",
                f"{path} has no kernel `{options.kernel}`",
                help=f"it has: {', '.join(sorted(names))}",
            )
        )
    fixed: tuple[Finding, ...] = ()
    if fix:
        changed = _fix(source, setting)
        if isinstance(changed, Refusal):
            return _refuse(changed)
        source, fixed = changed
    report = lint(source, setting)
    emulated = _emulated(path, options) if options.problem is not None and not fix else ()
    if isinstance(emulated, Refusal):
        return _refuse(emulated)
    shown = [f.diagnostic for f in report.findings] + list(emulated)
    print_diagnostics(shown)
    if verbose:
        print_diagnostics(report.notes)
    wrong = None if shown else _compile_error(path, options)
    failed = deliver_json(_as_json(path, report, fixed, emulated, wrong), json)
    if failed is not None:
        return _refuse(failed)
    if wrong is not None:
        progress(f"{path}: nothing was found, but it does not compile")
        return _refuse(wrong)
    if not shown:
        progress(f"{path}: no findings{_not_followed(report, options.problem is not None)}")
    return FOUND if shown else 0


def _compile_error(path: str, options: Options) -> Refusal | None:
    """TP200, TP201: the file does not compile, so that "no findings" would say nothing of it. None also where no
    compiler is at hand, or it is not told enough (which instance of a template)."""
    from dataclasses import replace

    from tilepipe.opening import open_jobs

    jobs = open_jobs(path, replace(options, device="cpu"), runs=False)
    if isinstance(jobs, Refusal):
        return None
    units = [job.unit() for job in jobs if job.instance is not None or not job.kernel.template]
    if not units:
        return None
    unit = replace(units[0], beside=tuple((u.kernel, u.instantiate) for u in units[1:]))
    told = jobs[0].toolchain.answer(unit, ())
    return told if isinstance(told, Refusal) and told.diagnostics[0].code in _UNCOMPILED else None


def _not_followed(report: Report, emulated: bool) -> str:
    """What "no findings" does not speak for."""
    parts = []
    if report.notes:
        by = " by reading" if emulated else ""
        parts.append(f"{_kernels_in(len(report.notes))} could not be followed{by} (--verbose says why)")
    if report.plain:
        have = "has" if len(report.plain) == 1 else "have"
        parts.append(f"{_kernels_in(len(report.plain))} {have} no pipeline to look at")
    if not parts:
        return ""
    if emulated:
        return f" by the emulator; {', '.join(parts)}"
    return f"; {', '.join(parts)}: their barriers are checked with a problem file only (-p)"


def _kernels_in(count: int) -> str:
    return "1 kernel" if count == 1 else f"{count} kernels"


def _setting(options: Options) -> LintOptions | Refusal:
    """The options of lint; block extents and template arguments come from the problem file, if one is given."""
    from tilepipe.lint import LintOptions
    from tilepipe.problem import load_problem
    from tilepipe.problem.expressions import evaluate

    blocks: dict[str, tuple[int, ...]] = {}
    instances: dict[str, str] = {}
    if options.problem is not None:
        problem = load_problem(options.problem)
        if isinstance(problem, Refusal):
            return problem
        for name, kernel in problem.kernels.items():
            sizes = next(iter(kernel.sizes.values()), {})
            blocks[name] = tuple(evaluate(text, sizes) for text in kernel.block)
            if kernel.instantiate:
                instances[name] = kernel.instantiate
    build = options.compile
    arch = options.arch or LintOptions().arch
    return LintOptions(options.kernel, arch, build.include_dirs, build.defines, blocks, instances)


def _kernels(source: Any) -> Sequence[Any]:
    from tilepipe.kernel.file import CudaFile

    return CudaFile(source).kernels


def _fix(source: Any, setting: LintOptions) -> tuple[Any, tuple[Finding, ...]] | Refusal:
    """Make the safe fixes in the file itself, with a backup beside it."""
    from tilepipe.lint import fix

    changed, fixed = fix(source, setting)
    if fixed:
        style = TextStyle.of(Path(source.name).read_bytes())
        backup = replace_in_place(source.name, style.encode(changed.text))
        if isinstance(backup, Refusal):
            return backup
        progress(f"{len(fixed)} finding{'s' if len(fixed) > 1 else ''} fixed; the old text is in {backup}")
    return changed, fixed


def _emulated(path: str, options: Options) -> tuple[Diagnostic, ...] | Refusal:
    """The emulator's findings, where a problem file says how to launch."""
    from dataclasses import replace

    from tilepipe.lint.emulated import emulate
    from tilepipe.opening import open_jobs

    jobs = open_jobs(path, replace(options, device="cpu"))
    if isinstance(jobs, Refusal):
        return jobs
    found: list[Diagnostic] = []
    for job in jobs:
        if job.problem is None:
            continue
        progress(f"{job.kernel.name}: under the emulator")
        unit = job.unit()
        parameters = job.toolchain.parameter_types(unit)
        if isinstance(parameters, Refusal):
            return parameters
        result = emulate(
            job.file.source, unit, job.device, job.arch.name, job.problem, parameters, options.seed
        )
        if isinstance(result, Refusal):
            return result
        found += result
    return tuple(found)


def _as_json(
    path: str,
    report: Report,
    fixed: Sequence[Finding],
    emulated: Sequence[Diagnostic],
    wrong: Refusal | None,
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "file": path,
        "findings": [_finding(f) for f in report.findings]
        + [{"kernel": None, **_one(d), "fix": None} for d in emulated],
        "fixed": [{"kernel": f.kernel, **_one(f.diagnostic)} for f in fixed],
        "notes": [_one(d) for d in report.notes],
        "without_pipeline": list(report.plain),
        "compile_errors": [_one(d) for d in wrong.diagnostics] if wrong is not None else [],
    }


def _finding(f: Finding) -> dict[str, Any]:
    return {"kernel": f.kernel, **_one(f.diagnostic), "fix": asdict(f.fix) if f.fix else None}


def _one(d: Diagnostic) -> dict[str, Any]:
    place = d.place
    return {
        "code": d.code,
        "severity": d.severity,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "message": d.message,
        "help": d.help,
    }


def _refuse(refusal: Refusal) -> int:
    print_diagnostics(refusal.diagnostics)
    return refusal.exit_code
