"""Images of 16 × 16 pixels of the digit 0: rings of a random size and place."""

import torch


def rings(count: int, seed: int) -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    radius = 4 + 1.5 * torch.rand(count, 1, 1, generator=generator)
    centre = 7.5 + torch.rand(2, count, 1, 1, generator=generator) - 0.5
    y, x = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    distance = ((y - centre[0]) ** 2 + (x - centre[1]) ** 2).sqrt()
    return torch.utils.data.TensorDataset((1.5 - (distance - radius).abs()).clamp(0, 1)[:, None])
