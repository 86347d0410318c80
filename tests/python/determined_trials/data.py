"""Digits of 12 × 12 pixels: segments of a seven-segment display at a random place, with noise."""

import torch

# Top, upper left, upper right, middle, lower left, lower right, bottom.
_SEGMENTS = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]


def _draw(digit: int) -> torch.Tensor:
    image = torch.zeros(9, 6)
    places = [(0, slice(None)), (slice(0, 5), 0), (slice(0, 5), 5), (4, slice(None)), (slice(4, 9), 0), (slice(4, 9), 5), (8, slice(None))]
    for on, place in zip(_SEGMENTS[digit], places):
        if on == "1":
            image[place] = 1
    return image


def get_dataset(records: int, train: bool) -> torch.utils.data.Dataset:
    generator = torch.Generator().manual_seed(1 if train else 2)
    labels = torch.randint(10, (records if train else records // 4,), generator=generator)
    images = torch.randn(len(labels), 1, 12, 12, generator=generator) * 0.1
    for index, label in enumerate(labels.tolist()):
        y, x = torch.randint(4, (2,), generator=generator).tolist()
        images[index, 0, y : y + 9, x : x + 6] += _draw(label)
    return torch.utils.data.TensorDataset(images, labels)
