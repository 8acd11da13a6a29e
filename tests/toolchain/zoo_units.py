"""The zoo's kernels as units."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tilepipe.problem import Problem, load_problem
from tilepipe.toolchain import Unit

DIRECTORY = Path(__file__).parent.parent / "zoo"


@lru_cache(maxsize=1)
def units() -> dict[str, Unit]:
    """Every kernel of the zoo by name."""
    found: dict[str, Unit] = {}
    for path in sorted(DIRECTORY.glob("*.toml")):
        problem = load_problem(str(path))
        assert isinstance(problem, Problem)
        source = path.with_suffix(".cu")
        for name, kernel in problem.kernels.items():
            found[name] = Unit(source.read_text(), str(source), name, kernel.instantiate)
    return found
