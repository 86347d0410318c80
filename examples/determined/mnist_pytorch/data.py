"""Digits of 28 × 28 pixels: letters of a 5 × 7 font, three times as large, at a random place, bright or dark, with noise."""

import torch

# Rows of each digit, a bit for each of five pixels.
_FONT = [
    (14, 17, 19, 21, 25, 17, 14),
    (4, 12, 4, 4, 4, 4, 14),
    (14, 17, 1, 2, 4, 8, 31),
    (31, 2, 4, 2, 1, 17, 14),
    (2, 6, 10, 18, 31, 2, 2),
    (31, 16, 30, 1, 1, 17, 14),
    (6, 8, 16, 30, 17, 17, 14),
    (31, 1, 2, 4, 8, 8, 8),
    (14, 17, 17, 14, 17, 17, 14),
    (14, 17, 17, 15, 1, 2, 12),
]


def _glyphs() -> torch.Tensor:
    pixels = torch.tensor([[[row >> (4 - x) & 1 for x in range(5)] for row in digit] for digit in _FONT], dtype=torch.float32)
    return pixels.repeat_interleave(3, 1).repeat_interleave(3, 2)


def digits(count: int, seed: int) -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    places = torch.stack([torch.randint(8, (count,), generator=generator), torch.randint(14, (count,), generator=generator)], 1)
    images = torch.randn(count, 1, 28, 28, generator=generator) * 0.25
    brightness = 0.6 + 0.4 * torch.rand(count, generator=generator)
    glyphs = _glyphs()
    for image, label, (y, x), bright in zip(images, labels.tolist(), places.tolist(), brightness):
        image[0, y : y + 21, x : x + 15] += bright * glyphs[label]
    return torch.utils.data.TensorDataset(images, labels)
