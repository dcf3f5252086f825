"""A jitted function, which XLA launches as a CUDA graph, on arrays that are copied in and out at each call."""

import jax
import jax.numpy as jnp
import numpy as np

random = np.random.default_rng(0)
weights = jnp.asarray(random.standard_normal((4096, 4096), dtype=np.float32))
inputs = random.standard_normal((1024, 4096), dtype=np.float32)


@jax.jit
def layers(weights, x):
    for _ in range(4):
        x = jnp.tanh(x @ weights / 64)
    return x


total = 0.0
for _ in range(50):
    outputs = layers(weights, inputs)
    total += float(outputs[0, 0])
print(f"{total:.6f} {float(np.asarray(outputs).sum()):.4f}")
