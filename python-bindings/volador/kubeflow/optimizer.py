"""Searches for the arguments of a function: each trial is a TrainJob.

    from volador.kubeflow.optimizer import Objective, OptimizerClient, Search, TrialConfig
    from volador.kubeflow.trainer import CustomTrainer, TrainJobTemplate

    client = OptimizerClient()
    name = client.optimize(
        TrainJobTemplate(trainer=CustomTrainer(func=train)),
        search_space={"lr": Search.loguniform(1e-4, 1e-1)},
        objectives=[Objective(metric="loss")],
        trial_config=TrialConfig(num_trials=20, parallel_trials=4),
    )
    client.wait_for_job_status(name)
    print(client.get_best_results(name))
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from volador.katib import _resources, models
from volador.kubeflow import trainer as _trainer
from volador.kubeflow.trainer import TrainJobTemplate

_GROUP = "kubeflow.org/v1beta1"
_CONTAINER = "node"
_EXPERIMENT_LABEL = "katib.kubeflow.org/experiment"


class Direction(enum.Enum):
    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclasses.dataclass
class Objective:
    """A metric that the function prints: "loss=0.5"."""

    metric: str = "loss"
    direction: Direction | str = Direction.MINIMIZE

    def __post_init__(self) -> None:
        self.direction = Direction(self.direction)


@dataclasses.dataclass
class TrialConfig:
    num_trials: int = 10
    parallel_trials: int = 1
    max_failed_trials: int | None = None


@dataclasses.dataclass
class RandomSearch:
    random_state: int | None = None
    algorithm_name = "random"


@dataclasses.dataclass
class GridSearch:
    algorithm_name = "grid"


@dataclasses.dataclass
class Algorithm:
    """Another algorithm of Katib by its name: Algorithm("tpe", {"random_state": 1})."""

    algorithm_name: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class SearchSpace:
    """Values of one argument; made by Search."""

    parameter: models.V1beta1ParameterSpec
    is_literal: bool  # The function gets a number or a boolean, not a text.


class Search:
    @staticmethod
    def uniform(min: float, max: float) -> SearchSpace:
        return _between(min, max, "uniform")

    @staticmethod
    def loguniform(min: float, max: float) -> SearchSpace:
        return _between(min, max, "logUniform")

    @staticmethod
    def choice(values: Sequence[Any]) -> SearchSpace:
        """The function gets numbers and booleans as such if all values are; else texts."""
        is_literal = bool(values) and all(isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)) for value in values)
        space = models.V1beta1FeasibleSpace(list=[str(value) for value in values])
        return SearchSpace(models.V1beta1ParameterSpec(parameter_type="categorical", feasible_space=space), is_literal)


def _between(least: float, greatest: float, distribution: str) -> SearchSpace:
    space = models.V1beta1FeasibleSpace(min=str(least), max=str(greatest), distribution=distribution)
    return SearchSpace(models.V1beta1ParameterSpec(parameter_type="double", feasible_space=space), True)


@dataclasses.dataclass
class Metric:
    name: str
    min: str
    max: str
    latest: str


@dataclasses.dataclass
class Result:
    parameters: dict[str, str]
    metrics: list[Metric]


@dataclasses.dataclass
class Trial:
    name: str
    parameters: dict[str, str]
    status: str
    metrics: list[Metric]


@dataclasses.dataclass
class OptimizationJob:
    name: str
    search_space: dict[str, Any]  # feasibleSpace by name.
    objectives: list[Objective]
    algorithm: Algorithm
    trial_config: TrialConfig
    trials: list[Trial]
    creation_timestamp: datetime.datetime | None
    status: str


class OptimizerClient:
    """Searches in the cluster that volador.init() without arguments connects to; each is an Experiment of Katib. Methods raise RuntimeError where the
    cluster refuses a call, and TimeoutError where it does not answer."""

    def __init__(self, backend_config: Any = None) -> None:
        self.namespace: str = str(getattr(backend_config, "namespace", None) or "default")

    def optimize(
        self,
        trial_template: TrainJobTemplate,
        *,
        trial_config: TrialConfig | None = None,
        search_space: Mapping[str, Any],
        objectives: Sequence[Objective] | None = None,
        algorithm: Any = None,
    ) -> str:
        """Creates a search and returns its name. The first objective counts, the others are shown. algorithm: RandomSearch() if None.

        Raises ValueError: an argument is wrong."""
        if not search_space:
            raise ValueError("search_space: expected at least one argument with Search.uniform(), Search.loguniform() or Search.choice()")
        spaces: dict[str, SearchSpace] = {}
        for key, value in search_space.items():
            if isinstance(value, models.V1beta1ParameterSpec):
                value = SearchSpace(value, value.parameter_type in ("double", "int", "discrete"))
            if not isinstance(value, SearchSpace):
                raise ValueError(f"search_space: {key}: expected Search.uniform(), Search.loguniform() or Search.choice(), got {value!r}")
            spaces[key] = value
        config = trial_config or TrialConfig()
        first, *others = list(objectives or [Objective()])
        chosen = algorithm or RandomSearch()
        settings = chosen.settings if isinstance(chosen, Algorithm) else dataclasses.asdict(chosen)
        direction = Direction(first.direction)
        texts = {key: f"${{trialParameters.{key}}}" for key in spaces}
        literals = [key for key, space in spaces.items() if space.is_literal]
        spec = models.V1beta1ExperimentSpec(
            objective=models.V1beta1ObjectiveSpec(
                type=direction.value, objective_metric_name=first.metric, additional_metric_names=[each.metric for each in others] or None
            ),
            algorithm=models.V1beta1AlgorithmSpec(
                algorithm_name=chosen.algorithm_name,
                algorithm_settings=[{"name": key, "value": str(value)} for key, value in settings.items() if value is not None] or None,
            ),
            max_trial_count=config.num_trials,
            parallel_trial_count=config.parallel_trials,
            max_failed_trial_count=config.max_failed_trials,
            parameters=[
                models.V1beta1ParameterSpec(name=key, parameter_type=space.parameter.parameter_type, feasible_space=space.parameter.feasible_space)
                for key, space in spaces.items()
            ],
            trial_template={
                "primaryContainerName": _CONTAINER,
                "trialParameters": [{"name": key, "reference": key} for key in spaces],
                "trialSpec": {
                    "apiVersion": "trainer.kubeflow.org/v1alpha1",
                    "kind": "TrainJob",
                    "spec": _trainer.train_job_spec(trial_template.trainer, trial_template.runtime, texts, literals),
                },
            },
        )
        name = _trainer.generated_name()
        metadata = models.V1ObjectMeta(name=name, namespace=self.namespace)
        resource = models.V1beta1Experiment(api_version=_GROUP, kind="Experiment", metadata=metadata, spec=spec).to_resource()
        _resources.apply(f"the search {name} is not created", resource, self.namespace, create_only=True)
        return name

    def list_jobs(self) -> list[OptimizationJob]:
        found, _ = _resources.rows("the searches cannot be listed", "Experiment", self.namespace)
        return [self._job(_resources.object_of(row)) for row in found]

    def get_job(self, name: str) -> OptimizationJob:
        found, _ = _resources.row(f"the search {name} cannot be read", "Experiment", self.namespace, name)
        return self._job(_resources.object_of(found))

    def get_job_logs(self, name: str, trial_name: str | None = None, follow: bool = False) -> Iterator[str]:
        """The output of a trial: of the best one so far, or the first one."""
        what = f"the output of the search {name} cannot be read"
        if trial_name is None:
            found, _ = _resources.row(what, "Experiment", self.namespace, name)
            best = _resources.object_of(found).get("status", {}).get("currentOptimalTrial") or {}
            trial_name = best.get("bestTrialName") or next((row["name"] for row in self._trial_rows(name)), None)
        if trial_name is None:
            return iter(())
        found, _ = _resources.row(what, "Trial", self.namespace, trial_name)
        return _trainer.lines_of(str(found.get("job") or ""), 0, follow)

    def get_best_results(self, name: str) -> Result | None:
        """None: no trial has a result yet."""
        found, _ = _resources.row(f"the search {name} cannot be read", "Experiment", self.namespace, name)
        best = _resources.object_of(found).get("status", {}).get("currentOptimalTrial")
        if not best or not best.get("bestTrialName"):
            return None
        return Result(_assignments(best), _metrics(best))

    def wait_for_job_status(
        self, name: str, status: Collection[str] = frozenset({"Complete"}), timeout: float = 3600, polling_interval: float = 2
    ) -> OptimizationJob:
        """Waits for one of these statuses: Created, Running, Complete, Failed.

        Raises RuntimeError: it has failed, and that is not expected; TimeoutError: after `timeout` seconds."""
        _trainer.check_statuses(status)

        def is_done(_: dict[str, Any], resource: dict[str, Any]) -> bool:
            now = _trainer.status_of(resource)
            if now == "Failed" and now not in status:
                raise RuntimeError(f"the search {name} has failed")
            return now in status or (now in ("Running", "Complete") and "Created" in status)

        what = f"the search {name} is not {' or '.join(sorted(status))}"
        return self._job(_resources.object_of(_resources.wait(what, "Experiment", self.namespace, name, is_done, timeout)))

    def delete_job(self, name: str) -> None:
        """Deletes it with its trials, and stops those that run."""
        _resources.delete(f"the search {name} is not deleted", "Experiment", self.namespace, name)

    def _trial_rows(self, name: str) -> list[dict[str, Any]]:
        return _resources.rows(f"the trials of {name} cannot be listed", "Trial", self.namespace, labels={_EXPERIMENT_LABEL: name})[0]

    def _job(self, resource: Mapping[str, Any]) -> OptimizationJob:
        spec, name = resource["spec"], str(resource["metadata"]["name"])
        objective = spec["objective"]
        metrics = [objective["objectiveMetricName"], *objective.get("additionalMetricNames", [])]
        trials = [_resources.object_of(row) for row in self._trial_rows(name)]
        algorithm = spec.get("algorithm", {})
        return OptimizationJob(
            name=name,
            search_space={each["name"]: each["feasibleSpace"] for each in spec.get("parameters", [])},
            objectives=[Objective(metric, objective["type"]) for metric in metrics],
            algorithm=Algorithm(
                str(algorithm.get("algorithmName", "")), {each["name"]: each["value"] for each in algorithm.get("algorithmSettings") or []}
            ),
            trial_config=TrialConfig(int(spec.get("maxTrialCount") or 0), int(spec.get("parallelTrialCount") or 0), spec.get("maxFailedTrialCount")),
            trials=[
                Trial(
                    str(trial["metadata"]["name"]), _assignments(trial.get("spec", {})), _trainer.status_of(trial), _metrics(trial.get("status", {}))
                )
                for trial in trials
            ],
            creation_timestamp=_trainer.time_of(resource["metadata"].get("creationTimestamp")),
            status=_trainer.status_of(resource),
        )


def _assignments(of: Mapping[str, Any]) -> dict[str, str]:
    return {str(each["name"]): str(each["value"]) for each in of.get("parameterAssignments") or []}


def _metrics(of: Mapping[str, Any]) -> list[Metric]:
    found = (of.get("observation") or {}).get("metrics") or []
    return [Metric(str(each["name"]), str(each.get("min")), str(each.get("max")), str(each.get("latest"))) for each in found]


__all__ = [
    "Algorithm",
    "Direction",
    "GridSearch",
    "Metric",
    "Objective",
    "OptimizationJob",
    "OptimizerClient",
    "RandomSearch",
    "Result",
    "Search",
    "SearchSpace",
    "Trial",
    "TrialConfig",
]
