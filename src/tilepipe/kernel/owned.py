"""Pointers that may point into a thread's own memory: local arrays and variables, which no asynchronous copy reads."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.names import operator_of
from tilepipe.kernel.statements import Statement
from tilepipe.kernel.symbols import Symbol
from tilepipe.source import Span
from tilepipe.source.parse import span

_WORD = re.compile(r"[A-Za-z_]\w*")
_ANY = 9  # more dimensions than any array has


def may_be_owned(file: CudaFile, root: Statement, at: Statement, uses: Iterable[Symbol]) -> bool:
    """Whether an address that the statement `at` makes of `uses` may lie in the thread's own memory: an array or
    variable of its own goes into it, or into a pointer that does, by its address."""
    declared = {s for st in root.walk() for s in st.declares if s.kind == "local"}
    ranks = _own_memory(file, root)
    if _takes_address(file, at, ranks):
        return True
    pointers, found = frozenset[Symbol](), frozenset(s for s in uses if s in declared and s.pointer)
    while pointers != found:
        pointers = found
        for statement in root.walk():
            if statement.own.defs & pointers and statement.kind != "call":
                if _takes_address(file, statement, ranks):
                    return True
                found |= frozenset(s for s in statement.own.uses if s in declared and s.pointer)
    return False


def _own_memory(file: CudaFile, root: Statement) -> dict[str, int]:
    """The local arrays and variables by name, with their dimensions; a reference to one counts whatever its form."""
    ranks: dict[str, int] = {}
    for statement in root.walk():
        for s in statement.declares:
            if s.kind == "local" and (s.is_array or not s.pointer) and not s.reference:
                ranks[s.name] = max(s.rank, ranks.get(s.name, 0))
            elif s.reference and ranks.keys() & (set(_WORD.findall(file.source.slice(s.decl))) - {s.name}):
                ranks[s.name] = _ANY
    return ranks


def _takes_address(file: CudaFile, statement: Statement, ranks: dict[str, int]) -> bool:
    parts: list[Span | None] = [statement.span]
    if statement.children:
        parts = [statement.init, statement.condition, statement.update]
    for part in parts:
        node = (
            file.tree.root.named_descendant_for_byte_range(part.start, part.end) if part is not None else None
        )
        stack = [node] if node is not None else []
        while stack:
            current = stack.pop()
            name = current.text.decode() if current.type == "identifier" and current.text else ""
            if name in ranks and _goes_by_address(current, ranks[name]):
                return True
            stack.extend(current.named_children)
    return False


def _goes_by_address(node: Node, rank: int) -> bool:
    """Whether a mention of an array, or of a variable (`rank` 0), gives its address away: it has fewer subscripts than
    dimensions, or `&` before it."""
    above = node.parent
    while above is not None and above.type in (
        "subscript_expression",
        "parenthesized_expression",
        "field_expression",
    ):
        argument = above.child_by_field_name("argument")
        if above.type == "subscript_expression":
            if argument is None or span(argument) != span(node):
                return rank > 0  # it is the index
            rank -= 1
        node, above = above, above.parent
    if above is None or (
        above.type.endswith("declarator") and above.child_by_field_name("declarator") == node
    ):
        return False
    if above.type == "assignment_expression" and above.child_by_field_name("left") == node:
        return False
    return rank > 0 or (above.type == "pointer_expression" and operator_of(above) == "&")
