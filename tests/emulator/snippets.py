"""Runs a few PTX instructions on arrays: one thread an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilepipe.emulator import Buffer, Execution, Program, load_program

Array = npt.NDArray[Any]

# The PTX load type and the register prefix for each element size in bytes.
_LOADS = {1: ("u8", "%b"), 2: ("b16", "%h"), 4: ("b32", "%r"), 8: ("b64", "%d")}
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def program(text: str, name: str = "k") -> Program:
    """A loaded kernel; the test fails with the refusal's message otherwise."""
    loaded = load_program(text, name)
    assert isinstance(loaded, Program), loaded
    return loaded


def launch(
    loaded: Program, arrays: Sequence[Array], block: int, *, dynamic: int = 0, **options: Any
) -> Execution:
    """Runs one block over the arrays."""
    done = loaded.run((1, 1, 1), (block, 1, 1), dynamic, [Buffer(a) for a in arrays], **options)
    assert isinstance(done, Execution), done
    return done


def elementwise(body: str, inputs: Sequence[Array], out: npt.DTypeLike, count: int = 1) -> tuple[Array, ...]:
    """Runs `body` with a, b, c, … as `{0}`, `{1}` … and results as `{o}` (`{o}`, `{o1}`, … for several).

    Registers are named by size: %b0 (in 16 bits) for bytes, %h, %r, %d; f32 and f64 use the same bits.
    Scratch: %p0-%p3, %x0-%x3 (32 bits), %y0-%y3 (64), %z0-%z3 (16), %f0-%f3, %g0-%g3 (f64).
    """
    n = len(inputs[0])
    outputs = [np.zeros(n, out) for _ in range(count)]
    names, code = {}, []
    for i, a in enumerate([*inputs, *outputs]):
        kind, prefix = _LOADS[a.dtype.itemsize]
        register = f"{prefix}{i}"
        code.append(f"ld.param.u64 %a{i}, [k_{i}];")
        code.append(f"mad.lo.u64 %a{i}, %t, {a.dtype.itemsize}, %a{i};")
        if i < len(inputs):
            names[str(i)] = register
            code.append(f"ld.global.{kind} {register}, [%a{i}];")
        else:
            j = i - len(inputs)
            names[f"o{j or ''}"] = register
    text = body
    for key in sorted(names, key=len, reverse=True):
        text = text.replace("{" + key + "}", names[key])
    code.append(text)
    for j, a in enumerate(outputs):
        i = len(inputs) + j
        kind, prefix = _LOADS[a.dtype.itemsize]
        code.append(f"st.global.{kind} [%a{i}], {prefix}{i};")
    parameters = ", ".join(f".param .u64 k_{i}" for i in range(len(inputs) + count))
    lines = "\n".join(code)
    ptx = f"""{HEADER}
.visible .entry k({parameters})
{{
.reg .b64 %a<12>, %t, %d<12>, %y<4>;
.reg .b32 %r<12>, %x<4>, %ct, %nt, %tt;
.reg .b16 %h<12>, %b<12>, %z<4>;
.reg .f32 %f<4>;
.reg .f64 %g<4>;
.reg .pred %p<4>;
mov.u32 %ct, %ctaid.x; mov.u32 %nt, %ntid.x; mov.u32 %tt, %tid.x;
mad.lo.u32 %tt, %ct, %nt, %tt;
cvt.u64.u32 %t, %tt;
{lines}
ret;
}}
"""
    loaded = program(ptx)
    done = loaded.run(
        (n, 1, 1),
        (1, 1, 1),
        0,
        [Buffer(np.ascontiguousarray(a)) for a in inputs] + [Buffer(a) for a in outputs],
    )
    assert isinstance(done, Execution), done
    assert not done.findings, done.findings
    return tuple(outputs)


def words(seed: int, n: int, dtype: npt.DTypeLike) -> Array:
    """Random bit patterns with every edge value of the type first."""
    kind = np.dtype(dtype)
    bits = np.dtype(f"u{kind.itemsize}")
    top = (1 << (8 * kind.itemsize)) - 1
    half = top >> 1
    edges = [0, 1, 2, top, top - 1, half, half + 1, half - 1, 31, 32, 33, 255, 256 & top, 0x55 & top]
    random = np.random.default_rng(seed).integers(0, top, n - len(edges), bits, endpoint=True)
    values = np.concatenate([np.array(edges, bits), random])
    return np.random.default_rng(seed + 1000).permutation(values).view(kind)


def floats(seed: int, n: int, dtype: npt.DTypeLike) -> Array:
    """Ordinary values, and the special ones of the type: zeros, infinities, NaN, subnormals, extremes."""
    kind = np.dtype(dtype)
    info = np.finfo(kind)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5]
    special += [
        float(info.tiny),
        float(info.max),
        float(info.smallest_subnormal),
        -float(info.smallest_subnormal),
    ]
    rng = np.random.default_rng(seed)
    scale = np.exp2(rng.integers(-8, 9, n - len(special)).astype(np.float64))
    values = np.concatenate([np.array(special), rng.standard_normal(n - len(special)) * scale])
    return rng.permutation(values.astype(kind))
