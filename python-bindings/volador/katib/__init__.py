"""Experiments in the form of Katib, on a cluster of Volador: the client has the shape of Katib's SDK.

    from volador import katib

    def objective(parameters):
        print(f"accuracy={1 - (float(parameters['lr']) - 0.02) ** 2}")

    client = katib.KatibClient()
    client.tune("digits", objective, {"lr": katib.search.double(min=0.01, max=0.03)}, objective_metric_name="accuracy", max_trial_count=12)
    client.wait_for_experiment_condition("digits")
    print(client.get_optimal_hyperparameters("digits"))

docs/guides/katib-python.md describes it."""

from volador.katib import models, search, types
from volador.katib._client import KatibClient, Metric, MetricLog
from volador.katib._report import report_metrics
from volador.katib.models import (
    V1beta1AlgorithmSetting,
    V1beta1AlgorithmSpec,
    V1beta1CollectorSpec,
    V1beta1EarlyStoppingSetting,
    V1beta1EarlyStoppingSpec,
    V1beta1Experiment,
    V1beta1ExperimentCondition,
    V1beta1ExperimentSpec,
    V1beta1ExperimentStatus,
    V1beta1FeasibleSpace,
    V1beta1FileSystemPath,
    V1beta1FilterSpec,
    V1beta1Metric,
    V1beta1MetricsCollectorSpec,
    V1beta1MetricStrategy,
    V1beta1ObjectiveSpec,
    V1beta1Observation,
    V1beta1OptimalTrial,
    V1beta1ParameterAssignment,
    V1beta1ParameterSpec,
    V1beta1SourceSpec,
    V1beta1Suggestion,
    V1beta1Trial,
    V1beta1TrialParameterSpec,
    V1beta1TrialTemplate,
    V1ObjectMeta,
)

__all__ = [
    "KatibClient",
    "Metric",
    "MetricLog",
    "V1ObjectMeta",
    "V1beta1AlgorithmSetting",
    "V1beta1AlgorithmSpec",
    "V1beta1CollectorSpec",
    "V1beta1EarlyStoppingSetting",
    "V1beta1EarlyStoppingSpec",
    "V1beta1Experiment",
    "V1beta1ExperimentCondition",
    "V1beta1ExperimentSpec",
    "V1beta1ExperimentStatus",
    "V1beta1FeasibleSpace",
    "V1beta1FileSystemPath",
    "V1beta1FilterSpec",
    "V1beta1Metric",
    "V1beta1MetricStrategy",
    "V1beta1MetricsCollectorSpec",
    "V1beta1ObjectiveSpec",
    "V1beta1Observation",
    "V1beta1OptimalTrial",
    "V1beta1ParameterAssignment",
    "V1beta1ParameterSpec",
    "V1beta1SourceSpec",
    "V1beta1Suggestion",
    "V1beta1Trial",
    "V1beta1TrialParameterSpec",
    "V1beta1TrialTemplate",
    "models",
    "report_metrics",
    "search",
    "types",
]
