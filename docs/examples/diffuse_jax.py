"""Diffusion on a grid with JAX: run it under `firsttouch profile --trace`.

The grid goes to the GPU and comes back in each step, since numpy adds a source to it there. Needs a GPU, JAX and numpy.
"""

import sys

import jax
import numpy

STEPS, SIDE = 60, 2048


@jax.jit
def diffuse(grid: jax.Array) -> jax.Array:
    for _ in range(8):
        around = sum(jax.numpy.roll(grid, shift, axis) for shift in (1, -1) for axis in (0, 1))
        grid = grid + 0.1 * (around - 4 * grid)
    return grid


def run(steps: int) -> float:
    grid = numpy.zeros((SIDE, SIDE), numpy.float32)
    for step in range(steps):
        grid[SIDE // 2, step % SIDE] += 1
        grid = numpy.array(diffuse(grid))
    return float(grid.sum())


if __name__ == "__main__":
    print(f"sum {run(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS):.3f}")
