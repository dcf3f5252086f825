"""An application that fails in a chosen way, and logs the points that began."""

import os
import time
from pathlib import Path

from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, u32


class Misbehaving(App):
    """Adds 1 to every value, and fails as the option `what` says."""

    name = "misbehaving"
    source = "our tests"
    pattern = "none"
    sizes = {"tiny": {"n": 100, "which": 0}, "default": {"n": 4096, "which": 1}}
    options = {"what": ("fine", "crash", "spin", "wrong", "unwritten", "raise", "one-sided")}
    n: int
    which: int
    what: str

    data = buffer(u32, "n", role="inout", starts_on="cpu", ends_on="cpu")
    other = buffer(u32, "n", role="inout")
    hidden = buffer(u32, "n", role="scratch")

    kernel_text = """
KERNEL add_one(GLOBAL uint* data, ulong n) { FOR_EACH(i, n) data[i] += 1; }
KERNEL crash(GLOBAL uint* data, ulong place) { data[place] = 1; }
KERNEL spin(GLOBAL uint* data, ulong n) { while (((volatile GLOBAL uint*)data)[0] != n) {} }
KERNEL take(GLOBAL uint* data, GLOBAL const uint* other, ulong n) { FOR_EACH(i, n) data[i] += other[i]; }
"""

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        if self.which and (log := os.environ.get("MISBEHAVING_LOG")):
            with Path(log).open("a") as file:
                file.write(f"{self.which}\n")
            time.sleep(float(os.environ.get("MISBEHAVING_PAUSE", "0.1")))  # so that a signal arrives during the point
        cpu.fill(self.data, 7)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        gpu.launch("add_one", self.data, self.n, over=self.n)
        if self.what == "crash":
            gpu.launch("crash", self.data, 1 << 44, over=1)
        elif self.what == "spin":
            gpu.launch("spin", self.data, 1 << 31, over=1)
        elif self.what == "wrong":
            gpu.launch("add_one", self.data, self.n // 2, over=self.n)
        elif self.what == "unwritten":
            gpu.launch("take", self.data, self.other, self.n, over=self.n)
        elif self.what == "raise":
            raise RuntimeError("a bug of\nthe module")
        elif self.what == "one-sided":
            cpu.reads(self.hidden)

    def check(self, view: View) -> str:
        wrong = int((view(self.data) != 8).sum())
        return f"{wrong} of {self.n} values are not 8" if wrong else ""
