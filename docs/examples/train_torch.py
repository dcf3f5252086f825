"""Trains a small network with PyTorch, with three habits that cost time: run it under `firsttouch profile --trace`.

Each step copies a mask that is not page-locked and reads the loss; every tenth step takes the weights to the CPU and
back. Needs a GPU and PyTorch.
"""

import sys

import torch

STEPS, ROWS, WIDTH = 60, 4096, 2048


def masked(outputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return outputs * mask.to(outputs.device)  # waits: the mask is in pageable memory


def average(model: torch.nn.Module) -> None:
    """A moving average of the weights, kept on the CPU, which this program never uses."""
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    model.load_state_dict({name: value.to("cuda") for name, value in state.items()})


def train(steps: int) -> float:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(ROWS, WIDTH, device="cuda"), torch.randn(ROWS, WIDTH, device="cuda")
    mask = (torch.rand(ROWS, WIDTH) > 0.1).float()
    total = 0.0
    for step in range(steps):
        loss = torch.nn.functional.mse_loss(masked(model(inputs), mask), targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.item()  # waits for all that was launched
        if step % 10 == 9:
            average(model)
    return total / steps


if __name__ == "__main__":
    print(f"mean loss {train(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS):.6f}")
