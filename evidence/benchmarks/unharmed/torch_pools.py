"""Memory of one of PyTorch's allocators (PYTORCH_CUDA_ALLOC_CONF), grown, shrunk and given back."""

import torch

torch.manual_seed(3)
total = 0.0
for megabytes in (8, 64, 512, 24, 256, 700):
    blocks = [torch.randn(megabytes << 18, device="cuda") for _ in range(2)]
    total += sum(block.double().mean().item() for block in blocks)
    del blocks
    torch.cuda.empty_cache()
print(f"{total:.12g}", torch.cuda.memory_allocated())
