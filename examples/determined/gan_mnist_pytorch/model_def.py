"""A generative adversarial network: two models, each with its optimizer, trained in turns."""

from typing import Any, Dict

import torch
from data import rings
from torch import nn

from determined import pytorch


class GANTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.latent = context.get_hparam("latent_dim")
        self.generator = context.wrap_model(
            nn.Sequential(nn.Linear(self.latent, 64), nn.LeakyReLU(0.2), nn.Linear(64, 256), nn.Sigmoid(), nn.Unflatten(1, (1, 16, 16)))
        )
        self.discriminator = context.wrap_model(nn.Sequential(nn.Flatten(), nn.Linear(256, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)))
        rates = {"lr": context.get_hparam("lr"), "betas": (context.get_hparam("b1"), 0.999)}
        self.generator_optimizer = context.wrap_optimizer(torch.optim.Adam(self.generator.parameters(), **rates))
        self.discriminator_optimizer = context.wrap_optimizer(torch.optim.Adam(self.discriminator.parameters(), **rates))
        self.records = context.get_data_config()["records"]

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(rings(self.records, seed=1), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(rings(self.records // 4, seed=2), batch_size=self.context.get_per_slot_batch_size())

    def _made(self, count: int) -> torch.Tensor:
        return self.generator(self.context.to_device(torch.randn(count, self.latent)))

    def _loss(self, images: torch.Tensor, real: bool) -> torch.Tensor:
        verdict = self.discriminator(images)
        return nn.functional.binary_cross_entropy_with_logits(verdict, torch.full_like(verdict, float(real)))

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Dict[str, torch.Tensor]:
        (images,) = batch
        # The generator learns to be taken for real; gradients of the discriminator are not wanted here.
        self.discriminator.requires_grad_(False)
        g_loss = self._loss(self._made(len(images)), real=True)
        self.context.backward(g_loss)
        self.context.step_optimizer(self.generator_optimizer)

        self.discriminator.requires_grad_(True)
        d_loss = (self._loss(images, real=True) + self._loss(self._made(len(images)).detach(), real=False)) / 2
        self.context.backward(d_loss)
        self.context.step_optimizer(self.discriminator_optimizer)
        return {"loss": d_loss, "g_loss": g_loss, "d_loss": d_loss}

    def evaluate_batch(self, batch: Any) -> Dict[str, float]:
        (images,) = batch
        made = self._made(len(images))
        # How far the mean image is from that of real ones.
        return {"distance": (made.mean(0) - images.mean(0)).abs().mean().item(), "d_loss": self._loss(made, real=False).item()}
