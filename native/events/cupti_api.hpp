// The functions of CUPTI that record unified-memory events, as a table of function pointers. The types needed are
// declared here; tests/native/test_vendor_types.cpp compares them with the vendor's headers if they are installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/library.hpp"

namespace firsttouch::cupti {

using Result = int;
using Subscriber = struct SubscriberTag*;
using Callback = void (*)(void*, int, std::uint32_t, const void*);
using RequestBuffer = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records);
using CompleteBuffer = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                                std::size_t valid);

// Result codes that are handled; events.cpp has an error message for each failure.
enum Code : Result {
    ok = 0,
    end_of_buffer = 12,
    not_compatible = 14,
    not_initialised = 15,
    um_not_supported = 28,
    um_not_on_device = 29,
    um_not_on_non_p2p_devices = 30,
    um_not_with_mps = 31,
    virtualised = 33,
    insufficient_privileges = 35,
    another_subscriber = 39,
    virtualised_privileges = 40,
    confidential_computing = 41,
    mig = 43,
    wsl = 45,
};

inline constexpr int unified_memory_counter = 25;  // kind of record
inline constexpr int all_devices = 2;              // scope of a counter
inline constexpr std::uint32_t cpu_id = 0xFFFFFFFF;

enum CounterKind : int {
    bytes_h2d = 1,
    bytes_d2h = 2,
    cpu_page_fault = 3,
    gpu_page_fault = 4,
    thrashing = 5,
    throttling = 6,
    remote_map = 7,
    bytes_d2d = 8,
};

struct CounterConfig {
    int scope;
    int kind;
    std::uint32_t device;
    std::uint32_t enable;
};

// The common first members of all records.
struct Record {
    int kind;
};

// The layout in CUDA 7.0 to 12.6.
struct CounterRecord {
    int kind;
    int counter_kind;
    std::uint64_t value;
    std::uint64_t start, end;  // ns on the clock of get_timestamp
    std::uint64_t address;
    std::uint32_t source, target;
    std::uint32_t stream;  // not valid
    std::uint32_t process;
    std::uint32_t flags;
    std::uint32_t pad;
};
// The layout since CUDA 12.8.
inline constexpr std::uint32_t version_with_processors = 26;
struct CounterRecord3 {
    CounterRecord prefix;
    std::uint64_t processors[5];
};

struct Functions {
    Result (*get_version)(std::uint32_t*) = nullptr;
    Result (*get_result_string)(Result, const char**) = nullptr;
    Result (*subscribe)(Subscriber*, Callback, void*) = nullptr;
    Result (*unsubscribe)(Subscriber) = nullptr;
    Result (*register_callbacks)(RequestBuffer, CompleteBuffer) = nullptr;
    Result (*configure)(CounterConfig*, std::uint32_t) = nullptr;
    Result (*enable)(int) = nullptr;
    Result (*disable)(int) = nullptr;
    Result (*flush)(std::uint32_t) = nullptr;
    Result (*next_record)(std::uint8_t*, std::size_t, Record**) = nullptr;
    Result (*dropped_records)(void*, std::uint32_t, std::size_t*) = nullptr;
    Result (*get_timestamp)(std::uint64_t*) = nullptr;
};

struct Cupti : Functions {
    Cupti();
    static Cupti& instance();  // opened on first use; throws Unavailable

    Library library;
};

}  // namespace firsttouch::cupti
