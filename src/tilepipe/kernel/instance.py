"""Which instance of a kernel template is looked at: conditions that hold in that instance and in no other.

What the compiler says of an instance (trip counts, sizes, types) ends up as literals in the emitted text, so every
other instance must be kept from it. A condition tells one template parameter's argument: a number as the compiler
gives it, else the argument as the author spells it, else as the compiler does. The compiler confirms each at the
kernel's place, where a name may not be declared yet, or may name something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tree_sitter import Node

from tilepipe.diagnostics import Place, Refusal, refusal
from tilepipe.kernel.file import KernelText
from tilepipe.kernel.model import Answers
from tilepipe.kernel.questions import Ask
from tilepipe.source import parse_tree

# The templates that conditions are made of stand in the emitted file's helpers, and with this prefix in the probes.
_EMITTED, _ASKED = "tp_", "tilepipe_probe::"
_NUMBER = re.compile(r"char|short|int|long|signed|unsigned|(?:size|ptrdiff|u?int\d+)_t")


@dataclass(frozen=True)
class Guard:
    """A condition on one template parameter, a constant expression of the kernel's scope, and what it says; `device`:
    it need not hold where the host's code is compiled."""

    condition: str
    words: str  # "N = 16"
    device: bool = False


@dataclass(frozen=True)
class _Parameter:
    kind: Literal["value", "type", "template"]
    name: str  # "" for one that nothing can name
    type: str  # of a value
    default: str
    pack: bool


def instance_asks(kernel: KernelText, instance: str | None) -> tuple[Ask, ...]:
    """What the compiler must be asked for `guards`; `instance` is the template-id, None where all arguments are
    defaults."""
    asks: list[Ask] = []
    at = kernel.body.start + 1
    for number, (parameter, arguments) in enumerate(_paired(kernel, instance)):
        key, single = f"instance:{number}", not parameter.pack
        if parameter.kind == "value" and single:
            asks.append(Ask(f"{key}:number", "value", parameter.name, at))
        if parameter.kind == "type" and single:
            asks.append(Ask(f"{key}:spelled", "type", f"*static_cast<{parameter.name}*>(nullptr)", at))
        if arguments is not None and (parameter.kind != "value" or not single or _deduced(parameter)):
            asks.append(Ask(f"{key}:same", "value", _same(_ASKED, parameter, arguments), at))
    return tuple(asks)


def more_asks(kernel: KernelText, instance: str | None, answers: Answers) -> tuple[Ask, ...]:
    """What must be asked after `answers`: values that are no numbers, and types that the author's spelling does not
    name here, by the compiler's."""
    asks: list[Ask] = []
    at = kernel.body.start + 1
    for number, (parameter, arguments) in enumerate(_paired(kernel, instance)):
        key = f"instance:{number}"
        if _told(parameter, arguments, key, answers):
            continue
        spelled = answers.get(f"{key}:spelled")
        if isinstance(spelled, str):
            asks.append(Ask(f"{key}:again", "value", _same(_ASKED, parameter, (spelled,)), at))
        elif parameter.kind == "value" and arguments is not None:
            asks.append(Ask(f"{key}:same", "value", _same(_ASKED, parameter, arguments), at))
    return tuple(asks)


def guards(
    kernel: KernelText, instance: str | None, answers: Answers, place: Place
) -> tuple[Guard, ...] | Refusal:
    """One condition per template parameter that something can name; `answers` are those to both rounds of asks, `place`
    is the kernel's. TP160 where an argument has no name in the kernel."""
    found: list[Guard] = []
    parameters = _parameters(kernel)
    surplus = arguments_of_id(instance)[len(parameters) :]
    if surplus and not any(
        p.pack for p in parameters
    ):  # of `auto` parameters of the function, which have no name
        return _unguarded(kernel, instance, "auto", surplus, place)
    for number, (parameter, arguments) in enumerate(_paired(kernel, instance)):
        told = _told(parameter, arguments, f"instance:{number}", answers)
        if not told:
            return _unguarded(kernel, instance, parameter.name, arguments or (), place)
        found += told
    return tuple(found)


def _unguarded(
    kernel: KernelText, instance: str | None, parameter: str, arguments: tuple[str, ...], place: Place
) -> Refusal:
    what = f"its argument `{', '.join(arguments)}`" if arguments else "its argument"
    return refusal(
        "TP160",
        f"nothing tells `{instance or kernel.name}` from other instances within the kernel: {what} for "
        f"`{parameter}` has no name there",
        place,
        help="declare what the argument names before the kernel",
    )


def _told(
    parameter: _Parameter, arguments: tuple[str, ...] | None, key: str, answers: Answers
) -> list[Guard]:
    """The conditions on one parameter; none where nothing tells its argument."""
    value = answers.get(f"{key}:number")
    number = [_equals(parameter, value)] if isinstance(value, int) else []
    if number and not _deduced(parameter):
        return number
    # The type of an `auto` parameter is the argument's too, which a number does not tell.
    if arguments is not None and answers.get(f"{key}:same") == 1:
        words = f"{parameter.name} = {', '.join(arguments)}"
        return [*number, Guard(_same(_EMITTED, parameter, arguments), words)]
    spelled = answers.get(f"{key}:spelled")
    if isinstance(spelled, str) and answers.get(f"{key}:again") == 1:
        return [Guard(_same(_EMITTED, parameter, (spelled,)), f"{parameter.name} = {spelled}")]
    return []


def _equals(parameter: _Parameter, value: int) -> Guard:
    words = set(parameter.type.replace("std::", "").split()) - {"const"}
    if words == {"bool"}:
        shown = "true" if value else "false"
        return Guard(f"{parameter.name} == {shown}", f"{parameter.name} = {shown}")
    name = (
        parameter.name if all(map(_NUMBER.fullmatch, words)) else f"static_cast<long long>({parameter.name})"
    )
    return Guard(f"{name} == {value}", f"{parameter.name} = {value}")


def _deduced(parameter: _Parameter) -> bool:
    return "auto" in parameter.type.split()


def _same(prefix: str, parameter: _Parameter, arguments: tuple[str, ...]) -> str:
    """The condition that the parameter stands for these arguments."""
    name, listed = parameter.name + ("..." if parameter.pack else ""), ", ".join(arguments)
    if parameter.kind == "template":
        return f"{prefix}same<{prefix}templates<{name}>, {prefix}templates<{listed}>>"
    if parameter.kind == "type" and not parameter.pack:
        return f"{prefix}same<{name}, {listed}>"
    if parameter.kind == "type":
        return f"{prefix}same<{prefix}types<{name}>, {prefix}types<{listed}>>"
    kind = parameter.type if parameter.pack else f"decltype({parameter.name})"
    if not _deduced(parameter):
        listed = ", ".join(f"static_cast<{kind}>({a})" for a in arguments)
    return f"{prefix}same<{prefix}values<{name}>, {prefix}values<{listed}>>"


# -- the text of parameters and arguments ------------------------------------------------------------------------


def _paired(kernel: KernelText, instance: str | None) -> list[tuple[_Parameter, tuple[str, ...] | None]]:
    """The parameters with a name and the text of their arguments: the instance's, else the default; None where the
    text does not say."""
    left = list(arguments_of_id(instance))
    found: list[tuple[_Parameter, tuple[str, ...] | None]] = []
    for parameter in _parameters(kernel):
        arguments: tuple[str, ...] | None = None
        if parameter.pack:
            arguments, left = tuple(left), []
        elif left:
            arguments = (left.pop(0),)
        elif parameter.default:
            arguments = (parameter.default,)
        if parameter.name:
            found.append((parameter, arguments))
    return found


def arguments_of_id(instance: str | None) -> tuple[str, ...]:
    """The arguments that a template-id lists."""
    if instance is None or "<" not in instance:
        return ()
    lists = _of_type(parse_tree(f"auto x = {instance};").root_node, "template_argument_list")
    listed = next(iter(lists), None)
    return _between_commas(listed) if listed is not None else ()


def _between_commas(listed: Node) -> tuple[str, ...]:
    data = listed.text or b""
    stops = [c for c in listed.children if c.type == ","]
    starts = [listed.start_byte + 1, *(c.end_byte for c in stops)]
    ends = [*(c.start_byte for c in stops), listed.end_byte - 1]
    parts = [data[a - listed.start_byte : b - listed.start_byte] for a, b in zip(starts, ends, strict=True)]
    return tuple(" ".join(p.decode().split()) for p in parts if p.strip())


def _of_type(node: Node, kind: str) -> Iterable[Node]:
    """The nodes of a type, outer ones first."""
    ahead = [node]
    while ahead:
        node = ahead.pop(0)
        if node.type == kind:
            yield node
        ahead += node.named_children


def _parameters(kernel: KernelText) -> list[_Parameter]:
    tree = parse_tree(f"template <{', '.join(kernel.template)}> void f();").root_node
    listed = next(iter(_of_type(tree, "template_parameter_list")), None)
    nodes = listed.named_children if listed is not None else []
    return [_parameter(n) for n in nodes if n.type != "comment"] if kernel.template else []


def _parameter(node: Node) -> _Parameter:
    pack = "variadic" in node.type
    if node.type == "template_template_parameter_declaration":
        inner = _parameter(node.named_children[-1])
        return _Parameter("template", inner.name, "", inner.default, inner.pack)
    if "type_parameter" in node.type:
        default = node.child_by_field_name("default_type")
        named = next((c for c in node.children if c.type == "type_identifier" and c != default), None)
        return _Parameter("type", _text(named), "", _text(default), pack)
    declarator = node.child_by_field_name("declarator")
    names = list(_of_type(declarator, "identifier")) if declarator is not None else []
    return _Parameter(
        "value",
        _text(names[0] if names else None),
        _type_of(node),
        _text(node.child_by_field_name("default_value")),
        pack,
    )


def _type_of(node: Node) -> str:
    """The type of a value, as far as it stands before the name."""
    declarator = node.child_by_field_name("declarator")
    kept = [c for c in node.children if declarator is None or c.end_byte <= declarator.start_byte]
    return " ".join(_text(c) for c in kept if c.type != "comment")


def _text(node: Node | None) -> str:
    return " ".join(node.text.decode().split()) if node is not None and node.text else ""
