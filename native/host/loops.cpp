#include "host/loops.hpp"

#include <atomic>
#include <bit>

#include "host/kernels.hpp"

namespace firsttouch {

namespace {
namespace kernels {
#pragma GCC diagnostic ignored "-Wunused-function"  // only chase_order is used
#include "prelude.host.h"
#include "common.h"
#include "chase.c"
}  // namespace kernels
}  // namespace

std::uintptr_t walk_host(std::uintptr_t p, std::size_t hops) {
    for (std::size_t i = 0; i < hops; i += 32) {
#pragma GCC unroll 32
        for (int u = 0; u < 32; ++u) p = *reinterpret_cast<const volatile std::uintptr_t*>(p);
    }
    return p;
}

ChaseOrder::ChaseOrder(std::size_t bytes, std::size_t stride, std::size_t group_bytes, std::uint64_t seed)
    : nodes(bytes / stride), key(seed * 0x9E3779B97F4A7C15ull + 1) {
    if (group_bytes > stride && bytes >= 2 * group_bytes) {
        group = group_bytes / stride;
        nodes = nodes / group * group;
        group_bits = static_cast<std::uint32_t>(std::bit_width(nodes / group - 1));
        inner_bits = static_cast<std::uint32_t>(std::bit_width(group - 1));
    }
    bits = static_cast<std::uint32_t>(std::bit_width(nodes - 1));
}

std::uint64_t ChaseOrder::node_at(std::uint64_t step) const {
    return kernels::chase_order(step % nodes, nodes, bits, group, group_bits, inner_bits, key);
}

namespace stream_avx512 {
StreamLoop find(StreamOp op, bool nontemporal);
}
namespace stream_avx2 {
StreamLoop find(StreamOp op, bool nontemporal);
}
namespace stream_baseline {
StreamLoop find(StreamOp op, bool nontemporal);
}

#if defined(__x86_64__)
StreamLoop stream_loop(StreamOp op, bool nontemporal) {
    if (__builtin_cpu_supports("avx512f")) return stream_avx512::find(op, nontemporal);
    if (__builtin_cpu_supports("avx2")) return stream_avx2::find(op, nontemporal);
    return stream_baseline::find(op, nontemporal);
}
const char* stream_instructions() {
    return __builtin_cpu_supports("avx512f") ? "avx512" : __builtin_cpu_supports("avx2") ? "avx2" : "baseline";
}
#else
StreamLoop stream_loop(StreamOp op, bool nontemporal) { return stream_baseline::find(op, nontemporal); }
const char* stream_instructions() { return "baseline"; }
#endif

int stream_bytes(StreamOp op) {
    constexpr int bytes[] = {16, 16, 24, 24, 8, 8};
    return bytes[static_cast<int>(op)];
}

}  // namespace firsttouch
