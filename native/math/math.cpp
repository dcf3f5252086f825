#include "math/math.hpp"

#include "device/cuda/api.hpp"
#include "device/hip/api.hpp"
#include "math/gpu.hpp"

namespace firsttouch {
namespace math {

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
