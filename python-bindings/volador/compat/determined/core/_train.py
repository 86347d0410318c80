"""Reports of a trial. They go to the head of its cluster, else to the log, and to a listener that a launcher sets."""

from __future__ import annotations

import contextlib
import enum
import logging
import pathlib
from typing import TYPE_CHECKING, Any

from volador import exceptions
from volador.compat.determined import util
from volador.compat.determined.core._distributed import DistributedContext, DummyDistributedContext
from volador.compat.determined.core._events import EventFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from volador.compat.determined._session import Session
    from volador.storage import Storage

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


_REASONS = {EarlyExitReason.INVALID_HP: "invalid_hp", EarlyExitReason.USER_REQUESTED_STOP: "user_requested_stop"}


def report_progress(session: Session, units: float) -> None:
    """Left out while the head is away."""
    with contextlib.suppress(exceptions.UnavailableError, exceptions.UnknownOutcomeError, exceptions.GetTimeoutError):
        session.call("ReportProgress", patience=0, progress=float(units))


class TrainContext:
    """Metrics and state of the trial; ids are 0 where no launcher started it.

    searcher_metric: the validation metric whose best value get_experiment_best_validation() gives. session: of the chief, and of a process that is
    no chief to report its exit. searched_length: what a progress of 1 means. event_store, event_key: object store for event files and their key."""

    def __init__(
        self,
        tensorboard_path: pathlib.Path | None = None,
        *,
        distributed: DistributedContext | None = None,
        trial_id: int = 0,
        experiment_id: int = 0,
        searcher_metric: str | None = None,
        smaller_is_better: bool = True,
        session: Session | None = None,
        searched_length: int = 1,
        event_store: Storage | None = None,
        event_key: str = "",
    ) -> None:
        self._distributed = distributed or DummyDistributedContext()
        self._tensorboard_path = tensorboard_path or pathlib.Path("tensorboard")
        self._trial_id = trial_id
        self._exp_id = experiment_id
        self._searcher_metric = searcher_metric
        self._smaller_is_better = smaller_is_better
        self._best: float | None = None
        self._session = session if self._distributed.rank == 0 else None
        self._any_session = session
        self._searched_length = searched_length
        self._events = None if event_store is None else EventFiles(event_store, event_key, self._tensorboard_path)

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
        if self._session is not None:
            self._session.call("ReportMetrics", group=group, batches=steps_completed, metrics=util.json_encode(kept))
        tell(group, steps_completed, kept)

    def report_metrics(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Metrics of a group with a name of your choice; "training" and "validation" have methods of their own."""
        if group == "validation":
            self.report_validation_metrics(steps_completed, metrics)
        else:
            self._report(group, steps_completed, metrics)

    def report_progress(self, progress: float) -> None:
        """Share of the work that is done, 0 to 1."""
        _logger.debug("progress=%s", progress)
        if self._session is not None:
            report_progress(self._session, progress * self._searched_length)

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        """Any process may call it."""
        reason = EarlyExitReason(reason)
        _logger.info("early exit reason=%s", reason.value)
        if self._any_session is not None:
            self._any_session.call("ReportTrialExit", reason=_REASONS[reason])

    def get_experiment_best_validation(self) -> float | None:
        """Best value of the searcher's metric in the experiment, outside a cluster that was reported here; None before the first, and where no
        metric is configured. At the chief."""
        if self._session is not None:
            best = self._session.call_any("GetExperiment", {"id": self._exp_id}).get("best_metric")
            return None if best is None else float(best)
        return self._best

    def get_tensorboard_path(self) -> pathlib.Path:
        """Folder for event files; made where it does not exist."""
        self._tensorboard_path.mkdir(parents=True, exist_ok=True)
        return self._tensorboard_path

    def upload_tensorboard_files(self, *args: Any, **kwargs: Any) -> None:
        """Copies the chief's event files to the object store of checkpoints; no effect where they are in a shared folder."""
        if self._events is not None:
            self._events.upload()

    def _keep_events_stored(self) -> None:
        """Copies event files from now on, until _store_last_events()."""
        if self._events is not None:
            self._events.start()

    def _store_last_events(self) -> None:
        if self._events is not None:
            self._events.stop()
            self._events.upload()


DummyTrainContext = TrainContext
