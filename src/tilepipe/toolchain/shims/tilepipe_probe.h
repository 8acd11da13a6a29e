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

// Integers and enumerations only: a floating constant is not a whole number.
template <class Type>
__host__ __device__ constexpr long long integer(Type value)
{
    return static_cast<long long>(value);
}
__host__ __device__ constexpr long long integer(float) = delete;
__host__ __device__ constexpr long long integer(double) = delete;
__host__ __device__ constexpr long long integer(long double) = delete;

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

// The compiler has no code for these without optimisation, and nobody runs what is made here.
namespace tilepipe_probe {
template <class First, class Second, class Third>
__device__ Third dot(First, Second, Third sum)
{
    return sum;
}
}  // namespace tilepipe_probe
#define __dp4a(a, b, c) tilepipe_probe::dot(a, b, c)
#define __dp2a_lo(a, b, c) tilepipe_probe::dot(a, b, c)
#define __dp2a_hi(a, b, c) tilepipe_probe::dot(a, b, c)
