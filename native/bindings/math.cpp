// Bindings of the vendors' libraries for linear algebra and Fourier transforms. Work is queued on the lab's stream.
#include "math/math.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "bindings/bindings.hpp"
#include "bindings/handle.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace firsttouch {
namespace {

using Shared = std::shared_ptr<DeviceHandle>;

// A library, with its device to keep it alive.
template <class Library>
struct LibraryHandle {
    Shared owner;
    std::unique_ptr<Library> library;
    Stream& stream() const { return owner->lab.stream(); }
};
using BlasHandle = LibraryHandle<Blas>;
using SparseHandle = LibraryHandle<Sparse>;
using FftHandle = LibraryHandle<Fft>;

template <class Library>
std::shared_ptr<LibraryHandle<Library>> open_library(Shared device, std::unique_ptr<Library> (*open)(Device&)) {
    auto handle = std::make_shared<LibraryHandle<Library>>();
    {
        const nb::gil_scoped_release release;
        handle->library = open(*device->device);
    }
    handle->owner = std::move(device);
    return handle;
}

// A matrix, with its library and its buffers to keep them alive.
struct SparsePlanHandle {
    std::shared_ptr<SparseHandle> owner;
    nb::object row_pointers, column_indices, values;
    std::unique_ptr<SparsePlan> plan;

    void multiply(BufferHandle& x, BufferHandle& y) {
        for (const nb::object& buffer : {row_pointers, column_indices, values})
            nb::cast<BufferHandle&>(buffer).get();  // throws if it has been freed
        plan->multiply(owner->stream(), x.get(), y.get());
    }
};

struct FftPlanHandle {
    std::shared_ptr<FftHandle> owner;
    std::unique_ptr<FftPlan> plan;
};

std::unique_ptr<SparsePlanHandle> sparse_plan(std::shared_ptr<SparseHandle> sparse, nb::object row_pointers,
                                              nb::object column_indices, nb::object values, std::int64_t rows,
                                              std::int64_t columns, std::int64_t nonzeros) {
    const auto buffer = [](const nb::object& object) -> Buffer& { return nb::cast<BufferHandle&>(object).get(); };
    auto plan =
        sparse->library->plan(buffer(row_pointers), buffer(column_indices), buffer(values), rows, columns, nonzeros);
    return std::make_unique<SparsePlanHandle>(std::move(sparse), std::move(row_pointers), std::move(column_indices),
                                              std::move(values), std::move(plan));
}

FftKind kind_from(const std::string& name) {
    if (name == "r2c") return FftKind::r2c;
    if (name == "c2r") return FftKind::c2r;
    if (name == "c2c") return FftKind::c2c;
    throw std::invalid_argument("'" + name + "' is not a kind of transform; kinds are r2c, c2r and c2c");
}

FftDirection direction_from(const std::string& name) {
    if (name == "forward") return FftDirection::forward;
    if (name == "backward") return FftDirection::backward;
    throw std::invalid_argument("'" + name + "' is not a direction; directions are forward and backward");
}

}  // namespace

void bind_math(nb::module_& m) {
    nb::class_<BlasHandle>(m, "Blas", "Dense linear algebra of the vendor's library: f32, row-major matrices.")
        .def_prop_ro(
            "title", [](BlasHandle& b) { return b.library->title(); }, "Name and version.")
        .def(
            "gemm",
            [](BlasHandle& l, BufferHandle& a, BufferHandle& b, BufferHandle& c, std::int64_t m, std::int64_t n,
               std::int64_t k) { l.library->gemm(l.stream(), a.get(), b.get(), c.get(), m, n, k); },
            "a"_a, "b"_a, "c"_a, "m"_a, "n"_a, "k"_a, "Queues c (m x n) = a (m x k) b (k x n).")
        .def(
            "dot",
            [](BlasHandle& l, BufferHandle& x, BufferHandle& y, BufferHandle& result, std::int64_t result_index,
               std::int64_t n) { l.library->dot(l.stream(), x.get(), y.get(), result.get(), result_index, n); },
            "x"_a, "y"_a, "result"_a, "result_index"_a, "n"_a, "Queues result[result_index] = the sum of x[i] y[i].");
    nb::class_<SparsePlanHandle>(m, "SparsePlan", "A sparse matrix. It keeps its buffers alive.")
        .def("multiply", &SparsePlanHandle::multiply, "x"_a, "y"_a, "Queues y = A x.");
    nb::class_<SparseHandle>(m, "Sparse",
                             "Sparse linear algebra of the vendor's library: CSR with i32 indices and f32 values.")
        .def_prop_ro(
            "title", [](SparseHandle& s) { return s.library->title(); }, "Name and version.")
        .def("plan", &sparse_plan, "row_pointers"_a, "column_indices"_a, "values"_a, "rows"_a, "columns"_a,
             "nonzeros"_a,
             nb::sig("def plan(self, row_pointers: Buffer, column_indices: Buffer, values: Buffer, rows: int, "
                     "columns: int, nonzeros: int) -> SparsePlan"),
             "Returns a matrix in the given buffers.\n\n"
             "They must be filled before the first product, which analyses the pattern.");
    nb::class_<FftPlanHandle>(m, "FftPlan", "A transform of one size.")
        .def(
            "execute",
            [](FftPlanHandle& p, BufferHandle& input, BufferHandle& output, const std::string& direction) {
                p.plan->execute(p.owner->stream(), input.get(), output.get(), direction_from(direction));
            },
            "input"_a, "output"_a, "direction"_a,
            "Queues the transform, unscaled. direction: forward or backward. c2r may overwrite input.");
    nb::class_<FftHandle>(m, "Fft", "Fourier transforms of the vendor's library: two-dimensional, f32.")
        .def_prop_ro(
            "title", [](FftHandle& f) { return f.library->title(); }, "Name and version.")
        .def(
            "plan",
            [](std::shared_ptr<FftHandle> fft, const std::string& kind, std::int64_t height, std::int64_t width) {
                auto plan = fft->library->plan(kind_from(kind), height, width);
                return std::make_unique<FftPlanHandle>(std::move(fft), std::move(plan));
            },
            "kind"_a, "height"_a, "width"_a, "Returns a transform. kind: r2c, c2r or c2c.");
    m.def(
        "open_blas", [](Shared device) { return open_library(std::move(device), open_blas); }, "device"_a,
        "Opens the vendor's BLAS. Raises Unavailable with the reason if there is none.");
    m.def(
        "open_sparse", [](Shared device) { return open_library(std::move(device), open_sparse); }, "device"_a,
        "Opens the vendor's sparse library. Raises Unavailable with the reason if there is none.");
    m.def(
        "open_fft", [](Shared device) { return open_library(std::move(device), open_fft); }, "device"_a,
        "Opens the vendor's FFT library. Raises Unavailable with the reason if there is none.");
}

}  // namespace firsttouch
