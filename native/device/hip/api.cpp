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
    init = library.function("hipInit");
    get_error_name = library.function("hipGetErrorName");
    get_error_string = library.function("hipGetErrorString");
    runtime_version = library.function("hipRuntimeGetVersion");
    device_count = library.function("hipGetDeviceCount");
    current_get = library.function("hipGetDevice");
    current_set = library.function("hipSetDevice");
    peer_possible = library.function("hipDeviceCanAccessPeer");
    peer_enable = library.function("hipDeviceEnablePeerAccess");
    device_get = library.function("hipDeviceGet");
    device_name = library.function("hipDeviceGetName");
    device_uuid = library.function("hipDeviceGetUuid");
    device_attribute = library.function("hipDeviceGetAttribute");
    device_pci_bus_id = library.function("hipDeviceGetPCIBusId");
    device_properties =
        library.function("hipGetDevicePropertiesR0600");  // since ROCm 6; older ones have another layout
    mem_info = library.function("hipMemGetInfo");
    mem_alloc = library.function("hipMalloc");
    mem_alloc_flags = library.optional_function("hipExtMallocWithFlags");
    mem_free = library.function("hipFree");
    mem_alloc_managed = library.function("hipMallocManaged");
    mem_host_alloc = library.function("hipHostMalloc");
    mem_free_host = library.function("hipHostFree");
    mem_host_register = library.function("hipHostRegister");
    mem_host_unregister = library.function("hipHostUnregister");
    mem_host_device_pointer = library.function("hipHostGetDevicePointer");
    address_reserve = library.optional_function("hipMemAddressReserve");
    address_free = library.optional_function("hipMemAddressFree");
    mem_create = library.optional_function("hipMemCreate");
    mem_release = library.optional_function("hipMemRelease");
    mem_map = library.optional_function("hipMemMap");
    mem_unmap = library.optional_function("hipMemUnmap");
    mem_set_access = library.optional_function("hipMemSetAccess");
    mem_granularity = library.optional_function("hipMemGetAllocationGranularity");
    mem_prefetch = library.function("hipMemPrefetchAsync");
    mem_advise = library.function("hipMemAdvise");
    module_load = library.function("hipModuleLoadData");
    module_unload = library.function("hipModuleUnload");
    module_function = library.function("hipModuleGetFunction");
    module_global = library.function("hipModuleGetGlobal");
    launch = library.function("hipModuleLaunchKernel");
    stream_create = library.function("hipStreamCreateWithFlags");
    stream_destroy = library.function("hipStreamDestroy");
    stream_wait = library.function("hipStreamSynchronize");
    stream_wait_event = library.function("hipStreamWaitEvent");
    event_create = library.function("hipEventCreateWithFlags");
    event_destroy = library.function("hipEventDestroy");
    event_record = library.function("hipEventRecord");
    event_wait = library.function("hipEventSynchronize");
    event_elapsed = library.function("hipEventElapsedTime");
    memcpy_async = library.function("hipMemcpyAsync");
    memcpy_peer_async = library.optional_function("hipMemcpyPeerAsync");
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
    version = library.function("hiprtcVersion");
    error_string = library.function("hiprtcGetErrorString");
    create = library.function("hiprtcCreateProgram");
    destroy = library.function("hiprtcDestroyProgram");
    compile = library.function("hiprtcCompileProgram");
    log_size = library.function("hiprtcGetProgramLogSize");
    log = library.function("hiprtcGetProgramLog");
    code_size = library.function("hiprtcGetCodeSize");
    code = library.function("hiprtcGetCode");
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
