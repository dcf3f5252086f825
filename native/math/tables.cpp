#include "math/tables.hpp"

#include <iterator>

#include "device/device.hpp"

namespace firsttouch::math {
namespace {

Library open(const std::string& title, const std::string& name, const std::vector<std::string>& sonames,
             const std::string& source) {
    try {
        return {name, sonames};
    } catch (const Unavailable& missing) {
        throw Unavailable(title + " is part of " + source + "; " + missing.what());
    }
}

// CUDA 12 and newer.
Table of_cuda(const char* title, const std::string& prefix, const std::vector<std::string>& sonames, int version_unit) {
    return {title, prefix, sonames, "the CUDA toolkit; pip install nvidia-" + prefix + " installs it too",
            version_unit};
}

// ROCm 6 and newer.
Table of_rocm(const char* title, const char* prefix, const std::vector<std::string>& sonames, int version_unit) {
    return {title, prefix, sonames, "ROCm", version_unit};
}

}  // namespace

Table::Table(const std::string& title_of_library, const std::string& prefix_of_functions,
             const std::vector<std::string>& sonames, const std::string& source, int unit)
    : title(title_of_library), prefix(prefix_of_functions), library(open(title, prefix, sonames, source)),
      version_unit(unit) {}

void Table::check(int result, const std::string& call) const {
    if (result == 0) return;
    const char* text = error_text == nullptr ? nullptr : error_text(result);
    throw VendorError(call + ": " + (text == nullptr ? "failed" : text) + " (" + std::to_string(result) + ")");
}

std::string Table::title_with_version(int version) const {
    if (version_unit == 0 || version == 0) return title;
    return title + " " + std::to_string(version / version_unit) + "." + std::to_string(version % version_unit / 100) +
           "." + std::to_string(version % 100);
}

// Neither vendor's FFT library has a function that describes its result codes.
const char* fft_error_text(int result) {
    static constexpr const char* texts[] = {"success",
                                            "invalid plan",
                                            "allocation failed",
                                            "invalid type",
                                            "invalid value",
                                            "internal error",
                                            "execution failed",
                                            "set-up failed",
                                            "invalid size",
                                            "unaligned data",
                                            "incomplete list of parameters",
                                            "invalid device",
                                            "parse error",
                                            "no workspace",
                                            "not implemented",
                                            nullptr,
                                            "not supported",
                                            "a library that it needs is missing",
                                            "NVRTC failed",
                                            "nvJitLink failed"};
    return result >= 0 && result < static_cast<int>(std::size(texts)) ? texts[result] : nullptr;
}

const BlasTable& cublas() {
    static const BlasTable table(
        of_cuda("cuBLAS", "cublas", {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}, 10000), "_v2", 0);
    return table;
}

const SparseTable& cusparse() {
    static const SparseTable table(of_cuda("cuSPARSE", "cusparse", {"libcusparse.so.12", "libcusparse.so"}, 1000));
    return table;
}

const FftTable<int>& cufft() {
    static const FftTable<int> table(
        of_cuda("cuFFT", "cufft", {"libcufft.so.12", "libcufft.so.11", "libcufft.so"}, 1000));
    return table;
}

const BlasTable& hipblas() {
    static const BlasTable table(
        of_rocm("hipBLAS", "hipblas", {"libhipblas.so.3", "libhipblas.so.2", "libhipblas.so"}, 0), "", 111);
    return table;
}

const SparseTable& hipsparse() {
    static const SparseTable table(
        of_rocm("hipSPARSE", "hipsparse", {"libhipsparse.so.4", "libhipsparse.so.1", "libhipsparse.so"}, 100000));
    return table;
}

const FftTable<void*>& hipfft() {
    static const FftTable<void*> table(of_rocm("hipFFT", "hipfft", {"libhipfft.so.0", "libhipfft.so"}, 10000));
    return table;
}

}  // namespace firsttouch::math
