// cuBLAS, cuSPARSE and cuFFT of CUDA 12 and newer.
#include "device/device.hpp"
#include "math/tables.hpp"

namespace firsttouch::math {
namespace {

Library open_library(const char* title, const char* name, const std::vector<std::string>& sonames) {
    try {
        return {name, sonames};
    } catch (const Unavailable& missing) {
        throw Unavailable(std::string(title) + " is part of the CUDA toolkit; pip install nvidia-" + name +
                          " installs it too; " + missing.what());
    }
}

BlasTable open_cublas() {
    BlasTable t(open_library("cuBLAS", "cublas", {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}), "cuBLAS");
    t.version_unit = 10000;
    t.no_transpose = 0;
    t.library.load(t.error_text, "cublasGetStatusString");
    t.library.load(t.create, "cublasCreate_v2");
    t.library.load(t.destroy, "cublasDestroy_v2");
    t.library.load(t.version, "cublasGetVersion_v2");
    t.library.load(t.set_stream, "cublasSetStream_v2");
    t.library.load(t.set_workspace, "cublasSetWorkspace_v2");
    t.library.load(t.set_pointer_mode, "cublasSetPointerMode_v2");
    t.library.load(t.set_math_mode, "cublasSetMathMode");
    t.library.load(t.sgemm, "cublasSgemm_v2");
    t.library.load(t.sdot, "cublasSdot_v2");
    return t;
}

SparseTable open_cusparse() {
    SparseTable t(open_library("cuSPARSE", "cusparse", {"libcusparse.so.12", "libcusparse.so"}), "cuSPARSE");
    t.version_unit = 1000;
    load(t, "cusparse");
    return t;
}

FftTable<int> open_cufft() {
    FftTable<int> t(open_library("cuFFT", "cufft", {"libcufft.so.12", "libcufft.so.11", "libcufft.so"}), "cuFFT");
    t.version_unit = 1000;
    load(t, "cufft");
    return t;
}

}  // namespace

const BlasTable& cublas() {
    static const BlasTable table = open_cublas();
    return table;
}

const SparseTable& cusparse() {
    static const SparseTable table = open_cusparse();
    return table;
}

const FftTable<int>& cufft() {
    static const FftTable<int> table = open_cufft();
    return table;
}

}  // namespace firsttouch::math
