// STREAM's passes for one instruction set. CMake compiles this file once for each, with FIRSTTOUCH_ISA as the
// namespace.
#include "host/loops.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace firsttouch::FIRSTTOUCH_ISA {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t width = 8;
#elif defined(__AVX2__)
constexpr std::size_t width = 4;
#else
constexpr std::size_t width = 2;
#endif
using Vector = double __attribute__((vector_size(width * 8)));

inline void stream_store(double* to, Vector v) {
#if defined(__AVX512F__)
    _mm512_stream_pd(to, (__m512d)v);
#elif defined(__AVX2__)
    _mm256_stream_pd(to, (__m256d)v);
#elif defined(__SSE2__)
    _mm_stream_pd(to, (__m128d)v);
#elif defined(__aarch64__)
    asm volatile("stnp %d1, %d2, [%0]" ::"r"(to), "w"(v[0]), "w"(v[1]) : "memory");
#else
    *reinterpret_cast<Vector*>(to) = v;
#endif
}

inline void order_stores() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

template <StreamOp op, bool nontemporal>
void pass(double* a, const double* b, const double* c, double s, std::size_t first, std::size_t last, double* sum) {
    const auto load = [](const double* p) { return *reinterpret_cast<const Vector*>(p); };
    if constexpr (op == StreamOp::read) {
        Vector total[4] = {};  // four independent sums hide the latency of an addition
        std::size_t i = first;
        for (; i + 4 * width <= last; i += 4 * width)
#pragma GCC unroll 4
            for (std::size_t u = 0; u < 4; ++u) total[u] += load(b + i + u * width);
        for (; i < last; ++i) *sum += b[i];
        for (const Vector& part : total)
            for (std::size_t k = 0; k < width; ++k) *sum += part[k];
    } else {
        for (std::size_t i = first; i < last; i += 8)
#pragma GCC unroll 4
            for (std::size_t u = 0; u < 8; u += width) {
                Vector v;
                if constexpr (op == StreamOp::copy) v = load(b + i + u);
                if constexpr (op == StreamOp::scale) v = s * load(b + i + u);
                if constexpr (op == StreamOp::add) v = load(b + i + u) + load(c + i + u);
                if constexpr (op == StreamOp::triad) v = load(b + i + u) + s * load(c + i + u);
                if constexpr (op == StreamOp::write) v = Vector{} + s;
                if constexpr (nontemporal)
                    stream_store(a + i + u, v);
                else
                    *reinterpret_cast<Vector*>(a + i + u) = v;
            }
        if constexpr (nontemporal) order_stores();
    }
}

template <bool nontemporal>
StreamLoop choose(StreamOp op) {
    switch (op) {
    case StreamOp::copy:
        return pass<StreamOp::copy, nontemporal>;
    case StreamOp::scale:
        return pass<StreamOp::scale, nontemporal>;
    case StreamOp::add:
        return pass<StreamOp::add, nontemporal>;
    case StreamOp::triad:
        return pass<StreamOp::triad, nontemporal>;
    case StreamOp::read:
        return pass<StreamOp::read, nontemporal>;
    case StreamOp::write:
        return pass<StreamOp::write, nontemporal>;
    }
    return nullptr;
}

}  // namespace

StreamLoop find(StreamOp op, bool nontemporal) { return nontemporal ? choose<true>(op) : choose<false>(op); }

}  // namespace firsttouch::FIRSTTOUCH_ISA
