"""An application of your own: firsttouch app smooth --module docs/examples/smooth.py --size 64MiB"""

import numpy as np

from firsttouch.api import App, Cpu, Gpu, View, buffer, f32, in_pieces, uniform_f32


class Smooth(App):
    """Each value becomes the mean of itself and its two neighbours, `iterations` times. The ends do not change."""

    name = "smooth"
    source = "this example"
    pattern = "iterate on the GPU, read at the end"
    sizes = {"tiny": {"n": 1000, "iterations": 5}, "default": {"n": 2**20, "iterations": 10}}
    n: int
    iterations: int

    # The roles of the data. Where they are stored is up to the strategy.
    now = buffer(f32, "n", role="inout", starts_on="cpu", ends_on="cpu")
    then = buffer(f32, "n", role="inout")

    # Device code in the common dialect of CUDA, HIP and OpenCL. It could also be in a file smooth.c next to this one.
    kernel_text = """
/* One work-item per value. */
KERNEL smooth(GLOBAL const float* now, GLOBAL float* then, ulong n) {
    FOR_EACH(i, n) then[i] = i == 0 || i == n - 1 ? now[i] : (now[i - 1] + now[i] + now[i + 1]) / 3.0f;
}
"""

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.now, -1, 1)  # native, on all threads; element i depends only on the seed and i

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        for _ in gpu.iterations(self.iterations):
            # `now` is const, so it is read. All of `then` is overwritten, so its old contents are not needed.
            gpu.launch("smooth", self.now, self.then, self.n, over=self.n, writes=[self.then])
            gpu.swap(self.now, self.then)

    def check(self, view: View) -> str:
        # Every value is computed again in f64, in pieces, because a second copy would distort the memory use measured.
        actual, reach = view(self.now), self.iterations

        def largest_error(first: int, last: int) -> float:
            begin, end = max(0, first - reach), min(self.n, last + reach)
            x = uniform_f32(self.now.key, np.arange(begin, end), -1, 1).astype(np.float64)
            for _ in range(reach):
                x[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
            return float(np.max(np.abs(actual[first:last] - x[first - begin : last - begin])))

        error = np.max(in_pieces(largest_error, self.n, 1 << 16))
        # An iteration rounds at most 6 times by 2^-24 of a value below 1. Written so that NaN does not pass.
        return "" if error <= 6 * 2.0**-24 * self.iterations else f"a value is wrong by {error:.3g}"
