#include "device/hip/api.hpp"

#include <cstring>

#include "device/compiler.hpp"

namespace firsttouch::hip {

std::string Properties::architecture() const {
    const char* name = bytes + name_offset;
    return {name, strnlen(name, name_bytes)};
}

Runtime& Runtime::instance() {
    static Runtime runtime;
    return runtime;
}

Runtime::Runtime() : library("hip", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}) {
    library.load(init, "hipInit");
    library.load(get_error_name, "hipGetErrorName");
    library.load(get_error_string, "hipGetErrorString");
    library.load(runtime_version, "hipRuntimeGetVersion");
    library.load(device_count, "hipGetDeviceCount");
    library.load(current_get, "hipGetDevice");
    library.load(current_set, "hipSetDevice");
    library.load(peer_possible, "hipDeviceCanAccessPeer");
    library.load(peer_enable, "hipDeviceEnablePeerAccess");
    library.load(device_get, "hipDeviceGet");
    library.load(device_name, "hipDeviceGetName");
    library.load(device_uuid, "hipDeviceGetUuid");
    library.load(device_attribute, "hipDeviceGetAttribute");
    library.load(device_pci_bus_id, "hipDeviceGetPCIBusId");
    library.load(device_properties, "hipGetDevicePropertiesR0600");  // since ROCm 6; older ones have another layout
    library.load(mem_info, "hipMemGetInfo");
    library.load(mem_alloc, "hipMalloc");
    library.load_optional(mem_alloc_flags, "hipExtMallocWithFlags");
    library.load(mem_free, "hipFree");
    library.load(mem_alloc_managed, "hipMallocManaged");
    library.load(mem_host_alloc, "hipHostMalloc");
    library.load(mem_free_host, "hipHostFree");
    library.load(mem_host_register, "hipHostRegister");
    library.load(mem_host_unregister, "hipHostUnregister");
    library.load(mem_host_device_pointer, "hipHostGetDevicePointer");
    library.load_optional(address_reserve, "hipMemAddressReserve");
    library.load_optional(address_free, "hipMemAddressFree");
    library.load_optional(mem_create, "hipMemCreate");
    library.load_optional(mem_release, "hipMemRelease");
    library.load_optional(mem_map, "hipMemMap");
    library.load_optional(mem_unmap, "hipMemUnmap");
    library.load_optional(mem_set_access, "hipMemSetAccess");
    library.load_optional(mem_granularity, "hipMemGetAllocationGranularity");
    library.load(mem_prefetch, "hipMemPrefetchAsync");
    library.load(mem_advise, "hipMemAdvise");
    library.load(module_load, "hipModuleLoadData");
    library.load(module_unload, "hipModuleUnload");
    library.load(module_function, "hipModuleGetFunction");
    library.load(module_global, "hipModuleGetGlobal");
    library.load(launch, "hipModuleLaunchKernel");
    library.load(stream_create, "hipStreamCreateWithFlags");
    library.load(stream_destroy, "hipStreamDestroy");
    library.load(stream_wait, "hipStreamSynchronize");
    library.load(stream_wait_event, "hipStreamWaitEvent");
    library.load(event_create, "hipEventCreateWithFlags");
    library.load(event_destroy, "hipEventDestroy");
    library.load(event_record, "hipEventRecord");
    library.load(event_wait, "hipEventSynchronize");
    library.load(event_elapsed, "hipEventElapsedTime");
    library.load(memcpy_async, "hipMemcpyAsync");
    library.load_optional(memcpy_peer_async, "hipMemcpyPeerAsync");
    if (const Result result = init(0); result != 0)
        throw Unavailable("hipInit: " + std::string(get_error_string(result)) + " (" + get_error_name(result) + ")");
}

void Runtime::check(Result result, const std::string& call) const {
    if (result != 0) throw VendorError(call + ": " + get_error_string(result) + " (" + get_error_name(result) + ")");
}

Hiprtc& Hiprtc::instance() {
    static Hiprtc hiprtc;
    return hiprtc;
}

Hiprtc::Hiprtc() : library("hiprtc", {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"}) {
    library.load(version, "hiprtcVersion");
    library.load(error_string, "hiprtcGetErrorString");
    library.load(create, "hiprtcCreateProgram");
    library.load(destroy, "hiprtcDestroyProgram");
    library.load(compile, "hiprtcCompileProgram");
    library.load(log_size, "hiprtcGetProgramLogSize");
    library.load(log, "hiprtcGetProgramLog");
    library.load(code_size, "hiprtcGetCodeSize");
    library.load(code, "hiprtcGetCode");
}

Compiled hiprtc_compile(const std::string& text, const std::string& name, const std::string& architecture,
                        const std::vector<std::string>& defines) {
    const Hiprtc& hiprtc = Hiprtc::instance();
    CompilerProgram program(hiprtc, text, name + ".hip");
    std::vector<std::string> options = {"--offload-arch=" + architecture, "-O3"};
    for (const auto& define : defines) options.push_back("-D" + define);
    Compiled compiled;
    compiled.log = program.compile(options);
    compiled.code = program.fetch(hiprtc.code_size, hiprtc.code);
    return compiled;
}

}  // namespace firsttouch::hip
