"""Compiler logs as diagnostics: the compiler's words at the author's file, line and column."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tilepipe.diagnostics import Diagnostic, Place, Refusal, error
from tilepipe.source import SourceFile

# `FILE(LINE): error: MESSAGE` (NVRTC, nvcc) and `FILE:LINE:COLUMN: error: MESSAGE` (host compilers).
_EDG = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$"
)
_HOST = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<text>.*)$")
_CARET = re.compile(r"^\s*\^\s*$")
_MISSING_INCLUDE = re.compile(
    r'cannot open source file "(?P<a>[^"]+)"|^(?P<b>\S+): No such file or directory'
)
_PTXAS = re.compile(r"^ptxas (?P<kind>error|fatal)\s*: (?P<text>.*)$", re.MULTILINE)
_SHOWN = 8  # errors beyond these are consequences more often than news


@dataclass(frozen=True)
class CompilerError:
    """One error of a compiler log; `column` counts from 1 and is 0 where the compiler did not tell."""

    file: str
    line: int
    column: int
    message: str


def parse_errors(log: str) -> tuple[CompilerError, ...]:
    """The errors of an NVRTC or nvcc log, in order; warnings and notes are left out."""
    lines = log.splitlines()
    errors = []
    for index, line in enumerate(lines):
        match = _EDG.match(line)
        if match:
            errors.append(
                CompilerError(
                    match["file"], int(match["line"]), _column(lines[index + 1 :]), match["text"].strip()
                )
            )
            continue
        match = _HOST.match(line)
        if match:
            errors.append(
                CompilerError(match["file"], int(match["line"]), int(match["column"]), match["text"].strip())
            )
    return tuple(errors)


def missing_include(message: str) -> str | None:
    """The header that an error message says cannot be found; None where it says something else."""
    match = _MISSING_INCLUDE.search(message)
    return match["a"] or match["b"] if match else None


def compile_refusal(log: str, sources: Iterable[SourceFile], compiler: str) -> Refusal:
    """A failed compilation as TP200 (errors in the source), TP201 (an include) or TP206 (the assembler).

    `sources` are the texts that errors can be shown in, by the name the compiler calls them.
    """
    by_name = {source.name: source for source in sources}
    found = parse_errors(log)
    if found:
        return Refusal(tuple(_diagnostic(one, by_name) for one in found[:_SHOWN]))
    assembler = [match["text"].strip() for match in _PTXAS.finditer(log)]
    if assembler:
        return error(
            "TP206",
            f"ptxas refused the kernel: {'; '.join(assembler[:_SHOWN])}",
            help="reduce what the kernel asks for, or choose an architecture that has it",
        )
    return error("TP200", f"{compiler} failed: {log.strip()[:2000] or 'no message'}")


def _column(following: list[str]) -> int:
    """EDG prints the source line indented by two and a caret under it; 0 where it did not."""
    for line in following[:6]:
        if _CARET.match(line):
            return max(1, line.index("^") - 1)
        if _EDG.match(line):
            break
    return 0


def _diagnostic(found: CompilerError, sources: dict[str, SourceFile]) -> Diagnostic:
    place = _place(found, sources.get(found.file))
    header = missing_include(found.message)
    if header is not None:
        return Diagnostic(
            "TP201",
            "error",
            f"cannot find the include file `{header}`",
            place,
            "included here",
            "add its folder with -I, or take the include out if no kernel needs it",
        )
    return Diagnostic("TP200", "error", found.message, place)


def _place(found: CompilerError, source: SourceFile | None) -> Place:
    text = ""
    if source is not None:
        lines = source.text.splitlines()
        text = lines[found.line - 1] if found.line <= len(lines) else ""
    word = re.match(r"[A-Za-z_]\w*", text[found.column - 1 :]) if found.column else None
    return Place(found.file, found.line, max(1, found.column), len(word.group()) if word else 1, text)
