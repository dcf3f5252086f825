"""Processes that are spawned, each with CUDA of its own, and a tensor that they share."""

import torch
import torch.multiprocessing as multiprocessing


def add(rank, shared, sums):
    with torch.no_grad():
        shared[rank] += torch.ones(1 << 20, device="cuda").cumsum(0)[-1]
    torch.cuda.synchronize()
    sums[rank] = float(shared[rank].sum())


if __name__ == "__main__":
    shared = torch.zeros(2, 4, device="cuda")
    sums = multiprocessing.get_context("spawn").Manager().list([0.0, 0.0])
    multiprocessing.spawn(add, args=(shared, sums), nprocs=2)
    print(list(sums), shared.sum().item())
