"""Training and optimization jobs in the shape of Kubeflow's SDK, on a cluster of Volador.

    from volador.kubeflow.trainer import CustomTrainer, TrainerClient
    from volador.kubeflow.optimizer import OptimizerClient, Search

What is stable in that SDK is here: docs/guides/katib-python.md lists it."""

from volador.kubeflow.optimizer import OptimizerClient
from volador.kubeflow.trainer import TrainerClient

__all__ = ["OptimizerClient", "TrainerClient"]
