"""Neighbours in a tile that one thread stores in one loop, so that it may store several of them at a time.

`for (int j = 0; j < 16; ++j) tile[r][c + j] = …;` stores 16 neighbours of a row. Where nothing but that store happens
in the loop, its values can be collected first, and stored in vectors of 16, 8 or 4 bytes, if

1. the loop turns a constant number of times from 0, each turn stores the next element, and all of them together are a
   whole number of vectors;
2. no value sees what is stored: the loop reads no shared memory, and changes nothing else;
3. the first element lies at a multiple of the vector's bytes for every thread and tile: every index is a multiple of
   enough elements (`bounds.py`), and the tile and each of its stages begin at multiples of 16 bytes, which its
   declaration is given;
4. an element's bytes are all there is to it (asked of the compiler), and the tile is not volatile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

from tree_sitter import Node

from tilepipe.kernel.alignment import may_be_raised
from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.flow import Item
from tilepipe.kernel.intervals import Range, number
from tilepipe.kernel.model import Ask, KernelModel, Study
from tilepipe.kernel.names import summands
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import StoreUse, TileLoop
from tilepipe.kernel.widen import body_node, maybe_constants
from tilepipe.source import Span

_MOST = 256  # bytes of a thread's values: more would not stay in registers
_LINE = 16  # bytes of the widest store, of which a tile and its stages begin at multiples
_WIDTHS = (16, 8, 4)
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_TYPE = re.compile(r"[\w:<>, ]+")
_COORDINATES = frozenset(("threadIdx", "blockIdx", "blockDim", "gridDim"))
_PLAIN = frozenset((
    "identifier", "number_literal", "binary_expression", "parenthesized_expression", "field_expression",
    "field_identifier", "cast_expression", "type_descriptor", "primitive_type", "sized_type_specifier",
    "type_identifier",
))  # fmt: skip


@dataclass(frozen=True, eq=False)
class VectorStore:
    """`count` elements of `type` that the turns of `loop` store, one by one, into `array`; `item` is the store, `left`
    what it assigns to, `first` the text of the first of the elements. `bytes` of them may be stored at a time."""

    loop: Statement
    item: Item
    left: Span
    array: Symbol
    type: str
    count: int
    first: str
    bytes: int


@dataclass(frozen=True, eq=False)
class _Form:
    """A loop of the right form: its store's indices, those of the last one without the counter, and the names in
    them that the compiler must know."""

    item: Item
    loop: Statement
    left: Span
    array: Symbol
    outer: tuple[Node, ...]
    inner: tuple[Node, ...]
    first: str
    constants: frozenset[str]


def vector_asks(found: Study) -> tuple[Ask, ...]:
    """Questions for the extents of tiles with stores of this form, and for constants that their indices may name."""
    offsets = {a.key: a.offset for a in found.asks if a.key.startswith(("size:", "array:"))}
    asks: dict[str, Ask] = {}
    for form in _forms(found.file, found.tile, found.analysed.body):
        at, of = (
            offsets.get(f"size:{form.item.statement.span.start}"),
            offsets.get(f"array:{form.array.key[0]}"),
        )
        if at is None or of is None:
            continue
        for rank in range(form.array.rank):
            key = _stride(form.array, rank)
            asks[key] = Ask(key, "value", f"sizeof({form.array.name}{'[0]' * (rank + 1)})", of)
        for name in maybe_constants(found, body_node(found)):
            asks.setdefault(f"const:{name}", Ask(f"const:{name}", "value", name, at))
    return tuple(asks.values())


def vector_stores(model: KernelModel, buffers: Iterable[Symbol]) -> tuple[VectorStore, ...]:
    """The stores into some of the staged buffers that may be made in vectors."""
    at = model.tile.loop.span.start
    ranges = Ranges(model.file, model.analysed, model.max_threads, lambda text: _constant(model, text), at)
    forms = _forms(model.file, model.tile, model.analysed.body)
    wanted = frozenset(buffers)
    found = (_proved(model, ranges, form) for form in forms if form.array in wanted)
    return tuple(store for store in found if store is not None)


def _stride(array: Symbol, rank: int) -> str:
    return f"stride:{array.key[0]}:{rank}"


def _constant(model: KernelModel, text: str) -> int | None:
    value = model.answers.get(f"const:{text}")
    return value if isinstance(value, int) else None


# -- the proof ---------------------------------------------------------------------------------------------------


def _proved(model: KernelModel, ranges: Ranges, form: _Form) -> VectorStore | None:
    at = form.item.statement.span.start
    size, plain = (model.answers.get(f"{kind}:{at}") for kind in ("size", "plain"))
    strides = [model.answers.get(_stride(form.array, rank)) for rank in range(form.array.rank)]
    trips = model.trips.get(id(form.loop))
    if trips is None or not (trips.simple and trips.exact) or size not in (1, 2, 4) or plain != 1:
        return None
    if trips.count * int(size) > _MOST:
        return None
    if any(_constant(model, name) is None for name in form.constants) or not _begins_aligned(
        model, form.array
    ):
        return None
    steps = [ranges.of(index, index).step for index in form.outer]
    steps.append(total([ranges.of(term, term) for term in form.inner]).step)
    bytes_ = widest(int(size), trips.count, steps, strides)
    if bytes_ is None:
        return None
    return VectorStore(
        form.loop, form.item, form.left, form.array, form.array.type, trips.count, form.first, bytes_
    )


def total(terms: Iterable[Range]) -> Range:
    """The range of a sum."""
    result = number(0)
    for term in terms:
        result += term
    return result


def widest(size: int, count: int, steps: list[int], strides: list[int | str | None]) -> int | None:
    """The widest vector in bytes, wider than an element of `size` bytes, that `count` neighbours are made of and that
    their first one is aligned to; None without one. Its indices are multiples of `steps`, and `strides` bytes apart."""
    if not strides or strides[-1] != size:
        return None
    apart = 0
    for step, stride in zip(steps, strides, strict=True):
        if not isinstance(stride, int):
            return None
        apart = gcd(apart, step * stride)
    return next((w for w in _WIDTHS if w > size and count * size % w == 0 and count and apart % w == 0), None)


def _begins_aligned(model: KernelModel, array: Symbol) -> bool:
    """Whether the tile and its stages begin at multiples of 16 bytes, or can be made to."""
    declared = model.file.source.slice(array.decl)
    size = next((b.bytes for b in model.buffers if b.array == array), None)
    if size is None or size % _LINE or "__shared__" not in declared:
        return False
    return may_be_raised(model.file.source, array.decl)


# -- the form ----------------------------------------------------------------------------------------------------


def _forms(file: CudaFile, tile: TileLoop, body: Statement) -> list[_Form]:
    declared: dict[str, set[Symbol]] = {}
    for statement in body.walk():
        for symbol in statement.declares:
            declared.setdefault(symbol.name, set()).add(symbol)
    alone = {name for name, symbols in declared.items() if len(symbols) == 1}
    forms = (
        _form(file, tile, use) for use in tile.stores if use.kind != "compute" and use.buffer.name in alone
    )
    return [form for form in forms if form is not None]


def _form(file: CudaFile, tile: TileLoop, use: StoreUse) -> _Form | None:
    loop = _loop_of_one_store(file, tile, use)
    if loop is None or loop.counter is None or use.store is None:
        return None
    left = file.tree.root.named_descendant_for_byte_range(use.store.left.start, use.store.left.end)
    indices: list[Node] = []
    while left is not None and left.type == "subscript_expression":
        listed = left.child_by_field_name("indices")
        if listed is None or len(listed.named_children) != 1:
            return None
        indices.insert(0, listed.named_children[0])
        left = left.child_by_field_name("argument")
    if left is None or _text(left) != use.buffer.name or len(indices) != use.buffer.rank:
        return None
    named = [name for index in indices for name in _names(index)]
    counters = [n for n in named if _text(n) == loop.counter.name]
    terms = summands(indices[-1])
    if not all(_is_plain(i) for i in indices) or len(counters) != 1 or counters[0] not in terms:
        return None
    inside = {s.name for inner in loop.walk() for s in inner.declares}
    own = {s.name for s in use.item.own.uses} - inside
    words = _spelled_out(file, [_text(n) for n in named if n not in counters])
    if words & inside:
        return None
    first = _without(file, use.store.left, counters[0])
    return _Form(
        use.item, loop, use.store.left, use.buffer, tuple(indices[:-1]), tuple(t for t in terms if t not in counters),
        first, frozenset(words - own - _COORDINATES - file.macros.keys()),
    )  # fmt: skip


def _loop_of_one_store(file: CudaFile, tile: TileLoop, use: StoreUse) -> Statement | None:
    """The loop whose body is this store, but for variables that are declared there; None where it is in none."""
    store, item, array = use.store, use.item, use.buffer
    if store is None or store.in_macro or store.op != "=" or item.statement.context:
        return None
    text = file.source.slice
    if item.statement.kind != "leaf" or text(store.span) + ";" != text(item.statement.span):
        return None
    if array.key[1] != () or array.extern or not array.is_array or not _TYPE.fullmatch(array.type):
        return None
    within = [n for n, p in enumerate(item.parents) if p.is_loop]
    if not within or "volatile" in text(array.decl):
        return None
    loop, around = item.parents[within[-1]], item.parents[: within[-1]]
    outer = around[-1] if around else tile.loop.children[0]
    if outer.kind != "block" or any(p.kind != "block" for p in item.parents[within[-1] + 1 :]):
        return None
    others = [s for s in loop.children[0].walk() if s.kind not in ("block", "declaration")]
    done, own = loop.effects(), {d for s in loop.walk() for d in s.declares}
    if others != [item.statement] or done.flags or done.opaque or done.defs - own or len(done.writes) != 1:
        return None
    return None if any(r.base is None or r.base.kind == "shared" for r in done.reads) else loop


def _names(node: Node) -> list[Node]:
    if node.type == "identifier":
        return [node]
    return [name for child in node.named_children for name in _names(child)]


def _is_plain(node: Node) -> bool:
    """Whether an index has one value throughout if its names have: it calls nothing, and reads no memory."""
    return node.type in _PLAIN and all(_is_plain(child) for child in node.named_children)


def _spelled_out(file: CudaFile, words: Iterable[str]) -> set[str]:
    """The words, with those of the macros that they name."""
    found: set[str] = set()
    work = list(words)
    while work:
        word = work.pop()
        if word not in found:
            found.add(word)
            work += _WORD.findall(file.macros[word].body) if word in file.macros else []
    return found


def _without(file: CudaFile, left: Span, counter: Node) -> str:
    """The text of the element stored in the first turn, where the counter is 0."""
    gone, instead = counter, "0"
    parent = counter.parent
    if parent is not None and parent.type == "binary_expression":
        sides = [parent.child_by_field_name(n) for n in ("left", "right")]
        other = next((s for s in sides if s is not None and s != counter), None)
        if other is not None:
            gone, instead = parent, _text(other)
    data = file.source.data
    return (data[left.start : gone.start_byte] + instead.encode() + data[gone.end_byte : left.end]).decode()


def _text(node: Node) -> str:
    return node.text.decode() if node.text else ""
