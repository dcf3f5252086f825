#include "device/hip/api.hpp"

#include <cstring>

namespace firsttouch::hip {

std::string Properties::architecture() const {
    const char* name = bytes + name_offset;
    return {name, strnlen(name, name_bytes)};
}

const Runtime& Runtime::instance() {
    static const Runtime runtime;
    return runtime;
}

const RuntimeCompiler& Runtime::compiler() {
    static const RuntimeCompiler hiprtc("hiprtc", {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"}, machine_code,
                                        "Code");
    return hiprtc;
}

Runtime::Runtime() : GpuApi("hip", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}) {
    if (const Result result = init(0); result != 0)
        throw Unavailable("hipInit: " + std::string(get_error_string(result)) + " (" + get_error_name(result) + ")");
}

void Runtime::check(Result result, const std::string& call) const {
    if (result != 0) throw VendorError(call + ": " + get_error_string(result) + " (" + get_error_name(result) + ")");
}

Binary hiprtc_compile(const std::string& text, const std::string& name, const std::string& architecture,
                      const std::vector<std::string>& defines) {
    std::vector<std::string> options = {"--offload-arch=" + architecture, "-O3"};
    for (const auto& define : defines) options.push_back("-D" + define);
    return Runtime::compiler().binary(text, name + ".hip", options);
}

}  // namespace firsttouch::hip
