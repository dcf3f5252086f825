// The CPU's measuring loops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firsttouch {

// Follows `hops` (a multiple of 32) dependent loads from address p; returns the address reached.
std::uintptr_t walk_host(std::uintptr_t p, std::size_t hops);

// The node visited at step `step` of a chase: the closed form of kernels/chase.c.
struct ChaseOrder {
    std::uint64_t nodes = 0;
    std::uint32_t bits = 0;
    std::uint64_t group = 0;
    std::uint32_t group_bits = 0;
    std::uint32_t inner_bits = 0;
    std::uint64_t key = 0;

    // nodes of `stride` bytes in `bytes`; grouped by `group_bytes` (0: one random cycle over all).
    ChaseOrder(std::size_t bytes, std::size_t stride, std::size_t group_bytes, std::uint64_t seed);
    std::uint64_t place(std::uint64_t step) const;
};

enum class StreamOp : std::uint8_t { copy, scale, add, triad, read, write };

// One pass over elements [first, last) (multiples of 8, 64-byte aligned arrays): a = b, a = s b, a = b + c,
// a = b + s c, *sum += b, a = s; with ordinary or non-temporal stores. The fastest instruction set of this processor.
using StreamLoop = void (*)(double* a, const double* b, const double* c, double s, std::size_t first, std::size_t last,
                            double* sum);
StreamLoop stream_loop(StreamOp op, bool nontemporal);
const char* stream_instructions();  // "avx512", "avx2" or "baseline"
// Bytes that one element of the operation reads plus writes.
int stream_bytes(StreamOp op);

}  // namespace firsttouch
