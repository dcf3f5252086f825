// The libraries of both vendors, which have the same interface. Api is the function table of the driver.
#pragma once

#include <algorithm>
#include <climits>
#include <stdexcept>

#include "device/gpu.hpp"
#include "math/math.hpp"
#include "math/tables.hpp"

namespace firsttouch::math {

// A handle, plan or descriptor of a library. It is created and destroyed while its device is current, because
// the libraries bind it to the current device.
template <class Api, class Handle>
class OwnedHandle {
  public:
    template <class Table, class... A>
    OwnedHandle(const GpuDevice<Api>& device, const Table& table, int (*destroy)(Handle), int (*create)(Handle*, A...),
                std::type_identity_t<A>... rest)
        : device_(device), destroy_(destroy) {
        const auto scope = device.make_current();
        call(table, create, &handle_, rest...);
    }
    OwnedHandle(const OwnedHandle&) = delete;
    OwnedHandle& operator=(const OwnedHandle&) = delete;
    ~OwnedHandle() {
        device_.while_current([&] { destroy_(handle_); });
    }
    Handle get() const { return handle_; }

  private:
    const GpuDevice<Api>& device_;
    Handle handle_{};
    int (*destroy_)(Handle);
};

inline int positive_int(std::int64_t value, const char* what) {
    if (value < 1 || value > INT_MAX)
        throw std::invalid_argument(std::string(what) + " is " + std::to_string(value) + ", not between 1 and " +
                                    std::to_string(INT_MAX));
    return static_cast<int>(value);
}

// Returns the device address of element `first`. Throws std::invalid_argument if the buffer has fewer than `count`
// elements from there on: the libraries do not check bounds.
template <class T>
T* elements(Device& device, const Buffer& buffer, const char* what, std::int64_t count, std::int64_t first = 0) {
    const auto available = static_cast<std::int64_t>(buffer.size() / sizeof(T));
    if (first < 0 || count > available || first > available - count)
        throw std::invalid_argument(std::string(what) + " holds " + std::to_string(available) + " elements, too few");
    return reinterpret_cast<T*>(device.require_address(buffer, "a library on ")) + first;
}

template <class Api>
void* native_handle(Stream& stream) {
    return static_cast<GpuStream<Api>&>(stream).handle;
}

inline std::unique_ptr<Buffer> workspace(Device& device, std::size_t bytes) {
    return bytes == 0 ? nullptr : device.allocate(Allocator::device, bytes);
}
inline void* address(const std::unique_ptr<Buffer>& buffer) {
    return buffer == nullptr ? nullptr : reinterpret_cast<void*>(buffer->block().address);
}

template <class Api>
class GpuBlas : public Blas {
  public:
    GpuBlas(GpuDevice<Api>& device, const BlasTable& table)
        : device_(device), table_(table), handle_(device, table, table.destroy, table.create) {
        const auto scope = device_.make_current();
        if (table_.set_math_mode != nullptr) call(table_, table_.set_math_mode, handle_.get(), default_math);
        if (table_.set_workspace != nullptr) workspace_ = workspace(device, workspace_bytes);
    }

    std::string title() const override {
        int version = 0;
        if (table_.version != nullptr) call(table_, table_.version, handle_.get(), &version);
        return table_.title_with_version(version);
    }

    void gemm(Stream& stream, const Buffer& a, const Buffer& b, const Buffer& c, std::int64_t m, std::int64_t n,
              std::int64_t k) override {
        const int rows = positive_int(m, "m"), columns = positive_int(n, "n"), inner = positive_int(k, "k");
        const float one = 1, zero = 0;
        const auto scope = device_.make_current();
        float *const from_a = elements<float>(device_, a, "a", m * k),
                     *const from_b = elements<float>(device_, b, "b", k * n),
                     *const to_c = elements<float>(device_, c, "c", m * n);
        begin(stream, scalars_on_host);
        // The libraries expect column-major matrices. A row-major matrix read as column-major is its
        // transpose, so this computes C' = B' A'.
        call(table_, table_.sgemm, handle_.get(), table_.no_transpose, table_.no_transpose, columns, rows, inner, &one,
             from_b, columns, from_a, inner, &zero, to_c, columns);
    }

    void dot(Stream& stream, const Buffer& x, const Buffer& y, const Buffer& result, std::int64_t result_index,
             std::int64_t n) override {
        const auto scope = device_.make_current();
        begin(stream, scalars_on_device);
        call(table_, table_.sdot, handle_.get(), positive_int(n, "n"), elements<float>(device_, x, "x", n), 1,
             elements<float>(device_, y, "y", n), 1, elements<float>(device_, result, "result", 1, result_index));
    }

  private:
    static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // NVIDIA's recommendation for Hopper

    void begin(Stream& stream, int pointer_mode) {
        if (void* const native_stream = native_handle<Api>(stream); native_stream != stream_) {
            call(table_, table_.set_stream, handle_.get(), native_stream);
            // After set_stream, which resets the workspace to that of cuBLAS.
            if (workspace_ != nullptr)
                call(table_, table_.set_workspace, handle_.get(), address(workspace_), workspace_->size());
            stream_ = native_stream;
        }
        call(table_, table_.set_pointer_mode, handle_.get(), pointer_mode);
    }

    GpuDevice<Api>& device_;
    const BlasTable& table_;
    std::unique_ptr<Buffer> workspace_;  // declared first, to be freed after the handle
    OwnedHandle<Api, void*> handle_;
    void* stream_ = nullptr;
};

template <class Api>
class GpuSparsePlan : public SparsePlan {
  public:
    GpuSparsePlan(GpuDevice<Api>& device, const SparseTable& table, void* library, const Buffer& row_pointers,
                  const Buffer& column_indices, const Buffer& values, std::int64_t rows, std::int64_t columns,
                  std::int64_t nonzeros)
        : device_(device), table_(table), library_(library), rows_(positive_int(rows, "rows")),
          columns_(positive_int(columns, "columns")),
          matrix_(device, table, table.destroy_matrix, table.create_csr, rows_, columns_,
                  positive_int(nonzeros, "nonzeros"),
                  elements<std::int32_t>(device, row_pointers, "row_pointers", rows + 1),
                  elements<std::int32_t>(device, column_indices, "column_indices", nonzeros),
                  elements<float>(device, values, "values", nonzeros), index_i32, index_i32, from_zero, f32),
          // Each product sets the memory of both vectors. The libraries accept no null pointer here.
          x_(device, table, table.destroy_vector, table.create_vector, columns_,
             elements<float>(device, values, "values", 1), f32),
          y_(device, table, table.destroy_vector, table.create_vector, rows_,
             elements<float>(device, values, "values", 1), f32) {
        const auto scope = device_.make_current();
        std::size_t bytes = 0;
        run(table_.spmv_bytes, &bytes);
        workspace_ = workspace(device, std::max(bytes, std::size_t{16}));  // so that the pointer is never null
    }

    void multiply(Stream& stream, const Buffer& x, const Buffer& y) override {
        const auto scope = device_.make_current();
        call(table_, table_.set_stream, library_, native_handle<Api>(stream));
        call(table_, table_.set_vector, x_.get(), elements<float>(device_, x, "x", columns_));
        call(table_, table_.set_vector, y_.get(), elements<float>(device_, y, "y", rows_));
        if (!analysed_ && table_.spmv_analyse != nullptr) run(table_.spmv_analyse, address(workspace_));
        analysed_ = true;
        run(table_.spmv, address(workspace_));
    }

  private:
    // Calls one of the three functions that take the operands of a product and differ in the last argument.
    template <class Last>
    void run(int (*function)(void*, int, const void*, void*, void*, const void*, void*, int, int, Last), Last last) {
        const float one = 1, zero = 0;
        call(table_, function, library_, not_transposed, &one, matrix_.get(), x_.get(), &zero, y_.get(), f32,
             default_algorithm, last);
    }

    GpuDevice<Api>& device_;
    const SparseTable& table_;
    void* library_;
    std::int64_t rows_, columns_;
    std::unique_ptr<Buffer> workspace_;  // declared first, to be freed after the matrix, which may refer to it
    OwnedHandle<Api, void*> matrix_, x_, y_;
    bool analysed_ = false;
};

template <class Api>
class GpuSparse : public Sparse {
  public:
    GpuSparse(GpuDevice<Api>& device, const SparseTable& table)
        : device_(device), table_(table), handle_(device, table, table.destroy, table.create) {}

    std::string title() const override {
        int version = 0;
        call(table_, table_.version, handle_.get(), &version);
        return table_.title_with_version(version);
    }

    std::unique_ptr<SparsePlan> plan(const Buffer& row_pointers, const Buffer& column_indices, const Buffer& values,
                                     std::int64_t rows, std::int64_t columns, std::int64_t nonzeros) override {
        return std::make_unique<GpuSparsePlan<Api>>(device_, table_, handle_.get(), row_pointers, column_indices,
                                                    values, rows, columns, nonzeros);
    }

  private:
    GpuDevice<Api>& device_;
    const SparseTable& table_;
    OwnedHandle<Api, void*> handle_;
};

template <class Api, class Handle>
class GpuFftPlan : public FftPlan {
  public:
    GpuFftPlan(GpuDevice<Api>& device, const FftTable<Handle>& table, FftKind kind, std::int64_t height,
               std::int64_t width)
        : device_(device), table_(table), kind_(kind),
          values_(std::int64_t{positive_int(height, "height")} * positive_int(width, "width")),
          half_complex_values_(height * (width / 2 + 1)), handle_(device, table, table.destroy, table.create) {
        const auto scope = device_.make_current();
        static constexpr int types[] = {type_r2c, type_c2r, type_c2c};
        std::size_t bytes = 0;
        call(table_, table_.set_auto_allocation, handle_.get(), 0);
        call(table_, table_.make_plan_2d, handle_.get(), static_cast<int>(height), static_cast<int>(width),
             types[static_cast<std::size_t>(kind)], &bytes);
        workspace_ = workspace(device, bytes);
        if (workspace_ != nullptr) call(table_, table_.set_work_area, handle_.get(), address(workspace_));
    }

    void execute(Stream& stream, const Buffer& input, const Buffer& output, FftDirection direction) override {
        const bool forward = direction == FftDirection::forward;
        const auto scope = device_.make_current();
        call(table_, table_.set_stream, handle_.get(), native_handle<Api>(stream));
        if (kind_ == FftKind::c2c) {
            call(table_, table_.c2c, handle_.get(), complex(input, "input", values_),
                 complex(output, "output", values_), forward ? fft_forward : fft_backward);
            return;
        }
        if (forward != (kind_ == FftKind::r2c))
            throw std::invalid_argument(forward ? "c2r supports the direction backward only"
                                                : "r2c supports the direction forward only");
        if (&input == &output)
            throw std::invalid_argument("r2c and c2r cannot work in place: the output must be another buffer");
        if (forward)
            call(table_, table_.r2c, handle_.get(), elements<float>(device_, input, "input", values_),
                 complex(output, "output", half_complex_values_));
        else
            call(table_, table_.c2r, handle_.get(), complex(input, "input", half_complex_values_),
                 elements<float>(device_, output, "output", values_));
    }

  private:
    void* complex(const Buffer& buffer, const char* what, std::int64_t count) const {
        return elements<float[2]>(device_, buffer, what, count);
    }

    GpuDevice<Api>& device_;
    const FftTable<Handle>& table_;
    FftKind kind_;
    std::int64_t values_, half_complex_values_;  // of the whole array; of the complex array of r2c and c2r
    std::unique_ptr<Buffer> workspace_;          // declared first, to be freed after the plan
    OwnedHandle<Api, Handle> handle_;
};

template <class Api, class Handle>
class GpuFft : public Fft {
  public:
    GpuFft(GpuDevice<Api>& device, const FftTable<Handle>& table) : device_(device), table_(table) {}

    std::string title() const override {
        int version = 0;
        call(table_, table_.version, &version);
        return table_.title_with_version(version);
    }

    std::unique_ptr<FftPlan> plan(FftKind kind, std::int64_t height, std::int64_t width) override {
        return std::make_unique<GpuFftPlan<Api, Handle>>(device_, table_, kind, height, width);
    }

  private:
    GpuDevice<Api>& device_;
    const FftTable<Handle>& table_;
};

}  // namespace firsttouch::math
