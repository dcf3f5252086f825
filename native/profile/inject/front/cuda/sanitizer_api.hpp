// The functions of NVIDIA's Sanitizer API by which a patch is put into kernels, as a table of function pointers. The
// types needed are declared here; tests/native/test_vendor_types.cpp compares them with the vendor's headers if they
// are installed. Of structures that later versions lengthen or change, only what CUDA 12.0 to 13.5 have in common.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/library.hpp"

namespace firsttouch::sanitizer {

using Result = int;  // 0: success
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;        // the driver's
using StreamHandle = struct HandleTag*;  // the Sanitizer's
using Launch = struct LaunchTag*;
using Subscriber = struct SubscriberTag*;
using Callback = void (*)(void* user, int domain, std::uint32_t id, const void* data);

enum Domain : int { resources = 3, synchronisations = 4, launches = 5, copies = 6, fills = 7, graphs = 10 };
enum ResourceId : std::uint32_t {
    context_created = 3,
    context_ends = 4,
    stream_ends = 7,
    module_loaded = 9,
    memory_allocated = 11,
    memory_freed = 12,
    host_memory_allocated = 13,
    host_memory_freed = 14,
    allocated_in_stream = 15,
    freed_in_stream = 16,
};
enum SynchronisationId : std::uint32_t { stream_synchronised = 1, context_synchronised = 2 };
enum LaunchId : std::uint32_t { launch_begins = 1 };
enum CopyId : std::uint32_t { copy_begins = 1 };
enum FillId : std::uint32_t { fill_begins = 1 };
enum GraphId : std::uint32_t { node_begins = 4, graph_begins = 6 };

enum MemoryFlag : std::uint32_t { of_module = 0x1, managed = 0x2, host_pinned = 0x8, of_peer = 0x10, internal = 0xC0 };
enum Direction : int { host_to_host = 1, host_to_device = 2, device_to_host = 3, device_to_device = 4 };

// Instructions that use global memory.
enum Instruction : int {
    global_access = 3,
    copy_async = 14,
    bulk_copy_in = 30,
    bulk_copy_out = 35,
    bulk_reduction = 37,
    tensor_load = 43,  // from CUDA 13.1 on, as the next
    tensor_store = 44,
};

struct ContextData {
    Context context;
};
struct StreamData {
    Context context;
    Stream stream;
    StreamHandle handle;
};
struct ModuleData {
    Context context;
    Module module;
    std::size_t cubin_bytes;
    const char* cubin;
};
struct MemoryData {
    std::uint64_t address, bytes;
    Context context;
    int device;
    Stream stream;
    StreamHandle handle;
    void* pool;
    std::uint32_t flags, permissions;
};
struct SynchronisationData {
    Context context;
    Stream stream;
    StreamHandle handle;
};
struct LaunchData {
    Context context;
    Stream stream;
    StreamHandle handle;
    Module module;
    Function function;
    const char* name;
    std::uint32_t grid[3], block[3], cluster[3];
    std::uint64_t number;
    Launch launch;
    int device;
    // Of a node of a graph alone: where the graph was launched.
    Context graph_context;
    Stream graph_stream;
    StreamHandle graph_handle;
};
struct CopyData {
    Context source_context, target_context;
    Stream source_stream;
    StreamHandle source_handle;
    Stream target_stream;
    StreamHandle target_handle;
    std::uint64_t source, target, bytes;
    std::uint64_t width, height, depth;
    std::uint64_t source_pitch, target_pitch;
    std::uint32_t asynchronous;
    int direction;
};
struct FillData {
    Context context;
    Stream stream;
    StreamHandle handle;
    std::uint64_t address;
    std::uint64_t width, height, pitch;
    std::uint32_t element_bytes;
};
inline constexpr int kernel_node = 0, copy_node = 1, fill_node = 2;
struct NodeData {
    void* executable;
    std::uint32_t launch_number;
    void* node;
    int type;
    union {
        LaunchData launch;
        CopyData copy;
        FillData fill;
    };
};

struct Functions {
    Result (*get_result_string)(Result, const char**) = nullptr;
    Result (*subscribe)(Subscriber*, Callback, void*) = nullptr;
    Result (*enable_domain)(std::uint32_t enable, Subscriber, int domain) = nullptr;
    Result (*add_patches)(const char* file, Context) = nullptr;
    Result (*patch_instructions)(int instruction, Module, const char* function) = nullptr;
    Result (*patch_module)(Module) = nullptr;
    Result (*set_launch_data)(Launch, Function, StreamHandle, const void*) = nullptr;
    Result (*allocate)(Context, void** address, std::size_t bytes) = nullptr;
    Result (*synchronise)(StreamHandle) = nullptr;
    Result (*copy_in)(void* target, void* source, std::size_t bytes, StreamHandle) = nullptr;  // returns when staged
    // Does not wait for kernels of the stream.
    Result (*copy_out)(void* target, void* source, std::size_t bytes, StreamHandle) = nullptr;
};

struct Api : Functions {
    Api();
    static Api& instance();  // opened on first use; throws Unavailable

    Library library;
};

}  // namespace firsttouch::sanitizer
