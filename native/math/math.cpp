#include "math/math.hpp"

#include "device/cuda/api.hpp"
#include "device/hip/api.hpp"
#include "math/gpu.hpp"

namespace firsttouch {
namespace math {

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

void load(SparseTable& table, const std::string& prefix) {
    table.library.load_optional(table.error_text, prefix + "GetErrorString");
    table.library.load(table.create, prefix + "Create");
    table.library.load(table.destroy, prefix + "Destroy");
    table.library.load(table.version, prefix + "GetVersion");
    table.library.load(table.set_stream, prefix + "SetStream");
    table.library.load(table.create_csr, prefix + "CreateCsr");
    table.library.load(table.destroy_matrix, prefix + "DestroySpMat");
    table.library.load(table.create_vector, prefix + "CreateDnVec");
    table.library.load(table.destroy_vector, prefix + "DestroyDnVec");
    table.library.load(table.set_vector, prefix + "DnVecSetValues");
    table.library.load(table.spmv_bytes, prefix + "SpMV_bufferSize");
    table.library.load_optional(table.spmv_analyse, prefix + "SpMV_preprocess");  // since CUDA 12.4
    table.library.load(table.spmv, prefix + "SpMV");
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

namespace {

// Opens the library of the device's vendor. A library that is installed but cannot be initialised counts as
// unavailable.
template <class Library, class OpenCuda, class OpenHip>
std::unique_ptr<Library> open(Device& device, const char* what, OpenCuda open_cuda, OpenHip open_hip) {
    try {
        if (auto* gpu = dynamic_cast<GpuDevice<cuda::Driver>*>(&device)) return open_cuda(*gpu);
        if (auto* gpu = dynamic_cast<GpuDevice<hip::Runtime>*>(&device)) return open_hip(*gpu);
    } catch (const VendorError& problem) {
        throw Unavailable(std::string("the ") + what + " library cannot be initialised: " + problem.what());
    }
    const std::string kind = device.name().substr(0, device.name().find(':'));
    throw Unavailable(std::string("there is no ") + what + " library for devices of kind " + kind);
}

}  // namespace
}  // namespace math

std::unique_ptr<Blas> open_blas(Device& device) {
    return math::open<Blas>(
        device, "linear algebra",
        [](auto& gpu) { return std::make_unique<math::GpuBlas<cuda::Driver>>(gpu, math::cublas()); },
        [](auto& gpu) { return std::make_unique<math::GpuBlas<hip::Runtime>>(gpu, math::hipblas()); });
}

std::unique_ptr<Sparse> open_sparse(Device& device) {
    return math::open<Sparse>(
        device, "sparse linear algebra",
        [](auto& gpu) { return std::make_unique<math::GpuSparse<cuda::Driver>>(gpu, math::cusparse()); },
        [](auto& gpu) { return std::make_unique<math::GpuSparse<hip::Runtime>>(gpu, math::hipsparse()); });
}

std::unique_ptr<Fft> open_fft(Device& device) {
    return math::open<Fft>(
        device, "Fourier transform",
        [](auto& gpu) { return std::make_unique<math::GpuFft<cuda::Driver, int>>(gpu, math::cufft()); },
        [](auto& gpu) { return std::make_unique<math::GpuFft<hip::Runtime, void*>>(gpu, math::hipfft()); });
}

}  // namespace firsttouch
