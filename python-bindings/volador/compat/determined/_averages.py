"""Means of what the batches of a report have, over batches and processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from volador.compat.determined import util

if TYPE_CHECKING:
    from volador.compat.determined.core import DistributedContext


def training_metrics(distributed: DistributedContext, batches: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Means of a report, at the chief; None elsewhere. Each batch's metrics are averaged over the ranks, then over the batches by their ranks."""
    if distributed.size < 2:
        return util.make_metrics(None, batches)
    gathered = distributed.gather(batches)
    if gathered is None:
        return None
    count = max(len(each) for each in gathered)
    rounds = [[each[index] for each in gathered if index < len(each)] for index in range(count)]
    means = [{name: _mean([metrics.get(name) for metrics in each]) for name in each[0]} for each in rounds]
    return util.make_metrics(None, means, [len(each) for each in rounds])


def _mean(values: list[Any]) -> Any:
    try:
        present = [value for value in values if value is not None]
        mean = np.mean(np.array(present)) if present else None
    except (TypeError, ValueError):
        return None
    return np.array(mean) if isinstance(values[0], np.ndarray) else mean


def weighted(parts: list[tuple[dict[str, Any], float]]) -> dict[str, Any]:
    """One dictionary of metrics of several processes, each with a weight; those of weight 0 do not count."""
    counted = [(metrics, weight) for metrics, weight in parts if weight > 0]
    weights = [weight for _, weight in counted]
    names = counted[0][0] if counted else {}
    return {name: np.average([metrics[name] for metrics, _ in counted], axis=0, weights=weights) for name in names}
