// The CPU's measuring loops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firsttouch {

// Follows a chain of `hops` dependent loads (a multiple of 32) from address p. Returns the address reached.
std::uintptr_t walk_host(std::uintptr_t p, std::size_t hops);

// The order in which a chase visits its nodes, in the closed form of base/kernels/chase.c.
struct ChaseOrder {
    std::uint64_t nodes = 0;
    std::uint32_t bits = 0;
    std::uint64_t group = 0;
    std::uint32_t group_bits = 0;
    std::uint32_t inner_bits = 0;
    std::uint64_t key = 0;

    // Nodes of `stride` bytes in `bytes`. Nodes of the same `group_bytes` are visited together; 0: one random cycle
    // over all nodes.
    ChaseOrder(std::size_t bytes, std::size_t stride, std::size_t group_bytes, std::uint64_t seed);
    // Returns the index of the node visited at step `step`.
    std::uint64_t node_at(std::uint64_t step) const;
};

enum class StreamOp : std::uint8_t { copy, scale, add, triad, read, write };

// One pass over elements [first, last), both multiples of 8, of arrays aligned to 64 bytes: a = b, a = s b, a = b + c,
// a = b + s c, *sum += b, or a = s.
using StreamLoop = void (*)(double* a, const double* b, const double* c, double s, std::size_t first, std::size_t last,
                            double* sum);
// Returns the loop with ordinary or non-temporal stores for the widest vector instructions of this processor.
StreamLoop stream_loop(StreamOp op, bool nontemporal);
const char* stream_instructions();  // "avx512", "avx2" or "baseline"
// Returns the bytes that the operation reads plus writes for each element.
int stream_bytes(StreamOp op);

}  // namespace firsttouch
