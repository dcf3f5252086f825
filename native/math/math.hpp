// The functions that applications use of the vendors' libraries for linear algebra and Fourier transforms. All work is
// queued on a stream of the device for which the library was opened. Workspaces of libraries and plans come from
// Device::allocate, so that the guard counts them. A device must outlive its libraries, and a library its plans.
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
    // result[result_index] = sum of x[i] y[i] over n elements, in memory that the device can access.
    virtual void dot(Stream& stream, const Buffer& x, const Buffer& y, const Buffer& result, std::int64_t result_index,
                     std::int64_t n) = 0;
};

// One sparse matrix. Its values may change at any time, its pattern only before the first product: some libraries
// analyse the pattern then.
class SparsePlan {
  public:
    virtual ~SparsePlan() = default;
    virtual void multiply(Stream& stream, const Buffer& x, const Buffer& y) = 0;  // y = A x
};

// Sparse linear algebra: CSR with zero-based 32-bit indices, single precision.
class Sparse {
  public:
    virtual ~Sparse() = default;
    virtual std::string title() const = 0;
    // Keeps references to the buffers, which must outlive the plan. They are read at the first product, not here.
    virtual std::unique_ptr<SparsePlan> plan(const Buffer& row_pointers, const Buffer& column_indices,
                                             const Buffer& values, std::int64_t rows, std::int64_t columns,
                                             std::int64_t nonzeros) = 0;
};

enum class FftKind : std::uint8_t { r2c, c2r, c2c };
enum class FftDirection : std::uint8_t { forward, backward };

// One transform of height x width values in row-major order. The complex array of r2c and c2r has width / 2 + 1
// columns. Results are not scaled in either direction. c2r may overwrite its input.
class FftPlan {
  public:
    virtual ~FftPlan() = default;
    virtual void execute(Stream& stream, const Buffer& input, const Buffer& output, FftDirection direction) = 0;
};

// Two-dimensional Fourier transforms, single precision.
class Fft {
  public:
    virtual ~Fft() = default;
    virtual std::string title() const = 0;
    virtual std::unique_ptr<FftPlan> plan(FftKind kind, std::int64_t height, std::int64_t width) = 0;
};

// These throw Unavailable with the reason if the device's vendor has no such library or it is not installed.
std::unique_ptr<Blas> open_blas(Device& device);
std::unique_ptr<Sparse> open_sparse(Device& device);
std::unique_ptr<Fft> open_fft(Device& device);

}  // namespace firsttouch
