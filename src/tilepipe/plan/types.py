"""The plan: what each number of stages costs, and which candidates to build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Variant = Literal["ldg", "prefetch", "cp_async", "mixed"]
Form = Literal["ring", "textbook"]


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
    """One way to pipeline the loop. `id` is `variant-stages-form`, e.g. "cp_async-3-ring"; behind it "-16" for
    re-partitioned 16-byte copies, "-pad" for tiles with padded rows, and "-b2" where `min_blocks` = 2 resident
    blocks are stated in `__launch_bounds__` (a cap on registers)."""

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
    padding: int = 0  # bytes added to the rows of staged arrays, "-pad" in the id
    dynamic: bool = False  # static tiles become dynamic shared memory, since the stages exceed 48 KB


@dataclass(frozen=True)
class Plan:
    """Everything step 1 and 2 decided for one kernel on one architecture. Serialisable, replayable."""

    kernel: str
    arch: str
    budget: tuple[BudgetRow, ...]
    ratio: Ratio
    candidates: tuple[Candidate, ...]
    order: tuple[str, ...] = ()  # ids of the viable candidates, best predicted first
