"""What the launch of a kernel in its own file says, in the expressions of a problem file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from tilepipe.diagnostics import Diagnostic, Refusal
from tilepipe.job import Job
from tilepipe.kernel.poolnames import has_dynamic_shared
from tilepipe.launch import OUT_OF_SHARED, Finding
from tilepipe.problem import place_in, size_names
from tilepipe.problem.expressions import evaluate
from tilepipe.rewrite.launches import asked_shared, find_launches
from tilepipe.source.parse import span
from tilepipe.toolchain import Question

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod)  # those that a problem file has
_SUFFIX = re.compile(r"\b(\d+)[uUlL]+\b")
_SIZEOF = re.compile(r"\bsizeof\s*\(([^()]+)\)")
_CAST = re.compile(
    r"\b(?:static_cast\s*<\s*(?:std::)?(?:size_t|int|unsigned|unsigned int)\s*>|size_t)\s*(?=\()"
)
_DEPTH = 4  # variables made of variables


@dataclass(frozen=True)
class HostLaunch:
    """A launch in expressions over the size names; empty and None where the source does not tell."""

    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str | None = None


def host_launch(job: Job, names: Mapping[str, str]) -> HostLaunch:
    """The only launch of the job's kernel in its file; nothing where there are several or none.

    `names` are the size names by parameter. A host variable is taken for a size where it is what the launch passes for
    that size's parameter, and else for what it is initialised with, where it keeps that.
    """
    launches = find_launches(job.file, job.kernel)
    if len(launches) != 1:
        return HostLaunch()
    syntax = next(c for c in launches[0].children if c.type == "kernel_call_syntax")
    parts = [c for c in syntax.named_children if c.type != "comment"]
    passed = launches[0].child_by_field_name("arguments")
    if len(parts) < 2 or passed is None:
        return HostLaunch()
    given = [_text(job, c) for c in passed.named_children if c.type != "comment"]
    sizes = {a: names[p] for a, p in zip(given, job.kernel.parameters, strict=False) if p in names}
    host = _Host(job, _around(launches[0]), sizes)
    grid, block = (host.expressions(host.dimensions(part)) for part in parts[:2])
    shared = host.expressions([_text(job, parts[2])]) if len(parts) > 2 else ()
    return HostLaunch(grid, block, shared[0] if shared and shared[0] != "0" else None)


def shared_memory_told(job: Job, findings: Iterable[Finding], code: str) -> tuple[Diagnostic, ...]:
    """A note at `shared` of the problem file, or where it is missing, where the kernel ran out of the block's shared
    memory and has dynamic shared memory."""
    problem = job.problem
    outside = any(f.kind == OUT_OF_SHARED for f in findings)
    if problem is None or not outside or not has_dynamic_shared(job.file, job.kernel):
        return ()
    place = place_in(job.problem_path, job.kernel.name, "shared")
    least = min(evaluate(problem.shared, sizes) for sizes in problem.sizes.values())
    given = "is missing or 0" if least == 0 else f"may be too little, {least} bytes at least"
    asked = asked_shared(job.file, job.kernel)
    says = f", and line {asked[0][0]} of {job.path} asks for `{asked[0][1]}`" if len(asked) == 1 else ""
    what = f"`{job.kernel.name}` has dynamic shared memory: `shared` {given}{says}"
    return (Diagnostic(code, "note", what, place, "", f"write {wanted_shared(job)}"),)


def wanted_shared(job: Job) -> str:
    """The line of the problem file that gives a launch what the one in the job's file asks for."""
    parameters = job.toolchain.parameter_types(job.unit())
    known = None if isinstance(parameters, Refusal) else host_launch(job, size_names(parameters)).shared
    sizes = set(next(iter(job.problem.sizes.values()))) if job.problem is not None else set()
    fits = known is not None and set(re.findall(r"[A-Za-z_]\w*", known)) <= sizes
    return f'`shared = "{known}"`' if fits else "as `shared` the bytes that launches ask for"


def _around(node: Node) -> Node:
    """The function that a node stands in."""
    while node.parent is not None and node.type != "function_definition":
        node = node.parent
    return node


def _text(job: Job, node: Node) -> str:
    return job.file.source.slice(span(node))


# Where a variable's value stands; `dim3 block(TILE, TILE);` parses as the declaration of a function.
_VALUES = {"init_declarator": "value", "function_declarator": "parameters"}


@dataclass(frozen=True)
class _Host:
    """The function around a launch; `sizes` are size names by what the launch passes for them."""

    job: Job
    function: Node
    sizes: Mapping[str, str]

    def dimensions(self, node: Node) -> list[str]:
        """The texts of `dim3(x, y)`, of the `dim3` variable's initialiser, or of the number itself."""
        if node.type == "identifier":
            node = self._value(_text(self.job, node)) or node
        if node.type == "call_expression" and _text(self.job, node).startswith("dim3"):
            node = node.child_by_field_name("arguments") or node
        if node.type in ("argument_list", "initializer_list", "parameter_list"):
            return [_text(self.job, c) for c in node.named_children if c.type != "comment"]
        return [_text(self.job, node)]

    def expressions(self, texts: list[str]) -> tuple[str, ...]:
        """The C expressions as a problem file writes them; empty unless all can be written."""
        made = [self._expression(text, _DEPTH) for text in texts]
        written = tuple(ast.unparse(ast.fix_missing_locations(e)) for e in made if e is not None)
        return written if None not in made and len(made) <= 3 else ()

    def _value(self, name: str) -> Node | None:
        """What the only variable of a name is initialised with, where nothing changes it."""
        declared = [n for n in _walk(self.function) if self._declares(n, name)]
        if len(declared) != 1 or any(self._changes(n, name) for n in _walk(self.function)):
            return None
        return declared[0].child_by_field_name(_VALUES[declared[0].type])

    def _declares(self, node: Node, name: str) -> bool:
        declarator = node.child_by_field_name("declarator") if node.type in _VALUES else None
        return declarator is not None and _text(self.job, declarator) == name

    def _changes(self, node: Node, name: str) -> bool:
        """Whether a node assigns to a variable, steps it, or takes its address."""
        field = {
            "assignment_expression": "left",
            "update_expression": "argument",
            "pointer_expression": "argument",
        }
        changed = node.child_by_field_name(field[node.type]) if node.type in field else None
        return changed is not None and _text(self.job, changed) == name

    def _expression(self, text: str, depth: int) -> ast.expr | None:
        bytes_of: list[str] = []

        def numbered(found: re.Match[str]) -> str:
            bytes_of.append(found[0])
            return f"tp_sizeof_{len(bytes_of) - 1}"

        plain = _CAST.sub("", _SIZEOF.sub(numbered, _SUFFIX.sub(r"\1", text.strip())))
        try:
            tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        names = {n.id: n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in self.sizes}
        names |= {f"tp_sizeof_{n}": sizeof for n, sizeof in enumerate(bytes_of)}
        known = self._constants(names)

        def written(node: ast.expr) -> ast.expr | None:
            match node:
                case ast.Constant(value=int()):
                    return node
                case ast.Name(id=name):
                    if name in self.sizes:
                        return ast.Name(self.sizes[name])
                    if any(self._declares(n, name) for n in _walk(self.function)):
                        return self._variable(name, depth)
                    return ast.Constant(known[name]) if name in known else None
                case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
                    ours, theirs = written(left), written(right)
                    sign = ast.FloorDiv() if isinstance(op, ast.Div) else op
                    return ast.BinOp(ours, sign, theirs) if ours is not None and theirs is not None else None
            return None

        return written(tree)

    def _variable(self, name: str, depth: int) -> ast.expr | None:
        value = self._value(name) if depth else None
        return self._expression(_text(self.job, value), depth - 1) if value is not None else None

    def _constants(self, names: Mapping[str, str]) -> dict[str, int]:
        """The values of those expressions, by name, that the compiler knows inside the kernel."""
        at = self.job.kernel.body.start + 1
        asked = tuple(Question(name, "value", names[name], at) for name in sorted(names))
        answers = self.job.toolchain.answer(self.job.unit(), asked) if asked else {}
        if isinstance(answers, Refusal):
            return {}
        return {name: value for name, value in answers.items() if isinstance(value, int)}


def _walk(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.named_children)
