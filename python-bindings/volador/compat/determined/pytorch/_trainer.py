"""pytorch.init() and Trainer."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING, Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import _profiler, core
from volador.compat.determined._plan import plan_of
from volador.compat.determined._trial_context import open_context, set_random_seeds
from volador.compat.determined._units import Batch, TrainUnit
from volador.compat.determined.pytorch._context import PyTorchTrialContext
from volador.compat.determined.pytorch._controller import Controller

if TYPE_CHECKING:
    from collections.abc import Iterator

_logger = logging.getLogger("determined.pytorch")


@contextlib.contextmanager
def processes(distributed: core.DistributedContext | None) -> Iterator[core.DistributedContext | None]:
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
    if aggregation_frequency < 1:
        raise ValueError(f"pytorch.init: aggregation_frequency: expected at least 1, got {aggregation_frequency}")
    options = {"hparams": hparams, "aggregation_frequency": aggregation_frequency, "enable_tensorboard_logging": enable_tensorboard_logging}
    with processes(distributed) as ranks, open_context(PyTorchTrialContext, ranks, set_random_seeds, exp_conf, **options) as context:
        yield context


class Trainer:
    """Trains a trial: the loop, validations, checkpoints and reports."""

    _loop: Any = Controller

    def __init__(self, trial: Any, context: Any) -> None:
        self._trial = trial
        self._context = context

    def configure_profiler(self, sync_timings: bool, enabled: bool, begin_on_batch: int, end_after_batch: int) -> None:
        """Instead of `profiling` of the configuration: reports where the time of the batches from begin_on_batch to end_after_batch goes, in the group
        "timing". sync_timings: waits for the GPU at both ends of a part. The use of CPU, memory and GPUs is always recorded; context.set_profiler()
        has PyTorch's profiler."""
        self._context._profiling = _profiler.Profiling(begin_on_batch, end_after_batch, sync_timings) if enabled else None

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
        plan = plan_of(
            _logger,
            checkpoint_period,
            validation_period,
            max_length,
            reporting_period,
            checkpoint_policy,
            latest_checkpoint,
            step_zero_validation,
            test_mode,
        )
        self._loop(self._trial, self._context, plan).run()


def train(trial_class: Any, hparams: dict[str, Any], config: dict[str, Any], fit: dict[str, Any]) -> None:
    """Trains one of the class as the launcher asks; fit: arguments of Trainer.fit()."""
    optimizations = config.get("optimizations") or {}
    with init(hparams=hparams, exp_conf=config, aggregation_frequency=optimizations.get("aggregation_frequency", 1)) as context:
        context._average_aggregated_gradients_default = bool(optimizations.get("average_aggregated_gradients", True))
        Trainer(trial_class(context), context).fit(**fit)
