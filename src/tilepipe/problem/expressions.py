"""Integer expressions over size names: `+ - * // %`, parentheses, `cdiv`, `min`, `max`, and nothing else.

The text is parsed with `ast` and walked over a closed list of node types; nothing is ever handed to `eval`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

_MAX_LENGTH = 1000  # keeps the parser's recursion far from its limit

Number = int | float


class ExpressionError(ValueError):
    """What is wrong with one expression. Stays inside this room: its callers turn it into a `Refusal`."""


def cdiv(a: int, b: int) -> int:
    """The least integer not below a ÷ b."""
    return -(-a // b)


_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {"cdiv": cdiv, "min": min, "max": max}


def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"longer than {_MAX_LENGTH} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError("not an expression of `+ - * // % ( )`, `cdiv`, `min`, `max`") from None


def _call(node: ast.Call, names: Mapping[str, int]) -> Number:
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name not in _FUNCTIONS:
        raise ExpressionError(f"`{name}` is no function here; there are cdiv, min and max")
    wanted = "two arguments" if name == "cdiv" else "at least two arguments"
    if node.keywords or len(node.args) < 2 or (name == "cdiv" and len(node.args) != 2):
        raise ExpressionError(f"`{name}` takes {wanted}")
    return _FUNCTIONS[name](*(_walk(argument, names) for argument in node.args))


def _walk(node: ast.expr, names: Mapping[str, int]) -> Number:
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return value  # type: ignore[return-value]
        case ast.Name(id=name):
            if name not in names:
                known = ", ".join(names) or "none"
                raise ExpressionError(f"`{name}` is no size name (sizes: {known})")
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_walk(left, names), _walk(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_walk(operand, names)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _walk(operand, names)
        case ast.Call():
            return _call(node, names)
        case ast.BinOp(op=ast.Div()):
            raise ExpressionError("`/` is not integer arithmetic; use `//` or `cdiv(a, b)`")
    raise ExpressionError(f"`{ast.unparse(node)}` is not integer arithmetic")


def evaluate_number(text: str, names: Mapping[str, int]) -> Number:
    """The value of a scalar argument's expression, where numbers may be floats (`"0.125"`, `"-1.25"`)."""
    try:
        return _walk(_parse(text), names)
    except ZeroDivisionError:
        raise ExpressionError("divides by zero") from None
    except OverflowError:
        raise ExpressionError("is too large") from None


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The value of an integer expression. Raises `ExpressionError` with the reason otherwise."""
    value = evaluate_number(text, names)
    if not isinstance(value, int):
        raise ExpressionError("is a float; sizes, shapes and launches are integers")
    return value


def size_names(text: str) -> frozenset[str]:
    """The size names that `text` mentions; raises `ExpressionError` if it does not parse."""
    tree = _parse(text)
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions
    )
