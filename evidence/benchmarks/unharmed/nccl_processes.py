"""Two processes with a GPU each: collectives of NCCL, and a graph with one in it."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing


def rank(number, world, meeting):
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", init_method=f"file://{meeting}/file", rank=number, world_size=world)
    torch.manual_seed(number)
    data = torch.randn(1 << 20, device="cuda")
    for _ in range(30):
        dist.all_reduce(data)
        data /= world
    gathered = [torch.empty_like(data) for _ in range(world)]
    dist.all_gather(gathered, data)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(data)
        data.div_(world)
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    graph.reset()  # NCCL's communicator ends only without graphs that use it
    if number == 0:
        print(f"{data.double().sum().item():.12g} {sum(g.double().sum().item() for g in gathered):.12g}")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as meeting:
        multiprocessing.spawn(rank, args=(2, meeting), nprocs=2)
