"""Kernels of HIP programs that clang compiles for an AMD GPU run on the processor as their source says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import hip_kernels
import pytest
from standin import HERE, ROOT
from tests.profile import injected

PROGRAM = r"""
typedef unsigned long size_t;
extern "C" int printf(const char*, ...);
extern "C" int hipMalloc(void**, size_t);
extern "C" int hipMemcpy(void*, const void*, size_t, int);
extern "C" int hipMemcpyToSymbol(const void*, const void*, size_t, size_t, int);
struct dim3 { unsigned x, y, z; };
extern "C" int __hipPushCallConfiguration(dim3, dim3, size_t = 0, void* = nullptr);
extern "C" int __hipPopCallConfiguration(dim3*, dim3*, size_t*, void**);
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, size_t, void*);
#define GLOBAL __attribute__((global))
#define DEVICE __attribute__((device))
struct Options { int factor; long unused[5]; };

__attribute__((constant)) int offset;
DEVICE int doubled(int x) { return 2 * x; }
GLOBAL void mirrored(int* out, const int* in, Options options) {
    __attribute__((shared)) int kept[96];
    const int i = __builtin_amdgcn_workitem_id_x();
    kept[i] = in[i];
    __builtin_amdgcn_s_barrier();
    out[i] = options.factor * doubled(kept[95 - i]) + offset;
}
GLOBAL void exchanged(int* out) {
    const int i = __builtin_amdgcn_workitem_id_x();
    if (i % 2 == 0) out[i] = __builtin_amdgcn_ds_bpermute(4 * ((i + 2) % 64), i);
}

int main() {
    int in[96], out[96], right = 1, *a, *b;
    const int five = 5;
    for (int i = 0; i < 96; ++i) in[i] = i;
    hipMalloc((void**)&a, sizeof in);
    hipMalloc((void**)&b, sizeof in);
    hipMemcpy(a, in, sizeof in, 1);
    hipMemcpyToSymbol(&offset, &five, sizeof five, 0, 1);
    mirrored<<<dim3{1, 1, 1}, dim3{96, 1, 1}>>>(b, a, {3});
    hipMemcpy(out, b, sizeof out, 2);
    for (int i = 0; i < 96; ++i) right &= out[i] == 6 * (95 - i) + 5;
    exchanged<<<dim3{1, 1, 1}, dim3{64, 1, 1}>>>(b);
    hipMemcpy(out, b, sizeof out, 2);
    for (int i = 0; i < 64; i += 2) right &= out[i] == (i + 2) % 64;
    printf(right ? "right\n" : "wrong\n");
}
"""


def test_work_items_wait_for_each_other_and_exchange_values(tmp_path: Path) -> None:
    clang = shutil.which("clang-19")
    source, library = tmp_path / "program.hip", tmp_path / "kernels.so"
    source.write_text(PROGRAM)
    options = ["-nogpuinc", "-nogpulib", "--offload-arch=gfx942"]
    program = [clang or "", "-x", "hip", *options, "-c", source, "-o", tmp_path / "program.o"]
    if clang is None or subprocess.run(program, capture_output=True, check=False).returncode != 0:
        pytest.skip("no clang 19 here that compiles for AMD GPUs")
    hip_kernels.build(library, [clang, *options], [source])
    runtime = tmp_path / "libamdhip64.so"
    own = ["-std=c++20", "-fvisibility=hidden", f"-I{ROOT / 'native'}", "-shared", "-fPIC"]
    versions = f"-Wl,--version-script={HERE / 'hip_runtime.map'}"
    injected.compiled(str(HERE / "hip_runtime.cpp"), runtime, *own, versions, language="c++")
    linked = ["g++", tmp_path / "program.o", "-o", tmp_path / "program", runtime, f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(linked, check=True)
    done = subprocess.run([tmp_path / "program"], env={"STANDIN_KERNELS": str(library)}, capture_output=True, text=True)
    assert done.stdout == "right\n"
