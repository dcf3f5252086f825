// What calls copy.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/inject/core/samples.hpp"

namespace firsttouch::inject {

enum class Cause : std::uint8_t { call = 0, creation = 1, mapping = 2 };
enum class Direction : std::uint8_t { unknown = 0, to_device = 1, to_host = 2, within_devices = 3, within_host = 4 };

// Rows that a call copies. An array has its handle for an address.
struct Transfer {
    std::uint64_t target = 0, source = 0;
    std::uint64_t bytes = 0;  // of a row
    std::uint64_t rows = 1, target_pitch = 0, source_pitch = 0;
    Direction direction = Direction::unknown;
    bool is_certain = true;  // that the side of the host can be read
    bool is_async = false;
    bool waits_if_pageable = true;  // a copy to the host that is asynchronous, if the host's memory is not locked
    Cause cause = Cause::call;

    bool has_host() const { return direction == Direction::to_device || direction == Direction::to_host; }
    // The side of the host; of no use if there is none.
    HostRows host_rows() const {
        const bool is_target = direction == Direction::to_host;
        return {is_target ? target : source, bytes, rows, is_target ? target_pitch : source_pitch};
    }
};

struct Asked {
    Transfer transfer;
    std::vector<Transfer> more;
    std::uint64_t stream = 0;  // its key: what no other stream of this process has
};

}  // namespace firsttouch::inject
