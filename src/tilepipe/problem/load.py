"""TOML text → `Problem`, or one clear diagnostic with the line that is wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from tilepipe.diagnostics import Diagnostic, Refusal, error
from tilepipe.problem.dtypes import DTYPE_NAMES, named_dtype
from tilepipe.problem.expressions import ExpressionError, evaluate, evaluate_number
from tilepipe.problem.locate import place_at, place_of
from tilepipe.problem.types import ArraySpec, KernelProblem, Problem, ScalarSpec, Sizes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KERNEL_KEYS = (
    *("instantiate", "grid", "block", "shared", "args", "sizes", "flops", "bytes"),
    *("reference", "reference_at", "rtol", "atol", "tile", "expect"),
)
_ARRAY_KEYS = ("name", "in", "out", "inout", "dtype", "range", "fill", "min", "max", "offset")
_FILLS = ("arange", "zeros", "nan")
_ROLES = ("in", "out", "inout")


class _BadProblemError(Exception):
    """Ends the reading at the first fault; never leaves this module."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def load_problem(path: str) -> Problem | Refusal:
    """The problem file at `path`, or why not.

    TP111: unreadable or not TOML; TP112: not the format; TP113: an expression that has no value.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        return error(
            "TP111",
            f"cannot read the problem file `{path}`: {failure}",
            help="give its path with --problem, or write a first one with `tilepipe init`",
        )
    return parse_problem(text, path)


def parse_problem(text: str, path: str) -> Problem | Refusal:
    """`load_problem` for a text already at hand; `path` names it in messages and anchors its references."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        at = re.search(r"line (\d+), column (\d+)", str(failure))
        offset = len(text.rstrip())  # "at end of document"
        if at:
            offset = (
                sum(len(line) for line in text.splitlines(keepends=True)[: int(at[1]) - 1]) + int(at[2]) - 1
            )
        reason = re.sub(r"\s*\(at .*\)$", "", str(failure))
        return error(
            "TP111",
            f"not a TOML file: {reason}",
            place_at(path, text, offset),
            help="correct the syntax here",
        )
    try:
        return _Reader(text, path).problem(data)
    except _BadProblemError as bad:
        return Refusal((bad.diagnostic,))


class _Reader:
    """Reads the parsed tables of one file, knowing where each stands."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path

    def fail(
        self,
        message: str,
        help: str,
        table: str,
        key: str | None = None,
        item: int | None = None,
        *,
        code: str = "TP112",
    ) -> NoReturn:
        place = place_of(self.path, self.text, table, key, item)
        raise _BadProblemError(Diagnostic(code, "error", message, place, help=help))

    def problem(self, data: Mapping[str, Any]) -> Problem:
        if data.get("schema") != 1:
            self.fail(
                "the problem file does not say `schema = 1`", "begin the file with `schema = 1`", "", "schema"
            )
        self.known(data, ("schema", "kernels", "expect"), "", "the file")
        kernels = self.table(data.get("kernels", {}), "kernels", "`kernels`")
        if not kernels:
            self.fail("the problem file names no kernel", "add a table `[kernels.NAME]`", "")
        return Problem(
            self.path,
            MappingProxyType({name: self.kernel(name, body) for name, body in kernels.items()}),
            self.expectation(data, ""),
        )

    def expectation(self, body: Mapping[str, Any], table: str) -> Mapping[str, Any] | None:
        return self.table(body["expect"], table, "`expect`", "expect") if "expect" in body else None

    def table(self, value: Any, table: str, what: str, key: str | None = None) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self.fail(
                f"{what} is not a table", "write it as `{ NAME = value, … }` or under a header", table, key
            )
        return value

    def known(
        self,
        body: Mapping[str, Any],
        keys: Iterable[str],
        table: str,
        what: str,
        key: str = "",
        *,
        item: int | None = None,
    ) -> None:
        for unknown in body.keys() - set(keys):
            self.fail(
                f"unknown key `{unknown}` in {what}",
                f"known keys: {', '.join(keys)}",
                table,
                key or unknown,
                item,
            )

    def kernel(self, name: str, body: Any) -> KernelProblem:
        table = f"kernels.{name}"
        body = self.table(body, table, f"`{table}`")
        self.known(body, _KERNEL_KEYS, table, f"kernel `{name}`")
        for key in ("grid", "block", "args", "sizes"):
            if key not in body:
                self.fail(f"kernel `{name}` has no `{key}`", f"add `{key} = …` to `[{table}]`", table)
        sizes = self.sizes(body["sizes"], table)
        problem = KernelProblem(
            name=name,
            instantiate=self.text_or_none(body, "instantiate", table),
            grid=self.dimensions(body, "grid", table),
            block=self.dimensions(body, "block", table),
            shared=self.expression(body.get("shared", 0), table, "shared"),
            args=self.args(body["args"], table),
            sizes=sizes,
            flops=self.expression(body["flops"], table, "flops") if "flops" in body else None,
            bytes=self.expression(body["bytes"], table, "bytes") if "bytes" in body else None,
            reference=self.text_or_none(body, "reference", table),
            reference_at=self.reference_at(body, table, sizes),
            rtol=self.tolerance(body, "rtol", table),
            atol=self.tolerance(body, "atol", table),
            tile=self.tile(body, table, sizes),
            expect=self.expectation(body, table),
        )
        self.check_names(problem, table)
        self.check_expressions(problem, table)
        return problem

    def text_or_none(self, body: Mapping[str, Any], key: str, table: str) -> str | None:
        value = body.get(key)
        if value is not None and not (isinstance(value, str) and value.strip()):
            self.fail(f"`{key}` is not a text", f'write `{key} = "…"`', table, key)
        return value

    def expression(self, value: Any, table: str, key: str, item: int | None = None) -> str:
        if isinstance(value, bool) or not isinstance(value, int | str):
            self.fail(
                f"`{value}` is not an integer expression",
                'write it as a text, e.g. "cdiv(N, 64)"',
                table,
                key,
                item,
            )
        return str(value)

    def dimensions(self, body: Mapping[str, Any], key: str, table: str) -> tuple[str, ...]:
        value = body[key]
        if not isinstance(value, list) or not 1 <= len(value) <= 3:
            self.fail(
                f"`{key}` is not a list of 1 to 3 expressions",
                f'write `{key} = ["…", "…"]`, x first',
                table,
                key,
            )
        return tuple(self.expression(v, table, key) for v in value)

    def sizes(self, value: Any, table: str) -> Mapping[str, Sizes]:
        where = f"{table}.sizes"
        sets = self.table(value, where, f"`{where}`")
        if not sets:
            self.fail("no size set is given", "add at least `small = { … }`", where)
        for name, names in sets.items():
            for key, size in self.table(names, where, f"size set `{name}`", name).items():
                if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                    self.fail(
                        f"size `{key}` of `{name}` is {size!r}", "sizes are integers from 0", where, name
                    )
            if names.keys() != next(iter(sets.values())).keys():
                self.fail(
                    f"size set `{name}` has other names than the first",
                    "give every set the same names",
                    where,
                    name,
                )
        return MappingProxyType({name: MappingProxyType(dict(names)) for name, names in sets.items()})

    def args(self, value: Any, table: str) -> tuple[ArraySpec | ScalarSpec, ...]:
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            self.fail(
                "`args` is not a list of `{ … }`",
                "one entry for each parameter of the kernel, in order",
                table,
                "args",
            )
        return tuple(self.argument(entry, i, table) for i, entry in enumerate(value))

    def argument(self, entry: Mapping[str, Any], i: int, table: str) -> ArraySpec | ScalarSpec:
        if "value" in entry:
            self.known(entry, ("value",), table, f"scalar argument {i}", "args", item=i)
            value = entry["value"]
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                self.fail(
                    f"the value of argument {i} is no expression", 'e.g. { value = "0.5" }', table, "args", i
                )
            return ScalarSpec(str(value))
        roles = [role for role in _ROLES if role in entry]
        if len(roles) != 1:
            self.fail(
                f"argument {i} says {len(roles)} of in, out, inout and value",
                'arrays: { name = "A", in = ["M", "K"] }; scalars: { value = "M" }',
                table,
                "args",
                i,
            )
        self.known(entry, _ARRAY_KEYS, table, f"array argument {i}", "args", item=i)
        return self.array(entry, roles[0], i, table)

    def array(self, entry: Mapping[str, Any], role: Any, i: int, table: str) -> ArraySpec:
        def fail(message: str, help: str) -> NoReturn:
            self.fail(f"argument {i}: {message}", help, table, "args", i)

        name, shape = entry.get("name"), entry[role]
        if not isinstance(name, str) or not name.isidentifier():
            fail("an array needs a name that is an identifier", 'e.g. name = "A"')
        if not isinstance(shape, list) or not shape:
            fail(f"the shape of `{name}` is not a list", f'e.g. {role} = ["M", "K"]')
        dtype = entry.get("dtype")
        if dtype is not None and (not isinstance(dtype, str) or named_dtype(dtype) is None):
            fail(f"unknown dtype {dtype!r}", f"one of {', '.join(DTYPE_NAMES)}")
        contents = [key for key in ("range", "fill", "max") if key in entry]
        if len(contents) > 1 or ("min" in entry and "max" not in entry):
            fail("`range`, `fill` and `max` exclude each other, and `min` needs `max`", "keep one of them")
        if role == "out" and contents:
            fail(f"`{name}` is an output and takes no `{contents[0]}`", "outputs are poisoned; use `inout`")
        bounds = entry.get("range", [None, None])
        if "range" in entry and not (
            isinstance(bounds, list)
            and len(bounds) == 2
            and all(type(b) is int for b in bounds)
            and bounds[0] < bounds[1]
        ):
            fail(f"`range` is {bounds}", "two integers: range = [low, high), low < high")
        if entry.get("fill") not in (None, *_FILLS):
            fail(f"unknown fill {entry['fill']!r}", f"one of {', '.join(_FILLS)}")
        offset = entry.get("offset", 0)
        if type(offset) is not int or offset < 0:
            fail(f"`offset` is {offset!r}", "a number of elements from 0")
        return ArraySpec(
            name=name,
            role=role,
            shape=tuple(self.expression(v, table, "args", i) for v in shape),
            dtype=dtype,
            low=bounds[0],
            high=bounds[1],
            fill=entry.get("fill"),
            index_min=self.expression(entry["min"], table, "args", i) if "min" in entry else None,
            index_max=self.expression(entry["max"], table, "args", i) if "max" in entry else None,
            offset=offset,
        )

    def tolerance(self, body: Mapping[str, Any], key: str, table: str) -> float:
        value = body.get(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            self.fail(f"`{key}` is {value!r}", "a number from 0", table, key)
        return float(value)

    def reference_at(
        self, body: Mapping[str, Any], table: str, sizes: Mapping[str, Sizes]
    ) -> tuple[str, ...] | None:
        value = body.get("reference_at")
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(name, str) and name in sizes for name in value):
            self.fail(
                "`reference_at` names a size set that is not there",
                f"known: {', '.join(sizes)}",
                table,
                "reference_at",
            )
        return tuple(value)

    def tile(
        self, body: Mapping[str, Any], table: str, sizes: Mapping[str, Sizes]
    ) -> Mapping[str, int] | None:
        value = body.get("tile")
        if value is None:
            return None
        names = next(iter(sizes.values()))
        form = f"`tile = {{ SIZE = 64 }}`, say, where SIZE is {' or '.join(names)}" if names else "remove it"
        if not isinstance(value, dict) or len(value) != 1:
            self.fail("`tile` is not one size name and what a tile takes of it", form, table, "tile")
        ((name, step),) = value.items()
        if name not in names:
            self.fail(f"`tile` names `{name}`, which is no size of this kernel", form, table, "tile")
        if type(step) is not int or step < 1:
            self.fail(f"`tile` says that a tile takes {step!r} of `{name}`", "a number from 1", table, "tile")
        return MappingProxyType({name: step})

    def check_names(self, problem: KernelProblem, table: str) -> None:
        """Array names are unique and differ from size names, so a reference means one thing by a name."""
        taken = set(next(iter(problem.sizes.values())))
        for i, spec in enumerate(problem.args):
            if isinstance(spec, ArraySpec):
                if spec.name in taken:
                    self.fail(
                        f"the name `{spec.name}` is taken",
                        "array and size names must all differ",
                        table,
                        "args",
                        i,
                    )
                taken.add(spec.name)

    def check_expressions(self, problem: KernelProblem, table: str) -> None:
        """Every expression has a value at every size set; a case asks later what the value must be."""
        integers = [(text, "grid", None) for text in problem.grid] + [
            (text, "block", None) for text in problem.block
        ]
        integers += [
            (text, key, None) for key in ("shared", "flops", "bytes") if (text := getattr(problem, key))
        ]
        numbers = []
        for i, spec in enumerate(problem.args):
            if isinstance(spec, ScalarSpec):
                numbers.append((spec.value, "args", i))
            else:
                texts = (*spec.shape, *(t for t in (spec.index_min, spec.index_max) if t is not None))
                integers += [(text, "args", i) for text in texts]  # type: ignore[misc]
        for function, entries in ((evaluate, integers), (evaluate_number, numbers)):
            for text, key, item in entries:
                for size, names in problem.sizes.items():
                    try:
                        function(text, names)
                    except ExpressionError as bad:
                        self.fail(
                            f"`{text}` at size `{size}`: {bad}",
                            "correct the expression",
                            table,
                            key,
                            item,
                            code="TP113",
                        )
