"""`tilepipe gpus`: what an SM holds, by architecture."""

from __future__ import annotations

import sys

from rich.table import Table

from tilepipe.cli.streams import console
from tilepipe.gpu import ARCHS, shared_cliffs

CLIFFS = (1, 2, 3, 4, 6, 8)  # resident blocks whose limit is shown


def print_gpus() -> None:
    """One row an architecture: its limits per SM, and the bytes of shared memory a block may use so that n
    blocks stay resident."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("arch")
    for heading in ("shared/SM", "registers", "threads", "blocks"):
        table.add_column(heading, justify="right")
    table.add_column("cp.async")
    for blocks in CLIFFS:
        table.add_column(f"{blocks} block{'s' if blocks > 1 else ''}", justify="right")
    table.add_column("such as")
    for arch in ARCHS.values():
        limits = shared_cliffs(arch)
        table.add_row(
            arch.name,
            *map(str, (arch.shared_per_sm, arch.registers_per_sm, arch.threads_per_sm, arch.blocks_per_sm)),
            "yes" if arch.has_async_copy else "no",
            *(str(limits.get(blocks, "")) for blocks in CLIFFS),
            arch.card.name,
        )
    out = console(sys.stdout)
    out.print(table)
    out.print("\nn blocks: the most shared memory (bytes) a block may use so that n of them fit on an SM.")
