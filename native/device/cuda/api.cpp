#include "device/cuda/api.hpp"

#include <cstdio>
#include <iterator>

namespace firsttouch::cuda {

const Driver& Driver::instance() {
    static const Driver driver;
    return driver;
}

const RuntimeCompiler& Driver::compiler() {
    static const RuntimeCompiler nvrtc("nvrtc", {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"}, machine_code,
                                       "CUBIN");
    return nvrtc;
}

Driver::Driver() : GpuApi("cuda", {"libcuda.so.1", "libcuda.so"}) {
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

Binary nvrtc_compile(const std::string& text, const std::string& name, const std::string& architecture) {
    return Driver::compiler().binary(
        text, name + ".cu", {"--gpu-architecture=" + architecture, "--std=c++17", "--fmad=true", "-default-device"});
}

Nvml::Nvml() {
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
