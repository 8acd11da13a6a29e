"""What the emulator does not run it refuses, with the instruction and its line; it never guesses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from snippets import HEADER, launch, program

from tilepipe.diagnostics import Refusal
from tilepipe.emulator import Buffer, jit, load_program


def refused(text: str, name: str = "k") -> str:
    answer = load_program(text, name)
    assert isinstance(answer, Refusal)
    (diagnostic,) = answer.diagnostics
    assert (diagnostic.code, diagnostic.severity) == ("TP300", "error")
    return diagnostic.message


def kernel(body: str) -> str:
    return f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .b64 %a, %b; .reg .b32 %x, %y, %z; .reg .b16 %h; .reg .f32 %f; .reg .f64 %g; .reg .pred %p;
.shared .align 16 .b8 room[64];
{body}
ret;
}}
"""


@pytest.mark.parametrize(
    "instruction",
    [
        "tex.2d.v4.f32.f32 {%f, %f, %f, %f}, [%a, {%f, %f}];",
        "frobnicate.u32 %x, %y;",
        "add.frob %x, %y, %z;",
        "add.frob.u32 %x, %y, %z;",
        "min.xorsign.abs.f32 %f, %f, %f;",
        "ld.global.L2::cache_hint.b32 %x, [%a], %b;",
        "fence.proxy.async;",
        "add.u32 %x, %y;",
        "mov.b64 {%x, %y}, {%z, %x};",
        "st.global.u32 %x, %y;",
        "bar.arrive 1;",
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.s4 {%x}, [%x], 32;",
        "vadd4.u32.u32.u32 %x, %y, %z, %x;",
        "cp.async.bulk.shared.global [%x], [%a], 16, [%x];",
        "cp.async.cg.shared.global [%x], [%a], 8;",
        "cp.async.ca.shared.global [%x], [%a], 2;",
        "wgmma.fence.sync.aligned;",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%x}, {%x}, {%x}, {%x};",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%x}, {%x}, {%x}, {%x};",
        "shfl.bfly.b32 %x, %y, 1, 31;",
        "mov.u32 %x, %pm0;",
        "mov.u64 %a, elsewhere;",
        "ld.global.v4.f64 {%g, %g, %g, %g}, [%a];",
        "fma.rz.f64 %g, %g, %g, %g;",
        "cvt.rm.bf16.f32 %h, %f;",
        "cvt.rn.satfinite.e4m3x2.f32 %h, %f, %f;",
        "atom.global.add.noftz.v2.f16 {%h, %h}, [%a], {%h, %h};",
        "atom.global.max.f32 %f, [%a], %f;",
        "prmt.b32.f4e %x, %y, %z, %x;",
        "bra NOWHERE;",
        "brx.idx %x, targets;",
        "setmaxnreg.inc.sync.aligned.u32 64;",
        "redux.sync.max.f32 %f, %f, -1;",
    ],
)
def test_instruction(instruction: str) -> None:
    text = kernel(instruction)
    message = refused(text)
    line = 1 + text[: text.index(instruction)].count("\n")
    assert f"PTX line {line}" in message


@pytest.mark.parametrize(
    "broken", ["", "nonsense", HEADER + ".entry k(", HEADER + ".entry k() { add.u32 %x, %x, 1;", "#"]
)
def test_text_that_is_no_ptx(broken: str) -> None:
    refused(broken)


def test_unknown_kernel() -> None:
    assert "no kernel other" in refused(kernel(""), "other")


def test_impossible_launches() -> None:
    loaded = program(kernel(""))
    data = np.zeros(4, np.float32)
    cases = {
        "threads": ((1, 1, 1), (1025, 1, 1), 0, [Buffer(data)]),
        "shared": ((1, 1, 1), (1, 1, 1), 300_000, [Buffer(data)]),
        "arguments": ((1, 1, 1), (1, 1, 1), 0, []),
        "takes 8 bytes": ((1, 1, 1), (1, 1, 1), 0, [np.int32(1)]),
        "contiguous": ((1, 1, 1), (1, 1, 1), 0, [Buffer(data[::2])]),
    }
    for says, arguments in cases.items():
        answer = loaded.run(*arguments)  # type: ignore[arg-type]
        assert isinstance(answer, Refusal)
        assert answer.diagnostics[0].code == "TP302"
        assert says in answer.diagnostics[0].message


def test_missing_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jit, "_IR", tmp_path / "runtime.ll")
    answer = load_program(kernel(""), "k")
    assert isinstance(answer, Refusal)
    assert answer.diagnostics[0].code == "TP303"


def test_processor_without_fused_multiply_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "missing_features", lambda: "fma")
    answer = load_program(kernel(""), "k")
    assert isinstance(answer, Refusal)
    assert answer.diagnostics[0].code == "TP301"


def test_empty_grid_runs_nothing() -> None:
    done = program(kernel("trap;")).run((0, 1, 1), (1, 1, 1), 0, [Buffer(np.zeros(1))])
    assert not isinstance(done, Refusal)
    assert (done.blocks_run, done.findings) == (0, ())


def test_scoped_names_and_line_information() -> None:
    """Inline assembly scopes: registers and labels of the same name in two blocks are different."""
    scope = """{ .reg .u32 t; .reg .pred q;
mov.u32 t, %x; L: add.u32 t, t, 1; setp.lt.u32 q, t, %y; @q bra L; mov.u32 %x, t; }"""
    text = kernel(f"""
.loc 1 12 3
ld.param.u64 %a, [p]; mov.u32 %x, 0; mov.u32 %y, 5;
{scope}
mov.u32 %y, 9;
{scope}
.loc 2 99 1, function_name $L__info0, inlined_at 1 14 5
st.global.u32 [%a], %x; st.global.u32 [%a+8], %x;
""")
    out = np.zeros(1, np.uint32)
    (found,) = launch(program(text), [out], 1).findings
    assert out[0] == 9
    assert found.lines == (14,)
