// hipBLAS, hipSPARSE and hipFFT of ROCm 6 and newer.
#include "device/device.hpp"
#include "math/tables.hpp"

namespace firsttouch::math {
namespace {

Library open_library(const char* title, const char* name, const std::vector<std::string>& sonames) {
    try {
        return {name, sonames};
    } catch (const Unavailable& missing) {
        throw Unavailable(std::string(title) + " is part of ROCm; " + missing.what());
    }
}

BlasTable open_hipblas() {
    BlasTable t(open_library("hipBLAS", "hipblas", {"libhipblas.so.3", "libhipblas.so.2", "libhipblas.so"}), "hipBLAS");
    t.no_transpose = 111;
    t.library.load_optional(t.error_text, "hipblasStatusToString");
    t.library.load(t.create, "hipblasCreate");
    t.library.load(t.destroy, "hipblasDestroy");
    t.library.load(t.set_stream, "hipblasSetStream");
    t.library.load_optional(t.set_workspace, "hipblasSetWorkspace");  // since ROCm 7
    t.library.load(t.set_pointer_mode, "hipblasSetPointerMode");
    t.library.load_optional(t.set_math_mode, "hipblasSetMathMode");
    t.library.load(t.sgemm, "hipblasSgemm");
    t.library.load(t.sdot, "hipblasSdot");
    return t;
}

SparseTable open_hipsparse() {
    SparseTable t(open_library("hipSPARSE", "hipsparse", {"libhipsparse.so.4", "libhipsparse.so.1", "libhipsparse.so"}),
                  "hipSPARSE");
    t.version_unit = 100000;
    load(t, "hipsparse");
    return t;
}

FftTable<void*> open_hipfft() {
    FftTable<void*> t(open_library("hipFFT", "hipfft", {"libhipfft.so.0", "libhipfft.so"}), "hipFFT");
    t.version_unit = 10000;
    load(t, "hipfft");
    return t;
}

}  // namespace

const BlasTable& hipblas() {
    static const BlasTable table = open_hipblas();
    return table;
}

const SparseTable& hipsparse() {
    static const SparseTable table = open_hipsparse();
    return table;
}

const FftTable<void*>& hipfft() {
    static const FftTable<void*> table = open_hipfft();
    return table;
}

}  // namespace firsttouch::math
