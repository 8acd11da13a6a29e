"""Functions of classes, and operators, that reach beyond their own object: they change or read memory that nobody sees
where they are used.

Calls of methods are not followed into the class, and constructors, destructors, conversions, operators and literals
run where no call stands at all. What they may do to their object and to what they are given is assumed of each. This
says which of them do more: store through a pointer, use a variable of the file, or call what does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tree_sitter import Node

from tilepipe.diagnostics import Refusal, refusal
from tilepipe.kernel import known
from tilepipe.kernel.macros import Macro
from tilepipe.kernel.names import arguments_of, callee
from tilepipe.kernel.symbols import declarators
from tilepipe.source.parse import below, span

if TYPE_CHECKING:
    from tilepipe.kernel.file import CudaFile, KernelText

_WORD = re.compile(r"[A-Za-z_]\w*")
_CLASSES = ("struct_specifier", "class_specifier", "union_specifier")
_ACTING_ASM = re.compile(r"\b(?:st|stmatrix|red|atom|cp|multimem|bar|barrier)\.|memory")
_READING_ASM = re.compile(r"\b(?:ld(?:\.\w+)*\.shared|ldmatrix)\b")  # of a number, where no pointer is given
_BEGINS_CLASS = re.compile(rb"\b(?:struct|class|union)\b")
_DEVICE = re.compile(r"\b(?:__device__|constexpr|consteval)\b")
_MEMORY = {"__device__", "__managed__", "__shared__"}
_FUNCTION_POINTER = re.compile(r"\(\s*(?:\w+\s*::\s*)*\*\s*(?:const\s+)?(\w+)\s*(?:\[[^\]]*\]\s*)?\)\s*\(")
# Methods of library classes that leave their object as it is.
_READING = frozenset(
    ("real", "imag", "size", "load", "value", "has_value", "empty", "count", "any", "all", "none")
)
_NAMED = ("declaration", "alias_declaration", "type_definition", "preproc_def", "preproc_function_def")

_TELLING = frozenset(
    (*_CLASSES, *_NAMED, "function_definition", "field_declaration", "template_parameter_list")
)


@dataclass(frozen=True)
class Member:
    """A function of a class, an operator, or a function that is a friend. `name` is how a call names it: "operator()"
    for objects that are called, "" where it runs without a call. `owner` is its class, for an operator outside of
    classes the types of its operands."""

    name: str
    owners: frozenset[str]
    node: Node
    literal: str = ""  # the suffix of literals that it makes


class Unseen:
    """What the classes and operators of a file and its headers do unseen."""

    def __init__(self, roots: Sequence[Node], macros: Mapping[str, Macro]) -> None:
        self._macros = macros
        self._texts: dict[str, list[str]] = defaultdict(list)
        self.functions: dict[str, list[Node]] = {}  # all, those of classes too, by name
        self.classes = frozenset(name for root in roots for name in _class_names(root))
        self.free: set[str] = set()  # functions of no class
        self.objects: set[str] = set()  # members that are objects of classes themselves
        self.templates: set[str] = set()  # parameters of templates
        self.types: set[str] = set()  # other names of types
        self._variables: set[str] = set()  # of the file, in memory that kernels may change
        texts = [(root.text or b"").decode() for root in roots]
        self.pointers = frozenset(name for text in texts for name in _FUNCTION_POINTER.findall(text))
        members = [member for root in roots for member in self._gathered(root)]
        self.friends = frozenset(m.name for m in members if "friend" in _head(m.node).split())
        self._asked: dict[int, bool] = {}
        reaching = [m for m in members if self._on_device(m.node) and self._reaches(m.node, bool(m.name))]
        self.reaching = frozenset(m.name for m in reaching if m.name)
        self._silent = [m for m in reaching if not m.name]

    def function_reaches(self, name: str) -> bool:
        """Whether a function of that name, of whatever class or namespace, changes memory that it is not given."""
        return any(self._reaches(f, called=True) for f in self.functions.get(name, ()))

    def takes_reference(self, name: str) -> bool:
        """Whether a function of that name, of whatever class or namespace, may change an argument of its calls."""
        listed = [_parameters(d) for f in self.functions.get(name, ()) if (d := _declarator(f)) is not None]
        return any("&" in p and not re.search(r"\bconst\b", p) for text in listed for p in text.split(","))

    def only_reads(self, name: str) -> bool:
        """Whether a method of that name leaves its object as it is; those of libraries by their names."""
        found = self.functions.get(name)
        if found is None:
            return name in _READING
        return all(b"const" in _qualifiers(f) and not _is_mutable(f) for f in found)

    def within(self, text: str) -> Member | None:
        """A member that reaches beyond its object and may run, without a call, in what a kernel's text names."""
        if not self._silent:
            return None
        seen: set[str] = set()
        ahead = [text]
        while ahead:
            one = ahead.pop()
            words = set(_WORD.findall(one)) - seen
            for member in self._silent:
                if member.owners & words or (
                    member.literal and re.search(rf"[\w\"'.]{member.literal}\b", one)
                ):
                    return member
            seen |= words
            ahead += [t for word in sorted(words) for t in self._texts.get(word, ())]
        return None

    def _gathered(self, root: Node) -> Iterator[Member]:
        """The members below a node; what names stand for is noted on the way."""
        stack: list[tuple[Node, str]] = [(root, "")]
        while stack:
            node, owner = stack.pop()
            if node.type not in _TELLING:
                stack.extend((child, owner) for child in node.named_children)
                continue
            name = node.child_by_field_name("name")
            text = (node.text or b"").decode()
            if node.type in _CLASSES and name is not None and node.child_by_field_name("body") is not None:
                owner = (name.text or b"").decode().partition("<")[0].strip()
                self._texts[owner].append(text)
                if any(_default_acts(c) for c in node.children[-1].named_children):
                    yield Member("", frozenset((owner,)), node)
            elif node.type == "function_definition":
                yield from self._function(node, owner)
                body = node.child_by_field_name("body")
                stack.extend((n, "") for n in (below(body) if body is not None else ()) if n.type in _CLASSES)
                continue
            elif node.type == "field_declaration":
                kind = node.child_by_field_name("type")
                if kind is not None and set(_WORD.findall((kind.text or b"").decode())) & self.classes:
                    self.objects |= {d.name for d in declarators(node)}
            if node.type in ("alias_declaration", "type_definition"):
                self.types.update(_WORD.findall(text.partition("=")[0])[-1:])
            if node.type in _NAMED and not owner:
                words = _WORD.findall(text.partition("=")[0])
                for word in words if node.type == "declaration" else words[:3]:
                    self._texts[word].append(text)
                if (
                    node.type == "declaration"
                    and set(words) & _MEMORY
                    and not set(words) & {"const", "constexpr"}
                ):
                    self._variables |= {d.name for d in declarators(node)}
            elif node.type == "template_parameter_list":
                self.templates.update(_WORD.findall(text))
            stack.extend((child, owner) for child in node.named_children)

    def _function(self, node: Node, owner: str) -> Iterator[Member]:
        declarator = _declarator(node)
        named = declarator.child_by_field_name("declarator") if declarator is not None else None
        text = (
            named.text if named is not None else declarator.text if declarator is not None else b""
        ) or b""
        *outer, name = re.split(r"\s*::\s*", re.sub(r"\s+", " ", text.decode()).partition("<")[0]) or [""]
        owner = owner or (outer[-1] if outer and outer[-1] in self.classes else "")
        body = (node.text or b"").decode()
        if declarator is None:
            return
        if declarator.type == "operator_cast" or "operator" in name:
            kind = name.partition("operator")[2].strip()
            if kind == "()":
                self.functions.setdefault("operator()", []).append(node)
                yield Member("operator()", frozenset((owner,)), node)
                return
            types = frozenset(_WORD.findall(_parameters(declarator)))
            owners = frozenset((owner,)) if owner else types & self.classes
            yield Member("", owners, node, kind[2:].strip() if kind.startswith('""') else "")
        elif owner and name.lstrip("~ ") == owner:
            yield Member("", frozenset((owner,)), node)
        else:
            self.functions.setdefault(name, []).append(node)
            self._texts[name].append(body)
            if owner:
                yield Member(name, frozenset((owner,)), node)
            else:
                self.free.add(name)

    def _on_device(self, node: Node) -> bool:
        """Whether a function, or the initialiser of a member, may run in a kernel."""
        head = _head(node)
        return (
            node.type in _CLASSES
            or _DEVICE.search(head) is not None
            or any(
                _DEVICE.search(self._macros[w].body) for w in self._macros.keys() & set(_WORD.findall(head))
            )
        )

    def _reaches(self, node: Node, called: bool) -> bool:
        """Whether a function changes anything but its object, its own variables, and what it is seen to be given. Of
        constructors and destructors nothing is seen, of operators what stands beside them."""
        if node.type in _CLASSES:
            return True
        if node.id in self._asked:
            return self._asked[node.id]
        self._asked[node.id] = False  # what calls itself does no more for it
        own = _Own(node, called)
        found = any(self._step(own, inner) for inner in below(node))
        self._asked[node.id] = found
        return found

    def _step(self, own: _Own, node: Node) -> bool:
        if node.type == "identifier":
            name = (node.text or b"").decode()
            return name in self._variables and name not in own.plain
        if node.type == "assignment_expression":
            return not own.has(node.child_by_field_name("left"))
        if node.type == "update_expression":
            return not own.has(node.child_by_field_name("argument"))
        if node.type == "gnu_asm_expression":
            text = (node.text or b"").decode()
            return bool(_ACTING_ASM.search(text) or (_READING_ASM.search(text) and not own.is_given_memory))
        if node.type in ("new_expression", "delete_expression"):
            return True
        if node.type != "call_expression":
            return False
        name = callee(node)
        if name in self.functions:
            return any(self._reaches(f, called=True) for f in self.functions[name])
        plain = (
            name in known.CASTS | known.READS | known.BY_VALUE or known.is_pure(name) or known.is_warp(name)
        )
        return not (plain or name in self.classes or _is_value(node))


def runs_unseen(file: CudaFile, kernel: KernelText) -> Refusal | None:
    """TP018: no constructor, destructor, conversion, operator or literal of what the kernel names changes memory that
    is not its own."""
    found = file.unseen.within(file.source.slice(kernel.span))
    if found is None:
        return None
    here = any(node == file.tree.root for node in _above(found.node))
    name = next(iter(sorted(found.owners)), found.literal)
    return refusal(
        "TP018",
        f"`{name}` has a constructor, destructor, conversion or operator that changes what is not its own, and that "
        "runs where no call shows it",
        file.source.place(span(found.node) if here else kernel.span),
        "changes memory beyond its object",
        "let a function with a name do it, which the kernel calls",
    )


class _Own:
    """What belongs to a function: its variables, the members of its class, and what calls of it are seen to give."""

    def __init__(self, node: Node, called: bool) -> None:
        """`called`: calls of it name it, so that what their arguments and their object point to is taken to be changed
        by them."""
        declarator = _declarator(node)
        name = (declarator.text or b"").decode().partition("(")[0] if declarator is not None else ""
        self.is_given_memory = (
            any(c in _parameters(declarator) for c in "*&[") if declarator is not None else False
        )
        klass = _class_around(node)
        title = klass.child_by_field_name("name") if klass is not None else None
        called_like = (title.text or b"").decode().partition("<")[0].strip() if title is not None else None
        builds = name.lstrip("~ ") == called_like
        members = klass.child_by_field_name("body") if klass is not None else None
        plain, arrays, foreign = _names(members, ("field_declaration",))
        given, _, references = _names(declarator, ("parameter_declaration", "optional_parameter_declaration"))
        local, local_arrays, local_references = _names(node.child_by_field_name("body"), ("declaration",))
        # A reference that the class or the body holds may stand for anything, as may what a constructor is given.
        self.plain = plain | given | local | (set() if builds else references)
        self.arrays = arrays | local_arrays | (set() if builds else references)
        self.pointers = plain | given if called else set()
        for hidden in (foreign - given - local, local_references):
            self.plain -= hidden
            self.arrays -= hidden

    def has(self, node: Node | None) -> bool:
        """Whether an lvalue is part of what belongs to the function."""
        if node is None:
            return False
        text = (node.text or b"").decode()
        inner = node.child_by_field_name("argument")
        if node.type in ("identifier", "field_identifier"):
            return text in self.plain
        if node.type == "parenthesized_expression" and len(node.named_children) == 1:
            return self.has(node.named_children[0])
        if inner is None:
            return False
        root = re.sub(r"^this\s*->\s*", "", (inner.text or b"").decode())
        if node.type == "pointer_expression":
            return root == "this" or root in self.pointers
        if node.type == "field_expression":
            through = any(c.type == "->" for c in node.children)
            if inner.type == "this":
                return self.has(node.child_by_field_name("field"))
            return root in self.pointers if through else self.has(inner)
        if node.type == "subscript_expression":
            return root.partition("[")[0].strip() in self.arrays | self.pointers
        return False


def _names(root: Node | None, kinds: tuple[str, ...]) -> tuple[set[str], set[str], set[str]]:
    """The names that declarations below a node declare: all but references, arrays among them, and references."""
    plain: set[str] = set()
    arrays: set[str] = set()
    references: set[str] = set()
    for node in below(root) if root is not None else ():
        if node.type not in kinds or b"static" in (node.text or b"").split():
            continue
        for at, child in enumerate(node.children):
            if node.field_name_for_child(at) == "declarator" and child.type != "function_declarator":
                text = (child.text or b"").decode().partition("=")[0]
                word = (_WORD.findall(text) or [""])[0]
                (references if "&" in text else plain).add(word)
                if "[" in text and "*" not in text and "&" not in text:
                    arrays.add(word)
    return plain, arrays, references


def _class_names(root: Node) -> Iterator[str]:
    """The names of classes that are defined below a node, found by the words that begin one."""
    text = root.text or b""
    for begin in _BEGINS_CLASS.finditer(text):
        at = root.start_byte + begin.start()
        node = root.named_descendant_for_byte_range(at, at + 1)
        while node is not None and node.type not in _CLASSES:
            node = node.parent if node.start_byte == at else None
        name = node.child_by_field_name("name") if node is not None else None
        if node is not None and name is not None and node.child_by_field_name("body") is not None:
            yield (name.text or b"").decode().partition("<")[0].strip()


def _head(node: Node) -> str:
    """The text of a function before its body."""
    body = node.child_by_field_name("body")
    return (node.text or b"")[: body.start_byte - node.start_byte].decode() if body is not None else ""


def _declarator(node: Node) -> Node | None:
    """The declarator with a function's parameters, or the conversion that it is."""
    found = node.child_by_field_name("declarator")
    while found is not None and found.type not in ("function_declarator", "operator_cast"):
        found = found.child_by_field_name("declarator") or next(
            (c for c in found.named_children if c.type in ("function_declarator", "operator_cast")), None
        )
    return found


def _parameters(declarator: Node) -> str:
    listed = declarator.child_by_field_name("parameters")
    return (listed.text or b"").decode() if listed is not None else ""


def _qualifiers(node: Node) -> bytes:
    """What stands between a function's parameters and its body."""
    declarator = _declarator(node)
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    body = node.child_by_field_name("body")
    if listed is None or body is None or node.text is None:
        return b""
    return node.text[listed.end_byte - node.start_byte : body.start_byte - node.start_byte]


def _is_mutable(node: Node) -> bool:
    """Whether the class of a method has a member that changes in what is const, too."""
    klass = _class_around(node)
    return klass is not None and b"mutable" in (klass.text or b"")


def _class_around(node: Node) -> Node | None:
    outer = node.parent
    while outer is not None and outer.type not in _CLASSES:
        outer = outer.parent
    return outer


def _default_acts(field: Node) -> bool:
    """Whether a member's own initialiser changes something, or calls something."""
    value = field.child_by_field_name("default_value") if field.type == "field_declaration" else None
    acting = ("assignment_expression", "update_expression", "lambda_expression")
    return value is not None and any(n.type in acting for n in below(value))


def _is_value(call: Node) -> bool:
    """Whether a call makes a value of a type: it has nothing to change that is not its argument."""
    function = call.child_by_field_name("function")
    return function is not None and (function.type == "primitive_type" or not arguments_of(call))


def _above(node: Node) -> Iterator[Node]:
    while node.parent is not None:
        node = node.parent
        yield node
