"""Where a name is mentioned, with macros that are given it expanded."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.macros import expand, expansion_body
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.names import arguments_of, callee
from tilepipe.source.parse import span

DEPTH = 6  # helpers and macros followed through each other


class KeepsLayoutError(Exception):
    """The array keeps its layout; the message says why."""


class Mentions:
    """The mentions of names in one file."""

    def __init__(self, file: CudaFile) -> None:
        self.file = file

    def of(self, root: Node, name: str) -> Iterator[tuple[Node, Node, bool]]:
        """Every mention of a name below a node of the file, with the node of the file where it stands; where macros
        are given the name, in the statement with these expanded."""
        expanded: set[int] = set()
        for node in identifiers(root, name):
            call = self.macro_around(node, root)
            if call is None:
                yield node, node, True
                continue
            statement = self._statement(call)
            if statement.start_byte not in expanded:
                expanded.add(statement.start_byte)
                yield from self._in_expansion(statement, name)

    def macro_around(self, node: Node, root: Node) -> Node | None:
        """The outermost call of a macro around a node."""
        found = None
        current = node.parent
        while current is not None and current != root:
            if current.type == "call_expression" and callee(current) in self.file.macros:
                found = current
            current = current.parent
        return found

    def _statement(self, node: Node) -> Node:
        current: Node | None = node
        while current is not None and current.type not in ("expression_statement", "declaration"):
            if current.type.endswith("_statement") or current.type == "lambda_expression":
                break
            current = current.parent
        if current is None or current.type not in ("expression_statement", "declaration"):
            raise KeepsLayoutError(f"the macro in line {self._line(node)} is not followed")
        return current

    def _in_expansion(self, statement: Node, name: str) -> Iterator[tuple[Node, Node, bool]]:
        text = self.file.source.slice(span(statement))
        for _ in range(DEPTH):
            body = expansion_body(text)
            if body is None:
                break
            calls = [c for n in identifiers(body, name) if (c := self.macro_around(n, body)) is not None]
            if not calls:
                if statement.type == "declaration":
                    raise KeepsLayoutError(f"the macro in line {self._line(statement)} is not followed")
                for node in identifiers(body, name):
                    yield node, statement, False
                return
            text = self._expanded(text, body, calls[0])
        raise KeepsLayoutError(f"the macro in line {self._line(statement)} is not understood")

    def _expanded(self, text: str, body: Node, call: Node) -> str:
        macro = self.file.macros[callee(call)]
        if not meanings(self.file).sure(macro.name):
            raise KeepsLayoutError(
                f"the macro `{macro.name}` is defined in several ways, or under a condition"
            )
        arguments = [(a.text or b"").decode() for a in arguments_of(call)]
        data, shift = text.encode(), body.start_byte + 1
        new = expand(macro, arguments).encode()
        return (data[: call.start_byte - shift] + new + data[call.end_byte - shift :]).decode()

    def _line(self, node: Node) -> int:
        return self.file.source.line_of(node.start_byte)


def identifiers(root: Node, name: str) -> list[Node]:
    """The identifiers of a name below a node, in source order."""
    found: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "identifier" and node.text == name.encode():
            found.append(node)
        stack.extend(reversed(node.named_children))
    return found
