"""The text of a copy whose elements are dealt to the threads anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tilepipe.kernel.macros import Macro, addend
from tilepipe.kernel.redeclared import Line
from tilepipe.kernel.spreader import Spread
from tilepipe.kernel.statements import Statement

_STEP = "    "
_ELEMENT = "tp_element"


def moved_pointers(spreads: Sequence[Spread]) -> tuple[str, ...]:
    """Lines before the loader that note where pointers start which differ between threads."""
    names = dict.fromkeys(line.name for s in spreads for line in s.redeclared.lines if line.start)
    return tuple(f"const auto tp_{name}_start = {name};" for name in names)


def spread_text(
    spread: Spread, first: int, call: Callable[[Callable[[str], str]], str], macros: Mapping[str, Macro]
) -> str:
    """The block that copies the elements of one map. `first` is the thread that takes the first group where there are
    fewer groups than threads; `call` gives the copy's own statement with its texts changed; `macros` are the file's."""
    threads = spread.block[0] * spread.block[1] * spread.block[2]
    groups = spread.count // spread.elements
    turns = -(-groups // threads)
    inner = _body(spread, call, macros)
    thread = _thread(spread)
    what = f"{groups} groups of {spread.elements} neighbours" if groups > 1 else "one group"
    lines = [f"// {what}: a copy of {spread.bytes} bytes each, dealt to the threads anew"]
    if turns == 1:
        offset = f" - {first}" if first and groups < threads else ""
        lines.append(f"const unsigned tp_group = {thread}{offset};")
        if groups < threads:
            lines += [f"if (tp_group < {groups}) {{", *(_STEP + line for line in inner), "}"]
        else:
            lines += inner
    else:
        exact = groups % threads == 0
        body = inner if exact else [f"if (tp_group < {groups}) {{", *(_STEP + line for line in inner), "}"]
        lines += [
            "#pragma unroll",
            f"for (unsigned tp_turn = 0; tp_turn < {turns}; ++tp_turn) {{",
            f"{_STEP}const unsigned tp_group = tp_turn * {threads} + {thread};",
            *(_STEP + line for line in body),
            "}",
        ]
    return "\n".join(["{", *(_STEP + line if not line.startswith("#") else line for line in lines), "}"])


def _thread(spread: Spread) -> str:
    """The number of the thread in its block."""
    x, y, z = spread.block
    if z > 1:
        return f"(threadIdx.z * {y} + threadIdx.y) * {x} + threadIdx.x"
    return f"threadIdx.y * {x} + threadIdx.x" if y > 1 else "threadIdx.x"


def _body(
    spread: Spread, call: Callable[[Callable[[str], str]], str], macros: Mapping[str, Macro]
) -> list[str]:
    coordinates = _coordinates(spread)
    renamed = [line.name for line in spread.redeclared.lines if line.start]

    def changed(text: str) -> str:
        for name, value in coordinates.items():
            if isinstance(name, str):
                whole = re.fullmatch(rf"\s*threadIdx\s*\.\s*{name}\s*", text)
                with_parens = value if whole else f"({value})"
                text = re.sub(rf"\bthreadIdx\s*\.\s*{name}\b", with_parens, text)
        for name in renamed:
            text = re.sub(rf"(?<![\w.>]){name}\b", f"tp_{name}", text)
        return " ".join(text.split())

    lines = [f"const unsigned {_ELEMENT} = tp_group * {spread.elements};"]
    lines += [_line(line, coordinates, changed, macros) for line in spread.redeclared.lines]
    copy = call(changed).split("\n")
    if spread.whens:
        condition = " && ".join(
            f"({changed(w)})" if len(spread.whens) > 1 else changed(w) for w in spread.whens
        )
        condition = (
            condition
            if condition.startswith("(") and len(spread.whens) == 1 and _closed(condition)
            else f"({condition})"
        )
        return [*lines, f"if {condition} {{", *(_STEP + c for c in copy), "}"]
    return [*lines, *copy]


def _closed(text: str) -> bool:
    """Whether the first parenthesis closes at the end of the text."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def _coordinates(spread: Spread) -> dict[object, str]:
    """The text of each coordinate of a group's first element."""
    found: dict[object, str] = dict.fromkeys("xyz", "0u")
    stride = 1
    for axis in spread.axes:
        text = _ELEMENT if stride == 1 else f"{_ELEMENT} / {stride}"
        last = stride * axis.extent == spread.count
        found[axis.name] = "0u" if axis.extent == 1 else text if last else f"{text} % {axis.extent}"
        stride *= axis.extent
    return found


def _line(
    line: Line,
    coordinates: dict[object, str],
    changed: Callable[[str], str],
    macros: Mapping[str, Macro],
) -> str:
    if line.number:
        return f"const {line.type} {line.name} = {_ELEMENT};"
    if line.start:
        start = addend(changed(line.text), macros)
        return f"const auto tp_{line.name} = {start} + ({line.name} - tp_{line.name}_start);"
    if line.counter is not None:
        turn = coordinates[line.counter]
        if turn == "0u":
            return f"const {line.type} {line.name} = {changed(line.text)};"
        step = "" if line.step == 1 else f" * {line.step}"
        turn = f"({turn})" if step and turn != _ELEMENT else turn
        start = "" if line.text.strip() == "0" else f"{addend(changed(line.text), macros)} + "
        return f"const {line.type} {line.name} = {start}{turn}{step};"
    const = "" if line.type.startswith("const ") else "const "
    return f"{const}{line.type} {line.name} = {changed(line.text)};"


def first_threads(spreads: Sequence[Spread]) -> dict[int, int]:
    """The thread that takes each copy's first group: copies of few groups fall on different warps."""
    found: dict[int, int] = {}
    at = 0
    for spread in sorted(spreads, key=lambda s: s.copy.use.item.order):
        threads = spread.block[0] * spread.block[1] * spread.block[2]
        groups = spread.count // spread.elements
        whole = -(-groups // 32) * 32
        if groups >= threads:
            continue
        at = at if at + whole <= threads else 0
        found[id(spread.copy)] = at
        at += whole
    return found


def nothing_else(nest: Statement, spreads: Sequence[Spread]) -> bool:
    """Whether a nest does nothing but these copies, so that all of it gives way to their new form."""
    inside = list(nest.walk())
    gone = {id(s) for spread in spreads for s in spread.copy.replaces.walk()}
    local = {s for st in inside for s in st.declares}
    for statement in inside:
        own = statement.own
        if id(statement) in gone or statement.kind == "block":
            continue
        temporary = own.defs <= local and not own.writes and not own.flags
        if not temporary or statement.kind not in ("declaration", "leaf", "for", "if"):
            return False
    return True
