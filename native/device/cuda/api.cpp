#include "device/cuda/api.hpp"

#include <cstdio>
#include <iterator>

#include "device/compiler.hpp"

namespace firsttouch::cuda {

Driver& Driver::instance() {
    static Driver driver;
    return driver;
}

Driver::Driver() : library("cuda", {"libcuda.so.1", "libcuda.so"}) {
    init = library.function("cuInit");
    get_error_name = library.function("cuGetErrorName");
    get_error_string = library.function("cuGetErrorString");
    driver_version = library.function("cuDriverGetVersion");
    device_count = library.function("cuDeviceGetCount");
    device_get = library.function("cuDeviceGet");
    device_name = library.function("cuDeviceGetName");
    device_uuid = library.function("cuDeviceGetUuid");
    device_attribute = library.function("cuDeviceGetAttribute");
    device_pci_bus_id = library.function("cuDeviceGetPCIBusId");
    context_retain = library.function("cuDevicePrimaryCtxRetain");
    context_release = library.function("cuDevicePrimaryCtxRelease_v2");
    current_get = library.function("cuCtxGetCurrent");
    current_set = library.function("cuCtxSetCurrent");
    peer_possible = library.function("cuDeviceCanAccessPeer");
    peer_enable = library.function("cuCtxEnablePeerAccess");
    mem_info = library.function("cuMemGetInfo_v2");
    mem_alloc = library.function("cuMemAlloc_v2");
    mem_free = library.function("cuMemFree_v2");
    mem_alloc_managed = library.function("cuMemAllocManaged");
    mem_host_alloc = library.function("cuMemHostAlloc");
    mem_free_host = library.function("cuMemFreeHost");
    mem_host_register = library.function("cuMemHostRegister_v2");
    mem_host_unregister = library.function("cuMemHostUnregister");
    mem_host_device_pointer = library.function("cuMemHostGetDevicePointer_v2");
    address_reserve = library.optional_function("cuMemAddressReserve");
    address_free = library.optional_function("cuMemAddressFree");
    mem_create = library.optional_function("cuMemCreate");
    mem_release = library.optional_function("cuMemRelease");
    mem_map = library.optional_function("cuMemMap");
    mem_unmap = library.optional_function("cuMemUnmap");
    mem_set_access = library.optional_function("cuMemSetAccess");
    mem_granularity = library.optional_function("cuMemGetAllocationGranularity");
    mem_prefetch = library.function("cuMemPrefetchAsync");
    mem_advise = library.function("cuMemAdvise");
    module_load = library.function("cuModuleLoadData");
    module_unload = library.function("cuModuleUnload");
    module_function = library.function("cuModuleGetFunction");
    module_global = library.function("cuModuleGetGlobal_v2");
    launch = library.function("cuLaunchKernel");
    stream_create = library.function("cuStreamCreate");
    stream_destroy = library.function("cuStreamDestroy_v2");
    stream_wait = library.function("cuStreamSynchronize");
    stream_wait_event = library.function("cuStreamWaitEvent");
    event_create = library.function("cuEventCreate");
    event_destroy = library.function("cuEventDestroy_v2");
    event_record = library.function("cuEventRecord");
    event_wait = library.function("cuEventSynchronize");
    event_elapsed = library.function("cuEventElapsedTime");
    memcpy_async = library.function("cuMemcpyAsync");
    memcpy_peer_async = library.optional_function("cuMemcpyPeerAsync");
    const Result result = init(0);
    if (result != 0) {
        const char* message = nullptr;
        get_error_string(result, &message);
        throw Unavailable("cuInit: " + std::string(message != nullptr ? message : "unknown error") + " (" +
                          std::to_string(result) + ")");
    }
}

void Driver::check(Result result, const std::string& call) const {
    if (result == 0) return;
    const char* name = nullptr;
    const char* message = nullptr;
    get_error_name(result, &name);
    get_error_string(result, &message);
    throw VendorError(call + ": " + (message != nullptr ? message : "unknown error") + " (" +
                      (name != nullptr ? name : std::to_string(result).c_str()) + ")");
}

Nvrtc& Nvrtc::instance() {
    static Nvrtc nvrtc;
    return nvrtc;
}

Nvrtc::Nvrtc() : library("nvrtc", {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"}) {
    version = library.function("nvrtcVersion");
    error_string = library.function("nvrtcGetErrorString");
    create = library.function("nvrtcCreateProgram");
    destroy = library.function("nvrtcDestroyProgram");
    compile = library.function("nvrtcCompileProgram");
    log_size = library.function("nvrtcGetProgramLogSize");
    log = library.function("nvrtcGetProgramLog");
    cubin_size = library.function("nvrtcGetCUBINSize");
    cubin = library.function("nvrtcGetCUBIN");
    ptx_size = library.function("nvrtcGetPTXSize");
    ptx = library.function("nvrtcGetPTX");
}

Compiled nvrtc_compile(const std::string& text, const std::string& name, const std::string& architecture) {
    const Nvrtc& nvrtc = Nvrtc::instance();
    CompilerProgram program(nvrtc, text, name + ".cu");
    Compiled compiled;
    compiled.log =
        program.compile({"--gpu-architecture=" + architecture, "--std=c++17", "--fmad=true", "-default-device"});
    compiled.cubin = program.fetch(nvrtc.cubin_size, nvrtc.cubin);
    compiled.ptx = program.fetch(nvrtc.ptx_size, nvrtc.ptx);
    return compiled;
}

Nvml::Nvml() : library("nvml", {"libnvidia-ml.so.1"}) {
    init = library.function("nvmlInit_v2");
    by_uuid = library.function("nvmlDeviceGetHandleByUUID");
    clock = library.function("nvmlDeviceGetClockInfo");
    temperature = library.function("nvmlDeviceGetTemperature");
    power = library.function("nvmlDeviceGetPowerUsage");
    throttle_reasons = library.function("nvmlDeviceGetCurrentClocksThrottleReasons");
    memory = library.function("nvmlDeviceGetMemoryInfo");
    memory_v2 = library.optional_function("nvmlDeviceGetMemoryInfo_v2");
    if (init() != 0) throw Unavailable("nvmlInit failed");
}

std::vector<std::string> throttle_reasons(unsigned long long mask) {
    static const char* const names[] = {"idle",
                                        "application clocks setting",
                                        "software power cap",
                                        "hardware slowdown",
                                        "sync boost",
                                        "software thermal slowdown",
                                        "hardware thermal slowdown",
                                        "hardware power brake",
                                        "display clocks setting"};
    std::vector<std::string> words;
    for (std::size_t bit = 1; bit < 64; ++bit) {
        if ((mask >> bit & 1) == 0) continue;
        char number[32];
        std::snprintf(number, sizeof number, "reason %#llx", 1ULL << bit);
        words.emplace_back(bit < std::size(names) ? names[bit] : number);
    }
    return words;
}

}  // namespace firsttouch::cuda
