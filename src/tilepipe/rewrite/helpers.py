"""The device functions that an emitted file carries before its pipelined kernel."""

from __future__ import annotations

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
// The same where `in` holds, zero otherwise; `valid` is an address that may be named when nothing is read.
template <class Element>
__device__ __forceinline__ void tp_copy(Element* to, const Element* from, bool in, const void* valid)
{
    static_assert(sizeof(Element) == 4 || sizeof(Element) == 8 || sizeof(Element) == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const void* source = in ? static_cast<const void*>(from) : valid;
    const int bytes = in ? static_cast<int>(sizeof(Element)) : 0;
    if constexpr (sizeof(Element) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(source), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :
                     : "r"(at), "l"(source), "n"(sizeof(Element)), "r"(bytes)
                     : "memory");
}
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

_WIDE = """\
// Copies `Bytes` bytes (several elements) to shared memory asynchronously where `in` holds, else fills them with zero;
// both addresses are multiples of `Bytes`, and `valid` is one that may be named when nothing is read.
template <int Bytes>
__device__ __forceinline__ void tp_copy_wide(void* to, const void* from, bool in, const void* valid)
{
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "4, 8 or 16 bytes");
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const void* source = in ? from : valid;
    const int bytes = in ? Bytes : 0;
    if constexpr (Bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(source), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(source), "n"(Bytes), "r"(bytes)
                     : "memory");
}
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
// Whether a pointer is a multiple of `bytes`.
__device__ __forceinline__ bool tp_aligned(const void* p, unsigned bytes)
{
    return reinterpret_cast<unsigned long long>(p) % bytes == 0;
}
"""

_PARTS = (("COPY", _COPY), ("WIDE", _WIDE), ("AT", _AT), ("DYNAMIC", _DYNAMIC))


def helper_text(wanted: frozenset[str]) -> str:
    """The helpers among "COPY", "WIDE", "AT" and "DYNAMIC", each guarded so that a file may carry them twice."""
    parts = [
        f"#ifndef TILEPIPE_{name}\n#define TILEPIPE_{name}\n{text}#endif\n"
        for name, text in _PARTS
        if name in wanted
    ]
    return "// ---- tilepipe helpers ----\n" + "".join(parts) + "\n" if parts else ""
