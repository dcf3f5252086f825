// What the probes of several ranks share.
#pragma once

#include <optional>

#include "comm/comm.hpp"
#include "device/lab.hpp"

namespace firsttouch {

// Added to a request's seed for each repetition; what else a probe adds is less, but for `poison`, which marks targets.
constexpr std::uint64_t per_repetition = 0x10000, poison = 0x77;

// A buffer as a library of ranks reaches it: by the device's address, or by the CPU's, which maps it for as long.
class RankBuffer {
  public:
    RankBuffer(Lab& lab, const Buffer& buffer, bool by_device) {
        address_ = by_device ? reinterpret_cast<char*>(lab.device_address(buffer)) : view_.emplace(buffer).as<char>();
    }
    char* address() const { return address_; }

  private:
    std::optional<HostView> view_;
    char* address_;
};

}  // namespace firsttouch
