// The functions of CUPTI that record unified-memory events and what a program does through CUDA, as a table of function
// pointers. The types needed are declared here; tests/native/test_vendor_types.cpp compares them with the vendor's
// headers if they are installed.
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

// Records of what a program does through CUDA. Newer layouts add members behind these; each is the part that CUDA 12.0
// to 13.5 have in common.
enum ActivityKind : int {
    copies = 1,
    fills = 2,
    concurrent_kernels = 10,
    copies_between_devices = 22,
    memory_operations = 49,
};
struct CopyRecord {
    int kind;
    std::uint8_t direction, source, target, flags;
    std::uint64_t bytes;
    std::uint64_t start, end;
    std::uint32_t device, context, stream, correlation;
};
struct PeerCopyRecord {
    int kind;
    std::uint8_t direction, source, target, flags;
    std::uint64_t bytes;
    std::uint64_t start, end;
    std::uint32_t device, context, stream;
    std::uint32_t source_device, source_context, target_device, target_context, correlation;
};
struct FillRecord {
    int kind;
    std::uint32_t value;
    std::uint64_t bytes;
    std::uint64_t start, end;
    std::uint32_t device, context, stream, correlation;
    std::uint16_t flags, memory;
};
struct KernelRecord {
    int kind;
    std::uint8_t caches, shared_memory;
    std::uint16_t registers;
    int partitioned_requested, partitioned_executed;
    std::uint64_t start, end, completed;
    std::uint32_t device, context, stream;
    std::int32_t grid[3], block[3];
    std::int32_t static_shared, dynamic_shared;
    std::uint32_t local_per_thread, local_total, correlation;
    std::int64_t grid_id;
    const char* name;
    void* reserved;
    std::uint64_t queued, submitted;
    std::uint8_t launch_type, carveout_requested, carveout, pad;
    std::uint32_t shared_executed;
    std::uint64_t graph_node;  // 0: not launched by a graph
    int shared_limit;
    std::uint32_t graph;
};
struct MemoryRecord {
    int kind;
    int operation;  // 1 allocation, 2 release
    int memory;     // kind of memory
    std::uint32_t correlation;
    std::uint64_t address, bytes, timestamp;
    std::uint64_t instruction;  // from which it was called
    std::uint32_t process, device, context, stream;
    const char* name;  // of a static variable
};
inline constexpr std::uint32_t flush_all = 1;  // also buffers with records that are not complete

// Whether the records above have the layout of a CUPTI of this version: that of CUDA 12 (19 to 28) or 13.
constexpr bool has_known_layouts(std::uint32_t version) {
    return (version >= 19 && version <= 28) || version / 10'000 == 13;
}

// Whether a CUPTI of this version ends programs if it records both kinds of copies: the flush that takes the records of
// all copies so far also unmaps what the next launch of a new graph writes its times to (CUDA_ERROR_LAUNCH_FAILED), if
// that graph copies or fills between two kernels. Measured on an H200: CUPTI of CUDA 12.0 to 12.8 and from 13.2 on does
// not, that of 12.9, 13.0 and 13.1 does, in whichever thread and however seldom it is flushed.
constexpr bool loses_times_of_graphs(std::uint32_t version) {
    return version == 27 || version == 28 || (version >= 130'000 && version < 130'200);
}

// Callbacks.
enum Domain : int { driver_calls = 1, resources = 3 };
enum CallSite : int { entering = 0, leaving = 1 };
enum Resource : std::uint32_t { context_created = 1, context_ends = 2 };
// The driver's functions that are of interest, by their numbers in cupti_driver_cbid.h.
enum DriverCall : std::uint32_t { call_init = 1 };
inline constexpr std::uint32_t allocating_calls[] = {
    39,  271,  // cuMemHostAlloc and, before CUDA 13.5, cuMemHostAlloc_v2
    243,       // cuMemAlloc_v2
    244,       // cuMemAllocPitch_v2
    272, 274,  // cuArrayCreate_v2, cuArray3DCreate_v2
    294,       // cuMemAllocHost_v2
    301, 379,  // cuMemHostRegister, _v2
    347,       // cuMipmappedArrayCreate
    371,       // cuMemAllocManaged
    549,       // cuMemCreate
    598, 599,  // cuMemAllocAsync, _ptsz
    611, 612,  // cuMemAllocFromPoolAsync, _ptsz
};
struct CallData {
    int site;
    const char* function;
    const void* parameters;
    void* result;
    const char* symbol;
    void* context;
    std::uint32_t context_id;
    std::uint64_t* data;
    std::uint32_t correlation;
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
    Result (*enable_callback)(std::uint32_t enable, Subscriber, int domain, std::uint32_t id) = nullptr;
};

struct Cupti : Functions {
    Cupti();
    static Cupti& instance();  // opened on first use; throws Unavailable

    Library library;
};

}  // namespace firsttouch::cupti
