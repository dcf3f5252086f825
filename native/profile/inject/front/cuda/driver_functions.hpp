// The functions of the CUDA driver that the recording calls itself.
#pragma once

#include <cstddef>
#include <vector>

#include "events/driver_calls.hpp"
#include "profile/inject/core/arguments.hpp"

namespace firsttouch::inject {

// The functions of the loaded driver that are called, where it has them.
struct DriverFunctions final : Kernels {
    using Result = int;
    Result (*device_count)(int*) = nullptr;
    Result (*function_parameter)(cupti::Handle, std::size_t, std::size_t*, std::size_t*) = nullptr;
    Result (*kernel_parameter)(cupti::Handle, std::size_t, std::size_t*, std::size_t*) = nullptr;
    Result (*function_name)(const char**, cupti::Handle) = nullptr;
    Result (*kernel_name)(const char**, cupti::Handle) = nullptr;
    Result (*graph_nodes)(cupti::Handle, cupti::Handle*, std::size_t*) = nullptr;
    Result (*node_type)(cupti::Handle, int*) = nullptr;
    Result (*kernel_node)(cupti::Handle, cupti::NodeParameters*) = nullptr;
    Result (*copy_node)(cupti::Handle, cupti::Copy3D*) = nullptr;
    Result (*fill_node)(cupti::Handle, cupti::FillNodeParameters*) = nullptr;
    Result (*child_graph)(cupti::Handle, cupti::Handle*) = nullptr;
    Result (*allocation_node)(cupti::Handle, cupti::AllocationNodeParameters*) = nullptr;
    Result (*free_node)(cupti::Handle, cupti::Address*) = nullptr;
    Result (*is_capturing)(cupti::Handle stream, int* status) = nullptr;
    Result (*copy_slices)(const cupti::Copy3D*) = nullptr;

    // Copies memory of the device to that of the host, and waits for it.
    bool read(void* target, cupti::Address source, std::size_t bytes) const;

    const char* name_of(Handle kernel) const override;
    bool find_parameters(Handle kernel, std::vector<Parameter>& parameters) const override;

    // Those of the driver that this process has loaded.
    static DriverFunctions of_this_process();
};

}  // namespace firsttouch::inject
