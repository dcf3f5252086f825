// hipBLAS, hipSPARSE and hipFFT on the processor, for memory of hip_on_host.cpp. They test which functions of such
// libraries the core calls, in which order, and with which layouts. They prove nothing about AMD's libraries. Each call
// does its work before it returns; a call out of order or with wrong numbers fails.
#include <cmath>
#include <complex>
#include <type_traits>
#include <vector>

#include "math/tables.hpp"

using namespace firsttouch::math;

// Declarations with the types of the tables, so that a definition with another signature does not compile.
#define DEFINED(Table, member, function) extern "C" std::remove_pointer_t<decltype(Table::member)> function
DEFINED(BlasTable, error_text, hipblasStatusToString);
DEFINED(BlasTable, create, hipblasCreate);
DEFINED(BlasTable, destroy, hipblasDestroy);
DEFINED(BlasTable, set_stream, hipblasSetStream);
DEFINED(BlasTable, set_workspace, hipblasSetWorkspace);
DEFINED(BlasTable, set_pointer_mode, hipblasSetPointerMode);
DEFINED(BlasTable, sgemm, hipblasSgemm);
DEFINED(BlasTable, sdot, hipblasSdot);
DEFINED(SparseTable, create, hipsparseCreate);
DEFINED(SparseTable, destroy, hipsparseDestroy);
DEFINED(SparseTable, version, hipsparseGetVersion);
DEFINED(SparseTable, set_stream, hipsparseSetStream);
DEFINED(SparseTable, create_csr, hipsparseCreateCsr);
DEFINED(SparseTable, destroy_matrix, hipsparseDestroySpMat);
DEFINED(SparseTable, create_vector, hipsparseCreateDnVec);
DEFINED(SparseTable, destroy_vector, hipsparseDestroyDnVec);
DEFINED(SparseTable, set_vector, hipsparseDnVecSetValues);
DEFINED(SparseTable, spmv_bytes, hipsparseSpMV_bufferSize);
DEFINED(SparseTable, spmv_analyse, hipsparseSpMV_preprocess);
DEFINED(SparseTable, spmv, hipsparseSpMV);
DEFINED(FftTable<void*>, version, hipfftGetVersion);
DEFINED(FftTable<void*>, create, hipfftCreate);
DEFINED(FftTable<void*>, destroy, hipfftDestroy);
DEFINED(FftTable<void*>, set_stream, hipfftSetStream);
DEFINED(FftTable<void*>, set_auto_allocation, hipfftSetAutoAllocation);
DEFINED(FftTable<void*>, make_plan_2d, hipfftMakePlan2d);
DEFINED(FftTable<void*>, set_work_area, hipfftSetWorkArea);
DEFINED(FftTable<void*>, r2c, hipfftExecR2C);
DEFINED(FftTable<void*>, c2r, hipfftExecC2R);
DEFINED(FftTable<void*>, c2c, hipfftExecC2C);

namespace {

constexpr int success = 0, invalid_value = 3;
constexpr std::size_t spmv_workspace = 4096;

struct BlasState {
    void* stream = nullptr;
    void* workspace = nullptr;
    int mode = scalars_on_host;
};
BlasState& blas(void* handle) { return *static_cast<BlasState*>(handle); }

struct SparseState {
    void* stream = nullptr;
};
struct Matrix {
    std::int64_t rows, columns, nonzeros;
    const std::int32_t *row_pointers, *column_indices;
    const float* values;
    const void* analysed_with = nullptr;
};
struct Vector {
    std::int64_t size;
    float* values;
};

using Complex = std::complex<double>;
struct Plan {
    bool automatic = true;
    int height = 0, width = 0, type = 0;
    void *stream = nullptr, *work = nullptr;
    bool ready(int transform) const { return type == transform && stream != nullptr && work != nullptr; }
};
Plan& plan(void* handle) { return *static_cast<Plan*>(handle); }

std::vector<Complex> transformed(const Plan& p, const std::vector<Complex>& in, int sign) {
    const int h = p.height, w = p.width;
    const double turn = sign * 2 * M_PI;
    std::vector<Complex> half(in.size()), out(in.size());
    for (int y = 0; y < h; ++y)
        for (int u = 0; u < w; ++u)
            for (int x = 0; x < w; ++x) half[y * w + u] += in[y * w + x] * std::polar(1.0, turn * (u * x % w) / w);
    for (int v = 0; v < h; ++v)
        for (int u = 0; u < w; ++u)
            for (int y = 0; y < h; ++y) out[v * w + u] += half[y * w + u] * std::polar(1.0, turn * (v * y % h) / h);
    return out;
}

}  // namespace

const char* hipblasStatusToString(int status) { return status == invalid_value ? "invalid value" : "other"; }
int hipblasCreate(void** handle) {
    *handle = new BlasState;
    return success;
}
int hipblasDestroy(void* handle) {
    delete &blas(handle);
    return success;
}
int hipblasSetStream(void* handle, void* stream) {
    blas(handle) = {.stream = stream, .mode = blas(handle).mode};  // without a workspace, as in cuBLAS
    return success;
}
int hipblasSetWorkspace(void* handle, void* memory, std::size_t bytes) {
    static_cast<char*>(memory)[bytes - 1] = 1;
    blas(handle).workspace = memory;
    return success;
}
int hipblasSetPointerMode(void* handle, int mode) {
    blas(handle).mode = mode;
    return success;
}
int hipblasSgemm(void* handle, int of_a, int of_b, int m, int n, int k, const float* alpha, const float* a, int lda,
                 const float* b, int ldb, const float* beta, float* c, int ldc) {
    const BlasState& state = blas(handle);
    if (of_a != 111 || of_b != 111 || lda < m || ldb < k || ldc < m || state.mode != scalars_on_host ||
        state.stream == nullptr || state.workspace == nullptr)
        return invalid_value;
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
            float sum = 0;
            for (int l = 0; l < k; ++l) sum += a[i + l * lda] * b[l + j * ldb];
            c[i + j * ldc] = *alpha * sum + (*beta == 0 ? 0 : *beta * c[i + j * ldc]);
        }
    return success;
}
int hipblasSdot(void* handle, int n, const float* x, int, const float* y, int, float* result) {
    if (blas(handle).mode != scalars_on_device || blas(handle).stream == nullptr) return invalid_value;
    *result = 0;
    for (int i = 0; i < n; ++i) *result += x[i] * y[i];
    return success;
}

int hipsparseCreate(void** handle) {
    *handle = new SparseState;
    return success;
}
int hipsparseDestroy(void* handle) {
    delete static_cast<SparseState*>(handle);
    return success;
}
int hipsparseGetVersion(void*, int* version) {
    *version = 400102;
    return success;
}
int hipsparseSetStream(void* handle, void* stream) {
    static_cast<SparseState*>(handle)->stream = stream;
    return success;
}
int hipsparseCreateCsr(void** matrix, std::int64_t rows, std::int64_t columns, std::int64_t nonzeros, void* pointers,
                       void* indices, void* values, int pointer_type, int index_type, int base, int type) {
    if (pointer_type != index_i32 || index_type != index_i32 || base != from_zero || type != f32) return invalid_value;
    *matrix = new Matrix{rows,
                         columns,
                         nonzeros,
                         static_cast<std::int32_t*>(pointers),
                         static_cast<std::int32_t*>(indices),
                         static_cast<float*>(values)};
    return success;
}
int hipsparseDestroySpMat(void* matrix) {
    delete static_cast<Matrix*>(matrix);
    return success;
}
int hipsparseCreateDnVec(void** vector, std::int64_t size, void* values, int type) {
    if (values == nullptr || type != f32) return invalid_value;
    *vector = new Vector{size, static_cast<float*>(values)};
    return success;
}
int hipsparseDestroyDnVec(void* vector) {
    delete static_cast<Vector*>(vector);
    return success;
}
int hipsparseDnVecSetValues(void* vector, void* values) {
    static_cast<Vector*>(vector)->values = static_cast<float*>(values);
    return success;
}
int hipsparseSpMV_bufferSize(void*, int operation, const void*, void*, void*, const void*, void*, int, int,
                             std::size_t* bytes) {
    *bytes = spmv_workspace;
    return operation == not_transposed ? success : invalid_value;
}
int hipsparseSpMV_preprocess(void* handle, int, const void*, void* matrix, void*, const void*, void*, int, int,
                             void* workspace) {
    auto& m = *static_cast<Matrix*>(matrix);
    if (m.analysed_with != nullptr || m.row_pointers[m.rows] != m.nonzeros) return invalid_value;
    if (static_cast<SparseState*>(handle)->stream == nullptr) return invalid_value;
    static_cast<char*>(workspace)[spmv_workspace - 1] = 1;
    m.analysed_with = workspace;
    return success;
}
int hipsparseSpMV(void*, int, const void* alpha, void* matrix, void* x, const void* beta, void* y, int type, int,
                  void* workspace) {
    const auto& m = *static_cast<Matrix*>(matrix);
    const auto &in = *static_cast<Vector*>(x), &out = *static_cast<Vector*>(y);
    if (m.analysed_with != workspace || in.size != m.columns || out.size != m.rows || type != f32) return invalid_value;
    if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) return invalid_value;
    for (std::int64_t row = 0; row < m.rows; ++row) {
        out.values[row] = 0;
        for (std::int32_t i = m.row_pointers[row]; i < m.row_pointers[row + 1]; ++i)
            out.values[row] += m.values[i] * in.values[m.column_indices[i]];
    }
    return success;
}

int hipfftGetVersion(int* version) {
    *version = 10036;
    return success;
}
int hipfftCreate(void** handle) {
    *handle = new Plan;
    return success;
}
int hipfftDestroy(void* handle) {
    delete &plan(handle);
    return success;
}
int hipfftSetStream(void* handle, void* stream) {
    plan(handle).stream = stream;
    return success;
}
int hipfftSetAutoAllocation(void* handle, int automatic) {
    plan(handle).automatic = automatic != 0;
    return success;
}
int hipfftMakePlan2d(void* handle, int height, int width, int type, std::size_t* bytes) {
    Plan& p = plan(handle);
    if (p.automatic) return invalid_value;
    p.height = height;
    p.width = width;
    p.type = type;
    *bytes = 8 * static_cast<std::size_t>(height) * width;
    return success;
}
int hipfftSetWorkArea(void* handle, void* work) {
    plan(handle).work = work;
    return success;
}
int hipfftExecR2C(void* handle, float* in, void* out) {
    const Plan& p = plan(handle);
    if (!p.ready(type_r2c)) return 5;
    const auto result = transformed(p, std::vector<Complex>(in, in + p.height * p.width), -1);
    const int half = p.width / 2 + 1;
    for (int y = 0; y < p.height; ++y)
        for (int x = 0; x < half; ++x) static_cast<std::complex<float>*>(out)[y * half + x] = result[y * p.width + x];
    return success;
}
int hipfftExecC2R(void* handle, void* in, float* out) {
    const Plan& p = plan(handle);
    if (!p.ready(type_c2r)) return 5;
    const int half = p.width / 2 + 1;
    const auto* input = static_cast<std::complex<float>*>(in);
    std::vector<Complex> all(p.height * p.width);
    for (int y = 0; y < p.height; ++y)
        for (int x = 0; x < p.width; ++x)
            all[y * p.width + x] =
                x < half ? input[y * half + x] : std::conj(input[(p.height - y) % p.height * half + p.width - x]);
    const auto result = transformed(p, all, 1);
    for (std::size_t i = 0; i < result.size(); ++i) out[i] = static_cast<float>(result[i].real());
    return success;
}
int hipfftExecC2C(void* handle, void* in, void* out, int direction) {
    const Plan& p = plan(handle);
    if (!p.ready(type_c2c) || std::abs(direction) != 1) return 5;
    const auto* input = static_cast<std::complex<float>*>(in);
    const auto result = transformed(p, std::vector<Complex>(input, input + p.height * p.width), direction);
    for (std::size_t i = 0; i < result.size(); ++i) static_cast<std::complex<float>*>(out)[i] = result[i];
    return success;
}
