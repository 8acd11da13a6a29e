"""The candidates of a plan: which ways of pipelining are legal, which fit, and what the model expects of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilepipe.gpu import Arch
from tilepipe.kernel.model import Buffer, KernelModel
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.widen import Widened, covered
from tilepipe.plan.budget import TileWork, budget, compute_load_ratio, predicted_speedup
from tilepipe.plan.types import BudgetRow, Candidate, Form, Plan, Variant

MAX_STAGES = 8
STATIC_LIMIT = 48 * 1024  # bytes of static shared memory that the assembler accepts
# Deeper rings than four paid on small grids only (docs/measurements.md), so six stands for them.
_TRIED = (2, 3, 4, 6)
# Copies narrower than 16 bytes cost an instruction each and pass through L1: rings of 4-byte copies ran at
# 0.82 to 0.97 of the original where register staging gained (docs/measurements.md).
_NARROW = 0.85
_WIDE = (
    1.05  # 16-byte copies bypass registers and L1: rings gained 0.05 to 0.1 more than register staging did
)
_REPARTITIONED = 1.3  # 16-byte copies in place of element-wise ones gained 1.29 to 1.48 without any overlap
_PEELED = 1.01  # the last tile peeled frees the loop of its guard
_PACKED = 0.97  # but bytes kept across the peel are packed into shared registers, and wait for each other
_REGISTERS_PER_THREAD = 96  # staging beyond this spills in every case measured


@dataclass(frozen=True)
class Resources:
    """What the original takes: registers per thread, static shared bytes, and the launch's threads and dynamic
    shared bytes per block. `in_file` says whether launches stand in the file and can be edited."""

    registers: int
    static_shared: int
    threads: int
    dynamic_shared: int
    in_file: bool


@dataclass(frozen=True)
class Wishes:
    """What the user narrowed the choice to; None where the plan decides."""

    candidate: str | None = None
    variant: str | None = None
    stages: int | None = None
    form: str | None = None
    allow_launch_change: bool = False

    def admit(self, candidate: Candidate) -> bool:
        """Whether the candidate is among those asked for."""
        if self.candidate is not None:
            return candidate.id == base_id(self.candidate)[0]
        wanted = (self.variant, self.stages, self.form)
        have = (candidate.variant, candidate.stages, candidate.form)
        return all(w is None or w == h for w, h in zip(wanted, have, strict=True))

    @property
    def words(self) -> str:
        """The wishes as the command line spells them."""
        if self.candidate is not None:
            return f"`{self.candidate}`"
        given = (("--variant", self.variant), ("--stages", self.stages), ("--form", self.form))
        return "with " + " ".join(f"{name} {value}" for name, value in given if value is not None)

    @property
    def specific(self) -> bool:
        return any(w is not None for w in (self.candidate, self.variant, self.stages, self.form))


def base_id(identifier: str) -> tuple[str, int]:
    """A candidate's id without its register cap, and the cap's resident blocks (0: none)."""
    found = re.fullmatch(r"(.+)-b(\d+)", identifier)
    return (found.group(1), int(found.group(2))) if found else (identifier, 0)


def capped(candidate: Candidate, blocks: int) -> Candidate:
    """The candidate with a minimum of resident blocks stated."""
    return replace(candidate, id=f"{candidate.id}-b{blocks}", min_blocks=blocks)


def make_plan(
    model: KernelModel,
    arch: Arch,
    have: Resources,
    work: TileWork | None,
    wishes: Wishes,
    wide: tuple[Widened, ...] = (),
) -> Plan:
    """Budget, ratio and every candidate with its status; `order` lists the viable ones, best predicted first."""
    staged = sum({b.array: b.bytes or 0 for b in model.buffers if not b.dynamic}.values())
    staged += have.dynamic_shared if model.dynamic else 0
    staged = min(staged, have.static_shared + have.dynamic_shared)
    rows = budget(
        arch,
        have.threads,
        have.registers,
        static_shared=have.static_shared,
        staged_bytes=staged,
        dynamic_shared=have.dynamic_shared,
        max_stages=MAX_STAGES,
    )
    ratio = compute_load_ratio(arch, work, rows[0])
    widened = {p: min(w.bytes for w in wide if w.copy.use.buffer == p) for p in covered(model, wide)}
    judge = _Judge(model, arch, have, work, wishes, rows, staged, widened)
    candidates = tuple(judge.judged(c) for c in _all_candidates(bool(widened)))
    viable = [c for c in candidates if c.status == "ok"]
    viable.sort(key=lambda c: (-(c.predicted_speedup or 0.0), judge.is_narrow(c), c.stages, c.id))
    return Plan(model.kernel.name, arch.name, rows, ratio, candidates, tuple(c.id for c in viable))


def _candidate(variant: Variant, stages: int, form: Form, copy_bytes: int = 0) -> Candidate:
    suffix = f"-{copy_bytes}" if copy_bytes else ""
    return Candidate(f"{variant}-{stages}-{form}{suffix}", variant, stages, form, copy_bytes=copy_bytes)


def _all_candidates(wide: bool) -> list[Candidate]:
    """Every candidate; those with re-partitioned copies only where some copy was proved wider."""
    found = [
        _candidate("ldg", 2, "ring"),
        _candidate("ldg", 2, "textbook"),
        _candidate("prefetch", 1, "ring"),
    ]
    found += [_candidate("cp_async", n, "ring") for n in range(2, MAX_STAGES + 1)]
    found.append(_candidate("cp_async", 2, "textbook"))
    found += [_candidate("mixed", 2, "ring"), _candidate("mixed", 2, "textbook")]
    if wide:
        found += [_candidate("cp_async", n, "ring", 16) for n in range(2, MAX_STAGES + 1)]
        found.append(_candidate("mixed", 2, "ring", 16))
    return found


@dataclass(frozen=True, eq=False)
class _Judge:
    model: KernelModel
    arch: Arch
    have: Resources
    work: TileWork | None
    wishes: Wishes
    rows: tuple[BudgetRow, ...]
    staged: int
    widened: Mapping[Symbol, int]  # bytes per copy into the tiles that can be re-partitioned

    def judged(self, candidate: Candidate) -> Candidate:
        """The candidate with shared memory, prediction and status."""
        row = self.rows[candidate.stages - 1]
        static = self.have.static_shared + (candidate.stages - 1) * (0 if self.model.dynamic else self.staged)
        to_dynamic = not self.model.dynamic and candidate.stages > 1 and static > STATIC_LIMIT
        changed = replace(
            candidate,
            shared_bytes=row.shared_bytes,
            dynamic=to_dynamic,
            needs_launch_change=candidate.stages > 1 and (self.model.dynamic or to_dynamic),
            predicted_speedup=self._predicted(candidate, row),
        )
        reason = self._legal(changed) or self._fits(changed, row) or self._wanted(changed)
        return replace(changed, status="rejected", reason=reason) if reason else changed

    def _legal(self, c: Candidate) -> str | None:
        direct = [b for b in self.model.buffers if self._width(c, b) is not None]
        other = [b for b in self.model.buffers if self._width(c, b) is None]
        if c.variant in ("cp_async", "mixed") and not self.arch.has_async_copy:
            return f"{self.arch.name} has no asynchronous copies"
        if c.variant == "cp_async" and other:
            return f"`{other[0].name}` cannot be copied asynchronously: {other[0].reason}"
        if c.variant == "mixed" and not other:
            return "every buffer can be copied asynchronously"
        if c.variant == "mixed" and not direct:
            return f"no buffer can be copied asynchronously: {other[0].reason}"
        return self._registers(c, {b.piece for b in other} if c.variant == "mixed" else None)

    def _width(self, c: Candidate, buffer: Buffer) -> int | None:
        """Bytes per asynchronous copy into the buffer, None where it cannot be asynchronous."""
        if c.copy_bytes and buffer.piece in self.widened:
            return min(c.copy_bytes, self.widened[buffer.piece])
        return buffer.copy_bytes

    def _registers(self, c: Candidate, only: set[object] | None) -> str | None:
        """Why the loads cannot wait in registers: an unknown trip count, an unknown type, or too many."""
        if c.variant == "cp_async":
            return None
        items = {s.item for s in self.model.tile.stores if only is None or s.buffer in only}
        total = 0
        for site in self.model.loads:
            if only is not None and site.item not in items:
                continue
            line = self.model.file.source.line_of(site.span.start)
            if any(t is None for t in site.trips):
                return f"the trip count of the copy loop around line {line} is not known at compile time"
            if site.type is None:
                return f"the type of the load at line {line} is not known"
            count = 1
            for trips in site.trips:
                count *= trips.count if trips is not None else 1
            total += count * _WORDS.get(site.type, 1)
        if total > _REGISTERS_PER_THREAD:
            return f"a tile takes {total} registers per thread on its way"
        return None

    def _fits(self, c: Candidate, row: BudgetRow) -> str | None:
        if row.blocks_per_sm == 0:
            return f"{row.shared_bytes} bytes of shared memory per block do not fit ({row.limit})"
        if c.needs_launch_change and not self.have.in_file and not self.wishes.allow_launch_change:
            return "launches must ask for more shared memory, and none stands in this file: --allow-launch-change"
        return None

    def _wanted(self, c: Candidate) -> str | None:
        if self.wishes.specific:
            return None if self.wishes.admit(c) else "not asked for"
        if c.variant == "cp_async" and c.form == "textbook":
            return "the ring does the same with one barrier a tile; ask for it with --form textbook"
        if c.variant == "cp_async" and c.stages not in _TRIED:
            return f"not tried unless asked for with --stages {c.stages}"
        if c.variant == "prefetch" and self._two_fit():
            return "two buffers fit; one buffer needs a second barrier a tile"
        return None

    def _two_fit(self) -> bool:
        keeps = self.rows[1].blocks_per_sm >= min(2, self.rows[0].blocks_per_sm)
        needs_change = self.model.dynamic or self.have.static_shared + self.staged > STATIC_LIMIT
        allowed = self.have.in_file or self.wishes.allow_launch_change
        return keeps and (allowed or not needs_change)

    def is_narrow(self, c: Candidate) -> bool:
        """Whether a candidate copies asynchronously in pieces of less than 16 bytes: the last choice without a
        model."""
        widths = [w for b in self.model.buffers if (w := self._width(c, b)) is not None]
        return c.variant in ("cp_async", "mixed") and min(widths, default=16) < 16

    def _predicted(self, c: Candidate, row: BudgetRow) -> float | None:
        if self.work is None:
            return None
        # Register staging has one tile in flight beside the one computed on, like a ring of two.
        deep = row if c.variant != "prefetch" else replace(self.rows[0], stages=2)
        value = predicted_speedup(self.arch, self.work, self.have.threads, self.rows[0], deep)
        if value is None:
            return None
        if c.variant in ("cp_async", "mixed"):
            value *= _NARROW if self.is_narrow(c) else _WIDE
            value *= _REPARTITIONED if c.copy_bytes else 1.0
        if c.form == "textbook" and c.variant == "ldg":
            value *= _PACKED if any(site.text is not None for site in self.model.loads) else _PEELED
        return value


_WORDS = {
    "double": 2, "long long": 2, "unsigned long long": 2, "float2": 2, "int2": 2, "uint2": 2, "double2": 4,
    "float4": 4, "int4": 4, "uint4": 4, "float3": 3, "int3": 3, "uint3": 3,
}  # fmt: skip
