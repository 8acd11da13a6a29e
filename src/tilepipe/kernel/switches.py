"""Names that another build of the file may give another value: macros of `-D`, and what is defined under a condition.

    #ifndef BK
    #define BK 32      // nvcc -DBK=64
    #endif

What is emitted has what the compiler said of this build in it (trip counts, sizes, types), so a kernel that needs such
a name asserts its value, as one asserts its template arguments. What is neither a whole number nor a type of the
language or of CUDA cannot be asserted. What depends on the architecture is asserted in the device pass alone, and
conditions that tell one compiler from another are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tree_sitter import Node

from tilepipe.kernel.binding import introduced
from tilepipe.kernel.file import CudaFile, KernelText
from tilepipe.kernel.instance import Guard
from tilepipe.kernel.macros import include_guard, operand
from tilepipe.kernel.model import Answers
from tilepipe.kernel.questions import Ask
from tilepipe.kernel.sizes import SIZES
from tilepipe.kernel.unclear import functions_of

_WORD = re.compile(r"[A-Za-z_]\w*")
_ARCH = re.compile(r"\b__CUDA_ARCH(?:__|_\w+)\b")  # differ between host and device
_COMPILERS = re.compile(r"__NVCC__|__CUDACC_(?!_)|__CUDA_(?!ARCH_)")  # differ between nvcc and NVRTC


@dataclass(frozen=True)
class _Defined:
    """A definition outside of functions: its text, and the conditions that it stands under, one below the other."""

    text: str
    conditions: tuple[str, ...]


def switches(file: CudaFile, kernel: KernelText, given: Sequence[str]) -> dict[str, bool]:
    """The names that a kernel needs, directly or through others, and that another build may define otherwise, each
    with whether the architecture may tell; `given` are the macros of `-D`."""
    known = _known(file)
    set_by_build = {text.partition("=")[0].partition("(")[0].strip() for text in given}
    needed: set[str] = set()
    ahead = set(_WORD.findall(file.source.slice(kernel.span)))
    while ahead:
        name = ahead.pop()
        needed.add(name)
        texts = [d.text for d in known.get(name, ())]
        texts += [_text(_with_template(f.node)) for f in functions_of(file, name)]
        ahead |= {w for text in texts for w in _WORD.findall(text)} - needed
    found = {}
    for name in sorted(needed & (known.keys() | set_by_build)):
        conditions = [c for d in known.get(name, ()) for c in d.conditions]
        if (conditions or name in set_by_build) and not any(_COMPILERS.search(c) for c in conditions):
            found[name] = any(_ARCH.search(c) for c in conditions)
    return found


def switch_asks(kernel: KernelText, names: Iterable[str]) -> tuple[Ask, ...]:
    """What the compiler must be asked for `switch_guards`."""
    at = kernel.body.start + 1
    values = [Ask(f"switch:{name}", "value", name, at) for name in names]
    types = [Ask(f"switched:{name}", "type", f"*static_cast<{name}*>(nullptr)", at) for name in names]
    return (*values, *types)


def switch_guards(file: CudaFile, names: Mapping[str, bool], answers: Answers) -> tuple[Guard, ...]:
    """The conditions that the names of `switches` have the values that they have here, as far as these can be told."""
    found = []
    for name, by_arch in names.items():
        value, kind = answers.get(f"switch:{name}"), answers.get(f"switched:{name}")
        if isinstance(value, int):
            found.append(Guard(f"{operand(name, file.macros)} == {value}", f"{name} = {value}", by_arch))
        elif kind in SIZES:
            found.append(Guard(f"tp_same<{name}, {kind}>", f"{name} = {kind}", by_arch))
    return tuple(found)


@lru_cache(maxsize=8)  # every kernel of a file asks
def _known(file: CudaFile) -> dict[str, list[_Defined]]:
    found: dict[str, list[_Defined]] = {}
    for root in file.roots:
        for name, defined in _definitions(root, file):
            found.setdefault(name, []).append(defined)
    return found


def _definitions(root: Node, file: CudaFile) -> Iterator[tuple[str, _Defined]]:
    """The macros, constants and types that a file defines outside of functions."""
    around = include_guard(root)
    stack: list[tuple[Node, tuple[str, ...]]] = [(root, ())]
    while stack:
        node, conditions = stack.pop()
        if node.type in ("preproc_def", "preproc_function_def"):
            macro = node.child_by_field_name("name")
            yield (_text(macro) if macro is not None else ""), _Defined(_text(node), conditions)
        elif node.type.startswith("preproc_"):
            own = [node.child_by_field_name(f) for f in ("condition", "name")]
            text = next((_text(n) for n in own if n is not None), "")
            below = conditions if node == around else (*conditions, text)
            stack.extend((c, below) for c in node.named_children)
        elif node.type in (
            "translation_unit",
            "namespace_definition",
            "declaration_list",
            "linkage_specification",
        ):
            stack.extend((c, conditions) for c in node.named_children)
        elif node.type != "function_definition":
            # A template's name alone has no value and is no type.
            asserted = conditions if node.type != "template_declaration" else ()
            for name, _ in introduced(node, file.macros):
                yield name, _Defined(_text(node), asserted)


def _with_template(function: Node) -> Node:
    """A function with its template's parameters, whose defaults it needs."""
    outer = function.parent
    return outer if outer is not None and outer.type == "template_declaration" else function


def _text(node: Node) -> str:
    return (node.text or b"").decode()
