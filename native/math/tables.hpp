// The libraries as tables of function pointers. AMD's libraries have the same interface as NVIDIA's, so one table
// serves both vendors. Handles and descriptors are pointers to the vendor's types; only a cuFFT plan is an integer.
// tests/native/test_vendor_types.cpp and test_hip_types.cpp compare the tables with the vendors' headers where those
// are installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/library.hpp"

namespace firsttouch::math {

// Common to all tables: the library, its title, and the messages of failed calls. The vendors' names of functions
// differ in the prefix, which is also the library's name: "cusparse" or "hipsparse".
struct Table {
    // `source` completes "cuBLAS is part of" where the library is missing. Throws Unavailable.
    Table(const std::string& title_of_library, const std::string& prefix_of_functions,
          const std::vector<std::string>& sonames, const std::string& source, int unit);

    std::string title;  // "cuBLAS"
    std::string prefix;
    Library library;
    int version_unit;  // a version is major * unit + minor * 100 + patch; 0: the title has no version
    const char* (*error_text)(int) = nullptr;  // describes a result code

    // Throws VendorError with the library's message and the call.
    void check(int result, const std::string& call) const;
    std::string title_with_version(int version) const;  // "cuBLAS 13.1.0"

  protected:
    Symbol function(const std::string& name) { return library.function(prefix + name); }
    Symbol optional_function(const std::string& name) { return library.optional_function(prefix + name); }
};

struct BlasTable : Table {
    BlasTable(const Table& opened, std::string suffix_of_functions, int no_transpose_value)
        : Table(opened), suffix(std::move(suffix_of_functions)), no_transpose(no_transpose_value) {
        error_text = optional_function("GetStatusString");                            // cuBLAS
        if (error_text == nullptr) error_text = optional_function("StatusToString");  // hipBLAS
    }

    std::string suffix;  // of those functions that have versions: "_v2" or ""
    int no_transpose;    // the vendor's constant for a matrix that is not transposed

    ApiCall<void**> create = function("Create" + suffix);
    ApiCall<void*> destroy = function("Destroy" + suffix);
    ApiCall<void*, int*> version = optional_function("GetVersion" + suffix);  // not in hipBLAS
    ApiCall<void*, void*> set_stream = function("SetStream" + suffix);
    // nullptr, before ROCm 7: the library allocates its workspace itself.
    ApiCall<void*, void*, std::size_t> set_workspace = optional_function("SetWorkspace" + suffix);
    ApiCall<void*, int> set_pointer_mode = function("SetPointerMode" + suffix);
    ApiCall<void*, int> set_math_mode = optional_function("SetMathMode");
    ApiCall<void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*, float*,
            int>
        sgemm = function("Sgemm" + suffix);
    ApiCall<void*, int, const float*, int, const float*, int, float*> sdot = function("Sdot" + suffix);
};
inline constexpr int scalars_on_host = 0, scalars_on_device = 1;  // pointer modes
inline constexpr int default_math = 0;  // computes in at least the precision of the operands: no TF32

struct SparseTable : Table {
    explicit SparseTable(const Table& opened) : Table(opened) { error_text = optional_function("GetErrorString"); }

    ApiCall<void**> create = function("Create");
    ApiCall<void*> destroy = function("Destroy");
    ApiCall<void*, int*> version = function("GetVersion");
    ApiCall<void*, void*> set_stream = function("SetStream");
    ApiCall<void**, std::int64_t, std::int64_t, std::int64_t, void*, void*, void*, int, int, int, int> create_csr =
        function("CreateCsr");
    ApiCall<void*> destroy_matrix = function("DestroySpMat");
    ApiCall<void**, std::int64_t, void*, int> create_vector = function("CreateDnVec");
    ApiCall<void*> destroy_vector = function("DestroyDnVec");
    ApiCall<void*, void*> set_vector = function("DnVecSetValues");
    ApiCall<void*, int, const void*, void*, void*, const void*, void*, int, int, std::size_t*> spmv_bytes =
        function("SpMV_bufferSize");
    ApiCall<void*, int, const void*, void*, void*, const void*, void*, int, int, void*> spmv_analyse =
        optional_function("SpMV_preprocess");  // since CUDA 12.4
    ApiCall<void*, int, const void*, void*, void*, const void*, void*, int, int, void*> spmv = function("SpMV");
};
// These constants are the same for both vendors.
inline constexpr int not_transposed = 0, index_i32 = 2, from_zero = 0, f32 = 0, default_algorithm = 0;

// Describes a result code of either vendor's FFT library, or returns nullptr if the code is unknown.
const char* fft_error_text(int result);

template <class PlanHandle>
struct FftTable : Table {
    explicit FftTable(const Table& opened) : Table(opened) { error_text = fft_error_text; }
    using Handle = PlanHandle;

    ApiCall<int*> version = function("GetVersion");
    ApiCall<Handle*> create = function("Create");
    ApiCall<Handle> destroy = function("Destroy");
    ApiCall<Handle, void*> set_stream = function("SetStream");
    ApiCall<Handle, int> set_auto_allocation = function("SetAutoAllocation");
    ApiCall<Handle, int, int, int, std::size_t*> make_plan_2d = function("MakePlan2d");
    ApiCall<Handle, void*> set_work_area = function("SetWorkArea");
    ApiCall<Handle, float*, void*> r2c = function("ExecR2C");
    ApiCall<Handle, void*, float*> c2r = function("ExecC2R");
    ApiCall<Handle, void*, void*, int> c2c = function("ExecC2C");
};
// These constants are the same for both vendors.
inline constexpr int type_r2c = 0x2a, type_c2r = 0x2c, type_c2c = 0x29, fft_forward = -1, fft_backward = 1;

// The libraries are opened at the first call. These throw Unavailable if that fails.
const BlasTable& cublas();
const SparseTable& cusparse();
const FftTable<int>& cufft();
const BlasTable& hipblas();
const SparseTable& hipsparse();
const FftTable<void*>& hipfft();

}  // namespace firsttouch::math
