"""One kernel as `i32 @step(thread, split)`: runs a thread from `split` to its next barrier or warp
collective and returns that split's number (0: the thread exited).

Between splits registers are allocas, which LLVM turns into values. At a split the live ones, and the operands
that the runtime needs, go to the thread's save area; `split` selects where to load them again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilepipe.emulator import layout
from tilepipe.emulator.codegen import arithmetic, compare, convert, memory
from tilepipe.emulator.codegen.builder import PRED, U32, U64, Addresses, Builder
from tilepipe.emulator.codegen.collective import is_whole_warp, record, split_kind
from tilepipe.emulator.codegen.modifiers import check_modifiers
from tilepipe.emulator.codegen.registry import translate
from tilepipe.emulator.ptx.dataflow import definitions, live_after, uses
from tilepipe.emulator.ptx.model import Function, Instruction, Label, Place, Reg, Sym

FAMILIES = (arithmetic, compare, convert, memory)  # importing them fills the registry

# Register-to-register instructions that may move past a collective.
_MOVABLE = frozenset(
    [
        "add",
        "sub",
        "mul",
        "mad",
        "shl",
        "shr",
        "and",
        "or",
        "xor",
        "not",
        "mov",
        "cvt",
        "cvta",
        "lop3",
        "shf",
        "prmt",
        "bfe",
        "bfi",
        "min",
        "max",
        "selp",
    ]
)


@dataclass(frozen=True)
class Translation:
    """LLVM IR text of a kernel and the tables beside it; `sites` and `operations` (opcodes) by site number."""

    ir: str
    splits: tuple[layout.Split, ...]
    collectives: tuple[layout.Collective, ...]
    sites: tuple[Place, ...]
    operations: tuple[str, ...]
    save_bytes: int


class _Translator:
    def __init__(self, function: Function, addresses: Addresses, checks: bool, profile: bool) -> None:
        self.b = Builder(function, addresses, checks, profile)
        self.function = function
        self.body = function.body
        self.live = live_after(function)
        self.positions = {item.name: n for n, item in enumerate(self.body) if isinstance(item, Label)}
        self.splits = [layout.Split()]
        self.collectives: list[layout.Collective] = []
        self.slots: dict[str, int] = {}
        self.save_bytes = 0
        self.resume_labels: list[str] = []
        self.position = 0

    # -- the save area

    def slot(self, register: str) -> int:
        """Byte offset of a register in the save area: 8 bytes for 64-bit ones, else 4."""
        if register not in self.slots:
            size = 8 if self.b.storage[register] in ("i64", "double") else 4
            self.save_bytes = -(-self.save_bytes // size) * size
            self.slots[register] = self.save_bytes
            self.save_bytes += size
        return self.slots[register]

    def slot_pointer(self, register: str) -> str:
        return self.b.value(f"getelementptr i8, ptr %saved, i64 {self.slot(register)}")

    def save(self, registers: set[str]) -> None:
        for register in sorted(registers, key=_register_order):
            storage = self.b.storage[register]
            value = self.b.value(f"load {storage}, ptr {self.b.cell(register)}")
            if storage in ("i1", "i8", "i16"):
                value, storage = self.b.value(f"zext {storage} {value} to i32"), "i32"
            self.b.emit(f"store {storage} {value}, ptr {self.slot_pointer(register)}, align 4")

    def restore(self, registers: set[str]) -> None:
        for register in sorted(registers, key=_register_order):
            storage = self.b.storage[register]
            wide = "i32" if storage in ("i1", "i8", "i16") else storage
            value = self.b.value(f"load {wide}, ptr {self.slot_pointer(register)}, align 4")
            if wide != storage:
                value = self.b.value(f"trunc i32 {value} to {storage}")
            self.b.emit(f"store {storage} {value}, ptr {self.b.cell(register)}")

    # -- statements

    def translate(self) -> Translation:
        self.b.start("start")
        open_block = True
        n = 0
        while n < len(self.body):
            item = self.body[n]
            self.position = n
            if isinstance(item, Label):
                if open_block:
                    self.b.branch("L" + item.name)
                self.b.start("L" + item.name)
                open_block, n = True, n + 1
                continue
            if not open_block:  # unreachable, but LLVM wants a block
                self.b.start(self.b.label("dead"))
            self.b.at(item)
            taken = self.statement(item, n)
            open_block = not self.ends_block(item)
            n += taken
        if open_block:
            self.leave(layout.EXITED)
        return self.finish()

    @staticmethod
    def ends_block(i: Instruction) -> bool:
        return i.guard is None and i.op in ("bra", "ret", "exit", "trap")

    def statement(self, i: Instruction, n: int) -> int:
        """Emits the statement at position n; returns how many body items it took."""
        if i.op == "bra":
            self.branch(i)
            return 1
        after = ""
        if i.guard is not None:
            inside, after = self.b.label("then"), self.b.label("after")
            self.b.branch_if(self.b.read(i.guard, PRED), inside, after)
            self.b.start(inside)
        taken = self.guarded(i, n)
        if after:
            if i.op not in ("ret", "exit", "trap"):
                self.b.branch(after)
            self.b.start(after)
        return taken

    def guarded(self, i: Instruction, n: int) -> int:
        if i.op in ("ret", "exit"):
            self.leave(layout.EXITED)
        elif i.op == "trap":
            message = self.b.read(i.operands[0], U64) if i.operands else "0"
            self.b.call("void", "tp_trap", "ptr %thread", f"i64 {message}", f"i32 {self.b.site()}")
            self.leave(layout.TRAPPED)
        elif split_kind(i):
            group, taken = self.group(n)
            self.split(group, n + taken - 1)
            return taken
        elif i.op in ("bar", "barrier"):
            self.arrive(i)
        else:
            translate(self.b, i)
        return 1

    def branch(self, i: Instruction) -> None:
        target = i.operands[0]
        if not isinstance(target, Sym) or target.name not in self.positions:
            raise self.b.unsupported(i.text)
        label = "L" + target.name
        onward = self.b.label("next")
        if self.positions[target.name] <= self.position:
            self.count_step(label, onward, i.guard)
        elif i.guard is None:
            self.b.branch(label)
        else:
            self.b.branch_if(self.b.read(i.guard, PRED), label, onward)
        if i.guard is not None:
            self.b.start(onward)

    def count_step(self, label: str, onward: str, guard: Reg | None) -> None:
        """A backward branch: counts down the steps that the block has."""
        if guard is not None:
            back = self.b.label("back")
            self.b.branch_if(self.b.read(guard, PRED), back, onward)
            self.b.start(back)
        left = self.b.value(f"sub i64 {self.b.value('load i64, ptr %steps')}, 1")
        self.b.emit(f"store i64 {left}, ptr %steps")
        spot = self.b.label("spot")
        self.b.branch_if(self.b.value(f"icmp eq i64 {left}, 0"), spot, label)
        self.b.start(spot)
        self.b.emit(f"store i32 {self.b.site()}, ptr %spot.at")
        self.b.branch("limit")

    def arrive(self, i: Instruction) -> None:
        if len(i.operands) != 2:
            raise self.b.unsupported(i.text)
        check_modifiers(self.b, i)
        arguments = [f"i32 {self.b.read(o, U32)}" for o in i.operands]
        self.b.call("void", "tp_barrier_arrive", "ptr %thread", *arguments, f"i32 {self.b.site()}")

    # -- splits

    def group(self, n: int) -> tuple[list[Instruction], int]:
        """Unguarded whole-warp collectives from n stop the threads once, and how many body items that takes.

        Register arithmetic between them, such as addresses, moves to before the stop where nothing depends on
        the order; it is translated here.
        """
        first = self.body[n]
        assert isinstance(first, Instruction)
        group, taken = [first], 1
        if not is_whole_warp(first) or first.guard is not None:
            return group, taken
        read, written = uses(first), definitions(first)
        between: list[Instruction] = []
        for at in range(n + 1, len(self.body)):
            item = self.body[at]
            if isinstance(item, Label) or item.guard is not None:
                break
            if is_whole_warp(item):
                for i in between:
                    self.b.at(i)
                    translate(self.b, i)
                between = []
                group.append(item)
                taken = at + 1 - n
                read |= uses(item) - written
                written |= definitions(item)
            elif item.op in _MOVABLE and not (uses(item) & written or definitions(item) & (read | written)):
                between.append(item)
            else:
                break
        return group, taken

    def split(self, group: list[Instruction], last: int) -> None:
        after = self.live[last]
        needed: set[str] = set()
        written: set[str] = set()
        for i in group:
            needed |= uses(i) - written
            if i.guard is None:
                written |= definitions(i)
        self.save((after - written) | needed)
        number, first = len(self.splits), len(self.collectives)
        site = 0
        for i in group:
            self.b.at(i)
            entry = record(self.b, i, lambda r: self.slot(r.name))
            site = site or entry.site
            self.collectives.append(entry)
        whole = int(is_whole_warp(group[0]))
        self.splits.append(layout.Split(split_kind(group[0]), site, first, len(group), whole, 0))
        self.leave(number)
        resume = f"resume{number}"
        self.resume_labels.append(resume)
        self.b.start(resume)
        self.restore(after)

    def leave(self, code: int) -> None:
        self.b.emit(f"store i32 {code}, ptr %code")
        self.b.branch("leave")

    # -- the whole

    def finish(self) -> Translation:
        b = self.b
        targets = " ".join(f'i32 {n + 1}, label %"{name}"' for n, name in enumerate(self.resume_labels))
        cells = "\n".join(f"  {b.cell(r)} = alloca {t}" for r, t in b.storage.items())
        text = f"""define i32 @step(ptr %thread, i32 %split) {{
entry:
{cells}
  %math = alloca i64
  %loaded = alloca i64
  %steps = alloca i64
  %code = alloca i32
  store i64 0, ptr %math
  store i64 0, ptr %loaded
{_field("block", "ptr", "thread", layout.Thread)}
{_field("saved", "ptr", "thread", layout.Thread, "registers")}
{_field("parameters", "ptr", "block", layout.Block)}
{_field("shared", "ptr", "block", layout.Block)}
{_field("shared_bytes", "i32", "block", layout.Block)}
{_field("steps_left", "i64", "block", layout.Block)}
  %spot.at = getelementptr i8, ptr %block, i64 {layout.offset(layout.Block, "spot")}
  store i64 %steps_left, ptr %steps
  switch i32 %split, label %start [ {targets} ]
{chr(10).join(b.lines)}
limit:
  store i32 {layout.STEP_LIMIT}, ptr %code
  br label %leave
leave:
{_add_counter("math")}
{_add_counter("loaded")}
  %steps.now = load i64, ptr %steps
  store i64 %steps.now, ptr %steps_left.at
  %result = load i32, ptr %code
  ret i32 %result
}}
"""
        declarations = "\n".join(b.externals[name] for name in sorted(b.externals))
        return Translation(
            text + declarations + "\n",
            tuple(self.splits),
            tuple(self.collectives),
            tuple(b.sites),
            tuple(b.operations),
            max(self.save_bytes, 8),
        )


def _field(name: str, kind: str, base: str, structure: type, field: str = "") -> str:
    at = layout.offset(structure, field or name)
    return f"  %{name}.at = getelementptr i8, ptr %{base}, i64 {at}\n  %{name} = load {kind}, ptr %{name}.at"


def _add_counter(name: str) -> str:
    at = layout.offset(layout.Thread, name)
    return f"""  %{name}.now = load i64, ptr %{name}
  %{name}.at = getelementptr i8, ptr %thread, i64 {at}
  %{name}.old = load i64, ptr %{name}.at
  %{name}.sum = add i64 %{name}.old, %{name}.now
  store i64 %{name}.sum, ptr %{name}.at"""


def _register_order(name: str) -> tuple[str, int]:
    """%f2 before %f10, so that neighbours in the kernel are neighbours in the save area."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)


def translate_function(
    function: Function, addresses: Addresses, checks: bool, profile: bool = False
) -> Translation:
    """Translates a kernel without calls; raises `Unsupported` at the first thing it cannot run."""
    return _Translator(function, addresses, checks, profile).translate()
