"""KatibClient: experiments of Katib, in the shape of Katib's SDK."""

from __future__ import annotations

import dataclasses
import logging
import os
import random
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from volador.katib import _resources, models
from volador.katib._program import program_of
from volador.katib.types import TrainerResources

_logger = logging.getLogger(__name__)

_GROUP = "kubeflow.org/v1beta1"
_EXPERIMENT_LABEL = "katib.kubeflow.org/experiment"
_CONTAINER = "training-container"
_INDEX = "https://pypi.org/simple"
_CONDITIONS = ("Created", "Running", "Restarting", "Succeeded", "Failed")


@dataclasses.dataclass(frozen=True)
class Metric:
    name: str
    value: str


@dataclasses.dataclass(frozen=True)
class MetricLog:
    """A value of a metric that a trial reported."""

    time_stamp: str  # RFC 3339.
    metric: Metric


class KatibClient:
    """Experiments of the cluster that volador.init() without arguments connects to. Resources are in `namespace`, unless a call names another.

    The other arguments of Katib's SDK are about Kubernetes; they are accepted and not used. Methods raise RuntimeError where the cluster refuses
    a call, and TimeoutError where it does not answer."""

    def __init__(self, config_file: Any = None, context: Any = None, client_configuration: Any = None, namespace: str = "default") -> None:
        self.namespace = namespace

    # ---- experiments ----

    def create_experiment(self, experiment: models.V1beta1Experiment | Mapping[str, Any], namespace: str | None = None) -> str:
        """Creates an experiment from an object or from the map of its YAML, and returns its name. Of metadata.generateName a name is made.

        Raises ValueError: it has no name; RuntimeError: there is one of the name, or a field is wrong."""
        resource = experiment.to_resource() if isinstance(experiment, models.Model) else _plain(dict(experiment))
        metadata = dict(resource.get("metadata") or {})
        prefix = metadata.pop("generateName", None) or metadata.pop("generate_name", None)
        if not metadata.get("name"):
            if not prefix:
                raise ValueError("experiment: expected metadata.name or metadata.generateName")
            metadata["name"] = prefix + "".join(random.SystemRandom().choices(string.ascii_lowercase + string.digits, k=5))
        resource["metadata"] = metadata
        resource.setdefault("apiVersion", _GROUP)
        resource.setdefault("kind", "Experiment")
        where = namespace or metadata.get("namespace") or self.namespace
        metadata["namespace"] = where
        name = str(metadata["name"])
        for warning in _resources.apply(f"experiment {where}/{name} is not created", resource, where, create_only=True):
            _logger.warning("%s", warning)
        return name

    def tune(
        self,
        name: str,
        objective: Callable[..., Any] | str | Sequence[str],
        parameters: Mapping[str, Any],
        base_image: str | None = None,
        namespace: str | None = None,
        env_per_trial: Mapping[str, str] | Sequence[Any] | None = None,
        algorithm_name: str = "random",
        algorithm_settings: Mapping[str, Any] | Sequence[Any] | None = None,
        objective_metric_name: str | None = None,
        additional_metric_names: Sequence[str] = (),
        objective_type: str = "maximize",
        objective_goal: float | None = None,
        max_trial_count: int | None = None,
        parallel_trial_count: int | None = None,
        max_failed_trial_count: int | None = None,
        resources_per_trial: Mapping[str, Any] | TrainerResources | Any = None,
        retain_trials: bool = False,
        packages_to_install: Sequence[str] | None = None,
        pip_index_url: str = _INDEX,
        metrics_collector_config: Mapping[str, Any] | None = None,
        early_stopping: models.V1beta1EarlyStoppingSpec | Mapping[str, Any] | None = None,
        resume_policy: str | None = None,
        code: str | os.PathLike[str] | None = None,
    ) -> str:
        """Creates an experiment whose trials call a function or run a command. Returns its name.

        objective: a function with one argument, the map of parameters by name; searched ones are texts in it. Trials get its source only:
        it imports in its body what it uses. A text is a command line for bash, a list a command and its arguments; ${trialParameters.NAME} in
        them is the value. parameters: search.double(), search.int() …, or values that are the same in all trials. base_image is accepted and
        not used: trials run in the environment of the nodes. resources_per_trial: a map with cpu, memory and gpu, or
        types.TrainerResources, by which each trial is a PyTorchJob. metrics_collector_config: {"kind": "StdOut"}, {"kind": "Push"}, or the whole
        metricsCollectorSpec. code: a folder that travels with the trials, in which they start; for a function too.

        Raises ValueError: an argument is wrong; and as create_experiment()."""
        if not objective_metric_name:
            raise ValueError("objective_metric_name: expected the name of the metric that the objective reports")
        searched = {key: value for key, value in parameters.items() if isinstance(value, models.V1beta1ParameterSpec)}
        if not searched:
            raise ValueError("parameters: expected at least one of search.double(), search.int(), search.categorical() or search.discrete()")
        if callable(objective):
            texts = {key: f"${{trialParameters.{key}}}" for key in searched}
            command = program_of(objective, parameters, texts, packages=packages_to_install, indexes=[pip_index_url])
        else:
            command = ["bash", "-c", objective] if isinstance(objective, str) else [str(word) for word in objective]
            fixed = [key for key in parameters if key not in searched]
            if fixed or packages_to_install:
                raise ValueError(f"{fixed[0] if fixed else 'packages_to_install'}: a command gets searched parameters only; write it into the command")
        used = {key: value for key, value in searched.items() if callable(objective) or any(f"${{trialParameters.{key}}}" in word for word in command)}
        unused = [key for key in searched if key not in used]
        if unused:
            raise ValueError(f"parameters: the command does not use {unused[0]!r}; write ${{trialParameters.{unused[0]}}} into it")
        spec = models.V1beta1ExperimentSpec(
            objective=models.V1beta1ObjectiveSpec(
                type=objective_type,
                goal=objective_goal,
                objective_metric_name=objective_metric_name,
                additional_metric_names=list(additional_metric_names) or None,
            ),
            algorithm=models.V1beta1AlgorithmSpec(algorithm_name=algorithm_name, algorithm_settings=_settings(algorithm_settings)),
            early_stopping=early_stopping,
            max_trial_count=max_trial_count,
            parallel_trial_count=parallel_trial_count,
            max_failed_trial_count=max_failed_trial_count,
            resume_policy=resume_policy,
            metrics_collector_spec=_collector(metrics_collector_config),
            parameters=[models.V1beta1ParameterSpec(name=key, parameter_type=value.parameter_type, feasible_space=value.feasible_space) for key, value in searched.items()],
            trial_template=_trial_template(command, list(searched), base_image, env_per_trial, resources_per_trial, retain_trials),
        )
        where = namespace or self.namespace
        experiment = models.V1beta1Experiment(
            api_version=_GROUP, kind="Experiment", metadata=models.V1ObjectMeta(name=name, namespace=where), spec=spec
        )
        what = f"experiment {where}/{name} is not created"
        for warning in _resources.apply(what, experiment.to_resource(), where, create_only=True, code=code):
            _logger.warning("%s", warning)
        return name

    def get_experiment(self, name: str, namespace: str | None = None, timeout: float | None = None) -> models.V1beta1Experiment:
        found: models.V1beta1Experiment = self._get(models.V1beta1Experiment, "Experiment", name, namespace)
        return found

    def list_experiments(self, namespace: str | None = None, timeout: float | None = None) -> list[models.V1beta1Experiment]:
        return self._list(models.V1beta1Experiment, "Experiment", namespace)

    def get_experiment_conditions(
        self, name: str, namespace: str | None = None, experiment: models.V1beta1Experiment | None = None, timeout: float | None = None
    ) -> list[models.V1beta1ExperimentCondition]:
        """Its conditions so far; one holds if its status is "True"."""
        experiment = experiment or self.get_experiment(name, namespace)
        return list((experiment.status and experiment.status.conditions) or [])

    def is_experiment_created(
        self, name: str, namespace: str | None = None, experiment: models.V1beta1Experiment | None = None, timeout: float | None = None
    ) -> bool:
        return self._is(name, namespace, experiment, "Created")

    def is_experiment_running(
        self, name: str, namespace: str | None = None, experiment: models.V1beta1Experiment | None = None, timeout: float | None = None
    ) -> bool:
        return self._is(name, namespace, experiment, "Running")

    def is_experiment_restarting(
        self, name: str, namespace: str | None = None, experiment: models.V1beta1Experiment | None = None, timeout: float | None = None
    ) -> bool:
        return self._is(name, namespace, experiment, "Restarting")

    def is_experiment_succeeded(
        self, name: str, namespace: str | None = None, experiment: models.V1beta1Experiment | None = None, timeout: float | None = None
    ) -> bool:
        return self._is(name, namespace, experiment, "Succeeded")

    def is_experiment_failed(
        self, name: str, namespace: str | None = None, experiment: models.V1beta1Experiment | None = None, timeout: float | None = None
    ) -> bool:
        return self._is(name, namespace, experiment, "Failed")

    def wait_for_experiment_condition(
        self,
        name: str,
        namespace: str | None = None,
        expected_condition: str = "Succeeded",
        timeout: float = 600,
        polling_interval: float = 15,
        apiserver_timeout: float | None = None,
    ) -> models.V1beta1Experiment:
        """Waits until the condition holds. A change is seen at once, whatever the polling interval.

        Raises RuntimeError: the experiment has failed, and another condition is expected; TimeoutError: after `timeout` seconds."""
        if expected_condition not in _CONDITIONS:
            raise ValueError(f"expected_condition: expected one of {', '.join(_CONDITIONS)}, got {expected_condition!r}")
        where = namespace or self.namespace
        what = f"experiment {where}/{name} is not {expected_condition}"

        def is_done(_: dict[str, Any], resource: dict[str, Any]) -> bool:
            if _resources.has_condition(resource, expected_condition):
                return True
            if _resources.has_condition(resource, "Failed"):
                failed = [each for each in resource["status"]["conditions"] if each["type"] == "Failed"][0]
                raise RuntimeError(f"{what}: it has failed: {failed.get('reason', '')}: {failed.get('message', '')}")
            return False

        def told(resource: dict[str, Any]) -> None:
            status = resource.get("status", {})
            _logger.debug("experiment %s/%s: %s trials, %s succeeded", where, name, status.get("trials", 0), status.get("trialsSucceeded", 0))

        found = _resources.wait(what, "Experiment", where, name, is_done, timeout, told)
        made: models.V1beta1Experiment = models.V1beta1Experiment.of(_resources.object_of(found))
        return made

    def edit_experiment_budget(
        self,
        name: str,
        namespace: str | None = None,
        max_trial_count: int | None = None,
        parallel_trial_count: int | None = None,
        max_failed_trial_count: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Changes the counts of trials. A larger maxTrialCount continues an experiment that has succeeded by it, unless its resumePolicy is Never.

        Raises ValueError: no count is given."""
        counts = {"maxTrialCount": max_trial_count, "parallelTrialCount": parallel_trial_count, "maxFailedTrialCount": max_failed_trial_count}
        given = {key: value for key, value in counts.items() if value is not None}
        if not given:
            raise ValueError("expected max_trial_count, parallel_trial_count or max_failed_trial_count")
        where = namespace or self.namespace
        what = f"the budget of experiment {where}/{name} is not changed"
        found, _ = _resources.row(what, "Experiment", where, name)
        resource = _resources.object_of(found)
        resource.pop("status", None)
        resource["spec"].update(given)
        _resources.apply(what, resource, where, create_only=False)

    def delete_experiment(self, name: str, namespace: str | None = None, delete_options: Any = None) -> None:
        """Deletes it with its trials, and stops those that run."""
        where = namespace or self.namespace
        _resources.delete(f"experiment {where}/{name} is not deleted", "Experiment", where, name)

    # ---- suggestions and trials ----

    def get_suggestion(self, name: str, namespace: str | None = None, timeout: float | None = None) -> models.V1beta1Suggestion:
        found: models.V1beta1Suggestion = self._get(models.V1beta1Suggestion, "Suggestion", name, namespace)
        return found

    def list_suggestions(self, namespace: str | None = None, timeout: float | None = None) -> list[models.V1beta1Suggestion]:
        return self._list(models.V1beta1Suggestion, "Suggestion", namespace)

    def get_trial(self, name: str, namespace: str | None = None, timeout: float | None = None) -> models.V1beta1Trial:
        found: models.V1beta1Trial = self._get(models.V1beta1Trial, "Trial", name, namespace)
        return found

    def list_trials(self, experiment_name: str | None = None, namespace: str | None = None, timeout: float | None = None) -> list[models.V1beta1Trial]:
        """All trials, or those of an experiment."""
        labels = {_EXPERIMENT_LABEL: experiment_name} if experiment_name else {}
        return self._list(models.V1beta1Trial, "Trial", namespace, labels)

    def get_success_trial_details(
        self, experiment_name: str | None = None, namespace: str | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Maps with name, parameter_assignments and metrics of the trials that have succeeded."""
        return [
            {
                "name": trial.metadata.name,
                "parameter_assignments": trial.spec.parameter_assignments,
                "metrics": trial.status.observation.metrics if trial.status.observation else [],
            }
            for trial in self.list_trials(experiment_name, namespace)
            if _resources.has_condition(trial.to_resource(), "Succeeded")
        ]

    def get_optimal_hyperparameters(self, name: str, namespace: str | None = None, timeout: float | None = None) -> models.V1beta1OptimalTrial | None:
        """The best trial so far with its parameter_assignments and observation; None: no trial has reported."""
        status = self.get_experiment(name, namespace).status
        best: models.V1beta1OptimalTrial | None = status.current_optimal_trial if status else None
        return best if best and best.observation and best.observation.metrics else None

    def get_trial_metrics(
        self, name: str, namespace: str | None = None, db_manager_address: str | None = None, timeout: float | None = None
    ) -> list[MetricLog]:
        """All values that the trial reported, by time."""
        reply = _resources.call(f"the metrics of trial {name} cannot be read", "DBManager/GetObservationLog", {"trial_name": name})
        logs = (reply.get("observation_log") or {}).get("metric_logs", [])
        return [MetricLog(str(log["time_stamp"]), Metric(str(log["metric"]["name"]), str(log["metric"]["value"]))) for log in logs]

    # ---- what they share ----

    def _get(self, model: type[models.Model], kind: str, name: str, namespace: str | None) -> Any:
        where = namespace or self.namespace
        found, _ = _resources.row(f"{kind.lower()} {where}/{name} cannot be read", kind, where, name)
        return model.of(_resources.object_of(found))

    def _list(self, model: type[models.Model], kind: str, namespace: str | None, labels: Mapping[str, str] | None = None) -> list[Any]:
        where = namespace or self.namespace
        found, _ = _resources.rows(f"the list of kind {kind} in namespace {where} cannot be read", kind, where, labels=labels)
        return [model.of(_resources.object_of(each)) for each in found]

    def _is(self, name: str, namespace: str | None, experiment: models.V1beta1Experiment | None, condition: str) -> bool:
        return any(each.type == condition and each.status == "True" for each in self.get_experiment_conditions(name, namespace, experiment))


def _plain(value: Any) -> Any:
    if isinstance(value, models.Model):
        return value.to_resource()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _settings(settings: Mapping[str, Any] | Sequence[Any] | None) -> list[Any] | None:
    if isinstance(settings, Mapping):
        return [models.V1beta1AlgorithmSetting(name=str(name), value=str(value)) for name, value in settings.items()]
    return None if settings is None else list(settings)


def _collector(config: Mapping[str, Any] | None) -> dict[str, Any]:
    if config is None:
        return {"collector": {"kind": "StdOut"}}
    return {"collector": {"kind": config["kind"]}} if "kind" in config else dict(config)


def _variables(env: Mapping[str, str] | Sequence[Any] | None) -> list[dict[str, Any]]:
    if env is None:
        return []
    if isinstance(env, Mapping):
        return [{"name": str(name), "value": str(value)} for name, value in env.items()]
    out = []
    for each in env:
        name, value = (each.get("name"), each.get("value")) if isinstance(each, Mapping) else (getattr(each, "name", None), getattr(each, "value", None))
        if not name or value is None:
            raise ValueError(f"env_per_trial: expected a map, or objects with name and value, got {each!r}")
        out.append({"name": str(name), "value": str(value)})
    return out


def resources_of(given: Any) -> dict[str, Any] | None:
    """resources of a container, from a map with cpu, memory, gpu and other names, or an object with limits and requests."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        given = {"limits": getattr(given, "limits", None), "requests": getattr(given, "requests", None)}
    if "limits" in given or "requests" in given:
        return {key: dict(value) for key, value in given.items() if value}
    amounts = {"nvidia.com/gpu" if key == "gpu" else str(key): str(value) for key, value in given.items()}
    return {"limits": amounts, "requests": amounts}


def _trial_template(
    command: Sequence[str], searched: Sequence[str], image: str | None, env: Any, resources: Any, retain: bool
) -> dict[str, Any]:
    is_group = isinstance(resources, TrainerResources)
    name = "pytorch" if is_group else _CONTAINER
    container: dict[str, Any] = {"name": name, "command": list(command)}
    if image:
        container["image"] = image
    variables = _variables(env)
    if variables:
        container["env"] = variables
    amounts = resources_of(resources.resources_per_worker if is_group else resources)
    if amounts:
        container["resources"] = amounts
    if is_group:
        replica = {"template": {"spec": {"containers": [container]}}, "restartPolicy": "Never"}
        replicas = {"Master": {"replicas": 1, **replica}}
        if resources.num_workers > 1:
            replicas["Worker"] = {"replicas": resources.num_workers - 1, **replica}
        spec: dict[str, Any] = {"pytorchReplicaSpecs": replicas, "nprocPerNode": str(resources.num_procs_per_worker)}
        trial_spec = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": spec}
    else:
        trial_spec = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
        }
    return {
        "primaryContainerName": name,
        "retain": retain,
        "trialParameters": [{"name": key, "reference": key} for key in searched],
        "trialSpec": trial_spec,
    }
