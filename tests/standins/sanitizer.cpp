// A stand-in for NVIDIA's Sanitizer API in tests, with a driver that a program plays by standin_play. The patch that is
// put into kernels is granules.cu itself, compiled for the host; what a kernel accesses is said in the script:
//   module                          a context, if there is none yet, and a module are loaded
//   alloc ADDRESS BYTES [FLAGS]     device memory; host: pinned memory; free ADDRESS: of either
//   copy DIRECTION TARGET BYTES [asynchronous]; fill ADDRESS BYTES
//   r|w|a ADDRESS BYTES             the next kernel reads, writes, or changes by an atomic operation
//   launch|node NAME GRID BLOCK     a kernel; node: of a graph
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
#include "profile/inject/sanitizer_api.hpp"

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

void load_module() {
    auto* const of = reinterpret_cast<Context>(&context);
    if (!std::exchange(state.has_context, true)) call_back(resources, context_created, ContextData{of});
    call_back(resources, module_loaded, ModuleData{of, reinterpret_cast<Module>(&module_of_context)});
}

void play_launch(const char* name, unsigned int grid, unsigned int block, bool of_graph) {
    LaunchData launch{.context = reinterpret_cast<Context>(&context),
                      .stream = nullptr,
                      .handle = reinterpret_cast<StreamHandle>(&stream),
                      .module = reinterpret_cast<Module>(&module_of_context),
                      .function = reinterpret_cast<Function>(&function),
                      .name = name,
                      .grid = {grid, 1, 1},
                      .block = {block, 1, 1},
                      .cluster = {1, 1, 1},
                      .number = 1,
                      .launch = reinterpret_cast<Launch>(&handle)};
    state.table = nullptr;
    if (of_graph) {
        NodeData node{};
        node.type = kernel_node, node.launch = launch;
        call_back(graphs, node_begins, node);
    } else {
        call_back(launches, launch_begins, launch);
    }
    for (int i = 0; i < state.count && state.is_patched; ++i) {
        const Access& each = state.accesses[i];
        for (u64 at = 0; at < each.bytes; at += 16)
            granules_access(const_cast<void*>(state.table), 0, each.address + at,
                            each.bytes - at < 16 ? unsigned(each.bytes - at) : 16, each.how, nullptr);
    }
    state.count = 0;
}

MemoryData memory(u64 address, u64 bytes, unsigned int flags) {
    return {.address = address, .bytes = bytes, .context = reinterpret_cast<Context>(&context), .flags = flags};
}

void play_line(const char* line) {
    char word[64] = "", name[256] = "";
    unsigned long long first = 0, second = 0, third = 0, fourth = 0;
    if (std::sscanf(line, "%63s", word) != 1) return;
    const char* const rest = line + std::strspn(line, " ") + std::strlen(word);
    const auto is = [&](const char* which) { return std::strcmp(word, which) == 0; };
    if (is("launch") || is("node")) {
        std::sscanf(rest, "%255s %llu %llu", name, &first, &second);
        return play_launch(name, unsigned(first), unsigned(second), is("node"));
    }
    std::sscanf(rest, "%lli %lli %lli %lli", reinterpret_cast<long long*>(&first),
                reinterpret_cast<long long*>(&second), reinterpret_cast<long long*>(&third),
                reinterpret_cast<long long*>(&fourth));
    if (is("module")) load_module();
    if (is("alloc")) call_back(resources, memory_allocated, memory(first, second, unsigned(third)));
    if (is("host")) call_back(resources, host_memory_allocated, memory(first, second, host_pinned));
    if (is("free")) call_back(resources, memory_freed, memory(first, 0, 0));
    if (is("copy")) {
        CopyData copy{};
        copy.source_context = copy.target_context = reinterpret_cast<Context>(&context);
        copy.source_handle = copy.target_handle = reinterpret_cast<StreamHandle>(&stream);
        copy.direction = int(first), copy.target = second, copy.bytes = third, copy.asynchronous = unsigned(fourth);
        call_back(copies, copy_begins, copy);
    }
    if (is("fill")) call_back(fills, fill_begins, FillData{.address = first, .width = second, .element_bytes = 1});
    if (is("r") || is("w") || is("a"))
        if (state.count < most_accesses)
            state.accesses[state.count++] = {first, second, is("r") ? 1u : is("w") ? 2u : 3u};
    if (is("sync"))
        call_back(
            synchronisations, stream_synchronised,
            SynchronisationData{reinterpret_cast<Context>(&context), nullptr, reinterpret_cast<StreamHandle>(&stream)});
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
API Result sanitizerFree(Context, void* address) { return std::free(address), 0; }
API Result sanitizerMemcpyHostToDeviceAsync(void* target, void* source, Bytes bytes, StreamHandle) {
    return std::memcpy(target, source, bytes), 0;
}
API Result sanitizerMemcpyDeviceToHost(void* target, void* source, Bytes bytes, StreamHandle) {
    std::memcpy(target, source, bytes);
    return failure("sanitizerMemcpyDeviceToHost");
}
