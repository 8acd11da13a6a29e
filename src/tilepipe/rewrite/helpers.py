"""The device functions that an emitted file carries before its pipelined kernel."""

from __future__ import annotations

import re

from tilepipe.plan.types import Api

_COPY = """\
// Copies one element to shared memory asynchronously. 16 bytes bypass L1 (.cg); 4 and 8 bytes go through it (.ca).
template <class Element>
__device__ __forceinline__ void tp_copy(Element* to, const Element* from)
{
    static_assert(sizeof(Element) == 4 || sizeof(Element) == 8 || sizeof(Element) == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (sizeof(Element) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(Element)) : "memory");
}
"""

_COPY_OR_ZERO = """\
// Copies one element asynchronously where `in` holds, else fills it with zero and reads nothing.
template <class Element>
__device__ __forceinline__ void tp_copy_or_zero(Element* to, const Element* from, bool in)
{
    static_assert(sizeof(Element) == 4 || sizeof(Element) == 8 || sizeof(Element) == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int skip = !in;
    if constexpr (sizeof(Element) == 16)
        asm volatile("{ .reg .pred skip; setp.ne.s32 skip, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, skip; }"
                     :
                     : "r"(at), "l"(from), "r"(skip)
                     : "memory");
    else
        asm volatile("{ .reg .pred skip; setp.ne.s32 skip, %3, 0; cp.async.ca.shared.global [%0], [%1], %2, skip; }"
                     :
                     : "r"(at), "l"(from), "n"(sizeof(Element)), "r"(skip)
                     : "memory");
}
"""

_WIDE = """\
// Copies `Bytes` bytes (several elements) to shared memory asynchronously; both addresses are multiples of `Bytes`.
template <int Bytes>
__device__ __forceinline__ void tp_copy_wide(void* to, const void* from)
{
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (Bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(Bytes) : "memory");
}
"""

_WIDE_OR_ZERO = """\
// Copies `Bytes` bytes (several elements) to shared memory asynchronously where `in` holds, else fills them with zero
// and reads nothing; both addresses are multiples of `Bytes`.
template <int Bytes>
__device__ __forceinline__ void tp_copy_wide_or_zero(void* to, const void* from, bool in)
{
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int skip = !in;
    if constexpr (Bytes == 16)
        asm volatile("{ .reg .pred skip; setp.ne.s32 skip, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, skip; }"
                     :
                     : "r"(at), "l"(from), "r"(skip)
                     : "memory");
    else
        asm volatile("{ .reg .pred skip; setp.ne.s32 skip, %3, 0; cp.async.ca.shared.global [%0], [%1], %2, skip; }"
                     :
                     : "r"(at), "l"(from), "n"(Bytes), "r"(skip)
                     : "memory");
}
"""

_WIDE_UP_TO = """\
// Copies the first `bytes` of `Bytes` bytes to shared memory asynchronously and fills the rest with zero; both
// addresses are multiples of `Bytes`. Of 0 bytes nothing is read.
template <int Bytes>
__device__ __forceinline__ void tp_copy_wide_up_to(void* to, const void* from, int bytes)
{
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (Bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(Bytes), "r"(bytes)
                     : "memory");
}
"""

_STORE_WIDE = """\
// Stores an array of the thread's own to shared memory, `Bytes` bytes at a time; both addresses are multiples of them.
template <int Bytes, class Element, int Count>
__device__ __forceinline__ void tp_store_wide(Element* to, const Element (&from)[Count])
{
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "4, 8 or 16 bytes");
    static_assert(sizeof(from) % Bytes == 0, "a whole number of vectors");
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(from)) / Bytes; ++i) {
        if constexpr (Bytes == 16)
            reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
        else if constexpr (Bytes == 8)
            reinterpret_cast<uint2*>(to)[i] = reinterpret_cast<const uint2*>(from)[i];
        else
            reinterpret_cast<unsigned*>(to)[i] = reinterpret_cast<const unsigned*>(from)[i];
    }
}
"""

_ALIGNED = """\
// Whether a pointer is a multiple of `bytes`.
__device__ __forceinline__ bool tp_aligned(const void* p, unsigned bytes)
{
    return reinterpret_cast<unsigned long long>(p) % bytes == 0;
}
"""

_GROUPS = """\
// Ends a group of copies. Groups are counted by each thread for itself; an empty group counts too.
__device__ __forceinline__ void tp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the N newest groups of this thread are in flight.
template <int N>
__device__ __forceinline__ void tp_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
"""

_AT = """\
// A pointer into another stage: `bytes` further on.
template <class Element>
__device__ __forceinline__ Element* tp_at(Element* p, unsigned bytes)
{
    return reinterpret_cast<Element*>(reinterpret_cast<char*>(p) + bytes);
}
template <class Element>
__device__ __forceinline__ const Element* tp_at(const Element* p, unsigned bytes)
{
    return reinterpret_cast<const Element*>(reinterpret_cast<const char*>(p) + bytes);
}
__device__ __forceinline__ unsigned tp_at(unsigned address, unsigned bytes) { return address + bytes; }
"""

_DYNAMIC = """\
// The dynamic shared memory of this launch in bytes.
__device__ __forceinline__ unsigned tp_dynamic_bytes()
{
    unsigned bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}
"""

_SAME = """\
// Whether template arguments are the same: types as they are, other arguments as those of types of their own.
template <class A, class B>
constexpr bool tp_same = false;
template <class A>
constexpr bool tp_same<A, A> = true;
template <class...>
struct tp_types;
template <auto...>
struct tp_values;
template <template <class...> class...>
struct tp_templates;
"""

_PRIMITIVES = {
    "tp_copy": """\
// Copies one element to shared memory asynchronously.
template <class Element>
__device__ __forceinline__ void tp_copy(Element* to, const Element* from)
{
    __pipeline_memcpy_async(to, from, sizeof(Element));
}
""",
    "tp_copy_or_zero": """\
// Copies one element asynchronously where `in` holds, else fills it with zero and reads nothing.
template <class Element>
__device__ __forceinline__ void tp_copy_or_zero(Element* to, const Element* from, bool in)
{
    __pipeline_memcpy_async(to, from, sizeof(Element), in ? 0 : sizeof(Element));
}
""",
    "tp_copy_wide": """\
// Copies `Bytes` bytes (several elements) to shared memory asynchronously; both addresses are multiples of `Bytes`.
template <int Bytes>
__device__ __forceinline__ void tp_copy_wide(void* to, const void* from)
{
    __pipeline_memcpy_async(to, from, Bytes);
}
""",
    "tp_copy_wide_or_zero": """\
// Copies `Bytes` bytes (several elements) to shared memory asynchronously where `in` holds, else fills them with zero;
// both addresses are multiples of `Bytes`.
template <int Bytes>
__device__ __forceinline__ void tp_copy_wide_or_zero(void* to, const void* from, bool in)
{
    __pipeline_memcpy_async(to, from, Bytes, in ? 0 : Bytes);
}
""",
    "tp_commit": """\
// Ends a group of copies. Groups are counted by each thread for itself; an empty group counts too.
__device__ __forceinline__ void tp_commit() { __pipeline_commit(); }
// Waits until at most the N newest groups of this thread are in flight. The primitives do not tell the compiler that
// memory changes, hence the fence.
template <int N>
__device__ __forceinline__ void tp_wait()
{
    __pipeline_wait_prior(N);
    asm volatile("" ::: "memory");
}
""",
}

_OBJECT = {
    "tp_copy": """\
// Copies one element to shared memory asynchronously.
template <class Pipe, class Element>
__device__ __forceinline__ void tp_copy(Pipe& pipe, Element* to, const Element* from)
{
    cuda::memcpy_async(to, from, cuda::aligned_size_t<sizeof(Element)>(sizeof(Element)), pipe);
}
""",
    "tp_copy_or_zero": """\
// Copies one element asynchronously where `in` holds, else stores zero; `cuda::memcpy_async` cannot fill.
template <class Pipe, class Element>
__device__ __forceinline__ void tp_copy_or_zero(Pipe& pipe, Element* to, const Element* from, bool in)
{
    if (in)
        cuda::memcpy_async(to, from, cuda::aligned_size_t<sizeof(Element)>(sizeof(Element)), pipe);
    else
        *to = Element{};
}
""",
}

# What each API replaces of the helpers in PTX, and the headers that it needs.
_INSTEAD: dict[str, tuple[dict[str, str], str]] = {
    "ptx": ({}, ""),
    "primitives": (_PRIMITIVES, "#include <cuda_pipeline.h>\n"),
    "cuda-pipeline": (_OBJECT, "#include <cuda/pipeline>\n"),
    "cuda-pipeline-block": (_OBJECT, "#include <cooperative_groups.h>\n#include <cuda/pipeline>\n"),
}

# Guard macro, a name that the part declares, text.
_PARTS = (
    ("TILEPIPE_COPY", "tp_copy", _COPY),
    ("TILEPIPE_COPY_OR_ZERO", "tp_copy_or_zero", _COPY_OR_ZERO),
    ("TILEPIPE_COPY_WIDE", "tp_copy_wide", _WIDE),
    ("TILEPIPE_COPY_WIDE_OR_ZERO", "tp_copy_wide_or_zero", _WIDE_OR_ZERO),
    ("TILEPIPE_COPY_WIDE_UP_TO", "tp_copy_wide_up_to", _WIDE_UP_TO),
    ("TILEPIPE_STORE_WIDE", "tp_store_wide", _STORE_WIDE),
    ("TILEPIPE_ALIGNED", "tp_aligned", _ALIGNED),
    ("TILEPIPE_GROUPS", "tp_commit", _GROUPS),
    ("TILEPIPE_AT", "tp_at", _AT),
    ("TILEPIPE_DYNAMIC", "tp_dynamic_bytes", _DYNAMIC),
    ("TILEPIPE_SAME", "tp_same", _SAME),
)


def helper_text(emitted: str, source: str, api: Api = "ptx") -> str:
    """The helpers that an emitted text calls and the file does not carry yet, each guarded by a macro of its own."""
    called = set(re.findall(r"\btp_\w+", emitted))
    instead, headers = _INSTEAD[api]
    parts = [
        f"#ifndef {guard}\n#define {guard}\n{instead.get(name, text)}#endif\n"
        for guard, name, text in _PARTS
        if name in called and f"#define {guard}\n" not in source
    ]
    return "// ---- tilepipe helpers ----\n" + headers + "".join(parts) + "\n" if parts else ""
