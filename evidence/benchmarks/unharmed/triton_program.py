"""Kernels that Triton compiles, with PyTorch's memory."""

import time

import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, into, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(into + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


torch.manual_seed(5)
n = 1_000_003
x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
into = torch.empty_like(x)
add[(triton.cdiv(n, 128),)](x, y, into, n, block=128)
torch.cuda.synchronize()
start = time.perf_counter()
for block in (128, 1024):
    for _ in range(10_000):
        add[(triton.cdiv(n, block),)](x, y, into, n, block=block)
    print(block, f"{into.double().sum().item():.12g}", bool((into == x + y).all()))
print(f"loop {time.perf_counter() - start:.4f} s")
