"""Edits that lift findings: statements are moved, inserted, or get another number; nothing is rephrased."""

from __future__ import annotations

import re
from dataclasses import replace

from tree_sitter import Node

from tilepipe.lint.finding import Fix, Found
from tilepipe.lint.machine import Played
from tilepipe.lint.runs import Runs
from tilepipe.source import Edit, SourceFile, Span

_BARRIER = "__syncthreads();"
_DRAINS = {
    "__pipeline": "__pipeline_wait_prior(0);",
    "ptx": 'asm volatile("cp.async.wait_all;" ::: "memory");',
}
_NUMBER = re.compile(r"(?P<head>[\s\S]*?[(<]\s*)(?P<count>[^()<>]+?)(?P<tail>\s*[)>]\s*(?:\(\s*\))?\s*)$")


class Fixes:
    """Makes the edits for findings of one kernel."""

    def __init__(self, source: SourceFile, root: Node, runs: Runs) -> None:
        self.source = source
        self.root = root
        self.runs = runs
        self.played: Played = runs.steady

    def attach(self, found: Found) -> Found:
        """`found` with its fix, if it has one in this file."""
        makers = {
            "TP500": self._commit_early,
            "TP501": self._commit_early,
            "TP502": self._other_count,
            "TP504": self._barrier_after_wait,
            "TP505": self._barrier_after_wait,
            "TP506": self._barrier_before,
            "TP509": self._drain,
            "TP510": self._through_l1,
            "TP514": self._other_count,
            "TP519": self._commit_always,
        }
        maker = makers.get(found.code)
        edits = maker(found) if maker is not None and found.file is None else None
        return found if not edits else replace(found, fix=Fix(tuple(edits)))

    # -- places --------------------------------------------------------------------------------------------

    def _statement(self, at: Span) -> Node | None:
        """The innermost statement of a block that holds `at`."""
        node = self.root.descendant_for_byte_range(at.start, max(at.start, at.end - 1))
        while node is not None and not (node.parent is not None and node.parent.type == "compound_statement"):
            node = node.parent
        return node

    def _indent(self, offset: int) -> str:
        data = self.source.data
        start = data.rfind(b"\n", 0, offset) + 1
        line = data[start:offset].decode()
        return line if not line.strip() else line[: len(line) - len(line.lstrip())]

    def _after(self, node: Node, text: str) -> Edit:
        return Edit(Span(node.end_byte, node.end_byte), f"\n{self._indent(node.start_byte)}{text}")

    def _removed(self, node: Node) -> Edit:
        """The statement with its line, where it stands alone on it."""
        data = self.source.data
        start, end = node.start_byte, node.end_byte
        line_start = data.rfind(b"\n", 0, start) + 1
        line_end = data.find(b"\n", end)
        line_end = len(data) if line_end < 0 else line_end + 1
        if not data[line_start:start].strip() and not data[end:line_end].strip():
            start, end = line_start, line_end
        return Edit(Span(start, end), "")

    def _text(self, node: Node) -> str:
        return self.source.slice(Span(node.start_byte, node.end_byte))

    # -- makers --------------------------------------------------------------------------------------------

    def _commit_early(self, found: Found) -> list[Edit] | None:
        """Move the commit that follows the copies to directly behind them."""
        events = self.played.trace.events
        wrong = [p.fill for p in self.played.problems if p.kind == "uncommitted"]
        for fill in self.played.tiles(found.array):
            if not fill.events[0].turns or fill.committed is None:
                continue
            if events[fill.committed].site.span != found.span and fill not in wrong:
                continue
            commit = self._statement(events[fill.committed].site.span)
            last = self._statement(fill.events[-1].site.span)
            if commit is None or last is None or commit.parent is None:
                return None
            before = [
                c
                for c in commit.parent.named_children
                if c.start_byte <= last.start_byte and last.end_byte <= c.end_byte
            ]
            if not before or before[0].end_byte > commit.start_byte:
                return None
            return [self._after(before[0], self._text(commit)), self._removed(commit)]
        return None

    def _commit_always(self, found: Found) -> list[Edit] | None:
        """Move a commit out of the branch that it stands in."""
        commit = self._statement(found.span)
        block = commit.parent if commit is not None else None
        branch = block.parent if block is not None else None
        if (
            commit is None
            or branch is None
            or branch.type != "if_statement"
            or branch.child_by_field_name("alternative")
        ):
            return None
        return [self._after(branch, self._text(commit)), self._removed(commit)]

    def _other_count(self, found: Found) -> list[Edit] | None:
        """Give the wait the number that the finding names."""
        wanted = re.search(r"all but (\d+)", found.help)
        text = self.source.slice(found.span)
        spelled = _NUMBER.match(text.rstrip(";"))
        if wanted is None or spelled is None:
            return None
        count = spelled["count"].strip()
        have = next(
            (e.count for e in self.played.trace.events if e.kind == "wait" and e.site.span == found.span),
            None,
        )
        minus = re.fullmatch(r"(.*-\s*)(\d+)", count)
        if count.isdigit():
            other = wanted[1]
        elif minus and have is not None and (new := int(minus[2]) + have - int(wanted[1])) >= 0:
            other = f"{minus[1]}{new}"
        else:
            return None
        start = found.span.start + len(spelled["head"].encode())
        return [Edit(Span(start, start + len(count.encode())), other)]

    def _barrier_after_wait(self, found: Found) -> list[Edit] | None:
        """A barrier behind the wait that completes the tile."""
        problems = [p for p in self.played.problems if p.kind in ("not published", "early barrier")]
        problem = next(
            (p for p in problems if p.event.region and p.event.region.array.name == found.array), None
        )
        if problem is None or problem.fill is None or problem.fill.done is None:
            return None
        event = self.played.trace.events[problem.fill.done]
        statement = self._statement(event.site.span)
        if statement is None or event.conditional or event.kind != "wait":
            return None
        return [self._after(statement, _BARRIER)]

    def _barrier_before(self, found: Found) -> list[Edit] | None:
        """A barrier before the statement of the tile loop's body that refills the stage."""
        problem = next(
            (p for p in self.played.problems if p.kind == "refill" and p.event.site.span == found.span), None
        )
        if problem is None or not problem.event.turns:
            return None
        loop = problem.event.turns[0].loop
        node = self._statement(found.span)
        while node is not None and node.parent is not None:
            holder = node.parent.parent
            if (
                node.parent.type == "compound_statement"
                and holder is not None
                and holder.start_byte == loop.start
            ):
                indent = self._indent(node.start_byte)
                return [Edit(Span(node.start_byte, node.start_byte), f"{_BARRIER}\n{indent}")]
            node = node.parent
        return None

    def _drain(self, found: Found) -> list[Edit] | None:
        """A full wait behind the tile loop."""
        waits = [e for e in self.played.trace.events if e.kind == "wait"]
        copies = [e for e in self.played.trace.events if e.kind == "copy" and e.turns]
        drain = _DRAINS.get((waits or copies)[0].site.api) if waits or copies else None
        if drain is None or not copies:
            return None
        loop = copies[-1].turns[0].loop
        node = self._statement(loop)
        return [self._after(node, drain)] if node is not None else None

    def _through_l1(self, found: Found) -> list[Edit] | None:
        """`.ca` in place of `.cg`, where the instruction is spelled at the finding."""
        text = self.source.slice(found.span)
        at = text.find("cp.async.cg.")
        if at < 0:
            return None
        start = found.span.start + len(text[:at].encode()) + len("cp.async.")
        return [Edit(Span(start, start + 2), "ca")]
