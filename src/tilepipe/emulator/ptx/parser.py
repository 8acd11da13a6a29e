"""Tokens to a `Module`. Inner scopes (inline assembly, calls) are flattened: their registers, variables and
labels get unique names, so that every later stage sees one flat list per function."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilepipe.emulator.ptx.lexer import Token, tokenize
from tilepipe.emulator.ptx.literals import literal, pack_literal
from tilepipe.emulator.ptx.model import (
    Function,
    Imm,
    Instruction,
    Label,
    Mem,
    Module,
    Operand,
    Place,
    Reg,
    Sym,
    Unsupported,
    Variable,
    Vec,
)
from tilepipe.emulator.types import TYPES, ScalarType

_SPACES = ("param", "shared", "global", "const", "local")
_BRANCHES = ("bra", "brx")


@dataclass
class _Scope:
    parent: _Scope | None
    names: dict[str, str] = field(default_factory=dict)  # registers and variables
    labels: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def find_label(self, name: str) -> str:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return name


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = tokenize(text)
        self.at = 0
        self.module = Module()
        self.function = Function("", False)
        self.scope = _Scope(None)
        self.serial = 0
        self.source_line = self.call_line = 0
        self.main_file: int | None = None

    # -- token access

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def next(self) -> Token:
        token = self.token
        if token.kind == "end":
            raise Unsupported("a text that ends early", token.line)
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.token.text != text or self.token.kind == "string":
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise Unsupported(f"{self.token.text!r} where {text!r} is expected", self.token.line)

    def rest_of_line(self) -> list[Token]:
        line, taken = self.tokens[self.at - 1].line, []
        while self.token.line == line and self.token.kind != "end":
            taken.append(self.next())
        return taken

    def until(self, *stops: str) -> list[Token]:
        taken = []
        while self.token.text not in stops and self.token.kind != "end":
            taken.append(self.next())
        return taken

    # -- module level

    def parse(self) -> Module:
        linkage = ("extern", "visible", "weak", "common")
        while self.token.kind != "end":
            token = self.next()
            name = token.text.lstrip(".")
            if name in ("version", "target", "address_size", "file"):
                self.rest_of_line()
            elif name == "section":
                self.until("}")
                self.expect("}")
            elif name == "pragma":
                self.until(";")
                self.expect(";")
            elif name in linkage or token.text == ";":
                continue
            elif name in ("entry", "func"):
                self.parse_function(name == "entry")
            elif name in _SPACES:
                for variable in self.parse_variables(name):
                    self.module.variables[variable.name] = variable
            else:
                raise Unsupported(f"directive {token.text}", token.line)
        return self.module

    def parse_function(self, is_kernel: bool) -> None:
        results: list[Variable] = []
        self.scope = _Scope(None)
        function = self.function = Function("", is_kernel)
        if self.token.text == "(":
            results = self.parse_parameters()
        function.name = self.next().text
        function.results = results
        if self.token.text == "(":
            function.parameters = self.parse_parameters()
        self.until("{", ";")  # performance directives: .maxntid, .minnctapersm, .noreturn …
        self.source_line, self.call_line, self.main_file = 0, 0, None
        if self.accept(";"):
            function.has_body = False
        else:
            self.expect("{")
            self.parse_body()
        known = self.module.functions.get(function.name)
        if known is None or not known.has_body:
            self.module.functions[function.name] = function

    def parse_parameters(self) -> list[Variable]:
        self.expect("(")
        parameters: list[Variable] = []
        while not self.accept(")"):
            space = self.next().text.lstrip(".")
            if space == "reg":
                raise Unsupported("register parameters", self.token.line)
            parameters.append(self.parse_variable(space, self.parse_type_prefix()))
            self.accept(",")
        for p in parameters:
            self.scope.names[p.name] = p.name
        return parameters

    # -- declarations

    def parse_type_prefix(self) -> tuple[ScalarType, int]:
        """`.align 16 .b8`, in any order and with `.ptr` attributes: element type and alignment."""
        align, element = 0, None
        while self.token.kind == "dot":
            token = self.next()
            for part in token.text.split(".")[1:]:
                if part == "align":
                    align = int(self.next().text, 0)
                elif part in TYPES:
                    element = TYPES[part]
                elif part in ("v2", "v4"):
                    raise Unsupported("vector variables", token.line)
        if element is None:
            raise Unsupported("a declaration without a type", self.token.line)
        return element, align

    def parse_variable(self, space: str, prefix: tuple[ScalarType, int]) -> Variable:
        element, align = prefix
        name, count = self.next().text, 1
        while self.accept("["):
            count = count * int(self.next().text, 0) if self.token.text != "]" else 0
            self.expect("]")
        initial = b""
        if self.accept("="):
            values = self.until(";")
            words = [t for t in values if t.kind in ("int", "float", "word")]
            if any(t.kind == "word" for t in words):
                return Variable(name, space, align or element.bytes, count * element.bytes, pointing=True)
            minus = [values[i - 1].text == "-" for i, t in enumerate(values) if t.kind in ("int", "float")]
            initial = b"".join(
                pack_literal(t, element, negative) for t, negative in zip(words, minus, strict=True)
            )
        return Variable(name, space, align or element.bytes, count * element.bytes, initial)

    def parse_variables(self, space: str) -> list[Variable]:
        prefix = self.parse_type_prefix()
        variables = [self.parse_variable(space, prefix)]
        while self.accept(","):
            variables.append(self.parse_variable(space, prefix))
        self.expect(";")
        return variables

    def declare(self, name: str) -> str:
        """Declares `name` in the current scope; returns its unique name."""
        self.scope.names[name] = self.unique(name)
        return self.scope.names[name]

    def unique(self, name: str) -> str:
        if self.scope.parent is None:
            return name
        self.serial += 1
        return f"{name}~{self.serial}"

    def parse_registers(self) -> None:
        element, _ = self.parse_type_prefix()
        while True:
            name = self.next().text
            if self.accept("<"):
                count = int(self.next().text, 0)
                self.expect(">")
                for i in range(count):
                    self.function.registers[self.declare(f"{name}{i}")] = element
            else:
                self.function.registers[self.declare(name)] = element
            if not self.accept(","):
                break
        self.expect(";")

    # -- statements

    def parse_body(self) -> None:
        scopes: list[tuple[int, _Scope]] = []  # the scope of each branch, resolved when all labels are known
        depth = 1
        while depth:
            token = self.token
            if self.accept("{"):
                depth += 1
                self.scope = _Scope(self.scope)
            elif self.accept("}"):
                depth -= 1
                self.scope = self.scope.parent or self.scope
            elif token.kind == "dot":
                self.parse_directive()
            elif token.kind == "word" and self.tokens[self.at + 1].text == ":":
                self.at += 2
                self.scope.labels[token.text] = self.unique(token.text)
                self.function.body.append(Label(self.scope.labels[token.text]))
            elif self.accept(";"):
                continue
            elif token.kind == "end":
                raise Unsupported("an unfinished function", token.line)
            else:
                instruction = self.parse_instruction()
                if instruction.op in _BRANCHES:
                    scopes.append((len(self.function.body), self.scope))
                self.function.body.append(instruction)
        for index, scope in scopes:
            self.resolve_branch(index, scope)

    def resolve_branch(self, index: int, scope: _Scope) -> None:
        branch = self.function.body[index]
        assert isinstance(branch, Instruction)
        operands = tuple(Sym(scope.find_label(o.name)) if isinstance(o, Sym) else o for o in branch.operands)
        self.function.body[index] = replace(branch, operands=operands)

    def parse_directive(self) -> None:
        token = self.next()
        head, *attached = token.text.split(".")[1:]
        if attached:  # `.shared.align` written without a space
            self.at -= 1
            self.tokens[self.at] = Token("dot", "." + ".".join(attached), token.line)
        if head == "reg":
            self.parse_registers()
        elif head == "loc":
            self.parse_location(self.rest_of_line())
        elif head in _SPACES:
            for variable in self.parse_variables(head):
                self.function.variables.append(replace(variable, name=self.declare(variable.name)))
        elif head == "pragma":
            self.until(";")
            self.expect(";")
        else:
            raise Unsupported(f"directive {token.text}", token.line)

    def parse_location(self, tokens: list[Token]) -> None:
        """`.loc file line column [, function_name …, inlined_at file line column]`, as a line of the kernel's
        own file."""
        words = [t.text for t in tokens]
        file, line, call = int(words[0]), int(words[1]), 0
        if self.main_file is None:
            self.main_file = file
        if "inlined_at" in words:
            i = words.index("inlined_at")
            caller, call = int(words[i + 1]), int(words[i + 2])
            if file != self.main_file:
                file, line, call = caller, call, 0
            elif caller != self.main_file:
                call = 0
        if file == self.main_file and line:
            self.source_line, self.call_line = line, call
            self.module.has_lines = True

    def parse_instruction(self) -> Instruction:
        guard: Reg | None = None
        if self.accept("@"):
            negated = self.accept("!")
            guard = replace(self.register(self.next()), negated=negated)
        token = self.next()
        if token.kind != "word":
            raise Unsupported(f"{token.text!r} where an instruction is expected", token.line)
        op, *mods = token.text.split(".")
        operands: list[Operand] = []
        while not self.accept(";"):
            operands.append(self.parse_operand())
            if not self.accept(","):
                self.expect(";")
                break
        place = Place(token.line, self.source_line, self.call_line)
        return Instruction(op, tuple(mods), tuple(operands), place, guard)

    def register(self, token: Token) -> Reg:
        unique = self.scope.find(token.text)
        if unique is None or unique not in self.function.registers:
            raise Unsupported(f"undeclared register {token.text}", token.line)
        return Reg(unique)

    def parse_operand(self) -> Operand:
        first = self.parse_single()
        if not self.accept("|"):
            return first
        return Vec((first, self.parse_single()))

    def parse_list(self, close: str) -> Vec:
        items: list[Operand] = []
        while not self.accept(close):
            items.append(self.parse_operand())
            self.accept(",")
        return Vec(tuple(items))

    def parse_single(self) -> Operand:
        if self.accept("{"):
            return self.parse_list("}")
        if self.accept("("):
            return self.parse_list(")")
        if self.accept("["):
            base = self.parse_single()
            self.expect("]")
            if isinstance(base, Mem):
                return base
            if isinstance(base, Vec):
                raise Unsupported("a vector address", self.token.line)
            return Mem(base)
        if self.accept("!"):
            return replace(self.register(self.next()), negated=True)
        if self.accept("-"):
            number = literal(self.next())
            if number.float_bits:
                return Imm(number.value ^ 1 << (number.float_bits - 1), number.float_bits)
            return Imm(-number.value)
        token = self.next()
        if token.kind in ("int", "float"):
            return literal(token)
        if token.kind != "word":
            raise Unsupported(f"operand {token.text!r}", token.line)
        return self.parse_name(token)

    def parse_name(self, token: Token) -> Operand:
        if token.text == "_":
            return Reg("")
        unique = self.scope.find(token.text)
        base: Reg | Sym = Sym(unique or token.text)
        if unique is not None and unique in self.function.registers:
            base = Reg(unique)
        if self.token.text in "+-" and self.token.kind == "punct":
            sign = -1 if self.next().text == "-" else 1
            if self.accept("-"):
                sign = -sign
            return Mem(base, sign * literal(self.next()).value)
        return base


def parse(text: str) -> Module:
    """Parses a PTX text; raises `Unsupported` where it uses something the emulator does not know."""
    parser = _Parser(text)
    try:
        return parser.parse()
    except ValueError as problem:  # a number where there is none
        raise Unsupported("malformed PTX", parser.token.line) from problem
