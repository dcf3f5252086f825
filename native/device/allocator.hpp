// The allocators, and what a driver states about each. A new allocator needs a name here and a case in obtain and
// release of a device.
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

// How an agent accesses an allocation: not at all, only between map and unmap, or by its address at any time.
enum class Access : std::uint8_t { none, mapped, direct };

struct AllocatorInfo {
    Allocator allocator;
    bool available = true;
    std::string reason;  // why it is not available
    Access cpu = Access::direct;
    Access gpu = Access::none;
    std::string gpu_reason;      // why kernels cannot access it
    bool host_memory = false;    // charged to the host limit
    bool device_memory = false;  // charged to the device limit
    bool managed = false;        // charged to the managed limit
    // Plain host memory whose pages a kernel's fault moves to the device (HMM), which charges it as managed memory is.
    bool migrates_on_fault = false;
    std::optional<bool> on_demand;  // pages are allocated at first touch (true) or by the call (false)
    // concurrent: the CPU may use it while a kernel does, and each sees the other's stores. shared_atomics: CPU and GPU
    // atomics on the same word are mutually atomic. Empty if the driver states nothing or one of them has no access.
    std::optional<bool> concurrent;
    std::optional<bool> shared_atomics;
    // The CPU may use one part of it while a kernel uses another part, and each finds the other's stores after the
    // kernel has ended. Implied by concurrent.
    std::optional<bool> disjoint;
};

// Page size requested for host memory: the kernel's policy, base pages only, or transparent huge pages.
enum class Pages : std::uint8_t { policy, base, huge };

// Memory as a device allocated it, without its reservation. Plain data, because the allocation probe times obtain and
// release.
struct Block {
    Allocator allocator{};
    std::size_t bytes = 0;           // as requested
    void* host = nullptr;            // the CPU's address, if any
    unsigned long long address = 0;  // the address in kernels, if the device has addresses
    void* handle = nullptr;          // the vendor's object (cl_mem, CUmodule)
    void* base = nullptr;            // the address to free; differs from host if the block was aligned
    std::size_t reserved = 0;        // bytes allocated, with padding
};

}  // namespace firsttouch
