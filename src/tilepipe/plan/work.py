"""The work of one tile, as far as problem file and source tell it."""

from __future__ import annotations

from tilepipe.gpu import MathUnit
from tilepipe.kernel.model import KernelModel
from tilepipe.plan.budget import TileWork

_HALVES = ("__half", "half", "__nv_bfloat16", "__half2", "__nv_bfloat162")
_BYTES = ("signed char", "unsigned char", "char", "int8_t", "uint8_t")


def tile_work(
    model: KernelModel,
    flops: int | None,
    least_bytes: int | None,
    blocks: int,
    tiles: float | None,
    staged_bytes: int,
) -> TileWork | None:
    """Bytes and multiply-adds of one tile of one block.

    `flops` and `least_bytes` are totals of a launch of `blocks` blocks with `tiles` tiles each; None where they
    are not known. `staged_bytes` is the size of one stage, which is what a tile loads.
    """
    if flops is None or not tiles or tiles < 1 or blocks < 1 or staged_bytes < 1:
        return None
    fma = max(1, round(flops / (2 * blocks * tiles)))
    moved = staged_bytes * blocks * tiles
    reuse = moved / least_bytes if least_bytes else 1.0
    return TileWork(staged_bytes, fma, math_unit(model), max(1.0, reuse))


def math_unit(model: KernelModel) -> MathUnit:
    """The unit that does the tile's math, told from the instructions named and the types staged."""
    text = model.file.source.slice(model.tile.loop.span)
    called = " ".join(f.name for f in model.file.functions.values() if f.name in text)
    bodies = "".join(
        model.file.source.text[f.body.start_byte : f.body.end_byte]
        for f in model.file.functions.values()
        if f.name in text
    )
    whole = text + called + bodies
    types = {b.array.type for b in model.buffers} | {
        str(v) for k, v in model.answers.items() if k.startswith("type:")
    }
    if "mma_sync" in whole or "mma.sync" in whole:
        if any(t in _BYTES for t in types):
            return "mma_int8"
        if "double" in types:
            return "mma_fp64"
        return "mma_fp16" if "f16" in whole or any(t in _HALVES for t in types) else "mma_tf32"
    if "dp4a" in whole:
        return "dp4a"
    if "double" in types:
        return "fp64"
    if "hfma" in whole or "__hmul" in whole:
        return "fp16"
    return "int32" if types & {"int", "unsigned int", *_BYTES} and "float" not in types else "fp32"
