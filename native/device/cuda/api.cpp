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
    library.load(init, "cuInit");
    library.load(get_error_name, "cuGetErrorName");
    library.load(get_error_string, "cuGetErrorString");
    library.load(driver_version, "cuDriverGetVersion");
    library.load(device_count, "cuDeviceGetCount");
    library.load(device_get, "cuDeviceGet");
    library.load(device_name, "cuDeviceGetName");
    library.load(device_uuid, "cuDeviceGetUuid");
    library.load(device_attribute, "cuDeviceGetAttribute");
    library.load(device_pci_bus_id, "cuDeviceGetPCIBusId");
    library.load(context_retain, "cuDevicePrimaryCtxRetain");
    library.load(context_release, "cuDevicePrimaryCtxRelease_v2");
    library.load(current_get, "cuCtxGetCurrent");
    library.load(current_set, "cuCtxSetCurrent");
    library.load(peer_possible, "cuDeviceCanAccessPeer");
    library.load(peer_enable, "cuCtxEnablePeerAccess");
    library.load(mem_info, "cuMemGetInfo_v2");
    library.load(mem_alloc, "cuMemAlloc_v2");
    library.load(mem_free, "cuMemFree_v2");
    library.load(mem_alloc_managed, "cuMemAllocManaged");
    library.load(mem_host_alloc, "cuMemHostAlloc");
    library.load(mem_free_host, "cuMemFreeHost");
    library.load(mem_host_register, "cuMemHostRegister_v2");
    library.load(mem_host_unregister, "cuMemHostUnregister");
    library.load(mem_host_device_pointer, "cuMemHostGetDevicePointer_v2");
    library.load_optional(address_reserve, "cuMemAddressReserve");
    library.load_optional(address_free, "cuMemAddressFree");
    library.load_optional(mem_create, "cuMemCreate");
    library.load_optional(mem_release, "cuMemRelease");
    library.load_optional(mem_map, "cuMemMap");
    library.load_optional(mem_unmap, "cuMemUnmap");
    library.load_optional(mem_set_access, "cuMemSetAccess");
    library.load_optional(mem_granularity, "cuMemGetAllocationGranularity");
    library.load(mem_prefetch, "cuMemPrefetchAsync");
    library.load(mem_advise, "cuMemAdvise");
    library.load(module_load, "cuModuleLoadData");
    library.load(module_unload, "cuModuleUnload");
    library.load(module_function, "cuModuleGetFunction");
    library.load(module_global, "cuModuleGetGlobal_v2");
    library.load(launch, "cuLaunchKernel");
    library.load(stream_create, "cuStreamCreate");
    library.load(stream_destroy, "cuStreamDestroy_v2");
    library.load(stream_wait, "cuStreamSynchronize");
    library.load(stream_wait_event, "cuStreamWaitEvent");
    library.load(event_create, "cuEventCreate");
    library.load(event_destroy, "cuEventDestroy_v2");
    library.load(event_record, "cuEventRecord");
    library.load(event_wait, "cuEventSynchronize");
    library.load(event_elapsed, "cuEventElapsedTime");
    library.load(memcpy_async, "cuMemcpyAsync");
    library.load_optional(memcpy_peer_async, "cuMemcpyPeerAsync");
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
    library.load(version, "nvrtcVersion");
    library.load(error_string, "nvrtcGetErrorString");
    library.load(create, "nvrtcCreateProgram");
    library.load(destroy, "nvrtcDestroyProgram");
    library.load(compile, "nvrtcCompileProgram");
    library.load(log_size, "nvrtcGetProgramLogSize");
    library.load(log, "nvrtcGetProgramLog");
    library.load(cubin_size, "nvrtcGetCUBINSize");
    library.load(cubin, "nvrtcGetCUBIN");
    library.load(ptx_size, "nvrtcGetPTXSize");
    library.load(ptx, "nvrtcGetPTX");
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
    library.load(init, "nvmlInit_v2");
    library.load(by_uuid, "nvmlDeviceGetHandleByUUID");
    library.load(clock, "nvmlDeviceGetClockInfo");
    library.load(temperature, "nvmlDeviceGetTemperature");
    library.load(power, "nvmlDeviceGetPowerUsage");
    library.load(throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    library.load(memory, "nvmlDeviceGetMemoryInfo");
    library.load_optional(memory_v2, "nvmlDeviceGetMemoryInfo_v2");
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
