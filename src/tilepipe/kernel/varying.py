"""Names of a kernel that are no integer constants, told from its text: the compiler need not be asked about them, and a
question without an answer costs a second compilation of all."""

from __future__ import annotations

import re

from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.symbols import Symbol
from tilepipe.source import Span

_COORDINATES = frozenset(("threadIdx", "blockIdx", "blockDim", "gridDim"))
_FLOATING = frozenset(("float", "double", "half", "__half", "__nv_bfloat16"))
_WORD = re.compile(r"(?<![\w:.>])[A-Za-z_]\w*")  # no member or name of another scope
# From here on a name may stand that is not evaluated. What comes before is.
_UNEVALUATED = re.compile(r"\b(?:sizeof|alignof|__alignof__|decltype|noexcept)\b|\?|&&|\|\|")
_DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def varying_names(file: CudaFile, analysed: Analysed) -> frozenset[str]:
    """The kernel's parameters, and variables whose every declaration in the kernel is of a value that is known at run
    time only, or is no integer."""
    declared = [
        (symbol, _declarator(file, symbol))
        for statement in analysed.body.walk()
        if not statement.context
        for symbol in statement.declares
    ]
    found = _COORDINATES | {p.name for p in analysed.parameters}
    while True:
        constant = {
            s.name
            for s, text in declared
            if s.const and s.type not in _FLOATING and not is_varying(text, found - {s.name})
        }
        more = {symbol.name for symbol, _ in declared} - constant - found
        if not more:
            return frozenset(found - constant)
        found |= more


def is_varying(expression: str, varying: frozenset[str]) -> bool:
    """Whether an expression is no constant because it evaluates one of the names."""
    evaluated = _UNEVALUATED.split(expression, maxsplit=1)[0]
    return not varying.isdisjoint(_WORD.findall(evaluated))


def _declarator(file: CudaFile, symbol: Symbol) -> str:
    """A variable's name and initialiser."""
    text = file.source.slice(Span(symbol.key[0], max(symbol.key[0], symbol.decl.end)))
    depth = 0
    for at, character in enumerate(text):
        depth += _DEPTH.get(character, 0)
        if depth < 0 or (character == "," and depth == 0):
            return text[:at]
    return text
