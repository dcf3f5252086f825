// What calls of the CUDA driver copy.
#pragma once

#include "events/driver_calls.hpp"
#include "profile/inject/core/transfers.hpp"

namespace firsttouch::inject {

// Their streams are the driver's handles.
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
