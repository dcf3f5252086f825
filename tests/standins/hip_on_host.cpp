// A HIP runtime and hipRTC on the processor, so that the code of the HIP device runs on machines without an AMD GPU. It
// tests which functions that code calls, in which order, and how it handles results and errors. It proves nothing about
// AMD's runtime or hardware, nor about the HIP prelude, because kernels are compiled by g++ with prelude.standin.h
// instead.
//
// Environment variables describe the machine:
//   HSA_XNACK=1             the GPU retries page faults, so it can access plain host memory
//   STANDIN_ARCH            gfx90a:sramecc+ by default; an xnack feature is added unless STANDIN_XNACK=none
//   STANDIN_INTEGRATED=1    an APU; the CPU accesses the memory of one of gfx942 coherently
//   STANDIN_CONCURRENT=0    CPU and GPU cannot use managed memory at once
//   STANDIN_CACHED=1        kernels keep memory that is not coherent while they run (hipHostMallocNonCoherent,
//                           hipMemAdviseSetCoarseGrain) in a cache that is written back when the CPU synchronises;
//                           =never: not even then, as if the program did not synchronise
//   STANDIN_DEVICES         the number of devices, 1 by default
//   STANDIN_MEMORY          bytes of memory of each device, 2 GiB by default
//   STANDIN_FREE            bytes at most that a device states as free, whatever it can allocate
//   STANDIN_UNREACHABLE     a>b,...: device a cannot access the memory of device b
//   STANDIN_FAIL            call=code,...: these calls fail with these errors
//   STANDIN_FLIP            the index of a device: copies into its memory from a device's memory have one wrong bit
//   STANDIN_BACKWARD=1      groups and items of a kernel run in reverse order
//   STANDIN_SANITIZE=1      kernels are compiled with the address sanitizer, and each block has redzones around it;
//                           the process must have been started with libasan.so in LD_PRELOAD
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "standin.hpp"

// Defined only in a process with the address sanitizer.
extern "C" void __asan_poison_memory_region(const volatile void*, std::size_t) __attribute__((weak));
extern "C" void __asan_unpoison_memory_region(const volatile void*, std::size_t) __attribute__((weak));

namespace standin {
namespace {

using hip::Result;
constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_device = 101,
                 invalid_image = 200, invalid_handle = 400, not_found = 500, not_ready = 600, illegal_address = 700,
                 peer_enabled_before = 704;
constexpr std::size_t granularity = 2 << 20;

struct Error {
    Result code;
    const char *name, *text;
};
constexpr Error errors[] = {
    {success, "hipSuccess", "no error"},
    {invalid_value, "hipErrorInvalidValue", "invalid argument"},
    {out_of_memory, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {no_device, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {invalid_device, "hipErrorInvalidDevice", "invalid device ordinal"},
    {invalid_image, "hipErrorInvalidImage", "device kernel image is invalid"},
    {209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {217, "hipErrorPeerAccessUnsupported", "peer access is not supported between these two devices"},
    {invalid_handle, "hipErrorInvalidHandle", "invalid resource handle"},
    {not_found, "hipErrorNotFound", "named symbol not found"},
    {not_ready, "hipErrorNotReady", "device not ready"},
    {illegal_address, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {peer_enabled_before, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
    {801, "hipErrorNotSupported", "operation not supported"}};
const Error& error_of(Result code) {
    static constexpr Error unknown{999, "hipErrorUnknown", "unknown error"};
    for (const Error& error : errors)
        if (error.code == code) return error;
    return unknown;
}

// Returns the error that STANDIN_FAIL names for a call, otherwise success.
Result injected_failure(const std::string& call) {
    std::string failures = ",";
    failures += environment("STANDIN_FAIL", "");
    const auto place = failures.find("," + call + "=");
    return place == std::string::npos ? success : std::atoi(failures.c_str() + place + call.size() + 2);
}

bool xnack() { return environment("HSA_XNACK", "0") == "1" && environment("STANDIN_XNACK", "") != "none"; }
bool sanitized() { return environment("STANDIN_SANITIZE", "0") == "1" && __asan_poison_memory_region != nullptr; }
bool integrated() { return environment("STANDIN_INTEGRATED", "0") == "1"; }
int devices() { return std::atoi(environment("STANDIN_DEVICES", "1").c_str()); }
std::size_t capacity() { return std::stoull(environment("STANDIN_MEMORY", "2147483648")); }

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The current device of a thread. Calls without a stream use it.
thread_local int current = 0;

// Which devices can access each other's memory: a device its own, and a peer's after hipDeviceEnablePeerAccess.
class Peers {
  public:
    static bool possible(int device, int peer) {
        const std::string pair = std::to_string(device) + ">" + std::to_string(peer);
        return device != peer &&
               ("," + environment("STANDIN_UNREACHABLE", "") + ",").find("," + pair + ",") == std::string::npos;
    }
    bool open(int device, int peer) {
        const std::lock_guard lock(mutex_);
        return open_.emplace(device, peer).second;
    }
    bool reaches(int device, int peer) {
        const std::lock_guard lock(mutex_);
        return device == peer || open_.count({device, peer}) != 0;
    }

  private:
    std::mutex mutex_;
    std::set<std::pair<int, int>> open_;
};
Peers& peers() {
    static Peers all;
    return all;
}

// All live memory, with the kind of call that allocated it and the device that was current then. It is an error to free
// memory with the function of another kind, or to use or free it by a device that has no access to it.
class Allocations {
  public:
    Result obtain(void** pointer, std::size_t bytes, const char* kind, bool on_device, bool populate) {
        const std::lock_guard lock(mutex_);
        if (pointer == nullptr || bytes == 0) return invalid_value;
        if (on_device && used_[current] + bytes > capacity()) return out_of_memory;
        const std::size_t margin = redzone();
        void* mapped = mmap(nullptr, bytes + 2 * margin, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | (populate ? MAP_POPULATE : 0), -1, 0);
        if (mapped == MAP_FAILED) return out_of_memory;
        char* memory = static_cast<char*>(mapped) + margin;
        if (margin != 0) {
            __asan_poison_memory_region(mapped, margin);
            __asan_poison_memory_region(memory + bytes, margin);
        }
        live_[memory] = {bytes, kind, on_device, current, {}};
        if (on_device) used_[current] += bytes;
        *pointer = memory;
        return success;
    }
    Result release(void* pointer, std::initializer_list<const char*> kinds) {
        const std::lock_guard lock(mutex_);
        const auto found = live_.find(static_cast<char*>(pointer));
        if (found == live_.end()) return invalid_value;
        const Entry entry = found->second;
        if (std::none_of(kinds.begin(), kinds.end(), [&](const char* kind) { return entry.kind == kind; }))
            return invalid_value;
        if (entry.on_device && !peers().reaches(current, entry.owner)) return invalid_value;
        const std::size_t margin = redzone();
        char* mapped = static_cast<char*>(pointer) - margin;
        if (margin != 0) __asan_unpoison_memory_region(mapped, entry.bytes + 2 * margin);
        munmap(mapped, entry.bytes + 2 * margin);
        if (entry.on_device) used_[entry.owner] -= entry.bytes;
        live_.erase(found);
        return success;
    }
    // Virtual memory: mapped without access at first, then with access for each device that is named.
    Result map(void* pointer, std::size_t bytes, int owner) {
        const std::lock_guard lock(mutex_);
        live_[static_cast<char*>(pointer)] = {bytes, "virtual", true, owner, {}};
        used_[owner] += bytes;
        return success;
    }
    Result unmap(void* pointer) {
        const std::lock_guard lock(mutex_);
        const auto found = live_.find(static_cast<char*>(pointer));
        if (found == live_.end() || found->second.kind != "virtual") return invalid_value;
        used_[found->second.owner] -= found->second.bytes;
        live_.erase(found);
        return success;
    }
    Result give_access(void* pointer, int device) {
        const std::lock_guard lock(mutex_);
        const auto found = live_.find(static_cast<char*>(pointer));
        if (found == live_.end() || found->second.kind != "virtual") return invalid_value;
        found->second.readers.insert(device);
        return success;
    }
    // True if a device can access an address. Every device can access addresses outside all devices' memory.
    bool usable(int device, std::uint64_t address) {
        const std::lock_guard lock(mutex_);
        auto after = live_.upper_bound(reinterpret_cast<char*>(address));
        if (after == live_.begin()) return true;
        const auto& [start, entry] = *--after;
        if (reinterpret_cast<char*>(address) >= start + entry.bytes || !entry.on_device) return true;
        return entry.kind == "virtual" ? entry.readers.count(device) != 0 : peers().reaches(device, entry.owner);
    }
    // The device whose memory an address is in, or -1.
    int owner(std::uint64_t address) {
        const std::lock_guard lock(mutex_);
        auto after = live_.upper_bound(reinterpret_cast<char*>(address));
        if (after == live_.begin()) return -1;
        const auto& [start, entry] = *--after;
        return reinterpret_cast<char*>(address) < start + entry.bytes && entry.on_device ? entry.owner : -1;
    }
    std::size_t used(int device) {
        const std::lock_guard lock(mutex_);
        return used_[device];
    }
    Result add_registered(void* pointer, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        return registered_.emplace(pointer, bytes).second ? success : invalid_value;
    }
    Result remove_registered(void* pointer) {
        const std::lock_guard lock(mutex_);
        return registered_.erase(pointer) == 1 ? success : invalid_value;
    }

  private:
    // Bytes on either side of each block that must not be accessed.
    static std::size_t redzone() { return sanitized() ? std::size_t{1} << 20 : 0; }

    struct Entry {
        std::size_t bytes;
        std::string kind;
        bool on_device;
        int owner;
        std::set<int> readers;  // of virtual memory
    };
    std::mutex mutex_;
    std::map<char*, Entry> live_;
    std::map<int, std::size_t> used_;  // by device
    std::map<void*, std::size_t> registered_;
};
Allocations& allocations() {
    static Allocations all;
    return all;
}

// The GPU's cache of memory that is coherent at synchronisation points only, a byte at a time.
class Cache {
  public:
    void add(void* pointer, std::size_t bytes) {
        if (environment("STANDIN_CACHED", "").empty()) return;
        const std::lock_guard lock(mutex_);
        char* start = static_cast<char*>(pointer);
        lines_[start] = {std::vector<char>(start, start + bytes), std::vector<char>(start, start + bytes)};
    }
    void remove(void* pointer) {
        const std::lock_guard lock(mutex_);
        lines_.erase(static_cast<char*>(pointer));
    }
    // The address at which the GPU finds what the CPU has at another.
    std::uint64_t place_of(std::uint64_t address) {
        const std::lock_guard lock(mutex_);
        auto after = lines_.upper_bound(reinterpret_cast<char*>(address));
        if (after == lines_.begin()) return address;
        auto& [start, line] = *--after;
        const std::size_t offset = reinterpret_cast<char*>(address) - start;
        return offset < line.now.size() ? reinterpret_cast<std::uint64_t>(line.now.data()) + offset : address;
    }
    // When a kernel or a copy starts: what the GPU has not changed is read again.
    void refresh() {
        const std::lock_guard lock(mutex_);
        for (auto& [start, line] : lines_) {
            if (line.now != line.then)
                for (std::size_t i = 0; i < line.now.size(); ++i)
                    if (line.now[i] == line.then[i]) line.now[i] = line.then[i] = start[i];
            if (line.now == line.then) {
                std::memcpy(line.then.data(), start, line.then.size());
                std::memcpy(line.now.data(), start, line.now.size());
            }
        }
    }
    // When the CPU synchronises.
    void write_back() {
        if (environment("STANDIN_CACHED", "") == "never") return;
        const std::lock_guard lock(mutex_);
        for (auto& [start, line] : lines_) {
            if (line.now == line.then) continue;
            for (std::size_t i = 0; i < line.now.size(); ++i)
                if (line.now[i] != line.then[i]) start[i] = line.then[i] = line.now[i];
        }
    }

  private:
    struct Line {
        std::vector<char> now, then;  // the GPU's bytes, and what they were when they were last the CPU's
    };
    std::mutex mutex_;
    std::map<char*, Line> lines_;
};
Cache& cache() {
    static Cache all;
    return all;
}

struct EventState {
    const int device = current;
    std::mutex mutex;
    std::condition_variable changed;
    bool pending = false;
    double time = -1;
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !pending; });
    }
    std::pair<bool, double> get() {
        const std::lock_guard lock(mutex);
        return {pending, time};
    }
};

// A stream: a thread that runs queued steps one after another.
class Queue {
  public:
    const int device = current;
    Queue() : thread_([this] { work(); }) {}
    ~Queue() {
        push({});
        thread_.join();
    }
    void push(std::function<void()> step) {
        const std::lock_guard lock(mutex_);
        steps_.push_back(std::move(step));
        changed_.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return steps_.empty(); });
    }

  private:
    void work() {
        for (;;) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return !steps_.empty(); });
            const auto step = steps_.front();
            if (!step) return;
            lock.unlock();
            step();
            lock.lock();
            steps_.pop_front();
            changed_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> steps_;
    std::thread thread_;
};

struct KernelEntry {
    int device;
    void (*launch)(void**, unsigned, unsigned);
    unsigned arguments;
    const char* name;
};
struct LoadedObject {
    const int device = current;
    void* library;
    std::map<std::string, KernelEntry> kernels;
};

struct PhysicalMemory {
    std::size_t bytes;
    int owner;
};

struct Compilation {
    std::string text, log, code;
};

// The length of an ELF file, which ends with its section headers.
std::size_t image_bytes(const unsigned char* image) {
    std::uint64_t sections = 0;
    std::uint16_t size = 0, count = 0;
    std::memcpy(&sections, image + 40, 8);
    std::memcpy(&size, image + 58, 2);
    std::memcpy(&count, image + 60, 2);
    return sections + std::size_t{size} * count;
}

template <class T, class Handle>
T* object(Handle handle) {
    return reinterpret_cast<T*>(handle);
}
template <class Handle, class T>
Handle as(T* object) {
    return reinterpret_cast<Handle>(object);
}
using SharedEvent = std::shared_ptr<EventState>;

}  // namespace
}  // namespace standin

using namespace standin;

Result hipInit(unsigned) { return injected_failure(__func__); }
const char* hipGetErrorName(Result code) { return error_of(code).name; }
const char* hipGetErrorString(Result code) { return error_of(code).text; }
Result hipRuntimeGetVersion(int* version) {
    *version = 60342131;
    return injected_failure(__func__);
}
Result hipGetDeviceCount(int* count) {
    *count = devices();
    return *count == 0 ? no_device : injected_failure(__func__);
}
Result hipGetDevice(int* index) {
    *index = current;
    return injected_failure(__func__);
}
Result hipSetDevice(int index) {
    if (index < 0 || index >= devices()) return invalid_device;
    if (const Result failed = injected_failure(__func__)) return failed;
    current = index;
    return success;
}
Result hipDeviceCanAccessPeer(int* possible, int device, int peer) {
    if (device >= devices() || peer >= devices()) return invalid_device;
    *possible = Peers::possible(device, peer);
    return injected_failure(__func__);
}
Result hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (flags != 0) return invalid_value;
    if (peer >= devices() || !Peers::possible(current, peer)) return 217;
    return peers().open(current, peer) ? success : peer_enabled_before;
}
Result hipDeviceGet(int* device, int index) {
    *device = index;
    return index < devices() ? injected_failure(__func__) : invalid_device;
}
Result hipDeviceGetName(char* name, int bytes, int) {
    std::strncpy(name, "stand-in on the processor", static_cast<std::size_t>(bytes));
    return injected_failure(__func__);
}
Result hipDeviceGetUuid(gpu::Uuid* uuid, int index) {
    std::memcpy(uuid->bytes, "0123456789abcdef", 16);
    uuid->bytes[15] = "fedcba9876543210"[index % 16];
    return injected_failure(__func__);
}
Result hipDeviceGetPCIBusId(char* text, int bytes, int index) {
    std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", 0xc1 + index);
    return injected_failure(__func__);
}
Result hipDeviceGetAttribute(int* value, int which, int) {
    static const std::map<int, int> fixed = {{hip::clock_rate_khz, 1700000},
                                             {hip::host_native_atomics, 1},
                                             {hip::l2_bytes, 8 << 20},
                                             {hip::managed_memory, 1},
                                             {hip::memory_bus_bits, 4096},
                                             {hip::memory_clock_khz, 1600000},
                                             {hip::threads_per_multiprocessor, 256},
                                             {hip::multiprocessors, 2},
                                             {hip::warp_size, 64},
                                             {hip::virtual_memory_management, 1},
                                             {hip::host_register_supported, 1},
                                             {hip::fine_grain_support, 1},
                                             {hip::wall_clock_khz, 100000}};
    const auto found = fixed.find(which);
    const bool coherent = integrated() && environment("STANDIN_ARCH", "").rfind("gfx942", 0) == 0;
    *value = which == hip::integrated                        ? integrated()
             : which == hip::concurrent_managed_access       ? environment("STANDIN_CONCURRENT", "1") != "0"
             : which == hip::pageable_memory_access          ? xnack()
             : which == hip::direct_managed_access_from_host ? coherent
             : found != fixed.end()                          ? found->second
                                                             : 0;
    return injected_failure(__func__);
}
Result hipGetDevicePropertiesR0600(hip::Properties* properties, int) {
    std::string name = environment("STANDIN_ARCH", "gfx90a:sramecc+");
    if (environment("STANDIN_XNACK", "") != "none") name += xnack() ? ":xnack+" : ":xnack-";
    std::memcpy(properties->bytes + hip::Properties::name_offset, name.c_str(), name.size() + 1);
    return injected_failure(__func__);
}

Result hipMemGetInfo(std::size_t* free, std::size_t* total) {
    *total = capacity();
    *free = *total - allocations().used(current);
    if (const auto stated = environment("STANDIN_FREE", ""); !stated.empty())
        *free = std::min<std::size_t>(*free, std::stoull(stated));
    return injected_failure(__func__);
}
Result hipMalloc(void** pointer, std::size_t bytes) {
    if (const Result failed = injected_failure(__func__)) return failed;
    return allocations().obtain(pointer, bytes, "device", true, false);
}
Result hipExtMallocWithFlags(void** pointer, std::size_t bytes, unsigned flags) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (flags != hip::malloc_fine_grained) return invalid_value;
    return allocations().obtain(pointer, bytes, "device", true, false);
}
Result hipMallocManaged(void** pointer, std::size_t bytes, unsigned flags) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (flags != gpu::managed_attach_global) return invalid_value;
    return allocations().obtain(pointer, bytes, "managed", false, !xnack());
}
Result hipFree(void* pointer) {
    cache().remove(pointer);
    return allocations().release(pointer, {"device", "managed"});
}
Result hipHostMalloc(void** pointer, std::size_t bytes, unsigned flags) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if ((flags & hip::host_coherent) != 0 && (flags & hip::host_non_coherent) != 0) return invalid_value;
    const Result result = allocations().obtain(pointer, bytes, "host", false, true);
    if (result == success && (flags & hip::host_non_coherent) != 0) cache().add(*pointer, bytes);
    return result;
}
Result hipHostFree(void* pointer) {
    cache().remove(pointer);
    return allocations().release(pointer, {"host"});
}
Result hipHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (pointer == nullptr || bytes == 0 || flags > 15) return invalid_value;
    return allocations().add_registered(pointer, bytes);
}
Result hipHostUnregister(void* pointer) {
    const Result result = allocations().remove_registered(pointer);
    return result != success ? result : injected_failure(__func__);
}
Result hipHostGetDevicePointer(void** mapped, void* pointer, unsigned) {
    *mapped = pointer;
    return injected_failure(__func__);
}

Result hipMemGetAllocationGranularity(std::size_t* bytes, const gpu::AllocationProperties* requested, int) {
    *bytes = granularity;
    return requested->type == 1 && requested->location.type == 1 ? injected_failure(__func__) : invalid_value;
}
Result hipMemCreate(hip::Runtime::AllocationHandle* handle, std::size_t bytes,
                    const gpu::AllocationProperties* properties, unsigned long long) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (bytes == 0 || bytes % granularity != 0) return invalid_value;
    const int owner = properties->location.id;
    if (owner < 0 || owner >= devices()) return invalid_device;
    if (allocations().used(owner) + bytes > capacity()) return out_of_memory;
    *handle = as<hip::Runtime::AllocationHandle>(new PhysicalMemory{bytes, owner});
    return success;
}
Result hipMemRelease(hip::Runtime::AllocationHandle handle) {
    delete object<PhysicalMemory>(handle);
    return injected_failure(__func__);
}
Result hipMemAddressReserve(void** pointer, std::size_t bytes, std::size_t, void*, unsigned long long) {
    if (const Result failed = injected_failure(__func__)) return failed;
    *pointer = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return *pointer == MAP_FAILED ? out_of_memory : success;
}
Result hipMemAddressFree(void* pointer, std::size_t bytes) {
    return munmap(pointer, bytes) == 0 ? success : invalid_value;
}
Result hipMemMap(void* pointer, std::size_t bytes, std::size_t, hip::Runtime::AllocationHandle handle,
                 unsigned long long) {
    if (const Result failed = injected_failure(__func__)) return failed;
    const auto [size, owner] = *object<PhysicalMemory>(handle);
    return bytes == size ? allocations().map(pointer, bytes, owner) : invalid_value;
}
Result hipMemUnmap(void* pointer, std::size_t) {
    const Result result = allocations().unmap(pointer);
    return result != success ? result : injected_failure(__func__);
}
Result hipMemSetAccess(void* pointer, std::size_t bytes, const gpu::AccessDescription* access, std::size_t) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (access->flags != 3 || mprotect(pointer, bytes, PROT_READ | PROT_WRITE) != 0) return invalid_value;
    return allocations().give_access(pointer, access->location.id);
}
Result hipMemPrefetchAsync(void* pointer, std::size_t bytes, int device, gpu::StreamHandle) {
    return pointer == nullptr || bytes == 0 || device >= devices() ? invalid_value : injected_failure(__func__);
}
Result hipMemAdvise(void* pointer, std::size_t bytes, int advice, int device) {
    const bool known = (advice >= 1 && advice <= 6) || advice == hip::advise_coarse_grain;
    if (pointer == nullptr || bytes == 0 || !known || device >= devices()) return invalid_value;
    if (advice == hip::advise_coarse_grain) cache().add(const_cast<void*>(pointer), bytes);
    return injected_failure(__func__);
}

Result hipStreamCreateWithFlags(gpu::StreamHandle* stream, unsigned) {
    if (const Result failed = injected_failure(__func__)) return failed;
    *stream = as<gpu::StreamHandle>(new Queue);
    return success;
}
Result hipStreamDestroy(gpu::StreamHandle stream) {
    delete object<Queue>(stream);
    return success;
}
Result hipStreamSynchronize(gpu::StreamHandle stream) {
    object<Queue>(stream)->wait();
    cache().write_back();
    return injected_failure(__func__);
}
Result hipEventCreateWithFlags(gpu::EventHandle* event, unsigned) {
    *event = as<gpu::EventHandle>(new SharedEvent(std::make_shared<EventState>()));
    return injected_failure(__func__);
}
Result hipEventDestroy(gpu::EventHandle event) {
    delete object<SharedEvent>(event);
    return success;
}
Result hipEventRecord(gpu::EventHandle event, gpu::StreamHandle stream) {
    if (const Result failed = injected_failure(__func__)) return failed;
    const SharedEvent state = *object<SharedEvent>(event);
    if (state->device != object<Queue>(stream)->device) return invalid_handle;
    {
        const std::lock_guard lock(state->mutex);
        state->pending = true;
    }
    object<Queue>(stream)->push([state] {
        const std::lock_guard lock(state->mutex);
        state->pending = false;
        state->time = now();
        state->changed.notify_all();
    });
    return success;
}
Result hipEventSynchronize(gpu::EventHandle event) {
    (*object<SharedEvent>(event))->wait();
    cache().write_back();
    return injected_failure(__func__);
}
Result hipEventElapsedTime(float* milliseconds, gpu::EventHandle from, gpu::EventHandle to) {
    const auto [from_pending, from_time] = (*object<SharedEvent>(from))->get();
    const auto [to_pending, to_time] = (*object<SharedEvent>(to))->get();
    if (from_pending || to_pending) return not_ready;
    if (from_time < 0 || to_time < 0) return invalid_value;
    *milliseconds = static_cast<float>((to_time - from_time) * 1e3);
    return injected_failure(__func__);
}
Result hipStreamWaitEvent(gpu::StreamHandle stream, gpu::EventHandle event, unsigned) {
    const SharedEvent state = *object<SharedEvent>(event);
    object<Queue>(stream)->push([state] { state->wait(); });
    return injected_failure(__func__);
}
// Not part of HIP. With STANDIN_FLIP, one bit is wrong in copies from a device's memory into that of the device it
// names.
static Result queue_copy(void* target, const void* source, std::size_t bytes, gpu::StreamHandle stream) {
    const auto to_address = reinterpret_cast<std::uint64_t>(target),
               from_address = reinterpret_cast<std::uint64_t>(source);
    const std::uint64_t to = cache().place_of(to_address), from = cache().place_of(from_address);
    const std::string flipped = environment("STANDIN_FLIP", "");
    const bool flip = !flipped.empty() && bytes > 0 && allocations().owner(from_address) >= 0 &&
                      allocations().owner(to_address) == std::atoi(flipped.c_str());
    object<Queue>(stream)->push([=] {
        cache().refresh();
        std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
        if (flip) reinterpret_cast<unsigned char*>(to)[bytes / 2] ^= 1;
    });
    return success;
}
Result hipMemcpyAsync(void* target, const void* source, std::size_t bytes, int kind, gpu::StreamHandle stream) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (kind != hip::copy_by_address) return invalid_value;
    for (const void* place : {static_cast<const void*>(target), source})
        if (!allocations().usable(object<Queue>(stream)->device, reinterpret_cast<std::uint64_t>(place)))
            return invalid_value;
    return queue_copy(target, source, bytes, stream);
}
// Needs no access of one device to the other's memory, but each address must belong to the device that is named.
Result hipMemcpyPeerAsync(void* target, int target_device, void* source, int source_device, std::size_t bytes,
                          gpu::StreamHandle stream) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (allocations().owner(reinterpret_cast<std::uint64_t>(target)) != target_device ||
        allocations().owner(reinterpret_cast<std::uint64_t>(source)) != source_device)
        return invalid_value;
    return queue_copy(target, source, bytes, stream);
}

Result hipModuleLoadData(gpu::ModuleHandle* module, const void* image) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (std::memcmp(image,
                    "\x7f"
                    "ELF",
                    4) != 0)
        return invalid_image;
    char path[] = "/tmp/standin-XXXXXX";
    const int file = mkstemp(path);
    const std::size_t bytes = image_bytes(static_cast<const unsigned char*>(image));
    const bool written = file >= 0 && write(file, image, bytes) == static_cast<ssize_t>(bytes);
    close(file);
    void* library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    unlink(path);
    if (library == nullptr) return invalid_image;
    *module = as<gpu::ModuleHandle>(new LoadedObject{.library = library});
    return success;
}
Result hipModuleUnload(gpu::ModuleHandle module) {
    dlclose(object<LoadedObject>(module)->library);
    delete object<LoadedObject>(module);
    return success;
}
Result hipModuleGetFunction(gpu::FunctionHandle* function, gpu::ModuleHandle module, const char* name) {
    if (const Result failed = injected_failure(__func__)) return failed;
    LoadedObject& loaded = *object<LoadedObject>(module);
    void* launch = dlsym(loaded.library, (std::string("launch_") + name).c_str());
    void* arguments = dlsym(loaded.library, (std::string("arguments_of_") + name).c_str());
    if (launch == nullptr || arguments == nullptr) return not_found;
    loaded.kernels[name] = {loaded.device, reinterpret_cast<void (*)(void**, unsigned, unsigned)>(launch),
                            reinterpret_cast<unsigned (*)()>(arguments)(), nullptr};
    const auto place = loaded.kernels.find(name);
    place->second.name = place->first.c_str();
    *function = as<gpu::FunctionHandle>(&place->second);
    return success;
}
// A managed array of the program, which both agents access in the memory of the loaded library.
Result hipModuleGetGlobal(void** address, std::size_t* bytes, gpu::ModuleHandle module, const char* name) {
    if (const Result failed = injected_failure(__func__)) return failed;
    *address = dlsym(object<LoadedObject>(module)->library, name);
    Dl_info info;
    const ElfW(Sym)* symbol = nullptr;
    if (*address == nullptr || dladdr1(*address, &info, (void**)&symbol, RTLD_DL_SYMENT) == 0 || symbol == nullptr)
        return not_found;
    *bytes = symbol->st_size;
    return success;
}
Result hipModuleLaunchKernel(gpu::FunctionHandle function, unsigned groups, unsigned, unsigned, unsigned threads,
                             unsigned, unsigned, unsigned, gpu::StreamHandle stream, void** parameters, void** extra) {
    if (const Result failed = injected_failure(__func__)) return failed;
    if (groups == 0 || threads == 0 || threads > 1024 || extra != nullptr) return invalid_value;
    const KernelEntry kernel = *object<KernelEntry>(function);
    std::vector<std::uint64_t> values(kernel.arguments);  // parameters are valid only during the call
    for (unsigned i = 0; i < kernel.arguments; ++i) std::memcpy(&values[i], parameters[i], 8);
    const int device = object<Queue>(stream)->device;
    if (device != current || device != kernel.device) return invalid_handle;
    for (const std::uint64_t value : values)
        if (!allocations().usable(device, value)) return illegal_address;
    if (const char* file = std::getenv("STANDIN_LAUNCHES"))  // the name of every launch, a line each
        std::ofstream(file, std::ios::app) << kernel.name << '\n';
    for (std::uint64_t& value : values) value = cache().place_of(value);
    object<Queue>(stream)->push([=]() mutable {
        cache().refresh();
        std::vector<void*> places;
        for (auto& value : values) places.push_back(&value);
        kernel.launch(places.data(), groups, threads);
    });
    return success;
}

int hiprtcVersion(int* major, int* minor) {
    // Not a version of AMD's, because the version is part of the key of cached programs.
    *major = 0, *minor = sanitized() ? 2 : 1;
    return 0;
}
// Not part of HIPRTC. The folder of this library, in which standin.py puts includes.standin.h precompiled.
static std::string own_folder() {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&own_folder), &info);
    const std::string path = info.dli_fname;
    return path.substr(0, path.rfind('/') + 1);
}
const char* hiprtcGetErrorString(int code) { return code == 6 ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_SUCCESS"; }
int hiprtcCreateProgram(RuntimeCompiler::Program* program, const char* text, const char*, int, const char* const*,
                        const char* const*) {
    *program = as<RuntimeCompiler::Program>(new Compilation{text, "", ""});
    return 0;
}
int hiprtcDestroyProgram(RuntimeCompiler::Program* program) {
    delete object<Compilation>(*program);
    *program = nullptr;
    return 0;
}
int hiprtcCompileProgram(RuntimeCompiler::Program program, int count, const char* const* options) {
    Compilation& result = *object<Compilation>(program);
    if (count == 0 || std::string(options[0]).rfind("--offload-arch=gfx", 0) != 0) {
        result.log = "the first option is not the architecture";
        return 6;
    }
    std::string text = with_prelude(result.text, read(std::string(STANDIN_FOLDER) + "/prelude.standin.h"));
    if (text.empty()) {
        result.log = "the program does not hold the HIP prelude that the stand-in knows";
        return 6;
    }
    // The items of a GROUP_KERNEL switch at barriers. In a program with barriers but without GROUP_KERNEL, those of
    // every kernel do. Barriers in definitions of macros, whose lines continue, do not count because the macros may be
    // unused.
    const std::string plain = text;
    const bool has_group_kernels = plain.find("\nGROUP_KERNEL ") != std::string::npos;
    bool has_barriers = false;
    const std::string barrier = "BARRIER();";
    for (auto at = plain.find(barrier); at != std::string::npos; at = plain.find(barrier, at + 1)) {
        const auto end = plain.find_first_of("\n\\", at);
        has_barriers = has_barriers || (end != std::string::npos && plain[end] == '\n');
    }
    for (const std::string keyword : {"\nKERNEL ", "\nGROUP_KERNEL "}) {
        const bool in_groups = has_group_kernels ? keyword[1] == 'G' : has_barriers;
        for (auto at = plain.find(keyword); at != std::string::npos; at = plain.find(keyword, at + 1)) {
            const auto name = at + keyword.size();
            const auto end = plain.find('(', name);
            text += "STANDIN_ENTRY(" + plain.substr(name, end - name) + (in_groups ? ", true)\n" : ", false)\n");
        }
    }
    // Programs are kept beside this library, and each is compiled by one process while others wait for it.
    const std::string base = own_folder() + "program-" + std::to_string(std::hash<std::string>{}(text)) + "-" +
                             std::to_string(text.size()) + (sanitized() ? "-sanitized" : "");
    const int lock = open((base + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (lock < 0 || flock(lock, LOCK_EX) != 0) return 6;
    int status = 0;
    if (access((base + ".so").c_str(), R_OK) != 0) {
        std::ofstream(base + ".cpp") << text;
        const char* const common = "g++ -std=c++20 -w -shared -fPIC ";  // as in standin.py
        const char* const sanitizing = "-O1 -g -fsanitize=address,bounds,integer-divide-by-zero,shift "
                                       "-fno-sanitize-recover=all -fsanitize-sections=standin_shared ";
        const std::string command = std::string("LD_PRELOAD= ") + common + (sanitized() ? sanitizing : "-O2 ") + "-I" +
                                    own_folder() + " -I" + STANDIN_FOLDER + " -I" +
                                    environment("STANDIN_KERNELS", STANDIN_KERNELS) + " -o " + base + ".new " + base +
                                    ".cpp 2> " + base + ".log";
        status = std::system(command.c_str());
        result.log = read(base + ".log");
        if (status == 0) status = std::rename((base + ".new").c_str(), (base + ".so").c_str());
        for (const char* ending : {".cpp", ".log"}) unlink((base + ending).c_str());
    }
    result.code = read(base + ".so");
    close(lock);
    return status == 0 ? 0 : 6;
}
int hiprtcGetProgramLogSize(RuntimeCompiler::Program program, std::size_t* bytes) {
    *bytes = object<Compilation>(program)->log.size();
    return 0;
}
int hiprtcGetProgramLog(RuntimeCompiler::Program program, char* log) {
    const std::string& text = object<Compilation>(program)->log;
    std::copy(text.begin(), text.end(), log);
    return 0;
}
int hiprtcGetCodeSize(RuntimeCompiler::Program program, std::size_t* bytes) {
    *bytes = object<Compilation>(program)->code.size();
    return 0;
}
int hiprtcGetCode(RuntimeCompiler::Program program, char* code) {
    const std::string& bytes = object<Compilation>(program)->code;
    std::copy(bytes.begin(), bytes.end(), code);
    return 0;
}
