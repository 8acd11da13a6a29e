"""Names of a file whose meaning is not followed: macros with several texts, and CUDA's names declared anew (TP020)."""

from __future__ import annotations

import re

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.binding import introductions, names_within
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.macros import ambiguous

_WORD = re.compile(r"[A-Za-z_]\w*")
_COORDINATES = ("blockDim", "blockIdx", "gridDim", "threadIdx", "warpSize")
_OWN_COORDINATE = re.compile(rb"\b(?:blockDim|blockIdx|gridDim|threadIdx|warpSize)\b(?!\s*\.)")


def unclear_macro(file: CudaFile, kernel: KernelText) -> Refusal | None:
    """TP020: a macro that kernel, functions or other macros use has one meaning in the file."""
    node = file.tree.root.named_descendant_for_byte_range(kernel.span.start, kernel.span.end)
    own = names_within(node, file.macros) if node is not None else frozenset()
    # A value that names a variable of the kernel is more than a value.
    several = {n: m for n, m in file.macros.items() if m.others}
    naming = {n for n, m in several.items() if own & set(_WORD.findall(" ".join((m.body, *m.others))))}
    unclear = ambiguous(file.tree.root) | naming
    if not unclear:
        return None
    texts = [
        file.source.slice(kernel.span),
        *((f.node.text or b"").decode() for f in file.functions.values()),
    ]
    texts += [m.body for m in file.macros.values()]
    used = sorted(unclear & {w for text in texts for w in _WORD.findall(text)})
    if not used:
        return None
    return refusal(
        "TP020",
        f"the macro `{used[0]}` is defined in several ways, and which of them holds in this kernel is not followed",
        file.source.place(kernel.span),
        "used by this kernel, or by what it may call",
        "give the definitions different names",
    )


def taken_coordinate(file: CudaFile, kernel: KernelText) -> Refusal | None:
    """TP020: a name of CUDA's for threads and blocks that the file declares itself, which proofs take for CUDA's."""
    if not _OWN_COORDINATE.search(file.source.data):
        return None
    names = {name for name, _ in introductions(file.tree.root, file.macros)} | file.macros.keys()
    name = next((n for n in sorted(_COORDINATES) if n in names), None)
    if name is None:
        return None
    return refusal(
        "TP020",
        f"`{name}` is declared in this file, and is taken for CUDA's",
        file.source.place(kernel.span),
        "a name of CUDA's for threads and blocks",
        f"give the file's own `{name}` another name",
    )
