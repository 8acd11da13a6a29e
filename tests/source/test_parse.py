"""The masked parse: offsets stay those of the file, nothing is lost, real kernels parse without an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter
from hypothesis import given, settings
from hypothesis import strategies as st

from tilepipe.source import SourceFile, mask, parse
from tilepipe.source.lexical import closing, lexemes

ZOO = sorted((Path(__file__).parent.parent / "zoo").glob("*.cu"))

# Fragments whose concatenations meet every rule of the lexer and the mask, nested in every order.
FRAGMENTS = st.sampled_from(
    [
        "#pragma unroll\n",
        "\n#pragma omp \\\n  for\n",
        "__align__(16) ",
        "alignas(sizeof(int)*(2)) ",
        "__restrict__ ",
        "__launch_bounds__((BM / TM) * 2)",
        "__launch_bounds__(",
        "// a __restrict__ b\n",
        "/* __align__(8) \n */",
        '"__align__(1)"',
        'R"x(__restrict__ )" )x"',
        "'('",
        "'\\''",
        "1'000",
        "0x1p-3f",
        "float* __restrict__ p;\r\n",
        "é ",
        "{",
        "}",
        "(",
        ")",
        "\\\n",
        '"',
        "'",
        "#define QUAL __device__ __forceinline__\n",
        "QUAL ",
        "a<b>>>c",
        "__shared__ float s[4];\n",
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=12).map("".join) | st.text(max_size=60)


def leaves(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    if not node.children:
        yield node
    for child in node.children:
        yield from leaves(child)


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_masking_keeps_every_offset_and_line(text: str) -> None:
    data = text.encode()
    masked = mask(data)
    assert len(masked) == len(data)
    for before, after in zip(data, masked, strict=True):
        assert after == before or (after == ord(" ") and before not in b"\r\n")


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_lexemes_cover_everything_but_white_space(text: str) -> None:
    data = text.encode()
    at = 0
    for lexeme in lexemes(data):
        assert lexeme.end > lexeme.start >= at
        assert not data[at : lexeme.start].strip()
        at = lexeme.end
    assert not data[at:].strip()


@pytest.mark.parametrize("path", ZOO, ids=lambda p: p.stem)
def test_zoo_parses_without_an_error_and_without_loss(path: Path) -> None:
    source = SourceFile(path.name, path.read_text())
    tree = parse(source)
    assert tree.errors() == ()
    masked = mask(source.data)
    at = 0
    for leaf in leaves(tree.root):
        assert not masked[at : leaf.start_byte].strip(), "text between two leaves"
        at = leaf.end_byte
    assert not masked[at:].strip()
    assert tree.text_of(tree.root) == source.data[tree.root.start_byte : tree.root.end_byte].decode()


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void __launch_bounds__((BM / TM) * (BN / TN), 2) k(const float* __restrict__ p) { }",
        "struct __align__(16) S { float x[4]; };",
        "struct alignas(alignof(float4)) S { float x[4]; };",
        "__device__ void f() { __shared__ __align__(16) float s[3]; for (;;)\n#pragma unroll\n for (;;) ; }",
        "#define INL __device__ __forceinline__ /* of ours */\nINL int f(int x) { return x; }",
        "__device__ void f() { extern __shared__ __align__(128) unsigned char smem[]; }",
        "#define F(x) { int a = x; /* one */ \\\n  int b; /* two\n three */ \\\n  int c; }\nint f() { F(1) return 0; }",
        "void h() { k<<<dim3(1, 2), 256, 0, s>>>(p); }",
        'void h() { asm volatile("cp.async.wait_group %0;\\n" :: "n"(N - 1) : "memory"); }',
    ],
)
def test_cuda_forms_parse(text: str) -> None:
    assert parse(SourceFile("a.cu", text)).errors() == ()


def test_a_broken_text_tells_where() -> None:
    source = SourceFile("a.cu", "int a;\nvoid f( { }\n")
    (first, *_) = parse(source).errors()
    assert source.line_of(first.start) == 2


def test_qualifiers_that_carry_meaning_stay() -> None:
    data = b"#define SHARED __shared__\n__global__ void k() { SHARED float a; __shared__ float b; }"
    assert mask(data) == data


def test_a_macro_goes_on_behind_its_comments() -> None:
    """The grammar ends a directive at a block comment; what follows would then be read as code of the kernel."""
    text = "#define F(x) { int a = x; /* one */ \\\n  int b = a; /* two\n three */ \\\n  int c; }\nint z;\n"
    tree = parse(SourceFile("a.cu", text))
    kinds = [node.type for node in tree.root.children]
    assert kinds == ["preproc_function_def", "declaration"]
    assert "three" in tree.text_of(tree.root.children[0]) and "int c; }" in tree.text_of(
        tree.root.children[0]
    )
    quoted = b'#define S "/* no */" // neither /* this\nint z;'
    assert mask(quoted) == quoted


def test_masked_words_stay_in_comments_and_literals() -> None:
    data = b'// __restrict__\nconst char* s = "__align__(4)"; /* #pragma\n#pragma x\n*/'
    assert mask(data) == data


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("(a)", "(a)"),
        ("(')', \")\", /* ) */ x) y)", "(')', \")\", /* ) */ x)"),
        ("{ (1'000) [2] }", "{ (1'000) [2] }"),
        ("(a", None),
        ("(a]", None),
    ],
)
def test_closing_bracket(text: str, inside: str | None) -> None:
    end = closing(text.encode(), 0)
    assert (None if end is None else text[:end]) == inside


def test_closing_needs_a_bracket() -> None:
    with pytest.raises(ValueError, match="no bracket"):
        closing(b"a", 0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("float v(t[i]);", "initializer_list"),
        ("const float* q(t), v(t[i][j]);", "initializer_list"),
        ("int x(a * b);", "initializer_list"),
        ("T v(a, b[2]);", "initializer_list"),
        ("for (int j(k); j < n; ++j) { }", "initializer_list"),
        ("const float* q(&t[0][0]);", "initializer_list"),
        ("const float* q(t + k), *const r(t - k * 3);", "initializer_list"),
        ("float& q(*p->x);", "initializer_list"),
        ("const float* q((const float*)t);", "initializer_list"),
        ("const float* from(a + k * 128 + i);", "initializer_list"),
        ("// why\n float* q(t + 1), r(t[0] + 2);", "initializer_list"),
        ("for (const float* p(t + 1); p < q; ++p) { }", "initializer_list"),
        ("const float* g(const float*, int n);", "parameter_list"),
        ("float v(3.0f);", "argument_list"),
        ("float g();", "parameter_list"),
        ("float g(int);", "parameter_list"),
        ("float g(T x);", "parameter_list"),
        ("void g(T);", "parameter_list"),
        ("extern float g(T);", "parameter_list"),
        ("struct S { float g(T); };", "parameter_list"),
    ],
)
def test_initialisers_in_parentheses_are_none_of_a_function(text: str, kind: str) -> None:
    tree = parse(SourceFile("a.cu", f"void f() {{ {text} }}"))
    assert tree.errors() == ()
    found = {n.type for n in nodes(tree.root) if n.start_byte >= len("void f() { ")}
    lists = {"initializer_list", "argument_list", "parameter_list"}
    assert found & lists == {kind}
    assert tree.text_of(tree.root) == tree.source.text


def test_a_function_whose_parameters_do_not_parse_is_none_that_is_initialised() -> None:
    tree = parse(SourceFile("a.cu", "int z; float* f(T + x) { return 0; }"))
    assert tree.errors() and not any(n.type == "initializer_list" for n in nodes(tree.root))


def test_declarations_of_functions_stay_outside_of_functions() -> None:
    tree = parse(SourceFile("a.cu", "float g(T); namespace q { float h(T); }"))
    assert not any(n.type == "initializer_list" for n in nodes(tree.root))


def nodes(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    yield node
    for child in node.named_children:
        yield from nodes(child)
