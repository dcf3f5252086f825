// The vendors' libraries of linear algebra and Fourier transforms, as far as applications use them. All work is
// queued on a stream of the device that the library was opened for; what libraries and plans need of device memory for
// their work comes from Device::allocate, so that the guard sees it. A library must not outlive its device, nor a plan
// its library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/device.hpp"

namespace firsttouch {

// Dense linear algebra, single precision, matrices row-major. Products are plain f32: no TF32.
class Blas {
  public:
    virtual ~Blas() = default;
    virtual std::string title() const = 0;  // name and version
    // c (m x n) = a (m x k) b (k x n)
    virtual void gemm(Stream& stream, const Buffer& a, const Buffer& b, const Buffer& c, std::int64_t m, std::int64_t n,
                      std::int64_t k) = 0;
    // result[result_index] = sum of x[i] y[i] over n elements, in memory that the device reaches.
    virtual void dot(Stream& stream, const Buffer& x, const Buffer& y, const Buffer& result, std::int64_t result_index,
                     std::int64_t n) = 0;
};

// One sparse matrix. Its memory may change in values, but not in pattern after the first product, which analyses it
// where the library has such a step.
class SparsePlan {
  public:
    virtual ~SparsePlan() = default;
    virtual void multiply(Stream& stream, const Buffer& x, const Buffer& y) = 0;  // y = A x
};

// Sparse linear algebra: CSR with 32-bit indices from zero, single precision.
class Sparse {
  public:
    virtual ~Sparse() = default;
    virtual std::string title() const = 0;
    // Only stores the buffers: they must outlive the plan, and be filled before the first product.
    virtual std::unique_ptr<SparsePlan> plan(const Buffer& row_pointers, const Buffer& column_indices,
                                             const Buffer& values, std::int64_t rows, std::int64_t columns,
                                             std::int64_t nonzeros) = 0;
};

enum class FftKind : std::uint8_t { r2c, c2r, c2c };
enum class FftDirection : std::uint8_t { forward, backward };

// One transform of height x width values in row-major order. The complex side of r2c and c2r has width / 2 + 1 columns.
// No direction scales. c2r may overwrite its input.
class FftPlan {
  public:
    virtual ~FftPlan() = default;
    virtual void execute(Stream& stream, const Buffer& input, const Buffer& output, FftDirection direction) = 0;
};

// Fourier transforms in two dimensions, single precision.
class Fft {
  public:
    virtual ~Fft() = default;
    virtual std::string title() const = 0;
    virtual std::unique_ptr<FftPlan> plan(FftKind kind, std::int64_t height, std::int64_t width) = 0;
};

// Throw Unavailable with the reason where the device comes with no such library or it is not installed.
std::unique_ptr<Blas> open_blas(Device& device);
std::unique_ptr<Sparse> open_sparse(Device& device);
std::unique_ptr<Fft> open_fft(Device& device);

}  // namespace firsttouch
