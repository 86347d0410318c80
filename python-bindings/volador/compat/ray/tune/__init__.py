"""Ray Tune's names on Volador's tuner: `from volador.compat.ray import tune`.

A stop condition on a metric that is minimised is reached from above (in Ray it would end every trial at its first result)."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import os
from typing import TYPE_CHECKING, Any

from volador import tune as _tune
from volador.exceptions import InvalidArgumentError
from volador.tune import (
    Checkpoint,
    choice,
    get_checkpoint,
    grid_search,
    lograndint,
    loguniform,
    qlograndint,
    qloguniform,
    qrandint,
    qrandn,
    quniform,
    randint,
    randn,
    uniform,
    with_parameters,
)
from volador.tune._functions import Resolved, arguments_of
from volador.compat.ray.tune import callback, experiment, logger, schedulers, search, stopper
from volador.compat.ray.tune.callback import Callback
from volador.compat.ray.tune.stopper import Stopper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class Trainable(_tune.Trainable):
    """ray.tune.Trainable."""

    @property
    def iteration(self) -> int:
        return int(getattr(self, "_iteration", 0))


def report(metrics: Mapping[str, Any] | None = None, *, checkpoint: Any = None, **legacy: Any) -> None:
    """tune.report({"loss": 0.1}, checkpoint=…), and the older tune.report(loss=0.1)."""
    _tune.report({**(metrics or {}), **legacy}, checkpoint=checkpoint)


def sample_from(function: Callable[[Any], Any]) -> Any:
    """The result of a function of the other parameters: sample_from(lambda spec: 2 * spec.config.width).

    The function gets the parameters as spec.config, and as spec itself; or nothing."""
    if arguments_of(function) == 0:
        return _tune.sample_from(function)

    def of_spec(config: Resolved) -> Any:
        spec = copy.copy(config)
        spec["config"] = config
        return function(spec)

    return _tune.sample_from(of_spec)


class _WithResources:
    """A trainable with the resources of its trials, in Ray's names."""

    def __init__(self, trainable: Any, resources: Any) -> None:
        self.trainable = trainable
        self.resources = resources


def with_resources(trainable: Any, resources: Any) -> _WithResources:
    """resources: {"cpu": 2, "gpu": 0.5}, or a PlacementGroupFactory of one bundle."""
    return _WithResources(trainable, resources)


class PlacementGroupFactory:
    """Resources of a trial as bundles; one bundle is there."""

    def __init__(self, bundles: list[dict[str, float]], strategy: str = "PACK") -> None:
        if len(bundles) != 1:
            raise InvalidArgumentError(f"PlacementGroupFactory: {len(bundles)} bundles were given; expected 1 (tune::run of C++ has bundles_per_trial)")
        self.bundles = bundles


@dataclasses.dataclass
class FailureConfig:
    max_failures: int = 0
    fail_fast: bool | str = False


@dataclasses.dataclass
class CheckpointConfig:
    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str | None = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool | None = None


@dataclasses.dataclass
class RunConfig:
    name: str | None = None
    storage_path: str | None = None
    stop: Any = None  # A dictionary of thresholds, a function of trial_id and result, a Stopper, or a list of stoppers.
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    verbose: int | None = None
    callbacks: list[Any] | None = None
    log_to_file: bool = False
    progress_reporter: Any = None  # Volador shows its own table.
    sync_config: Any = None  # Results are copied by the runtime.


@dataclasses.dataclass
class TuneConfig:
    metric: str | None = None
    mode: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: float | None = None
    reuse_actors: bool = False
    trial_name_creator: Any = None
    trial_dirname_creator: Any = None


class Result:
    """One trial of a ResultGrid."""

    def __init__(self, trial: _tune.Trial) -> None:
        self._trial = trial
        self.metrics: dict[str, float] = dict(trial.last_result)
        self.config: dict[str, Any] = trial.config
        self.path: str = trial.path
        self.error: RuntimeError | None = RuntimeError(trial.error) if trial.status == "failed" else None

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The last checkpoint that is kept."""
        return self._trial.checkpoint

    @property
    def metrics_dataframe(self) -> Any:
        import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return pandas.DataFrame(self._trial.results)

    def __repr__(self) -> str:
        return f"Result(metrics={self.metrics}, path={self.path!r})"


class ResultGrid:
    """Results of Tuner.fit()."""

    def __init__(self, analysis: _tune.Analysis) -> None:
        self._analysis = analysis
        self._results = [Result(trial) for trial in analysis.trials]

    @property
    def experiment_path(self) -> str:
        return self._analysis.directory

    @property
    def errors(self) -> list[Exception]:
        return [result.error for result in self._results if result.error is not None]

    @property
    def num_errors(self) -> int:
        return len(self.errors)

    @property
    def num_terminated(self) -> int:
        return len(self) - self.num_errors

    def get_best_result(self, metric: str | None = None, mode: str | None = None, scope: str = "last", **ignored: Any) -> Result:
        if scope != "last":
            raise InvalidArgumentError(f'get_best_result: scope is {scope!r}; expected "last"')
        best = self._analysis.best_trial(metric, mode)
        return next(result for result in self._results if result._trial.trial_id == best.trial_id)

    def get_dataframe(self, **ignored: Any) -> Any:
        """The last report of each trial, with config/… columns."""
        import pandas

        rows = [{**trial.last_result, "trial_id": trial.trial_id, **{f"config/{key}": value for key, value in trial.config.items()}} for trial in self._analysis.trials]
        return pandas.DataFrame(rows)

    def _repr_html_(self) -> str:
        return self._analysis._repr_html_()

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, index: int) -> Result:
        return self._results[index]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)


class Tuner:
    """ray.tune.Tuner."""

    def __init__(
        self, trainable: Any, *, param_space: dict[str, Any] | None = None, tune_config: TuneConfig | None = None, run_config: RunConfig | None = None
    ) -> None:
        self._trainable = trainable
        self._space = param_space or {}
        self._tune = tune_config or TuneConfig()
        self._run = run_config or RunConfig()
        self._resume: str | None = None
        self._grid: ResultGrid | None = None

    def fit(self) -> ResultGrid:
        self._grid = ResultGrid(_start(self._trainable, self._space, self._tune, self._run, self._resume))
        return self._grid

    def get_results(self) -> ResultGrid:
        if self._grid is None:
            raise RuntimeError("Tuner.get_results: call fit() first")
        return self._grid

    @classmethod
    def restore(
        cls, path: str, trainable: Any, *, param_space: dict[str, Any], tune_config: TuneConfig, run_config: RunConfig | None = None, **ignored: Any
    ) -> Tuner:
        """Goes on with the run in this directory. Space and tune_config are those of the run (Ray keeps them itself)."""
        tuner = cls(trainable, param_space=param_space, tune_config=tune_config, run_config=run_config)
        tuner._resume = path
        return tuner

    @classmethod
    def can_restore(cls, path: str) -> bool:
        return os.path.exists(os.path.join(path, "journal.vlj"))


def run(
    trainable: Any,
    *,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    stop: Any = None,
    time_budget_s: float | None = None,
    config: dict[str, Any] | None = None,
    resources_per_trial: Mapping[str, float] | None = None,
    num_samples: int = 1,
    storage_path: str | None = None,
    local_dir: str | None = None,
    search_alg: Any = None,
    scheduler: Any = None,
    checkpoint_config: CheckpointConfig | None = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool = False,
    keep_checkpoints_num: int | None = None,
    checkpoint_score_attr: str | None = None,
    verbose: int | None = None,
    max_failures: int = 0,
    fail_fast: bool = False,
    raise_on_failed_trial: bool = True,
    max_concurrent_trials: int | None = None,
    reuse_actors: bool = False,
    resume: Any = None,
    callbacks: list[Any] | None = None,
    progress_reporter: Any = None,
    log_to_file: bool = False,
) -> _tune.Analysis:
    """ray.tune.run. Returns a volador.tune.Analysis: best_config, best_trial(), best_result, trials, results_df()."""
    if resume:
        raise InvalidArgumentError("tune.run: resume is not there; use Tuner.restore(directory, …)")
    if resources_per_trial is not None:
        trainable = with_resources(trainable, resources_per_trial)
    checkpoints = checkpoint_config or CheckpointConfig(keep_checkpoints_num, checkpoint_score_attr, "max", checkpoint_freq, checkpoint_at_end)
    return _start(
        trainable,
        config or {},
        TuneConfig(metric, mode, search_alg, scheduler, num_samples, max_concurrent_trials, time_budget_s, reuse_actors),
        RunConfig(name, storage_path or local_dir, stop, FailureConfig(max_failures, fail_fast), checkpoints, verbose, callbacks, log_to_file),
        None,
        raise_on_failed_trial,
    )


def _start(trainable: Any, space: dict[str, Any], tune: TuneConfig, run: RunConfig, resume: str | None, raises: bool = False) -> _tune.Analysis:
    resources: dict[str, float] = {}
    if isinstance(trainable, _WithResources):
        wanted = trainable.resources
        given = dict(wanted.bundles[0] if isinstance(wanted, PlacementGroupFactory) else wanted)
        names = {"cpu": "num_cpus", "CPU": "num_cpus", "gpu": "num_gpus", "GPU": "num_gpus"}
        resources = {names.get(str(key), str(key)): value for key, value in given.items()}
        trainable = trainable.trainable
    failures = run.failure_config or FailureConfig()
    checkpoints = run.checkpoint_config or CheckpointConfig()
    is_class = inspect.isclass(trainable.func if isinstance(trainable, functools.partial) else trainable)
    # Each checkpoint that a function reports is kept, as in Ray.
    frequency = checkpoints.checkpoint_frequency or (0 if is_class and not checkpoints.num_to_keep else 1)
    searcher, limit = search.spec_of(tune.search_alg)
    scheduler, metric, mode = schedulers.spec_of(tune.scheduler)
    return _tune.run(
        trainable,
        name=run.name,
        space=space,
        metric=tune.metric or metric,
        mode=tune.mode or mode or "max",
        num_samples=tune.num_samples,
        searcher=searcher,
        scheduler=scheduler,
        callbacks=callback.callbacks_of(run.callbacks),
        stop=stopper.conditions_of(run.stop),
        resources_per_trial=resources,
        max_concurrent_trials=tune.max_concurrent_trials or limit or 0,
        time_budget=tune.time_budget_s,
        max_failures=failures.max_failures,
        fail_fast=bool(failures.fail_fast),
        checkpoint_frequency=frequency,
        checkpoint_at_end=bool(checkpoints.checkpoint_at_end),
        checkpoints_kept=checkpoints.num_to_keep,
        checkpoint_score=checkpoints.checkpoint_score_attribute,
        storage_path=run.storage_path,
        resume=resume,
        reuse_actors=tune.reuse_actors,
        raise_on_failed_trial=raises,
        progress="silent" if run.verbose == 0 else "auto",
        log_to_file=run.log_to_file,
    )


__all__ = [
    "Callback",
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "PlacementGroupFactory",
    "Result",
    "ResultGrid",
    "RunConfig",
    "Stopper",
    "Trainable",
    "TuneConfig",
    "Tuner",
    "callback",
    "choice",
    "experiment",
    "get_checkpoint",
    "grid_search",
    "lograndint",
    "loguniform",
    "logger",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "report",
    "run",
    "sample_from",
    "schedulers",
    "search",
    "stopper",
    "uniform",
    "with_parameters",
    "with_resources",
]
