"""The file and its local headers as one program: helpers, macros, constants, and which names synchronise."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tree_sitter import Node

from tilepipe.kernel.file import CudaFile
from tilepipe.source import SourceFile

_WORD = re.compile(r"[A-Za-z_]\w*")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_LAMBDA = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*\[[^\]]*\]\s*(?:\(|\{)")
_SYNC_TEXT = re.compile(r"commit_group|wait_group|wait_all|\bbar\.sync|barrier\.sync|mbarrier")
_COPY_TEXT = re.compile(r"cp\.async")
_SYNC_WORDS = frozenset(
    [
        "__syncthreads",
        "__syncthreads_count",
        "__syncthreads_and",
        "__syncthreads_or",
        "__pipeline_commit",
        "__pipeline_wait_prior",
        "producer_commit",
        "producer_acquire",
        "consumer_wait",
        "consumer_release",
        "sync",
        "wait",
        "wait_prior",
        "arrive_and_wait",
        "pipeline_consumer_wait_prior",
        "quit",
    ]
)
_COPY_WORDS = frozenset({"__pipeline_memcpy_async", "memcpy_async"})
_MAX_HEADERS = 16


@dataclass(frozen=True)
class Template:
    """A template's parameters: name, default (None without one), and whether it is a type."""

    parameters: tuple[tuple[str, Node | None, bool], ...]


@dataclass
class Program:
    """What can be named. `files` begins with the linted file; headers follow."""

    files: list[CudaFile]
    defines: dict[str, str] = field(default_factory=dict)
    seen: dict[str, tuple[bool, bool]] = field(default_factory=dict, repr=False)

    @staticmethod
    def open(file: CudaFile, include_dirs: tuple[str, ...] = (), defines: tuple[str, ...] = ()) -> Program:
        """The file with the quoted includes that are found beside it or in `include_dirs`."""
        files, seen = [file], {str(Path(file.source.name).resolve())}
        for current in files:
            for name in _INCLUDE.findall(current.source.text):
                folders = [str(Path(current.source.name).parent), *include_dirs]
                path = next((p for f in folders if (p := Path(f) / name).is_file()), None)
                if path is None or str(path.resolve()) in seen or len(files) > _MAX_HEADERS:
                    continue
                seen.add(str(path.resolve()))
                try:
                    files.append(CudaFile(SourceFile(str(path), path.read_text(encoding="utf-8-sig"))))
                except (OSError, UnicodeDecodeError):
                    continue
        pairs = (d.partition("=") for d in defines)
        return Program(files, {name: value or "1" for name, _, value in pairs})

    @cached_property
    def functions(self) -> dict[str, tuple[Node, Node, str | None]]:
        """Name → (definition, template header or definition, header name) of the first definition."""
        found: dict[str, tuple[Node, Node, str | None]] = {}
        for number, file in enumerate(self.files):
            where = file.source.name if number else None
            for node, outer in _definitions(file.tree.root):
                name = _function_name(node)
                if name is not None:
                    found.setdefault(name, (node, outer, where))
        return found

    @cached_property
    def overloads(self) -> dict[str, list[tuple[Node, Node, str | None]]]:
        """Every definition by name, in order."""
        found: dict[str, list[tuple[Node, Node, str | None]]] = {}
        for number, file in enumerate(self.files):
            where = file.source.name if number else None
            for node, outer in _definitions(file.tree.root):
                name = _function_name(node)
                if name is not None:
                    found.setdefault(name, []).append((node, outer, where))
        return found

    @cached_property
    def macros(self) -> dict[str, tuple[tuple[str, ...] | None, str]]:
        """Macro → (parameters, body); those of the file win over those of its headers."""
        found: dict[str, tuple[tuple[str, ...] | None, str]] = {
            name: (None, value) for name, value in self.defines.items()
        }
        for file in self.files:
            for name, macro in file.macros.items():
                found.setdefault(name, (macro.parameters, macro.body))
        return found

    @cached_property
    def constants(self) -> dict[str, Node]:
        """Constants and enumerators at file scope or in a host function: name → the expression."""
        found: dict[str, Node] = {}
        for file in self.files:
            for node in _all(file.tree.root):
                if node.type == "enumerator":
                    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                    if name is not None and name.text and value is not None:
                        found.setdefault(name.text.decode(), value)
                elif node.type == "declaration" and _is_constant(node) and not _in_kernel(node):
                    for name_text, value in _initialised(node):
                        found.setdefault(name_text, value)
        return found

    @cached_property
    def types(self) -> dict[str, str]:
        """Aliases: `typedef T name;` and `using name = T;`."""
        found: dict[str, str] = {}
        for file in self.files:
            for node in _all(file.tree.root):
                if node.type == "type_definition":
                    type_node, name = node.child_by_field_name("type"), node.child_by_field_name("declarator")
                elif node.type == "alias_declaration":
                    type_node, name = node.child_by_field_name("type"), node.child_by_field_name("name")
                else:
                    continue
                if type_node is not None and name is not None and type_node.text and name.text:
                    found.setdefault(name.text.decode(), type_node.text.decode())
        return found

    @cached_property
    def _bodies(self) -> dict[str, str]:
        bodies: dict[str, str] = {name: body for name, (_, body) in self.macros.items()}
        for name, listed in self.overloads.items():
            bodies[name] = " ".join(_text(node.child_by_field_name("body")) for node, _, _ in listed)
        for file in self.files:
            for node in _all(file.tree.root):
                if node.type == "init_declarator":
                    value, name_node = (
                        node.child_by_field_name("value"),
                        node.child_by_field_name("declarator"),
                    )
                    if value is not None and value.type == "lambda_expression" and name_node is not None:
                        bodies[_text(name_node)] = _text(value)
        return bodies

    @cached_property
    def sync_names(self) -> frozenset[str]:
        """Names whose call synchronises, groups or waits, however deep."""
        return self._closure(_SYNC_WORDS, _SYNC_TEXT)

    @cached_property
    def copy_names(self) -> frozenset[str]:
        """Names whose call copies asynchronously, however deep."""
        return self._closure(_COPY_WORDS, _COPY_TEXT)

    def _closure(self, words: frozenset[str], pattern: re.Pattern[str]) -> frozenset[str]:
        found = set(words)
        bodies = {
            name: (set(_WORD.findall(body)), bool(pattern.search(body)))
            for name, body in self._bodies.items()
        }
        before = -1
        while len(found) != before:
            before = len(found)
            found |= {n for n, (used, direct) in bodies.items() if direct or used & found}
        return frozenset(found)

    def synchronises(self, text: str) -> bool:
        """Whether a piece of code commits, waits or stands at a barrier."""
        return self._does(text)[0]

    def copies(self, text: str) -> bool:
        """Whether a piece of code copies asynchronously."""
        return self._does(text)[1]

    def _does(self, text: str) -> tuple[bool, bool]:
        """Both answers, kept: loops ask for their bodies in every turn."""
        known = self.seen.get(text)
        if known is None:
            words = _WORD.findall(text)
            syncs = bool(_SYNC_TEXT.search(text)) or not self.sync_names.isdisjoint(words)
            known = syncs, bool(_COPY_TEXT.search(text)) or not self.copy_names.isdisjoint(words)
            self.seen[text] = known
        return known

    def instantiations(self, name: str) -> list[list[str]]:
        """Template argument lists with which `name` is launched or named in the files."""
        found = []
        for file in self.files:
            for match in re.finditer(rf"\b{re.escape(name)}\s*<(?!<)", file.source.text):
                listed = _balanced(file.source.text, match.end())
                if listed is not None:
                    found.append(listed)
        return found


def _balanced(text: str, at: int) -> list[str] | None:
    """The arguments of a template-id whose `<` ends at `at`."""
    parts: list[str] = []
    depth, start = 0, at
    for i in range(at, min(len(text), at + 400)):
        c = text[i]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == ">" and depth == 0:
            return [*parts, text[start:i].strip()]
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
        elif c in ";":
            return None
    return None


def _text(node: Node | None) -> str:
    return node.text.decode() if node is not None and node.text is not None else ""


def _all(root: Node) -> list[Node]:
    stack, out = [root], []
    while stack:
        node = stack.pop()
        out.append(node)
        stack.extend(reversed(node.named_children))
    return out


def _definitions(root: Node) -> list[tuple[Node, Node]]:
    found = []
    stack: list[tuple[Node, Node | None]] = [(root, None)]
    while stack:
        node, outer = stack.pop()
        if node.type == "function_definition":
            found.append((node, outer if outer is not None else node))
        elif node.type == "template_declaration":
            stack.extend((c, node) for c in reversed(node.named_children))
        elif node.type in (
            "translation_unit",
            "namespace_definition",
            "declaration_list",
            "linkage_specification",
        ) or (node.type.startswith("preproc_")):
            stack.extend((c, None) for c in reversed(node.named_children))
    return found


def _function_name(node: Node) -> str | None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator") or next(
            (c for c in declarator.named_children if c.type == "function_declarator"), None
        )
    return _text(declarator.child_by_field_name("declarator")) or None if declarator is not None else None


def _is_constant(node: Node) -> bool:
    return any(
        c.type in ("type_qualifier", "storage_class_specifier") and c.text in (b"const", b"constexpr")
        for c in node.children
    ) or _text(node.child_by_field_name("type")).startswith(("int", "unsigned", "size_t", "dim3"))


def _in_kernel(node: Node) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.type == "function_definition":
            head = _text(parent).split("{", 1)[0]
            return "__global__" in head or "__device__" in head
        parent = parent.parent
    return False


def _initialised(node: Node) -> list[tuple[str, Node]]:
    found = []
    for child in node.named_children:
        if child.type == "init_declarator":
            name, value = child.child_by_field_name("declarator"), child.child_by_field_name("value")
            if name is not None and name.type == "identifier" and value is not None:
                found.append((_text(name), value))
    return found
