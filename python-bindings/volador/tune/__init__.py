"""Hyperparameter tuning: many trials of a function or class, on the runtime's tuner.

    from volador import tune

    def train(config):
        for epoch in range(10):
            tune.report({"accuracy": ...})

    analysis = tune.run(train, space={"lr": tune.loguniform(1e-4, 1e-1)}, metric="accuracy", mode="max", num_samples=20, scheduler=tune.asha())
    print(analysis.best_config)
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from volador import _code, _core, _html, _notebook, _runtime
from volador.exceptions import InvalidArgumentError
from volador.tune import _custom, _progress, _space, _stop, _trial
from volador.tune._custom import CHECKPOINT, CONTINUE, PAUSE, STOP, WAIT, AskTell, Callback, Scheduler, Searcher, sample
from volador.tune._space import (
    Domain,
    choice,
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
    sample_from,
    uniform,
)
from volador.tune._stop import (
    StopCondition,
    Stopper,
    at_least,
    at_most,
    experiment_plateau,
    max_steps,
    max_time,
    stop_on_nan,
    timeout,
    trial_plateau,
)
from volador.tune._study import MedianPruner, Study, StudyTrial, TrialPruned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


class Trainable:
    """Base of a trial's class; deriving from it is optional. One object is one attempt of one trial.

    self.config holds the configuration. An exception fails the attempt."""

    config: dict[str, Any]

    def setup(self, config: dict[str, Any]) -> None:
        """Called first, once."""

    def step(self) -> Mapping[str, Any]:
        """Runs one training iteration and returns its metrics; "done" other than 0 ends the trial."""
        raise NotImplementedError(f"{type(self).__name__} has no step(), which runs a training iteration and returns its metrics")

    def save_checkpoint(self, directory: str) -> None:
        """Writes what load_checkpoint() needs into this empty directory."""

    def load_checkpoint(self, directory: str) -> None:
        """Called after setup() where the trial continues from a checkpoint."""

    def cleanup(self) -> None:
        """Called last, once; not if the process is killed."""

    def reset_config(self, config: dict[str, Any]) -> bool:
        """With reuse_actors: prepares this object for another trial. False: a new object is made."""
        return False


class Checkpoint:
    """A directory with the files of a checkpoint."""

    def __init__(self, path: str | os.PathLike[str], step: int = 0) -> None:
        self.path: str = os.fspath(path)
        self.step = step  # The training iteration after which it was saved.

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        return cls(path)

    def to_directory(self, path: str | os.PathLike[str]) -> str:
        """Copies the files to a directory and returns it."""
        shutil.copytree(self.path, path, dirs_exist_ok=True)
        return os.fspath(path)

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """The directory, for a with statement."""
        yield self.path

    def __repr__(self) -> str:
        return f"<volador.tune.Checkpoint {self.path}>"


def report(
    metrics: Mapping[str, Any], *, checkpoint: Checkpoint | str | os.PathLike[str] | Callable[[str], Any] | None = None
) -> None:
    """In a trial's function: reports one training iteration; returns when the next one is to run.

    When the trial has ended it does not return: it raises a BaseException that must pass. checkpoint: a function that
    writes the files into the directory that it gets, called only when a checkpoint is due; or a directory to copy."""
    values = _trial.metrics_of(dict(metrics))
    save = None
    if checkpoint is not None and callable(checkpoint):
        save = checkpoint
    elif checkpoint is not None:
        source = checkpoint.path if isinstance(checkpoint, Checkpoint) else os.fspath(checkpoint)
        save = functools.partial(_copy_into, source)
    _core.tune_report(values, save)


def _copy_into(source: str, directory: str) -> None:
    shutil.copytree(source, directory, dirs_exist_ok=True)


def get_checkpoint() -> Checkpoint | None:
    """In a trial: the checkpoint from which this attempt continues; None in a first start."""
    found = _core.trial_checkpoint()
    return None if found is None else Checkpoint(*found)


def get_context() -> dict[str, Any]:
    """In a trial: "trial_id", "trial_name", "experiment", "attempt", "cpus", "gpus"."""
    return dict(_core.trial_context())


def with_parameters(trainable: Any, **parameters: Any) -> Any:
    """The trainable with further arguments of the function, or of the class's constructor: large data, models.

    Each trial's process gets a copy; what is above 100 KiB travels through the object store."""
    return functools.partial(trainable, **parameters)


class _Spec(str):
    """A searcher or scheduler in the runtime's text form."""

    mutations: dict[str, Any] | None = None  # Of pbt and pb2.


def _spec(name: str, options: dict[str, Any]) -> _Spec:
    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    given = ",".join(f"{key}={text(value)}" for key, value in options.items() if value is not None)
    return _Spec(f"{name}:{given}" if given else name)


def random_search() -> str:
    """Independent draws."""
    return _spec("random", {})


def tpe(**options: Any) -> str:
    """Tree-structured Parzen estimators: n_startup_trials, n_ei_candidates, gamma, multivariate, group, constant_liar…"""
    return _spec("tpe", options)


def gp(**options: Any) -> str:
    """A Gaussian process: n_startup_trials, history_max, acquisition ("ei", "pi", "lcb", "hedge"), xi, kappa, optimizer."""
    return _spec("gp", options)


def trees(**options: Any) -> str:
    """An ensemble of regression trees: kind ("rf", "et", "gbrt"), n_startup_trials, history_max, acquisition, xi, kappa."""
    return _spec("trees", options)


def cmaes(**options: Any) -> str:
    """CMA-ES: population, sigma, restarts ("none", "ipop", "bipop")."""
    return _spec("cmaes", options)


def nsga2(**options: Any) -> str:
    """NSGA-II for several objectives: population_size, crossover_prob, mutation_prob…"""
    return _spec("nsga2", options)


def bohb(**options: Any) -> str:
    """BOHB's searcher: max_t, eta, random_fraction…; its scheduler is hb_bohb()."""
    return _spec("bohb", options)


def sobol(**options: Any) -> str:
    """A Sobol sequence."""
    return _spec("sobol", options)


def automatic(**options: Any) -> str:
    """Chooses by the space and the number of samples."""
    return _spec("auto", options)


def fifo() -> str:
    """Runs every trial to its end."""
    return _spec("fifo", {})


def asha(**options: Any) -> str:
    """Asynchronous successive halving: max_t, grace_period, reduction_factor, brackets."""
    return _spec("asha", options)


def hyperband(**options: Any) -> str:
    """HyperBand: max_t, eta."""
    return _spec("hyperband", options)


def hb_bohb(**options: Any) -> str:
    """HyperBand for the searcher bohb(): max_t, eta."""
    return _spec("hb_bohb", options)


def median_stopping(**options: Any) -> str:
    """Ends trials whose mean is below the median of the others': grace_period, min_samples_required."""
    return _spec("median_stopping", options)


def pbt(mutations: dict[str, Any] | None = None, **options: Any) -> str:
    """Population-based training: perturbation_interval, quantile_fraction, resample_probability, burn_in_period, synch.

    mutations: the parameters that change, with their domains; None: all parameters of the space that are domains."""
    made = _spec("pbt", options)
    made.mutations = mutations
    return made


def pb2(mutations: dict[str, Any] | None = None, **options: Any) -> str:
    """PBT that explores by a Gaussian process: perturbation_interval, quantile_fraction. mutations: as for pbt()."""
    made = _spec("pb2", options)
    made.mutations = mutations
    return made


class Trial:
    """One trial of an analysis: trial_id, config, status, last_result, results (every report), error, and all else of
    the run's JSON in `fields`."""

    def __init__(self, fields: dict[str, Any], directory: str) -> None:
        self.fields = fields
        self._directory = directory  # Of the run.
        self.trial_id: str = fields["trial_id"]
        self.config: dict[str, Any] = fields.get("config", {})
        self.status: str = fields.get("status", "")
        self.last_result: dict[str, float] = fields.get("last_result", {})
        self.results: list[dict[str, float]] = fields.get("results", [])
        kept = fields.get("checkpoints") or [{"step": 0}]
        self.checkpoint_step: int = int(kept[-1]["step"])  # Of the last checkpoint; 0: there is none.

    @property
    def error(self) -> str:
        return str(self.fields.get("error", ""))

    @property
    def path(self) -> str:
        """The directory of the trial's files."""
        return os.path.join(self._directory, self.fields.get("folder") or self.trial_id)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The last checkpoint that is kept, unpacked."""
        kept = self.fields.get("checkpoints")
        if not kept:
            return None
        step = int(kept[-1]["step"])
        return Checkpoint(_core.unpacked_checkpoint(os.path.join(self._directory, kept[-1]["location"]), step), step)

    def __repr__(self) -> str:
        return f"<volador.tune.Trial {self.trial_id} {self.status}>"

    def _repr_html_(self) -> str:
        values = {**_html.flattened(self.config), **self.last_result}
        rows = [_html.Row([name, value]) for name, value in values.items()]
        title = f"Trial {self.trial_id}"
        errors = [(self.status, self.error)] if self.error else []
        return _html.page(_html.Page(title, self.status, tables=[_html.Table(["name", "value"], rows)], errors=errors, footer=_html.display_path(self.path)))


class Analysis:
    """Results of a run. Methods take another metric and mode than the run's."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._fields: dict[str, Any] = {}  # Of the run's JSON.
        self._trials: list[Trial] | None = None

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Analysis:
        """The results of an earlier run, from its directory."""
        return cls(_core.load_analysis(os.fspath(directory)))

    @property
    def directory(self) -> str:
        return str(self._core.directory)

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped by a signal."""
        return bool(self._core.interrupted)

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order in which they were suggested."""
        if self._trials is None:
            self._fields = json.loads(self._core.as_json())
            self._trials = [Trial(fields, self.directory) for fields in self._fields["trials"]]
        return self._trials

    def best_trial(self, metric: str | None = None, mode: str | None = None) -> Trial:
        """Raises InvalidArgumentError: the metric was never reported; NotFoundError: it was always NaN."""
        return self._trial(self._core.best_trial(metric or "", mode or ""))

    @property
    def best_config(self) -> dict[str, Any]:
        return self.best_trial().config

    @property
    def best_result(self) -> dict[str, float]:
        return self.best_trial().last_result

    def best_checkpoint(self, metric: str | None = None, mode: str | None = None) -> Checkpoint:
        """The checkpoint of the best trial that has one. Raises NotFoundError."""
        return Checkpoint(self._core.best_checkpoint(metric or "", mode or ""))

    def ranking(self, metric: str | None = None, mode: str | None = None) -> list[Trial]:
        """Best first."""
        return [self._trial(each) for each in self._core.ranking(metric or "", mode or "")]

    def pareto_front(self) -> list[Trial]:
        """With objectives: the trials that no other dominates."""
        return [self._trial(each) for each in self._core.pareto_front()]

    def results_df(self) -> Any:
        """All reports as a pandas DataFrame: trial_id, config/…, metrics. Needs pandas."""
        import io

        import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return pandas.read_csv(io.StringIO(self._core.as_csv()))

    def _trial(self, trial_id: str) -> Trial:
        return next(trial for trial in self.trials if trial.trial_id == trial_id)

    def __repr__(self) -> str:
        return f"<volador.tune.Analysis {len(self.trials)} trials in {self.directory}>"

    def _repr_html_(self) -> str:
        trials = {trial.trial_id: trial.fields for trial in self.trials}
        return _html.page(_progress.page_of(_progress.ended(self._core, self._fields, trials)))


def run(
    trainable: Any,
    *,
    name: str | None = None,
    space: dict[str, Any] | None = None,
    metric: str | None = None,
    mode: str = "max",
    num_samples: int = 1,
    searcher: str | Searcher = "random",
    scheduler: str | Scheduler = "fifo",
    callbacks: Sequence[Callback] = (),
    stop: _stop.Stop | None = None,
    resources_per_trial: Mapping[str, float] | None = None,
    max_concurrent_trials: int = 0,
    time_budget: float | None = None,
    max_failures: int = 0,
    fail_fast: bool = False,
    objectives: Mapping[str, str] | None = None,
    constraints: Sequence[str] = (),
    checkpoint_frequency: int = 0,
    checkpoint_at_end: bool = False,
    checkpoints_kept: int | None = None,
    checkpoint_score: str | None = None,
    storage_path: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    step_timeout: float | None = None,
    start_timeout: float = 60.0,
    progress: str = "auto",
    trial_name: str = "",
    tags: Sequence[str] = (),
    tensorboard: bool = True,
    log_to_file: bool = False,
) -> Analysis:
    """Runs trials until all have ended, and returns the results.

    trainable: a function of a configuration that calls report(), or a class in the shape of Trainable. space: constants
    and domains. searcher and scheduler: tune.tpe(…), tune.asha(…), their text form "tpe:n_startup_trials=5", or objects of
    your own classes, see Searcher, AskTell, Scheduler; callbacks: see Callback. An exception of these is raised, and the run
    can be resumed. stop: a trial ends when a metric reaches its value, {"accuracy": 0.99}; also conditions, as
    max_steps(100) and trial_plateau(), functions of trial_id and result, objects of Stopper, and lists of these, any of which is
    sufficient. resources_per_trial: num_cpus (default 1), num_gpus, memory, custom ones.
    time_budget, step_timeout, start_timeout: seconds. num_samples=-1: until something stops the run. resume: directory
    of an earlier run. progress: "auto" (a table on a terminal or in a notebook, else lines), "lines" or "silent". The first
    Ctrl-C lets trials save and stop.

    Raises InvalidArgumentError, InfeasibleError, and TaskError if a trial failed for good and raise_on_failed_trial."""
    if progress not in ("auto", "lines", "silent"):
        raise InvalidArgumentError(f'progress is {progress!r}; expected "auto", "lines" or "silent"')
    is_watched = progress == "auto" and _notebook.is_notebook()
    label = _label_of(trainable)
    watch = _progress.Watch(name or label, space or {}, metric, mode, objectives or ()) if is_watched else None
    functions = _custom.functions_of_run(space or {})
    space_text = _space.to_json(space or {}, functions)
    mutations = getattr(scheduler, "mutations", None)
    mutations_text = _space.to_json(_space.domains_of(space or {}) if mutations is None else mutations, functions)
    conditions, stop_functions = _stop.conditions_of(stop)
    custom = _custom.custom_of(space or {}, searcher, scheduler, callbacks, stop_functions, functions, watch)
    _runtime.ensure()
    options = _core.TuneOptions()
    options.name = name or ""
    options.space = space_text
    options.mutations = mutations_text
    options.metric = metric or ""
    options.mode = mode
    options.num_samples = num_samples
    options.searcher = searcher if isinstance(searcher, str) else ""
    options.scheduler = scheduler if isinstance(scheduler, str) else ""
    options.stop = conditions
    wanted = dict(resources_per_trial or {})
    options.cpus = float(wanted.pop("num_cpus", 1))
    options.gpus = float(wanted.pop("num_gpus", 0))
    options.memory = int(wanted.pop("memory", 0))
    options.resources = {key: float(value) for key, value in wanted.items()}
    options.max_concurrent_trials = max_concurrent_trials
    options.time_budget_s = float(time_budget or 0)
    options.max_failures = max_failures
    options.fail_fast = fail_fast
    options.objectives = list((objectives or {}).items())
    options.constraints = list(constraints)
    options.checkpoint_frequency = checkpoint_frequency
    options.checkpoint_at_end = checkpoint_at_end
    options.checkpoints_kept = checkpoints_kept or 0
    options.checkpoint_score = checkpoint_score or ""
    options.storage_path = os.fspath(storage_path) if storage_path is not None else ""
    options.resume = os.fspath(resume) if resume is not None else ""
    options.seed = seed
    options.reuse_actors = reuse_actors
    options.raise_on_failed_trial = raise_on_failed_trial
    options.step_timeout_s = float(step_timeout or 0)
    options.start_timeout_s = float(start_timeout)
    options.progress = "silent" if is_watched else progress
    options.trial_name = trial_name
    options.tags = list(tags)
    options.tensorboard = tensorboard
    options.log_to_file = log_to_file
    packed = _code.Portable(trainable).packed()
    with _custom.resumable(custom), contextlib.nullcontext() if watch is None else watch:
        return Analysis(_core.tune_run(packed, label, options, custom))


def _label_of(trainable: Any) -> str:
    while isinstance(trainable, functools.partial):
        trainable = trainable.func
    label = str(getattr(trainable, "__name__", "trial"))
    return label if label.isidentifier() else "trial"


__all__ = [
    "Analysis",
    "AskTell",
    "CHECKPOINT",
    "CONTINUE",
    "Callback",
    "Checkpoint",
    "Domain",
    "MedianPruner",
    "PAUSE",
    "STOP",
    "Scheduler",
    "Searcher",
    "StopCondition",
    "Stopper",
    "Study",
    "StudyTrial",
    "Trainable",
    "Trial",
    "TrialPruned",
    "WAIT",
    "asha",
    "at_least",
    "at_most",
    "automatic",
    "bohb",
    "choice",
    "cmaes",
    "experiment_plateau",
    "fifo",
    "get_checkpoint",
    "get_context",
    "gp",
    "trees",
    "grid_search",
    "hb_bohb",
    "hyperband",
    "lograndint",
    "loguniform",
    "max_steps",
    "max_time",
    "median_stopping",
    "nsga2",
    "pb2",
    "pbt",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "random_search",
    "report",
    "run",
    "sample",
    "sample_from",
    "sobol",
    "stop_on_nan",
    "timeout",
    "tpe",
    "trial_plateau",
    "uniform",
    "with_parameters",
]
