"""Kernels, pools, streams and copies of CuPy."""

import cupy
import numpy

random = numpy.random.default_rng(4)
scale = cupy.ElementwiseKernel("float32 x, float32 f", "float32 y", "y = f * x + 1", "scale_and_shift")
total = 0.0
for number in range(20):
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.asarray(random.standard_normal(1 << 18).astype(numpy.float32))
        y = scale(x, numpy.float32(number))
        total += float(cupy.asnumpy(y).astype(numpy.float64).sum())
        stream.synchronize()
    cupy.get_default_memory_pool().free_all_blocks()
print(f"{total:.12g}", float((cupy.eye(64) @ cupy.arange(64.0)).sum()))
