"""The resources of Katib as objects.

An attribute has the name of Katib's SDK (`parallel_trial_count`) or that of the YAML (`parallelTrialCount`). A member that the resource lacks
is None. to_dict() has the SDK's names, to_resource() those of the YAML."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

# Their members are names of others: labels, resources, whole objects of Kubernetes.
_FREE = {"labels", "annotations", "trialSpec", "runSpec", "primaryPodLabels", "customCollector", "httpGet", "ownerReferences"}

Members: TypeAlias = tuple[str, ...]
Kinds: TypeAlias = "dict[str, type[Model]]"


def yaml_name(name: str) -> str:
    """ "parallel_trial_count" as "parallelTrialCount"."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def sdk_name(name: str) -> str:
    """ "parallelTrialCount" as "parallel_trial_count"."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


class Model:
    """Members of a resource. Two are equal if all their members are."""

    members: ClassVar[Members] = ()  # Names of the YAML.
    kinds: ClassVar[Kinds] = {}  # Of members that are objects, or lists of such.
    _values: dict[str, Any]

    def __init__(self, **members: Any) -> None:
        object.__setattr__(self, "_values", {})
        for name, value in members.items():
            setattr(self, name, value)

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> Any:
        """From an object of the YAML; members that Katib does not have are kept."""
        made = cls()
        made._values.update({name: cls._member(name, value) for name, value in resource.items()})
        return made

    @classmethod
    def _member(cls, name: str, value: Any) -> Any:
        kind = cls.kinds.get(name)
        if kind is None:
            return value
        if isinstance(value, list):
            return [kind.of(each) if isinstance(each, Mapping) else each for each in value]
        return kind.of(value) if isinstance(value, Mapping) else value

    def _key(self, name: str) -> str:
        key = yaml_name(name)
        if key in self.members or key in self._values:
            return key
        near = difflib.get_close_matches(key, self.members, n=1)
        advice = f"; did you mean {sdk_name(near[0])}?" if near else ""
        raise AttributeError(f"{type(self).__name__} has no member {name!r}{advice}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_values":
            raise AttributeError(name)
        return self._values.get(self._key(name))

    def __setattr__(self, name: str, value: Any) -> None:
        key = self._key(name)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = self._member(key, value)

    def __getitem__(self, name: str) -> Any:
        return self._values[name if name in self._values else yaml_name(name)]

    def __contains__(self, name: str) -> bool:
        return name in self._values or yaml_name(name) in self._values

    def to_dict(self) -> dict[str, Any]:
        """With the names of the SDK; members that it lacks are None."""
        names = dict.fromkeys([*self.members, *self._values])
        return {sdk_name(name): _plain(name, self._values.get(name), True) for name in names}

    def to_resource(self) -> dict[str, Any]:
        """With the names of the YAML."""
        return {name: _plain(name, value, False) for name, value in self._values.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.to_resource() == other.to_resource()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{sdk_name(name)}={value!r}' for name, value in self._values.items())})"


def _plain(name: str, value: Any, as_sdk: bool) -> Any:
    if isinstance(value, Model):
        return value.to_dict() if as_sdk and name not in _FREE else value.to_resource()
    if isinstance(value, (list, tuple)):
        return [_plain(name, each, as_sdk) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain(name, each, as_sdk and name not in _FREE) for key, each in value.items()}
    return value


class V1ObjectMeta(Model):
    members: ClassVar[Members] = ("name", "generateName", "namespace", "labels", "annotations", "uid", "creationTimestamp", "resourceVersion", "generation")


class V1beta1MetricStrategy(Model):
    members: ClassVar[Members] = ("name", "value")


class V1beta1ObjectiveSpec(Model):
    members: ClassVar[Members] = ("type", "goal", "objectiveMetricName", "additionalMetricNames", "metricStrategies")
    kinds: ClassVar[Kinds] = {"metricStrategies": V1beta1MetricStrategy}


class V1beta1AlgorithmSetting(Model):
    members: ClassVar[Members] = ("name", "value")


class V1beta1AlgorithmSpec(Model):
    members: ClassVar[Members] = ("algorithmName", "algorithmSettings")
    kinds: ClassVar[Kinds] = {"algorithmSettings": V1beta1AlgorithmSetting}


class V1beta1EarlyStoppingSetting(Model):
    members: ClassVar[Members] = ("name", "value")


class V1beta1EarlyStoppingSpec(Model):
    members: ClassVar[Members] = ("algorithmName", "algorithmSettings")
    kinds: ClassVar[Kinds] = {"algorithmSettings": V1beta1EarlyStoppingSetting}


class V1beta1EarlyStoppingRule(Model):
    members: ClassVar[Members] = ("name", "value", "comparison", "startStep")


class V1beta1FeasibleSpace(Model):
    members: ClassVar[Members] = ("min", "max", "list", "step", "distribution")


class V1beta1ParameterSpec(Model):
    members: ClassVar[Members] = ("name", "parameterType", "feasibleSpace")
    kinds: ClassVar[Kinds] = {"feasibleSpace": V1beta1FeasibleSpace}


class V1beta1ParameterAssignment(Model):
    members: ClassVar[Members] = ("name", "value")


class V1beta1TrialParameterSpec(Model):
    members: ClassVar[Members] = ("name", "description", "reference")


class V1beta1ConfigMapSource(Model):
    members: ClassVar[Members] = ("configMapName", "configMapNamespace", "templatePath")


class V1beta1TrialTemplate(Model):
    members: ClassVar[Members] = (
        "trialSpec",
        "configMap",
        "trialParameters",
        "primaryContainerName",
        "primaryPodLabels",
        "successCondition",
        "failureCondition",
        "retain",
    )
    kinds: ClassVar[Kinds] = {"trialParameters": V1beta1TrialParameterSpec, "configMap": V1beta1ConfigMapSource}


class V1beta1CollectorSpec(Model):
    members: ClassVar[Members] = ("kind", "customCollector")


class V1beta1FilterSpec(Model):
    members: ClassVar[Members] = ("metricsFormat",)


class V1beta1FileSystemPath(Model):
    members: ClassVar[Members] = ("path", "kind", "format")


class V1beta1SourceSpec(Model):
    members: ClassVar[Members] = ("filter", "fileSystemPath", "httpGet")
    kinds: ClassVar[Kinds] = {"filter": V1beta1FilterSpec, "fileSystemPath": V1beta1FileSystemPath}


class V1beta1MetricsCollectorSpec(Model):
    members: ClassVar[Members] = ("collector", "source")
    kinds: ClassVar[Kinds] = {"collector": V1beta1CollectorSpec, "source": V1beta1SourceSpec}


class V1beta1GraphConfig(Model):
    members: ClassVar[Members] = ("numLayers", "inputSizes", "outputSizes")


class V1beta1Operation(Model):
    members: ClassVar[Members] = ("operationType", "parameters")
    kinds: ClassVar[Kinds] = {"parameters": V1beta1ParameterSpec}


class V1beta1NasConfig(Model):
    members: ClassVar[Members] = ("graphConfig", "operations")
    kinds: ClassVar[Kinds] = {"graphConfig": V1beta1GraphConfig, "operations": V1beta1Operation}


class V1beta1ExperimentSpec(Model):
    members: ClassVar[Members] = (
        "objective",
        "algorithm",
        "earlyStopping",
        "parameters",
        "parallelTrialCount",
        "maxTrialCount",
        "maxFailedTrialCount",
        "resumePolicy",
        "metricsCollectorSpec",
        "nasConfig",
        "trialTemplate",
    )
    kinds: ClassVar[Kinds] = {
        "objective": V1beta1ObjectiveSpec,
        "algorithm": V1beta1AlgorithmSpec,
        "earlyStopping": V1beta1EarlyStoppingSpec,
        "parameters": V1beta1ParameterSpec,
        "metricsCollectorSpec": V1beta1MetricsCollectorSpec,
        "nasConfig": V1beta1NasConfig,
        "trialTemplate": V1beta1TrialTemplate,
    }


class V1beta1Metric(Model):
    members: ClassVar[Members] = ("name", "min", "max", "latest")


class V1beta1Observation(Model):
    members: ClassVar[Members] = ("metrics",)
    kinds: ClassVar[Kinds] = {"metrics": V1beta1Metric}


class V1beta1OptimalTrial(Model):
    members: ClassVar[Members] = ("bestTrialName", "observation", "parameterAssignments")
    kinds: ClassVar[Kinds] = {"observation": V1beta1Observation, "parameterAssignments": V1beta1ParameterAssignment}


class V1beta1ExperimentCondition(Model):
    members: ClassVar[Members] = ("type", "status", "reason", "message", "lastUpdateTime", "lastTransitionTime")


class V1beta1TrialCondition(V1beta1ExperimentCondition):
    pass


class V1beta1SuggestionCondition(V1beta1ExperimentCondition):
    pass


class V1beta1ExperimentStatus(Model):
    members: ClassVar[Members] = (
        "startTime",
        "completionTime",
        "lastReconcileTime",
        "conditions",
        "currentOptimalTrial",
        "runningTrialList",
        "pendingTrialList",
        "failedTrialList",
        "succeededTrialList",
        "killedTrialList",
        "earlyStoppedTrialList",
        "metricsUnavailableTrialList",
        "trials",
        "trialsSucceeded",
        "trialsFailed",
        "trialsKilled",
        "trialsPending",
        "trialsRunning",
        "trialsEarlyStopped",
        "trialMetricsUnavailable",
    )
    kinds: ClassVar[Kinds] = {"conditions": V1beta1ExperimentCondition, "currentOptimalTrial": V1beta1OptimalTrial}


class V1beta1Experiment(Model):
    members: ClassVar[Members] = ("apiVersion", "kind", "metadata", "spec", "status")
    kinds: ClassVar[Kinds] = {"metadata": V1ObjectMeta, "spec": V1beta1ExperimentSpec, "status": V1beta1ExperimentStatus}


class V1beta1TrialSpec(Model):
    members: ClassVar[Members] = (
        "objective",
        "parameterAssignments",
        "earlyStoppingRules",
        "runSpec",
        "retainRun",
        "metricsCollector",
        "primaryContainerName",
        "primaryPodLabels",
        "successCondition",
        "failureCondition",
        "labels",
    )
    kinds: ClassVar[Kinds] = {
        "objective": V1beta1ObjectiveSpec,
        "parameterAssignments": V1beta1ParameterAssignment,
        "earlyStoppingRules": V1beta1EarlyStoppingRule,
        "metricsCollector": V1beta1MetricsCollectorSpec,
    }


class V1beta1TrialStatus(Model):
    members: ClassVar[Members] = ("startTime", "completionTime", "lastReconcileTime", "conditions", "observation")
    kinds: ClassVar[Kinds] = {"conditions": V1beta1TrialCondition, "observation": V1beta1Observation}


class V1beta1Trial(Model):
    members: ClassVar[Members] = ("apiVersion", "kind", "metadata", "spec", "status")
    kinds: ClassVar[Kinds] = {"metadata": V1ObjectMeta, "spec": V1beta1TrialSpec, "status": V1beta1TrialStatus}


class V1beta1TrialAssignment(Model):
    members: ClassVar[Members] = ("name", "parameterAssignments", "earlyStoppingRules", "labels")
    kinds: ClassVar[Kinds] = {"parameterAssignments": V1beta1ParameterAssignment, "earlyStoppingRules": V1beta1EarlyStoppingRule}


class V1beta1SuggestionSpec(Model):
    members: ClassVar[Members] = ("algorithm", "earlyStopping", "requests", "resumePolicy")
    kinds: ClassVar[Kinds] = {"algorithm": V1beta1AlgorithmSpec, "earlyStopping": V1beta1EarlyStoppingSpec}


class V1beta1SuggestionStatus(Model):
    members: ClassVar[Members] = ("startTime", "completionTime", "lastReconcileTime", "conditions", "algorithmSettings", "suggestionCount", "suggestions")
    kinds: ClassVar[Kinds] = {
        "conditions": V1beta1SuggestionCondition,
        "algorithmSettings": V1beta1AlgorithmSetting,
        "suggestions": V1beta1TrialAssignment,
    }


class V1beta1Suggestion(Model):
    members: ClassVar[Members] = ("apiVersion", "kind", "metadata", "spec", "status")
    kinds: ClassVar[Kinds] = {"metadata": V1ObjectMeta, "spec": V1beta1SuggestionSpec, "status": V1beta1SuggestionStatus}
