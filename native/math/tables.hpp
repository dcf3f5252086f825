// The libraries as tables of function pointers. AMD's libraries have the same interface as NVIDIA's, so one table
// serves both vendors. The function names and the constants that differ are in cuda.cpp and hip.cpp. Handles and
// descriptors are pointers to the vendor's types; only a cuFFT plan is an integer. tests/native/test_vendor_types.cpp
// and test_hip_types.cpp compare the tables with the vendors' headers where those are installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/library.hpp"

namespace firsttouch::math {

// Common to all tables: the library, its title, and the messages of failed calls.
struct Table {
    Table(Library opened, std::string title_of_library)
        : library(std::move(opened)), title(std::move(title_of_library)) {}

    Library library;
    std::string title;     // "cuBLAS"
    int version_unit = 0;  // a version is major * unit + minor * 100 + patch; 0: the title has no version
    const char* (*error_text)(int) = nullptr;  // describes a result code

    // Throws VendorError with the library's message and the call.
    void check(int result, const std::string& call) const;
    std::string title_with_version(int version) const;  // "cuBLAS 13.1.0"
};

struct BlasTable : Table {
    using Table::Table;
    int no_transpose = 0;  // the vendor's constant for a matrix that is not transposed

    int (*create)(void**);
    int (*destroy)(void*);
    int (*version)(void*, int*) = nullptr;
    int (*set_stream)(void*, void*);
    int (*set_workspace)(void*, void*, std::size_t) = nullptr;  // nullptr: the library allocates its workspace itself
    int (*set_pointer_mode)(void*, int);
    int (*set_math_mode)(void*, int) = nullptr;
    int (*sgemm)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                 float*, int);
    int (*sdot)(void*, int, const float*, int, const float*, int, float*);
};
inline constexpr int scalars_on_host = 0, scalars_on_device = 1;  // pointer modes
inline constexpr int default_math = 0;  // computes in at least the precision of the operands: no TF32

struct SparseTable : Table {
    using Table::Table;

    int (*create)(void**);
    int (*destroy)(void*);
    int (*version)(void*, int*);
    int (*set_stream)(void*, void*);
    int (*create_csr)(void**, std::int64_t, std::int64_t, std::int64_t, void*, void*, void*, int, int, int, int);
    int (*destroy_matrix)(void*);
    int (*create_vector)(void**, std::int64_t, void*, int);
    int (*destroy_vector)(void*);
    int (*set_vector)(void*, void*);
    int (*spmv_bytes)(void*, int, const void*, void*, void*, const void*, void*, int, int, std::size_t*);
    int (*spmv_analyse)(void*, int, const void*, void*, void*, const void*, void*, int, int, void*);  // may be nullptr
    int (*spmv)(void*, int, const void*, void*, void*, const void*, void*, int, int, void*);
};
// These constants are the same for both vendors.
inline constexpr int not_transposed = 0, index_i32 = 2, from_zero = 0, f32 = 0, default_algorithm = 0;

template <class PlanHandle>
struct FftTable : Table {
    using Table::Table;
    using Handle = PlanHandle;

    int (*version)(int*);
    int (*create)(Handle*);
    int (*destroy)(Handle);
    int (*set_stream)(Handle, void*);
    int (*set_auto_allocation)(Handle, int);
    int (*make_plan_2d)(Handle, int, int, int, std::size_t*);
    int (*set_work_area)(Handle, void*);
    int (*r2c)(Handle, float*, void*);
    int (*c2r)(Handle, void*, float*);
    int (*c2c)(Handle, void*, void*, int);
};
// These constants are the same for both vendors.
inline constexpr int type_r2c = 0x2a, type_c2r = 0x2c, type_c2c = 0x29, fft_forward = -1, fft_backward = 1;
// Describes a result code of either vendor's FFT library, or returns nullptr if the code is unknown.
const char* fft_error_text(int result);

// Loads the functions of a table. The vendors' names differ only in the prefix: "cusparse" or "hipsparse".
void load(SparseTable& table, const std::string& prefix);
template <class Handle>
void load(FftTable<Handle>& table, const std::string& prefix) {
    table.error_text = fft_error_text;
    table.library.load(table.version, prefix + "GetVersion");
    table.library.load(table.create, prefix + "Create");
    table.library.load(table.destroy, prefix + "Destroy");
    table.library.load(table.set_stream, prefix + "SetStream");
    table.library.load(table.set_auto_allocation, prefix + "SetAutoAllocation");
    table.library.load(table.make_plan_2d, prefix + "MakePlan2d");
    table.library.load(table.set_work_area, prefix + "SetWorkArea");
    table.library.load(table.r2c, prefix + "ExecR2C");
    table.library.load(table.c2r, prefix + "ExecC2R");
    table.library.load(table.c2c, prefix + "ExecC2C");
}

// The libraries are opened at the first call. These throw Unavailable if that fails.
const BlasTable& cublas();
const SparseTable& cusparse();
const FftTable<int>& cufft();
const BlasTable& hipblas();
const SparseTable& hipsparse();
const FftTable<void*>& hipfft();

}  // namespace firsttouch::math
