"""The expressions that read global memory and can be evaluated ahead of their use."""

from __future__ import annotations

from tree_sitter import Node

from tilepipe.kernel import known
from tilepipe.kernel.calls import Calls
from tilepipe.kernel.effects import Load
from tilepipe.kernel.names import TYPES, callee, operator_of
from tilepipe.source.parse import span


class Loads:
    """Finds the maximal expressions that read global memory; `walker` resolves names."""

    def __init__(self, walker: Calls) -> None:
        self.walker = walker

    def below(self, node: Node) -> list[Load]:
        """The maximal expressions below `node` that read global memory."""
        if node.type in TYPES or node.type in ("gnu_asm_expression",):
            return []
        if node.type == "assignment_expression":
            right, left = node.child_by_field_name("right"), node.child_by_field_name("left")
            return [
                load
                for part in (right, left)
                if part is not None
                for load in self._below_place(part, part is left)
            ]
        if node.type == "call_expression" and self.walker.inlined(node) is not None:
            return []
        probe = self.walker.effects_of(node)
        if not probe.global_reads():
            return []
        if self._is_whole_load(node):
            bases = tuple(dict.fromkeys(a.base for a in probe.global_reads() if a.base is not None))
            nested = len(probe.global_reads()) > 1
            return [Load(span(node), bases, node.type != "conditional_expression", nested)]
        return [load for child in node.named_children for load in self.below(child)]

    def _below_place(self, node: Node, is_place: bool) -> list[Load]:
        if not is_place:
            return self.below(node)
        if node.type == "call_expression":
            return []
        return [load for child in node.named_children for load in self.below(child)]

    def _is_whole_load(self, node: Node) -> bool:
        if node.type in ("conditional_expression", "subscript_expression", "field_expression"):
            return node.type != "field_expression" or not self._is_vector_member(node)
        if node.type == "pointer_expression":
            return operator_of(node) == "*"
        if node.type == "binary_expression":
            return operator_of(node) in ("&&", "||")
        if node.type == "identifier":
            return True
        if node.type == "call_expression":
            name = callee(node)
            return name in known.READS or self.walker.macro(name) is not None
        return False

    def _is_vector_member(self, node: Node) -> bool:
        """`(whole load).x`: the load is the argument, the member a piece of its value."""
        return operator_of(node) == "."
