// A HIP runtime and hipRTC on the CUDA driver and NVRTC, so that the code of the HIP device drives a real GPU on
// machines without an AMD GPU: streams, events, copies, gates, modules, launches, virtual and managed memory. It tests
// the table of functions and the host code of the HIP device. It proves nothing about AMD's runtime or hardware, nor
// about the HIP prelude, because a program's HIP prelude is replaced by the CUDA prelude.
//
// Calls go through the core's table of the CUDA driver. Where HIP and CUDA have the same errors, flags and advice,
// their numbers are the same.
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "device/cuda/api.hpp"
#include "device/device.hpp"
#include "standin.hpp"

namespace standin {
namespace {

using hip::Result;
using Pointer = cuda::DevicePointer;
constexpr Result invalid_value = 1, no_device = 100;

// Passes on the paths of libraries that are set in the environment.
const bool paths_set = [] {
    for (const char* name : {"cuda", "nvrtc"}) {
        const std::string variable = std::string("FIRSTTOUCH_LIB_") + (name[0] == 'c' ? "CUDA" : "NVRTC");
        if (const std::string path = environment(variable.c_str(), ""); !path.empty()) set_library_paths(name, {path});
    }
    return true;
}();

// Gets a device's primary context, which is retained at the first use.
Result context_of(int index, cuda::Context* context) {
    static std::mutex mutex;
    static std::map<int, cuda::Context> contexts;
    const std::lock_guard lock(mutex);
    const cuda::Driver& cuda = cuda::Driver::instance();
    cuda::Context& known = contexts[index];
    int device = 0;
    if (const Result failed = cuda.device_get(&device, index)) return failed;
    if (known == nullptr)
        if (const Result failed = cuda.context_retain(&known, device)) return failed;
    *context = known;
    return 0;
}

// HIP's current device. CUDA has a current context instead, and none at first.
thread_local int current = 0;
Result use(int index) {
    const cuda::Driver& cuda = cuda::Driver::instance();
    cuda::Context context = nullptr;
    if (const Result failed = context_of(index, &context)) return failed;
    current = index;
    return cuda.current_set(context);
}

int number(cuda::Attribute which, int index) {
    int value = 0;
    cuda::Driver::instance().device_attribute(&value, which, index);
    return value;
}

// The name in AMD's form: the architecture, then whether page faults are retried.
std::string architecture(int index) {
    const bool pageable = number(cuda::pageable_memory_access, index) != 0;
    return "sm_" + std::to_string(number(cuda::compute_major, index) * 10 + number(cuda::compute_minor, index)) +
           (pageable ? ":xnack+" : ":xnack-");
}

Pointer address(const void* pointer) { return reinterpret_cast<Pointer>(pointer); }

template <class To, class From>
To as(From handle) {
    return reinterpret_cast<To>(handle);
}
cuda::AllocationHandle memory_of(hip::Runtime::AllocationHandle memory) {
    return reinterpret_cast<cuda::AllocationHandle>(memory);
}

struct Compilation {
    std::string text, log, code;
};
Compilation& compilation(RuntimeCompiler::Program program) { return *as<Compilation*>(program); }

}  // namespace
}  // namespace standin

using namespace standin;

Result hipInit(unsigned) {
    try {
        cuda::Driver::instance();
        return 0;
    } catch (const Unavailable&) {
        return no_device;
    }
}
const char* hipGetErrorName(Result code) {
    static thread_local const char* name;
    if (code == no_device) return "hipErrorNoDevice";
    return cuda::Driver::instance().get_error_name(code, &name) == 0 ? name : "hipErrorUnknown";
}
const char* hipGetErrorString(Result code) {
    static thread_local const char* text;
    if (code == no_device) return "no CUDA device for the stand-in";
    return cuda::Driver::instance().get_error_string(code, &text) == 0 ? text : "unknown error";
}
Result hipRuntimeGetVersion(int* version) {
    int driver = 0;
    const Result failed = cuda::Driver::instance().version(&driver);  // major * 1000 + minor * 10
    *version = driver / 1000 * 10'000'000 + driver % 1000 / 10 * 100'000;
    return failed;
}
Result hipGetDeviceCount(int* count) {
    const Result failed = cuda::Driver::instance().device_count(count);
    return failed == 0 && *count == 0 ? no_device : failed;
}
Result hipSetDevice(int index) { return use(index); }
Result hipGetDevice(int* index) {
    *index = current;
    return use(current);
}
Result hipDeviceCanAccessPeer(int* possible, int device, int peer) {
    return cuda::Driver::instance().peer_possible(possible, device, peer);
}
Result hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    cuda::Context context = nullptr;
    if (const Result failed = context_of(peer, &context)) return failed;
    return cuda::Driver::instance().peer_enable(context, flags);
}
Result hipDeviceGet(int* device, int index) { return cuda::Driver::instance().device_get(device, index); }
Result hipDeviceGetName(char* name, int bytes, int device) {
    std::string title = "stand-in on ";
    title.resize(256);
    const Result failed = cuda::Driver::instance().device_name(title.data() + 12, 240, device);
    std::strncpy(name, title.c_str(), static_cast<std::size_t>(bytes) - 1);
    return failed;
}
Result hipDeviceGetUuid(gpu::Uuid* uuid, int device) { return cuda::Driver::instance().device_uuid(uuid, device); }
Result hipDeviceGetPCIBusId(char* text, int bytes, int device) {
    return cuda::Driver::instance().device_pci_bus_id(text, bytes, device);
}
Result hipDeviceGetAttribute(int* value, int which, int device) {
    static const std::map<int, cuda::Attribute> known = {
        {hip::can_use_host_pointer_for_registered, cuda::can_use_host_pointer_for_registered},
        {hip::clock_rate_khz, cuda::clock_rate_khz},
        {hip::concurrent_managed_access, cuda::concurrent_managed_access},
        {hip::direct_managed_access_from_host, cuda::direct_managed_access_from_host},
        {hip::host_native_atomics, cuda::host_native_atomics},
        {hip::integrated, cuda::integrated},
        {hip::l2_bytes, cuda::l2_bytes},
        {hip::managed_memory, cuda::managed_memory},
        {hip::memory_bus_bits, cuda::memory_bus_bits},
        {hip::memory_clock_khz, cuda::memory_clock_khz},
        {hip::multiprocessors, cuda::multiprocessors},
        {hip::threads_per_multiprocessor, cuda::threads_per_multiprocessor},
        {hip::pageable_memory_access, cuda::pageable_memory_access},
        {hip::pageable_uses_host_page_tables, cuda::pageable_uses_host_page_tables},
        {hip::virtual_memory_management, cuda::virtual_memory_management},
        {hip::host_register_supported, cuda::host_register_supported}};
    static const std::map<int, int> fixed = {
        {hip::fine_grain_support, 1}, {hip::warp_size, 32}, {hip::wall_clock_khz, 1'000'000}};
    if (const auto constant = fixed.find(which); constant != fixed.end()) {
        *value = constant->second;
        return 0;
    }
    const auto found = known.find(which);
    if (found == known.end()) return invalid_value;
    return cuda::Driver::instance().device_attribute(value, found->second, device);
}
Result hipGetDevicePropertiesR0600(hip::Properties* properties, int index) {
    const std::string name = architecture(index);
    std::memcpy(properties->bytes + hip::Properties::name_offset, name.c_str(), name.size() + 1);
    return 0;
}

Result hipMemGetInfo(std::size_t* free, std::size_t* total) { return cuda::Driver::instance().mem_info(free, total); }
Result hipMalloc(void** pointer, std::size_t bytes) {
    return cuda::Driver::instance().mem_alloc(reinterpret_cast<Pointer*>(pointer), bytes);
}
Result hipExtMallocWithFlags(void** pointer, std::size_t bytes, unsigned flags) {
    return flags == hip::malloc_fine_grained ? hipMalloc(pointer, bytes) : invalid_value;
}
Result hipFree(void* pointer) { return cuda::Driver::instance().mem_free(address(pointer)); }
Result hipMallocManaged(void** pointer, std::size_t bytes, unsigned flags) {
    return cuda::Driver::instance().mem_alloc_managed(reinterpret_cast<Pointer*>(pointer), bytes, flags);
}
Result hipHostMalloc(void** pointer, std::size_t bytes, unsigned) {
    return cuda::Driver::instance().mem_host_alloc(pointer, bytes, gpu::host_portable | cuda::host_device_map);
}
Result hipHostFree(void* pointer) { return cuda::Driver::instance().mem_free_host(pointer); }
Result hipHostRegister(void* pointer, std::size_t bytes, unsigned) {
    return cuda::Driver::instance().mem_host_register(pointer, bytes, gpu::register_portable | gpu::register_mapped);
}
Result hipHostUnregister(void* pointer) { return cuda::Driver::instance().mem_host_unregister(pointer); }
Result hipHostGetDevicePointer(void** mapped, void* pointer, unsigned flags) {
    return cuda::Driver::instance().mem_host_device_pointer(reinterpret_cast<Pointer*>(mapped), pointer, flags);
}

Result hipMemAddressReserve(void** pointer, std::size_t bytes, std::size_t alignment, void* at,
                            unsigned long long flags) {
    return cuda::Driver::instance().address_reserve(reinterpret_cast<Pointer*>(pointer), bytes, alignment, address(at),
                                                    flags);
}
Result hipMemAddressFree(void* pointer, std::size_t bytes) {
    return cuda::Driver::instance().address_free(address(pointer), bytes);
}
Result hipMemCreate(hip::Runtime::AllocationHandle* memory, std::size_t bytes,
                    const gpu::AllocationProperties* requested, unsigned long long flags) {
    return cuda::Driver::instance().mem_create(reinterpret_cast<cuda::AllocationHandle*>(memory), bytes, requested,
                                               flags);
}
Result hipMemRelease(hip::Runtime::AllocationHandle memory) {
    return cuda::Driver::instance().mem_release(memory_of(memory));
}
Result hipMemMap(void* pointer, std::size_t bytes, std::size_t offset, hip::Runtime::AllocationHandle memory,
                 unsigned long long flags) {
    return cuda::Driver::instance().mem_map(address(pointer), bytes, offset, memory_of(memory), flags);
}
Result hipMemUnmap(void* pointer, std::size_t bytes) {
    return cuda::Driver::instance().mem_unmap(address(pointer), bytes);
}
Result hipMemSetAccess(void* pointer, std::size_t bytes, const gpu::AccessDescription* access, std::size_t count) {
    return cuda::Driver::instance().mem_set_access(address(pointer), bytes, access, count);
}
Result hipMemGetAllocationGranularity(std::size_t* bytes, const gpu::AllocationProperties* requested, int which) {
    return cuda::Driver::instance().mem_granularity(bytes, requested, which);
}
Result hipMemPrefetchAsync(void* pointer, std::size_t bytes, int device, gpu::StreamHandle stream) {
    return cuda::Driver::instance().mem_prefetch(address(pointer), bytes, device, stream);
}
Result hipMemAdvise(void* pointer, std::size_t bytes, int advice, int device) {
    if (advice == hip::advise_coarse_grain) return 0;  // CUDA has no such advice
    return cuda::Driver::instance().mem_advise(address(pointer), bytes, advice, device);
}

Result hipModuleLoadData(gpu::ModuleHandle* module, const void* image) {
    return cuda::Driver::instance().module_load(module, image);
}
Result hipModuleUnload(gpu::ModuleHandle module) { return cuda::Driver::instance().module_unload(module); }
Result hipModuleGetFunction(gpu::FunctionHandle* function, gpu::ModuleHandle module, const char* name) {
    return cuda::Driver::instance().module_function(function, module, name);
}
Result hipModuleGetGlobal(void** address, std::size_t* bytes, gpu::ModuleHandle module, const char* name) {
    return cuda::Driver::instance().module_global(reinterpret_cast<cuda::DevicePointer*>(address), bytes, module, name);
}
Result hipModuleLaunchKernel(gpu::FunctionHandle function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
                             unsigned tz, unsigned shared, gpu::StreamHandle stream, void** parameters, void** extra) {
    return cuda::Driver::instance().launch(function, x, y, z, tx, ty, tz, shared, stream, parameters, extra);
}

Result hipStreamCreateWithFlags(gpu::StreamHandle* stream, unsigned flags) {
    return cuda::Driver::instance().stream_create(stream, flags);
}
Result hipStreamDestroy(gpu::StreamHandle stream) { return cuda::Driver::instance().stream_destroy(stream); }
Result hipStreamSynchronize(gpu::StreamHandle stream) { return cuda::Driver::instance().stream_wait(stream); }
Result hipStreamWaitEvent(gpu::StreamHandle stream, gpu::EventHandle event, unsigned flags) {
    return cuda::Driver::instance().stream_wait_event(stream, event, flags);
}
Result hipEventCreateWithFlags(gpu::EventHandle* event, unsigned flags) {
    return cuda::Driver::instance().event_create(event, flags);
}
Result hipEventDestroy(gpu::EventHandle event) { return cuda::Driver::instance().event_destroy(event); }
Result hipEventRecord(gpu::EventHandle event, gpu::StreamHandle stream) {
    return cuda::Driver::instance().event_record(event, stream);
}
Result hipEventSynchronize(gpu::EventHandle event) { return cuda::Driver::instance().event_wait(event); }
Result hipEventElapsedTime(float* milliseconds, gpu::EventHandle from, gpu::EventHandle to) {
    return cuda::Driver::instance().event_elapsed(milliseconds, from, to);
}
Result hipMemcpyAsync(void* target, const void* source, std::size_t bytes, int kind, gpu::StreamHandle stream) {
    if (kind != hip::copy_by_address) return invalid_value;
    return cuda::Driver::instance().memcpy_async(address(target), address(source), bytes, stream);
}
// All memory of the stand-in's device is in one context.
Result hipMemcpyPeerAsync(void* target, int, void* source, int, std::size_t bytes, gpu::StreamHandle stream) {
    return cuda::Driver::instance().memcpy_async(address(target), address(source), bytes, stream);
}

int hiprtcVersion(int* major, int* minor) {
    try {
        return cuda::Driver::compiler().version(major, minor);
    } catch (const Unavailable&) {
        return 11;  // HIPRTC_ERROR_INTERNAL_ERROR
    }
}
const char* hiprtcGetErrorString(int code) { return code == 6 ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_ERROR"; }
int hiprtcCreateProgram(RuntimeCompiler::Program* program, const char* text, const char*, int, const char* const*,
                        const char* const*) {
    *program = as<RuntimeCompiler::Program>(new Compilation{text, "", ""});
    return 0;
}
int hiprtcDestroyProgram(RuntimeCompiler::Program* program) {
    delete &compilation(*program);
    *program = nullptr;
    return 0;
}
int hiprtcCompileProgram(RuntimeCompiler::Program program, int count, const char* const* options) {
    constexpr int compilation_error = 6;  // NVRTC_ERROR_COMPILATION and HIPRTC_ERROR_COMPILATION
    Compilation& result = compilation(program);
    const std::string target = count > 0 ? options[0] : "", prefix = "--offload-arch=";
    if (target.rfind(prefix + "sm_", 0) != 0) {
        result.log = "the first option is not the architecture that the stand-in stated";
        return compilation_error;
    }
    const std::string text =
        with_prelude(result.text, read(environment("STANDIN_KERNELS", STANDIN_KERNELS) + "/prelude.cuda.h"));
    if (text.empty()) {
        result.log = "the program does not hold the HIP prelude that the stand-in knows";
        return compilation_error;
    }
    try {
        const auto architecture = target.substr(prefix.size(), target.find(':') - prefix.size());
        Binary compiled = cuda::nvrtc_compile(text, "standin", architecture);
        result.code = std::move(compiled.code);
        result.log = std::move(compiled.log);
        return 0;
    } catch (const std::exception& error) {
        result.log = error.what();
        return compilation_error;
    }
}
int hiprtcGetProgramLogSize(RuntimeCompiler::Program program, std::size_t* bytes) {
    *bytes = compilation(program).log.size();
    return 0;
}
int hiprtcGetProgramLog(RuntimeCompiler::Program program, char* log) {
    std::memcpy(log, compilation(program).log.data(), compilation(program).log.size());
    return 0;
}
int hiprtcGetCodeSize(RuntimeCompiler::Program program, std::size_t* bytes) {
    *bytes = compilation(program).code.size();
    return 0;
}
int hiprtcGetCode(RuntimeCompiler::Program program, char* code) {
    std::memcpy(code, compilation(program).code.data(), compilation(program).code.size());
    return 0;
}
