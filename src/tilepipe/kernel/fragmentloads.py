"""Statements that load fragments: which of them can run a group ahead, and fill the same elements in every group."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.kernel.elements import (
    UNCLEAR,
    apart,
    is_plain_declaration,
    last_identifier,
    nodes,
    text_of,
    unlike_loads,
)
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.macros import expansion_body, written
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.kernel.tileloop import TileLoop
from tilepipe.kernel.trips import counted
from tilepipe.kernel.zeros import is_built_in, is_vector

_WORD = re.compile(r"[A-Za-z_]\w*")
_MATRIX_LOAD = re.compile(r"(\w+\s*::\s*)*load_matrix_sync\s*\(")

ARITHMETIC = re.compile(
    r"(unsigned |signed |const )*(float|double|int|unsigned|char|short|long|half|bool)\d?( int| long)*"
)
_OPERATOR = re.compile(r"\boperator\s*(?:=(?!=)|\[\s*\]|->\*?|,|&\s*\(\s*\)|\*\s*\(\s*\))")
_DEFAULTED = re.compile(r"\s*\([^()]*\)[^;{]*=\s*(?:default|delete)\b")


@dataclass(frozen=True, eq=False)
class Loads:
    """The statements of a loop over groups that read the tiles. `names` are the fragments, `changing` what an iteration
    of either loop changes but for these."""

    file: CudaFile
    tile: TileLoop
    names: frozenset[Symbol]
    changing: Set[Symbol]

    def refused(self, load: Statement) -> str:
        """Why a statement that reads the tiles cannot run a group ahead, "" if it can."""
        line = self.file.source.line_of(load.span.start)
        effects = load.effects()
        if effects.global_reads() or effects.opaque or effects.flags - {"asm"}:
            return f"line {line} does more than load fragments"
        if effects.shared_reads() - self.tile.staged - self.tile.invariant:
            return f"line {line} reads shared memory that the loop writes"
        called = {id(s): c for c in load.walk() if c.kind == "call" for s in c.walk()}
        for statement in load.walk():
            if statement.kind in ("if", "while", "do", "other"):
                return f"line {line} loads fragments under a condition"
            if statement.is_loop and counted(self.file, statement, None, called.get(id(statement))) is None:
                return f"line {line}: how often a fragment is loaded is not understood"
            if statement.kind == "call" and statement.call is not None and statement.call.is_lambda:
                return f"line {line} loads fragments by a lambda"
            if statement.kind == "declaration" and statement is not load and statement.declares & self.names:
                return f"line {line} declares a fragment where it loads it"
        if load.kind == "declaration" and not is_plain_declaration(node_of(self.file, load)):
            return f"line {line} declares fragments in a form that cannot be split"
        return self._moving_element(load)

    def _moving_element(self, load: Statement) -> str:
        """Why the elements loaded may differ from group to group, "" if they are the same ones."""
        line = self.file.source.line_of(load.span.start)
        own = _loop_counters(load)
        for statement in load.walk():
            if statement.is_loop and statement.own.uses - own & self.changing:
                return f"line {line}: how much is loaded differs between groups"
        words = {s.name for s in self.names}
        for statement in load.walk():
            if statement.own.uses & self.names and not self._only_fills(statement, words):
                return f"line {line} computes a fragment from what it held before"
        moving = {s.name for s in self.changing} - {s.name for s in own}
        spelled = self.spelled(node_of(self.file, load))
        pointers = dict.fromkeys(words, False)
        why = unlike_loads(spelled, pointers, moving) if spelled is not None else UNCLEAR
        if why:
            return f"line {line}: {why}"
        for statement in load.walk():
            if statement.kind == "call" and not self._same_in_callee(statement, words):
                return f"line {line}: the helper that loads a fragment is not followed"
        return ""

    def _only_fills(self, statement: Statement, words: set[str]) -> bool:
        """Whether a statement is a matrix load, which names the fragment as a value but replaces it."""
        text = self.file.source.slice(statement.span)
        call = _MATRIX_LOAD.match(text)
        return call is not None and not set(_WORD.findall(text[call.end() :].partition(",")[2])) & words

    def _same_in_callee(self, call: Statement, words: set[str]) -> bool:
        """Whether a helper that is handed a fragment names its elements by constants or its own loops' counters."""
        if call.call is None or any(s.kind == "call" for c in call.children for s in c.walk()):
            return False
        root = self.file.tree.root
        listed = root.named_descendant_for_byte_range(call.call.arguments.start, call.call.arguments.end)
        function = self.file.functions.get(call.call.name)
        if listed is None or function is None:
            return False
        arguments = [a for a in listed.named_children if a.type != "comment"]
        given = [
            p for p, a in zip(function.parameters, arguments, strict=False) if self._mentioned(a) & words
        ]
        pointers = {last_identifier(p): _is_pointer(p) for p in given}
        counters = {s.name for s in _loop_counters(call)}
        others = {s.name for c in call.children for s in c.effects().defs | c.effects().uses}
        spelled = self.spelled(function.body)
        return spelled is not None and not unlike_loads(spelled, pointers, others - counters)

    def _mentioned(self, node: Node) -> set[str]:
        """The variables that a text may name."""
        names = {text_of(n) for n in nodes(node) if n.type == "identifier"}
        within = names & self.file.macros.keys()
        return names | (set(_WORD.findall(written(text_of(node), self.file.macros))) if within else set())

    def spelled(self, node: Node) -> Node | None:
        """The node with its macros written out; None where that is not understood."""
        text = text_of(node)
        if not set(_WORD.findall(text)) & self.file.macros.keys():
            return node
        return expansion_body(written(text, self.file.macros))

    def loaded_again(
        self,
        body: tuple[Statement, ...],
        loads: list[Statement],
        math: list[Statement],
    ) -> str:
        """Why a fragment holds different elements at different places of one group, "" if it does not."""
        used: dict[Symbol, list[Statement]] = {}
        for statement in body:
            if statement in loads:
                for symbol in sorted(statement.effects().defs & used.keys(), key=lambda s: s.key):
                    if not self._apart(symbol, statement, used[symbol]):
                        line = self.file.source.line_of(statement.span.start)
                        return f"line {line} loads the fragment `{symbol.name}` anew behind its use"
            elif statement in math:
                for symbol in statement.effects().uses & self.names:
                    used.setdefault(symbol, []).append(statement)
        return ""

    def _apart(self, symbol: Symbol, load: Statement, uses: list[Statement]) -> bool:
        """Whether a load leaves the elements of a fragment alone that are used before it."""
        texts = [self.spelled(node_of(self.file, s)) for s in (load, *uses)]
        found = [t for t in texts if t is not None]
        vector = is_vector(self.file, symbol.type)
        return len(found) == len(texts) and apart(symbol.name, symbol.rank, vector, found[0], found[1:])

    def own_operators(self, loads: list[Statement]) -> str:
        """Why assigning to a fragment may run code of the author's, "" if it does not."""
        texts = [text_of(root) for root in self.file.roots]
        written_out = [m for t in texts for m in _OPERATOR.finditer(t) if not _DEFAULTED.match(t, m.end())]
        if not written_out:
            return ""
        spelled = [self.spelled(node_of(self.file, load)) for load in loads]
        types = [n for s in spelled if s is not None for n in nodes(s) if n.type == "type_descriptor"]
        for type_ in (*sorted(s.type for s in self.names), *(text_of(t).rstrip("*& ") for t in types)):
            bare = type_.removeprefix("const ")
            known = is_built_in(self.file, bare) or ARITHMETIC.fullmatch(bare) or "fragment<" in bare
            if not known:
                return f"assigning to a `{bare}` may run code of its own"
        return ""


def node_of(file: CudaFile, statement: Statement) -> Node:
    """The node of a statement of the kernel's own text."""
    node = file.tree.root.named_descendant_for_byte_range(statement.span.start, statement.span.end)
    assert node is not None
    return node


def _is_pointer(parameter: Node) -> bool:
    """Whether a parameter is a pointer, or an array that became one."""
    kinds = {n.type for n in nodes(parameter)}
    return "reference_declarator" not in kinds and bool(kinds & {"pointer_declarator", "array_declarator"})


def _loop_counters(statement: Statement) -> frozenset[Symbol]:
    return frozenset(s.counter for s in statement.walk() if s.is_loop and s.counter is not None)
