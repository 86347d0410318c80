"""ray.train.torch: the trainer and the helpers of its function."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from volador import train as _train
from volador.compat.ray.train import Checkpoint, Result, RunConfig, ScalingConfig, _trainer_options
from volador.exceptions import InvalidArgumentError
from volador.train.torch import get_device
from volador.train.torch import prepare_data_loader as _prepare_data_loader
from volador.train.torch import prepare_model as _prepare_model

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TorchConfig", "TorchTrainer", "backward", "enable_reproducibility", "get_device", "get_devices", "prepare_data_loader", "prepare_model"]


@dataclasses.dataclass
class TorchConfig:
    backend: str | None = None
    init_method: str = "env"  # Ranks find each other over the cluster's connections.
    timeout_s: int = 1800


class TorchTrainer:
    """ray.train.torch.TorchTrainer."""

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        torch_config: TorchConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        if datasets:
            raise InvalidArgumentError("TorchTrainer: datasets of Ray Data are not there; give the function a DataLoader and ray.train.torch.prepare_data_loader()")
        backend = torch_config or TorchConfig()
        self._trainer = _train.TorchTrainer(
            train_loop_per_worker,
            config=train_loop_config,
            backend=backend.backend or "auto",
            collective_timeout=float(backend.timeout_s),
            resume_from=resume_from_checkpoint,
            **_trainer_options(scaling_config, run_config),
        )

    def fit(self) -> Result:
        return Result.of(self._trainer.fit())


def get_devices() -> list[torch.device]:
    return [get_device()]


def prepare_model(
    model: torch.nn.Module, move_to_device: bool = True, parallel_strategy: str | None = "ddp", parallel_strategy_kwargs: dict[str, Any] | None = None
) -> torch.nn.Module:
    options = parallel_strategy_kwargs or {}
    if parallel_strategy == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = _prepare_model(model, move_to_device=move_to_device, wrap_ddp=False)
        return FullyShardedDataParallel(model, **options)
    return _prepare_model(model, move_to_device=move_to_device, wrap_ddp=parallel_strategy == "ddp", **options)


def prepare_data_loader(data_loader: Any, add_dist_sampler: bool = True, move_to_device: bool = True, auto_transfer: bool = True) -> Any:
    return _prepare_data_loader(data_loader, shard=add_dist_sampler, move_to_device=move_to_device)


def backward(tensor: torch.Tensor) -> None:
    tensor.backward()


def enable_reproducibility(seed: int = 0) -> None:
    import random

    random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
