// OpenCL through each driver's dispatch table, whose layout cl_khr_icd defines, so no loader library is needed.
// tests/native/test_vendor_types.cpp compares the numbers here with the Khronos headers if they are installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/library.hpp"

namespace firsttouch::opencl {

using Int = std::int32_t;
using UInt = std::uint32_t;
using ULong = std::uint64_t;
using Object = void*;  // platform, device, context, queue, memory, program, kernel or event

// Indices into the dispatch table.
enum Slot : std::size_t {
    get_platform_info = 1,
    get_device_ids = 2,
    get_device_info = 3,
    create_context = 4,
    release_context = 7,
    create_queue = 9,
    release_queue = 11,
    create_buffer = 14,
    release_memory = 18,
    create_program = 26,
    release_program = 29,
    build_program = 30,
    get_program_info = 32,
    get_build_info = 33,
    create_kernel = 34,
    release_kernel = 37,
    set_argument = 38,
    wait_events = 41,
    release_event = 44,
    get_profiling = 45,
    flush = 46,
    finish = 47,
    enqueue_read = 48,
    enqueue_write = 49,
    enqueue_copy = 50,
    enqueue_map = 56,
    enqueue_unmap = 58,
    enqueue_kernel = 59,
    create_user_event = 84,
    set_user_event = 85,
    enqueue_migrate = 104,
    enqueue_marker = 105,
    enqueue_barrier = 106,
    svm_alloc = 126,
    svm_free = 127,
    enqueue_svm_copy = 129,
    enqueue_svm_map = 131,
    enqueue_svm_unmap = 132,
    set_argument_svm = 134,
    slots = 135,
};

// Values of cl.h.
inline constexpr UInt device_type_all = 0xFFFFFFFF, device_type_cpu = 2;
inline constexpr UInt info_type = 0x1000, info_compute_units = 0x1002, info_group_size = 0x1004, info_clock = 0x100C,
                      info_max_allocation = 0x1010, info_cache_line = 0x101D, info_cache_bytes = 0x101E,
                      info_memory_bytes = 0x101F, info_name = 0x102B, info_vendor = 0x102C, info_driver = 0x102D,
                      info_version = 0x102F, info_unified = 0x1035, info_c_version = 0x103D, info_svm = 0x1053,
                      info_available = 0x1027, info_extensions = 0x1030;
inline constexpr ULong queue_profiling = 2;
inline constexpr ULong memory_read_write = 1, memory_use_host = 8, memory_alloc_host = 16, memory_svm_fine = 1024,
                       memory_svm_atomics = 2048;
inline constexpr ULong map_read_write = 3, migrate_without_content = 2;
inline constexpr ULong svm_coarse = 1, svm_fine = 2, svm_fine_system = 4, svm_atomics = 8;
inline constexpr UInt program_binary_sizes = 0x1165, program_binaries = 0x1166, build_log = 0x1183;
inline constexpr UInt profiling_end = 0x1283;

// The dispatch table of a driver, found through any of its objects.
class DispatchTable {
  public:
    explicit DispatchTable(Object object) : entries_(*static_cast<void***>(object)) {}
    template <class R, class... A>
    R call(Slot slot, A... arguments) const {
        return reinterpret_cast<R (*)(A...)>(entries_[slot])(arguments...);
    }

  private:
    void** entries_;
};

struct FoundDevice {
    Object platform;
    Object device;
    std::string library;
};

// Returns all devices of all drivers at the library paths set for "opencl-icd". The search is done once per process.
// Throws Unavailable if there are none.
const std::vector<FoundDevice>& find_devices();

// Works around PoCL builds whose LLVM does not know this processor (see pocl_cpu.cpp). Returns the processor name that
// was set, or "" if none was.
std::string set_pocl_processor(Object device, const std::string& version);

const char* error_name(Int code);
void check(Int code, const char* call);  // throws VendorError unless code is 0

std::string text_info(Object device, UInt what);
template <class T>
T number_info(Object device, UInt what) {
    T value{};
    DispatchTable(device).call<Int>(get_device_info, device, what, sizeof(T), static_cast<void*>(&value),
                                    static_cast<std::size_t*>(nullptr));
    return value;
}

}  // namespace firsttouch::opencl
