// Compares the core's declaration of a vendor's function with the vendor's, as far as a call depends on it.
#pragma once

#include <type_traits>

namespace firsttouch {

// True if values of both types are passed in the same way: two pointers, or integers and enumerations of one size.
template <class A, class B>
constexpr bool compatible = std::is_pointer_v<A>&& std::is_pointer_v<B> ? true
                            : (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>)
                                ? sizeof(A) == sizeof(B)
                                : std::is_same_v<A, B>;
template <>
constexpr bool compatible<void, void> = true;

template <class A, class B>
struct CompatibleSignature : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct CompatibleSignature<R (*)(A...), S (*)(B...)>
    : std::bool_constant<compatible<R, S> && (compatible<A, B> && ...)> {
};

static_assert(CompatibleSignature<int (*)(void*, int), unsigned (*)(const char*, unsigned)>::value);
static_assert(!CompatibleSignature<int (*)(void*, int), int (*)(void*, long)>::value);
static_assert(!CompatibleSignature<int (*)(void*), int (*)(void*, int)>::value);

}  // namespace firsttouch
