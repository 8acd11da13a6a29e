"""What well-known functions do: barriers, warp operations, asynchronous copies, pure arithmetic."""

from __future__ import annotations

import re

BARRIERS = frozenset(
    {"__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "__barrier_sync"}
)
READS = frozenset({"__ldg", "__ldcs", "__ldca", "__ldcg", "__ldlu", "__ldcv"})
ATOMICS = frozenset(
    f"atomic{what}" for what in ("Add", "Sub", "Min", "Max", "And", "Or", "Xor", "Exch", "CAS")
)
# They have effects of their own, but change nothing of the program's (on a device `printf` knows no `%n`).
BY_VALUE = frozenset({"printf", "assert"})
CASTS = frozenset({"reinterpret_cast", "static_cast", "const_cast"})
# Function -> indices of arguments that it (defines, reads memory through, writes memory through).
MATRIX = {
    "load_matrix_sync": ((0,), (1,), ()),
    "store_matrix_sync": ((), (), (0,)),
    "mma_sync": ((0,), (), ()),
    "bmma_sync": ((0,), (), ()),
    "fill_fragment": ((0,), (), ()),
}
_ASYNC = re.compile(
    r"^(__pipeline_\w+|memcpy_async|make_pipeline|wait_prior|producer_(acquire|commit)|consumer_(wait|release)"
    r"|cp_async\w*|tp_copy\w*|tp_commit|tp_wait)$"
)
_PURE = re.compile(
    r"^(make_\w+|__\w*2\w+|__h\w+|__f\w+_r[nzud]|__(mul24|umul24|mulhi|umulhi|sad|dp4a|dp2a_\w+|popc|clz|ffs|brev"
    r"|byte_perm|funnelshift_\w+|vadd\w*|vsub\w*|expf|exp10f|logf|log2f|log10f|sinf|cosf|tanf|powf|fdividef"
    r"|frcp_rn|fsqrt_rn|saturatef|int_as_float|float_as_int|uint_as_float|float_as_uint|ushort_as_half"
    r"|half_as_ushort|cvta_generic_to_shared|cvta_shared_to_generic|nv_cvt_\w+|lane_id)"
    r"|min|max|fmin|fmax|fminf|fmaxf|fma|fmaf|fabs|fabsf|abs|labs|sqrt|sqrtf|rsqrt|rsqrtf|exp|expf|exp2f?|log|logf"
    r"|log2f?|pow|powf|sin|sinf|cos|cosf|tan|tanf|tanh|tanhf|erf|erff|floor|floorf|ceil|ceilf|rint|rintf|round"
    r"|roundf|trunc|truncf|fmod|fmodf|hypot|hypotf|copysignf?|isnan|isinf|cbrtf?|float|double|int|unsigned|char"
    r"|short|long|bool|half|size_t|u?int(8|16|32|64)_t|u?char|__half|__half2|half2|__nv_bfloat16\w*|T|cdiv|div_up"
    r"|numeric_limits|get|move|forward)$"
)
_WARP = re.compile(r"^__(syncwarp|shfl\w*|ballot\w*|any\w*|all\w*|match_\w+|activemask|reduce_\w+_sync)$")


def is_async(name: str) -> bool:
    """Whether a call belongs to a pipeline made by hand: an asynchronous copy, its commit or its wait."""
    return bool(_ASYNC.match(name))


def is_pure(name: str) -> bool:
    """Whether a function only computes a value from the values of its arguments."""
    return bool(_PURE.match(name))


def is_warp(name: str) -> bool:
    """Whether a call exchanges values between the threads of a warp."""
    return bool(_WARP.match(name))
