"""Reports of a trial. They go to the log, and to a listener that a launcher sets."""

from __future__ import annotations

import enum
import logging
import pathlib
from typing import TYPE_CHECKING, Any

from volador.compat.determined import util
from volador.compat.determined.core._distributed import DistributedContext, DummyDistributedContext

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger("determined.core")

# Called with the kind ("training", "validation", "checkpoint"), the steps completed, and metrics or {"uuid", "path"}.
listener: Callable[[str, int, dict[str, Any]], None] | None = None


def tell(kind: str, steps_completed: int, values: dict[str, Any]) -> None:
    if listener is not None:
        listener(kind, steps_completed, values)


class EarlyExitReason(enum.Enum):
    INVALID_HP = "EXITED_REASON_INVALID_HP"
    USER_REQUESTED_STOP = "EXITED_REASON_USER_REQUESTED_STOP"


class TensorboardMode(enum.Enum):
    """Kept for programs that name it: event files stay where they are written."""

    AUTO = "AUTO"
    MANUAL = "MANUAL"


class TrainContext:
    """Metrics and state of the trial; ids are 0 where no launcher started it.

    searcher_metric: the validation metric whose best value get_experiment_best_validation() gives."""

    def __init__(
        self,
        tensorboard_path: pathlib.Path | None = None,
        *,
        distributed: DistributedContext | None = None,
        trial_id: int = 0,
        experiment_id: int = 0,
        searcher_metric: str | None = None,
        smaller_is_better: bool = True,
    ) -> None:
        self._distributed = distributed or DummyDistributedContext()
        self._tensorboard_path = tensorboard_path or pathlib.Path("tensorboard")
        self._trial_id = trial_id
        self._exp_id = experiment_id
        self._searcher_metric = searcher_metric
        self._smaller_is_better = smaller_is_better
        self._best: float | None = None

    def set_status(self, status: str) -> None:
        """A short text: training, validating, checkpointing."""
        _logger.debug("status=%s", status)

    def report_training_metrics(self, steps_completed: int, metrics: dict[str, Any], batch_metrics: list[dict[str, Any]] | None = None) -> None:
        """batch_metrics: those of each batch since the last report; not kept."""
        self._report("training", steps_completed, metrics)

    def report_validation_metrics(self, steps_completed: int, metrics: dict[str, Any]) -> None:
        """RuntimeError: a metric is None."""
        for name, reported in metrics.items():
            if reported is None:
                raise RuntimeError(f"report_validation_metrics: metric {name!r} is None; expected a number")
        value: Any = metrics.get(self._searcher_metric) if self._searcher_metric else None
        if util.is_numerical_scalar(value) and (self._best is None or (value < self._best if self._smaller_is_better else value > self._best)):
            self._best = float(value)
        self._report("validation", steps_completed, metrics)

    def _report(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        kept = {name: value for name, value in metrics.items() if not isinstance(value, (bytes, bytearray))}
        if listener is None and _logger.isEnabledFor(logging.INFO):
            _logger.info("metrics group=%s steps_completed=%d metrics=%s", group, steps_completed, util.json_encode(kept))
        tell(group, steps_completed, kept)

    def report_progress(self, progress: float) -> None:
        """Share of the work that is done, 0 to 1."""
        _logger.debug("progress=%s", progress)

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        _logger.info("early exit reason=%s", EarlyExitReason(reason).value)

    def get_experiment_best_validation(self) -> float | None:
        """Best value of the searcher's metric that was reported; None before the first, and where no metric is configured."""
        return self._best

    def get_tensorboard_path(self) -> pathlib.Path:
        """Folder for event files; made where it does not exist."""
        self._tensorboard_path.mkdir(parents=True, exist_ok=True)
        return self._tensorboard_path

    def upload_tensorboard_files(self, *args: Any, **kwargs: Any) -> None:
        """No effect: event files stay where they are written."""


DummyTrainContext = TrainContext
