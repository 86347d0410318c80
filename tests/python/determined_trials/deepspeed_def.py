"""A trial in the shape of Determined's tutorial for DeepSpeed, with drawn digits."""

import data
import deepspeed
import torch
from torch import nn

from determined.pytorch import DataLoader, PyTorchCallback
from determined.pytorch.deepspeed import DeepSpeedTrial, DeepSpeedTrialContext, overwrite_deepspeed_config

BASE = {"train_micro_batch_size_per_gpu": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.1, "torch_adam": True}}}


class Counting(PyTorchCallback):
    def __init__(self):
        self.reports = 0

    def on_training_workload_end(self, avg_metrics, batch_metrics):
        self.reports += 1
        assert len(batch_metrics) % 2 == 0

    def state_dict(self):
        return {"reports": self.reports}

    def load_state_dict(self, state_dict):
        self.reports = state_dict["reports"]


class DigitsTrial(DeepSpeedTrial):
    def __init__(self, context: DeepSpeedTrialContext) -> None:
        self.context = context
        config = overwrite_deepspeed_config(BASE, self.context.get_hparam("overwrite_deepspeed_args"))
        model = nn.Sequential(nn.Flatten(), nn.Linear(144, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 10))
        engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
        self.engine = self.context.wrap_model_engine(engine)

    def build_training_data_loader(self):
        return DataLoader(data.get_dataset(128, train=True), batch_size=self.context.train_micro_batch_size_per_gpu, shuffle=True)

    def build_validation_data_loader(self):
        return DataLoader(data.get_dataset(128, train=False), batch_size=self.context.train_micro_batch_size_per_gpu)

    def build_callbacks(self):
        return {"counting": Counting()}

    def train_batch(self, dataloader_iter, epoch_idx, batch_idx):
        images, labels = self.context.to_device(next(dataloader_iter))
        loss = nn.functional.cross_entropy(self.engine(images), labels)
        self.engine.backward(loss)
        self.engine.step()
        return {"loss": loss}

    def evaluate_batch(self, dataloader_iter, batch_idx):
        images, labels = self.context.to_device(next(dataloader_iter))
        output = self.engine(images)
        return {"validation_loss": nn.functional.cross_entropy(output, labels), "accuracy": (output.argmax(1) == labels).float().mean()}


class ManualTrial(DigitsTrial):
    """Takes all micro-batches of a batch itself, or forgets one."""

    forgotten = 0

    def __init__(self, context: DeepSpeedTrialContext) -> None:
        super().__init__(context)
        context.disable_auto_grad_accumulation()

    def train_batch(self, dataloader_iter, epoch_idx, batch_idx):
        losses = [DigitsTrial.train_batch(self, dataloader_iter, epoch_idx, batch_idx)["loss"].detach() for _ in range(self.context.num_micro_batches_per_slot - self.forgotten)]
        return torch.stack(losses).mean()

    def build_callbacks(self):
        return {}


class ForgetfulTrial(ManualTrial):
    forgotten = 1
