"""A convolutional network for images of digits."""

from typing import Any, Dict

import torch
from data import digits
from torch import nn

from determined import pytorch


class MNistTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        first, second = context.get_hparam("n_filters1"), context.get_hparam("n_filters2")
        self.model = context.wrap_model(
            nn.Sequential(
                nn.Conv2d(1, first, 3, stride=2),
                nn.ReLU(),
                nn.Conv2d(first, second, 3, stride=2),
                nn.ReLU(),
                nn.Flatten(),
                nn.Dropout(context.get_hparam("dropout")),
                nn.Linear(second * 6 * 6, 64),
                nn.ReLU(),
                nn.Linear(64, 10),
            )
        )
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate")))
        decay = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.9)
        context.wrap_lr_scheduler(decay, pytorch.LRScheduler.StepMode.STEP_EVERY_EPOCH)
        self.records = context.get_data_config()["records"]

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(digits(self.records, seed=1), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(digits(self.records // 4, seed=2), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Dict[str, torch.Tensor]:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> Dict[str, float]:
        images, labels = batch
        output = self.model(images)
        right = (output.argmax(1) == labels).float().mean()
        return {"validation_loss": nn.functional.cross_entropy(output, labels).item(), "accuracy": right.item()}
