// The allocators, and what a driver states about each. To add one: a row here and a case in one device's obtain and
// release.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace firsttouch {

enum class Allocator : std::uint8_t {
    malloc,
    mmap,
    malloc_thp,
    device,
    vmm,
    pinned,
    pinned_wc,
    registered,
    managed,
    managed_static,
    svm_coarse,
    svm_fine,
    svm_atomic,
    pinned_noncoherent,
    fine_grained,
    coarse_grained,
};

inline constexpr std::array<std::string_view, 16> allocator_names = {
    "malloc",       "mmap",          "malloc-thp",     "device",     "vmm",      "pinned",     "pinned-wc",
    "registered",   "managed",       "managed-static", "svm-coarse", "svm-fine", "svm-atomic", "pinned-noncoherent",
    "fine-grained", "coarse-grained"};

inline std::string to_string(Allocator allocator) {
    return std::string(allocator_names[static_cast<std::size_t>(allocator)]);
}

inline Allocator allocator_from(std::string_view name) {
    for (std::size_t i = 0; i < allocator_names.size(); ++i)
        if (allocator_names[i] == name) return static_cast<Allocator>(i);
    throw std::invalid_argument("'" + std::string(name) + "' is not an allocator");
}

// How an agent reaches an allocation: by its address, only between map and unmap, or not at all.
enum class Access : std::uint8_t { none, mapped, direct };

struct AllocatorInfo {
    Allocator allocator;
    bool available = true;
    std::string reason;  // why not available
    Access cpu = Access::direct;
    Access gpu = Access::none;
    std::string gpu_reason;         // why the device's kernels can't reach it
    bool host_memory = false;       // charged to the host limit
    bool device_memory = false;     // charged to the device limit
    bool managed = false;           // charged to the managed limit
    std::optional<bool> on_demand;  // stated: pages come at the first touch (true) or by the call (false)
    // Stated: whether the CPU may use it while a kernel does, each seeing what the other stores; and whether atomic
    // operations of both on one word are atomic together. Empty where the driver says nothing, or one has no access.
    std::optional<bool> concurrent;
    std::optional<bool> shared_atomics;
    // Stated: whether the CPU may use one part of it while a kernel uses another, each finding what the other stored
    // after the kernel has ended. True wherever concurrent is.
    std::optional<bool> disjoint;
};

// Page size asked of the kernel for host memory: its own policy, base pages for certain, or transparent huge pages.
enum class Pages : std::uint8_t { policy, base, huge };

// Memory as a device allocated it, without its guard. Plain data, because the allocation probe times obtain and
// release.
struct Block {
    Allocator allocator{};
    std::size_t bytes = 0;           // as asked for
    void* host = nullptr;            // address for the CPU, if any
    unsigned long long address = 0;  // address for kernels, if the device has addresses
    void* handle = nullptr;          // the vendor's object (cl_mem, CUmodule, allocation handle)
    void* base = nullptr;            // what must be given back (an aligned block keeps its origin here)
    std::size_t reserved = 0;        // bytes really taken
};

}  // namespace firsttouch
