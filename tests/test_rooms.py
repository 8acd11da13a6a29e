"""The rooms of docs/architecture.md: who may import whom, and how large a file may grow."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tilepipe"
MAX_LINES = 420
ABOVE_ALL = "diagnostics"

DOORS = (PACKAGE / "__init__.py", PACKAGE / "__main__.py")  # they lead to the rooms, and hold nothing
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path not in DOORS)


def rooms_in_order() -> list[str]:
    """The rooms as the picture in docs/architecture.md lists them, from upstream to downstream."""
    picture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    return [ABOVE_ALL, *re.findall(r"^\s+[│▼] (\w+)(?:/|\.py)\s", picture, re.MULTILINE)]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import of another part of tilepipe, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "(relative import)"
        elif isinstance(node, ast.ImportFrom) and node.module == "tilepipe":
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name != "__version__")
        else:
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for module in modules:
                if module.startswith("tilepipe."):
                    yield node.lineno, module.split(".")[1]


def test_the_picture_names_every_room() -> None:
    assert sorted(set(map(room_of, FILES)) - set(rooms_in_order())) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_rooms_above_it(path: Path) -> None:
    order = rooms_in_order()
    allowed = order[: order.index(room_of(path)) + 1]
    wrong = [f"line {line}: {room}" for line, room in imported_rooms(path) if room not in allowed]
    assert wrong == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MAX_LINES
