"""The plan: what each number of stages costs, and which candidates to build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Variant = Literal["ldg", "prefetch", "cp_async", "mixed", "stash"]
Form = Literal["ring", "textbook"]
# Whether candidates load fragments ahead; auto: those that measure faster.
Fragments = Literal["auto", "on", "off"]
# What asynchronous copies are written in.
Api = Literal["ptx", "primitives", "cuda-pipeline", "cuda-pipeline-block"]
# A change to the loop's form: against loads that the compiler moves, or a loader that runs past the last tile.
Remedy = Literal["", "unroll1", "fence", "overrun"]


@dataclass(frozen=True)
class BudgetRow:
    """Shared memory and residency with `stages` stages. `limit` names the resource that binds
    (shared | registers | threads | blocks); blocks_per_sm 0 means that it does not launch."""

    stages: int
    shared_bytes: int
    blocks_per_sm: int
    warps_per_sm: int
    limit: str


@dataclass(frozen=True)
class Ratio:
    """Compute against load. `flops_per_byte` by the practitioners' formula (classes low < 5, middle 5–20,
    high > 20); cycles per tile and SM by the time model that decides."""

    flops_per_byte: float | None
    cls: Literal["low", "middle", "high", "unknown"]
    load_cycles: float | None
    compute_cycles: float | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """One way to pipeline the loop. `id` is `variant-stages-form`, e.g. "cp_async-3-ring", for re-partitioned 16-byte
    copies "cp_async-3-ring-16"; behind it the `api` where it is not PTX, "-frags" and "-spread" for the fields of
    that name, "-pad" for tiles with padded rows, the `remedy` that was tried since the compiler had moved the loads
    ("ldg-2-ring-fence") or "-overrun" for a loader that does not ask whether another tile exists, and "-b2" where
    `min_blocks` = 2 resident blocks are stated in `__launch_bounds__` (a cap on registers)."""

    id: str
    variant: Variant
    stages: int
    form: Form
    status: Literal["ok", "rejected", "failed"] = "ok"
    reason: str | None = None
    predicted_speedup: float | None = None
    shared_bytes: int = 0
    needs_launch_change: bool = False
    copy_bytes: int = 0  # widest re-partitioned copy; 0 keeps the author's widths
    min_blocks: int = 0
    fragments: bool = False  # fragments in two slots: the next group is loaded while one is multiplied
    api: Api = "ptx"
    spread: bool = False  # the copies of a tile spread over the groups of another
    remedy: Remedy = ""
    threads: int = 0  # per block, stated with `min_blocks` where the kernel states no bound of its own
    padding: int = 0  # bytes added to the rows of staged arrays, "-pad" in the id
    dynamic: bool = False  # static tiles become dynamic shared memory, since the stages exceed 48 KB

    @property
    def unwritable(self) -> str:
        """Why `api` has no words for this candidate, "" where it has."""
        plain = self.variant == "cp_async" and self.form == "ring" and not self.spread and not self.copy_bytes
        if plain or not self.api.startswith("cuda-pipeline"):
            return ""
        return f"--api {self.api} is for cp_async rings with copies as wide as written, issued at once"


@dataclass(frozen=True)
class Plan:
    """Everything step 1 and 2 decided for one kernel on one architecture. Serialisable, replayable."""

    kernel: str
    arch: str
    budget: tuple[BudgetRow, ...]
    ratio: Ratio
    candidates: tuple[Candidate, ...]
    order: tuple[str, ...] = ()  # ids of the viable candidates, best predicted first
