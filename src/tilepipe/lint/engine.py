"""Lint of a file: every kernel is walked and played, and the rules look at what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilepipe.diagnostics import Diagnostic
from tilepipe.gpu import ARCHS, Arch
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.lint.events import NotUnderstoodError
from tilepipe.lint.finding import Finding, Found
from tilepipe.lint.fixes import Fixes
from tilepipe.lint.machine import Machine, Played, staged_buffers
from tilepipe.lint.program import Program
from tilepipe.lint.rules_copy import edge_findings, index_findings, shared_findings, size_findings
from tilepipe.lint.rules_count import count_findings, drain_findings, overlap_findings
from tilepipe.lint.rules_order import order_findings
from tilepipe.lint.runs import Runs, play_kernel
from tilepipe.lint.setting import idle_counters, launch_of
from tilepipe.lint.walk import integer_parameters, walk
from tilepipe.source import SourceFile, Span, apply_edits

DEFAULT_ARCH = "sm_80"
_FIX_ROUNDS = 32
_TILES = 4  # of the walks that vary another size
# Findings that explain what these others would say about the same buffer.
_EXPLAINS = frozenset({"TP500", "TP502", "TP503", "TP506", "TP509", "TP517", "TP518", "TP519", "TP521"})
_ORDER = frozenset({"TP500", "TP502", "TP503", "TP504", "TP505", "TP506", "TP518", "TP519"})
# A mistake → what else it makes the machine see in the same buffer.
_BRINGS = {"TP517": _ORDER | {"TP521"}, "TP521": _ORDER, "TP505": frozenset({"TP504"})}


@dataclass(frozen=True)
class LintOptions:
    """`blocks` and `instances` give a kernel's block extents and template-id by its name, as a problem file
    states them."""

    kernel: str | None = None
    arch: str = DEFAULT_ARCH
    include_dirs: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    blocks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    instances: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """What lint says of a file: findings in order of their place, a note for each kernel that it could not follow, and
    the names of those that have no pipeline, of which it says nothing."""

    findings: tuple[Finding, ...]
    notes: tuple[Diagnostic, ...]
    plain: tuple[str, ...]


def lint(source: SourceFile, options: LintOptions = LintOptions()) -> Report:
    """Lint every kernel of the file, or the one that the options name."""
    file = CudaFile(source)
    program = Program.open(file, options.include_dirs, options.defines)
    findings: list[Finding] = []
    notes: list[Diagnostic] = []
    plain: list[str] = []
    for kernel in file.kernels:
        if options.kernel not in (None, kernel.name):
            continue
        try:
            found = _lint_kernel(program, kernel, options)
        except (NotUnderstoodError, RecursionError) as reason:
            notes.append(_note(file, kernel, str(reason)))
            continue
        findings += found or ()
        if found is None:
            plain.append(kernel.name)
    findings.sort(
        key=lambda f: (f.diagnostic.place.line, f.diagnostic.code) if f.diagnostic.place else (0, "")
    )
    return Report(tuple(findings), tuple(notes), tuple(plain))


def fix(source: SourceFile, options: LintOptions = LintOptions()) -> tuple[SourceFile, tuple[Finding, ...]]:
    """The text with every safe fix made, and the findings that this lifted.

    A fix stays only if lint finds less afterwards; so fixes never trade one finding for another.
    """
    lifted: list[Finding] = []
    useless: set[tuple[str, str]] = set()
    before = lint(source, options).findings
    for _ in range(_FIX_ROUNDS):
        chosen = next(
            (f for f in before if f.fix and f.fix.safety == "safe" and _identity(f) not in useless), None
        )
        if chosen is None or chosen.fix is None:
            break
        changed = SourceFile(source.name, apply_edits(source.text, chosen.fix.edits))
        after = lint(changed, options).findings
        if len(after) < len(before):
            lifted.append(chosen)
            source, before = changed, after
        else:
            useless.add(_identity(chosen))
    return source, tuple(lifted)


def _identity(finding: Finding) -> tuple[str, str]:
    return finding.diagnostic.code, finding.diagnostic.place.text if finding.diagnostic.place else ""


def _note(file: CudaFile, kernel: KernelText, reason: str) -> Diagnostic:
    start = file.source.data.find(kernel.name.encode(), kernel.span.start)
    place = file.source.place(Span(start, start + len(kernel.name.encode())))
    return Diagnostic("TP540", "note", f"`{kernel.name}` is not linted: {reason}", place, "not followed")


def _lint_kernel(program: Program, kernel: KernelText, options: LintOptions) -> list[Finding] | None:
    """What is found in a kernel; None where it has no pipeline. Raises NotUnderstoodError."""
    launch = launch_of(program, kernel, options.instances.get(kernel.name), options.blocks.get(kernel.name))
    runs = play_kernel(program, kernel, launch)
    if runs is None:
        return None
    arch = ARCHS.get(options.arch, ARCHS[DEFAULT_ARCH])
    file = program.files[0]
    fixes = Fixes(file.source, file.tree.root, runs)
    return [_shown(program, kernel, fixes.attach(found)) for found in _judged(program, runs, arch)]


def _judged(program: Program, runs: Runs, arch: Arch) -> list[Found]:
    """What the rules find, without what follows from something that is found already."""
    found = list(order_findings(runs))
    found = _causes(found)
    explained = frozenset(f.array for f in found if f.code in _EXPLAINS)
    found += count_findings(runs, explained)
    if not any(f.code in _EXPLAINS for f in found):
        found += drain_findings(runs)
    if not any(f.code in _EXPLAINS for f in found):
        found += overlap_findings(runs)
    found += size_findings(runs)
    found += edge_findings(runs)
    found += index_findings(runs, _variations(program, runs), idle_counters(program, runs.kernel))
    found += shared_findings(runs, arch)
    return _merged(found)


def _causes(found: list[Found]) -> list[Found]:
    """Of several findings on one buffer the one that brings the others about."""
    for code, brings in _BRINGS.items():
        arrays = {f.array for f in found if f.code == code}
        found = [f for f in found if f.array not in arrays or f.code not in brings]
    return found


def _merged(found: list[Found]) -> list[Found]:
    """One finding for each code and place: several buffers often share one mistake."""
    kept: dict[tuple[str, int], Found] = {}
    for one in found:
        kept.setdefault((one.code, one.span.start), one)
    return list(kept.values())


def _variations(program: Program, runs: Runs) -> dict[str, Played]:
    """The kernel at four tiles with one other size doubled, for each such size."""
    found: dict[str, Played] = {}
    if runs.driver is None or not any(e.kind == "copy" for e in runs.steady.trace.events):
        return found
    for name in integer_parameters(program, runs.kernel):
        if name != runs.driver.parameter:
            sizes = {**runs.launch.parameters, runs.driver.parameter: _TILES * runs.driver.step}
            sizes[name] *= 2
            trace = walk(program, runs.kernel, replace(runs.launch, parameters=sizes))
            found[name] = Machine(trace, staged_buffers(trace)).play()
    return found


def _shown(program: Program, kernel: KernelText, found: Found) -> Finding:
    source = program.files[0].source
    if found.file is not None:
        source = next(f.source for f in program.files if f.source.name == found.file)
    place = source.place(found.span)
    diagnostic = Diagnostic(found.code, found.severity, found.message, place, found.label, found.help)
    return Finding(kernel.name, diagnostic, found.fix)
