"""The text of a helper that the load phase calls takes the place of its call: its names must mean the same there.

    constexpr int LIMIT = 1 << 20;
    __device__ void fill(float* s, …) { … k0 + i < LIMIT … }      // the file's LIMIT
    __global__ void f(…) { const int LIMIT = 2048; … fill(s, …); … }

A name is looked up anew in the kernel: its locals, parameters and types, the macros that hold there, and the names of
its namespace come first. And so it is for a lambda whose call stands deeper than itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel.binding import names_within, namespaces, uses
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.flow import Item
from tilepipe.kernel.loader import Split
from tilepipe.kernel.meaning import Meanings, meanings
from tilepipe.kernel.statements import Callee
from tilepipe.kernel.tileloop import TileLoop

_WORD = re.compile(r"[A-Za-z_]\w*")
_TAKEN_OVER = ("using_declaration", "alias_declaration", "type_definition", "expression_statement")
_OURS = re.compile(r"tp_\w*|TP_STAGES")


def changed_meanings(file: CudaFile, kernel: KernelText, parts: Split) -> Refusal | None:
    """TP021: a name in the text of the load phase's helpers that means something else in the place of the call."""
    known = meanings(file)
    for item in sorted(parts.loader, key=lambda i: i.order):
        call = item.statement.call
        if call is None:
            continue
        found = _Splice(file, known, kernel, item, call).changed()
        if found is not None:
            what, remedy = found
            return refusal(
                "TP021",
                f"the load phase calls `{call.name or 'a lambda'}`, {what}",
                file.source.place(item.statement.span),
                "the loader needs its text in place of the call",
                remedy,
            )
    return None


def spliced_words(file: CudaFile, parts: Split) -> set[str]:
    """The words of all helpers whose text takes the place of a call."""
    texts = [
        file.source.slice(at)
        for i in parts.loader
        if i.statement.call is not None
        for at in (i.statement.call.body, i.statement.call.parameters)
    ]
    return {w for text in texts for w in _WORD.findall(text)}


def lost_names(file: CudaFile, tile: TileLoop, parts: Split) -> Refusal | None:
    """TP021: a name of the load phase that the tile loop introduces in a form that the loader does not take over."""
    known = meanings(file)
    declared = {s.key[0] for i in tile.flow.items for s in i.statement.declares} | {
        s.key[0] for s in tile.loop.declares
    }
    for item in sorted(parts.loader, key=lambda i: i.order):
        at, statement = item.statement.span, item.statement
        if statement.context:
            continue
        own = (statement.init, statement.condition, statement.update) if statement.children else (at,)
        own = (at,) if statement.kind == "call" else own
        roots = [file.tree.root.named_descendant_for_byte_range(p.start, p.end) for p in own if p is not None]
        for name, node in (use for root in roots if root is not None for use in uses(root)):
            found = known.bound(name, node)
            if found is None or found[0] in declared or found[1] in _TAKEN_OVER:
                continue
            if tile.loop.span.start <= found[0] < at.start:
                return refusal(
                    "TP021",
                    f"the load phase uses `{name}`, which the tile loop declares in a form that is not taken over",
                    file.source.place(at),
                    "the loader stands outside of the loop",
                    f"declare `{name}` before the loop",
                )
    return None


class _Splice:
    """One call whose place the text of a helper takes."""

    def __init__(self, file: CudaFile, known: Meanings, kernel: KernelText, item: Item, call: Callee) -> None:
        self.file = file
        self.known = known
        self.item = item
        self.call = call
        self.body = self._node(call.body.start, call.body.end)
        self.kernel = self._node(kernel.span.start, kernel.span.end)
        self.callers = [
            self._whole(self._node(p.call.body.start, p.call.body.end))
            for p in item.parents
            if p.call is not None
        ]

    def _node(self, start: int, end: int) -> Node:
        node = self.file.tree.root.named_descendant_for_byte_range(start, end)
        assert node is not None
        return node

    def _whole(self, body: Node) -> Node:
        """The function or lambda of a body, with its template header."""
        node = body.parent if body.parent is not None else body
        outer = node.parent
        return outer if outer is not None and outer.type == "template_declaration" else node

    def changed(self) -> tuple[str, str] | None:
        """What means something else, and the remedy."""
        name = self.call.name
        helper = self._whole(self.body)
        words = {word for root in self._roots(helper) for word, _ in uses(root)}
        ours = next((w for w in sorted(words) if _OURS.fullmatch(w)), None)
        if ours is not None:
            return f"whose text has a name `{ours}`, which a pipelined kernel may use", "give it another name"
        at = self.item.statement.span.start
        macro = self.known.macro_between(words, helper.start_byte, at)
        if macro is not None:
            return (
                f"and between the two the macro `{macro}` changes",
                "give the definitions of the macro different names",
            )
        return self._in_lambda(helper) if self.call.is_lambda else self._in_function(helper, name)

    def _roots(self, helper: Node) -> Iterator[Node]:
        """The parts of a helper that are spliced: parameters, body, template parameters."""
        function = self.body.parent if self.body.parent is not None else helper
        listed = helper.child_by_field_name("parameters") if helper.type == "template_declaration" else None
        declarator = function.child_by_field_name("declarator")
        while declarator is not None and declarator.type not in ("function_declarator", "lambda_declarator"):
            declarator = declarator.child_by_field_name("declarator") or next(
                (c for c in declarator.named_children if c.type.endswith("declarator")), None
            )
        parameters = declarator.child_by_field_name("parameters") if declarator is not None else None
        return (part for part in (listed, parameters, self.body) if part is not None)

    def _free(self, helper: Node) -> dict[str, Node]:
        """The names of the helper, those in its macros included, that nothing in it introduces."""
        free: dict[str, Node] = {}
        for root in self._roots(helper):
            for word, node in uses(root):
                for name in self.known.with_macros([word]):
                    found = self.known.bound(name, node)
                    if found is None or not helper.start_byte <= found[0] < helper.end_byte:
                        free.setdefault(name, node)
        return free

    def _in_function(self, helper: Node, name: str) -> tuple[str, str] | None:
        free = self._free(helper)
        hidden: set[str] = set()
        for caller in (self.kernel, *self.callers):
            own = names_within(caller, self.file.macros)
            hidden |= own
            for opened in own:
                if opened.startswith("namespace "):
                    hidden |= self.known.of_namespace(opened.split()[-1])
        taken = next((n for n in sorted(free) if n in hidden), None)
        if taken is not None:
            return (
                f"whose `{taken}` is another one than the `{taken}` in the place of the call",
                f"rename `{taken}` in the kernel, or pass it to `{name}`",
            )
        scope, there = namespaces(helper), namespaces(self.kernel)
        for word in sorted(free):
            owner = self.known.owner(word, scope)
            if owner is not None and owner != self.known.owner(word, there):
                whole = "::".join((*owner, word)) if owner else f"::{word}"
                return (
                    f"whose `{word}` is `{whole}`, and is not in the place of the call",
                    f"write `{whole}` in `{name}`",
                )
            if owner is not None and self.known.overloaded_between(
                word, owner, helper.start_byte, self.kernel.start_byte
            ):
                return (
                    f"and between the two another `{word}` is declared, which its text would call too",
                    f"declare every `{word}` before `{name}`, or give them different names",
                )
        return None

    def _in_lambda(self, helper: Node) -> tuple[str, str] | None:
        """A lambda is moved from where it stands to its call: what is introduced in between may hide its names."""
        at = self.item.statement.span
        place = self._node(at.start, at.end)
        for name, node in sorted(self._free(helper).items()):
            if self.known.bound(name, node) != self.known.bound(name, place):
                return (
                    f"whose `{name}` is another one than the `{name}` in the place of the call",
                    f"rename one `{name}`",
                )
        return None
