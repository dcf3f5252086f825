// What calls of the driver copy.
#pragma once

#include <cstdint>
#include <vector>

#include "events/driver_calls.hpp"
#include "profile/inject/samples.hpp"

namespace firsttouch::inject {

enum class Direction : std::uint8_t { unknown = 0, to_device = 1, to_host = 2, within_devices = 3, within_host = 4 };

// Rows that a call copies. An array has its handle for an address.
struct Transfer {
    std::uint64_t target = 0, source = 0;
    std::uint64_t bytes = 0;  // of a row
    std::uint64_t rows = 1, target_pitch = 0, source_pitch = 0;
    Direction direction = Direction::unknown;
    bool is_certain = true;  // that the side of the host can be read
    bool is_async = false;

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
    cupti::Handle stream = nullptr;
};

Asked asked(const cupti::CopyIn& copy);
Asked asked(const cupti::CopyInOn& copy);
Asked asked(const cupti::CopyOut& copy);
Asked asked(const cupti::CopyOutOn& copy);
Asked asked(const cupti::CopyWithin& copy);
Asked asked(const cupti::CopyWithinOn& copy);
Asked asked(const cupti::CopyAny& copy);
Asked asked(const cupti::CopyAnyOn& copy);
Asked asked(const cupti::CopyBetween& copy);
Asked asked(const cupti::CopyBetweenOn& copy);
Asked asked(const cupti::CopyRows& copy);
Asked asked(const cupti::CopyRowsOn& copy);
Asked asked(const cupti::CopySlices& copy);
Asked asked(const cupti::CopySlicesOn& copy);
Asked asked(const cupti::CopyBatchOn& batch);
Asked asked(const cupti::CopyBatchThatMayFailOn& batch);
Asked asked(const cupti::CopySlicesBatchOn& batch);
Asked asked(const cupti::CopySlicesBatchThatMayFailOn& batch);

template <class Parameters>
concept Copying = requires(const Parameters& parameters) {
    asked(parameters);
};

// As few as describe a copy in three dimensions; the first has no bytes if there are none.
Asked asked_of(const cupti::Copy3D& copy, bool is_async, cupti::Handle stream);

}  // namespace firsttouch::inject
