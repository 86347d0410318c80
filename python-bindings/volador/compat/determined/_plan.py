"""What a trainer was asked for."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from volador.compat.determined import _info
from volador.compat.determined._units import TrainUnit, never


@dataclasses.dataclass
class Plan:
    """What fit() was asked for. max_length: for local training; else the searcher has it. searcher_metric: None in local training.
    steps_completed: what the cluster counts at the latest checkpoint, also of an experiment that this one continues."""

    checkpoint_period: TrainUnit
    validation_period: TrainUnit
    reporting_period: TrainUnit
    max_length: TrainUnit | None
    checkpoint_policy: str = "best"
    latest_checkpoint: str | None = None
    step_zero_validation: bool = False
    test_mode: bool = False
    trial_id: int = 0
    steps_completed: int = 0
    searcher_metric: str | None = None
    time_metric: str | None = None
    smaller_is_better: bool = True
    global_batch_size: int | None = None


def trial_info() -> _info.TrialInfo | None:
    """The trial of this process; None where no launcher started it."""
    info = _info.get_cluster_info()
    return info.trial if info is not None and info.task_type == "TRIAL" else None


def plan_of(
    logger: logging.Logger,
    checkpoint_period: TrainUnit | None,
    validation_period: TrainUnit | None,
    max_length: TrainUnit | None,
    reporting_period: TrainUnit,
    checkpoint_policy: str,
    latest_checkpoint: str | None,
    step_zero_validation: bool,
    test_mode: bool,
) -> Plan:
    """Of the arguments of Trainer.fit() and of the launcher's configuration; see there for what it raises."""
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
    trial = trial_info()
    if trial is None:
        if max_length is None:
            raise ValueError("Trainer.fit: max_length is missing; without a launcher give a length such as pytorch.Batch(1000) or pytorch.Epoch(3)")
        if checkpoint_policy == "best":
            logger.info("checkpoint_policy best is all: no searcher metric is configured")
            plan.checkpoint_policy = "all"
    else:
        if test_mode:
            raise ValueError("Trainer.fit: test_mode is for local training; leave it out under a launcher")
        searcher = trial._config.get("searcher") or {}
        plan.time_metric = searcher.get("time_metric")
        if searcher.get("max_length") is None and plan.time_metric is None and max_length is None:
            raise ValueError("Trainer.fit: max_length is missing, and searcher.max_length of the configuration too; give one of them")
        if max_length is not None and searcher.get("max_length") is not None:
            logger.info("max_length of fit() is ignored; searcher.max_length of the configuration decides")
            plan.max_length = None
        size = trial.hparams.get("global_batch_size")
        plan.trial_id = trial.trial_id
        plan.steps_completed = trial._steps_completed
        plan.searcher_metric = searcher.get("metric")
        plan.smaller_is_better = bool(searcher.get("smaller_is_better", True))
        plan.global_batch_size = int(size) if size else None
    if plan.max_length is not None and not isinstance(plan.max_length.value, int):
        raise TypeError(f"Trainer.fit: max_length: expected pytorch.Batch(n) or pytorch.Epoch(n) with an integer, got {max_length!r}")
    return plan
