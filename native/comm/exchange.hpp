// The messages of an application between its ranks: from the memory in which one packs them to that in which another
// unpacks them.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "comm/comm.hpp"
#include "comm/rank_buffer.hpp"
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

// Receives that begin before others send: one message, of at most so many bytes, from each of some other ranks. Until
// they have ended, no other messages may be sent or received. Throws Unavailable if the library can't say how many
// bytes have arrived.
class Receives {
  public:
    // staging: as in ExchangeRequest.
    Receives(Lab& lab, Comm& comm, std::vector<Parcel> incoming, const Buffer* staging, bool device_addresses);
    // Sends messages, empty ones too, and waits for all. Returns the bytes of each that arrived.
    std::vector<std::size_t> finish(const std::vector<Parcel>& outgoing, const Buffer* staging);

  private:
    char* address_of(const Buffer& buffer);

    Lab& lab_;
    Comm& comm_;
    std::vector<Parcel> incoming_;
    const Buffer* staging_;
    bool device_addresses_;
    std::map<const Buffer*, RankBuffer> buffers_;
    std::vector<std::size_t> places_;  // in `staging`
    std::vector<int> numbers_;         // of the receives
};

}  // namespace firsttouch
