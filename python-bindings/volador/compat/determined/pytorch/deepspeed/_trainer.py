"""pytorch.deepspeed.init() and Trainer."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pathlib
import socket
from typing import TYPE_CHECKING, Any

import torch  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import core, errors
from volador.compat.determined._trial_context import open_context, set_random_seeds, write_trial
from volador.compat.determined.pytorch import _checkpoint, _metrics, _trainer
from volador.compat.determined.pytorch._controller import TorchLoop
from volador.compat.determined.pytorch.deepspeed._context import DeepSpeedTrialContext
from volador.compat.determined.pytorch.deepspeed._trial import DeepSpeedTrial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volador.compat.determined._plan import Plan

_logger = logging.getLogger("determined.pytorch.deepspeed")


def _first(lengths: list[int | None], what: str) -> int:
    """Batches that all processes have. RuntimeError: none."""
    least = min((length for length in lengths if length is not None), default=0)
    if least < 1:
        raise RuntimeError(f"{what}: there is less than one batch of micro-batches; check the data, and drop_last with less than a batch of data")
    return least


class DeepSpeedController(TorchLoop):
    """Trains a DeepSpeedTrial. A batch is train_batch_size records: as many micro-batches as the engine accumulates."""

    _context: DeepSpeedTrialContext
    _CHECKS = "context.disable_dataset_reproducibility_checks"

    def __init__(self, trial: DeepSpeedTrial, context: DeepSpeedTrialContext, plan: Plan) -> None:
        if not isinstance(trial, DeepSpeedTrial):
            raise TypeError(f"Trainer: expected a DeepSpeedTrial, got a {type(trial).__name__}; derive the class from pytorch.deepspeed.DeepSpeedTrial")
        super().__init__(trial, context, plan)
        if not context.models:
            raise errors.InvalidExperimentException(f"{type(trial).__name__}: no engine was wrapped; call context.wrap_model_engine() in __init__")
        if plan.global_batch_size is None:
            plan.global_batch_size = int(context.models[0].train_batch_size())
        self._validation_loader: Any = None
        self._validation_batches = 0

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            with self._latest_checkpoint() as found:
                values = None
                if found is not None and (found[0] / self._state_file()).exists():
                    values = torch.load(found[0] / self._state_file(), map_location="cpu", weights_only=False)
                self._start_callbacks(stack)
                self._choose_seed(values.get("shuffle_seed") if values is not None and found is not None and found[1] else None)
                loader = self._build_loaders()
                # Before the state is applied: an iterator of torch's loader draws from the random generator.
                batches = None if loader is None else self._batches(loader)
                if batches is not None:
                    stack.callback(batches.close)
                if found is not None:
                    self._load(found[0], values)
            self._start_training(stack)
            self._train(itertools.repeat(batches))  # Each batch is the iterator of micro-batches.

    def _build_loaders(self) -> Any:
        context, mpu = self._context, self._context._mpu
        micro, disabled = context.num_micro_batches_per_slot, context._data_repro_checks_disabled
        train, length, validated = None, None, None
        if mpu.should_build_data_loader:
            shared = {"num_replicas": mpu.data_parallel_world_size, "rank": mpu.data_parallel_rank}
            skip = self._state.batches_trained * micro
            train = self._adapted("build_training_data_loader", self._trial.build_training_data_loader(), disabled, repeat=True, skip=skip, **shared)
            self._validation_loader = self._adapted("build_validation_data_loader", self._trial.build_validation_data_loader(), disabled, **shared)
            length = len(getattr(train, "loader", train)) // micro  # DeepSpeed's RepeatingLoader has no length of its own.
            validation = getattr(self._validation_loader, "loader", self._validation_loader)
            validated = len(validation) // (micro if context.use_pipeline_parallel else 1)
        lengths = context.distributed.allgather((length, validated))
        context._epoch_len = _first([each for each, _ in lengths], "build_training_data_loader")
        self._validation_batches = _first([each for _, each in lengths], "build_validation_data_loader")
        return train

    # Training.

    def _train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> list[dict[str, Any]]:
        context = self._context
        found = []
        for _ in range(context._calls_per_batch()):
            metrics = self._trial.train_batch(batch, epoch_idx, batch_idx)
            if context._mpu.should_report_metrics:
                found.append(_metrics.kept(metrics))
        engine = context.models[0]
        if not context.use_pipeline_parallel and getattr(engine, "micro_steps", 0) % context.num_micro_batches_per_slot:
            raise errors.InvalidExperimentException(
                f"train_batch: the engine has taken {engine.micro_steps} micro-batches, expected a multiple of its {context.num_micro_batches_per_slot} "
                "gradient accumulation steps; call engine.backward() and engine.step() once for each"
            )
        if context.profiler is not None:
            context.profiler.step()
        return found

    def _report_training(self, batches: list[Any]) -> None:
        super()._report_training([metrics for each in batches for metrics in each])

    def _evaluate_data(self) -> dict[str, Any]:
        return self._evaluate_batches(self._evaluated())

    def _evaluated(self) -> Iterator[Any]:
        iterator = None if self._validation_loader is None else iter(self._validation_loader)
        for index in range(self._validation_batches):
            metrics = self._trial.evaluate_batch(iterator, index)
            yield metrics if self._context._mpu.should_report_metrics else None

    # Checkpoints.

    def _state_file(self) -> str:
        return f"det_state_dict_rank{self._context.distributed.rank}.pth"

    def _write_checkpoint(self) -> str:
        context = self._context
        with self._core.checkpoint.store_path(self._metadata(f"torch-{torch.__version__}", "pickle"), shard=context.distributed.size > 1) as (path, uuid):
            folder = pathlib.Path(path)
            self._trial.save(context, folder)
            values = {
                "callbacks": {name: callback.state_dict() for name, callback in self._callbacks.items()},
                "rng_state": _checkpoint.random_state(context),
                "shuffle_seed": self._shuffle_seed,
            }
            if self._chief:
                for callback in self._callbacks.values():
                    callback.on_checkpoint_save_start(values)
            torch.save(values, folder / self._state_file())
            if self._chief:
                write_trial(folder, self._trial, context, self._state)
                _checkpoint.end_write(folder, self._callbacks)
        return str(uuid)

    def _load(self, folder: pathlib.Path, values: dict[str, Any] | None) -> None:
        if values is not None:
            for callback in self._callbacks.values():
                callback.on_checkpoint_load_start(values)
        self._trial.load(self._context, folder)
        if values is not None:
            _checkpoint.load_callbacks(values, self._callbacks)
        _checkpoint.restore_random(None if values is None else values.get("rng_state"), self._context)


class Trainer(_trainer.Trainer):
    """Trains a DeepSpeedTrial; fit() is that of pytorch.Trainer."""

    _loop = DeepSpeedController


@contextlib.contextmanager
def _deepspeed(distributed: core.DistributedContext | None) -> Iterator[core.DistributedContext | None]:
    """Initialises DeepSpeed's processes: those of its launcher or of torchrun, or this one alone. DET_MANUAL_INIT_DISTRIBUTED: the trial has done so."""
    try:
        import deepspeed  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ModuleNotFoundError as error:
        if error.name != "deepspeed":
            raise
        raise ModuleNotFoundError(
            "DeepSpeedTrial: DeepSpeed is not installed; install it in the environment of the trial with: pip install deepspeed", name="deepspeed"
        ) from error
    alone = {}
    if "RANK" not in os.environ:  # Else it would look for MPI.
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ.update(alone)
    try:
        if not os.environ.get("DET_MANUAL_INIT_DISTRIBUTED"):
            deepspeed.init_distributed(auto_mpi_discovery=False)
        if distributed is None and "CROSS_SIZE" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            distributed = core.DistributedContext.from_deepspeed()
        with _trainer.processes(distributed) as ranks:
            yield ranks
    finally:
        for name in alone:
            os.environ.pop(name, None)  # The group stays: DeepSpeed keeps it for the next trial of this process.


@contextlib.contextmanager
def init(
    *,
    hparams: dict[str, Any] | None = None,
    exp_conf: dict[str, Any] | None = None,
    distributed: core.DistributedContext | None = None,
    enable_tensorboard_logging: bool = True,
) -> Iterator[DeepSpeedTrialContext]:
    """The context for a trial and its Trainer; both are used within the block. See pytorch.init(). ModuleNotFoundError: DeepSpeed is not installed."""
    options = {"hparams": hparams, "enable_tensorboard_logging": enable_tensorboard_logging}
    with _deepspeed(distributed) as ranks, open_context(DeepSpeedTrialContext, ranks, set_random_seeds, exp_conf, **options) as context:
        yield context


def train(trial_class: Any, hparams: dict[str, Any], config: dict[str, Any], fit: dict[str, Any]) -> None:
    """Trains one of the class as the launcher asks; fit: arguments of Trainer.fit()."""
    with init(hparams=hparams, exp_conf=config) as context:
        Trainer(trial_class(context), context).fit(**fit)
