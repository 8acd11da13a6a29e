"""Reading problem files: every zoo file, and one clear diagnostic with its line for every kind of fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilepipe.diagnostics import Diagnostic, Refusal
from tilepipe.problem import ArraySpec, Problem, ScalarSpec, load_problem, parse_problem

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "tests" / "zoo").glob("*.toml"), *(ROOT / "examples").glob("*.toml")])

GOOD = """\
schema = 1

[kernels.mm]
instantiate = "mm<64, 8>"
grid   = ["cdiv(N, 64)", "cdiv(M, 64)"]
block  = ["32", 4]
shared = "4*N"
flops  = "2*M*N"
args = [
  { name = "A", in  = ["M", "N"], range = [-8, 8] },   # a brace } in a comment
  { name = "idx", in = ["M"], min = "-1", max = "N", offset = 1 },
  { name = "C", out = ["M", "N"], dtype = "bfloat16" },
  { value = "M" }, { value = 0.5 },
]
reference = "A * 2 # } not the end"
reference_at = ["small"]
rtol = 1e-3
tile = { N = 8 }

[kernels.mm.sizes]
small  = { M = 3, N = 16 }
short0 = { M = 3, N = 0 }

[kernels.mm.expect]
outcome = "pipeline"
"""


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_file_of_the_zoo_loads(path: Path) -> None:
    problem = load_problem(str(path))
    assert isinstance(problem, Problem), problem
    source = path.with_suffix(".cu").read_text()
    for name, kernel in problem.kernels.items():
        assert name in source and kernel.args and "small" in kernel.sizes


def test_all_fields() -> None:
    problem = parse_problem(GOOD, "mm.toml")
    assert isinstance(problem, Problem)
    mm = problem.kernels["mm"]
    assert (mm.instantiate, mm.grid, mm.block) == ("mm<64, 8>", ("cdiv(N, 64)", "cdiv(M, 64)"), ("32", "4"))
    assert mm.args[0] == ArraySpec("A", "in", ("M", "N"), low=-8, high=8)
    assert mm.args[1] == ArraySpec("idx", "in", ("M",), index_min="-1", index_max="N", offset=1)
    assert mm.args[2] == ArraySpec("C", "out", ("M", "N"), dtype="bfloat16")
    assert mm.args[3:] == (ScalarSpec("M"), ScalarSpec("0.5"))
    assert mm.reference_at == ("small",) and mm.rtol == 1e-3 and mm.atol == 0.0
    assert mm.sizes["short0"] == {"M": 3, "N": 0} and mm.tile == {"N": 8}
    assert mm.expect == {"outcome": "pipeline"} and mm.shared == "4*N" and mm.bytes is None


def diagnostic(text: str) -> Diagnostic:
    answer = parse_problem(text, "mm.toml")
    assert isinstance(answer, Refusal) and len(answer.diagnostics) == 1
    return answer.diagnostics[0]


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "message"),
    [
        ("schema = 1", "schema = 2", "TP112", 1, "schema = 1"),
        ("schema = 1", "schema = 1\nscheme = 3", "TP112", 2, "unknown key `scheme`"),
        ("grid   =", "gird   =", "TP112", 5, "unknown key `gird`"),
        ('grid   = ["cdiv(N, 64)", "cdiv(M, 64)"]', "", "TP112", 3, "has no `grid`"),
        ('["cdiv(N, 64)", "cdiv(M, 64)"]', "[]", "TP112", 5, "1 to 3"),
        ("cdiv(N, 64)", "cdiv(Q, 64)", "TP113", 5, "`Q` is no size name"),
        ("cdiv(N, 64)", "N / 64", "TP113", 5, "use `//`"),
        ("cdiv(N, 64)", "64 // N", "TP113", 5, "at size `short0`: divides by zero"),
        ('"4*N"', "1.5", "TP112", 7, "not an integer expression"),
        ("2*M*N", "2*M*", "TP113", 8, "not an expression"),
        ("range = [-8, 8]", "range = [8, -8]", "TP112", 10, "`range`"),
        ("range = [-8, 8]", "rang = [-8, 8]", "TP112", 10, "unknown key `rang`"),
        ("range = [-8, 8]", 'range = [-8, 8], fill = "nan"', "TP112", 10, "exclude"),
        ("range = [-8, 8]", 'fill = "ones"', "TP112", 10, "unknown fill"),
        ('in  = ["M", "N"]', 'in = ["M"], out = ["N"]', "TP112", 10, "says 2 of"),
        ('in  = ["M", "N"]', "in = []", "TP112", 10, "not a list"),
        ('max = "N", ', "", "TP112", 11, "`min` needs `max`"),
        ("offset = 1", "offset = -1", "TP112", 11, "`offset`"),
        ('name = "idx"', 'name = "A"', "TP112", 11, "`A` is taken"),
        ('name = "idx"', 'name = "M"', "TP112", 11, "`M` is taken"),
        ('name = "idx"', 'name = "a-b"', "TP112", 11, "identifier"),
        ("bfloat16", "float17", "TP112", 12, "unknown dtype"),
        ('dtype = "bfloat16"', "range = [0, 1]", "TP112", 12, "is an output"),
        ('{ value = "M" }', '{ value = "M", dtype = "int32" }', "TP112", 13, "unknown key `dtype`"),
        ('{ value = "M" }', '{ value = "L" }', "TP113", 13, "`L` is no size name"),
        ('{ value = "M" }', "{ value = true }", "TP112", 13, "no expression"),
        ('reference_at = ["small"]', 'reference_at = ["big"]', "TP112", 16, "not there"),
        ("rtol = 1e-3", "rtol = -1", "TP112", 17, "`rtol`"),
        ("tile = { N = 8 }", "tile = { Z = 8 }", "TP112", 18, "names `Z`, which is no size"),
        ("tile = { N = 8 }", "tile = { N = 0 }", "TP112", 18, "takes 0 of `N`"),
        ("tile = { N = 8 }", "tile = { M = 1, N = 8 }", "TP112", 18, "not one size name"),
        ("M = 3, N = 0", "M = 3", "TP112", 22, "other names"),
        ("N = 0", "N = -1", "TP112", 22, "`N` of `short0`"),
        ("N = 0", "N = 0.5", "TP112", 22, "`N` of `short0`"),
        ('"mm<64, 8>"', "7", "TP112", 4, "not a text"),
        ("rtol = 1e-3", "rtol = ", "TP111", 17, "not a TOML file"),
        ("rtol = 1e-3", "rtol = 1e-3\nrtol = 2", "TP111", 18, "not a TOML file"),
    ],
)
def test_one_diagnostic_at_the_right_line(old: str, new: str, code: str, line: int, message: str) -> None:
    assert old in GOOD
    found = diagnostic(GOOD.replace(old, new, 1))
    assert found.place is not None
    assert (found.code, found.severity, found.place.line) == (code, "error", line), found
    assert message in found.message and found.help
    assert found.place.column >= 1  # a caret may stand just behind the last character
    assert found.place.column - 1 + found.place.width <= len(found.place.text) + 1


def test_the_caret_covers_the_argument() -> None:
    place = diagnostic(GOOD.replace("bfloat16", "float17")).place
    assert place is not None
    assert (
        place.text[place.column - 1 :][: place.width] == '{ name = "C", out = ["M", "N"], dtype = "float17" }'
    )


def test_the_second_of_two_arguments_on_a_line() -> None:
    place = diagnostic(GOOD.replace("{ value = 0.5 }", '{ value = "X" }')).place
    assert place is not None and place.text[place.column - 1 :].startswith('{ value = "X" }')


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"# \xff\n")
    for name in ("absent.toml", "latin.toml", "."):
        answer = load_problem(str(tmp_path / name))
        assert isinstance(answer, Refusal) and answer.diagnostics[0].code == "TP111" and answer.exit_code == 2


def test_a_file_without_kernels() -> None:
    assert "names no kernel" in diagnostic("schema = 1\n").message
    assert diagnostic("").code == "TP112"
    assert "not a table" in diagnostic("schema = 1\nkernels = 3\n").message
    assert "not a table" in diagnostic("schema = 1\n[kernels]\nmm = 3\n").message
