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
#define DEFINED(table, member, function) extern "C" std::remove_pointer_t<decltype(firsttouch::table::member)> function
DEFINED(hip::Runtime, init, hipInit);
DEFINED(hip::Runtime, get_error_name, hipGetErrorName);
DEFINED(hip::Runtime, get_error_string, hipGetErrorString);
DEFINED(hip::Runtime, version, hipRuntimeGetVersion);
DEFINED(hip::Runtime, device_count, hipGetDeviceCount);
DEFINED(hip::Runtime, current_get, hipGetDevice);
DEFINED(hip::Runtime, current_set, hipSetDevice);
DEFINED(hip::Runtime, peer_possible, hipDeviceCanAccessPeer);
DEFINED(hip::Runtime, peer_enable, hipDeviceEnablePeerAccess);
DEFINED(hip::Runtime, device_get, hipDeviceGet);
DEFINED(hip::Runtime, device_name, hipDeviceGetName);
DEFINED(hip::Runtime, device_uuid, hipDeviceGetUuid);
DEFINED(hip::Runtime, device_attribute, hipDeviceGetAttribute);
DEFINED(hip::Runtime, device_pci_bus_id, hipDeviceGetPCIBusId);
DEFINED(hip::Runtime, device_properties, hipGetDevicePropertiesR0600);
DEFINED(hip::Runtime, mem_info, hipMemGetInfo);
DEFINED(hip::Runtime, mem_alloc, hipMalloc);
DEFINED(hip::Runtime, mem_alloc_flags, hipExtMallocWithFlags);
DEFINED(hip::Runtime, mem_free, hipFree);
DEFINED(hip::Runtime, mem_alloc_managed, hipMallocManaged);
DEFINED(hip::Runtime, mem_host_alloc, hipHostMalloc);
DEFINED(hip::Runtime, mem_free_host, hipHostFree);
DEFINED(hip::Runtime, mem_host_register, hipHostRegister);
DEFINED(hip::Runtime, mem_host_unregister, hipHostUnregister);
DEFINED(hip::Runtime, mem_host_device_pointer, hipHostGetDevicePointer);
DEFINED(hip::Runtime, address_reserve, hipMemAddressReserve);
DEFINED(hip::Runtime, address_free, hipMemAddressFree);
DEFINED(hip::Runtime, mem_create, hipMemCreate);
DEFINED(hip::Runtime, mem_release, hipMemRelease);
DEFINED(hip::Runtime, mem_map, hipMemMap);
DEFINED(hip::Runtime, mem_unmap, hipMemUnmap);
DEFINED(hip::Runtime, mem_set_access, hipMemSetAccess);
DEFINED(hip::Runtime, mem_granularity, hipMemGetAllocationGranularity);
DEFINED(hip::Runtime, mem_prefetch, hipMemPrefetchAsync);
DEFINED(hip::Runtime, mem_advise, hipMemAdvise);
DEFINED(hip::Runtime, module_load, hipModuleLoadData);
DEFINED(hip::Runtime, module_unload, hipModuleUnload);
DEFINED(hip::Runtime, module_function, hipModuleGetFunction);
DEFINED(hip::Runtime, module_global, hipModuleGetGlobal);
DEFINED(hip::Runtime, launch, hipModuleLaunchKernel);
DEFINED(hip::Runtime, stream_create, hipStreamCreateWithFlags);
DEFINED(hip::Runtime, stream_destroy, hipStreamDestroy);
DEFINED(hip::Runtime, stream_wait, hipStreamSynchronize);
DEFINED(hip::Runtime, stream_wait_event, hipStreamWaitEvent);
DEFINED(hip::Runtime, event_create, hipEventCreateWithFlags);
DEFINED(hip::Runtime, event_destroy, hipEventDestroy);
DEFINED(hip::Runtime, event_record, hipEventRecord);
DEFINED(hip::Runtime, event_wait, hipEventSynchronize);
DEFINED(hip::Runtime, event_elapsed, hipEventElapsedTime);
DEFINED(hip::Runtime, memcpy_async, hipMemcpyAsync);
DEFINED(hip::Runtime, memcpy_peer_async, hipMemcpyPeerAsync);
DEFINED(RuntimeCompiler, version, hiprtcVersion);
DEFINED(RuntimeCompiler, error_string, hiprtcGetErrorString);
DEFINED(RuntimeCompiler, create, hiprtcCreateProgram);
DEFINED(RuntimeCompiler, destroy, hiprtcDestroyProgram);
DEFINED(RuntimeCompiler, compile, hiprtcCompileProgram);
DEFINED(RuntimeCompiler, log_size, hiprtcGetProgramLogSize);
DEFINED(RuntimeCompiler, log, hiprtcGetProgramLog);
DEFINED(RuntimeCompiler, code_size, hiprtcGetCodeSize);
DEFINED(RuntimeCompiler, code, hiprtcGetCode);
#undef DEFINED
// An overload would compile too, and be missing in the library.
#pragma GCC diagnostic error "-Wmissing-declarations"
