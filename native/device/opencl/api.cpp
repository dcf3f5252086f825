#include "device/opencl/api.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <map>

#include "device/device.hpp"

namespace firsttouch::opencl {
namespace {

using GetFunction = void* (*)(const char*);
using GetPlatforms = Int (*)(UInt, Object*, UInt*);

std::vector<FoundDevice> search() {
    std::vector<FoundDevice> listed;
    const std::vector<std::string>& paths = library_paths("opencl-icd");
    std::string errors;
    bool has_pocl = false;  // only the first PoCL is used, because others would drive the same processor
    for (const std::string& path : paths) {
        if (has_pocl && path.find("pocl") != std::string::npos) continue;
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            errors += (errors.empty() ? "" : "; ") + std::string(dlerror());
            continue;
        }
        const auto get_function = reinterpret_cast<GetFunction>(dlsym(library, "clGetExtensionFunctionAddress"));
        auto get_platforms = reinterpret_cast<GetPlatforms>(dlsym(library, "clIcdGetPlatformIDsKHR"));
        if (get_platforms == nullptr && get_function != nullptr)
            get_platforms = reinterpret_cast<GetPlatforms>(get_function("clIcdGetPlatformIDsKHR"));
        Object platforms[8] = {};
        UInt count = 0;
        if (get_platforms == nullptr || get_platforms(8, platforms, &count) != 0) {
            errors += (errors.empty() ? "" : "; ") + path + " is not an OpenCL driver";
            continue;
        }
        const std::size_t before = listed.size();
        for (UInt p = 0; p < std::min<UInt>(count, 8); ++p) {
            Object devices[16] = {};
            UInt size = 0;
            if (DispatchTable(platforms[p])
                    .call<Int>(get_device_ids, platforms[p], ULong{device_type_all}, UInt{16},
                               static_cast<Object*>(devices), &size) != 0)
                continue;
            for (UInt d = 0; d < std::min<UInt>(size, 16); ++d) {
                has_pocl |= text_info(devices[d], info_version).find("PoCL") != std::string::npos;
                listed.push_back({platforms[p], devices[d], path});
            }
        }
        if (listed.size() == before) errors += (errors.empty() ? "" : "; ") + path + " has no devices";
    }
    if (listed.empty())
        throw Unavailable(paths.empty() ? "no OpenCL driver found: install one, or pip install 'firsttouch[pocl]'"
                                        : "no OpenCL device found: " + errors);
    return listed;
}

}  // namespace

const std::vector<FoundDevice>& find_devices() {
    static const std::vector<FoundDevice> devices = search();
    return devices;
}

std::string text_info(Object device, UInt what) {
    char text[4096] = {};
    DispatchTable(device).call<Int>(get_device_info, device, what, sizeof(text) - 1, static_cast<void*>(text),
                                    static_cast<std::size_t*>(nullptr));
    return text;
}

const char* error_name(Int code) {
    static const std::map<Int, const char*> names = {{-1, "CL_DEVICE_NOT_FOUND"},
                                                     {-2, "CL_DEVICE_NOT_AVAILABLE"},
                                                     {-3, "CL_COMPILER_NOT_AVAILABLE"},
                                                     {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
                                                     {-5, "CL_OUT_OF_RESOURCES"},
                                                     {-6, "CL_OUT_OF_HOST_MEMORY"},
                                                     {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
                                                     {-11, "CL_BUILD_PROGRAM_FAILURE"},
                                                     {-12, "CL_MAP_FAILURE"},
                                                     {-30, "CL_INVALID_VALUE"},
                                                     {-33, "CL_INVALID_DEVICE"},
                                                     {-34, "CL_INVALID_CONTEXT"},
                                                     {-36, "CL_INVALID_COMMAND_QUEUE"},
                                                     {-37, "CL_INVALID_HOST_PTR"},
                                                     {-38, "CL_INVALID_MEM_OBJECT"},
                                                     {-43, "CL_INVALID_BUILD_OPTIONS"},
                                                     {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
                                                     {-46, "CL_INVALID_KERNEL_NAME"},
                                                     {-48, "CL_INVALID_KERNEL"},
                                                     {-49, "CL_INVALID_ARG_INDEX"},
                                                     {-50, "CL_INVALID_ARG_VALUE"},
                                                     {-51, "CL_INVALID_ARG_SIZE"},
                                                     {-52, "CL_INVALID_KERNEL_ARGS"},
                                                     {-54, "CL_INVALID_WORK_GROUP_SIZE"},
                                                     {-55, "CL_INVALID_WORK_ITEM_SIZE"},
                                                     {-58, "CL_INVALID_EVENT"},
                                                     {-59, "CL_INVALID_OPERATION"},
                                                     {-61, "CL_INVALID_BUFFER_SIZE"}};
    const auto entry = names.find(code);
    return entry == names.end() ? "unknown error" : entry->second;
}

void check(Int code, const char* call) {
    if (code != 0) throw VendorError(std::string(call) + ": " + error_name(code) + " (" + std::to_string(code) + ")");
}

}  // namespace firsttouch::opencl
