"""The candidates of a plan: which ways of pipelining are legal, which fit, and what the model expects of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast, get_args

from tilepipe.gpu import Arch, occupancy
from tilepipe.kernel.model import Buffer, KernelModel
from tilepipe.kernel.pool import tile_part
from tilepipe.kernel.slots import Stash, stash
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.widen import Widened, covered
from tilepipe.plan.budget import TileWork, budget, compute_load_ratio, predicted_speedup
from tilepipe.plan.types import Api, BudgetRow, Candidate, Form, Fragments, Plan, Remedy, Variant

MAX_STAGES = 8
NOT_ASKED = "not asked for"  # of a candidate that could be built
STATIC_LIMIT = 48 * 1024  # bytes of static shared memory that the assembler accepts
# Deeper rings than four paid on small grids only (docs/measurements.md), so six stands for them.
_TRIED = (2, 3, 4, 6)
_TRIED_WITH_FRAGMENTS = (3, 4)
# Copies narrower than 16 bytes cost an instruction each and pass through L1: rings of 4-byte copies ran at
# 0.82 to 0.97 of the original where register staging gained (docs/measurements.md).
_NARROW = 0.85
_WIDE = (
    1.05  # 16-byte copies bypass registers and L1: rings gained 0.05 to 0.1 more than register staging did
)
# Slots cost a pass through shared memory more: 0.02 below register staging on one kernel, 0.11 above it on another.
_STASHED = 1.0
_REPARTITIONED = 1.3  # 16-byte copies in place of element-wise ones gained 1.29 to 1.48 without any overlap
_PEELED = 1.01  # the last tile peeled frees the loop of its guard
_PACKED = 0.97  # but bytes kept across the peel are packed into shared registers, and wait for each other
REMEDIES: tuple[Remedy, ...] = (
    "unroll1",
    "fence",
)  # against moved loads, in the order in which they are tried
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
    fragments: Fragments = "auto"
    api: Api = "ptx"

    def admit(self, candidate: Candidate) -> bool:
        """Whether the candidate is among those asked for."""
        if self.candidate is not None:
            return candidate.id == base_id(self.candidate)[0]
        if self.fragments != "auto" and candidate.fragments != (self.fragments == "on"):
            return False
        wanted = (self.variant, self.stages, self.form)
        have = (candidate.variant, candidate.stages, candidate.form)
        return all(w is None or w == h for w, h in zip(wanted, have, strict=True))

    @property
    def written_in(self) -> Api:
        """The API asked for, by name or by a candidate's id."""
        named = [a for a in get_args(Api) if f"-{a}" in (self.candidate or "")]
        return cast(Api, max(named, key=len)) if named else self.api

    @property
    def words(self) -> str:
        """The wishes as the command line spells them."""
        if self.candidate is not None:
            return f"`{self.candidate}`"
        given = (("--variant", self.variant), ("--stages", self.stages), ("--form", self.form))
        words = [f"{name} {value}" for name, value in given if value is not None]
        words += [f"--fragments {self.fragments}"] if self.fragments != "auto" else []
        return "with " + " ".join(words)

    @property
    def specific(self) -> bool:
        narrowed = any(w is not None for w in (self.candidate, self.variant, self.stages, self.form))
        return narrowed or self.fragments == "on"


def base_id(identifier: str) -> tuple[str, Remedy, int]:
    """A candidate's id without remedy and register cap, the remedy, and the cap's resident blocks (0: none)."""
    base, _, blocks = identifier.rpartition("-b")
    if not base or not blocks.isdigit():
        base, blocks = identifier, "0"
    for remedy in get_args(Remedy)[1:]:
        if base.endswith(f"-{remedy}"):
            return base.removesuffix(f"-{remedy}"), remedy, int(blocks)
    return base, "", int(blocks)


def capped(candidate: Candidate, blocks: int, threads: int = 0) -> Candidate:
    """The candidate with a minimum of resident blocks stated, with `threads` per block where the kernel states none."""
    changed = replace(candidate, id=f"{candidate.id}-b{blocks}", min_blocks=blocks, threads=threads)
    if not threads:
        return changed
    reason = f"states `__launch_bounds__({threads}, {blocks})`: for launches of at most {threads} threads per block"
    return replace(changed, reason=reason)


def uncapped(candidate: Candidate) -> Candidate:
    """The candidate without a minimum of resident blocks."""
    if not candidate.min_blocks:
        return candidate
    identifier = candidate.id.removesuffix(f"-b{candidate.min_blocks}")
    reason = None if candidate.threads else candidate.reason
    return replace(candidate, id=identifier, min_blocks=0, threads=0, reason=reason)


def remedied(candidate: Candidate, remedy: Remedy) -> Candidate:
    """The candidate with a remedy against loads that the compiler moves."""
    return replace(candidate, id=f"{candidate.id}-{remedy}", remedy=remedy)


def overrunning(candidate: Candidate) -> Candidate | None:
    """The candidate with a loader that runs past the last tile, None where no form has one.

    Without a condition around them the compiler spreads the copies by itself.
    """
    if candidate.variant != "cp_async" or candidate.form != "ring" or not candidate.copy_bytes:
        return None
    plain = replace(candidate, id=candidate.id.replace("-spread", ""), spread=False)
    return remedied(plain, "overrun") if not candidate.remedy and candidate.api == "ptx" else None


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
    pool = (tile_part(model) or have.dynamic_shared) if model.dynamic else 0
    staged += pool
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
    judge = _Judge(model, arch, have, work, wishes, rows, pool, widened)
    all_ = _all_candidates(bool(widened))
    if wishes.written_in != "ptx":
        all_ = [_in_api(c, wishes.written_in) for c in all_]
    if not isinstance(model.fragments, str) or wishes.fragments == "on":
        all_ += [f for c in all_ for f in _with_fragments(c)]
    candidates = tuple(judge.judged(c) for c in all_)
    viable = [c for c in candidates if c.status == "ok"]
    # What fragments in two slots gain is not predicted: they come last, and only a measurement chooses them.
    viable.sort(
        key=lambda c: (c.fragments, -(c.predicted_speedup or 0.0), judge.is_narrow(c), c.stages, c.id)
    )
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
    found += [_candidate("stash", n, "ring") for n in range(2, MAX_STAGES + 1)]
    if wide:
        found += [_candidate("cp_async", n, "ring", 16) for n in range(2, MAX_STAGES + 1)]
        found.append(_candidate("mixed", 2, "ring", 16))
        found += [_candidate("stash", n, "ring", 16) for n in range(2, MAX_STAGES + 1)]
    return found


def _in_api(c: Candidate, api: Api) -> Candidate:
    """The candidate with its asynchronous copies in another API; without any it is as it was."""
    return replace(c, id=f"{c.id}-{api}", api=api) if c.variant in ("cp_async", "mixed", "stash") else c


def _with_fragments(c: Candidate) -> list[Candidate]:
    """The candidate with its fragments in two slots, and with its copies spread over the groups too."""
    if c.form != "ring" or c.variant in ("prefetch", "stash"):
        return []
    found = [replace(c, id=f"{c.id}-frags", fragments=True)]
    if c.variant == "cp_async":
        found.append(replace(c, id=f"{c.id}-frags-spread", fragments=True, spread=True))
    return found


@dataclass(frozen=True, eq=False)
class _Judge:
    model: KernelModel
    arch: Arch
    have: Resources
    work: TileWork | None
    wishes: Wishes
    rows: tuple[BudgetRow, ...]
    pool: int  # bytes of dynamic shared memory that each further stage adds
    widened: Mapping[Symbol, int]  # bytes per copy into the tiles that can be re-partitioned

    def judged(self, candidate: Candidate) -> Candidate:
        """The candidate with shared memory, prediction and status."""
        stashed = self._stash(candidate) if candidate.variant == "stash" else None
        row = self.rows[candidate.stages - 1]
        if isinstance(stashed, Stash):
            row = self._stash_row(stashed, candidate.stages)
        static = row.shared_bytes - self.have.dynamic_shared - (candidate.stages - 1) * self.pool
        to_dynamic = not self.model.dynamic and candidate.stages > 1 and static > STATIC_LIMIT
        changed = replace(
            candidate,
            shared_bytes=row.shared_bytes,
            dynamic=to_dynamic,
            needs_launch_change=candidate.stages > 1 and (self.model.dynamic or to_dynamic),
            predicted_speedup=None if candidate.fragments else self._predicted(candidate, row),
        )
        legal = stashed if isinstance(stashed, str) else self._legal(changed)
        reason = legal or self._fits(changed, row) or self._wanted(changed)
        return replace(changed, status="rejected", reason=reason) if reason else changed

    def _legal(self, c: Candidate) -> str | None:
        if self.model.one_buffer is not None and c.stages + (c.variant != "prefetch") > 1:
            return f"{self.model.one_buffer.diagnostics[0].message}: only one buffer keeps the result"
        if c.fragments and isinstance(self.model.fragments, str):
            return f"fragments cannot be loaded ahead: {self.model.fragments}"
        direct = [b for b in self.model.buffers if self._width(c, b) is not None]
        other = [b for b in self.model.buffers if self._width(c, b) is None]
        if c.variant in ("cp_async", "mixed") and not self.arch.has_async_copy:
            return f"{self.arch.name} has no asynchronous copies"
        if c.unwritable:
            return c.unwritable
        if c.variant == "cp_async" and other:
            return f"`{other[0].name}` cannot be copied asynchronously: {other[0].reason}"
        if c.variant == "mixed" and not other:
            return "every buffer can be copied asynchronously"
        if c.variant == "mixed" and not direct:
            return f"no buffer can be copied asynchronously: {other[0].reason}"
        return self._registers(c, {b.piece for b in other} if c.variant == "mixed" else None)

    def _stash(self, c: Candidate) -> Stash | str:
        """What goes through slots, or why nothing does."""
        if not self.arch.has_async_copy:
            return f"{self.arch.name} has no asynchronous copies"
        return stash(self.model, {b.piece: self._width(c, b) for b in self.model.buffers})

    def _stash_row(self, stashed: Stash, stages: int) -> BudgetRow:
        """Residency with slots in every stage, where tiles that are filled from slots alone have two buffers."""
        staged = 0
        for array in {b.array for b in self.model.buffers}:
            pieces = [b for b in self.model.buffers if b.array == array]
            ring = array.extern or any(b.piece in stashed.direct for b in pieces)
            bytes_ = self.pool if array.extern else pieces[0].bytes or 0
            staged += bytes_ * ((stages if ring else 2) - 1)
        shared = self.rows[0].shared_bytes + staged + stages * stashed.slot_bytes
        fit = occupancy(self.arch, self.have.threads, self.have.registers, shared)
        return BudgetRow(stages, shared, fit.blocks, fit.warps, fit.limit)

    def _width(self, c: Candidate, buffer: Buffer) -> int | None:
        """Bytes per asynchronous copy into the buffer, None where it cannot be asynchronous."""
        if c.copy_bytes and buffer.piece in self.widened:
            return min(c.copy_bytes, self.widened[buffer.piece])
        return buffer.copy_bytes

    def _registers(self, c: Candidate, only: set[object] | None) -> str | None:
        """Why the loads cannot wait in registers: an unknown trip count, an unknown type, or too many."""
        if c.variant in ("cp_async", "stash"):
            return None
        items = {s.item for s in self.model.tile.stores if only is None or s.buffer in only}
        total = 0
        for site in self.model.loads:
            if only is not None and site.item not in items:
                continue
            line = self.model.file.source.line_of(site.span.start)
            if any(t is None for t in site.trips):
                return (
                    f"the trip count of the loop around the load at line {line} is not known at compile time"
                )
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
            return None if self.wishes.admit(c) else NOT_ASKED
        if c.fragments and self.wishes.fragments == "off":
            return "--fragments off"
        if c.fragments and c.variant == "cp_async" and c.stages not in _TRIED_WITH_FRAGMENTS:
            return f"not tried unless asked for with --stages {c.stages} --fragments on"
        if c.variant == "cp_async" and c.form == "textbook":
            return "the ring does the same with one barrier a tile; ask for it with --form textbook"
        if c.variant in ("cp_async", "stash") and c.stages not in _TRIED:
            return f"not tried unless asked for with --stages {c.stages}"
        if c.variant == "prefetch" and self.model.one_buffer is None and self._two_fit():
            return "two buffers fit; one buffer needs a second barrier a tile"
        return None

    def _two_fit(self) -> bool:
        keeps = self.rows[1].blocks_per_sm >= min(2, self.rows[0].blocks_per_sm)
        needs_change = self.model.dynamic or self.rows[1].shared_bytes > STATIC_LIMIT
        allowed = self.have.in_file or self.wishes.allow_launch_change
        return keeps and (allowed or not needs_change)

    def is_narrow(self, c: Candidate) -> bool:
        """Whether a candidate copies asynchronously in pieces of less than 16 bytes: the last choice without a
        model."""
        if c.variant == "stash":
            stashed = self._stash(c)
            return isinstance(stashed, Stash) and self._least(c, stashed) < 16
        widths = [w for b in self.model.buffers if (w := self._width(c, b)) is not None]
        return c.variant in ("cp_async", "mixed") and min(widths, default=16) < 16

    def _least(self, c: Candidate, stashed: Stash) -> int:
        """Bytes of the narrowest asynchronous copy, into a tile or a slot."""
        direct = [self._width(c, b) for b in self.model.buffers if b.piece in stashed.direct]
        return min([*(w for w in direct if w is not None), *(s.bytes for s in stashed.slots)])

    def _predicted(self, c: Candidate, row: BudgetRow) -> float | None:
        if self.work is None:
            return None
        # Register staging has one tile in flight beside the one computed on, like a ring of two.
        deep = row if c.variant != "prefetch" else replace(self.rows[0], stages=2)
        value = predicted_speedup(self.arch, self.work, self.have.threads, self.rows[0], deep)
        if value is None:
            return None
        if c.variant in ("cp_async", "mixed", "stash"):
            best = _STASHED if c.variant == "stash" else _WIDE
            value *= _NARROW if self.is_narrow(c) else best
            value *= _REPARTITIONED if c.copy_bytes else 1.0
        if c.form == "textbook" and c.variant == "ldg":
            value *= _PACKED if any(site.text is not None for site in self.model.loads) else _PEELED
        return value


_WORDS = {
    "double": 2, "long long": 2, "unsigned long long": 2, "float2": 2, "int2": 2, "uint2": 2, "double2": 4,
    "float4": 4, "int4": 4, "uint4": 4, "float3": 3, "int3": 3, "uint3": 3,
}  # fmt: skip
