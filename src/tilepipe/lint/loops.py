"""Loops: those that synchronise are walked turn by turn, others once with their counters at their whole range."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from tree_sitter import Node

from tilepipe.lint.calls import Calls
from tilepipe.lint.events import LoopInfo, NotUnderstoodError, Turn
from tilepipe.lint.nodes import Memory, argument_of, operator_of, text_of
from tilepipe.lint.state import StopWalk
from tilepipe.lint.values import NO_TAGS, THREAD, Cell, Num, Pointer, Tags, unknown
from tilepipe.source import Span

_SHORT = 8  # turns of a copying loop that are walked one by one
_MAX_TURNS = 512


class Break(Exception):
    """A `break` of the kernel."""


class Continue(Exception):
    """A `continue` of the kernel."""


class Loops(Calls):
    """Walks loops."""

    @abstractmethod
    def run(self, node: Node) -> None:
        """Walk one statement."""

    @abstractmethod
    def condition(self, node: Node | None) -> Num:
        """The value of a condition."""

    def loop(self, node: Node) -> None:
        """Walk a loop."""
        text = text_of(node)
        initializer = node.child_by_field_name("initializer")
        if initializer is not None:
            self.run(initializer)
        if self.program.synchronises(text) or (self.program.copies(text) and self._is_short(node)):
            self._turn_by_turn(node)
        else:
            self._summarised(node)

    def _is_short(self, node: Node) -> bool:
        """Whether a loop's counter and bound are known and near."""
        bounds = self._bounds(node)
        if bounds is None:
            return False
        cell, start, end, by = bounds
        del cell
        if start.known is None or end.known is None:
            return False
        return abs(end.known - start.known) <= _SHORT * max(by, 1)

    def _bounds(self, node: Node) -> tuple[Cell, Num, Num, int] | None:
        """Counter, start, exclusive end (as it is compared) and step of a counting `for`."""
        condition, update = node.child_by_field_name("condition"), node.child_by_field_name("update")
        if node.type != "for_statement" or condition is None or condition.type != "binary_expression":
            return None
        left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
        cell = self.lookup(text_of(left)) if left is not None and left.type == "identifier" else None
        if cell is None or right is None or not isinstance(cell.value, Num):
            return None
        by = 1
        if update is not None and update.type == "assignment_expression":
            step_node = update.child_by_field_name("right")
            by = self.number(step_node).known or 1 if step_node is not None else 1
        return cell, cell.value, self.number(right), abs(by)

    def _turn_by_turn(self, node: Node) -> None:
        condition, update = node.child_by_field_name("condition"), node.child_by_field_name("update")
        at, turns, tags = self.span(node), 0, NO_TAGS
        undecided = 0
        gaps: list[int] = []
        while True:
            if node.type != "do_statement" or turns:
                if len(gaps) < 2:
                    gaps += self._gap(condition)
                test = self.condition(condition)
                tags |= test.tags
                if test.truth is False:
                    break
                if test.truth is None:
                    if THREAD in test.tags:
                        raise NotUnderstoodError(
                            "a loop whose number of turns differs between threads synchronises"
                        )
                    self.trace.forced = True
                    undecided += 1
                    if undecided > self.launch.forced_turns:
                        break
            if turns > _MAX_TURNS:
                raise NotUnderstoodError("a loop has too many turns")
            if not self._turn(node, at, turns):
                turns += 1
                break
            turns += 1
            if update is not None:
                self.value(update)
            self._note_loop(at, tags, turns, gaps)
            sized = any(tag.startswith("parameter") for tag in tags)
            if sized and self.launch.max_turns is not None and turns > self.launch.max_turns:
                raise StopWalk
        self._note_loop(at, tags, turns, gaps)

    def _note_loop(self, at: Span, tags: Tags, turns: int, gaps: list[int]) -> None:
        before = self.trace.loops.get(at)
        more = turns if before is None else max(turns, before.turns)
        first = before.gaps if before is not None and len(before.gaps) > 1 else tuple(gaps)
        self.trace.loops[at] = LoopInfo(at, tags | (before.tags if before else NO_TAGS), more, first)

    def _gap(self, condition: Node | None) -> list[int]:
        """How far the two sides of a comparison are apart."""
        while condition is not None and condition.type in ("parenthesized_expression", "condition_clause"):
            condition = condition.named_children[-1] if condition.named_children else None
        if condition is None or condition.type != "binary_expression":
            return []
        sides = [condition.child_by_field_name(name) for name in ("left", "right")]
        values = [self.number(side).known for side in sides if side is not None]
        if len(values) != 2 or values[0] is None or values[1] is None:
            return []
        return [abs(values[1] - values[0])]

    def _turn(self, node: Node, at: Span, number: int) -> bool:
        """One turn; False where it left the loop."""
        self.turns.append(Turn(at, number))
        try:
            body = node.child_by_field_name("body")
            if body is not None:
                self.run(body)
        except Continue:
            return True
        except Break:
            return False
        finally:
            self.turns.pop()
        return True

    def _summarised(self, node: Node) -> None:
        """A loop without synchronisation: once, with every variable that it changes at any value it may have."""
        if (
            node.type != "do_statement"
            and self.condition(node.child_by_field_name("condition")).truth is False
        ):
            return
        bounds = self._bounds(node)
        condition = node.child_by_field_name("condition")
        journal: list[tuple[Cell, Any]] = []
        self._forget(node)
        tags: Tags = NO_TAGS
        if bounds is not None and condition is not None:
            tags = bounds[2].tags | bounds[1].tags
            self.assign(bounds[0], _counter_range(operator_of(condition), bounds[1], bounds[2]))
        self.journals.append(journal)
        self.summaries += 1
        self.work += not self.program.copies(text_of(node))
        try:
            body = node.child_by_field_name("body")
            with self.guarded(self.span(node), tags - {THREAD}, False):
                if body is not None:
                    self.run(body)
        except (Break, Continue):
            pass
        finally:
            self.summaries -= 1
            self.journals.pop()
            changed = {cell: cell.value for cell, _ in journal}
            if self.journals:
                self.journals[-1].extend(journal)
        for cell, value in changed.items():
            cell.value = _widened(value)
        self._forget(node)

    def _forget(self, node: Node) -> None:
        """Every variable that a loop assigns may hold any value of its kind."""
        for name in sorted(_assigned(node)):
            cell = self.lookup(name)
            if cell is not None and not isinstance(cell.value, Memory):
                self.assign(cell, _widened(cell.value))


def _counter_range(operator: str, start: Num, end: Num) -> Num:
    tags = start.tags | end.tags
    if operator in ("<", "!="):
        return Num(start.lo, max(end.hi - 1, start.lo), tags)
    if operator == "<=":
        return Num(start.lo, max(end.hi, start.lo), tags)
    if operator in (">", ">="):
        return Num(min(end.lo, start.hi), start.hi, tags)
    return unknown(tags)


def _widened(value: Any) -> Any:
    if isinstance(value, Num):
        return unknown(value.tags)
    if isinstance(value, Pointer):
        return replace(value, offset=unknown(value.offset.tags), inner=None)
    return value


def _assigned(node: Node) -> set[str]:
    """Names that are assigned or counted somewhere in a loop."""
    found: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type in ("assignment_expression", "update_expression"):
            left = current.child_by_field_name("left") or argument_of(current)
            if left.type == "identifier":
                found.add(text_of(left))
        stack.extend(current.named_children)
    return found
