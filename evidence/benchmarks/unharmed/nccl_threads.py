"""One process with two GPUs: collectives that wait for each other, copies between GPUs, and graphs."""

import torch

torch.manual_seed(6)
data = [torch.randn(1 << 20).to(f"cuda:{number}") for number in range(2)]
for _ in range(30):
    torch.cuda.nccl.all_reduce(data)
    for part in data:
        part /= 2
    data[0].copy_(data[1])
model = torch.nn.DataParallel(torch.nn.Linear(256, 16).to("cuda:0"), [0, 1])
outputs = model(torch.randn(512, 256, device="cuda:0"))
outputs.sum().backward()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    total = (data[0] * 2).clone().add_(1).sum()
for _ in range(20):
    graph.replay()
print(f"{data[0].double().sum().item():.12g} {outputs.double().sum().item():.12g} {total.item():.9g}")
