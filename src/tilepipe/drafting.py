"""A first problem file, from what the source shows: parameters, the tile loop's header, and a simple launch."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tree_sitter import Node

from tilepipe.diagnostics import Refusal
from tilepipe.job import Job
from tilepipe.opening import open_jobs
from tilepipe.options import Options
from tilepipe.problem import KernelDraft, draft_problem, size_names
from tilepipe.rewrite.launches import find_launches
from tilepipe.source.parse import span
from tilepipe.toolchain import Question

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod)  # those that a problem file has


def draft(path: str, options: Options) -> str | Refusal:
    """A first problem file for every kernel of a file. A problem file that is there is not looked at."""
    jobs = open_jobs(path, replace(options, device="cpu"), with_problem=False)
    if isinstance(jobs, Refusal):
        return jobs
    drafts = []
    for job in jobs:
        if job.kernel.template and job.instance is None:
            return job.which_instance
        parameters = job.toolchain.parameter_types(job.unit())
        if isinstance(parameters, Refusal):
            return parameters
        names = size_names(parameters)
        found = _launch(job, names) or _Launch()
        drafts.append(
            KernelDraft(
                job.kernel.name,
                parameters,
                found.grid,
                found.block,
                found.shared,
                tile=_tile(job, names),
                instantiate=job.instance,
            )
        )
    return draft_problem(drafts)


def _tile(job: Job, names: Mapping[str, str]) -> dict[str, int] | None:
    """The size that drives the tile loop and what one tile takes of it."""
    counter = job.tile_counter
    tile = counter.tile(job.tile_constants) if counter is not None else None
    return {names[tile[0]]: tile[1]} if tile is not None and tile[0] in names else None


@dataclass(frozen=True)
class _Launch:
    """A launch in expressions over the size names; empty and None where the source does not tell."""

    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str | None = None


def _launch(job: Job, names: Mapping[str, str]) -> _Launch | None:
    """The only launch of the job's kernel in its file, None where there are several or none.

    A host variable is taken for a size where it is what the launch passes for that size's parameter."""
    launches = find_launches(job.file, job.kernel)
    if len(launches) != 1:
        return None
    syntax = next(c for c in launches[0].children if c.type == "kernel_call_syntax")
    parts = [c for c in syntax.named_children if c.type != "comment"]
    passed = launches[0].child_by_field_name("arguments")
    if len(parts) < 2 or passed is None:
        return None
    given = [_text(job, c) for c in passed.named_children if c.type != "comment"]
    sizes = {a: names[p] for a, p in zip(given, job.kernel.parameters, strict=False) if p in names}
    grid, block = (_expressions(job, _dimensions(job, part), sizes) for part in parts[:2])
    shared = _expressions(job, [_text(job, parts[2])], sizes) if len(parts) > 2 else ()
    return _Launch(grid, block, shared[0] if shared and shared[0] != "0" else None)


def _text(job: Job, node: Node) -> str:
    return job.file.source.slice(span(node))


def _dimensions(job: Job, node: Node) -> list[str]:
    """The texts of `dim3(x, y)`, of the `dim3` variable's initialiser, or of the number itself."""
    if node.type == "identifier":
        found = [n for n in _walk(job.file.tree.root) if _declares(job, n, _text(job, node))]
        value = found[0].child_by_field_name(_VALUES[found[0].type]) if len(found) == 1 else None
        if value is not None:
            node = value
    if node.type == "call_expression" and _text(job, node).startswith("dim3"):
        node = node.child_by_field_name("arguments") or node
    if node.type in ("argument_list", "initializer_list", "parameter_list"):
        return [_text(job, c) for c in node.named_children if c.type != "comment"]
    return [_text(job, node)]


# Where a variable's value stands; `dim3 block(TILE, TILE);` parses as the declaration of a function.
_VALUES = {"init_declarator": "value", "function_declarator": "parameters"}


def _declares(job: Job, node: Node, name: str) -> bool:
    declarator = node.child_by_field_name("declarator") if node.type in _VALUES else None
    return declarator is not None and _text(job, declarator) == name


def _walk(root: Node) -> list[Node]:
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(node.named_children)
    return found


def _expressions(job: Job, texts: list[str], sizes: Mapping[str, str]) -> tuple[str, ...]:
    """The C expressions as a problem file writes them; empty unless all can be written."""
    made = [_expression(job, text, sizes) for text in texts]
    return tuple(e for e in made if e is not None) if None not in made and len(made) <= 3 else ()


def _expression(job: Job, text: str, sizes: Mapping[str, str]) -> str | None:
    try:
        tree = ast.parse(re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    constants = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - set(sizes)
    known = _constants(job, constants)

    def written(node: ast.expr) -> ast.expr | None:
        match node:
            case ast.Constant(value=int()):
                return node
            case ast.Name(id=name):
                if name in sizes:
                    return ast.Name(sizes[name])
                return ast.Constant(known[name]) if name in known else None
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
                ours, theirs = written(left), written(right)
                sign = ast.FloorDiv() if isinstance(op, ast.Div) else op
                return ast.BinOp(ours, sign, theirs) if ours is not None and theirs is not None else None
        return None

    made = written(tree)
    return None if made is None else ast.unparse(ast.fix_missing_locations(made))


def _constants(job: Job, names: set[str]) -> dict[str, int]:
    """The values of those names that the compiler knows inside the kernel."""
    at = job.kernel.body.start + 1
    asked = tuple(Question(name, "value", name, at) for name in sorted(names))
    answers = job.toolchain.answer(job.unit(), asked) if asked else {}
    if isinstance(answers, Refusal):
        return {}
    return {name: value for name, value in answers.items() if isinstance(value, int)}
