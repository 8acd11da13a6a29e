"""Device function calls, expanded in place: every later stage sees one flat function.

A call's `.param` variables become registers, one per (variable, offset, width) that is stored or loaded.
"""

from __future__ import annotations

from dataclasses import replace

from tilepipe.emulator.ptx.model import (
    Function,
    Imm,
    Instruction,
    Label,
    Mem,
    Module,
    Operand,
    Reg,
    Sym,
    Unsupported,
    Vec,
)
from tilepipe.emulator.types import TYPES

_MAX_INSTRUCTIONS = 200_000
_PRINTS = "printf prints nothing here and returns 0"


class _Expander:
    def __init__(self, module: Module, kernel: Function) -> None:
        self.module = module
        self.kernel = kernel
        self.out = Function(kernel.name, True, kernel.parameters, [], dict(kernel.registers), [])
        self.serial = 0

    def expand(self) -> Function:
        self.copy(self.kernel, "", {}, (self.kernel.name,))
        return self.out

    def copy(self, source: Function, suffix: str, actuals: dict[str, str], stack: tuple[str, ...]) -> None:
        """Appends the body of `source`; its names get `suffix`, its parameters stand for `actuals`."""
        passed = dict(actuals)
        for v in source.variables:
            if v.space == "param":
                passed[v.name] = v.name + suffix
            elif v.space == "local":
                self.out.variables.append(replace(v, name=v.name + suffix))
            elif v not in self.out.variables:
                self.out.variables.append(v)
        if suffix:
            self.out.registers.update((name + suffix, t) for name, t in source.registers.items())
        locals_ = {v.name for v in source.variables if v.space == "local"}
        rename = _Renamer(suffix, locals_)
        end = f"return{suffix}"
        for item in source.body:
            if len(self.out.body) > _MAX_INSTRUCTIONS:
                raise Unsupported("more than 200000 instructions after expanding calls")
            if isinstance(item, Label):
                self.out.body.append(Label(item.name + suffix))
            elif item.op == "call":
                self.call(rename.instruction(item), suffix, passed, stack)
            elif item.op == "ret" and suffix:
                guard = rename.operand(item.guard) if item.guard else None
                assert guard is None or isinstance(guard, Reg)
                self.out.body.append(Instruction("bra", (), (Sym(end),), item.place, guard))
            elif item.op in ("ld", "st") and "param" in (m.partition("::")[0] for m in item.mods):
                self.parameter_access(rename.instruction(item), passed, suffix)
            else:
                self.out.body.append(rename.instruction(item))
        if suffix:
            self.out.body.append(Label(end))

    def call(self, i: Instruction, suffix: str, passed: dict[str, str], stack: tuple[str, ...]) -> None:
        lists = [o for o in i.operands if isinstance(o, Vec)]
        names = [o.name for o in i.operands if isinstance(o, Sym)]
        if len(names) != 1 or names[0] not in self.module.functions:
            raise Unsupported("an indirect call", i.place.ptx_line)
        callee = self.module.functions[names[0]]
        if callee.name == "__assertfail":
            message = lists[-1].items[0]
            assert isinstance(message, Sym)
            cell = self.cell(passed.get(message.name, message.name), 0, 64)
            self.out.body.append(Instruction("trap", (), (cell,), i.place, i.guard))
            return
        if callee.name == "vprintf":
            result = lists[0].items[0]
            assert isinstance(result, Sym)
            cell = self.cell(passed.get(result.name, result.name), 0, 32)
            self.out.body.append(Instruction("mov", ("b32",), (cell, Imm(0)), i.place, i.guard))
            if _PRINTS not in self.out.notes:
                self.out.notes.append(_PRINTS)
            return
        if not callee.has_body:
            raise Unsupported(f"a call of {callee.name}", i.place.ptx_line)
        if callee.name in stack:
            raise Unsupported(f"recursion in {callee.name}", i.place.ptx_line)
        results = lists.pop(0) if callee.results else Vec(())
        arguments = lists[0] if lists else Vec(())
        formals = [*callee.results, *callee.parameters]
        actuals = [o.name if isinstance(o, Sym) else "" for o in (*results.items, *arguments.items)]
        if len(formals) != len(actuals):
            raise Unsupported(f"a call of {callee.name} with other arguments", i.place.ptx_line)
        self.serial += 1
        inner = f"#{self.serial}"
        skip = f"skip{inner}"
        if i.guard is not None:
            unless = replace(i.guard, negated=not i.guard.negated)
            self.out.body.append(Instruction("bra", (), (Sym(skip),), i.place, unless))
        bound = {f.name: passed.get(a, a) for f, a in zip(formals, actuals, strict=True)}
        self.copy(callee, inner, bound, (*stack, callee.name))
        self.out.body.append(Label(skip))

    def cell(self, variable: str, offset: int, bits: int) -> Reg:
        """The register that stands for `bits` bits of a call's variable."""
        cell = Reg(f"{variable}@{offset}.{bits}")
        self.out.registers.setdefault(cell.name, TYPES[f"b{max(bits, 16)}"])
        return cell

    def parameter_access(self, i: Instruction, passed: dict[str, str], suffix: str) -> None:
        """ld.param and st.param of a call's variable become moves; of the kernel's parameters they stay."""
        memory, data = (i.operands[1], i.operands[0]) if i.op == "ld" else i.operands
        if not isinstance(memory, Mem) or not isinstance(memory.base, Sym) or memory.base.name not in passed:
            if suffix or i.op == "st":
                raise Unsupported(f"{i.text} in a device function", i.place.ptx_line)
            self.out.body.append(i)
            return
        kind = TYPES[i.mods[-1]]
        parts = data.items if isinstance(data, Vec) else (data,)
        for n, part in enumerate(parts):
            cell = self.cell(passed[memory.base.name], memory.offset + n * kind.bytes, kind.bits)
            to, source = (part, cell) if i.op == "ld" else (cell, part)
            if kind.bits == 8:
                self.out.body.append(Instruction("cvt", ("u16", kind.name), (to, source), i.place, i.guard))
            else:
                self.out.body.append(Instruction("mov", (kind.name,), (to, source), i.place, i.guard))


class _Renamer:
    def __init__(self, suffix: str, variables: set[str]) -> None:
        self.suffix = suffix
        self.variables = variables

    def operand(self, o: Operand) -> Operand:
        if isinstance(o, Reg):
            return replace(o, name=o.name + self.suffix) if o.name else o
        if isinstance(o, Mem):
            base = self.operand(o.base)
            assert isinstance(base, (Reg, Sym)) or base == o.base
            return replace(o, base=base)
        if isinstance(o, Vec):
            return Vec(tuple(self.operand(item) for item in o.items))
        if isinstance(o, Sym) and o.name in self.variables:
            return Sym(o.name + self.suffix)
        return o

    def instruction(self, i: Instruction) -> Instruction:
        if not self.suffix:
            return i
        if i.op == "bra":
            operands: tuple[Operand, ...] = tuple(
                Sym(o.name + self.suffix) if isinstance(o, Sym) else o for o in i.operands
            )
        else:
            operands = tuple(self.operand(o) for o in i.operands)
        guard = replace(i.guard, name=i.guard.name + self.suffix) if i.guard else None
        return replace(i, operands=operands, guard=guard)


def expand_calls(module: Module, symbol: str) -> Function:
    """The kernel `symbol` with every call replaced by its callee's body.

    Raises `Unsupported` for recursion, indirect calls, and functions without a body other than assertions
    (traps) and printf (left out, with a note).
    """
    kernel = module.functions[symbol]
    if not any(isinstance(i, Instruction) and i.op == "call" for i in kernel.body):
        return kernel
    return _Expander(module, kernel).expand()
