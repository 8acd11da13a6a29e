"""Which function translates which opcode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilepipe.emulator.codegen.builder import Builder
from tilepipe.emulator.codegen.modifiers import check_modifiers
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
    with known_form(b, i):
        HANDLERS[i.op](b, i)


@contextmanager
def known_form(b: Builder, i: Instruction) -> Iterator[None]:
    """Checks the modifiers, and turns operands that are missing or of the wrong sort into a refusal."""
    check_modifiers(b, i)
    try:
        yield
    except (IndexError, KeyError, ValueError, StopIteration) as problem:
        raise b.unsupported(f"{i.text} with these operands") from problem
