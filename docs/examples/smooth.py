"""An application of your own: firsttouch app smooth --module docs/examples/smooth.py --size 64MiB"""

import numpy as np

from firsttouch.api import App, Cpu, Gpu, View, buffer, f32, uniform_f32


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
        # Parts of the input are generated again, because a second copy would distort the memory use measured.
        reach = self.iterations
        for middle in (0, self.n // 3, self.n - 1):
            first, last = max(0, middle - reach), min(self.n, middle + reach + 1)
            x = uniform_f32(self.now.key, np.arange(first, last), -1, 1).astype(np.float64)
            for _ in range(reach):
                x[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
            error = abs(view(self.now)[middle] - x[middle - first])
            if error > 1e-5:
                return f"value {middle} is wrong by {error:.3g}"
        return ""
