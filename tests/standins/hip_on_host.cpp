// A HIP runtime and hipRTC on the processor, so that the HIP device's own code runs where no AMD GPU is: what it asks
// for, in which order, and what it makes of answers and errors. It proves nothing about AMD's runtime, hardware or the
// HIP prelude: kernels are compiled by g++ with prelude.standin.h in the prelude's place.
//
// The environment plays the machine:
//   HSA_XNACK=1             as on a GPU that can retry page faults: plain host memory is reached
//   STANDIN_ARCH            gfx90a:sramecc+ without it; an xnack feature is added unless STANDIN_XNACK=none
//   STANDIN_INTEGRATED=1    an APU
//   STANDIN_DEVICES         how many there are, 1 without it
//   STANDIN_MEMORY          bytes of memory of each device, 2 GiB without it
//   STANDIN_UNREACHABLE     a>b,...: device a cannot access the memory of device b
//   STANDIN_FAIL            call=code,...: these calls fail with these errors
//   STANDIN_BACKWARD=1      groups and items of a kernel come in the reverse order
//   STANDIN_SANITIZE=1      kernels are compiled with the address sanitizer, and what lies around memory is out of
//                           bounds; the process must have been started with libasan.so in LD_PRELOAD
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <set>
#include <thread>
#include <vector>

#include "standin.hpp"

// There in a process with the address sanitizer.
extern "C" void __asan_poison_memory_region(const volatile void*, std::size_t) __attribute__((weak));
extern "C" void __asan_unpoison_memory_region(const volatile void*, std::size_t) __attribute__((weak));

namespace standin {
namespace {

using hip::Result;
constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_device = 101,
                 invalid_image = 200, invalid_handle = 400, not_found = 500, not_ready = 600, illegal_address = 700,
                 peer_enabled_before = 704;
constexpr std::size_t granularity = 2 << 20;

struct Words {
    Result code;
    const char *name, *text;
};
constexpr Words words[] = {
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
const Words& words_of(Result code) {
    static constexpr Words unknown{999, "hipErrorUnknown", "unknown error"};
    for (const auto& one : words)
        if (one.code == code) return one;
    return unknown;
}

// The error that STANDIN_FAIL wants of a call, or success.
Result told(const std::string& call) {
    std::string wish = ",";
    wish += environment("STANDIN_FAIL", "");
    const auto place = wish.find("," + call + "=");
    return place == std::string::npos ? success : std::atoi(wish.c_str() + place + call.size() + 2);
}

bool xnack() { return environment("HSA_XNACK", "0") == "1" && environment("STANDIN_XNACK", "") != "none"; }
bool sanitized() { return environment("STANDIN_SANITIZE", "0") == "1" && __asan_poison_memory_region != nullptr; }
bool integrated() { return environment("STANDIN_INTEGRATED", "0") == "1"; }
int devices() { return std::atoi(environment("STANDIN_DEVICES", "1").c_str()); }
std::size_t capacity() { return std::stoull(environment("STANDIN_MEMORY", "2147483648")); }

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The device that is current on a thread: what has no stream to tell the device by works on it.
thread_local int current = 0;

// Which device may use the memory of which: a device its own, and after hipDeviceEnablePeerAccess a peer's.
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
    static Peers one;
    return one;
}

// Memory that is alive, by its call and the device that was current then: what another call frees is an error, and so
// is use or release by a device that has no access to it.
class Ledger {
  public:
    Result obtain(void** pointer, std::size_t bytes, const char* kind, bool on_device, bool populate) {
        const std::lock_guard lock(mutex_);
        if (pointer == nullptr || bytes == 0) return invalid_value;
        if (on_device && used_[current] + bytes > capacity()) return out_of_memory;
        const std::size_t around = fence();
        void* mapped = mmap(nullptr, bytes + 2 * around, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | (populate ? MAP_POPULATE : 0), -1, 0);
        if (mapped == MAP_FAILED) return out_of_memory;
        char* memory = static_cast<char*>(mapped) + around;
        if (around != 0) {
            __asan_poison_memory_region(mapped, around);
            __asan_poison_memory_region(memory + bytes, around);
        }
        alive_[memory] = {bytes, kind, on_device, current, {}};
        if (on_device) used_[current] += bytes;
        *pointer = memory;
        return success;
    }
    Result release(void* pointer, std::initializer_list<const char*> kinds) {
        const std::lock_guard lock(mutex_);
        const auto found = alive_.find(static_cast<char*>(pointer));
        if (found == alive_.end()) return invalid_value;
        const Entry entry = found->second;
        if (std::none_of(kinds.begin(), kinds.end(), [&](const char* one) { return entry.kind == one; }))
            return invalid_value;
        if (entry.on_device && !peers().reaches(current, entry.owner)) return invalid_value;
        const std::size_t around = fence();
        char* mapped = static_cast<char*>(pointer) - around;
        if (around != 0) __asan_unpoison_memory_region(mapped, entry.bytes + 2 * around);
        munmap(mapped, entry.bytes + 2 * around);
        if (entry.on_device) used_[entry.owner] -= entry.bytes;
        alive_.erase(found);
        return success;
    }
    // Virtual memory: mapped for nobody at first, then for each device that is named.
    Result map(void* pointer, std::size_t bytes, int owner) {
        const std::lock_guard lock(mutex_);
        alive_[static_cast<char*>(pointer)] = {bytes, "virtual", true, owner, {}};
        used_[owner] += bytes;
        return success;
    }
    Result unmap(void* pointer) {
        const std::lock_guard lock(mutex_);
        const auto found = alive_.find(static_cast<char*>(pointer));
        if (found == alive_.end() || found->second.kind != "virtual") return invalid_value;
        used_[found->second.owner] -= found->second.bytes;
        alive_.erase(found);
        return success;
    }
    Result let(void* pointer, int device) {
        const std::lock_guard lock(mutex_);
        const auto found = alive_.find(static_cast<char*>(pointer));
        if (found == alive_.end() || found->second.kind != "virtual") return invalid_value;
        found->second.readers.insert(device);
        return success;
    }
    // Whether a device may use an address; one that is not in a device's memory is anyone's.
    bool usable(int device, std::uint64_t address) {
        const std::lock_guard lock(mutex_);
        auto after = alive_.upper_bound(reinterpret_cast<char*>(address));
        if (after == alive_.begin()) return true;
        const auto& [start, entry] = *--after;
        if (reinterpret_cast<char*>(address) >= start + entry.bytes || !entry.on_device) return true;
        return entry.kind == "virtual" ? entry.readers.count(device) != 0 : peers().reaches(device, entry.owner);
    }
    std::size_t used(int device) {
        const std::lock_guard lock(mutex_);
        return used_[device];
    }
    std::map<void*, std::size_t> registered;

  private:
    // Bytes on either side of each block that nobody may touch.
    static std::size_t fence() { return sanitized() ? std::size_t{1} << 20 : 0; }

    struct Entry {
        std::size_t bytes;
        std::string kind;
        bool on_device;
        int owner;
        std::set<int> readers;  // of virtual memory
    };
    std::mutex mutex_;
    std::map<char*, Entry> alive_;
    std::map<int, std::size_t> used_;  // by device
};
Ledger& ledger() {
    static Ledger one;
    return one;
}

struct Mark {
    const int device = current;
    std::mutex mutex;
    std::condition_variable changed;
    bool pending = false;
    double time = -1;
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !pending; });
    }
};

// A stream is a thread that does one thing after another.
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
};
struct LoadedObject {
    const int device = current;
    void* library;
    std::map<std::string, KernelEntry> kernels;
};

struct Physical {
    std::size_t bytes;
    int owner;
};

struct Compilation {
    std::string text, log, code;
};

// An ELF file's length: its section headers come last.
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
using SharedMark = std::shared_ptr<Mark>;

}  // namespace
}  // namespace standin

using namespace standin;

Result hipInit(unsigned) { return told(__func__); }
const char* hipGetErrorName(Result code) { return words_of(code).name; }
const char* hipGetErrorString(Result code) { return words_of(code).text; }
Result hipRuntimeGetVersion(int* version) {
    *version = 60342131;
    return told(__func__);
}
Result hipGetDeviceCount(int* count) {
    *count = devices();
    return *count == 0 ? no_device : told(__func__);
}
Result hipGetDevice(int* index) {
    *index = current;
    return told(__func__);
}
Result hipSetDevice(int index) {
    if (index < 0 || index >= devices()) return invalid_device;
    if (const Result wanted = told(__func__)) return wanted;
    current = index;
    return success;
}
Result hipDeviceCanAccessPeer(int* possible, int device, int peer) {
    if (device >= devices() || peer >= devices()) return invalid_device;
    *possible = Peers::possible(device, peer);
    return told(__func__);
}
Result hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    if (const Result wanted = told(__func__)) return wanted;
    if (flags != 0) return invalid_value;
    if (peer >= devices() || !Peers::possible(current, peer)) return 217;
    return peers().open(current, peer) ? success : peer_enabled_before;
}
Result hipDeviceGet(int* device, int index) {
    *device = index;
    return index < devices() ? told(__func__) : invalid_device;
}
Result hipDeviceGetName(char* name, int bytes, int) {
    std::strncpy(name, "stand-in on the processor", static_cast<std::size_t>(bytes));
    return told(__func__);
}
Result hipDeviceGetUuid(hip::Uuid* uuid, int index) {
    std::memcpy(uuid->bytes, "0123456789abcdef", 16);
    uuid->bytes[15] = "fedcba9876543210"[index % 16];
    return told(__func__);
}
Result hipDeviceGetPCIBusId(char* text, int bytes, int index) {
    std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", 0xc1 + index);
    return told(__func__);
}
Result hipDeviceGetAttribute(int* value, int which, int) {
    static const std::map<int, int> fixed = {{hip::clock_rate_khz, 1700000},
                                             {hip::concurrent_managed_access, 1},
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
    *value = which == hip::integrated               ? integrated()
             : which == hip::pageable_memory_access ? xnack()
             : found != fixed.end()                 ? found->second
                                                    : 0;
    return told(__func__);
}
Result hipGetDevicePropertiesR0600(hip::Properties* properties, int) {
    std::string name = environment("STANDIN_ARCH", "gfx90a:sramecc+");
    if (environment("STANDIN_XNACK", "") != "none") name += xnack() ? ":xnack+" : ":xnack-";
    std::memcpy(properties->bytes + hip::Properties::name_offset, name.c_str(), name.size() + 1);
    return told(__func__);
}

Result hipMemGetInfo(std::size_t* free, std::size_t* total) {
    *total = capacity();
    *free = *total - ledger().used(current);
    return told(__func__);
}
Result hipMalloc(void** pointer, std::size_t bytes) {
    if (const Result wanted = told(__func__)) return wanted;
    return ledger().obtain(pointer, bytes, "device", true, false);
}
Result hipExtMallocWithFlags(void** pointer, std::size_t bytes, unsigned flags) {
    if (const Result wanted = told(__func__)) return wanted;
    if (flags != hip::malloc_fine_grained) return invalid_value;
    return ledger().obtain(pointer, bytes, "device", true, false);
}
Result hipMallocManaged(void** pointer, std::size_t bytes, unsigned flags) {
    if (const Result wanted = told(__func__)) return wanted;
    if (flags != hip::managed_attach_global) return invalid_value;
    return ledger().obtain(pointer, bytes, "managed", false, !xnack());
}
Result hipFree(void* pointer) { return ledger().release(pointer, {"device", "managed"}); }
Result hipHostMalloc(void** pointer, std::size_t bytes, unsigned flags) {
    if (const Result wanted = told(__func__)) return wanted;
    if ((flags & hip::host_coherent) != 0 && (flags & hip::host_non_coherent) != 0) return invalid_value;
    return ledger().obtain(pointer, bytes, "host", false, true);
}
Result hipHostFree(void* pointer) { return ledger().release(pointer, {"host"}); }
Result hipHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
    if (const Result wanted = told(__func__)) return wanted;
    if (pointer == nullptr || bytes == 0 || flags > 15) return invalid_value;
    return ledger().registered.emplace(pointer, bytes).second ? success : invalid_value;
}
Result hipHostUnregister(void* pointer) {
    return ledger().registered.erase(pointer) == 1 ? told(__func__) : invalid_value;
}
Result hipHostGetDevicePointer(void** mapped, void* pointer, unsigned) {
    *mapped = pointer;
    return told(__func__);
}

Result hipMemGetAllocationGranularity(std::size_t* bytes, const hip::Runtime::AllocationProperties* wanted, int) {
    *bytes = granularity;
    return wanted->type == 1 && wanted->location.type == 1 ? told(__func__) : invalid_value;
}
Result hipMemCreate(hip::Runtime::AllocationHandle* handle, std::size_t bytes,
                    const hip::Runtime::AllocationProperties* properties, unsigned long long) {
    if (const Result wanted = told(__func__)) return wanted;
    if (bytes == 0 || bytes % granularity != 0) return invalid_value;
    const int owner = properties->location.id;
    if (owner < 0 || owner >= devices()) return invalid_device;
    if (ledger().used(owner) + bytes > capacity()) return out_of_memory;
    *handle = as<hip::Runtime::AllocationHandle>(new Physical{bytes, owner});
    return success;
}
Result hipMemRelease(hip::Runtime::AllocationHandle handle) {
    delete object<Physical>(handle);
    return told(__func__);
}
Result hipMemAddressReserve(void** pointer, std::size_t bytes, std::size_t, void*, unsigned long long) {
    if (const Result wanted = told(__func__)) return wanted;
    *pointer = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return *pointer == MAP_FAILED ? out_of_memory : success;
}
Result hipMemAddressFree(void* pointer, std::size_t bytes) {
    return munmap(pointer, bytes) == 0 ? success : invalid_value;
}
Result hipMemMap(void* pointer, std::size_t bytes, std::size_t, hip::Runtime::AllocationHandle handle,
                 unsigned long long) {
    if (const Result wanted = told(__func__)) return wanted;
    const auto [held, owner] = *object<Physical>(handle);
    return bytes == held ? ledger().map(pointer, bytes, owner) : invalid_value;
}
Result hipMemUnmap(void* pointer, std::size_t) {
    const Result result = ledger().unmap(pointer);
    return result != success ? result : told(__func__);
}
Result hipMemSetAccess(void* pointer, std::size_t bytes, const hip::Runtime::AccessDescription* access, std::size_t) {
    if (const Result wanted = told(__func__)) return wanted;
    if (access->flags != 3 || mprotect(pointer, bytes, PROT_READ | PROT_WRITE) != 0) return invalid_value;
    return ledger().let(pointer, access->location.id);
}
Result hipMemPrefetchAsync(const void* pointer, std::size_t bytes, int device, hip::StreamHandle) {
    return pointer == nullptr || bytes == 0 || device >= devices() ? invalid_value : told(__func__);
}
Result hipMemAdvise(const void* pointer, std::size_t bytes, int advice, int device) {
    const bool known = (advice >= 1 && advice <= 6) || advice == hip::advise_coarse_grain;
    return pointer == nullptr || bytes == 0 || !known || device >= devices() ? invalid_value : told(__func__);
}

Result hipStreamCreateWithFlags(hip::StreamHandle* stream, unsigned) {
    if (const Result wanted = told(__func__)) return wanted;
    *stream = as<hip::StreamHandle>(new Queue);
    return success;
}
Result hipStreamDestroy(hip::StreamHandle stream) {
    delete object<Queue>(stream);
    return success;
}
Result hipStreamSynchronize(hip::StreamHandle stream) {
    object<Queue>(stream)->wait();
    return told(__func__);
}
Result hipEventCreateWithFlags(hip::EventHandle* event, unsigned) {
    *event = as<hip::EventHandle>(new SharedMark(std::make_shared<Mark>()));
    return told(__func__);
}
Result hipEventDestroy(hip::EventHandle event) {
    delete object<SharedMark>(event);
    return success;
}
Result hipEventRecord(hip::EventHandle event, hip::StreamHandle stream) {
    if (const Result wanted = told(__func__)) return wanted;
    const SharedMark mark = *object<SharedMark>(event);
    if (mark->device != object<Queue>(stream)->device) return invalid_handle;
    {
        const std::lock_guard lock(mark->mutex);
        mark->pending = true;
    }
    object<Queue>(stream)->push([mark] {
        const std::lock_guard lock(mark->mutex);
        mark->pending = false;
        mark->time = now();
        mark->changed.notify_all();
    });
    return success;
}
Result hipEventSynchronize(hip::EventHandle event) {
    (*object<SharedMark>(event))->wait();
    return told(__func__);
}
Result hipEventElapsedTime(float* milliseconds, hip::EventHandle from, hip::EventHandle to) {
    const SharedMark &first = *object<SharedMark>(from), &last = *object<SharedMark>(to);
    if (first->pending || last->pending) return not_ready;
    if (first->time < 0 || last->time < 0) return invalid_value;
    *milliseconds = static_cast<float>((last->time - first->time) * 1e3);
    return told(__func__);
}
Result hipStreamWaitEvent(hip::StreamHandle stream, hip::EventHandle event, unsigned) {
    const SharedMark mark = *object<SharedMark>(event);
    object<Queue>(stream)->push([mark] { mark->wait(); });
    return told(__func__);
}
Result hipMemcpyAsync(void* target, const void* source, std::size_t bytes, int kind, hip::StreamHandle stream) {
    if (const Result wanted = told(__func__)) return wanted;
    if (kind != hip::copy_by_address) return invalid_value;
    for (const void* place : {static_cast<const void*>(target), source})
        if (!ledger().usable(object<Queue>(stream)->device, reinterpret_cast<std::uint64_t>(place)))
            return invalid_value;
    object<Queue>(stream)->push([=] { std::memmove(target, source, bytes); });
    return success;
}

Result hipModuleLoadData(hip::Runtime::Module* module, const void* image) {
    if (const Result wanted = told(__func__)) return wanted;
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
    *module = as<hip::Runtime::Module>(new LoadedObject{.library = library});
    return success;
}
Result hipModuleUnload(hip::Runtime::Module module) {
    dlclose(object<LoadedObject>(module)->library);
    delete object<LoadedObject>(module);
    return success;
}
Result hipModuleGetFunction(hip::Runtime::Function* function, hip::Runtime::Module module, const char* name) {
    if (const Result wanted = told(__func__)) return wanted;
    LoadedObject& loaded = *object<LoadedObject>(module);
    void* launch = dlsym(loaded.library, (std::string("launch_") + name).c_str());
    void* arguments = dlsym(loaded.library, (std::string("arguments_of_") + name).c_str());
    if (launch == nullptr || arguments == nullptr) return not_found;
    loaded.kernels[name] = {loaded.device, reinterpret_cast<void (*)(void**, unsigned, unsigned)>(launch),
                            reinterpret_cast<unsigned (*)()>(arguments)()};
    *function = as<hip::Runtime::Function>(&loaded.kernels[name]);
    return success;
}
Result hipModuleLaunchKernel(hip::Runtime::Function function, unsigned groups, unsigned, unsigned, unsigned threads,
                             unsigned, unsigned, unsigned, hip::StreamHandle stream, void** parameters, void** extra) {
    if (const Result wanted = told(__func__)) return wanted;
    if (groups == 0 || threads == 0 || threads > 1024 || extra != nullptr) return invalid_value;
    const KernelEntry kernel = *object<KernelEntry>(function);
    std::vector<std::uint64_t> values(kernel.arguments);  // copied before the call returns
    for (unsigned i = 0; i < kernel.arguments; ++i) std::memcpy(&values[i], parameters[i], 8);
    const int device = object<Queue>(stream)->device;
    if (device != current || device != kernel.device) return invalid_handle;
    for (const std::uint64_t value : values)
        if (!ledger().usable(device, value)) return illegal_address;
    object<Queue>(stream)->push([=]() mutable {
        std::vector<void*> places;
        for (auto& value : values) places.push_back(&value);
        kernel.launch(places.data(), groups, threads);
    });
    return success;
}

int hiprtcVersion(int* major, int* minor) {
    *major = 0, *minor = sanitized() ? 2 : 1;  // none that is AMD's: compiled programs are cached by it
    return 0;
}
const char* hiprtcGetErrorString(int code) { return code == 6 ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_SUCCESS"; }
int hiprtcCreateProgram(hip::Hiprtc::Program* program, const char* text, const char*, int, const char* const*,
                        const char* const*) {
    *program = as<hip::Hiprtc::Program>(new Compilation{text, "", ""});
    return 0;
}
int hiprtcDestroyProgram(hip::Hiprtc::Program* program) {
    delete object<Compilation>(*program);
    *program = nullptr;
    return 0;
}
int hiprtcCompileProgram(hip::Hiprtc::Program program, int count, const char* const* options) {
    Compilation& made = *object<Compilation>(program);
    if (count == 0 || std::string(options[0]).rfind("--offload-arch=gfx", 0) != 0) {
        made.log = "the first option is not the architecture";
        return 6;
    }
    std::string text = with_prelude(made.text, read(std::string(STANDIN_FOLDER) + "/prelude.standin.h"));
    if (text.empty()) {
        made.log = "the program does not hold the HIP prelude that the stand-in knows";
        return 6;
    }
    // Items of a kernel of groups take turns; of any kernel in a program with barriers that marks none. Macros that
    // nobody may use, whose lines go on, do not count.
    const std::string plain = text;
    const bool marked = plain.find("\nGROUP_KERNEL ") != std::string::npos;
    const bool waits = std::regex_search(plain, std::regex("BARRIER\\(\\);[^\\n\\\\]*\\n"));
    for (const std::string mark : {"\nKERNEL ", "\nGROUP_KERNEL "}) {
        const bool in_groups = marked ? mark[1] == 'G' : waits;
        for (auto at = plain.find(mark); at != std::string::npos; at = plain.find(mark, at + 1)) {
            const auto name = at + mark.size();
            const auto end = plain.find('(', name);
            text += "STANDIN_ENTRY(" + plain.substr(name, end - name) + (in_groups ? ", true)\n" : ", false)\n");
        }
    }
    char folder[] = "/tmp/standin-XXXXXX";
    if (mkdtemp(folder) == nullptr) return 6;
    const std::string base = std::string(folder) + "/program";
    std::ofstream(base + ".cpp") << text;
    const char* const options_of_all = "g++ -std=c++20 -w -shared -fPIC ";
    const char* const sanitizing = "-O1 -g -fsanitize=address,bounds,integer-divide-by-zero,shift "
                                   "-fno-sanitize-recover=all -fsanitize-sections=standin_shared ";
    const std::string command = std::string("LD_PRELOAD= ") + options_of_all + (sanitized() ? sanitizing : "-O2 ") +
                                "-I" + environment("STANDIN_KERNELS", STANDIN_KERNELS) + " -o " + base + ".so " + base +
                                ".cpp 2> " + base + ".log";
    const int status = std::system(command.c_str());
    made.log = read(base + ".log");
    made.code = read(base + ".so");
    for (const char* ending : {".cpp", ".so", ".log"}) unlink((base + ending).c_str());
    rmdir(folder);
    return status == 0 ? 0 : 6;
}
int hiprtcGetProgramLogSize(hip::Hiprtc::Program program, std::size_t* bytes) {
    *bytes = object<Compilation>(program)->log.size();
    return 0;
}
int hiprtcGetProgramLog(hip::Hiprtc::Program program, char* log) {
    const std::string& text = object<Compilation>(program)->log;
    std::copy(text.begin(), text.end(), log);
    return 0;
}
int hiprtcGetCodeSize(hip::Hiprtc::Program program, std::size_t* bytes) {
    *bytes = object<Compilation>(program)->code.size();
    return 0;
}
int hiprtcGetCode(hip::Hiprtc::Program program, char* code) {
    const std::string& bytes = object<Compilation>(program)->code;
    std::copy(bytes.begin(), bytes.end(), code);
    return 0;
}
