"""Trains a small network with workers that load its data, from a seed."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
data = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))
loader = DataLoader(data, batch_size=256, shuffle=True, num_workers=2, pin_memory=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).cuda()
optimiser = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(model(inputs.cuda(non_blocking=True)), targets.cuda(non_blocking=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(epoch, f"{loss.item():.9g}")
