"""Compiled kernels as cache entries: a line of JSON, then the image."""

from __future__ import annotations

import json
from dataclasses import asdict

from tilepipe.toolchain.types import Compiled


def pack(compiled: Compiled) -> bytes:
    """One cache entry."""
    fields = asdict(compiled)
    image = fields.pop("image")
    return json.dumps(fields).encode() + b"\n" + bytes(image)


def unpack(entry: bytes | None) -> Compiled | None:
    """The kernel of a cache entry; None without one, or where an older release wrote it in another form."""
    if entry is None:
        return None
    head, _, image = entry.partition(b"\n")
    try:
        return Compiled(image=image, **json.loads(head))
    except (ValueError, TypeError):
        return None
