"""black_scholes: prices of European options."""

from __future__ import annotations

import math

import numpy as np

from firsttouch.apps import um_apps
from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, f32, in_pieces
from firsttouch.harness.random import F64, uniform_f32

RATE, VOLATILITY = 0.02, 0.30
SPOT, STRIKE, YEARS = (5.0, 30.0), (1.0, 100.0), (0.25, 10.0)
PIECE = 1 << 17  # options per step of the check: with fewer, many threads wait for the interpreter's lock
NEAR_ONE = 8 * 2.0**-24  # relative error where 1 - tail is used: of it, its products, and the fast exponential in later
SUBNORMAL = 1e-35  # absolute error where f32 underflows


class BlackScholes(App):
    """Call and put prices of n options in closed form, repeated in every iteration."""

    name = "black_scholes"
    source = "um-apps (Chien et al., MCHPC 2019); the check is in f64"
    pattern = "read-once stream, initialised by the CPU"
    sizes = {
        "tiny": {"n": 50_003, "iterations": 3},
        "default": {"n": 128_000_000, "iterations": 512},
        "bytes": {"iterations": 64},
    }
    tiled = ("spot", "strike", "years", "call", "put")
    n: int
    iterations: int

    # The original's advice: read-mostly on the inputs, and nothing else.
    spot = buffer(f32, "n", role="input", starts_on="cpu", advice=("read-mostly",))
    strike = buffer(f32, "n", role="input", starts_on="cpu", advice=("read-mostly",))
    years = buffer(f32, "n", role="input", starts_on="cpu", advice=("read-mostly",))
    call = buffer(f32, "n", role="output", ends_on="cpu", advice=())
    put = buffer(f32, "n", role="output", ends_on="cpu", advice=())
    paper = um_apps.BLACK_SCHOLES

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.spot, *SPOT)
        cpu.uniform(self.strike, *STRIKE)
        cpu.uniform(self.years, *YEARS)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        inputs, outputs = (self.spot, self.strike, self.years), (self.call, self.put)
        for _ in gpu.iterations(self.iterations):
            for tile in gpu.tiles(*self.tiled_arrays()):
                gpu.launch(
                    *("black_scholes", *inputs, *outputs, tile.offset, tile.count),
                    over=max(1, tile.count // 4),
                    threads=128,  # blocks of 128: 5 % faster on an H200 than a grid-stride loop
                    reads=[tile.of(array) for array in inputs],
                    writes=[tile.of(array) for array in outputs],
                )

    def check(self, view: View) -> str:
        """Computes all prices in f64 from regenerated inputs."""
        call, put = view(self.call), view(self.put)

        def wrong(first: int, last: int) -> int:
            prices, limits = self.closed_form(np.arange(first, last))
            close = np.abs(np.stack((call[first:last], put[first:last])) - prices) <= limits
            return int(np.count_nonzero(~close))

        count = sum(in_pieces(wrong, self.n, PIECE))
        return f"{count} prices differ from the closed form in f64" if count else ""

    def closed_form(self, at: np.ndarray) -> tuple[F64, F64]:
        """Calls and puts of the options `at` in f64, and the largest error of each in f32."""
        spot = uniform_f32(self.spot.key, at, *SPOT).astype(float)
        strike = uniform_f32(self.strike.key, at, *STRIKE).astype(float)
        years = uniform_f32(self.years.key, at, *YEARS).astype(float)
        spread = VOLATILITY * np.sqrt(years)
        d1 = (np.log(spot / strike) + (RATE + VOLATILITY**2 / 2) * years) / spread
        (n1, error1), (n2, error2) = normal(d1), normal(d1 - spread)
        later = strike * np.exp(-RATE * years)
        of_tails = spot * error1 + later * error2 + SUBNORMAL
        of_call = NEAR_ONE * (spot * (d1 > 0) + later * (d1 > spread))
        prices = spot * n1 - later * n2, later * (1 - n2) - spot * (1 - n1)
        return np.stack(prices), np.stack((of_tails + of_call, of_tails + NEAR_ONE * (spot + later)))


def normal(d: np.ndarray) -> tuple[F64, F64]:
    """The cumulative normal distribution by the formula of the kernel, and the error of its tail in f32.

    The series has terms five times its value, so that its roundings add up to 15 units of 2^-24; the fast exponential
    and the products add 9, and 1.2 d^2 as its argument is rounded; d itself has an error of 2 units, times d^2. (An
    error that is common to d1 and d2 cancels in a price, because spot and later have the same density there.)
    """
    k = 1 / (1 + 0.2316419 * np.abs(d))
    series = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = np.exp(-d * d / 2) / math.sqrt(2 * math.pi) * series
    return np.where(d > 0, 1 - tail, tail), 2.0**-24 * tail * (24 + 4 * d * d)
