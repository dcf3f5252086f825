// The HIP runtime for programs that are traced, as far as they use it. Memory of the device is memory of the host, and
// all is done when a call returns. As in AMD's runtime, exported functions have versions and go through a table.
//   STANDIN_KERNELS=library   kernels and static variables are those of a library that hip_kernels.py made; unset: a
//                             kernel is a function of the host that gets the addresses of its arguments; empty: no
//                             kernel runs
//   STANDIN_TABLES=entries    the table has so many, and is handed to tools as rocprofiler-register does it; unset: it
//                             is not, as before ROCm 6
//   STANDIN_REGISTER=library  they are handed over through AMD's rocprofiler-register, which this is
//   STANDIN_LOG=file          each copy is appended to it: its direction, the bytes of the device's block and its own
//   STANDIN_FAIL=1            each call fails, as without a GPU
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profile/inject/front/hip/calls.hpp"

using namespace firsttouch::hip_front;

namespace {

constexpr Error not_supported = 801, invalid = 1;
constexpr Size entries = 512;
struct Table {
    Size bytes = sizeof(Table);
    void* functions[entries] = {};
};

std::mutex mutex;
struct Symbol {
    std::string name;
    Size bytes = 0;
    void* at = nullptr;
};
std::map<const void*, Symbol> symbols;
std::unordered_map<const void*, std::string> kernels;
struct Memory {
    Size bytes;
    bool is_device;
};
std::map<const char*, Memory, std::greater<>> memory;

void* in_kernels(const std::string& name) {
    static void* const library = [] {
        const char* const path = std::getenv("STANDIN_KERNELS");
        return path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }();
    return library == nullptr ? nullptr : dlsym(library, name.c_str());
}

Error obtain(void** at, Size bytes, bool is_device = true) {
    *at = bytes == 0 ? nullptr : std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (bytes > 0 && *at == nullptr) return 2;
    const std::scoped_lock lock(mutex);
    if (bytes > 0) memory[static_cast<const char*>(*at)] = {bytes, is_device};
    return 0;
}
Error give_back(void* at) {
    const std::scoped_lock lock(mutex);
    if (at != nullptr && memory.erase(static_cast<const char*>(at)) == 0) return invalid;
    std::free(at);
    return 0;
}
void* address_of(const void* symbol) {
    const std::scoped_lock lock(mutex);
    Symbol& of = symbols[symbol];
    if (of.at == nullptr) of.at = in_kernels(of.name);
    if (of.at == nullptr) of.at = std::aligned_alloc(4096, (of.bytes + 4095) / 4096 * 4096);
    memory[static_cast<const char*>(of.at)] = {of.bytes, true};
    return of.at;
}
Size device_bytes(const void* at) {  // of the block; 0: it is none of the device
    const auto found = memory.lower_bound(static_cast<const char*>(at));
    return found != memory.end() && found->second.is_device && at < found->first + found->second.bytes
               ? found->second.bytes
               : 0;
}
Error move(void* target, const void* source, Size bytes, Size rows = 1, Size target_pitch = 0, Size source_pitch = 0) {
    if (static const char* const log = std::getenv("STANDIN_LOG"); log != nullptr && bytes * rows > 0) {
        const std::scoped_lock lock(mutex);
        const Size to = device_bytes(target), from = device_bytes(source);
        const char* const way = to > 0 && from > 0 ? "d2d" : to > 0 ? "h2d" : from > 0 ? "d2h" : "h2h";
        if (FILE* const file = std::fopen(log, "a"); file != nullptr) {
            std::fprintf(file, "%s %zu %zu\n", way, to > 0 ? to : from, bytes * rows);
            std::fclose(file);
        }
    }
    for (Size i = 0; i < rows; ++i)
        std::memmove(static_cast<char*>(target) + i * target_pitch, static_cast<const char*>(source) + i * source_pitch,
                     bytes);
    return 0;
}
Error run(const void* kernel, Dim3 grid, Dim3 block, void** arguments) {
    using Function = void (*)(void** arguments);
    using Launch = void (*)(Function, const Dim3*, const Dim3*, void**);
    if (std::getenv("STANDIN_KERNELS") == nullptr) {
        reinterpret_cast<Function>(const_cast<void*>(kernel))(arguments);
        return 0;
    }
    constexpr Error no_function = 98;
    if (*std::getenv("STANDIN_KERNELS") == '\0') return 0;
    const auto function = reinterpret_cast<Function>(in_kernels("launch." + kernels[kernel]));
    const auto launch = reinterpret_cast<Launch>(in_kernels("standin_launch"));
    if (function == nullptr || launch == nullptr) return no_function;
    if (grid.x * grid.y * grid.z == 0 || block.x * block.y * block.z == 0 || block.x * block.y * block.z > 1024)
        return 9;  // hipErrorInvalidConfiguration
    launch(function, &grid, &block, arguments);
    return 0;
}

// What is asked of the stream that is captured waits in the graph until that is launched. Arguments of kernels must
// live as long.
using Work = std::vector<std::function<Error()>>;
Stream captured = nullptr;
Work capture;
Error do_on(Stream stream, std::function<Error()> step) {
    if (captured == nullptr || stream != captured) return step();
    capture.push_back(std::move(step));
    return 0;
}
Error add_to(Handle graph, std::function<Error()> step) {
    static_cast<Work*>(graph)->push_back(std::move(step));
    return 0;
}

double now_ms() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

thread_local Error last = 0;

// What the tables have.
namespace own {
Error hipGetLastError() { return std::exchange(last, 0); }
Error hipPeekAtLastError() { return last; }
Error hipMalloc(void** p, Size n) { return obtain(p, n); }
Error hipMallocManaged(void** p, Size n, unsigned) { return obtain(p, n, false); }
Error hipHostMalloc(void** p, Size n, unsigned) { return obtain(p, n, false); }
Error hipHostAlloc(void** p, Size n, unsigned) { return obtain(p, n, false); }
Error hipMallocHost(void** p, Size n) { return obtain(p, n, false); }
Error hipFreeHost(void* p) { return give_back(p); }
Error hipExtMallocWithFlags(void** p, Size n, unsigned) { return obtain(p, n); }
Error hipMallocAsync(void** p, Size n, Stream) { return obtain(p, n); }
Error hipMallocPitch(void** p, Size* pitch, Size w, Size h) {
    *pitch = (w + 255) / 256 * 256;
    return obtain(p, *pitch * h);
}
Error hipFree(void* p) { return give_back(p); }
Error hipFreeAsync(void* p, Stream) { return give_back(p); }
Error hipHostFree(void* p) { return give_back(p); }
Error hipHostRegister(void*, Size, unsigned) { return 0; }
Error hipHostUnregister(void*) { return 0; }
Error hipMemcpy(void* t, const void* s, Size n, int) { return move(t, s, n); }
Error hipMemcpyAsync(void* t, const void* s, Size n, int, Stream q) {
    return do_on(q, [=] { return move(t, s, n); });
}
Error hipMemcpyBatchAsync(void** t, void** s, Size* b, Size n, void*, Size*, Size, Size*, Stream) {
    for (Size i = 0; i < n; ++i) move(t[i], s[i], b[i]);
    return 0;
}
Error hipMemcpyParam2D(const Copy2D* c) {
    const auto at = [](const Side2D& side) {
        return static_cast<char*>(side.device != nullptr ? side.device : side.host) + side.y * side.pitch + side.x;
    };
    return move(at(c->target), at(c->source), c->width, c->height, c->target.pitch, c->source.pitch);
}
Error hipStreamBeginCapture(Stream q, int) { return captured = q, 0; }
Error hipStreamEndCapture(Stream q, Handle* g) {
    if (q != captured) return invalid;
    captured = nullptr;
    *g = new Work(std::move(capture));
    capture = {};
    return 0;
}
Error hipStreamIsCapturing(Stream q, int* status) { return *status = captured != nullptr && q == captured ? 1 : 0, 0; }
Error hipGraphAddMemcpyNode1D(Handle*, Handle g, const Handle*, Size, void* t, const void* s, Size m, int) {
    return add_to(g, [=] { return move(t, s, m); });
}
Error hipGraphAddMemsetNode(Handle*, Handle g, const Handle*, Size, const FillNode* f) {
    return add_to(g, [f = *f] { return std::memset(f.target, static_cast<int>(f.value), f.width * f.value_bytes), 0; });
}
Error hipGraphAddKernelNode(Handle*, Handle g, const Handle*, Size, const KernelNode* k) {
    return add_to(g, [k = *k] { return run(k.function, k.grid, k.block, k.parameters); });
}
Error hipGraphAddChildGraphNode(Handle*, Handle g, const Handle*, Size, Handle child) {
    return add_to(g, [steps = *static_cast<Work*>(child)] {
        for (const auto& step : steps) step();
        return 0;
    });
}
Error hipGraphInstantiate(Handle* e, Handle g, Handle*, char*, Size) {
    *e = new Work(*static_cast<Work*>(g));
    return 0;
}
Error hipGraphLaunch(Handle e, Stream) {
    for (const auto& step : *static_cast<Work*>(e)) step();
    return 0;
}
Error hipGraphDestroy(Handle g) { return delete static_cast<Work*>(g), 0; }
Error hipGraphExecDestroy(Handle e) { return delete static_cast<Work*>(e), 0; }
Error hipMemcpyWithStream(void* t, const void* s, Size n, int, Stream) { return move(t, s, n); }
Error hipMemcpy2D(void* t, Size tp, const void* s, Size sp, Size w, Size h, int) { return move(t, s, w, h, tp, sp); }
Error hipMemcpy2DAsync(void* t, Size tp, const void* s, Size sp, Size w, Size h, int, Stream) {
    return move(t, s, w, h, tp, sp);
}
Error hipMemcpy3D(const Copy3D* c) {
    for (Size z = 0; z < c->extent.depth; ++z)
        hipMemcpy2D(static_cast<char*>(c->target.address) + z * c->target.pitch * c->target.height, c->target.pitch,
                    static_cast<char*>(c->source.address) + z * c->source.pitch * c->source.height, c->source.pitch,
                    c->extent.width, c->extent.height, c->kind);
    return 0;
}
Error hipMemcpyToSymbol(const void* y, const void* s, Size n, Size o, int) {
    return move(static_cast<char*>(address_of(y)) + o, s, n);
}
Error hipMemcpyToSymbolAsync(const void* y, const void* s, Size n, Size o, int k, Stream) {
    return hipMemcpyToSymbol(y, s, n, o, k);
}
Error hipMemcpyHtoD(void* t, void* s, Size n) { return move(t, s, n); }
Error hipMemcpyDtoH(void* t, void* s, Size n) { return move(t, s, n); }
Error hipMemcpyDtoD(void* t, void* s, Size n) { return move(t, s, n); }
Error hipMemcpyPeer(void* t, int, const void* s, int, Size n) { return move(t, s, n); }
Error hipMemcpyFromSymbol(void* t, const void* y, Size n, Size o, int) {
    return move(t, static_cast<char*>(address_of(y)) + o, n);
}
Error hipGetSymbolAddress(void** p, const void* y) {
    *p = address_of(y);
    return 0;
}
Error hipMemset(void* t, int v, Size n) {
    std::memset(t, v, n);
    return 0;
}
Error hipMemsetAsync(void* t, int v, Size n, Stream) { return hipMemset(t, v, n); }
Error hipMemPrefetchAsync(const void*, Size, int, Stream) { return 0; }
Error hipMemAdvise(const void*, Size, int, int) { return 0; }
Error hipMemGetInfo(Size* f, Size* n) {
    *f = Size(1) << 30;
    *n = Size(2) << 30;
    return 0;
}
Error hipLaunchKernel(const void* f, Dim3 g, Dim3 b, void** a, Size, Stream q) {
    return do_on(q, [=] { return run(f, g, b, a); });
}
Error hipExtLaunchKernel(const void* f, Dim3 g, Dim3 b, void** a, Size, Stream, Handle, Handle, int) {
    return run(f, g, b, a);
}
Error hipLaunchCooperativeKernel(const void* f, Dim3 g, Dim3 b, void** a, unsigned, Stream) { return run(f, g, b, a); }
Error hipModuleLaunchKernel(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                            void**, void**) {
    return 0;
}
Error hipModuleLoadData(Handle* m, const void* image) {
    *m = const_cast<void*>(image);
    return 0;
}
Error hipModuleGetFunction(Handle* f, Handle m, const char*) {
    *f = static_cast<char*>(m) + 1;
    return 0;
}
Error hipModuleUnload(Handle) { return 0; }
Error hipDeviceSynchronize() { return 0; }
Error hipStreamSynchronize(Stream) { return 0; }
Error hipStreamQuery(Stream) { return 0; }
Error hipStreamDestroy(Stream q) { return std::free(q), 0; }
Error hipEventSynchronize(Handle) { return 0; }
Error hipEventQuery(Handle) { return 0; }
Error hipGetDevice(int* device) {
    *device = 0;
    return 0;
}
// As HIP 5 lays them out (hipDeviceProp_t, 792 bytes); what is not named here is 0.
Error hipGetDeviceProperties(char* of, int) {
    const std::pair<Size, Size> sizes[] = {{256, Size(2) << 30}, {264, 64 << 10}, {320, 64 << 10}};  // all; a group's
    const std::pair<Size, int> numbers[] = {
        {276, 64},    {280, 1024},  {284, 1024},      {288, 1024},      {292, 1024}, {296, 1 << 30},
        {300, 65535}, {304, 65535}, {308, 1'000'000}, {312, 1'000'000}, {316, 1024}, {328, 9},
        {332, 0},     {336, 8},     {344, 2048},      {656, 1},         {772, 1},    {780, 1}};
    std::memset(of, 0, 792);
    std::strcpy(of, "Stand-in");
    std::strcpy(of + 396, "gfx942:sramecc+:xnack-");
    for (const auto& [at, value] : sizes) std::memcpy(of + at, &value, sizeof value);
    for (const auto& [at, value] : numbers) std::memcpy(of + at, &value, sizeof value);
    return 0;
}
Error hipRuntimeGetVersion(int* version) {
    *version = 60241134;
    return 0;
}
void** __hipRegisterFatBinary(const void*) {
    static void* module;
    return &module;
}
void __hipRegisterFunction(void**, const void* f, char*, const char* name, unsigned, void*, void*, void*, void*, int*) {
    const std::scoped_lock lock(mutex);
    kernels[f] = name;
}
void __hipRegisterVar(void**, void* variable, char*, char* name, int, Size bytes, int, int) {
    const std::scoped_lock lock(mutex);
    symbols[variable] = {name, bytes};
}
void __hipUnregisterFatBinary(void**) {}
}  // namespace own

void hand_over(const char* name, Table& table) {
    const char* const count = std::getenv("STANDIN_TABLES");
    if (count == nullptr) return;
    table.bytes = sizeof(Size) + std::min<Size>(std::strtoul(count, nullptr, 10), entries) * sizeof(void*);
    void* tables[] = {&table};
    if (const char* const path = std::getenv("STANDIN_REGISTER"); path != nullptr) {
        using Register = int (*)(const char*, void*, std::uint32_t, void**, std::uint64_t, std::uint64_t*);
        static void* const library = dlopen(path, RTLD_NOW);
        if (library == nullptr) std::abort();
        std::uint64_t id = 0;
        reinterpret_cast<Register>(dlsym(library, "rocprofiler_register_library_api_table"))(name, nullptr, 60200,
                                                                                             tables, 1, &id);
        return;
    }
    using Take = int (*)(const char*, std::uint64_t, std::uint64_t, void**, std::uint64_t);
    if (dlsym(RTLD_DEFAULT, "rocprofiler_configure") == nullptr) return;
    const auto take = reinterpret_cast<Take>(dlsym(RTLD_DEFAULT, "rocprofiler_set_api_table"));
    if (take != nullptr) take(name, 60200, 0, tables, 1);
}

#define PLACE_OF(place, name, parameters, arguments) place_of_##name = place,
#define PLACE_OF_COMPILER(place, type, name, parameters, arguments) place_of_##name = place,
enum Place : unsigned {
    FIRSTTOUCH_HIP_CALLS(PLACE_OF) FIRSTTOUCH_HIP_QUESTIONS(PLACE_OF) FIRSTTOUCH_HIP_COMPILER_CALLS(PLACE_OF_COMPILER)
};

struct Entry {
    unsigned place;
    void* function;
};
#define OWN(name)                                                                                                      \
    Entry { place_of_##name, reinterpret_cast<void*>(&own::name) }
const Entry runtime_entries[] = {OWN(hipGetLastError),
                                 OWN(hipMemcpyBatchAsync),
                                 OWN(hipMemcpyParam2D),
                                 OWN(hipStreamBeginCapture),
                                 OWN(hipStreamEndCapture),
                                 OWN(hipStreamIsCapturing),
                                 OWN(hipGraphAddMemcpyNode1D),
                                 OWN(hipGraphAddMemsetNode),
                                 OWN(hipGraphAddKernelNode),
                                 OWN(hipGraphAddChildGraphNode),
                                 OWN(hipGraphInstantiate),
                                 OWN(hipGraphLaunch),
                                 OWN(hipGraphDestroy),
                                 OWN(hipGraphExecDestroy),
                                 OWN(hipPeekAtLastError),
                                 OWN(hipMalloc),
                                 OWN(hipHostAlloc),
                                 OWN(hipMallocHost),
                                 OWN(hipFreeHost),
                                 OWN(hipExtMallocWithFlags),
                                 OWN(hipMemcpy2DAsync),
                                 OWN(hipMemcpyToSymbolAsync),
                                 OWN(hipMemcpyHtoD),
                                 OWN(hipMemcpyDtoH),
                                 OWN(hipMemcpyDtoD),
                                 OWN(hipMemcpyPeer),
                                 OWN(hipMemsetAsync),
                                 OWN(hipStreamQuery),
                                 OWN(hipStreamDestroy),
                                 OWN(hipEventSynchronize),
                                 OWN(hipEventQuery),
                                 OWN(hipMallocManaged),
                                 OWN(hipHostMalloc),
                                 OWN(hipMallocAsync),
                                 OWN(hipMallocPitch),
                                 OWN(hipFree),
                                 OWN(hipFreeAsync),
                                 OWN(hipHostFree),
                                 OWN(hipHostRegister),
                                 OWN(hipHostUnregister),
                                 OWN(hipMemcpy),
                                 OWN(hipMemcpyAsync),
                                 OWN(hipMemcpyWithStream),
                                 OWN(hipMemcpy2D),
                                 OWN(hipMemcpy3D),
                                 OWN(hipMemcpyToSymbol),
                                 OWN(hipMemcpyFromSymbol),
                                 OWN(hipGetSymbolAddress),
                                 OWN(hipMemset),
                                 OWN(hipMemPrefetchAsync),
                                 OWN(hipMemAdvise),
                                 OWN(hipMemGetInfo),
                                 OWN(hipLaunchKernel),
                                 OWN(hipExtLaunchKernel),
                                 OWN(hipLaunchCooperativeKernel),
                                 OWN(hipModuleLaunchKernel),
                                 OWN(hipModuleLoadData),
                                 OWN(hipModuleGetFunction),
                                 OWN(hipModuleUnload),
                                 OWN(hipDeviceSynchronize),
                                 OWN(hipStreamSynchronize),
                                 OWN(hipGetDevice),
                                 OWN(hipGetDeviceProperties),
                                 OWN(hipRuntimeGetVersion)};
const Entry compiler_entries[] = {OWN(__hipRegisterFatBinary), OWN(__hipRegisterFunction), OWN(__hipRegisterVar),
                                  OWN(__hipUnregisterFatBinary)};

template <class Entries>
Table& made(const char* name, const Entries& of) {
    static Table table;  // one for each type
    for (const Entry& entry : of) table.functions[entry.place] = entry.function;
    hand_over(name, table);
    return table;
}
Table& runtime_table() {
    static Table& table = made("hip", runtime_entries);
    return table;
}
Table& compiler_table() {
    static Table& table = made("hip_compiler", compiler_entries);
    return table;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define CALL(place, name, parameters, arguments)                                                                       \
    EXPORTED Error name parameters {                                                                                   \
        if (std::getenv("STANDIN_FAIL") != nullptr) return invalid;                                                    \
        void* const function = runtime_table().functions[place];                                                       \
        using Function = Error(*) parameters;                                                                          \
        const Error error = function == nullptr ? not_supported : reinterpret_cast<Function>(function) arguments;      \
        if (error != 0 && place != place_of_hipGetLastError && place != place_of_hipPeekAtLastError) last = error;     \
        return error;                                                                                                  \
    }
FIRSTTOUCH_HIP_CALLS(CALL)
FIRSTTOUCH_HIP_QUESTIONS(CALL)
#undef CALL
#define CALL(place, type, name, parameters, arguments)                                                                 \
    EXPORTED type name parameters {                                                                                    \
        using Result = type;                                                                                           \
        void* const function = compiler_table().functions[place];                                                      \
        return function == nullptr ? Result() : reinterpret_cast<Result(*) parameters>(function) arguments;            \
    }
FIRSTTOUCH_HIP_COMPILER_CALLS(CALL)

// What is not watched.
namespace {
thread_local struct {
    Dim3 grid, block;
    Size shared;
    Stream stream;
} configuration;
}  // namespace
EXPORTED Error __hipPushCallConfiguration(Dim3 grid, Dim3 block, Size shared, Stream stream) {
    configuration = {grid, block, shared, stream};
    return 0;
}
EXPORTED Error __hipPopCallConfiguration(Dim3* grid, Dim3* block, Size* shared, Stream* stream) {
    *grid = configuration.grid, *block = configuration.block;
    *shared = configuration.shared, *stream = configuration.stream;
    return 0;
}
EXPORTED Error hipGraphCreate(Handle* g, unsigned) { return *g = new Work, 0; }
EXPORTED Error hipInit(unsigned) { return 0; }
EXPORTED Error hipGetDeviceCount(int* n) { return *n = 1, 0; }
EXPORTED Error hipSetDevice(int device) { return device == 0 ? 0 : 101; }
EXPORTED Error hipDeviceReset() { return 0; }
EXPORTED const char* hipGetErrorString(Error e) { return e == 0 ? "no error" : "error"; }
EXPORTED const char* hipGetErrorName(Error e) { return e == 0 ? "hipSuccess" : "hipErrorUnknown"; }
EXPORTED Error hipFuncSetCacheConfig(const void*, int) { return 0; }
EXPORTED Error hipDeviceSetCacheConfig(int) { return 0; }
struct PointerAttributes {
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};
EXPORTED Error hipPointerGetAttributes(PointerAttributes* out, const void* at) {
    const std::scoped_lock lock(mutex);
    const auto found = memory.lower_bound(static_cast<const char*>(at));
    *out = {};
    if (found == memory.end() || at >= found->first + found->second.bytes) return 0;
    out->type = found->second.is_device ? 2 : 1, out->device_pointer = const_cast<void*>(at);
    if (!found->second.is_device) out->host_pointer = out->device_pointer;
    return 0;
}
EXPORTED Error hipMemGetAddressRange(void** base, Size* bytes, void* at) {
    const std::scoped_lock lock(mutex);
    const auto found = memory.lower_bound(static_cast<const char*>(at));
    if (found == memory.end() || at >= found->first + found->second.bytes) return invalid;
    return *base = const_cast<char*>(found->first), *bytes = found->second.bytes, 0;
}
EXPORTED Error hipIpcGetMemHandle(void*, void* at) {
    const std::scoped_lock lock(mutex);
    return device_bytes(at) > 0 ? 0 : invalid;
}
EXPORTED Error hipDeviceGetAttribute(int* value, int, int) { return *value = 64, 0; }
EXPORTED Error hipStreamCreate(Stream* q) { return *q = std::malloc(8), 0; }
EXPORTED Error hipStreamCreateWithFlags(Stream* q, unsigned) { return hipStreamCreate(q); }
EXPORTED Error hipStreamWaitEvent(Stream, Handle, unsigned) { return 0; }
EXPORTED Error hipEventCreate(Handle* e) { return *e = std::calloc(1, sizeof(double)), 0; }
EXPORTED Error hipEventCreateWithFlags(Handle* e, unsigned) { return hipEventCreate(e); }
EXPORTED Error hipEventRecord(Handle e, Stream) { return *static_cast<double*>(e) = now_ms(), 0; }
EXPORTED Error hipEventElapsedTime(float* ms, Handle from, Handle to) {
    return *ms = static_cast<float>(*static_cast<double*>(to) - *static_cast<double*>(from)), 0;
}
EXPORTED Error hipEventDestroy(Handle e) { return std::free(e), 0; }
EXPORTED Error hipOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void*, int, Size) { return *n = 2, 0; }
