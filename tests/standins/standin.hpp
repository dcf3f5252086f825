// What the stand-ins share: declarations of the functions that they must define, with the types of the core's table,
// and the replacement of the HIP prelude in a program's text.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>

#include "device/hip/api.hpp"

namespace standin {

using namespace firsttouch;

inline std::string environment(const char* name, const std::string& fallback) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? value : fallback;
}

inline std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// Returns the program with `prelude` in place of the HIP prelude, or "" if the program does not contain the HIP prelude
// of the folder STANDIN_KERNELS, which is set in the environment or when the stand-in is built.
inline std::string with_prelude(std::string program, const std::string& prelude) {
    const std::string hip = read(environment("STANDIN_KERNELS", STANDIN_KERNELS) + "/prelude.hip.h");
    const auto place = program.find(hip);
    if (hip.empty() || place == std::string::npos) return "";
    return program.replace(place, hip.size(), prelude);
}

}  // namespace standin

// Declarations with the types of the table, so that a definition with another signature does not compile.
#define DEFINED(table, member, function)                                                                               \
    extern "C" std::remove_pointer_t<decltype(firsttouch::hip::table::member)> function
DEFINED(Runtime, init, hipInit);
DEFINED(Runtime, get_error_name, hipGetErrorName);
DEFINED(Runtime, get_error_string, hipGetErrorString);
DEFINED(Runtime, runtime_version, hipRuntimeGetVersion);
DEFINED(Runtime, device_count, hipGetDeviceCount);
DEFINED(Runtime, current_get, hipGetDevice);
DEFINED(Runtime, current_set, hipSetDevice);
DEFINED(Runtime, peer_possible, hipDeviceCanAccessPeer);
DEFINED(Runtime, peer_enable, hipDeviceEnablePeerAccess);
DEFINED(Runtime, device_get, hipDeviceGet);
DEFINED(Runtime, device_name, hipDeviceGetName);
DEFINED(Runtime, device_uuid, hipDeviceGetUuid);
DEFINED(Runtime, device_attribute, hipDeviceGetAttribute);
DEFINED(Runtime, device_pci_bus_id, hipDeviceGetPCIBusId);
DEFINED(Runtime, device_properties, hipGetDevicePropertiesR0600);
DEFINED(Runtime, mem_info, hipMemGetInfo);
DEFINED(Runtime, mem_alloc, hipMalloc);
DEFINED(Runtime, mem_alloc_flags, hipExtMallocWithFlags);
DEFINED(Runtime, mem_free, hipFree);
DEFINED(Runtime, mem_alloc_managed, hipMallocManaged);
DEFINED(Runtime, mem_host_alloc, hipHostMalloc);
DEFINED(Runtime, mem_free_host, hipHostFree);
DEFINED(Runtime, mem_host_register, hipHostRegister);
DEFINED(Runtime, mem_host_unregister, hipHostUnregister);
DEFINED(Runtime, mem_host_device_pointer, hipHostGetDevicePointer);
DEFINED(Runtime, address_reserve, hipMemAddressReserve);
DEFINED(Runtime, address_free, hipMemAddressFree);
DEFINED(Runtime, mem_create, hipMemCreate);
DEFINED(Runtime, mem_release, hipMemRelease);
DEFINED(Runtime, mem_map, hipMemMap);
DEFINED(Runtime, mem_unmap, hipMemUnmap);
DEFINED(Runtime, mem_set_access, hipMemSetAccess);
DEFINED(Runtime, mem_granularity, hipMemGetAllocationGranularity);
DEFINED(Runtime, mem_prefetch, hipMemPrefetchAsync);
DEFINED(Runtime, mem_advise, hipMemAdvise);
DEFINED(Runtime, module_load, hipModuleLoadData);
DEFINED(Runtime, module_unload, hipModuleUnload);
DEFINED(Runtime, module_function, hipModuleGetFunction);
DEFINED(Runtime, module_global, hipModuleGetGlobal);
DEFINED(Runtime, launch, hipModuleLaunchKernel);
DEFINED(Runtime, stream_create, hipStreamCreateWithFlags);
DEFINED(Runtime, stream_destroy, hipStreamDestroy);
DEFINED(Runtime, stream_wait, hipStreamSynchronize);
DEFINED(Runtime, stream_wait_event, hipStreamWaitEvent);
DEFINED(Runtime, event_create, hipEventCreateWithFlags);
DEFINED(Runtime, event_destroy, hipEventDestroy);
DEFINED(Runtime, event_record, hipEventRecord);
DEFINED(Runtime, event_wait, hipEventSynchronize);
DEFINED(Runtime, event_elapsed, hipEventElapsedTime);
DEFINED(Runtime, memcpy_async, hipMemcpyAsync);
DEFINED(Runtime, memcpy_peer_async, hipMemcpyPeerAsync);
DEFINED(Hiprtc, version, hiprtcVersion);
DEFINED(Hiprtc, error_string, hiprtcGetErrorString);
DEFINED(Hiprtc, create, hiprtcCreateProgram);
DEFINED(Hiprtc, destroy, hiprtcDestroyProgram);
DEFINED(Hiprtc, compile, hiprtcCompileProgram);
DEFINED(Hiprtc, log_size, hiprtcGetProgramLogSize);
DEFINED(Hiprtc, log, hiprtcGetProgramLog);
DEFINED(Hiprtc, code_size, hiprtcGetCodeSize);
DEFINED(Hiprtc, code, hiprtcGetCode);
#undef DEFINED
