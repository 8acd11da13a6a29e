"""The inner loop of a tile: groups of K whose fragments are loaded from the tile, then multiplied.

What is found here is the second pipeline's material: while one group is multiplied, the fragments of the next one can
be loaded into a second slot, across the boundary of tiles too. The conditions, each of them checked below:

* one `for` loop of the compute phase reads the tiles, counts its groups from 0, and does nothing but load and multiply;
* a statement of its body either loads fragments or multiplies; loads are unconditional and depend on nothing but the
  group, the stage, and what no tile changes;
* the elements of a fragment that are loaded are the same ones in every group, each by a plain assignment, so that a
  slot never shows an element of another group;
* fragments live within the loop, and the math does not change them;
* the compute phase writes no memory, since its barrier moves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tilepipe.kernel.alignment import aligned_rows, stated
from tilepipe.kernel.askedtypes import asked_name
from tilepipe.kernel.effects import Effects
from tilepipe.kernel.elements import (
    last_identifier,
    local_types,
    text_of,
)
from tilepipe.kernel.file import Analysed, CudaFile
from tilepipe.kernel.flow import Item
from tilepipe.kernel.fragmentloads import ARITHMETIC, Loads, node_of
from tilepipe.kernel.loader import Split
from tilepipe.kernel.macros import written
from tilepipe.kernel.statements import Statement, acts
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.kernel.trips import CountedLoop, counted
from tilepipe.source.parse import span

MAX_GROUPS = 64  # groups of a tile: the loop is unrolled, so that slots are registers
_WORD = re.compile(r"[A-Za-z_]\w*")
_ZERO = re.compile(r"\{\s*(0(\.0*)?f?)?\s*,?\s*\}")


@dataclass(frozen=True, eq=False)
class FragmentLoop:
    """The loop over the groups of a tile. `loads` are the statements of its body that fill fragments, with the index
    declarations that they need, in order; `gone` those that the multiplying loop no longer needs; `names` the
    fragments. `groups` is 0 until the compiler has said how many there are."""

    loop: Statement
    counted: CountedLoop
    loads: tuple[Statement, ...]
    gone: tuple[Statement, ...]
    names: tuple[Symbol, ...]
    groups: int = 0


def with_groups(found: FragmentLoop, bound: int | None, step: int | None) -> FragmentLoop | str:
    """The loop with its number of groups, once the compiler has said what bound and step are."""
    if bound is None or step is None or step <= 0:
        return "the number of groups in a tile is not known at compile time"
    groups = -(-(bound + found.counted.inclusive) // step)
    if groups < 2 or groups % 2:
        return f"a tile has {max(groups, 0)} groups; two slots need an even number"
    if groups > MAX_GROUPS:
        return f"a tile has {groups} groups, too many to unroll"
    return replace(found, groups=groups)


def fragment_loop(file: CudaFile, analysed: Analysed, tile: TileLoop, parts: Split) -> FragmentLoop | str:
    """The loop over the groups of a tile, or why there is none whose fragments can be loaded ahead."""
    return _Search(file, analysed, tile, parts).found()


@dataclass(frozen=True, eq=False)
class _Search:
    file: CudaFile
    analysed: Analysed
    tile: TileLoop
    parts: Split

    def found(self) -> FragmentLoop | str:
        loop = self._loop()
        if isinstance(loop, str):
            return loop
        header = counted(self.file, loop, None)
        if header is None or header.start.strip() != "0":
            return "the loop that reads the tiles does not count groups from 0"
        body = loop.children[0]
        if body.kind != "block":
            return "one statement both loads fragments and multiplies"
        loads = [s for s in body.children if s.effects().shared_reads() & self.tile.staged]
        math = [s for s in body.children if s not in loads and not _only_declares(s)]
        names = frozenset(s for load in loads for s in load.effects().defs - _declared_within(load))
        names |= frozenset(s for load in loads if load.kind == "declaration" for s in load.declares)
        if not math or not names:
            return "one statement both loads fragments and multiplies"
        read = Loads(self.file, self.tile, names, self._changing(names))
        why = next((w for load in loads if (w := read.refused(load))), "")
        if why:
            return why
        needed = self._index_declarations(loop, loads, names)
        if isinstance(needed, str):
            return needed
        why = self._refused_fragments(loop, math, names)
        why = why or next((w for s in (*loads, *math) if (w := self._renamed(s, names))), "")
        why = (
            why
            or read.own_operators(loads)
            or read.loaded_again(body.children, loads, math)
            or self._asked_type(names)
            or self._own_type([*loads, *needed], names)
            or self._own_alignment([*loads, *needed], names)
        )
        if why:
            return why
        used = _used_by([m for m in math if m not in needed], needed)
        kept = next((s for n in needed for s in n.declares & used if self._into_tile(s)), None)
        if kept is not None:
            return f"the math uses `{kept.name}`, which points into a tile"
        chosen = {id(s) for s in (*loads, *needed)}
        ordered = tuple(s for s in body.children if id(s) in chosen)
        gone = [s for s in body.children if s in loads or (s in needed and not s.declares & used)]
        gone += [s for s in body.children if _only_declares(s) and s.declares <= names]
        return FragmentLoop(loop, header, ordered, tuple(gone), tuple(sorted(names, key=lambda s: s.key)))

    def _loop(self) -> Statement | str:
        kept = [
            p
            for p in self.tile.phases
            if not p.is_barrier
            and any(acts(s) and self._item(s) not in self.parts.loader for s in p.statement.walk())
        ]
        readers = [p for p in kept if p.statement.effects().shared_reads() & self.tile.staged]
        if len(readers) != 1 or readers[0].statement.kind != "for":
            return "the tiles are not read in one `for` loop over groups"
        reader = readers[0]
        if any(p.interval != reader.interval or p.inner_barrier for p in kept):
            return "the compute phase has barriers of its own"
        effects = [i.own for i in self.tile.flow.items if i not in self.parts.loader]
        if any(e.shared_writes() or e.global_writes() for e in effects):
            return "the compute phase writes memory, and its barrier would move"
        leaves = {"break", "continue", "return", "goto", "structure", "warp"}
        if reader.statement.effects().flags & leaves:
            return "the loop that reads the tiles does more than load and multiply"
        return reader.statement

    def _item(self, statement: Statement) -> Item:
        return self.tile.flow.of[id(statement)]

    def _renamed(self, statement: Statement, names: frozenset[Symbol]) -> str:
        """Why a statement of the loop body reaches a fragment otherwise than by its name, "" if it does not."""
        for inner in statement.walk():
            if inner.context or inner.kind not in ("leaf", "declaration", "call"):
                continue
            words = set(_WORD.findall(self.file.source.slice(inner.span)))
            effects = inner.effects()
            if any(s.name not in words for s in (effects.uses | effects.defs) & names):
                line = self.file.source.line_of(inner.span.start)
                return f"line {line} reaches a fragment under another name"
        return ""

    def _asked_type(self, names: frozenset[Symbol]) -> str:
        """Why a fragment's type may be asked for, which a slot's name gives another answer to; "" if it is not."""
        named = asked_name(self.file, self.file.source.slice(self.tile.loop.span), {s.name for s in names})
        return f"the type of the fragment `{named}` is asked for" if named else ""

    def _own_type(self, loads: list[Statement], names: frozenset[Symbol]) -> str:
        """Why loads or fragments need a type that is known within the tile loop only, "" if they do not."""
        texts = [text_of(node_of(self.file, load)) for load in loads]
        texts += [self.file.source.slice(s.decl) for s in names]
        words = set(_WORD.findall(written(" ".join(texts), self.file.macros)))
        for name in local_types(node_of(self.file, self.tile.loop)):
            if name in words:
                return (
                    f"the type `{name}` is declared in the tile loop, and fragments are loaded outside of it"
                )
        return ""

    def _own_alignment(self, moved: list[Statement], names: frozenset[Symbol]) -> str:
        """Why a declaration cannot be taken apart: it states an alignment, which slots would not have; "" if not."""
        declarations = {s.decl for s in names} | {m.span for m in moved if m.kind == "declaration"}
        for at in sorted(declarations, key=lambda d: d.start):
            inside = at.start > self.tile.loop.span.start
            if stated(self.file.source, at) and (inside or not aligned_rows(self.file, at)):
                return f"line {self.file.source.line_of(at.start)} states an alignment, which slots would not have"
        return ""

    def _into_tile(self, symbol: Symbol) -> bool:
        return bool(self.analysed.points.get(symbol, frozenset()) & self.tile.staged)

    def _changing(self, names: frozenset[Symbol]) -> frozenset[Symbol]:
        """What an iteration of the tile loop or of the loop over groups changes, the fragments left out."""
        defined = {s for i in self.tile.flow.items for s in i.own.defs}
        return frozenset(defined | self.parts.carried) - names

    def _index_declarations(
        self, loop: Statement, loads: list[Statement], names: frozenset[Symbol]
    ) -> list[Statement] | str:
        """Declarations of the loop's body that the loads need; each computes from the group and from what no tile
        changes."""
        body = loop.children[0].children
        changing = self._changing(names)
        found: list[Statement] = []
        work = list(loads)
        while work:
            load = work.pop()
            inside = _declared_within(load)
            for symbol in sorted(load.effects().uses - inside - names - {loop.counter}, key=lambda s: s.key):
                if symbol not in changing:
                    continue
                source = next((s for s in body if s.kind == "declaration" and symbol in s.declares), None)
                if source is None or _acts(source.own) or len(self.tile.flow.definers[symbol]) != 1:
                    return (
                        f"the fragments' address depends on `{symbol.name}`, which changes from tile to tile"
                    )
                if source not in found:
                    found.append(source)
                    work.append(source)
        return found

    def _refused_fragments(self, loop: Statement, math: list[Statement], names: frozenset[Symbol]) -> str:
        """Why the fragments cannot have two slots, "" if they can."""
        inside = {id(s) for s in loop.walk()}
        for m in math:
            written = sorted(m.effects().defs & names, key=lambda s: s.key)
            if written:
                return f"the math changes the fragment `{written[0].name}`"
        for statement in self.analysed.body.walk():
            touched = (statement.own.uses | statement.own.defs) & names
            if touched and id(statement) not in inside and not statement.declares & touched:
                return f"the fragment `{next(iter(touched)).name}` is used outside the loop over groups"
        for pointer, targets in self.analysed.points.items():
            value = pointer.is_array or (not pointer.pointer and ARITHMETIC.fullmatch(pointer.type))
            if targets & names and pointer.key[1] == () and not value:
                return f"`{pointer.name}` points into the fragment `{next(iter(targets & names)).name}`"
        for symbol in names:
            why = self._refused_declaration(loop, symbol)
            if why:
                return why
        return ""

    def _refused_declaration(self, loop: Statement, symbol: Symbol) -> str:
        if symbol.kind != "local" or symbol.reference or symbol.pointer or symbol.key[1] != ():
            return f"the fragment `{symbol.name}` is no local variable"
        if symbol.type.startswith("auto"):
            return f"the type of the fragment `{symbol.name}` is `auto`"
        if loop.span.start < symbol.decl.start < loop.span.end:
            return ""
        if self.tile.loop.span.start < symbol.decl.start:
            return f"the fragment `{symbol.name}` is declared between the two loops"
        node = self.file.tree.root.named_descendant_for_byte_range(symbol.decl.start, symbol.decl.end)
        for child in node.named_children if node is not None else ():
            value = child.child_by_field_name("value") if child.type == "init_declarator" else None
            holds = last_identifier(child.child_by_field_name("declarator") or child) == symbol.name
            if value is not None and holds and not _ZERO.fullmatch(self.file.source.slice(span(value))):
                return f"the fragment `{symbol.name}` has an initial value"
        return ""


def _used_by(math: list[Statement], needed: list[Statement]) -> frozenset[Symbol]:
    """What the math names, and the index declarations that it takes over."""
    used: frozenset[Symbol] = frozenset()
    now = frozenset(s for m in math for s in m.effects().uses | m.effects().defs)
    while now != used:
        used = now
        now |= frozenset(s for n in needed if n.declares & used for s in n.effects().uses)
    return used


def _only_declares(statement: Statement) -> bool:
    """A declaration without initial values."""
    return statement.kind == "declaration" and not statement.own.defs and not statement.own.uses


def _acts(effects: Effects) -> bool:
    return bool(effects.reads or effects.writes or effects.flags or effects.opaque)


def _declared_within(statement: Statement) -> frozenset[Symbol]:
    """What the statements below a statement declare, the parameters of helper calls included."""
    return frozenset(s for inner in statement.walk() if inner is not statement for s in inner.declares) | (
        statement.declares if statement.kind in ("for", "call") else frozenset()
    )
