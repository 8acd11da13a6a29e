"""Questions that only the compiler can answer, put to it as code in their own scope.

A value is asked by an inline-assembly comment with a constant operand, a type by a function template whose
compiler-spelled name holds it; both are read from the PTX, so one compilation answers any number of questions
through macros, templates, `constexpr` and `decltype`. A probe that does not compile (a value that is no
constant) is known by the pseudo-file it stands in; it is taken out, and the rest asked again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import tree_sitter

from tilepipe.diagnostics import Refusal
from tilepipe.problem.types import Parameter
from tilepipe.source import Edit, SourceFile, Span, apply_edits, parse_tree
from tilepipe.source.lexical import lexemes
from tilepipe.toolchain.messages import parse_errors
from tilepipe.toolchain.types import Answer, Question

_FILE = "tilepipe_probe_"
_VALUE = re.compile(r"TILEPIPE_VALUE (\d+) (-?\d+)")
_STRING = re.compile(r"\.b8\s+\S+\[\d+\]\s*=\s*\{([\d,\s]*)\}")
_TYPE = re.compile(r"tilepipe_probe::type\(\) \[with (?:int )?Key = (\d+)[,;] Type = (.*)\]\Z")
# Spellings of EDG's own: "signed int" where a typedef says so, "__nv_bool".
_SIGNED = re.compile(r"\bsigned (?!char)")
_NO_INTEGER = -(2**63)  # `no_integer` of tilepipe_probe.h
_TRAITS = {"plain": "__is_trivially_copyable", "blank": "__is_trivially_constructible"}
# Parse errors hide those of instantiation, so failing probes can show in two or three batches, and the compiler
# may stop at its hundredth error.
_ROUNDS = 6
_ERRORS = 100


@dataclass(frozen=True)
class Failed:
    """A compilation that failed: the compiler's log, the refusal it amounts to, and after how many runs."""

    log: str
    refusal: Refusal
    rounds: int = 1


TextEdit = Callable[[str], str]
Build = Callable[[TextEdit], str | Failed]
"""Compiles the unit's text, as edited, with `tilepipe_probe.h` included before it, to PTX."""


def ask(build: Build, path: str, questions: tuple[Question, ...]) -> dict[str, Answer] | Refusal:
    """Answer by key; None where the expression is no constant, has no type, or its place is never compiled.

    An answer that differs between instantiations of the code around it is None too. A unit that does not
    compile without any probe is a Refusal.
    """
    live = set(range(len(questions)))
    for _ in range(_ROUNDS + len(questions) // (_ERRORS // 2)):
        ptx = build(partial(instrument, path, questions, frozenset(live)))
        if isinstance(ptx, str):
            found = _read(ptx)
            return {q.key: found.get(index) if index in live else None for index, q in enumerate(questions)}
        failing = {
            int(e.file[len(_FILE) :]) for e in parse_errors(ptx.log) if re.fullmatch(_FILE + r"\d+", e.file)
        }
        if not failing & live:
            return ptx.refusal
        live -= failing
    return {question.key: None for question in questions}


def ask_parameters(
    build: Build, texts: Sequence[str], kernel: str, name: str
) -> tuple[Parameter, ...] | Refusal:
    """The parameters of the kernel that expression `name` denotes, in order, with canonical types.

    Their names are read from the definition of `kernel` in one of `texts`.
    """
    probe = (
        f'\n#line 1 "{_FILE}parameters"\n'
        'extern "C" __global__ void tilepipe_parameters() '
        f"{{ tilepipe_probe::parameters_of((decltype(&{name})*)nullptr); }}\n"
    )
    ptx = build(lambda text: text + probe)
    if isinstance(ptx, Failed):
        return ptx.refusal
    found = _read(ptx)
    types = [str(found[2 * index]) for index in range(len(found) // 2)]
    names = parameter_names(texts, kernel, len(types))
    return tuple(
        Parameter(name, kind, str(found[2 * index + 1]) if kind.endswith("*") else None)
        for index, (name, kind) in enumerate(zip(names, types, strict=True))
    )


def instrument(path: str, questions: tuple[Question, ...], live: frozenset[int], text: str) -> str:
    """The text with a probe per live question, each in a pseudo-file of its own."""
    source = SourceFile(path, text)
    by_offset: dict[int, list[str]] = {}
    for index in sorted(live):
        by_offset.setdefault(questions[index].offset, []).append(_probe(index, questions[index]))
    name = path.replace("\\", "\\\\").replace('"', '\\"')
    edits = [
        Edit(Span(offset, offset), f'\n{"".join(probes)}#line {source.line_of(offset)} "{name}"\n')
        for offset, probes in by_offset.items()
    ]
    return apply_edits(text, edits)


def parameter_names(texts: Sequence[str], kernel: str, count: int) -> list[str]:
    """The names in the kernel's parameter list; `argN` where the source shows none."""
    declared = (_declared_parameters(text, kernel) for text in texts)
    names = next((names for names in declared if names is not None and len(names) == count), [""] * count)
    return [name or f"arg{index}" for index, name in enumerate(names)]


def _probe(index: int, question: Question) -> str:
    # The expression stands on one line, so that an error in it is on line 1 of its pseudo-file.
    expression = _one_line(question.expression)
    bare = f"typename tilepipe_probe::bare<decltype(({expression}))>::type"
    if question.kind in _TRAITS:
        expression = f"{_TRAITS[question.kind]}({bare})"
    if question.kind != "type":
        body = f'asm volatile("// TILEPIPE_VALUE {index} %0" :: "n"(tilepipe_probe::integer({expression})));'
    else:
        body = f'asm volatile("// %0" :: "l"(tilepipe_probe::type<{index}, {bare}>()));'
    return f'#line 1 "{_FILE}{index}"\n{body}\n'


def _one_line(expression: str) -> str:
    """The expression without line ends, and without its comments, which would swallow what follows them."""
    data = bytearray(expression.encode())
    for lexeme in lexemes(bytes(data)):
        if lexeme.kind == "comment":
            data[lexeme.start : lexeme.end] = b" " * (lexeme.end - lexeme.start)
    return " ".join(data.decode().split())


def _read(ptx: str) -> dict[int, Answer]:
    """Answers by index; those given twice and differently are left out."""
    seen: dict[int, set[int | str]] = {}
    for index, value in _VALUE.findall(ptx):
        seen.setdefault(int(index), set()).add(int(value))
    for numbers in _STRING.findall(ptx):
        text = bytes(int(number) for number in numbers.split(",")).rstrip(b"\0").decode(errors="replace")
        match = _TYPE.search(text)
        if match:
            seen.setdefault(int(match[1]), set()).add(_SIGNED.sub("", match[2]).replace("__nv_bool", "bool"))
    alone = {index: answers.pop() for index, answers in seen.items() if len(answers) == 1}
    return {index: answer for index, answer in alone.items() if answer != _NO_INTEGER}


def _declared_parameters(text: str, kernel: str) -> list[str] | None:
    data = text.encode()
    pending = [parse_tree(text).root_node]
    while pending:
        node = pending.pop()
        declared = node.child_by_field_name("declarator") if node.type == "function_declarator" else None
        parameters = node.child_by_field_name("parameters")
        if declared is None or parameters is None:
            pass
        elif data[declared.start_byte : declared.end_byte].decode().rpartition("::")[2] == kernel:
            return [_declared_name(data, p) for p in parameters.named_children if p.type != "comment"]
        pending += node.named_children
    return None


def _declared_name(data: bytes, parameter: tree_sitter.Node) -> str:
    node = parameter.child_by_field_name("declarator")
    if node is None:
        return ""
    text = data[node.start_byte : node.end_byte]
    words = [text[one.start : one.end].decode() for one in lexemes(text) if one.kind == "word"]
    return next((word for word in reversed(words) if word not in ("const", "volatile", "__restrict__")), "")
