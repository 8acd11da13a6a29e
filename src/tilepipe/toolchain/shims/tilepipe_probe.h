// What probes are made of: a function whose own name, spelled by the compiler, says a type.
#pragma once
namespace tilepipe_probe {
template <class Type>
struct bare {
    using type = Type;
};
template <class Type>
struct bare<Type&> : bare<Type> {};
template <class Type>
struct bare<Type&&> : bare<Type> {};
template <class Type>
struct bare<const Type> : bare<Type> {};
template <class Type>
struct bare<volatile Type> : bare<Type> {};
template <class Type>
struct bare<const volatile Type> : bare<Type> {};
template <class Type>
struct bare<Type* __restrict__> : bare<Type*> {};
template <class Type>
struct bare<Type* const __restrict__> : bare<Type*> {};

template <class Type>
struct pointee {
    using type = void;
};
template <class Type>
struct pointee<Type*> : bare<Type> {};

template <int Key, class Type>
__device__ __noinline__ const char* type()
{
    return __PRETTY_FUNCTION__;
}

constexpr long long no_integer = -0x7fffffffffffffff - 1;
// Integers and enumerations only. A floating constant is not a whole number: it has the answer that stands for none.
template <class Type>
__host__ __device__ constexpr long long integer(Type value)
{
    return static_cast<long long>(value);
}
__host__ __device__ constexpr long long integer(float) { return no_integer; }
__host__ __device__ constexpr long long integer(double) { return no_integer; }
__host__ __device__ constexpr long long integer(long double) { return no_integer; }

// Whether template arguments are the same: types as they are, other arguments as those of types of their own.
template <class A, class B>
constexpr bool same = false;
template <class A>
constexpr bool same<A, A> = true;
template <class...>
struct types;
template <auto...>
struct values;
template <template <class...> class...>
struct templates;

// Two types per parameter: its own at the even key, what it points to at the odd one.
template <int Key>
__device__ void parameters()
{
}
template <int Key, class First, class... Rest>
__device__ void parameters()
{
    using First_ = typename bare<First>::type;
    asm volatile("// %0" ::"l"(type<Key, First_>()));
    asm volatile("// %0" ::"l"(type<Key + 1, typename pointee<First_>::type>()));
    parameters<Key + 2, Rest...>();
}
template <class... Types>
__device__ void parameters_of(void (**)(Types...))
{
    parameters<0, Types...>();
}
}  // namespace tilepipe_probe

#ifdef __CUDACC_RTC__
// NVRTC has no code for these without optimisation, and nobody runs what is made here.
namespace tilepipe_probe {
#define TILEPIPE_DOT(name, type, first, second) \
    inline __device__ type name(first, second, type sum) { return sum; }
TILEPIPE_DOT(dp4a, int, int, int)
TILEPIPE_DOT(dp4a, int, char4, char4)
TILEPIPE_DOT(dp4a, unsigned int, unsigned int, unsigned int)
TILEPIPE_DOT(dp4a, unsigned int, uchar4, uchar4)
TILEPIPE_DOT(dp2a, int, int, int)
TILEPIPE_DOT(dp2a, int, short2, char4)
TILEPIPE_DOT(dp2a, unsigned int, unsigned int, unsigned int)
TILEPIPE_DOT(dp2a, unsigned int, ushort2, uchar4)
#undef TILEPIPE_DOT
}  // namespace tilepipe_probe
#define __dp4a tilepipe_probe::dp4a
#define __dp2a_lo tilepipe_probe::dp2a
#define __dp2a_hi tilepipe_probe::dp2a
#endif
