"""Metrics of batches: kept on their device until a report, then reduced over batches and processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import _averages, errors, util
from volador.compat.determined.pytorch._reducer import reduce_values

if TYPE_CHECKING:
    from volador.compat.determined.core import DistributedContext

_KEPT_ELEMENTS_MAX = 1024


def kept(metrics: Any) -> dict[str, Any]:
    """Metrics of a batch that later batches cannot change. Small tensors stay on their device: reading them here would wait for it."""
    if isinstance(metrics, torch.Tensor):
        metrics = {"loss": metrics}
    if not isinstance(metrics, dict):
        raise TypeError(f"train_batch: expected a dictionary of metrics, or a loss, got a {type(metrics).__name__}")
    return {name: _copy(value) if isinstance(value, torch.Tensor) else value for name, value in metrics.items()}


def _copy(value: Any) -> Any:
    value = value.detach()
    if value.device.type == "cpu" and value.dtype is not torch.bfloat16:
        return value.numpy().copy()  # Several times faster than clone() for one number.
    return value.clone() if value.numel() <= _KEPT_ELEMENTS_MAX else value.cpu()


def to_numpy(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: _array(value) if isinstance(value, torch.Tensor) else value for name, value in metrics.items()}


def _array(value: Any) -> Any:
    value = value.detach().cpu()
    return (value.float() if value.dtype is torch.bfloat16 else value).numpy()


def training_metrics(distributed: DistributedContext, batches: list[dict[str, Any]]) -> dict[str, Any] | None:
    """See _averages.training_metrics()."""
    return _averages.training_metrics(distributed, [to_numpy(each) for each in batches])


def validation_metrics(
    distributed: DistributedContext, batches: list[dict[str, Any]], reducers: dict[str, Any]
) -> dict[str, Any]:
    """evaluate_batch()'s metrics reduced over batches, then ranks; {} except at the chief. A rank without batches does not count."""
    mine = {name: reduce_values(reducer, _stack(name, batches)) for name, reducer in reducers.items()} if batches else {}
    if distributed.size < 2:
        return mine
    gathered = distributed.gather((mine, len(batches)))
    if gathered is None:
        return {}
    counted = [(metrics, count) for metrics, count in gathered if count]
    counts = [count for _, count in counted]
    return {name: reduce_values(reducer, np.stack([metrics[name] for metrics, _ in counted]), counts) for name, reducer in reducers.items()}


def _stack(name: str, batches: list[dict[str, Any]]) -> Any:
    try:
        return np.stack([batch[name] for batch in batches])
    except ValueError as error:
        raise ValueError(f"evaluate_batch: metric {name!r} has different shapes in different batches ({error}); return one number, or use a reducer") from None


def united(metrics: dict[str, Any], reduced: dict[str, Any], where: str) -> dict[str, Any]:
    """InvalidExperimentException: a reducer has the name of a metric."""
    for name in reduced:
        if name in metrics:
            raise errors.InvalidExperimentException(f"wrap_reducer: {name!r} is also a metric that {where} returns; rename one of them")
    return {**metrics, **to_numpy(reduced)}


def write_scalars(writer: Any, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
    """TensorBoard tags Determined/<name>; those of validations begin with val."""
    for name, value in metrics.items():
        if util.is_numerical_scalar(value):
            tag = f"val_{name}" if group == "val" and not name.startswith("val") else name
            writer.add_scalar(f"Determined/{tag}", value, steps_completed)
