"""Machine code as it is: a cubin, or the kernel of a file just as it stands, audited without an original."""

from __future__ import annotations

from dataclasses import replace

from tilepipe.diagnostics import Refusal, error
from tilepipe.evidence.sass import audit_alone
from tilepipe.evidence.types import Sass
from tilepipe.gpu import MAX_THREADS_PER_BLOCK, normalise_arch
from tilepipe.job import Job
from tilepipe.options import Options
from tilepipe.planning import base_report
from tilepipe.report import Evidence, KernelInfo, Outcome, RunReport, ToolInfo
from tilepipe.toolchain import disassemble, read_cubin


def inspect_cubin(path: str, options: Options) -> RunReport | Refusal:
    """The audit of one kernel of a cubin."""
    cubin = read_cubin(path)
    if isinstance(cubin, Refusal):
        return cubin
    arch = normalise_arch(cubin.arch)
    if isinstance(arch, Refusal):
        return error("TP213", f"{path} is for {cubin.arch}, which the audit does not know", help=_known(arch))
    wanted = normalise_arch(options.arch) if options.arch is not None else arch
    if isinstance(wanted, Refusal):
        return wanted
    if wanted.name != arch.name:
        return error("TP213", f"{path} is for {cubin.arch}, not for {wanted.name}", help="leave --arch out")
    found = [(name, symbol) for name, symbol in cubin.kernels if options.kernel in (None, name, symbol)]
    names = ", ".join(name if name != options.kernel else symbol for name, symbol in found or cubin.kernels)
    if not found:
        return error("TP145", f"{path} has no kernel `{options.kernel}`", help=f"its kernels are: {names}")
    if len(found) > 1:
        return error("TP146", f"{path} has {len(found)} kernels: {names}", help="name one with -k NAME")
    ((name, symbol),) = found
    report = RunReport(ToolInfo("nvdisasm"), KernelInfo(name, path), cubin.arch)
    return _with_audit(report, audit_alone(cubin.listing, cubin.arch, symbol))


def _known(refusal: Refusal) -> str:
    return refusal.diagnostics[0].help or refusal.diagnostics[0].message


def inspect_kernel(job: Job) -> RunReport | Refusal:
    """The audit of a kernel of a source file just as it stands, pipelined by hand perhaps."""
    if job.fault is not None:
        return job.fault
    compiled = job.original
    if isinstance(compiled, Refusal):
        return compiled
    text = disassemble(compiled.image, compiled.symbol, line_info=True)
    if isinstance(text, Refusal):
        return text
    sass = audit_alone(text, job.arch.name, compiled.symbol, job.known_threads or MAX_THREADS_PER_BLOCK)
    return _with_audit(base_report(job), replace(sass, registers=compiled.registers))


def _with_audit(report: RunReport, sass: Sass) -> RunReport:
    outcome: Outcome | None = "failed" if sass.status == "failed" else None
    return replace(report, evidence=Evidence(sass=sass), outcome=outcome)
