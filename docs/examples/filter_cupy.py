"""Smooths images with CuPy, one after another: run it under `firsttouch profile --trace`.

Each image is copied from pageable memory, and its brightest value is read before the next one begins. Needs a GPU,
CuPy and numpy.
"""

import sys

import cupy
import numpy

IMAGES, SIDE = 40, 2048


def smooth(image: cupy.ndarray) -> cupy.ndarray:
    for axis in (0, 1):
        image = (cupy.roll(image, 1, axis) + image + cupy.roll(image, -1, axis)) / 3
    return image


def run(images: int) -> float:
    random, kernel = numpy.random.default_rng(1), numpy.hanning(SIDE).astype(numpy.float32)
    brightest = 0.0
    for _ in range(images):
        image = random.random((SIDE, SIDE), dtype=numpy.float32)
        smoothed = smooth(cupy.asarray(image) * cupy.asarray(kernel))  # the same kernel each time
        brightest = max(brightest, float(smoothed.max()))
        image = cupy.asnumpy(smoothed)
    return brightest


if __name__ == "__main__":
    print(f"brightest {run(int(sys.argv[1]) if len(sys.argv) > 1 else IMAGES):.6f}")
