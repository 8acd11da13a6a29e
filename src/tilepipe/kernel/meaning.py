"""What a name of a file means at two places: whether text may move from one to the other, or be asked about there.

Names of functions are those of `binding.py`. Here are the rest: macros that change between two places of the file, and
names of namespaces.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from tree_sitter import Node

from tilepipe.kernel.binding import (
    Binder,
    Introduction,
    function_name,
    introduced,
    namespaces,
    opened_by,
    signature,
)
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.macros import all_macros, certain

Scope = tuple[str, ...]
_WORD = re.compile(r"[A-Za-z_]\w*")
_MEMBER = re.compile(r"(\.|->)\s*\Z")
_EVENT = re.compile(
    r"^[ \t]*#[ \t]*(?:(?:define|undef)[ \t]+(\w+)|(include)\b)|\bpop_macro\s*\(\s*\\?\"(\w+)", re.M
)
_CONTAINERS = ("translation_unit", "namespace_definition", "declaration_list", "linkage_specification")
_FUNCTIONS = ("function_definition", "lambda_expression")


@lru_cache(maxsize=8)
def meanings(file: CudaFile) -> Meanings:
    """The meanings of a file's names, worked out once."""
    return Meanings(file)


class Meanings:
    """Names of one file at its places. Offsets are bytes of the file."""

    def __init__(self, file: CudaFile) -> None:
        self.file = file
        self.root = file.tree.root
        self._binder = Binder(file.macros)
        self._directed: dict[Node, frozenset[str]] = {}
        self._bodies: dict[str, set[str]] = defaultdict(set)
        self._headers = [{m.name for m in all_macros(root)} for root in file.header_roots]
        header_macros = frozenset[str]().union(*self._headers)
        self._includes: set[int] = set()
        macros = [macro for root in (*file.header_roots, self.root) for macro in all_macros(root)]
        names = {macro.name for macro in macros}
        for macro in macros:
            words = {
                w
                for w in _WORD.finditer(macro.body)
                if w.group() in names or not _MEMBER.search(macro.body[: w.start()])
            }
            self._bodies[macro.name] |= {w.group() for w in words}
        self._events: dict[str, list[int]] = defaultdict(list)
        text = file.source.text
        for event in _EVENT.finditer(text):
            at = len(text[: event.start()].encode())
            self._includes |= {at} if event.group(2) else set()
            for name in header_macros if event.group(2) else (event.group(1) or event.group(3),):
                self._events[name].append(at)
        # By scope and name: where it is declared, and with what parameters if it is a function.
        self._declared: dict[Scope, dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
        self._in_headers = [
            [(event.group(1) or event.group(3), event.start()) for event in _EVENT.finditer(tree.source.text)]
            for tree in file.header_trees
        ]
        for root in (*file.header_roots, self.root):
            self._gather(root, root is self.root)
        self._open_directives()

    # -- macros --------------------------------------------------------------------------------------------------

    def with_macros(self, words: Iterable[str]) -> set[str]:
        """The words, with those of the macros that they may name."""
        found: set[str] = set()
        work = list(words)
        while work:
            word = work.pop()
            if word not in found:
                found.add(word)
                work += self._bodies.get(word, ())
        return found

    def macro_between(self, words: Iterable[str], one: int, other: int) -> str | None:
        """A macro that the words may name and that is defined, or no longer, between two places."""
        first, last = min(one, other), max(one, other)
        changed = (
            w for w in self.with_macros(words) if any(first < at < last for at in self._events.get(w, ()))
        )
        return min(changed, default=None)

    def sure(self, name: str, at: int | None = None) -> bool:
        """Whether a macro has the one text that is known for it, at an offset of the file or wherever it is used."""
        own = [e for e in self._events.get(name, ()) if e not in self._includes]
        if own:
            defined = certain(self.root).get(name)
            known = (
                len(own) == 1 and defined is not None and not any(name in names for names in self._headers)
            )
            return known and (at is None or (defined is not None and defined < at))
        return sum(name in names for names in self._headers) == 1 and any(
            name in certain(root) for root in self.file.header_roots
        )

    def as_in_header(self, name: str, header: int, at: int, declared: bool) -> bool:
        """Whether a name that a header mentions at an offset is the same macro, or none, in the file too, below its
        includes. `declared`: something else of that name is known where it is mentioned."""
        own = [e for e in self._events.get(name, ()) if e not in self._includes]
        theirs = [(n, e) for n, events in enumerate(self._in_headers) for word, e in events if word == name]
        if own and not theirs:
            return len(own) == 1 and certain(self.root).get(name) == own[0] < min(self._includes, default=-1)
        if not theirs:
            return True
        before = theirs[0][0] == header and theirs[0][1] < at
        return not own and len(theirs) == 1 and (before or not declared)

    # -- namespaces ----------------------------------------------------------------------------------------------

    def _gather(self, root: Node, own: bool) -> None:
        stack: list[tuple[Node, Scope]] = [(root, ())]
        while stack:
            node, scope = stack.pop()
            if node.type in _CONTAINERS or node.type.startswith("preproc_"):
                stack.extend((c, (*scope, *opened_by(node))) for c in node.named_children)
                continue
            inner = node.named_children[-1] if node.type == "template_declaration" else node
            if node.type == "namespace_alias_definition" or inner.type != "function_definition":
                names = [name for name, _ in introduced(inner, self.file.macros)]
            else:
                names = [n for n in [function_name(inner)] if n]
            for name in names:
                entry = (node.start_byte if own else -1, signature(inner))
                self._declared[scope][name].append(entry)

    def _open_directives(self) -> None:
        """`using namespace q` at namespace scope: the names of q count as those of the scope."""
        for scope in list(self._declared):
            for name in list(self._declared[scope]):
                if name.startswith("namespace "):
                    for opened in self.of_namespace(name.split()[-1]):
                        self._declared[scope].setdefault(opened, [])

    def of_namespace(self, last: str) -> set[str]:
        """Every name of the namespaces whose last name it is."""
        return {n for scope, names in self._declared.items() if scope and scope[-1] == last for n in names}

    def owner(self, name: str, scope: Scope) -> Scope | None:
        """The innermost namespace around a scope that declares a name, None where no file does."""
        for depth in range(len(scope), -1, -1):
            if name in self._declared.get(scope[:depth], {}):
                return scope[:depth]
        return None

    def overloaded_between(self, name: str, scope: Scope, first: int, last: int) -> bool:
        """Whether a function of that name joins others of its scope between two places."""
        entries = self._declared.get(scope, {}).get(name, [])
        before = {kinds for at, kinds in entries if at < first}
        return any(first < at < last and kinds not in before for at, kinds in entries if kinds)

    def only_one(self, name: str, scope: Scope) -> bool:
        """Whether a name that is declared in a scope is not overloaded there and in no namespace around it."""
        kinds = {kinds for _, kinds in self._declared[scope][name]}
        return len(kinds) == 1 and not any(
            name in self._declared.get(scope[:n], {}) for n in range(len(scope))
        )

    # -- all of it -----------------------------------------------------------------------------------------------

    def bound(self, name: str, at: Node) -> Introduction | None:
        """What introduces a name within the function around a node."""
        return self._binder.bound(name, at)

    def same(self, words: Iterable[str], here: Node, there: Node) -> bool:
        """Whether names mean the same at two nodes of the file, and so what the macros say that they may be."""
        return all(self.same_name(name, here, there) for name in self.with_macros(words))

    def same_name(self, name: str, here: Node, there: Node) -> bool:
        """Whether a name means the same at two nodes of the file, whatever a macro of that name says."""
        first, last = sorted((here.start_byte, there.start_byte))
        if any(first < at < last for at in self._events.get(name, ())):
            return False
        bound = self.bound(name, here)
        if bound != self.bound(name, there):
            return False
        if bound is not None:
            return True
        if self.function_around(here) != self.function_around(there):
            owner = self.owner(name, namespaces(here))
            if owner != self.owner(name, namespaces(there)):
                return False
            if owner is not None and self.overloaded_between(name, owner, first, last):
                return False
        directives = [self._directives(node) for node in (here, there)]
        return directives[0] == directives[1] or not any(name in names for names in directives)

    def _directives(self, at: Node) -> frozenset[str]:
        """The names that `using namespace` within the function makes visible at a node, worked out once."""
        if at not in self._directed:
            self._directed[at] = frozenset(self._directives_at(at))
        return self._directed[at]

    def _directives_at(self, at: Node) -> set[str]:
        found: set[str] = set()
        node: Node | None = at
        while node is not None and node.type not in _FUNCTIONS:
            for child in node.named_children if node.type == "compound_statement" else ():
                if child.type == "using_declaration" and child.start_byte <= at.start_byte:
                    for name, _ in introduced(child, self.file.macros):
                        found |= self.of_namespace(name.split()[-1]) if " " in name else set()
            node = node.parent
        return found

    def function_around(self, at: Node) -> Node | None:
        """The function definition around a node."""
        node: Node | None = at
        while node is not None and node.type != "function_definition":
            node = node.parent
        return node
