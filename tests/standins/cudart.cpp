// A stand-in for the CUDA runtime, for programs that nvcc builds with -cudart shared and for the C programs of tests
// (cudart.h): libcudart.so.13 under which the host code runs as it is, on the stand-in for the driver, whose functions
// it asks for where something may be preloaded in between (cuda_asked.hpp). Events are dated by the processor, streams
// do all at once, and nothing fails but allocations.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda_asked.hpp"
#include "cuda_driver.hpp"

using namespace played;

namespace {

using Error = int;
constexpr Error invalid_device_function = 98, not_supported = 801;

struct Configuration {
    Size3 grid, block;
    std::size_t shared_bytes;
    Stream* stream;
};
thread_local std::vector<Configuration> configurations;
thread_local Error last_error = success;

struct Symbol {
    const char* name;
    Address address = 0;
    bool is_known = false;  // the driver was asked for it
};

// What programs have registered. Never freed: they free memory while they exit.
struct Registered {
    std::mutex mutex;
    std::unordered_map<const void*, Kernel*> kernels;
    std::unordered_map<const void*, Symbol> symbols;  // the node of a symbol is where its address is written
};
Registered& registered() {
    static Registered& instance = *new Registered;
    return instance;
}

Error done(int code) {
    if (code != success) last_error = code;
    return code;
}

Kernel* kernel_of(const void* function) {
    const std::scoped_lock lock(registered().mutex);
    const auto found = registered().kernels.find(function);
    return found == registered().kernels.end() ? nullptr : found->second;
}

Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

bool is_of_host(Address address) {
    const Memory memory = memory_at(address);
    return memory == pageable || memory == pinned;
}

// kind: the runtime's number; 4 lets the driver find out.
Copy copy_of(void* target, const void* source, std::size_t bytes, int kind, bool is_asynchronous, Stream* stream) {
    const Address to = address_of(target), from = address_of(source);
    Direction direction = kind == 1 ? to_device : kind == 2 ? to_host : kind == 3 ? on_device : on_host;
    if (kind == 4)
        direction = is_of_host(to) ? is_of_host(from) ? on_host : to_host : is_of_host(from) ? to_device : on_device;
    return {to, from, bytes, direction, is_asynchronous, stream, kind != 4};
}

int launched(Kernel* kernel, Size3 grid, Size3 block, void** arguments, std::size_t shared_bytes, Stream* stream,
             bool is_cooperative) {
    initialise();
    if (kernel == nullptr) return done(invalid_device_function);
    const auto shared = static_cast<std::uint32_t>(shared_bytes);
    return done(launch({kernel, grid, block, arguments, shared, stream, is_cooperative}));
}

Address symbol_at(const void* symbol) {
    initialise();
    Symbol* found = nullptr;
    {
        const std::scoped_lock lock(registered().mutex);
        const auto place = registered().symbols.find(symbol);
        if (place == registered().symbols.end()) return 0;
        found = &place->second;
    }
    std::size_t bytes = 0;
    if (!std::exchange(found->is_known, true)) find_symbol(found->name, &found->address, &bytes);
    return found->address;
}

int copied_symbol(const void* symbol, const void* host_in, void* host_out, std::size_t bytes, std::size_t offset,
                  bool is_asynchronous, Stream* stream) {
    const Address address = symbol_at(symbol);
    if (address == 0) return done(13);
    void* const device = reinterpret_cast<void*>(address + offset);
    if (host_out == nullptr) return done(asked::copy(copy_of(device, host_in, bytes, 1, is_asynchronous, stream)));
    return done(asked::copy(copy_of(host_out, device, bytes, 2, is_asynchronous, stream)));
}

double milliseconds() {
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

template <class Value>
void put(void* structure, std::size_t offset, Value value) {
    std::memcpy(static_cast<char*>(structure) + offset, &value, sizeof value);
}

}  // namespace

struct played::Event {
    double milliseconds;
};

#define RUNTIME extern "C" __attribute__((visibility("default"))) Error
#define NOTHING(name, ...)                                                                                             \
    RUNTIME name(__VA_ARGS__) { return success; }

// Devices and errors.
RUNTIME cudaGetDeviceCount(int* count) { return *count = devices(), done(initialise()); }
RUNTIME cudaGetDevice(int* device) { return *device = 0, success; }
RUNTIME cudaSetDevice(int device) { return initialise(), done(use_device(device)); }
RUNTIME cudaChooseDevice(int* device, const void*) { return *device = 0, success; }
RUNTIME cudaGetLastError() { return std::exchange(last_error, success); }
RUNTIME cudaPeekAtLastError() { return last_error; }
RUNTIME cudaDriverGetVersion(int* version) { return *version = 13000, success; }
RUNTIME cudaRuntimeGetVersion(int* version) { return *version = 13000, success; }
RUNTIME cudaDeviceReset() { return initialise(), done(asked::reset()); }
NOTHING(cudaDeviceSetCacheConfig, int)
NOTHING(cudaFuncSetCacheConfig, const void*, int)
NOTHING(cudaFuncSetAttribute, const void*, int, int)
NOTHING(cudaDeviceSetLimit, int, std::size_t)
NOTHING(cudaSetDeviceFlags, unsigned)
NOTHING(cudaProfilerStart)
NOTHING(cudaProfilerStop)
extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorString(Error code) {
    return code == success ? "no error" : "an error of the stand-in for the CUDA runtime";
}
extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorName(Error code) {
    return code == success ? "cudaSuccess" : "cudaErrorOfStandin";
}
RUNTIME cudaGetDeviceProperties(void* properties, int) {  // offsets of CUDA 13
    std::memset(properties, 0, 1008);
    std::strcpy(static_cast<char*>(properties), "Stand-in");
    put(properties, 288, std::size_t{64} << 30), put(properties, 296, std::size_t{48} << 10);
    put(properties, 304, 65536), put(properties, 308, 32), put(properties, 320, 1024);
    put(properties, 324, Size3{1024, 1024, 64}), put(properties, 336, Size3{2147483647, 65535, 65535});
    put(properties, 352, std::size_t{64} << 10), put(properties, 360, 9), put(properties, 368, std::size_t{512});
    put(properties, 384, 132), put(properties, 392, 1), put(properties, 560, 1), put(properties, 584, 3);
    put(properties, 588, 1), put(properties, 596, 50 << 20), put(properties, 604, 2048);
    put(properties, 624, std::size_t{228} << 10), put(properties, 632, 65536), put(properties, 636, 1);
    put(properties, 656, 1), put(properties, 668, 1);
    return success;
}
RUNTIME cudaGetDeviceProperties_v2(void* properties, int device) { return cudaGetDeviceProperties(properties, device); }
RUNTIME cudaDeviceGetAttribute(int* value, int attribute, int) {
    static const std::map<int, int> values{{1, 1024},  {2, 1024},  {3, 1024}, {4, 64},    {5, 2147483647}, {6, 65535},
                                           {7, 65535}, {8, 49152}, {10, 32},  {13, 1980}, {16, 132},       {39, 2048},
                                           {75, 9},    {76, 0},    {83, 1},   {89, 1},    {95, 1}};
    const auto found = values.find(attribute);
    return *value = found == values.end() ? 0 : found->second, success;
}
RUNTIME cudaFuncGetAttributes(void* attributes, const void*) {
    std::memset(attributes, 0, 144);
    put(attributes, 24, 1024), put(attributes, 28, 32);
    return success;
}
RUNTIME cudaMemGetInfo(std::size_t* free, std::size_t* total) { return initialise(), done(memory_info(free, total)); }

// Memory.
RUNTIME cudaMalloc(void** out, std::size_t bytes) {
    initialise();
    if (bytes == 0) return *out = nullptr, success;
    return done(asked::allocate(reinterpret_cast<Address*>(out), bytes));
}
RUNTIME cudaMallocPitch(void** out, std::size_t* pitch, std::size_t width, std::size_t height) {
    initialise();
    return done(allocate_pitched(reinterpret_cast<Address*>(out), pitch, width, height));
}
RUNTIME cudaMallocAsync(void** out, std::size_t bytes, Stream* stream) {
    initialise();
    return done(allocate_on_stream(reinterpret_cast<Address*>(out), bytes, stream));
}
RUNTIME cudaMallocManaged(void** out, std::size_t bytes, unsigned flags) {
    initialise();
    return done(allocate_managed(reinterpret_cast<Address*>(out), bytes, flags));
}
RUNTIME cudaHostAlloc(void** out, std::size_t bytes, unsigned flags) {
    initialise();
    return done(asked::allocate_pinned(out, bytes, flags));
}
RUNTIME cudaMallocHost(void** out, std::size_t bytes) { return cudaHostAlloc(out, bytes, 0); }
RUNTIME cudaFree(void* address) {
    initialise();
    return address == nullptr ? success : done(asked::release(address_of(address)));
}
RUNTIME cudaFreeAsync(void* address, Stream* stream) { return done(release_on_stream(address_of(address), stream)); }
RUNTIME cudaFreeHost(void* address) { return address == nullptr ? success : done(asked::release_pinned(address)); }
RUNTIME cudaHostRegister(void* address, std::size_t bytes, unsigned flags) {
    initialise();
    return done(asked::lock(address, bytes, flags));
}
RUNTIME cudaHostUnregister(void* address) { return done(asked::unlock(address)); }
struct PointerAttributes {
    int type, device;
    void *device_pointer, *host_pointer;
};
RUNTIME cudaPointerGetAttributes(PointerAttributes* out, const void* address) {
    initialise();
    *out = {};
    char is_managed = 0;
    int asked[] = {2, 3, 4, 8};
    void* values[] = {&out->type, &out->device_pointer, &out->host_pointer, &is_managed};
    const int result = asked::attributes(4, asked, values, address_of(address));
    if (is_managed != 0) out->type = 3;
    return done(result);
}
RUNTIME cudaHostGetDevicePointer(void** device, void* host, unsigned) { return *device = host, success; }

// Copies, fills, prefetches and advice.
RUNTIME cudaMemcpy(void* target, const void* source, std::size_t bytes, int kind) {
    initialise();
    return done(asked::copy(copy_of(target, source, bytes, kind, false, nullptr)));
}
RUNTIME cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, int kind, Stream* stream) {
    initialise();
    return done(asked::copy(copy_of(target, source, bytes, kind, true, stream)));
}
RUNTIME cudaMemcpy2DAsync(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
                          std::size_t width, std::size_t height, int kind, Stream* stream) {
    initialise();
    return done(
        asked::copy_rows(copy_of(target, source, width, kind, true, stream), {height, target_pitch, source_pitch}));
}
RUNTIME cudaMemcpy2D(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
                     std::size_t width, std::size_t height, int kind) {
    initialise();
    return done(
        asked::copy_rows(copy_of(target, source, width, kind, false, nullptr), {height, target_pitch, source_pitch}));
}
RUNTIME cudaMemcpyToSymbol(const void* symbol, const void* source, std::size_t bytes, std::size_t offset, int) {
    return copied_symbol(symbol, source, nullptr, bytes, offset, false, nullptr);
}
RUNTIME cudaMemcpyFromSymbol(void* target, const void* symbol, std::size_t bytes, std::size_t offset, int) {
    return copied_symbol(symbol, nullptr, target, bytes, offset, false, nullptr);
}
RUNTIME cudaMemcpyToSymbolAsync(const void* symbol, const void* source, std::size_t bytes, std::size_t offset, int,
                                Stream* stream) {
    return copied_symbol(symbol, source, nullptr, bytes, offset, true, stream);
}
RUNTIME cudaGetSymbolAddress(void** out, const void* symbol) {
    *out = reinterpret_cast<void*>(symbol_at(symbol));
    return *out == nullptr ? done(13) : success;
}
RUNTIME cudaMemset(void* target, int value, std::size_t bytes) {
    initialise();
    return done(asked::fill(address_of(target), static_cast<unsigned char>(value), bytes, false, nullptr));
}
RUNTIME cudaMemsetAsync(void* target, int value, std::size_t bytes, Stream* stream) {
    initialise();
    return done(asked::fill(address_of(target), static_cast<unsigned char>(value), bytes, true, stream));
}
struct Location {
    int type, id;
};
RUNTIME cudaMemPrefetchAsync(const void* address, std::size_t bytes, Location place, unsigned, Stream* stream) {
    return done(prefetch(address_of(address), bytes, place.type, place.id, stream));
}
RUNTIME cudaMemAdvise(const void* address, std::size_t bytes, int advice, Location place) {
    return done(advise(address_of(address), bytes, advice, place.type, place.id));
}

// Launches.
RUNTIME cudaLaunchKernel(const void* function, Size3 grid, Size3 block, void** arguments, std::size_t shared_bytes,
                         Stream* stream) {
    return launched(kernel_of(function), grid, block, arguments, shared_bytes, stream, false);
}
RUNTIME cudaLaunchCooperativeKernel(const void* function, Size3 grid, Size3 block, void** arguments,
                                    std::size_t shared_bytes, Stream* stream) {
    return launched(kernel_of(function), grid, block, arguments, shared_bytes, stream, true);
}
RUNTIME __cudaGetKernel(Kernel** kernel, const void* function) {
    *kernel = kernel_of(function);
    return *kernel == nullptr ? done(invalid_device_function) : success;
}
RUNTIME __cudaLaunchKernel(Kernel* kernel, Size3 grid, Size3 block, void** arguments, std::size_t shared_bytes,
                           Stream* stream) {
    return launched(kernel, grid, block, arguments, shared_bytes, stream, false);
}
RUNTIME __cudaPushCallConfiguration(Size3 grid, Size3 block, std::size_t shared_bytes, Stream* stream) {
    configurations.push_back({grid, block, shared_bytes, stream});
    return success;
}
RUNTIME __cudaPopCallConfiguration(Size3* grid, Size3* block, std::size_t* shared_bytes, void* stream) {
    if (configurations.empty()) return done(invalid_device_function);
    const Configuration last = configurations.back();
    configurations.pop_back();
    *grid = last.grid, *block = last.block, *shared_bytes = last.shared_bytes;
    *static_cast<Stream**>(stream) = last.stream;
    return success;
}
RUNTIME cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
    return *blocks = 2, success;
}
RUNTIME cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, std::size_t, unsigned) {
    return *blocks = 2, success;
}

// Streams, events and waits.
RUNTIME cudaStreamCreateWithFlags(Stream** out, unsigned flags) {
    return *out = new Stream{flags, nullptr}, done(initialise());
}
RUNTIME cudaStreamCreate(Stream** out) { return cudaStreamCreateWithFlags(out, 0); }
RUNTIME cudaStreamDestroy(Stream* stream) { return delete stream, success; }
RUNTIME cudaStreamSynchronize(Stream* stream) { return initialise(), done(wait_for_stream(stream)); }
NOTHING(cudaStreamWaitEvent, Stream*, Event*, unsigned)
NOTHING(cudaStreamQuery, Stream*)
RUNTIME cudaStreamBeginCapture(Stream* stream, int) { return done(begin_capture(stream)); }
RUNTIME cudaStreamEndCapture(Stream* stream, Graph** graph) { return done(end_capture(stream, graph)); }
RUNTIME cudaGraphInstantiate(GraphToLaunch** out, Graph* graph, unsigned long long) {
    return done(instantiate(out, graph));
}
RUNTIME cudaGraphLaunch(GraphToLaunch* graph, Stream* stream) { return done(launch_graph(graph, stream)); }
RUNTIME cudaGraphDestroy(Graph* graph) { return destroy(graph), success; }
RUNTIME cudaGraphExecDestroy(GraphToLaunch* graph) { return destroy(graph), success; }
RUNTIME cudaDeviceSynchronize() { return initialise(), done(wait_for_context()); }
RUNTIME cudaEventCreateWithFlags(Event** out, unsigned) { return *out = new Event{0}, done(initialise()); }
RUNTIME cudaEventCreate(Event** out) { return cudaEventCreateWithFlags(out, 0); }
RUNTIME cudaEventDestroy(Event* event) { return delete event, success; }
RUNTIME cudaEventRecord(Event* event, Stream*) { return event->milliseconds = milliseconds(), success; }
NOTHING(cudaEventQuery, Event*)
RUNTIME cudaEventSynchronize(Event* event) { return done(wait_for_event(event)); }
RUNTIME cudaEventElapsedTime(float* elapsed, const Event* from, const Event* to) {
    return *elapsed = static_cast<float>(to->milliseconds - from->milliseconds), success;
}
RUNTIME cudaEventElapsedTime_v2(float* elapsed, const Event* from, const Event* to) {
    return cudaEventElapsedTime(elapsed, from, to);
}

// What nvcc has a program call before main.
#define REGISTERS extern "C" __attribute__((visibility("default")))

REGISTERS void** __cudaRegisterFatBinary(void* wrapper) {
    struct Wrapper {
        int magic, version;
        const void* code;
        void* files;
    };
    add_code(static_cast<const Wrapper*>(wrapper)->code);
    return static_cast<void**>(wrapper);
}
REGISTERS void __cudaRegisterFatBinaryEnd(void**) {}
REGISTERS void __cudaUnregisterFatBinary(void**) {}
REGISTERS char __cudaInitModule(void**) { return 1; }
REGISTERS void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, void*, void*, void*,
                                      void*, int*) {
    Kernel* const kernel = add_kernel(name);
    const std::scoped_lock lock(registered().mutex);
    registered().kernels[function] = kernel;
}
REGISTERS void __cudaRegisterVar(void**, char* symbol, char*, const char* name, int, std::size_t bytes, int, int) {
    const std::scoped_lock lock(registered().mutex);
    Symbol& added = registered().symbols[symbol] = {name};
    add_symbol(name, bytes, &added.address, false);
}
REGISTERS void __cudaRegisterManagedVar(void**, void** symbol, char*, const char* name, int, std::size_t bytes, int,
                                        int) {
    const std::scoped_lock lock(registered().mutex);
    add_symbol(name, bytes, reinterpret_cast<Address*>(symbol), true);
}

// A kernel of a test: a function that the stand-in runs when it is launched.
REGISTERS void standin_kernel(const void* function, const char* name, const std::size_t* bytes, int count) {
    Kernel* const kernel = add_kernel(name);
    std::size_t offset = 0;
    for (int i = 0; i < count; ++i) {
        const std::size_t alignment = bytes[i] % 8 == 0 ? 8 : bytes[i] % 4 == 0 ? 4 : 1;
        offset = (offset + alignment - 1) / alignment * alignment;
        kernel->parameters.push_back({offset, bytes[i]});
        offset += bytes[i];
    }
    kernel->body = reinterpret_cast<Body>(const_cast<void*>(function));
    const std::scoped_lock lock(registered().mutex);
    registered().kernels[function] = kernel;
}
REGISTERS void standin_symbol(const void* symbol, const char* name, std::size_t bytes) {
    __cudaRegisterVar(nullptr, static_cast<char*>(const_cast<void*>(symbol)), nullptr, name, 0, bytes, 0, 0);
}
