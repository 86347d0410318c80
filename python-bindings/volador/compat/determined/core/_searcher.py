"""How long to train."""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING, Any

from volador.compat.determined import util
from volador.compat.determined.core import _preempt, _train
from volador.compat.determined.core._distributed import DistributedContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from volador.compat.determined._session import Session

_logger = logging.getLogger("determined.core")


class Unit(enum.Enum):
    EPOCHS = "EPOCHS"
    RECORDS = "RECORDS"
    BATCHES = "BATCHES"


class SearcherMode(enum.Enum):
    """Who calls operations(). WorkersAskChief: all, in step. ChiefOnly: the chief."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"


class SearcherOperation:
    """A length to train to, counted from the start of the trial, and to validate at."""

    def __init__(self, length: int, is_chief: bool, session: Session | None = None) -> None:
        self._length = length
        self._is_chief = is_chief
        self._session = session
        self._completed = False

    @property
    def length(self) -> int:
        return self._length

    def report_progress(self, length: float) -> None:
        """In the unit of length. RuntimeError: not the chief, or the operation was completed."""
        self._check_chief("report_progress")
        if self._completed and length != self._length:
            raise RuntimeError("SearcherOperation.report_progress: the operation was completed; report progress before report_completed()")
        _logger.debug("progress=%s of=%s", length, self._length)
        if self._session is not None:
            _train.report_progress(self._session, length)

    def report_completed(self, searcher_metric: Any) -> None:
        """Ends the operation. RuntimeError: not the chief, or called before. TypeError: the head needs one number."""
        self._check_chief("report_completed")
        if self._completed:
            raise RuntimeError("SearcherOperation.report_completed: it was called before; call it once for each operation")
        if self._session is not None:
            if not util.is_numerical_scalar(searcher_metric):
                raise TypeError(f"SearcherOperation.report_completed: expected the searcher's metric as one number, got {searcher_metric!r}")
            self._session.call("CompleteTrialOperation", length=self._length, metric=float(searcher_metric))
        self._completed = True
        _logger.info("operation completed length=%s searcher_metric=%s", self._length, util.json_encode(searcher_metric))

    def _check_chief(self, method: str) -> None:
        if not self._is_chief:
            raise RuntimeError(f"SearcherOperation.{method}: only the chief (distributed.rank == 0) may call it")


_WAIT_MS = 2000  # For the search to ask for more; then the trial gives its place to others, and is started again if it is asked.


class SearcherContext:
    """One operation: to the length of the configuration; 1 where there is none. With a session, those of the cluster's search, at the chief.

    acknowledge: called where the operations end because the trial should."""

    def __init__(
        self,
        dist: DistributedContext,
        length: int = 1,
        units: Unit | None = Unit.EPOCHS,
        session: Session | None = None,
        acknowledge: Callable[[], None] = lambda: None,
    ) -> None:
        self._dist = dist
        self._length = length
        self._units = units
        self._session = session
        self._acknowledge = acknowledge

    def operations(self, searcher_mode: SearcherMode = SearcherMode.WorkersAskChief, auto_ack: bool = True) -> Iterator[SearcherOperation]:
        """RuntimeError: the chief did not complete the operation before it asked for the next one."""
        together = SearcherMode(searcher_mode) is SearcherMode.WorkersAskChief
        chief = self._dist.rank == 0
        if not chief and not together:
            raise RuntimeError(f"SearcherContext.operations: with SearcherMode.ChiefOnly only rank 0 may call it, this is rank {self._dist.rank}")
        lengths = self._lengths() if chief else iter(())
        while True:
            length = next(lengths, None)
            if together:
                length = self._dist.broadcast(length)
            if length is None:
                return
            operation = SearcherOperation(length, chief, self._session if chief else None)
            yield operation
            if chief and not operation._completed:
                raise RuntimeError("SearcherContext.operations: the operation was not completed; the chief calls operation.report_completed(metric) on each")

    def _lengths(self) -> Iterator[int]:
        if self._session is None:
            yield self._length
            return
        while True:
            if _preempt.is_requested():
                self._acknowledge()
                return
            length = int(self._session.call("GetTrialOperation", wait_ms=_WAIT_MS).get("length", 0))
            if length == 0:
                return
            yield length

    def acknowledge_out_of_ops(self) -> None:
        """No effect: a trial that ends without an operation is not started again before it is asked."""

    def get_configured_units(self) -> Unit | None:
        """Unit of searcher.max_length; None where that is a bare number."""
        return self._units


DummySearcherContext = SearcherContext
DummySearcherOperation = SearcherOperation
