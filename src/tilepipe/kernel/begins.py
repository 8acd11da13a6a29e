"""Where the tiles begin that pointers carve out of shared arrays, for copies wider than their elements.

An array's declaration is given an alignment of 16 bytes, and its stages keep it. What a pointer adds to it is a
constant that counts, or is asked of the pointer once, by the kernel: `tp_aligned(t, 16)`.
"""

from __future__ import annotations

from tilepipe.kernel.model import Buffer, KernelModel
from tilepipe.kernel.pool import begins
from tilepipe.kernel.resolve import NotProvedError
from tilepipe.kernel.symbols import Symbol


def asked_of_start(model: KernelModel, buffer: Buffer, name: str, bytes_: int) -> str:
    """The condition under which the pointer or array of that name begins at a multiple of `bytes_`, "" where it always
    does. `name` is one by which the tile is named where a copy stands."""
    array = buffer.array
    offset = start_of(model, buffer, name)
    if offset is not None:
        if offset % bytes_:
            raise NotProvedError(
                f"the tile `{name}` begins {offset} bytes into `{array.name}`, no multiple of {bytes_}"
            )
        if not array.extern:
            return ""
        return f"tp_aligned({name}, {bytes_})"
    pointer = _pointer(model, buffer, name)
    if pointer.key[0] > model.tile.loop.span.start or model.tile.flow.definers[pointer]:
        raise NotProvedError(f"where the tile `{name}` begins is not known before the loop")
    return f"tp_aligned({name}, {bytes_})"


def start_of(model: KernelModel, buffer: Buffer, name: str) -> int | None:
    """Bytes from the start of the array to where the pointer or array of that name begins, None where that is no
    constant."""
    if name == buffer.array.name and buffer.piece == buffer.array:
        return 0
    return begins(model, _pointer(model, buffer, name), buffer.array)


def _pointer(model: KernelModel, buffer: Buffer, name: str) -> Symbol:
    """The variable of the kernel that holds the address."""
    for symbol, targets in model.analysed.points.items():
        if symbol.name == name and buffer.piece in targets and symbol.key[1] == () and symbol.pointer:
            return symbol
    raise NotProvedError(f"`{name}` is not a pointer of the kernel")
