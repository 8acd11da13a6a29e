"""Padding of a staged array's rows against bank conflicts: `As[BM][BK]` becomes `As[BM][BK + 8]`.

Shared memory has 32 banks of 4 bytes. Eight rows read 16 bytes each at one column (`ldmatrix`, and `wmma` loads, which
become it) meet in the banks unless the rows begin at different 16-byte chunks modulo eight, that is unless a row has an
odd number of chunks. 16 bytes more make an even number odd, and keep 16-byte accesses aligned.

A row is padded only if every mention of the array in the kernel is an access to one of its rows that is understood and
proved to stay in that row; then each element is found where it was put, whatever else the kernel does. The forms are
those of `accesses.py` and `walks.py`. And beside:

- An array with one extent has rows as long as its leading dimension says, or as all indices that are spelled `row *
  length + column` say; its indices are changed as `flat.py` tells.
- The leading dimension given to a `wmma` access is the row's length, and becomes the padded one. CUDA wants the address
  of a fragment to be a multiple of 32 bytes, and the leading dimension one of 16 (CUDA C++ Programming Guide, "Warp
  Matrix Functions"): the row's number is proved even, so that what the padding adds to the address is a multiple
  of 32 bytes, and the address is aligned as it was.
- The padding of all rows together is a multiple of 128 bytes, so that every other shared variable stays as aligned as
  it was wherever the compiler puts it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tree_sitter import Node

from tilepipe.kernel.accesses import Accesses
from tilepipe.kernel.binding import names_within
from tilepipe.kernel.bounds import Ranges
from tilepipe.kernel.flat import Rows, row_length
from tilepipe.kernel.handed import points_at_arguments
from tilepipe.kernel.intervals import Range
from tilepipe.kernel.macros import addend, operand
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.mentions import KeepsLayoutError, identifiers
from tilepipe.kernel.model import Answers, Ask, KernelModel
from tilepipe.kernel.sizes import SIZES
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.walks import RowAccess
from tilepipe.kernel.wmma import leading_dimensions
from tilepipe.source import Edit
from tilepipe.source.parse import span

PAD = 16  # bytes added to each row
CHUNK = 16  # bytes that a lane's part of a matrix load takes
FRAGMENT = 32  # bytes that a fragment's address is a multiple of
_SIZE_OF = re.compile(r"sizeof\((?:const )?(\w+)\)")
BLOCK = 128  # bytes, the coarsest alignment that shared variables are given


@dataclass(frozen=True)
class Padding:
    """`edits` on the model's file that pad the arrays of `rows` (name → bytes of a row before) by `added` bytes in all;
    `kept` says why other staged arrays keep their layout. `asks` must be answered first where there are any."""

    edits: tuple[Edit, ...]
    rows: Mapping[str, int]
    added: int
    kept: Mapping[str, str]
    asks: tuple[Ask, ...]

    @property
    def layout(self) -> Mapping[str, str]:
        """Each staged array with "padded", or why it keeps its layout."""
        return {**dict.fromkeys(self.rows, "padded"), **self.kept}


def padding(model: KernelModel, answers: Answers) -> Padding:
    """Pad the staged arrays whose rows meet in banks. `answers` by the keys of earlier `asks`."""
    return _padding(model, frozenset(answers.items()))


@lru_cache(maxsize=256)  # looked at for what to ask, and then for what comes of it
def _padding(model: KernelModel, answers: frozenset[tuple[str, int | str | None]]) -> Padding:
    padder = _Padder(model, dict(answers))
    edits: list[Edit] = []
    rows: dict[str, int] = {}
    added = 0
    kept: dict[str, str] = {}
    for array in sorted({b.array for b in model.buffers}, key=lambda s: s.key):
        try:
            found, row, more = padder.padded(array)
        except KeepsLayoutError as reason:
            kept[array.name] = str(reason)
            continue
        if _overlap([*edits, *found]):
            kept[array.name] = "its indices name another tile"
            continue
        edits += found
        rows[array.name] = row
        added += more
    return Padding(tuple(dict.fromkeys(edits)), rows, added, kept, tuple(padder.asks.values()))


def _overlap(edits: list[Edit]) -> bool:
    """Whether two different edits touch the same text."""
    spans = sorted({(e.span.start, e.span.end) for e in edits})
    return any(a[1] > b[0] for a, b in pairwise(spans))


class _Padder:
    def __init__(self, model: KernelModel, answers: Answers) -> None:
        self.model = model
        self.answers = answers
        self.asks: dict[str, Ask] = {}
        at = model.tile.loop.span.start
        self.ranges = Ranges(model.file, model.analysed, model.max_threads, self._constant, at)
        self.known = meanings(model.file)

    def _known(self, key: str) -> int | None:
        """An answer of the model's."""
        value = self.model.answers.get(key)
        return value if isinstance(value, int) else None

    def _constant(self, text: str) -> int | None:
        """A constant's value where the loop begins. What is known without is not asked: a round of questions less."""
        built_in = _SIZE_OF.fullmatch(text)
        if built_in is not None and built_in[1] in SIZES and not self._declares(built_in[1]):
            return SIZES[built_in[1]]
        known = self._known(f"const:{text}")  # of a name that means the same throughout the kernel
        if known is not None:
            return known
        at = self.model.tile.loop.span.start
        key = f"value:{at}:{text}"
        if key not in self.answers:
            self.asks[key] = Ask(key, "value", text, at)
        value = self.answers.get(key)
        return value if isinstance(value, int) else None

    def _declares(self, kind: str) -> bool:
        """Whether the file may give a type's name a meaning of its own."""
        declared = rf"\b(?:struct|class|union|enum|using|typedef)\b[^;{{]*\b{kind}\b|\}}\s*{kind}\b"
        said = rf"{declared}|#[ \t]*define[ \t]+{kind}\b"
        return re.search(said, self.model.file.source.text) is not None

    # -- one array -----------------------------------------------------------------------------------------------

    def padded(self, array: Symbol) -> tuple[list[Edit], int, int]:
        """The edits that pad an array's rows, the bytes of a row before, and those added to the array. Raises
        KeepsLayoutError."""
        extent = self._innermost(array)
        rows, row, size = self._shape(array)
        if row % CHUNK or size not in (1, 2, 4, 8, 16):
            raise KeepsLayoutError(f"rows of {row} bytes are not made of 16-byte chunks")
        if row // CHUNK % 2:
            raise KeepsLayoutError(f"rows of {row} bytes begin at different banks already")
        if rows * PAD % BLOCK:
            raise KeepsLayoutError(f"the padding of {rows} rows is no multiple of {BLOCK} bytes")
        more = PAD // size
        shape = Rows(row // size, more, self._row_name(array, row // size) if array.rank == 1 else "")
        accesses = Accesses(self.model, self.ranges, array, size, shape)
        edits = [self._longer(extent, more if array.rank == 2 else rows * more), *accesses.index_edits()]
        for access in accesses.found():
            self._stays_in_row(access, row, size)
            if access.leading is not None:
                edits.append(self._leading(access, access.leading, row, size))
        return edits, row, rows * PAD

    def _innermost(self, array: Symbol) -> Node:
        """The text of the innermost extent in the declaration."""
        model = self.model
        if array.extern or any(b.piece != array for b in model.buffers if b.array == array):
            raise KeepsLayoutError("it is dynamic shared memory, or several tiles in one array")
        if not model.kernel.body.start < array.decl.start < model.kernel.body.end:
            raise KeepsLayoutError("it is declared outside of the kernel")
        if array.rank > 2:
            raise KeepsLayoutError(f"it is declared with {array.rank} extents")
        node = model.file.tree.root.named_descendant_for_byte_range(array.decl.start, array.decl.end)
        if node is None or node.type != "declaration" or node.start_byte != array.decl.start:
            raise KeepsLayoutError("its declaration is not understood")
        declared = next(
            (
                c
                for i, c in enumerate(node.children)
                if node.field_name_for_child(i) == "declarator" and c.start_byte <= array.key[0] < c.end_byte
            ),
            None,
        )
        extent = (
            declared.child_by_field_name("size")
            if declared is not None and declared.type == "array_declarator"
            else None
        )
        if extent is None:
            raise KeepsLayoutError("its declaration is not understood")
        self._alone(array)
        return extent

    def _alone(self, array: Symbol) -> None:
        """Nothing else of the kernel has the array's name."""
        for statement in self.model.analysed.body.walk():
            if any(s.name == array.name and s != array for s in statement.declares):
                raise KeepsLayoutError("another variable has its name")
        macros = self.model.file.macros.values()
        if any(re.search(rf"\b{array.name}\b", body) for m in macros for body in (m.body, *m.others)):
            raise KeepsLayoutError("a macro names it")
        if any(points_at_arguments(root) for root in self.model.file.roots):
            raise KeepsLayoutError("a class or operator of the file points at what it is given")

    def _shape(self, array: Symbol) -> tuple[int, int, int]:
        """Rows, bytes of a row, bytes of an element."""
        key = array.key[0]
        whole, size = self._known(f"array:{key}"), self._known(f"row:{key}:{array.rank}")
        row = self._known(f"row:{key}:1") if array.rank == 2 else self._led(array, size or 1)
        if not whole or not row or not size:
            raise KeepsLayoutError("its extents are not known")
        if whole % row:
            raise KeepsLayoutError("its size is no whole number of rows")
        return whole // row, row, size

    def _led(self, array: Symbol, size: int) -> int | None:
        """Bytes of a row of an array with one extent."""
        lengths = {self.ranges.of(node, node).value for node in self._row_lengths(array)}
        if not lengths:
            raise KeepsLayoutError("it has one extent, and nothing tells how long its rows are")
        length = lengths.pop() if len(lengths) == 1 else None
        return length * size if length else None

    def _row_lengths(self, array: Symbol) -> list[Node]:
        """Where an array with one extent is told how long its rows are: the leading dimensions of its matrix accesses,
        else the factors of its indices."""
        body = self.model.kernel.body
        root = self.model.file.tree.root.named_descendant_for_byte_range(body.start, body.end)
        if root is None:
            return []
        if leading := leading_dimensions(root, array.name):
            return leading
        found = (self._factor(node) for node in identifiers(root, array.name))
        return [factor for factor in found if factor is not None]

    def _factor(self, name: Node) -> Node | None:
        """What the index of `A[index]` spells as the length of a row; None for another mention."""
        whole = name.parent
        indices = whole.child_by_field_name("indices") if whole is not None else None
        if whole is None or indices is None or len(indices.named_children) != 1:
            return None
        return row_length(indices.named_children[0], whole, self.ranges)

    def _row_name(self, array: Symbol, length: int) -> str:
        """What the author calls the length of a row, if it is a name of the file that no variable of the kernel hides;
        else the number."""
        declared = {s.name for st in self.model.analysed.body.walk() for s in st.declares}
        declared |= set(self.model.kernel.parameters)
        at = self.model.kernel.span
        whole = self.model.file.tree.root.named_descendant_for_byte_range(at.start, at.end)
        declared |= names_within(whole, self.model.file.macros) if whole is not None else set()
        declared |= {n for n in self.model.file.macros if not self.known.sure(n)}
        names = [
            self.model.file.source.slice(span(n)) for n in self._row_lengths(array) if n.type == "identifier"
        ]
        name = next((name for name in names if name not in declared), str(length))
        return operand(name, self.model.file.macros)

    def _longer(self, extent: Node, more: int) -> Edit:
        """A length in elements with `more` added."""
        text = self.model.file.source.slice(span(extent))
        return Edit(span(extent), f"{addend(text, self.model.file.macros)} + {more}")

    # -- one access ----------------------------------------------------------------------------------------------

    def _stays_in_row(self, access: RowAccess, row: int, size: int) -> None:
        column = access.column
        if not column.natural or column.high is None:
            raise KeepsLayoutError(f"the column of the access in line {access.line} is not bounded")
        if column.high * size + access.bytes > row:
            raise KeepsLayoutError(f"the access in line {access.line} may cross the end of its row")
        if access.bytes > PAD and access.leading is None:
            raise KeepsLayoutError(f"the access in line {access.line} is wider than {PAD} bytes")

    def _leading(self, access: RowAccess, leading: Node, row: int, size: int) -> Edit:
        known: Range = self.ranges.of(leading, leading)
        if known.value is None or known.value * size != row:
            raise KeepsLayoutError(f"the leading dimension in line {access.line} is not the row's length")
        if access.row.step * PAD % FRAGMENT:
            raise KeepsLayoutError(f"the row in line {access.line} is not known to be even")
        return self._longer(leading, PAD // size)
