"""Which function translates which opcode."""

from __future__ import annotations

from collections.abc import Callable

from tilepipe.emulator.codegen.builder import Builder
from tilepipe.emulator.ptx.model import Instruction

Handler = Callable[[Builder, Instruction], None]
HANDLERS: dict[str, Handler] = {}


def handles(*opcodes: str) -> Callable[[Handler], Handler]:
    """Registers the decorated function as the translation of `opcodes`."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opcodes, handler))
        return handler

    return register


def translate(b: Builder, i: Instruction) -> None:
    """Emits one instruction that neither branches nor stops the thread."""
    if i.op not in HANDLERS:
        raise b.unsupported(f"instruction {i.text}")
    HANDLERS[i.op](b, i)
