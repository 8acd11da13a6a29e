"""A function's parameters as names of its caller: what its text needs to stand in place of a call.

    __device__ void body(const float* src, float* t, size_t n) { … }       …
                                                                           {
    body(a, s, m + 1);                                              →          size_t n = m + 1;
                                                                               …  // `src` is `a` and `t` is `s`

A parameter is another name of the variable that is passed, where both have one type and the function only reads it.
Any other parameter is declared, and so is what a template parameter stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tree_sitter import Node

from tilepipe.kernel import known
from tilepipe.kernel.binding import introduced, names_within, uses
from tilepipe.kernel.file import CudaFile
from tilepipe.kernel.meaning import meanings
from tilepipe.kernel.names import Function, arguments_of, callee
from tilepipe.kernel.statements import template_arguments
from tilepipe.source import Edit, Span
from tilepipe.source.parse import span

Why = tuple[str, str]  # what stands against it, and the edit that would lift it
_TOKEN = re.compile(r"[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*|\d\w*|\S")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SPECIFIERS = frozenset(("const", "constexpr", "static", "extern", "register", "inline", "__shared__"))
_CHANGES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")
_READS = (
    "binary_expression", "return_statement", "condition_clause", "subscript_argument_list", "template_argument_list",
    "array_declarator", "for_statement",
)  # fmt: skip
# What stands for the variable itself, or a part of it.
_SAME = (
    "parenthesized_expression", "field_expression", "initializer_list", "conditional_expression", "comma_expression",
)  # fmt: skip
_VALUES = ("identifier", "pointer_declarator", "array_declarator")


@dataclass(frozen=True)
class Bound:
    """Declarations to stand before a function's text, and the edits that make its names the caller's."""

    declared: tuple[str, ...]
    edits: tuple[Edit, ...]
    outside: dict[str, str]  # what a template parameter's name is called where the call stands


@dataclass(frozen=True)
class _Type:
    """A type without its specifiers: what it is, or what it points to where it is a pointer or an array. `fixed`: a
    variable of it does not change."""

    words: tuple[str, ...]
    pointer: bool = False
    array: bool = False
    reference: bool = False
    fixed: bool = False

    def same(self, other: _Type) -> bool:
        return (self.words, self.pointer) == (other.words, other.pointer)


def bound(file: CudaFile, call: Node, function: Function, last: bool) -> Bound | Why:
    """The parameters of the function of the file that `call` calls. `last`: nothing comes after the call."""
    return _Binding(file, call, function, last).bound()


class _Binding:
    def __init__(self, file: CudaFile, call: Node, function: Function, last: bool) -> None:
        self.file, self.call, self.function, self.last = file, call, function, last
        self.known = meanings(file)
        self.arguments = arguments_of(call)
        self.uses = list(uses(function.body))
        self.inner = names_within(function.body, file.macros)
        self.hidden = {name for word, _ in self.uses for name in self.known.with_macros([word]) - {word}}
        self.hidden |= {
            word
            for line in re.findall(r"#[^\n]*|_Pragma[^\n]*", self._text(function.body))
            for word in _WORD.findall(line)
        }

    def _text(self, node: Node) -> str:
        return self.file.source.slice(span(node))

    def bound(self) -> Bound | Why:
        if len(self.arguments) > len(self.function.parameters):
            return "which has other parameters than the call has arguments", "give it a list without `...`"
        texts = [self._text(a) for a in self.arguments]
        if any(_CHANGES.search(t) for t in texts):
            return "whose argument changes a variable", "change it in a statement of its own"
        template = self._template()
        if not isinstance(template, dict):
            return template
        renamed = {name for name, (_, argument) in template.items() if name != argument}
        given = (*texts, *(a for _, a in template.values()))
        words = self.known.with_macros(w for t in given for w in _WORD.findall(t))
        if crossed := words & renamed:
            return (
                f"and its template parameter `{min(crossed)}` has the name of something else in the call",
                "give the template parameters names of their own",
            )
        lines = [line for name, (line, argument) in template.items() if name != argument]
        edits: list[Edit] = []
        outside = {name: argument for name, (_, argument) in template.items()}
        problem = self._parameters(lines, edits, words, outside)
        return problem or Bound(tuple(lines), tuple(edits), outside)

    # -- template parameters -------------------------------------------------------------------------------------

    def _template(self) -> dict[str, tuple[str, str]] | Why:
        """Template parameters by name: the declaration that stands for each, and its argument."""
        found: dict[str, tuple[str, str]] = {}
        if any("..." in one or "<" in one for one in self.function.template):
            return "whose template parameters are lists or templates", "write the loop in the kernel itself"
        given, deduced = template_arguments(self.file.source, self.function, self.call)
        for declared, argument in given:
            *kind, name = declared.split()
            is_type = kind[-1:] in (["typename"], ["class"])
            line = (
                f"using {name} = {argument};"
                if is_type
                else f"constexpr {' '.join(kind)} {name} = {argument};"
            )
            found[name] = line, argument
        mentioned = {w for w, _ in self.uses} | self.hidden
        mentioned |= {w for p in self.function.parameters for w in _WORD.findall(self._text(p))}
        for name in deduced:
            if name not in mentioned:
                continue
            deduced_as = self._deduced(name)
            if deduced_as is None:
                return (
                    f"whose template argument `{name}` is deduced",
                    f"say the argument in the call: `{self.function.name}<…>(…)`",
                )
            found[name] = f"using {name} = {deduced_as};", deduced_as
        return found

    def _deduced(self, name: str) -> str | None:
        """The type that a template parameter stands for, by a variable that is passed as `T`, `T*` or the like."""
        for parameter, argument in zip(self.function.parameters, self.arguments, strict=False):
            inner, outer = self._declared_as(parameter), self._type_of(argument)
            if outer is None or inner.words[:1] != (name,) or name in inner.words[1:]:
                continue
            if inner.pointer == outer.pointer and inner.words[1:] == outer.words[1:]:
                return outer.words[0]
        return None

    # -- parameters ----------------------------------------------------------------------------------------------

    def _parameters(
        self, lines: list[str], edits: list[Edit], words: set[str], outside: dict[str, str]
    ) -> Why | None:
        """Adds to `lines` the declarations of parameters, and to `edits` those that give others the caller's names."""
        declared: set[str] = set()
        for at, parameter in enumerate(self.function.parameters):
            named = next(iter(introduced(parameter, {})), None)
            default = parameter.child_by_field_name("default_value")
            argument = self.arguments[at] if at < len(self.arguments) else default
            if argument is None:
                return "with fewer arguments than it has parameters", "say every argument"
            if named is None:
                lines.append(f"(void)({self._text(argument)});")
                continue
            name, text = named[0], self._text(argument)
            mine = [node for word, node in self.uses if word == name and self._is(node, named[1])]
            if at < len(self.arguments) and self._another_name(parameter, argument, name, mine, outside):
                edits += [Edit(span(node), text) for node in mine if text != name]
                continue
            whole = self.file.source.slice(Span(parameter.start_byte, _end(parameter, default)))
            if self._declared_as(parameter).array and "&" not in whole:
                return f"whose array `{name}` is made from `{text}`", f"declare `{name}` as a pointer"
            fresh = name
            if name in words or name in declared:
                fresh = f"{name}_inside"
                if name in self.hidden or fresh in self.inner | words:
                    return (
                        f"whose `{name}` is another one than in the call",
                        f"rename `{name}` in one of them",
                    )
                edits += [Edit(span(node), fresh) for node in mine]
            declared |= {fresh}
            offset = named[1] - parameter.start_byte
            before, after = whole.encode()[:offset], whole.encode()[offset + len(name.encode()) :]
            lines.append(f"{before.decode()}{fresh}{after.decode().rstrip()} = {text};")
        return None

    def _is(self, node: Node, offset: int) -> bool:
        found = self.known.bound((node.text or b"").decode(), node)
        return found is not None and found[0] <= offset < self.function.body.start_byte

    def _another_name(
        self, parameter: Node, argument: Node, name: str, mine: list[Node], outside: dict[str, str]
    ) -> bool:
        """Whether a parameter may be called by the name of the variable that is passed."""
        inner, outer, text = self._declared_as(parameter), self._type_of(argument), self._text(argument)
        spelled = replace(inner, words=tuple(outside.get(word, word) for word in inner.words))
        if outer is None or not spelled.same(outer) or text in self.inner:
            return False
        if name in self.hidden and text != name:  # a macro would keep the old name
            return False
        if any(text in _WORD.findall(self._text(a)) for a in self.arguments if a != argument):
            return False
        if inner.reference:
            return True
        by_macro = name in self.hidden and not outer.array
        changes = by_macro or not all(self._only_read(node, inner) for node in mine)
        return (outer.array or not outer.reference) and (not changes or (self.last and not outer.fixed))

    def _only_read(self, node: Node, type_: _Type) -> bool:
        """Whether a mention of a parameter leaves it as it is."""
        outer = node.parent
        while outer is not None and outer.type in _SAME:
            node, outer = outer, outer.parent
        if outer is None or outer.type in _READS:
            return outer is not None
        if outer.type == "subscript_expression":
            return type_.pointer or outer.child_by_field_name("argument") != node
        if outer.type in ("pointer_expression", "unary_expression"):
            return not (outer.text or b"").startswith(b"&")
        if outer.type == "assignment_expression":
            return outer.child_by_field_name("right") == node
        if outer.type == "init_declarator":
            kind = outer.child_by_field_name("declarator")
            return kind is not None and kind.type in _VALUES
        if outer.type == "argument_list" and outer.parent is not None:
            called = outer.parent.child_by_field_name("function")
            by_reference = called is not None and b"&" in (called.text or b"")  # of a cast
            return not by_reference and self._by_value(callee(outer.parent))
        return outer.type == "cast_expression" and b"&" not in (outer.text or b"").partition(b")")[0]

    def _by_value(self, name: str) -> bool:
        """Whether every function of a name takes what it is given by value."""
        function = self.file.functions.get(name)
        if function is None:
            hands_on = name in ("move", "forward", "get")
            return (known.is_pure(name) and not hands_on) or name in (*known.CASTS, *known.READS, "sync")
        listed = (p for f in (function, *function.overloads) for p in f.parameters)
        return not any("&" in (p.text or b"").decode() for p in listed)

    # -- types ---------------------------------------------------------------------------------------------------

    def _declared_as(self, parameter: Node) -> _Type:
        named = next(iter(introduced(parameter, {})), ("", parameter.end_byte))
        end = _end(parameter, parameter.child_by_field_name("default_value"))
        return _typed(self._without_name(parameter.start_byte, named[1], named[0], end))

    def _without_name(self, start: int, at: int, name: str, end: int) -> str:
        """Text as the parser is shown it, without attributes, and without a name that stands `at` an offset."""
        root = self.file.tree.root
        data = b" " * root.start_byte + (root.text or b"")
        return (data[start:at] + b" " + data[at + len(name.encode()) : end]).decode()

    def _type_of(self, argument: Node) -> _Type | None:
        """The type of a variable of the caller, as its declaration spells it; None for what is no variable."""
        name = (argument.text or b"").decode()
        found = self.known.bound(name, self.call) if argument.type == "identifier" else None
        if found is None or not found[1].endswith("declaration"):
            return None
        node = self.file.tree.root.named_descendant_for_byte_range(found[0], found[0] + len(name.encode()))
        while node is not None and not node.type.endswith("declaration"):
            node = node.parent
        if node is None:
            return None
        kept = {"volatile", "static", "__shared__"} & set(_WORD.findall(self._text(node)))
        if node.type != "declaration":
            return None if kept else self._declared_as(node)
        first = node.child_by_field_name("declarator")
        for one in node.children_by_field_name("declarator"):
            inner = one.child_by_field_name("declarator") if one.type == "init_declarator" else one
            if first is not None and inner is not None and inner.start_byte <= found[0] < inner.end_byte:
                kind = self._without_name(node.start_byte, first.start_byte, "", first.start_byte)
                words = _typed(kind + self._without_name(inner.start_byte, found[0], name, inner.end_byte))
                # The value of what others may change is not what it was at the call.
                changing = kept - {"__shared__"} if words.array else kept
                return None if "auto" in words.words or changing else words
        return None


def _end(parameter: Node, default: Node | None) -> int:
    """Where a parameter ends without its default."""
    if default is None:
        return parameter.end_byte
    return next(c.start_byte for c in parameter.children if c.type == "=")


def _typed(text: str) -> _Type:
    listed = _TOKEN.findall(text)
    words = [w for w in listed if w not in _SPECIFIERS]
    for around, reference in ((["(", "*", ")"], False), (["(", "&", ")"], True)):
        for at in range(len(words) - 2):
            if words[at : at + 3] == around:
                tail = words[at + 3 :] if not reference else _without_first_extent(words[at + 3 :])
                return _Type((*words[:at], *tail), True, reference, reference, reference)
    if "[" in words:
        at = words.index("[")
        return _Type((*words[:at], *_without_first_extent(words[at:])), True, True, fixed=True)
    if words[-1:] == ["*"]:
        return _Type(tuple(words[:-1]), True, fixed=listed[-1] == "const")
    fixed = bool({"const", "constexpr"} & set(listed))
    if words[-1:] == ["&"]:
        return _Type(tuple(words[:-1]), reference=True, fixed=fixed)
    return _Type(tuple(words), fixed=fixed)


def _without_first_extent(words: Iterable[str]) -> tuple[str, ...]:
    listed = tuple(words)
    return listed[listed.index("]") + 1 :] if "]" in listed else listed
