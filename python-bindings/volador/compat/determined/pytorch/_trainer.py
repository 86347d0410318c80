"""pytorch.init() and Trainer."""

from __future__ import annotations

import contextlib
import logging
import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import _info, core
from volador.compat.determined.pytorch._context import PyTorchTrialContext
from volador.compat.determined.pytorch._controller import Controller, Plan
from volador.compat.determined.pytorch._units import Batch, TrainUnit, never

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volador.compat.determined.pytorch._trial import PyTorchTrial

_logger = logging.getLogger("determined.pytorch")


def set_random_seeds(seed: int) -> None:
    """Of random, numpy and torch, the same in all processes."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.random.manual_seed(seed)


@contextlib.contextmanager
def _processes(distributed: core.DistributedContext | None) -> Iterator[core.DistributedContext | None]:
    """The given context, or one over the processes of torchrun or of an initialised torch.distributed; None for one process."""
    if distributed is not None or not dist.is_available():
        yield distributed
        return
    started = False
    if not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ:
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        started = True
    try:
        yield core.DistributedContext.from_torch_distributed() if dist.is_initialized() and dist.get_world_size() > 1 else None
    finally:
        if started:
            dist.destroy_process_group()


@contextlib.contextmanager
def init(
    *,
    hparams: dict[str, Any] | None = None,
    exp_conf: dict[str, Any] | None = None,
    distributed: core.DistributedContext | None = None,
    aggregation_frequency: int = 1,
    enable_tensorboard_logging: bool = True,
) -> Iterator[PyTorchTrialContext]:
    """The context for a trial and its Trainer; both are used within the block.

    Under torchrun it initialises torch.distributed (nccl with GPUs, else gloo), and models are wrapped in DistributedDataParallel. exp_conf and the
    seed are those of the launcher, if there is one. aggregation_frequency: batches before the optimizers step."""
    info = _info.get_cluster_info()
    trial = info.trial if info is not None and info.task_type == "TRIAL" else None
    if aggregation_frequency < 1:
        raise ValueError(f"pytorch.init: aggregation_frequency: expected at least 1, got {aggregation_frequency}")
    with _processes(distributed) as ranks:
        if trial is not None:
            set_random_seeds(trial.trial_seed)
        with core.init(distributed=ranks, tensorboard_mode=core.TensorboardMode.MANUAL) as core_context:
            yield PyTorchTrialContext(
                core_context,
                trial_seed=None if trial is None else trial.trial_seed,
                hparams=hparams,
                slots_per_trial=core_context.distributed.size,
                exp_conf=exp_conf if trial is None else trial._config,
                aggregation_frequency=aggregation_frequency,
                steps_completed=0 if trial is None else trial._steps_completed,
                enable_tensorboard_logging=enable_tensorboard_logging,
            )


class Trainer:
    """Trains a trial: the loop, validations, checkpoints and reports."""

    def __init__(self, trial: PyTorchTrial, context: PyTorchTrialContext) -> None:
        self._trial = trial
        self._context = context
        info = _info.get_cluster_info()
        self._info = info if info is not None and info.task_type == "TRIAL" else None

    def configure_profiler(self, sync_timings: bool, enabled: bool, begin_on_batch: int, end_after_batch: int) -> None:
        """No effect: there is no system profiler here; context.set_profiler() has PyTorch's."""
        _logger.info("configure_profiler has no effect; use context.set_profiler()")

    def fit(
        self,
        checkpoint_period: TrainUnit | None = None,
        validation_period: TrainUnit | None = None,
        max_length: TrainUnit | None = None,
        reporting_period: TrainUnit = Batch(100),  # noqa: B008
        checkpoint_policy: str = "best",
        latest_checkpoint: str | None = None,
        step_zero_validation: bool = False,
        test_mode: bool = False,
    ) -> None:
        """Trains to the length of the searcher, or locally, and where the configuration has no searcher.max_length, to max_length.

        latest_checkpoint: where to go on: id or folder of a checkpoint. checkpoint_policy: save after a validation if its searcher metric is the best
        so far, after all, or none; locally "best" is "all", since there is no metric. test_mode: one batch; locally only.
        ValueError: no max_length locally, or another checkpoint_policy. TypeError: max_length is a schedule."""
        if checkpoint_policy not in ("best", "all", "none"):
            raise ValueError(f"Trainer.fit: checkpoint_policy: expected best, all or none, got {checkpoint_policy!r}")
        plan = Plan(
            checkpoint_period=checkpoint_period or never(),
            validation_period=validation_period or never(),
            reporting_period=reporting_period,
            max_length=max_length,
            checkpoint_policy=checkpoint_policy,
            latest_checkpoint=latest_checkpoint,
            step_zero_validation=step_zero_validation,
            test_mode=test_mode,
        )
        if self._info is None:
            if max_length is None:
                raise ValueError("Trainer.fit: max_length is missing; without a launcher give a length such as pytorch.Batch(1000) or pytorch.Epoch(3)")
            if checkpoint_policy == "best":
                _logger.info("checkpoint_policy best is all: no searcher metric is configured")
                plan.checkpoint_policy = "all"
        else:
            trial = self._info.trial
            if test_mode:
                raise ValueError("Trainer.fit: test_mode is for local training; leave it out under a launcher")
            searcher = trial._config.get("searcher") or {}
            plan.time_metric = searcher.get("time_metric")
            if searcher.get("max_length") is None and plan.time_metric is None and max_length is None:
                raise ValueError("Trainer.fit: max_length is missing, and searcher.max_length of the configuration too; give one of them")
            if max_length is not None and searcher.get("max_length") is not None:
                _logger.info("max_length of fit() is ignored; searcher.max_length of the configuration decides")
                plan.max_length = None
            size = trial.hparams.get("global_batch_size")
            plan.trial_id = trial.trial_id
            plan.steps_completed = trial._steps_completed
            plan.searcher_metric = searcher.get("metric")
            plan.smaller_is_better = bool(searcher.get("smaller_is_better", True))
            plan.global_batch_size = int(size) if size else None
        if plan.max_length is not None and not isinstance(plan.max_length.value, int):
            raise TypeError(f"Trainer.fit: max_length: expected pytorch.Batch(n) or pytorch.Epoch(n) with an integer, got {max_length!r}")
        Controller(self._trial, self._context, plan).run()
