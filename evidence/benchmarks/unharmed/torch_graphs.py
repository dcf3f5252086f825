"""A step of training, with copies in it, captured as a CUDA graph and launched again and again; then other graphs."""

import time

import torch

torch.manual_seed(2)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.zeros(512, 256, device="cuda"), torch.zeros(512, 1, device="cuda")
kept = torch.zeros_like(inputs)


def step():
    optimiser.zero_grad(set_to_none=False)
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    kept.copy_(inputs)
    optimiser.step()
    return loss


side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
start = time.perf_counter()
for number in range(4):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(100):
        inputs.copy_(torch.randn(512, 256))
        targets.copy_(torch.randn(512, 1))
        graph.replay()
    print(number, f"{loss.item():.9g} {kept.sum().item():.9g}")
print(f"loop {time.perf_counter() - start:.4f} s")
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.ones(3, device="cuda").sum().item()  # not allowed: the capture ends with an error
except RuntimeError:
    print("no graph")
print(torch.arange(5, device="cuda").sum().item())
