"""backprop: training of a small neural network with many inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, f32, f64, on_host, shared_kernels, u64
from firsttouch.harness.random import F64, uniform_f32

RATE, MOMENTUM, TARGET = 0.3, 0.3, 0.1
UNITS, WIDTH = 16, 17  # hidden units; row length of the weights, whose column 0 is unused
BLOCK = 1024  # rows that training.c adds up at a time
# Of the sum of absolute terms. A sum of 16 products is rounded 32 times by up to 2^-24, a change 4 times (earlier ones
# fade with the momentum), a weight once a step: enough for 160 steps.
RELATIVE_TOLERANCE = 1e-5
ABSOLUTE_TOLERANCE = 2.0**-124  # absolute error once changes become subnormal in f32


class Backprop(App):
    """Training steps of a perceptron with one hidden layer: the large layer on the GPU, the small one on the CPU.

    With reduction=units one thread of the CPU adds up the GPU's sums, unit by unit, as the original does.
    """

    name = "backprop"
    source = (
        "Rodinia (Che et al., IISWC 2009), backprop; weights around zero, because the original's saturate all "
        "units, and the forward pass does not overwrite them"
    )
    pattern = "CPU and GPU alternate"
    sizes = {
        "tiny": {"inputs": 17_616, "iterations": 3},
        "default": {"inputs": 2_097_152, "iterations": 1},
        "bytes": {"iterations": 4},
    }
    grows, multiple = "inputs", UNITS
    options = {"reduction": ("blocks", "units")}
    reduction: str
    inputs: int
    iterations: int

    x = buffer(f32, "inputs + 1", role="input", starts_on="cpu")
    weights = buffer(f32, "inputs + 1", WIDTH, role="inout", starts_on="cpu", ends_on="cpu")
    changes = buffer(f32, "inputs + 1", WIDTH, role="inout", starts_on="cpu")  # of the weights in the last step
    partial = buffer(f32, "inputs // 16", UNITS, role="output", ends_on="cpu")
    errors = buffer(f32, WIDTH, role="control", starts_on="cpu")  # of the hidden units
    sums = buffer(f64, "(inputs // 16 + 1023) // 1024", UNITS, role="scratch", starts_on="cpu")
    outward = buffer(f32, WIDTH, role="scratch", starts_on="cpu")  # weights of the second layer

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.x, 0, 1)
        cpu.writes(self.x[:1])[:] = 1
        cpu.uniform(self.weights, -self.scale(), self.scale())
        cpu.fill(self.changes, 0)
        cpu.uniform(self.outward, -1, 1)

    def scale(self) -> float:
        """Bound of the initial weights, for net inputs of the hidden units of about 1."""
        return 3 / math.sqrt(self.inputs)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        self.steps: list[tuple[F64, float, F64]] = []  # hidden units, output, errors passed to the GPU
        momentum = np.zeros(WIDTH)
        for _ in gpu.iterations(self.iterations):
            layer, count = (self.weights, self.x, self.partial), self.inputs // UNITS
            gpu.launch("backprop_forward", *layer, self.inputs, over=self.inputs, writes=[self.partial])
            kernel, over = ("backprop_sums", self.inputs) if self.reduction == "blocks" else ("backprop_by_unit", UNITS)
            cpu.launch(kernel, self.partial, self.sums, count, over=over, writes=[self.sums])
            net = cpu.reads(self.weights[:1])[0, 1:] + cpu.reads(self.sums).sum(axis=0)
            hidden, output, error, step = backward(net, cpu.reads(self.outward))
            momentum = step + MOMENTUM * momentum
            cpu.updates(self.outward)[:] += momentum
            errors = cpu.writes(self.errors)
            errors[:] = error
            self.steps.append((hidden, output, errors.astype(np.float64)))
            size = (self.inputs + 1) * WIDTH
            layer = (self.weights, self.changes, self.x)
            gpu.launch("backprop_adjust", *layer, self.errors, size, RATE, MOMENTUM, over=size)

    def check(self, view: View) -> str:
        """Each weight is its initial value plus its input times a factor of its unit: every step can be recomputed."""
        products, squares = self._products()
        outward = uniform_f32(self.outward.key, np.arange(WIDTH), -1, 1).astype(np.float64)
        change, factor, last, momentum = np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH), np.zeros(WIDTH)
        for number, (hidden, output, errors) in enumerate(self.steps, 1):
            last = factor
            true_hidden, true_output, true_errors, step = backward(products + factor[1:] * squares, outward)
            momentum = step + MOMENTUM * momentum
            outward = outward + momentum
            apart = (hidden - true_hidden, [output - true_output], errors - true_errors)
            error = float(np.abs(np.concatenate(apart)).max())
            if not error <= 1e-5:  # net inputs of about 1 are sums of rounded groups, and their errors cancel
                return f"a unit or its error differs from f64 by {error:.3g} in step {number}"
            change = RATE * errors + MOMENTUM * change
            factor = factor + change
        wrong, factors = np.zeros(3, u64), (factor, change, last)
        outputs = view(self.weights), view(self.changes), view(self.partial)
        rest = (self.inputs // UNITS, *self._generators(), RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE)
        on_host(shared_kernels("training"), "training_wrong", *outputs, *factors, wrong, *rest)
        names = ("weights", "last changes of weights", "sums of 16 inputs")
        return ", ".join(f"{n} {name} differ from f64" for n, name in zip(wrong, names, strict=True) if n)

    def _generators(self) -> tuple[int, int, float]:
        """Of the inputs and of the initial weights, and the bound of these."""
        return self.x.key, self.weights.key, self.scale()

    def _products(self) -> tuple[F64, float]:
        """Net inputs of the hidden units from the initial weights, and the sum of squared inputs."""
        rows = self.inputs + 1
        sums = np.empty((math.ceil(rows / BLOCK), WIDTH))
        on_host(shared_kernels("training"), "training_products", sums, rows, *self._generators())
        total = sums.sum(axis=0)
        return total[:-1], float(total[-1])


def backward(net: F64, outward: np.ndarray[Any, Any]) -> tuple[F64, float, F64, F64]:
    """Hidden units with the bias first, the output, the errors of the hidden units, and the change of outward."""
    hidden = np.concatenate(([1.0], 0.5 + 0.5 * np.tanh(0.5 * net)))
    output = float(0.5 + 0.5 * np.tanh(0.5 * (hidden @ outward)))
    error = output * (1 - output) * (TARGET - output)
    return hidden, output, hidden * (1 - hidden) * error * outward, RATE * error * hidden
