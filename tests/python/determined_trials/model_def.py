"""A trial in the shape of Determined's mnist_pytorch tutorial, with drawn digits."""

from typing import Any, Dict, Sequence, Tuple, Union, cast

import data
import torch
from torch import nn

import determined as det
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial, PyTorchTrialContext

TorchData = Union[Dict[str, torch.Tensor], Sequence[torch.Tensor], torch.Tensor]


class MNistTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.records = self.context.get_data_config()["records"]
        self.model = self.context.wrap_model(
            nn.Sequential(
                nn.Conv2d(1, self.context.get_hparam("n_filters1"), 3, 1),
                nn.ReLU(),
                nn.Conv2d(self.context.get_hparam("n_filters1"), self.context.get_hparam("n_filters2"), 3),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Dropout2d(self.context.get_hparam("dropout1")),
                nn.Flatten(),
                nn.Linear(16 * self.context.get_hparam("n_filters2"), 32),
                nn.ReLU(),
                nn.Dropout(self.context.get_hparam("dropout2")),
                nn.Linear(32, 10),
                nn.LogSoftmax(dim=1),
            )
        )
        self.optimizer = self.context.wrap_optimizer(torch.optim.Adadelta(self.model.parameters(), lr=self.context.get_hparam("learning_rate")))
        self.context.wrap_lr_scheduler(torch.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.9), LRScheduler.StepMode.STEP_EVERY_EPOCH)
        assert det.get_cluster_info() is not None

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(data.get_dataset(self.records, train=True), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(data.get_dataset(self.records, train=False), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: TorchData, epoch_idx: int, batch_idx: int) -> Dict[str, torch.Tensor]:
        batch = cast(Tuple[torch.Tensor, torch.Tensor], batch)
        images, labels = batch
        loss = torch.nn.functional.nll_loss(self.model(images), labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: TorchData) -> Dict[str, Any]:
        batch = cast(Tuple[torch.Tensor, torch.Tensor], batch)
        images, labels = batch
        output = self.model(images)
        pred = output.argmax(dim=1, keepdim=True)
        accuracy = pred.eq(labels.view_as(pred)).sum().item() / len(images)
        return {"validation_loss": torch.nn.functional.nll_loss(output, labels).item(), "accuracy": accuracy}
