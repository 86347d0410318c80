"""The part of DeepSpeed's interface that a DeepSpeedTrial uses, with a plain optimizer."""

import os

import torch


class PipelineEngine:
    """Not made here."""


class Engine(torch.nn.Module):
    def __init__(self, model, parameters, config):
        super().__init__()
        self.module = model
        self.config = config
        self.micro_steps = 0
        self.optimizer = torch.optim.Adam(parameters, lr=config["optimizer"]["params"]["lr"])

    def forward(self, *args):
        return self.module(*args)

    def train_micro_batch_size_per_gpu(self):
        return self.config["train_micro_batch_size_per_gpu"]

    def gradient_accumulation_steps(self):
        return self.config.get("gradient_accumulation_steps", 1)

    def train_batch_size(self):
        return self.train_micro_batch_size_per_gpu() * self.gradient_accumulation_steps()

    def backward(self, loss):
        (loss / self.gradient_accumulation_steps()).backward()

    def step(self):
        self.micro_steps += 1
        if self.micro_steps % self.gradient_accumulation_steps() == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def save_checkpoint(self, folder, tag):
        os.makedirs(os.path.join(folder, tag))
        states = {"model": self.module.state_dict(), "optimizer": self.optimizer.state_dict(), "micro_steps": self.micro_steps}
        torch.save(states, os.path.join(folder, tag, "states.pt"))
        return True

    def load_checkpoint(self, folder, tag):
        path = os.path.join(folder, tag, "states.pt")
        if not os.path.exists(path):
            return None, {}
        states = torch.load(path)
        self.module.load_state_dict(states["model"])
        self.optimizer.load_state_dict(states["optimizer"])
        self.micro_steps = states["micro_steps"]
        return path, {}


def init_distributed(auto_mpi_discovery=True):
    assert not auto_mpi_discovery and os.environ["RANK"] == "0"


def initialize(model, model_parameters, config):
    engine = Engine(model, model_parameters, config)
    return engine, engine.optimizer, None, None
