"""A convolutional network for small colour images, with augmentation and batch normalization."""

from typing import Any, Dict, Tuple

import torch
from data import images
from torch import nn

from determined import pytorch


def _block(channels: Tuple[int, int]) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(*channels, 3, padding=1), nn.BatchNorm2d(channels[1]), nn.ReLU(), nn.MaxPool2d(2))


class _Shifted(torch.utils.data.Dataset):
    """Moves each image by up to two pixels, differently each time."""

    def __init__(self, dataset: torch.utils.data.Dataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Tuple[torch.Tensor, torch.Tensor]:
        image, label = self.dataset[index]
        down, right = (int(torch.randint(-2, 3, ())) for _ in range(2))
        return image.roll((down, right), (1, 2)), label


class CIFARTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        width = context.get_hparam("width")
        self.model = context.wrap_model(
            nn.Sequential(
                _block((3, width)),
                _block((width, 2 * width)),
                nn.AdaptiveAvgPool2d(2),
                nn.Flatten(),
                nn.Dropout(context.get_hparam("dropout")),
                nn.Linear(8 * width, 10),
            )
        )
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(
                self.model.parameters(), lr=context.get_hparam("learning_rate"), momentum=0.9, weight_decay=context.get_hparam("weight_decay")
            )
        )
        self.records = context.get_data_config()["records"]

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(_Shifted(images(self.records, seed=1)), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(images(self.records // 4, seed=2), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Dict[str, torch.Tensor]:
        pixels, labels = batch
        output = self.model(pixels)
        loss = nn.functional.cross_entropy(output, labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss, "train_error": (output.argmax(1) != labels).float().mean()}

    def evaluate_batch(self, batch: Any) -> Dict[str, float]:
        pixels, labels = batch
        output = self.model(pixels)
        return {
            "validation_loss": nn.functional.cross_entropy(output, labels).item(),
            "validation_accuracy": (output.argmax(1) == labels).float().mean().item(),
        }
