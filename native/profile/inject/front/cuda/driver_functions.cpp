#include "profile/inject/front/cuda/driver_functions.hpp"

#include <dlfcn.h>

#include <type_traits>

namespace firsttouch::inject {

DriverFunctions DriverFunctions::of_this_process() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) library = RTLD_DEFAULT;
    DriverFunctions functions;
    const auto load = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    load(functions.device_count, "cuDeviceGetCount");
    load(functions.function_parameter, "cuFuncGetParamInfo");
    load(functions.kernel_parameter, "cuKernelGetParamInfo");
    load(functions.function_name, "cuFuncGetName");
    load(functions.kernel_name, "cuKernelGetName");
    load(functions.graph_nodes, "cuGraphGetNodes");
    load(functions.node_type, "cuGraphNodeGetType");
    load(functions.kernel_node, "cuGraphKernelNodeGetParams_v2");
    load(functions.copy_node, "cuGraphMemcpyNodeGetParams");
    load(functions.fill_node, "cuGraphMemsetNodeGetParams");
    load(functions.child_graph, "cuGraphChildGraphNodeGetGraph");
    load(functions.allocation_node, "cuGraphMemAllocNodeGetParams");
    load(functions.free_node, "cuGraphMemFreeNodeGetParams");
    load(functions.is_capturing, "cuStreamIsCapturing");
    load(functions.copy_slices, "cuMemcpy3D_v2");
    return functions;
}

// A slice of one row: libraries that are preloaded for a trial take the place of the simpler calls.
bool DriverFunctions::read(void* target, cupti::Address source, std::size_t bytes) const {
    cupti::Copy3D copy{};
    copy.source.type = 2;
    copy.source.device = source;
    copy.target.type = 1;
    copy.target.host = target;
    copy.width = bytes, copy.height = copy.depth = 1;
    return copy_slices != nullptr && copy_slices(&copy) == 0;
}

const char* DriverFunctions::name_of(Handle kernel) const {
    const char* name = nullptr;
    if (function_name != nullptr && function_name(&name, kernel) == 0) return name;
    return kernel_name != nullptr && kernel_name(&name, kernel) == 0 ? name : nullptr;
}

// The driver refuses a kernel where it expects a function, as it refuses what is behind the last parameter, so that a
// kernel without parameters is one that neither question tells of.
bool DriverFunctions::find_parameters(Handle kernel, std::vector<Parameter>& parameters) const {
    const auto ask = [&](auto query) {
        parameters.clear();
        if (query == nullptr) return false;
        for (std::size_t i = 0, offset = 0, bytes = 0; i < most_parameters; ++i) {
            if (query(kernel, i, &offset, &bytes) != 0) return i > 0;
            if (offset + bytes > most_parameter_bytes) return false;
            parameters.push_back(
                {.offset = static_cast<std::uint32_t>(offset), .bytes = static_cast<std::uint32_t>(bytes)});
        }
        return false;
    };
    return ask(function_parameter) || ask(kernel_parameter);
}

}  // namespace firsttouch::inject
