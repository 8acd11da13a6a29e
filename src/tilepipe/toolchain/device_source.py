"""A unit as a device-only compiler takes it: host code blanked, local headers in memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeVar

from tilepipe.source import SourceFile, Span
from tilepipe.toolchain.extract import Extraction, Macros, defines_kernel, extract, kernel_scope, macros
from tilepipe.toolchain.includes import Files, with_absolute_includes
from tilepipe.toolchain.messages import CompilerError, missing_include
from tilepipe.toolchain.types import Unit

_USES_STD = re.compile(r"\bstd\b")


@dataclass(frozen=True)
class DeviceSource:
    """The device part of a unit. `dropped` holds, per file, the suspects that turned out to be host code.

    `names` are the C++ expressions that denote the wanted kernels at global scope, the unit's own first.
    """

    unit: Unit
    files: Files
    names: tuple[str, ...]
    known: Macros
    other_kernels: bool
    extractions: tuple[Extraction, ...]
    dropped: tuple[tuple[Span, ...], ...]

    @property
    def kernel_name(self) -> str:
        """The C++ expression that denotes the unit's own kernel at global scope."""
        return self.names[0]

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """The author's files as written, the main one first."""
        return (self.files.main, *self.files.headers)

    @property
    def text(self) -> str:
        """The main file's device part; its offsets are those of the unit's text."""
        return self.extractions[0].text

    @property
    def uses_std(self) -> bool:
        """Whether device code names anything of namespace std."""
        return any(_USES_STD.search(extraction.text) for extraction in self.extractions)

    def program(self, text: str) -> tuple[str, dict[str, str]]:
        """The program with `text` for the main file, and its headers by the name each is included as."""
        include_dirs = self.unit.options.include_dirs
        main = with_absolute_includes(SourceFile(self.unit.path, text), include_dirs)
        headers = dict.fromkeys(self.files.stand_ins, "")
        for header, extraction in zip(self.files.headers, self.extractions[1:], strict=True):
            headers[header.name] = with_absolute_includes(
                SourceFile(header.name, extraction.text), include_dirs
            )
        return main, headers

    def without(self, errors: tuple[CompilerError, ...], only_first: bool) -> DeviceSource | None:
        """The unit without what removable errors stand in; None where no error is of that kind.

        That is the innermost suspect, or a system header (`<...>`) that is not to be found, which becomes an
        empty stand-in. `only_first`: one thing only, since later errors may be consequences of the first.
        """
        left = self
        for error in errors:
            left = left._without_one(error) or left
            if only_first and left is not self:
                break
        return left if left is not self else None

    def _without_one(self, error: CompilerError) -> DeviceSource | None:
        names = [source.name for source in self.sources]
        index = names.index(error.file) if error.file in names else None
        header = missing_include(error.message)
        if header is not None and header not in self.files.stand_ins:
            quoted = index is not None and f'"{header}"' in _line(self.sources[index], error.line)
            stand_ins = (*self.files.stand_ins, header)
            return None if quoted else replace(self, files=replace(self.files, stand_ins=stand_ins))
        if header is not None or index is None:
            return None
        guilty = _innermost(self.sources[index], self.extractions[index].suspects, error.line)
        return self._dropping(index, guilty) if guilty is not None else None

    def _dropping(self, index: int, guilty: Span) -> DeviceSource:
        """The unit without one suspect of one of its files."""
        gone = (*self.dropped[index], guilty)
        extraction = extract(self.sources[index], _wanted(self.unit), self.known, self.other_kernels, gone)
        return replace(
            self,
            extractions=_with(self.extractions, index, extraction),
            dropped=_with(self.dropped, index, gone),
        )


def prepare(unit: Unit, files: Files) -> DeviceSource:
    """Extract the device part of a unit and of the local headers that it reaches."""
    sources = [files.main, *files.headers]
    known = macros(sources)
    other_kernels = not any(defines_kernel(source, unit.kernel, known) for source in sources)
    extractions = tuple(extract(source, _wanted(unit), known, other_kernels) for source in sources)
    return DeviceSource(
        unit,
        files,
        tuple(kernel_name(one, sources) for one in (unit, *_others(unit))),
        known,
        other_kernels,
        extractions,
        ((),) * len(sources),
    )


def _others(unit: Unit) -> list[Unit]:
    return [replace(unit, kernel=kernel, instantiate=instance) for kernel, instance in unit.beside]


def _wanted(unit: Unit) -> frozenset[str]:
    """The names of the kernels to keep."""
    return frozenset((unit.kernel, *(kernel for kernel, _ in unit.beside)))


def kernel_name(unit: Unit, sources: list[SourceFile]) -> str:
    """The C++ expression that denotes the unit's kernel at global scope."""
    name = unit.instantiate or unit.kernel
    scopes = (kernel_scope(source, unit.kernel) for source in sources)
    qualifier = "::".join(next((scope for scope in scopes if scope), ()))
    return name if not qualifier or name.startswith((qualifier + "::", "::")) else f"{qualifier}::{name}"


_Item = TypeVar("_Item")


def _with(items: tuple[_Item, ...], index: int, item: _Item) -> tuple[_Item, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _line(source: SourceFile, line: int) -> str:
    lines = source.text.splitlines()
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _innermost(source: SourceFile, suspects: tuple[Span, ...], line: int) -> Span | None:
    around = [
        one
        for one in suspects
        if source.line_of(one.start) <= line <= source.line_of(max(one.start, one.end - 1))
    ]
    return min(around, key=lambda one: one.end - one.start, default=None)
