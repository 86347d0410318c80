"""What a TFKerasTrial gets."""

from __future__ import annotations

from typing import Any

from volador.compat.determined import core, errors
from volador.compat.determined._trial_context import TrialContext
from volador.compat.determined.keras import _backend

_UNCHANGED: Any = object()


class TFKerasTrialContext(TrialContext):
    """Made by the launcher. Wrap the model and its optimizers in build_model(), before compile().

    managed_training=False: nothing is shared among processes, as for a checkpoint that is loaded for inference."""

    _INIT = "the launcher"
    _TRIAL = "TFKerasTrial"

    def __init__(self, core_context: core.Context, *, managed_training: bool = True, optimizations: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(core_context, **options)
        optimizations = optimizations or {}
        self._managed_training = managed_training
        self._aggregation_frequency = int(optimizations.get("aggregation_frequency", 1))
        self._average_aggregated_gradients = bool(optimizations.get("average_aggregated_gradients", True))
        self._models: list[Any] = []
        self._optimizers: list[Any] = []
        self._fit: dict[str, Any] = {
            "verbose": True,
            "class_weight": None,
            "workers": 1,
            "use_multiprocessing": False,
            "max_queue_size": 10,
            "shuffle": True,
            "validation_steps": None,
        }

    def configure_fit(
        self,
        verbose: bool | None = None,
        class_weight: Any = _UNCHANGED,
        workers: int | None = None,
        use_multiprocessing: bool | None = None,
        max_queue_size: int | None = None,
        shuffle: bool | None = None,
        validation_steps: Any = _UNCHANGED,
    ) -> None:
        """Arguments of Keras' fit(); what is left out stays as it is. workers: threads that read a sequence; use_multiprocessing has no effect."""
        given = {"verbose": verbose, "workers": workers, "use_multiprocessing": use_multiprocessing, "max_queue_size": max_queue_size, "shuffle": shuffle}
        self._fit.update({name: value for name, value in given.items() if value is not None})
        self._fit.update({name: value for name, value in (("class_weight", class_weight), ("validation_steps", validation_steps)) if value is not _UNCHANGED})

    def wrap_model(self, model: Any) -> Any:
        """Registers the model; call it before model.compile()."""
        self._models.append(model)
        return model

    def wrap_optimizer(self, optimizer: Any) -> Any:
        """Registers an optimizer; processes apply the mean of their gradients. InvalidExperimentException: it cannot be shared or aggregated."""
        if any(optimizer is each for each in self._optimizers):
            return optimizer
        if self._managed_training:
            if isinstance(optimizer, str) and (self.distributed.size > 1 or self._aggregation_frequency > 1):
                raise errors.InvalidExperimentException(f"wrap_optimizer: expected an optimizer, got the name {optimizer!r}; make the object, such as Adam()")
            self._aggregate(optimizer)
            optimizer = self._share(optimizer)
        if not isinstance(optimizer, str):
            self._optimizers.append(optimizer)
        return optimizer

    def _aggregate(self, optimizer: Any) -> None:
        if self._aggregation_frequency == 1:
            return
        inner = _backend.inner_of(optimizer)
        if not _backend.IS_3 or not hasattr(inner, "gradient_accumulation_steps") or inner.built:
            raise errors.InvalidExperimentException("optimizations.aggregation_frequency: it needs Keras 3 and an optimizer that has not been built; set it to 1")
        if not self._average_aggregated_gradients:
            raise errors.InvalidExperimentException("optimizations.average_aggregated_gradients: Keras averages aggregated gradients; set it to true")
        inner.gradient_accumulation_steps = self._aggregation_frequency

    def _share(self, optimizer: Any) -> Any:
        if self.distributed.size == 1:
            return optimizer
        if _backend.backend() == "torch":
            _backend.average_gradients(optimizer)
            return optimizer
        if _backend.backend() == "tensorflow":
            import horovod.tensorflow.keras as hvd  # type: ignore[import-not-found, import-untyped, unused-ignore]

            return hvd.DistributedOptimizer(optimizer)
        raise errors.InvalidExperimentException(
            f"KERAS_BACKEND={_backend.backend()}: several slots need PyTorch or TensorFlow with Horovod as backend; set KERAS_BACKEND=torch"
        )

    def wrap_dataset(self, dataset: Any, shard_dataset: bool = True) -> Any:
        """Shares a tf.data.Dataset among the processes; wrap it as soon as it is made. shard_dataset=False: the trial has done so."""
        if self._managed_training and self.distributed.size > 1 and shard_dataset and hasattr(dataset, "shard"):
            return dataset.shard(self.distributed.size, self.distributed.rank)
        return dataset
