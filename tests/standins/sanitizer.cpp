// A stand-in for NVIDIA's Sanitizer API in tests. The stand-in for the CUDA driver plays it by the functions at the
// end, as it plays the one for CUPTI, or a program by standin_play. The patch that is put into kernels is granules.cu
// itself, compiled for the host; what a kernel accesses, it says by standin_uses, or the script does:
//   module [CUBIN]                  a context, if there is none yet, and a module are loaded
//   alloc ADDRESS BYTES [FLAGS]     device memory; host: pinned memory; free ADDRESS: of either
//   copy DIRECTION TARGET BYTES [asynchronous]; fill ADDRESS BYTES
//   r|w|a ADDRESS BYTES             the next kernel reads, writes, or changes by an atomic operation
//   launch NAME GRID BLOCK          a kernel
//   graph; node NAME GRID BLOCK     a graph is launched, with this kernel; its kernels have the table of its first
//   sync; end                       the stream is waited for; the context ends
// STANDIN_SANITIZER_FAILS is function=code, such as sanitizerPatchModule=14.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#define __device__
#define __forceinline__ inline
#define __noinline__
static bool __isGlobal(const void*) { return true; }
static void atomicAdd(unsigned long long* target, unsigned long long value) { *target += value; }
static void atomicOr(unsigned int* target, unsigned int mask) { *target |= mask; }
#include "profile/granules.cu"
#include "events/driver_calls.hpp"
#include "profile/inject/front/cuda/sanitizer_api.hpp"

using namespace firsttouch::sanitizer;
using Bytes = std::size_t;

namespace {

constexpr int most_accesses = 4096;
struct Access {
    u64 address, bytes;
    unsigned int how;
};
struct State {
    Callback callback = nullptr;
    void* user = nullptr;
    unsigned int domains = 0;
    bool is_loaded = false, is_patched = false, has_context = false;
    const void* table = nullptr;
    Access accesses[most_accesses];
    int count = 0;
    struct Queued {
        void* table;
        Access access;
    } queued[most_accesses];
    int queue = 0;
} state;
char context, module_of_context, stream, function, handle;

Result failure(const char* name) {
    const char* const injected = std::getenv("STANDIN_SANITIZER_FAILS");
    const Bytes length = std::strlen(name);
    const bool is_it = injected != nullptr && std::strncmp(injected, name, length) == 0 && injected[length] == '=';
    return is_it ? std::atoi(injected + length + 1) : 0;
}

template <class Data>
void call_back(int domain, std::uint32_t id, const Data& data) {
    if ((state.domains >> domain & 1) != 0) state.callback(state.user, domain, id, &data);
}

void load_module(const char* file = "") {
    static char cubin[4096];
    FILE* const opened = std::fopen(file, "rb");
    const Bytes bytes = opened == nullptr ? 0 : std::fread(cubin, 1, sizeof cubin, opened);
    if (opened != nullptr) std::fclose(opened);
    auto* const of = reinterpret_cast<Context>(&context);
    if (!std::exchange(state.has_context, true)) call_back(resources, context_created, ContextData{of});
    call_back(resources, module_loaded, ModuleData{of, reinterpret_cast<Module>(&module_of_context), bytes, cubin});
}

void begin_launch(const char* name, const unsigned int* grid, const unsigned int* block, bool of_graph = false) {
    LaunchData launch{.context = reinterpret_cast<Context>(&context),
                      .stream = nullptr,
                      .handle = reinterpret_cast<StreamHandle>(&stream),
                      .module = reinterpret_cast<Module>(&module_of_context),
                      .function = reinterpret_cast<Function>(&function),
                      .name = name,
                      .grid = {grid[0], grid[1], grid[2]},
                      .block = {block[0], block[1], block[2]},
                      .cluster = {1, 1, 1},
                      .number = 1,
                      .launch = reinterpret_cast<Launch>(&handle),
                      .device = 0,
                      .graph_context = reinterpret_cast<Context>(&context),
                      .graph_stream = nullptr,
                      .graph_handle = reinterpret_cast<StreamHandle>(&stream)};
    if (!of_graph) {
        state.table = nullptr;
        return call_back(launches, launch_begins, launch);
    }
    NodeData node{};
    node.type = kernel_node, node.launch = launch;
    call_back(graphs, node_begins, node);
}

void use_bytes(const Access& access) {
    if (state.is_patched && state.queue < most_accesses)
        state.queued[state.queue++] = {const_cast<void*>(state.table), access};
}

// What was launched runs.
void run_queue() {
    for (int i = 0; i < state.queue; ++i) {
        const auto& [table, access] = state.queued[i];
        for (u64 at = 0; at < access.bytes; at += 16)
            granules_access(table, 0, access.address + at, access.bytes - at < 16 ? unsigned(access.bytes - at) : 16,
                            access.how, nullptr);
    }
    state.queue = 0;
}

void play_launch(const char* name, unsigned int grid, unsigned int block, bool of_graph) {
    const unsigned int grids[] = {grid, 1, 1}, blocks[] = {block, 1, 1};
    begin_launch(name, grids, blocks, of_graph);
    for (int i = 0; i < state.count; ++i) use_bytes(state.accesses[i]);
    state.count = 0;
}

void play_copy(int direction, u64 target, u64 bytes, bool is_asynchronous) {
    CopyData copy{};
    copy.source_context = copy.target_context = reinterpret_cast<Context>(&context);
    copy.source_handle = copy.target_handle = reinterpret_cast<StreamHandle>(&stream);
    copy.direction = direction, copy.target = target, copy.bytes = bytes, copy.asynchronous = is_asynchronous;
    call_back(copies, copy_begins, copy);
    if (!is_asynchronous) run_queue();
}

void play_fill(u64 address, u64 bytes) {
    FillData fill{};
    fill.address = address, fill.width = bytes, fill.element_bytes = 1;
    call_back(fills, fill_begins, fill);
}

void play_wait() {
    run_queue();
    call_back(
        synchronisations, stream_synchronised,
        SynchronisationData{reinterpret_cast<Context>(&context), nullptr, reinterpret_cast<StreamHandle>(&stream)});
}

MemoryData memory(u64 address, u64 bytes, unsigned int flags) {
    MemoryData data{};
    data.address = address, data.bytes = bytes, data.context = reinterpret_cast<Context>(&context), data.flags = flags;
    return data;
}

void play_line(const char* line) {
    char word[64] = "", name[256] = "";
    unsigned long long first = 0, second = 0, third = 0, fourth = 0;
    if (std::sscanf(line, "%63s", word) != 1) return;
    const char* const rest = line + std::strspn(line, " ") + std::strlen(word);
    const auto is = [&](const char* which) { return std::strcmp(word, which) == 0; };
    if (is("graph")) state.table = nullptr, call_back(graphs, graph_begins, 0);
    if (is("launch") || is("node")) {
        std::sscanf(rest, "%255s %llu %llu", name, &first, &second);
        return play_launch(name, unsigned(first), unsigned(second), is("node"));
    }
    std::sscanf(rest, "%lli %lli %lli %lli", reinterpret_cast<long long*>(&first),
                reinterpret_cast<long long*>(&second), reinterpret_cast<long long*>(&third),
                reinterpret_cast<long long*>(&fourth));
    if (is("module")) {
        std::sscanf(rest, "%255s", name);
        load_module(name);
    }
    if (is("alloc")) call_back(resources, memory_allocated, memory(first, second, unsigned(third)));
    if (is("host")) call_back(resources, host_memory_allocated, memory(first, second, host_pinned));
    if (is("free")) call_back(resources, memory_freed, memory(first, 0, 0));
    if (is("copy")) play_copy(int(first), second, third, fourth != 0);
    if (is("fill")) play_fill(first, second);
    if (is("r") || is("w") || is("a"))
        if (state.count < most_accesses)
            state.accesses[state.count++] = {first, second, is("r") ? 1u : is("w") ? 2u : 3u};
    if (is("sync")) play_wait();
    if (is("end")) call_back(resources, context_ends, ContextData{reinterpret_cast<Context>(&context)});
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))
API void standin_play(const char* script) {
    for (const char* line = script; *line != 0;) {
        const Bytes length = std::strcspn(line, "\n;");
        char copied[512] = "";
        std::memcpy(copied, line, length < sizeof copied ? length : sizeof copied - 1);
        play_line(copied);
        line += length + (line[length] != 0);
    }
}

API Result sanitizerGetResultString(Result result, const char** text) {
    *text = result == 14 ? "SANITIZER_ERROR_NOT_SUPPORTED" : "SANITIZER_ERROR";
    return 0;
}
API Result sanitizerSubscribe(Subscriber* subscriber, Callback callback, void* user) {
    state.callback = callback, state.user = user, *subscriber = nullptr;
    return failure("sanitizerSubscribe");
}
API Result sanitizerEnableDomain(std::uint32_t enable, Subscriber, int domain) {
    state.domains |= enable << domain;
    return failure("sanitizerEnableDomain");
}
API Result sanitizerAddPatchesFromFile(const char* file, Context) {
    FILE* const opened = std::fopen(file, "rb");
    if (opened == nullptr) return 1;
    std::fclose(opened);
    state.is_loaded = true;
    return failure("sanitizerAddPatchesFromFile");
}
API Result sanitizerPatchInstructions(int instruction, Module, const char* name) {
    if (instruction > 40) return 1;
    return state.is_loaded && std::strncmp(name, "granules_", 9) == 0 ? failure("sanitizerPatchInstructions") : 1;
}
API Result sanitizerPatchModule(Module) {
    const Result result = failure("sanitizerPatchModule");
    state.is_patched = result == 0;
    return result;
}
API Result sanitizerSetLaunchCallbackData(Launch, Function, StreamHandle, const void* data) {
    state.table = data;
    return failure("sanitizerSetLaunchCallbackData");
}
API Result sanitizerAlloc(Context, void** address, Bytes bytes) {
    *address = std::malloc(bytes);
    return failure("sanitizerAlloc");
}
API Result sanitizerStreamSynchronize(StreamHandle) {
    run_queue();
    return failure("sanitizerStreamSynchronize");
}
API Result sanitizerMemcpyHostToDeviceAsync(void* target, void* source, Bytes bytes, StreamHandle) {
    return std::memcpy(target, source, bytes), 0;
}
API Result sanitizerMemcpyDeviceToHost(void* target, void* source, Bytes bytes, StreamHandle) {
    std::memcpy(target, source, bytes);
    return failure("sanitizerMemcpyDeviceToHost");
}

// What the stand-in for the driver calls, in the place of the functions of the one for CUPTI. Kinds of memory and
// directions are CUPTI's.
static thread_local const char* launched = "";
API void standin_init() { load_module(); }
API void standin_launches(const char* kernel) { launched = kernel; }
API int standin_call(std::uint32_t id, const char*, const void* parameters, int (*body)(void*), void* user) {
    if (id == 307) {  // cuLaunchKernel
        const auto& launch = *static_cast<const firsttouch::cupti::Launch*>(parameters);
        begin_launch(launched, launch.grid, launch.block);
    }
    const int result = body(user);
    if (id == 17 || id == 126) play_wait();  // cuCtxSynchronize, cuStreamSynchronize
    return result;
}
API void standin_memory(int operation, int kind, std::uint64_t address, std::uint64_t bytes, const char*, int) {
    const bool is_pinned = kind == 2, is_managed = kind == 5 || kind == 7, is_static = kind == 6 || kind == 7;
    const unsigned int flags =
        (is_pinned ? host_pinned : 0u) | (is_managed ? managed : 0u) | (is_static ? of_module : 0u);
    const std::uint32_t begins = is_pinned ? host_memory_allocated : memory_allocated;
    const std::uint32_t ends = is_pinned ? host_memory_freed : memory_freed;
    call_back(resources, operation == 1 ? begins : ends, memory(address, bytes, flags));
}
API void standin_copied(int direction, int, int, std::uint64_t bytes, std::uint32_t) {
    play_copy(direction == 1 ? host_to_device : direction == 2 ? device_to_host : device_to_device, 0, bytes, false);
}
API void standin_fill(std::uint64_t bytes) { play_fill(0, bytes); }
API void standin_ran(const char*, const std::uint32_t*, const std::uint32_t*, std::uint32_t) {}
API void standin_uses(const void* address, std::uint64_t bytes, unsigned int how) {
    use_bytes({reinterpret_cast<u64>(address), bytes, how});
}
