"""`tilepipe gpus`: what an SM holds, by architecture."""

from __future__ import annotations

import sys

from rich.table import Table

from tilepipe.cli.streams import console
from tilepipe.gpu import ARCHS, shared_cliffs
from tilepipe.report.terminal import unpadded

CLIFFS = (1, 2, 3, 4, 6, 8)  # resident blocks whose limit is shown


def print_gpus() -> None:
    """One row an architecture: its limits per SM, and the bytes of shared memory that a block may use so that
    n blocks stay resident."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("arch", no_wrap=True)
    for heading in ("shared/SM", "threads", "blocks"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("cp.async", no_wrap=True)
    for blocks in CLIFFS:
        table.add_column(f"{blocks} fit", justify="right", no_wrap=True)
    table.add_column("such as", no_wrap=True)
    for arch in ARCHS.values():
        limits = shared_cliffs(arch)
        table.add_row(
            arch.name,
            *map(str, (arch.shared_per_sm, arch.threads_per_sm, arch.blocks_per_sm)),
            "yes" if arch.has_async_copy else "no",
            *(str(limits.get(blocks, "")) for blocks in CLIFFS),
            arch.card.name,
        )
    out = console(sys.stdout)
    with unpadded(out):
        out.print(table)
        out.print(
            "\nn fit: the most bytes of shared memory that a block may use so that n blocks fit on an SM; one "
            "byte more is the cliff.\nEvery SM has 65536 registers, up to 255 a thread."
        )
