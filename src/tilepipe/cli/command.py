"""Commands from functions: groups of options are declared once and arrive as one `Options` value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import typer

from tilepipe.cli.guard import exit_code_of
from tilepipe.cli.options import build_options

Group = Mapping[str, tuple[Any, Any]]  # parameter name → typer annotation and default


def command(app: typer.Typer, *groups: Group) -> Callable[[Callable[..., int]], Callable[..., None]]:
    """Make a function a command of `app`, under its name and with its docstring as help.

    With groups, its first parameter receives the `Options` that they and the flags after `--` make. The
    others carry typer annotations and are the command's own. What it returns is the exit code.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., None]:
        own = list(inspect.signature(function).parameters.values())[1 if groups else 0 :]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for group in groups
            for name, (annotation, default) in group.items()
        ]
        context = inspect.Parameter(
            "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
        )

        @functools.wraps(function)
        def wrapper(context: typer.Context, **given: Any) -> None:
            named = {parameter.name: given.pop(parameter.name) for parameter in shared}

            def call() -> int:
                options = [build_options(context.obj or (), **named)] if groups else []
                return function(*options, **given)

            raise typer.Exit(exit_code_of(call))

        parameters = [context, *own, *shared]
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command()(wrapper)
        return wrapper

    return decorate
