// What a program asks about memory: of what kind it is, where it begins, how large it is. The answer is the one of the
// plain run, in which an array of the host and a block of the device are two memories.
#pragma once

#include <optional>

#include "profile/tried/memory.hpp"

namespace firsttouch::tried {

// Memory of this library as the program knows it: the driver is asked of other memory of the kind, at `like`.
struct Query {
    Address address, like;
    Block block;

    // An address in the answer, which is `like` or null.
    Address translated(Address answer) const { return answer == like ? address : answer; }
};

// What is asked, if the memory at the address is this library's. Ends the run if it is an array and a block, and the
// plain run does not tell which of both is meant.
std::optional<Query> query_of(Address address);
// What the driver says of `like` becomes what it would say of the memory. attribute: its number, in CUDA and HIP.
void answer(const Query& query, int attribute, void* value);

}  // namespace firsttouch::tried
