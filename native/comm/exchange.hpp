// The messages of an application between its ranks: from the memory in which one packs them to that in which another
// unpacks them.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/comm.hpp"
#include "device/lab.hpp"

namespace firsttouch {

// A message to another rank, from it, or to this rank itself, as bytes of a buffer.
struct Parcel {
    int peer;
    const Buffer* buffer;
    std::size_t offset, bytes;
};

struct ExchangeRequest {
    std::vector<Parcel> outgoing, incoming;  // the n-th to a rank is the n-th that it receives from this one
    // Host memory through which the device copies messages that leave and that arrive. Otherwise the library gets
    // addresses of the buffers themselves: the device's, if device_addresses, or the CPU's.
    const Buffer *staging_out = nullptr, *staging_in = nullptr;
    bool device_addresses = false;
};

// Carries all messages, those to this rank itself by copies of the device, and returns the seconds until the last can
// be used. The work that packs them must have ended. comm: may be null if the rank is alone. Throws
// std::invalid_argument if a message exceeds a buffer, or has no counterpart of the same size in this rank.
double exchange(Lab& lab, Comm* comm, const ExchangeRequest& request);

}  // namespace firsttouch
