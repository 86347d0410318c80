"""Colour images of 32 × 32 pixels in ten classes: waves in one of five directions, reddish or bluish, with noise."""

import math

import torch


def images(count: int, seed: int) -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    angle = labels % 5 * (math.pi / 5) + 0.1 * torch.randn(count, generator=generator)
    phase = 2 * math.pi * torch.rand(count, generator=generator)
    frequency = 0.5 + 0.3 * torch.rand(count, generator=generator)
    y, x = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    along = torch.cos(angle)[:, None, None] * x + torch.sin(angle)[:, None, None] * y
    waves = torch.sin(frequency[:, None, None] * along + phase[:, None, None])
    colours = torch.tensor([[1.0, 0.5, 0.2], [0.2, 0.5, 1.0]])[labels // 5]
    pixels = waves[:, None] * colours[:, :, None, None] + 0.5 * torch.randn(count, 3, 32, 32, generator=generator)
    return torch.utils.data.TensorDataset(pixels, labels)
