"""Shared-memory declarations with stages, and the names of a stage inside the loader and the loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.kernel import surroundings
from tilepipe.kernel.alignment import may_be_raised, stated
from tilepipe.kernel.model import KernelModel
from tilepipe.kernel.pool import tile_part
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol, declarators
from tilepipe.rewrite.lines import indent_of, whole_lines
from tilepipe.source import Edit, SourceFile, Span, apply_edits

STAGES = "TP_STAGES"
_TWO = "2"
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Ring:
    """How the staged tiles get their stages.

    `edits` change declarations, `setup` lines go before the loader, `bind` are the lines that name one stage
    (`{stage}` is the index), `rebind` those after the loop. `stages_factor` multiplies the launch's dynamic
    bytes, `extra_dynamic` is the number of bytes that are added to them.
    """

    edits: tuple[Edit, ...]
    setup: tuple[str, ...]
    bind: tuple[str, ...]
    rebind: tuple[str, ...]
    stages_factor: int
    extra_dynamic: int
    declarations: tuple[str, ...] = ()

    @property
    def first(self) -> tuple[str, ...]:
        """Lines that name stage 0 of the arrays whose declarations changed; pointers point there as they are."""
        return tuple(named(b, "0", "0") for b in self.bind if b.startswith("auto& "))


def named(bind: str, stage: str, buffer: str = "tp_buffer") -> str:
    """A line that names a stage, with the indices of the stage and of the one of two buffers."""
    return bind.replace("{stage}", stage).replace("{buffer}", buffer)


def ring(
    model: KernelModel,
    stages: int,
    move_to_dynamic: bool,
    aligned: frozenset[Symbol] = frozenset(),
    doubled: frozenset[Symbol] = frozenset(),
) -> Ring | str:
    """Give every staged tile `stages` stages; a reason where that is not possible.

    `move_to_dynamic`: static tiles become dynamic shared memory, since together they exceed 48 KB. `aligned` are
    the arrays whose stages must begin at multiples of 16 bytes, for copies and stores wider than the author's. The
    arrays in `doubled` get two buffers, whatever the number of stages: `{buffer}` is the index of theirs.
    """
    arrays = sorted({b.array for b in model.buffers}, key=lambda s: s.key)
    static, dynamic = [a for a in arrays if not a.extern], [a for a in arrays if a.extern]
    if move_to_dynamic and (dynamic or _has_extern(model)):
        return "the kernel has dynamic shared memory already, and the stages exceed 48 KB"
    edits: list[Edit] = []
    declarations: list[str] = []
    setup: list[str] = []
    bind: list[str] = []
    rebind: list[str] = []
    extra = extra_of_pool = 0
    for array in static:
        two = array in doubled
        depth = (_TWO, 2) if two else (STAGES, stages)
        placed = _static(model, array, depth, move_to_dynamic, extra, array in aligned)
        if isinstance(placed, str):
            return placed
        edits += placed.edits
        declarations += placed.declarations
        line = f"auto& {array.name} = {array.name}_ring[{'{buffer}' if two else '{stage}'}];"
        bind.append(line)
        if _mentioned_after(model, array):
            if _mentioned_before(model, array):
                return f"`{array.name}` is used before and after the loop"
            if beyond := _mentioned(model, array, _beyond(model)):
                return f"`{array.name}` is used after the block in which the loop stands (line {beyond})"
            rebind.append(line)
        extra = placed.extra_dynamic
    if dynamic:
        refused = _read_after(model, dynamic)
        if refused:
            return refused
        part = tile_part(model)
        if part is None:
            setup.append(f"const unsigned tp_stride = tp_dynamic_bytes() / {STAGES};")
        else:
            setup.append(f"constexpr unsigned tp_stride = {part};  // bytes of one stage's tiles in the pool")
            extra_of_pool = (stages - 1) * part
    pointers = _pointers(model)
    if isinstance(pointers, str):
        return pointers
    refused = _seen_by_lambda(model, {a.name for a in arrays} | {name for name, _, _ in pointers})
    if refused:
        return refused
    for name, stride, array in pointers:
        setup.append(f"const auto {name}_ring = {name};")
        index = "{buffer}" if array in doubled else "{stage}"
        bind.append(f"auto {name} = tp_at({name}_ring, {index} * {stride});")
    header = [Edit(Span(at := _kernel_start(model), at), _stage_constant(model, stages))]
    factor = stages if dynamic and not extra_of_pool else 1
    more = extra if move_to_dynamic else extra_of_pool
    return Ring(
        (*header, *dict.fromkeys(edits)),
        tuple(setup),
        tuple(bind),
        tuple(rebind),
        factor,
        more,
        tuple(declarations),
    )


def single(model: KernelModel, aligned: frozenset[Symbol]) -> Ring:
    """The tiles as they are, one stage, those in `aligned` at multiples of 16 bytes; declarations inside the loop move
    before it, where the loader needs them."""
    source = model.file.source
    inside = [b.array for b in model.buffers if b.array.decl.start > model.tile.loop.span.start]
    decls = sorted({a.decl for a in inside}, key=lambda d: d.start)
    gone = tuple(Edit(whole_lines(source, d), "") for d in decls)
    raising = {a.decl: _raising(source, a.decl) for a in aligned}
    outside = [e for d, edits in raising.items() if d not in decls for e in edits]
    moved = [_edited(source, d, raising.get(d, ())) for d in decls]
    return Ring((*gone, *outside), (), (), (), 1, 0, tuple(moved))


def _edited(source: SourceFile, at: Span, edits: Iterable[Edit]) -> str:
    """The text at a span with those of the edits made that lie within it."""
    within = [e for e in edits if at.start <= e.span.start and e.span.end <= at.end]
    moved = [Edit(Span(e.span.start - at.start, e.span.end - at.start), e.text) for e in within]
    return apply_edits(source.slice(at), moved)


def _raising(source: SourceFile, decl: Span) -> tuple[Edit, ...]:
    """The edits that align a declaration of shared arrays to 16 bytes at least.

    Of several alignments the compiler heeds one by its place, but of `alignas` the strictest: so every one that is
    stated is raised where it stands.
    """
    edits: list[Edit] = []
    found = stated(source, decl)
    for whole, inner in found:
        text = source.slice(inner).strip()
        if text.isdecimal():
            edits += [Edit(inner, "16")] if int(text) < 16 else []
        elif source.slice(whole).startswith("alignas"):  # of a type, perhaps
            edits.append(Edit(Span(whole.start, whole.start), "alignas(16) "))
        else:
            edits.append(Edit(inner, f"({text}) > 16 ? ({text}) : 16"))
    if found:
        return tuple(edits)
    at = decl.start + source.data[decl.start : decl.end].index(b"__shared__") + len("__shared__")
    return (Edit(Span(at, at), " __align__(16)"),)


def _kernel_start(model: KernelModel) -> int:
    return model.kernel.body.start + 1


def _stage_constant(model: KernelModel, stages: int) -> str:
    first = (
        model.analysed.body.children[0].span.start
        if model.analysed.body.children
        else model.kernel.body.start
    )
    indent = indent_of(model.file.source, first) or "    "
    return f"\n{indent}constexpr int {STAGES} = {stages};"


def _has_extern(model: KernelModel) -> bool:
    return any(s.extern and s.kind == "shared" for st in model.analysed.body.walk() for s in st.declares)


def _static(
    model: KernelModel, array: Symbol, depth: tuple[str, int], dynamic: bool, offset: int, aligned: bool
) -> Ring | str:
    """The array with several buffers, `depth` of them as text and as number."""
    source = model.file.source
    node = model.file.tree.root.named_descendant_for_byte_range(array.decl.start, array.decl.end)
    if node is None or node.type != "declaration":
        return f"the declaration of `{array.name}` is not understood"
    size = next((b.bytes for b in model.buffers if b.array == array), None)
    if size is None:
        return f"the size of `{array.name}` is not known"
    if size % 16 and (aligned or _widest(model, array) > 8):
        return f"a stage of `{array.name}` ({size} bytes) does not keep the alignment of 16 bytes"
    if not model.kernel.body.start < array.decl.start < model.kernel.body.end:
        return f"`{array.name}` is declared outside of the kernel"
    if aligned and not may_be_raised(source, array.decl):
        return f"`{array.name}` is declared together with others, and one has an alignment of its own"
    in_loop = array.decl.start > model.tile.loop.span.start
    alone = len(declarators(node)) == 1
    if (in_loop or dynamic) and not alone:
        return f"`{array.name}` is declared together with others"
    if (in_loop or dynamic) and any(
        whole.start < array.decl.start for whole, _ in stated(source, array.decl)
    ):
        return f"the alignment of `{array.name}` stands before `__shared__`, and the declaration moves"
    name = Span(array.key[0], array.key[0] + len(array.name))
    raising = _raising(source, array.decl) if aligned else ()
    renamed = Edit(name, f"{array.name}_ring[{depth[0]}]")
    declared_ring = _edited(source, array.decl, (renamed, *raising))
    total = -(-size * depth[1] // 128) * 128
    if dynamic:
        dims = source.slice(Span(name.end, array.decl.end)).rstrip().rstrip(";")
        lines = [
            "extern __shared__ __align__(128) unsigned char tp_shared[];" if offset == 0 else "",
            f"auto& {array.name}_ring = *reinterpret_cast<{array.type} (*)[{depth[0]}]{dims}>(tp_shared + {offset});",
        ]
        declared_ring = f"\n{indent_of(source, array.decl.start)}".join(line for line in lines if line)
    if in_loop:
        gone = Edit(whole_lines(source, array.decl), "")
        return Ring((gone,), (), (), (), 1, offset + total, (declared_ring,))
    alias = ""
    if _mentioned_before(model, array):
        alias = f"\n{indent_of(source, array.decl.start)}auto& {array.name} = {array.name}_ring[0];"
    if alone:
        before = [e for e in raising if e.span.start < array.decl.start]
        edits: tuple[Edit, ...] = (*before, Edit(array.decl, declared_ring + alias))
    else:
        edits = (renamed, *raising)
        if alias:
            return f"`{array.name}` is declared together with others and used before the loop"
    return Ring(edits, (), (), (), 1, offset + total)


def _widest(model: KernelModel, array: Symbol) -> int:
    sizes = [v for k, v in model.answers.items() if k.startswith("size:") and isinstance(v, int)]
    uses_matrix = any(
        "load_matrix_sync" in model.file.source.slice(i.statement.span) and not i.statement.children
        for i in model.tile.flow.items
        if array in i.own.shared_reads()
    )
    vector_reads = any(
        any(v in model.file.source.slice(i.statement.span) for v in ("float4", "int4", "double2", "ldmatrix"))
        for i in model.tile.flow.items
        if array in i.own.shared_reads() and not i.statement.children
    )
    return max([*sizes, 16 if uses_matrix or vector_reads else 4])


def _identifiers(node: Node | None, name: str) -> bool:
    stack = [node] if node is not None else []
    while stack:
        current = stack.pop()
        if current.type == "identifier" and current.text and current.text.decode() == name:
            return True
        stack.extend(current.named_children)
    return False


def _mentioned(model: KernelModel, array: Symbol, statements: tuple[Statement, ...]) -> int:
    """The line of the first statement that names an array, 0 for none."""
    for statement in statements:
        at = statement.span
        if at == array.decl:
            continue
        node = model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        if _identifiers(node, array.name):
            return model.file.source.line_of(at.start)
    return 0


def _mentioned_before(model: KernelModel, array: Symbol) -> bool:
    return bool(_mentioned(model, array, surroundings.before(model.tile)))


def _mentioned_after(model: KernelModel, array: Symbol) -> bool:
    return bool(_mentioned(model, array, _later(model)))


def _beyond(model: KernelModel) -> tuple[Statement, ...]:
    """Statements that stand after the block in which the loop stands."""
    return tuple(s for s in _later(model) if s.span.start >= model.tile.path[-1].span.end)


def _later(model: KernelModel) -> tuple[Statement, ...]:
    """Statements that stand after the loop."""
    return tuple(s for s in surroundings.after(model.tile) if s.span.start > model.tile.loop.span.end)


def _read_after(model: KernelModel, arrays: list[Symbol]) -> str:
    """Dynamic tiles keep their first stage after the loop, so nothing of the last tile may be read there: whatever
    name is read through, it was written through before, under no condition."""
    decls = {a.decl for a in arrays}
    written: set[Symbol] = set()
    begin = model.tile.loop.span.start  # what stands before it in an outer loop runs last
    for statement in sorted(
        surroundings.after(model.tile), key=lambda s: (s.span.start < begin, s.span.start)
    ):
        certain = {id(inner) for inner in _under_no_condition(statement)}
        for inner in statement.walk():
            reads = {s for s in inner.own.shared_reads() if s.decl in decls or s.key[1] == (-2,)}
            if reads - written:
                line = model.file.source.line_of(inner.span.start)
                return f"the last tile is read after the loop (line {line}), from dynamic shared memory"
            if id(inner) in certain:
                written |= inner.own.shared_writes()
    return ""


def _under_no_condition(statement: Statement) -> Iterator[Statement]:
    """The statement and those below it that run whatever a condition says, loops apart."""
    yield statement
    for child in statement.children if statement.kind != "if" else ():
        yield from _under_no_condition(child)


def _pointers(model: KernelModel) -> list[tuple[str, str, Symbol]] | str:
    """Names declared before the loop that point into staged tiles, with the distance of their stages and the array."""
    found: list[tuple[str, str, Symbol]] = []
    pieces = {b.piece: b for b in model.buffers}
    used = frozenset(s for i in model.tile.flow.items for s in i.own.uses)
    later = frozenset(s for statement in _later(model) for s in statement.effects().uses)
    for array in sorted({b.array for b in model.buffers if b.dynamic}, key=lambda s: s.key):
        if any(b.piece == array for b in model.buffers):
            found.append((array.name, "tp_stride", array))
    for symbol, targets in sorted(model.analysed.points.items(), key=lambda pair: pair[0].key):
        staged = [pieces[t] for t in targets if t in pieces]
        if not staged or symbol.key[1] != () or symbol.kind != "local":
            continue
        if symbol.key[0] >= model.tile.loop.span.start or symbol not in used | later:
            continue
        if symbol.reference:
            return f"`{symbol.name}` refers to a part of a tile"
        if symbol in later and not staged[0].dynamic:
            return f"`{symbol.name}` points into a tile and is used after the loop"
        if len(staged) != len(targets) or len({b.array for b in staged}) != 1:
            return f"`{symbol.name}` points into several shared arrays"
        if any(symbol in i.own.defs for i in model.tile.flow.items) or symbol.is_array:
            return f"`{symbol.name}` walks through a tile from iteration to iteration"
        buffer = staged[0]
        stride = (
            "tp_stride" if buffer.dynamic else f"static_cast<unsigned>(sizeof({buffer.array.name}_ring[0]))"
        )
        found.append((symbol.name, stride, buffer.array))
    return found


def _seen_by_lambda(model: KernelModel, names: set[str]) -> str:
    """A lambda made before the loop sees the tile of that place, which is one stage of it: a reason, or ""."""
    source = model.file.source
    lambdas = {
        s.name: set(_WORD.findall(source.slice(inner.span)))
        for statement in surroundings.before(model.tile)
        for inner in statement.walk()
        for s in inner.declares
        if s.kind == "lambda"
    }
    kept = [
        i.statement for i in model.tile.flow.items if i not in model.split.moved and not i.statement.children
    ]
    called = {w for s in (*kept, *_later(model)) for w in _WORD.findall(source.slice(s.span))}
    calls = [
        i.statement
        for i in model.tile.flow.items
        if i.statement.kind == "call" and i not in model.split.moved
    ]
    called |= {s.call.name for s in calls if s.call is not None}
    work = [name for name in lambdas if name in called]
    for name in work:
        if lambdas[name] & names:
            tile = next(iter(sorted(lambdas[name] & names)))
            return f"the lambda `{name}` is made before the loop and uses the tile `{tile}`"
        work += [other for other in lambdas if other in lambdas[name] and other not in work]
    return ""
