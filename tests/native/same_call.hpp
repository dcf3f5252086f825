// Whether the core's declaration of a vendor's function is called as the vendor's own.
#pragma once

#include <type_traits>

namespace firsttouch {

// Whether two types are passed alike: pointers for pointers, whole numbers and enumerations of one size.
template <class A, class B>
constexpr bool alike = std::is_pointer_v<A>&& std::is_pointer_v<B> ? true
                       : (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>)
                           ? sizeof(A) == sizeof(B)
                           : std::is_same_v<A, B>;
template <>
constexpr bool alike<void, void> = true;

template <class A, class B>
struct SameCall : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), S (*)(B...)>
    : std::bool_constant<alike<R, S> && (alike<A, B> && ...)> {
};

static_assert(SameCall<int (*)(void*, int), unsigned (*)(const char*, unsigned)>::value);
static_assert(!SameCall<int (*)(void*, int), int (*)(void*, long)>::value);
static_assert(!SameCall<int (*)(void*), int (*)(void*, int)>::value);

}  // namespace firsttouch
