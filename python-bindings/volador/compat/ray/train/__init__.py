"""Ray Train's names on Volador's trainer, and those that trials of Ray Tune use.

An exception of the training function counts as a failure of FailureConfig.max_failures, as in Ray. Without run_config
results lie below ~/volador_results. Datasets of Ray Data are refused."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from volador import train as _train
from volador.compat.ray.tune import Checkpoint, CheckpointConfig, FailureConfig, RunConfig
from volador.compat.ray.tune import get_checkpoint as _get_trial_checkpoint
from volador.compat.ray.tune import report as _report_of_trial
from volador.exceptions import InvalidArgumentError
from volador.train import _session

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "get_checkpoint",
    "get_context",
    "report",
]


@dataclasses.dataclass
class ScalingConfig:
    """num_workers: a number, or (least, most)."""

    num_workers: int | tuple[int, int] = 1
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None
    placement_strategy: str = "PACK"
    trainer_resources: dict[str, float] | None = None  # The trainer runs in the program itself.
    accelerator_type: str | None = None


class Result(_train.Result):
    """ray.train.Result."""

    error: BaseException | None = None  # fit() raises it.

    @classmethod
    def of(cls, result: _train.Result) -> Result:
        return cls(**{field.name: getattr(result, field.name) for field in dataclasses.fields(result)})

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """The kept checkpoint whose report had the best value of the metric."""
        known = [(kept, metrics[metric]) for kept, metrics in self.best_checkpoints if metric in metrics]
        if not known:
            return None
        return (max if mode == "max" else min)(known, key=lambda each: each[1])[0]

    @property
    def metrics_dataframe(self) -> Any:
        """All reports as a pandas.DataFrame."""
        import glob
        import os

        import pandas  # type: ignore[import-untyped,unused-ignore]

        return pandas.read_json(glob.glob(os.path.join(self.path, "train-*", "result.json"))[0], lines=True)


class _Context:
    """ray.train.get_context()."""

    def get_world_rank(self) -> int:
        return _train.get_context().rank

    def get_world_size(self) -> int:
        return _train.get_context().world_size

    def get_local_rank(self) -> int:
        return _train.get_context().local_rank

    def get_local_world_size(self) -> int:
        return _train.get_context().local_world_size

    def get_node_rank(self) -> int:
        return _train.get_context().node_rank

    def get_experiment_name(self) -> str:
        if _session.is_running():
            return _train.get_context().name
        return str(_trial_context("experiment"))

    def get_trial_name(self) -> str:
        return str(_trial_context("trial_name"))

    def get_trial_id(self) -> str:
        return str(_trial_context("trial_id"))


def _trial_context(name: str) -> Any:
    from volador import tune

    return tune.get_context()[name]


def get_context() -> _Context:
    return _Context()


def report(metrics: Mapping[str, Any], checkpoint: Checkpoint | None = None, checkpoint_dir_name: str | None = None, **_: Any) -> None:
    """In the function of a trainer, or of a trial."""
    if _session.is_running():
        _train.report(metrics, checkpoint=checkpoint)
    else:
        _report_of_trial(metrics, checkpoint=checkpoint)


def get_checkpoint() -> Checkpoint | None:
    return _train.get_checkpoint() if _session.is_running() else _get_trial_checkpoint()


def _trainer_options(scaling: ScalingConfig | None, run: RunConfig | None) -> dict[str, Any]:
    """Options of volador.train.TorchTrainer."""
    scaling, run = scaling or ScalingConfig(), run or RunConfig()
    given = dict(scaling.resources_per_worker or {})
    options: dict[str, Any] = {
        "num_workers": scaling.num_workers,
        "num_cpus": given.pop("CPU", 1),
        "num_gpus": given.pop("GPU", 1 if scaling.use_gpu else 0),
        "memory": int(given.pop("memory", 0)),
        "resources": given,
        "strategy": scaling.placement_strategy,
        "name": run.name,
        "storage": run.storage_path,
        "max_failures": (run.failure_config or FailureConfig()).max_failures,
        "retry_user_errors": True,
    }
    if scaling.use_gpu and not options["num_gpus"]:
        raise InvalidArgumentError('ScalingConfig: use_gpu is True, but resources_per_worker has "GPU": 0; leave one of them out')
    if run.checkpoint_config is not None:
        kept = run.checkpoint_config
        options.update(checkpoints_kept=kept.num_to_keep, checkpoint_score=kept.checkpoint_score_attribute)
        if kept.checkpoint_score_attribute is not None:
            options.update(metric=kept.checkpoint_score_attribute, mode=kept.checkpoint_score_order or "max")
    return options
