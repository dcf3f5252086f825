#include "profile/tried/driver.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <string_view>

extern "C" void* dlvsym(void*, const char*, const char*);

namespace firsttouch::tried {
namespace {

constexpr unsigned attach_global = 1, portable_and_mapped = 3;
constexpr int reaches_plain_memory = 88;      // CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
constexpr int hip_reaches_plain_memory = 65;  // hipDeviceAttributePageableMemoryAccess
constexpr int read_mostly = 1, preferred_location = 3, accessed_by = 5, processor = -1;

#ifdef __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif

using Dlsym = void* (*)(void*, const char*);
Dlsym find_dlsym() {
    // Each machine's first version, which newer C libraries have too: a search that fails would allocate memory.
    for (const char* version : {FIRST_VERSION, "GLIBC_2.34"})
        if (void* const found = dlvsym(RTLD_NEXT, "dlsym", version); found != nullptr)
            return reinterpret_cast<Dlsym>(found);
    return nullptr;
}

// Makes the device's context this thread's, if it has none: the program may allocate before it makes one.
bool have_context() {
    if (settings().is_hip) return true;  // each thread has one
    void* context = nullptr;
    if (ask_driver<"cuCtxGetCurrent">(&context) == 0 && context != nullptr) return true;
    int device = 0;
    return ask_driver<"cuInit">(0u) == 0 && ask_driver<"cuDeviceGet">(&device, settings().device) == 0 &&
           ask_driver<"cuDevicePrimaryCtxRetain">(&context, device) == 0 && ask_driver<"cuCtxSetCurrent">(context) == 0;
}

bool has_primary_context() {
    if (settings().is_hip) return true;
    unsigned flags = 0;
    int is_active = 0;
    return ask_driver<"cuDevicePrimaryCtxGetState">(settings().device, &flags, &is_active) != 0 || is_active != 0;
}

void hint(Result result) { counts().refused_hints += result != 0; }

// Other blocks of the program need room on the device, too.
void check_managed(std::uint64_t bytes) {
    using Number = unsigned long long;
    static const std::uint64_t free_at_first = [] {
        std::size_t free = 0, total = 0;
        return ask_driver<"cuMemGetInfo_v2">(&free, &total) == 0 ? free : 0;
    }();
    const std::uint64_t free = free_at_first - std::min<std::uint64_t>(free_at_first, counts().device);
    const std::uint64_t most = settings().most_managed == 0 ? free : std::min(free, settings().most_managed);
    if (counts().managed + bytes > most)
        give_up("%llu MiB of managed memory are more than the %llu MiB that the device has free, or that "
                "FIRSTTOUCH_MAX_MANAGED allows",
                static_cast<Number>((counts().managed + bytes) >> 20), static_cast<Number>(most >> 20));
}

Address get_managed(std::uint64_t bytes, const Pair* pair) {
    Address base = 0;
    check_managed(bytes);
    if (ask_driver<"cuMemAllocManaged">(&base, static_cast<std::size_t>(bytes), attach_global) != 0) return 0;
    counts().managed += bytes;
    counts().managed_peak = std::max(counts().managed_peak, counts().managed);
    if (settings().strategy != Strategy::advise || pair == nullptr) return base;
    const int device = settings().device;
    const auto size = static_cast<std::size_t>(bytes);
    if (!pair->is_copied_back) {
        hint(ask_driver<"cuMemAdvise">(base, size, read_mostly, device));
    } else {
        hint(ask_driver<"cuMemAdvise">(base, size, preferred_location, device));
        hint(ask_driver<"cuMemAdvise">(base, size, accessed_by, processor));
    }
    return base;
}

}  // namespace

void* next_dlsym(void* handle, const char* name) {
    static const Dlsym found = find_dlsym();
    return found == nullptr ? nullptr : found(handle, name);
}

// HIP's functions of the same parameters.
const char* hip_name(std::string_view name) {
    constexpr std::string_view names[][2] = {{"cuMemAllocManaged", "hipMallocManaged"},
                                             {"cuMemAlloc_v2", "hipMalloc"},
                                             {"cuMemFree_v2", "hipFree"},
                                             {"cuMemHostAlloc", "hipHostMalloc"},
                                             {"cuMemFreeHost", "hipHostFree"},
                                             {"cuMemAdvise", "hipMemAdvise"},
                                             {"cuMemPrefetchAsync", "hipMemPrefetchAsync"},
                                             {"cuStreamSynchronize", "hipStreamSynchronize"},
                                             {"cuStreamIsCapturing", "hipStreamIsCapturing"},
                                             {"cuCtxSynchronize", "hipDeviceSynchronize"},
                                             {"cuMemGetInfo_v2", "hipMemGetInfo"},
                                             {"cuDeviceGetAttribute", "hipDeviceGetAttribute"}};
    for (const auto& [of_cuda, of_hip] : names)
        if (name == of_cuda) return of_hip.data();
    return nullptr;
}

void* driver_function(const char* name) {
    if (settings().is_hip) {
        const Inside inside;
        const char* const of_hip = hip_name(name);
        return of_hip == nullptr ? nullptr : next_dlsym(RTLD_NEXT, of_hip);
    }
    static void* const driver = [] {
        const Inside inside;
        return dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    }();
    const Inside inside;
    return next_dlsym(driver != nullptr ? driver : RTLD_NEXT, name);  // also of a program that has it elsewhere
}

Address get_memory(std::uint64_t bytes, const Pair* pair) {
    const Strategy strategy = settings().strategy;
    if (!have_context()) return 0;
    if (strategy == Strategy::pinned || strategy == Strategy::page_locked) {
        void* base = nullptr;
        if (ask_driver<"cuMemHostAlloc">(&base, static_cast<std::size_t>(bytes), portable_and_mapped) != 0) return 0;
        counts().page_locked += bytes;
        return reinterpret_cast<Address>(base);
    }
    if (strategy == Strategy::system) {
        int reaches = 0;
        const int asked = settings().is_hip ? hip_reaches_plain_memory : reaches_plain_memory;
        ask_driver<"cuDeviceGetAttribute">(&reaches, asked, settings().device);
        if (reaches == 0)
            give_up("the GPU cannot reach memory of malloc (pageableMemoryAccess is 0: no HMM, ATS or XNACK)");
        void* const base =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return base == MAP_FAILED ? 0 : reinterpret_cast<Address>(base);
    }
    return get_managed(bytes, pair);
}

void give_memory(Address base, std::uint64_t bytes) {
    const Strategy strategy = settings().strategy;
    void* const address = reinterpret_cast<void*>(base);
    if (strategy == Strategy::system) {
        munmap(address, bytes);
    } else if (!has_primary_context() || !have_context()) {
        return;  // its memory has gone with it
    } else if (strategy == Strategy::pinned || strategy == Strategy::page_locked) {
        ask_driver<"cuMemFreeHost">(address);
    } else {
        ask_driver<"cuMemFree_v2">(base);
        counts().managed -= std::min(counts().managed, bytes);
    }
}

}  // namespace firsttouch::tried
