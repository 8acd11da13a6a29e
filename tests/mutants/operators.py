"""Text operators: each plants one kind of pipelining bug into an emitted kernel, once at every place it fits.

An emitted kernel is regular text (see `rewrite/forms.py`), so an operator is a pattern over one line, or a
function that moves a few lines. Line numbers are kept where possible: a removed statement leaves its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"\s*//.*$")


@dataclass(frozen=True)
class Mutant:
    """An emitted kernel with one bug. `line` counts from 1 and is the first that changed; `region` is where it
    stands: setup, prologue, loop or after."""

    operator: str
    line: int
    region: str
    was: str
    now: str
    text: str


class Emitted:
    """The lines of an emitted file, and where in it the pipelined kernel's parts are."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.prologue = self._find(r"\s*// prologue: ", 0)
        self.loop = self._find(r"\s*// main loop", self.prologue)
        self.end = self._find(r"}$", self.loop)
        starts = [i for i in range(self.prologue) if re.match(r"{$|.*\) ?{$", self.lines[i])]
        self.start = max((i for i in starts if not self.lines[i].startswith(" ")), default=0)
        self.after = self._loop_end()

    def _find(self, pattern: str, start: int) -> int:
        return next(i for i in range(start, len(self.lines)) if re.match(pattern, self.lines[i]))

    def _loop_end(self) -> int:
        """The line of the main loop's closing brace: the first `}` as far left as the loop's header."""
        head = next(i for i in range(self.loop, self.end) if re.match(r"\s*(for|while) \(", self.lines[i]))
        indent = re.match(r"\s*", self.lines[head])
        brace = (indent.group(0) if indent else "") + "}"
        return next(i for i in range(head + 1, self.end) if self.lines[i] == brace)

    def region(self, index: int) -> str:
        if index < self.prologue:
            return "setup"
        if index < self.loop:
            return "prologue"
        return "loop" if index <= self.after else "after"

    def kernel(self) -> Iterator[int]:
        """Indices of the kernel's lines."""
        return iter(range(self.start, self.end))

    def mutant(self, operator: str, first: int, old: int, new: list[str]) -> Mutant:
        """The mutant in which `new` stands for the `old` lines from index `first` on."""
        was = self.lines[first : first + old]
        text = "\n".join([*self.lines[:first], *new, *self.lines[first + old :]])
        changed = [(a, b) for a, b in zip(was, new, strict=False) if a != b]
        shown = changed[0] if changed else (was[0], "")
        return Mutant(operator, first + 1, self.region(first), _brief(shown[0]), _brief(shown[1]), text)


def _brief(line: str) -> str:
    return _COMMENT.sub("", line).strip()


@dataclass(frozen=True)
class Operator:
    """A named way to break a kernel; `apply` gives all mutants of an emitted text."""

    name: str
    apply: Callable[[Emitted], Iterator[Mutant]]


def each_line(name: str, pattern: str, replacement: str, where: str = "") -> Operator:
    """An operator that replaces `pattern` on every line of the kernel that has it, in region `where` if given."""
    wanted = re.compile(pattern)

    def apply(e: Emitted) -> Iterator[Mutant]:
        for i in e.kernel():
            if where in ("", e.region(i)) and wanted.search(e.lines[i]):
                yield e.mutant(name, i, 1, [wanted.sub(replacement, e.lines[i], count=1)])

    return Operator(name, apply)


# -- the guards --------------------------------------------------------------------------------------------------


def _guards(e: Emitted) -> Iterator[tuple[int, str]]:
    """Lines that ask whether there is another tile to load (or, before a peeled tile, whether there is any),
    with the condition."""
    for i in e.kernel():
        found = re.match(r"\s*(?:if \((.*)\)(?: {)?|const bool tp_next = (.*);)$", e.lines[i])
        if found is None or found.group(1) == "tp_next":
            continue
        following = e.lines[i + 1]
        if found.group(2) or re.match(r"\s*tp_(load|fetch|store|compute|fragments)\(", following):
            yield i, found.group(1) or found.group(2)


def _guard_true(e: Emitted) -> Iterator[Mutant]:
    for i, condition in _guards(e):
        yield e.mutant("guard always true", i, 1, [e.lines[i].replace(condition, "true", 1)])


def _guard_off_by_one(e: Emitted) -> Iterator[Mutant]:
    """One tile more than there is: `<` becomes `<=`, `>` becomes `>=`."""
    headers = [
        (i, e.lines[i]) for i in range(e.loop, e.after) if re.match(r"\s*(for|while) \(.*_next", e.lines[i])
    ]
    for i, condition in [*_guards(e), *headers]:
        changed = re.sub(r" ([<>]) ", r" \1= ", condition, count=1)
        if changed != condition:
            yield e.mutant("guard off by one", i, 1, [e.lines[i].replace(condition, changed, 1)])


# -- moved lines -------------------------------------------------------------------------------------------------


def _block(e: Emitted, patterns: tuple[str, ...]) -> Iterator[int]:
    """Indices at which lines match the patterns one after the other."""
    for i in e.kernel():
        if all(re.match(r"\s*" + p, e.lines[i + n]) for n, p in enumerate(patterns)):
            yield i


_GUARDED_LOAD = (r"if \(", r"tp_load\(", r"(tp_commit|tp_pipe\.producer_commit)\(\);")


def _barrier_before_wait(e: Emitted) -> Iterator[Mutant]:
    for i in _block(e, (r"(tp_wait|cuda::pipeline_consumer_wait_prior)<", r"__syncthreads\(\);")):
        yield e.mutant("barrier before wait", i, 2, [e.lines[i + 1], e.lines[i]])


def _commit_in_branch(e: Emitted) -> Iterator[Mutant]:
    """The group is committed only where something was loaded, so groups and waits no longer match."""
    for i in _block(e, _GUARDED_LOAD):
        new = [e.lines[i] + " {", e.lines[i + 1], e.lines[i + 2] + " }"]
        yield e.mutant("commit in the branch", i, 3, new)
    for i in _block(e, (r"}$", r"tp_commit\(\);")):
        if "tp_" in e.lines[i - 1]:
            yield e.mutant("commit in the branch", i, 2, [e.lines[i + 1], e.lines[i]])


def _commit_before_load(e: Emitted) -> Iterator[Mutant]:
    for i in _block(e, _GUARDED_LOAD):
        yield e.mutant("commit before the load", i, 3, [e.lines[i + 2], e.lines[i], e.lines[i + 1]])


def _refill_before_barrier(e: Emitted) -> Iterator[Mutant]:
    """The stage consumed last is refilled while other threads may still read it."""
    for i in _block(e, (r"tp_wait<", r"__syncthreads\(\);", *_GUARDED_LOAD)):
        yield e.mutant("refill before the barrier", i, 5, [*e.lines[i + 2 : i + 5], *e.lines[i : i + 2]])


def _store_before_compute(e: Emitted) -> Iterator[Mutant]:
    """Fetched values go into the stage that is about to be computed from."""
    stores = list(_block(e, (r"if \(tp_next\) {", r"tp_store\(", r"(tp_advance|})")))
    for i in stores:
        end = next(n for n in range(i, e.end) if e.lines[n].strip() == "}") + 1
        top = next((n for n in range(e.loop, i) if re.match(r"\s*if \(tp_next\) {", e.lines[n])), None)
        if top is None:
            continue
        brace = next(n for n in range(top, i) if e.lines[n].strip() == "}") + 1
        moved = [line.replace("tp_store(tp_stage ^ 1)", "tp_store(tp_stage)") for line in e.lines[i:end]]
        yield e.mutant("store before compute", brace, end - brace, [*moved, *e.lines[brace:i]])
    for i in _block(e, (r"tp_compute\(", r"tp_store\(tp_stage \^ 1\)")):
        moved = [e.lines[i + 1].replace("tp_stage ^ 1", "tp_stage"), e.lines[i]]
        yield e.mutant("store before compute", i, 2, moved)


def _fragments_before_barrier(e: Emitted) -> Iterator[Mutant]:
    """The next tile's first fragments are loaded before its stage is published."""
    for i in _block(e, (r"__syncthreads\(\);", r"tp_stage (=|\^=) ", r"tp_fragments\(")):
        yield e.mutant("fragments before the barrier", i, 3, [*e.lines[i + 1 : i + 3], e.lines[i]])


def _fragments_before_rotation(e: Emitted) -> Iterator[Mutant]:
    for i in _block(e, (r"tp_stage (=|\^=) ", r"tp_fragments\(")):
        yield e.mutant("fragments before the rotation", i, 2, [e.lines[i + 1], e.lines[i]])


def _last_tile_missing(e: Emitted) -> Iterator[Mutant]:
    for i in _block(e, (r"// epilogue: the last tile", r"if \(", r"tp_compute\(")):
        yield e.mutant("last tile missing", i + 2, 1, [";"])


def _store_before_wait(e: Emitted) -> Iterator[Mutant]:
    """What a thread stashed is moved on before it has landed."""
    for i in _block(e, (r"tp_wait<", r"if \(", r"tp_store\(")):
        yield e.mutant("store before the wait", i, 3, [e.lines[i + 1], e.lines[i + 2], e.lines[i]])


def _slots(e: Emitted) -> Iterator[tuple[int, str]]:
    """Lines with a slot, and the call or lambda that they belong to."""
    inside = ""
    for i in e.kernel():
        found = re.match(r"\s*auto (tp_\w+) = ", e.lines[i])
        inside = found.group(1) if found else inside
        if re.search(r"tp_\w+_ring\[tp_stage\].*\[tp_thread\]", e.lines[i]):
            yield i, inside


def _slot_of_another_stage(e: Emitted) -> Iterator[Mutant]:
    for i, _ in _slots(e):
        changed = re.sub(r"(tp_\w+_ring)\[tp_stage\]", r"\1[(tp_stage + 1) % TP_STAGES]", e.lines[i])
        yield e.mutant("slot of another stage", i, 1, [changed])


def _slot_of_another_thread(e: Emitted) -> Iterator[Mutant]:
    for i, inside in _slots(e):
        if inside == "tp_store":
            changed = e.lines[i].replace("[tp_thread]", "[tp_thread ^ 1]")
            yield e.mutant("slot of another thread", i, 1, [changed])


# -- stages, copies, state ---------------------------------------------------------------------------------------


def _compute_from_next_stage(e: Emitted) -> Iterator[Mutant]:
    for i in range(e.loop, e.after):
        line = e.lines[i]
        if re.match(r"\s*auto&? \w+ = (\w+_ring\[tp_(stage|buffer)\]|tp_at\()", line):
            changed = re.sub(r"\[tp_stage\]|\btp_stage \*", _next_stage, line)
            changed = re.sub(r"\btp_buffer\b", "(tp_buffer ^ 1)", changed)
        elif "tp_compute(tp_stage)" in line:
            changed = line.replace("tp_stage", "tp_stage ^ 1")
        else:
            continue
        yield e.mutant("compute from the next stage", i, 1, [changed])


def _next_stage(found: re.Match[str]) -> str:
    stage = "(tp_stage + 1) % TP_STAGES"
    return f"[{stage}]" if found.group(0).startswith("[") else f"({stage}) *"


def _copies(e: Emitted) -> Iterator[tuple[int, list[str]]]:
    """Guarded asynchronous copies: the line's index, the function and its three arguments."""
    for i in e.kernel():
        line = e.lines[i].strip()
        found = re.match(r"(tp_copy(?:_wide)?_or_zero(?:<\d+>)?)\((.*)\);$", line)
        arguments = _split(found.group(2)) if found is not None else []
        if found is not None and len(arguments) == 3:
            yield i, [found.group(1), *arguments]


def _split(text: str) -> list[str]:
    """Arguments of a call, split at the commas outside all brackets (no template commas are emitted there)."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def _zero_fill_dropped(e: Emitted) -> Iterator[Mutant]:
    for i, (copy, to, source, _) in _copies(e):
        yield e.mutant("zero-fill guard dropped", i, 1, [f"{copy}({to}, {source}, true);"])


def _zero_fill_inverted(e: Emitted) -> Iterator[Mutant]:
    for i, (copy, to, source, guard) in _copies(e):
        yield e.mutant("zero-fill guard inverted", i, 1, [f"{copy}({to}, {source}, !({guard}));"])


_STEP = re.compile(r"\s*(?:(?:\+\+|--)\w+|\w+(?:\+\+|--)|\w+ [-+]= [^;]*);$")


def _step_forgotten(e: Emitted) -> Iterator[Mutant]:
    """The loader's induction, or a pointer that it moves on, stays where it is."""
    for i in e.kernel():
        found = re.match(r"(\s*)auto (tp_load|tp_store|tp_advance) = ", e.lines[i])
        if found is None:
            continue
        close = next(n for n in range(i, e.end) if e.lines[n] == found.group(1) + "};")
        for n in range(i + 1, close):
            if _STEP.match(e.lines[n]):
                yield e.mutant("advance forgotten", n, 1, [";"])


OPERATORS = (
    each_line("barrier removed", r"__syncthreads\(\);", ";"),
    each_line("wait removed", r"(tp_wait<[^>]*>\(|\S*consumer_wait\w*(<[^>]*>)?\().*?\);", ";"),
    each_line("wait for one group less", r"(tp_wait|consumer_wait_prior)<([^>]*)>", r"\1<\2 + 1>"),
    each_line("acquire removed", r"tp_pipe\.producer_acquire\(\);", ";"),
    each_line("release removed", r"tp_pipe\.consumer_release\(\);", ";"),
    Operator("barrier before wait", _barrier_before_wait),
    each_line("commit removed", r"(tp_commit|tp_pipe\.producer_commit)\(\);", ";"),
    Operator("commit in the branch", _commit_in_branch),
    Operator("commit before the load", _commit_before_load),
    Operator("guard always true", _guard_true),
    Operator("guard off by one", _guard_off_by_one),
    each_line("load into the stage in use", r"tp_load\(tp_stage (?:==|\^)[^,;]*", "tp_load(tp_stage"),
    each_line("store into the stage in use", r"tp_store\(tp_stage \^ 1\);", "tp_store(tp_stage);"),
    each_line(
        "store into the buffer in use",
        r"tp_store\(tp_stage, tp_buffer\);",
        "tp_store(tp_stage, tp_buffer ^ 1);",
    ),
    Operator("compute from the next stage", _compute_from_next_stage),
    each_line("no rotation", r"^\s*tp_(?:stage|buffer) (?:=|\^=) .*;", ";", "loop"),
    each_line("rotation one short", r"== TP_STAGES \?", "== TP_STAGES - 1 ?", "loop"),
    each_line("ring one stage short", r"_ring\[TP_STAGES\]", "_ring[TP_STAGES - 1]"),
    each_line("one buffer of two", r"_ring\[2\]", "_ring[1]"),
    each_line("prologue one tile short", r"tp_s < TP_STAGES - 1;", "tp_s < TP_STAGES - 2;"),
    Operator("refill before the barrier", _refill_before_barrier),
    Operator("store before compute", _store_before_compute),
    Operator("store before the wait", _store_before_wait),
    Operator("slot of another stage", _slot_of_another_stage),
    Operator("slot of another thread", _slot_of_another_thread),
    Operator("last tile missing", _last_tile_missing),
    each_line("load removed", r"tp_load\((?:tp_s|tp_stage|TP_STAGES|0)\b.*\);", ";"),
    each_line("fetch removed", r"tp_fetch\(\);", ";"),
    each_line("store removed", r"tp_store\((?:0.*|tp_stage.*)?\);", ";"),
    each_line("advance removed", r"tp_advance\(\);", ";"),
    Operator("advance forgotten", _step_forgotten),
    Operator("zero-fill guard dropped", _zero_fill_dropped),
    Operator("zero-fill guard inverted", _zero_fill_inverted),
    each_line("wide copies always taken", r"if \(tp_wide\)", "if (true)"),
    each_line("fragments removed", r"tp_fragments\(.*\);", ";"),
    each_line("fragments of the group before", r"(tp_fragments\(tp_stage, .*% 2, \w+) \+ [^;]*\);", r"\1);"),
    each_line("fragments into the slot in use", r"(tp_fragments\(tp_stage, \()(.*) \+ 1\) % 2", r"\1\2) % 2"),
    each_line("fragments from the slot being filled", r"(_slots\[)(.*) % 2\]", r"\1(\2 + 1) % 2]"),
    each_line("fragments from the wrong stage", r"tp_fragments\(tp_stage,", "tp_fragments(0,"),
    Operator("fragments before the barrier", _fragments_before_barrier),
    Operator("fragments before the rotation", _fragments_before_rotation),
    each_line("depth not counted", r"\+\+tp_depth;", ";"),
    each_line("rotation past the tiles", r"== tp_depth \?", "== TP_STAGES ?"),
    each_line("rotation one short", r"== tp_depth \?", "== tp_depth - 1 ?"),
    each_line("copies of one part only", r"% (\d+) == tp_part\)", r"% \1 == 0)"),
    each_line("advance with the first part", r"if \(tp_part == \d+\) {", "if (tp_part == 0) {"),
    each_line("advance with each part", r"if \(tp_part == \d+\) {", "{"),
)


def mutants(text: str) -> list[Mutant]:
    """All mutants of an emitted text that differ from it and from each other."""
    emitted = Emitted(text)
    found: dict[str, Mutant] = {}
    for operator in OPERATORS:
        for mutant in operator.apply(emitted):
            if mutant.text != text:
                found.setdefault(mutant.text, mutant)
    return list(found.values())
