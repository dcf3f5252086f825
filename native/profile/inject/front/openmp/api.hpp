// What is used of OMPT, the interface of OpenMP's runtimes for tools. Source: OpenMP 5.2, chapter 19, and its header
// omp-tools.h; a test compares where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace firsttouch::openmp_tool {

enum Endpoint : int { scope_begin = 1, scope_end = 2 };  // both, of what has no duration
enum Callback : int { device_initialize = 12, target_emi = 33, target_data_op_emi = 34, target_submit_emi = 35 };
enum Set : int { set_sometimes = 3 };  // and more: more often
enum Operation : int {
    data_alloc = 1,
    data_to_device = 2,
    data_from_device = 3,
    data_delete = 4,
    data_associate = 5,
    data_disassociate = 6,
    data_asynchronous = 16  // is added
};
enum Construct : int { target_region = 1, target_exit_data = 3, target_nowait = 9 };  // and more: that do not wait

using Function = void (*)();
using Lookup = Function (*)(const char* name);
using SetCallback = int (*)(int callback, Function function);
using OnDevice = void(int device, const char* type, void* handle, Lookup lookup, const char* documentation);
using OnTarget = void(int construct, int endpoint, int device, void* task, void* target_task, void* target,
                      const void* code);
using OnDataOp = void(int endpoint, void* target_task, void* target, std::uint64_t* operation, int what, void* source,
                      int source_device, void* target_address, int target_device, std::size_t bytes, const void* code);
using OnSubmit = void(int endpoint, void* target, std::uint64_t* operation, unsigned teams);

// What a target region is called with: an internal call of LLVM's libomptarget, which AMD's and Intel's runtimes have
// too. Source: KernelArgsTy and tgt_map_type of its OpenMP/omptarget.h; later versions add to the end.
enum MapType : std::uint64_t {
    map_pointer_and_object = 0x10,
    map_parameter = 0x20,
    map_literal = 0x100,
    map_member = 0xffff'0000'0000'0000
};
inline constexpr std::uint32_t first_version = 1, last_version = 3;
struct KernelArguments {
    std::uint32_t version, count;
    void** bases;
    void** begins;
    std::int64_t* bytes;
    std::uint64_t* types;
};
// place: ";file;function;line;column;;".
struct SourceIdentity {
    std::int32_t unused[4];
    const char* place;
};

using TargetKernel = int(SourceIdentity* place, std::int64_t device, std::int32_t teams, std::int32_t threads,
                         void* kernel, KernelArguments* arguments);
using TargetKernelNowait = int(SourceIdentity* place, std::int64_t device, std::int32_t teams, std::int32_t threads,
                               void* kernel, KernelArguments* arguments, std::int32_t count, void* needed,
                               std::int32_t more_count, void* more_needed);
using TargetMemset = void*(void* target, int value, std::size_t bytes, int device);
using TargetMemcpy = int(void* target, const void* source, std::size_t bytes, std::size_t target_offset,
                         std::size_t source_offset, int target_device, int source_device);

struct StartToolResult {
    int (*initialize)(Lookup lookup, int host, void* tool);
    void (*finalize)(void* tool);
    std::uint64_t tool;
};

}  // namespace firsttouch::openmp_tool
