// Sizes, differences and offsets.
#pragma once
typedef long ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
struct alignas(16) max_align_t {
    long long integer;
    double real;
};
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
namespace std {
using ::max_align_t;
using ::nullptr_t;
using ::ptrdiff_t;
using ::size_t;
enum class byte : unsigned char {};
}  // namespace std
