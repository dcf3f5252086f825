// A buffer as a library of ranks reaches it.
#pragma once

#include <optional>

#include "device/lab.hpp"

namespace firsttouch {

// By the device's address, or by the CPU's, which maps the buffer for as long.
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
