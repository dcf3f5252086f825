// The HIP runtime for the C programs of tests/port/fixtures (hiprt.h), as far as they use it. Memory of the device is
// memory of the host, and a kernel is a function of the host that gets the addresses of its arguments. As in AMD's
// runtime, exported functions have versions and go through a table. STANDIN_TABLES=entries: the table has so many, and
// is handed to tools as rocprofiler-register does it; unset: it is not, as before ROCm 6. STANDIN_FAIL=1: each call
// fails, as without a GPU.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

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
std::map<const void*, Size> symbol_bytes;
std::map<const void*, void*> symbols;

Error obtain(void** at, Size bytes) {
    *at = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *at == nullptr ? 2 : 0;
}
Error give_back(void* at) {
    std::free(at);
    return 0;
}
void* address_of(const void* symbol) {
    const std::scoped_lock lock(mutex);
    void*& at = symbols[symbol];
    if (at == nullptr) at = std::aligned_alloc(4096, (symbol_bytes[symbol] + 4095) / 4096 * 4096);
    return at;
}
Error move(void* target, const void* source, Size bytes) {
    std::memmove(target, source, bytes);
    return 0;
}
using Kernel = void (*)(void** arguments);
Error run(const void* kernel, void** arguments) {
    reinterpret_cast<Kernel>(const_cast<void*>(kernel))(arguments);
    return 0;
}

// What the tables have.
namespace own {
Error hipMalloc(void** p, Size n) { return obtain(p, n); }
Error hipMallocManaged(void** p, Size n, unsigned) { return obtain(p, n); }
Error hipHostMalloc(void** p, Size n, unsigned) { return obtain(p, n); }
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
Error hipMemcpyAsync(void* t, const void* s, Size n, int, Stream) { return move(t, s, n); }
Error hipMemcpyWithStream(void* t, const void* s, Size n, int, Stream) { return move(t, s, n); }
Error hipMemcpy2D(void* t, Size tp, const void* s, Size sp, Size w, Size h, int) {
    for (Size i = 0; i < h; ++i) move(static_cast<char*>(t) + i * tp, static_cast<const char*>(s) + i * sp, w);
    return 0;
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
Error hipMemPrefetchAsync(const void*, Size, int, Stream) { return 0; }
Error hipMemAdvise(const void*, Size, int, int) { return 0; }
Error hipMemGetInfo(Size* f, Size* n) {
    *f = Size(1) << 30;
    *n = Size(2) << 30;
    return 0;
}
Error hipLaunchKernel(const void* f, Dim3, Dim3, void** a, Size, Stream) { return run(f, a); }
Error hipExtLaunchKernel(const void* f, Dim3, Dim3, void** a, Size, Stream, Handle, Handle, int) { return run(f, a); }
Error hipLaunchCooperativeKernel(const void* f, Dim3, Dim3, void** a, unsigned, Stream) { return run(f, a); }
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
Error hipGetDevice(int* device) {
    *device = 0;
    return 0;
}
Error hipGetDeviceProperties(char* of, int) {
    std::memset(of, 0, 1024);
    std::strcpy(of, "Stand-in");
    std::strcpy(of + 700, "gfx90a:sramecc+:xnack-");
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
void __hipRegisterFunction(void**, const void*, char*, const char*, unsigned, void*, void*, void*, void*, int*) {}
void __hipRegisterVar(void**, void* variable, char*, char*, int, Size bytes, int, int) {
    const std::scoped_lock lock(mutex);
    symbol_bytes[variable] = bytes;
}
void __hipUnregisterFatBinary(void**) {}
}  // namespace own

void hand_over(const char* name, Table& table) {
    const char* const count = std::getenv("STANDIN_TABLES");
    if (count == nullptr) return;
    table.bytes = sizeof(Size) + std::min<Size>(std::strtoul(count, nullptr, 10), entries) * sizeof(void*);
    using Take = int (*)(const char*, std::uint64_t, std::uint64_t, void**, std::uint64_t);
    if (dlsym(RTLD_DEFAULT, "rocprofiler_configure") == nullptr) return;
    const auto take = reinterpret_cast<Take>(dlsym(RTLD_DEFAULT, "rocprofiler_set_api_table"));
    void* tables[] = {&table};
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
const Entry runtime_entries[] = {OWN(hipMalloc),
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
        return function == nullptr ? not_supported : reinterpret_cast<Error(*) parameters>(function) arguments;        \
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
