"""joblib's parallel calls, and so scikit-learn's n_jobs, as tasks of the cluster:

    volador.util.joblib.register_volador()
    with joblib.parallel_config("volador"):
        search.fit(x, y)
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from joblib.parallel import AutoBatchingMixin, ParallelBackendBase, register_parallel_backend

import volador

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VoladorBackend", "register_volador"]


def _call(function: Callable[[], Any]) -> Any:
    return function()


class VoladorBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """A backend of joblib; joblib.parallel_config("volador", num_gpus=0.5) gives options of volador.task."""

    supports_retrieve_callback = True

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        self.parallel = parallel
        self._task = volador.task(**{"max_retries": 0, **self.backend_kwargs})(_call)
        self._under_way: set[volador.Future[Any]] = set()
        self._lock = threading.Lock()
        return self.effective_n_jobs(n_jobs)

    def effective_n_jobs(self, n_jobs: int) -> int:
        """-1: one for each CPU of the cluster, -2: one fewer, and so on."""
        if n_jobs == 0:
            raise ValueError("joblib: n_jobs is 0; expected a number, or -1 for all CPUs of the cluster")
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(1, int(volador.cluster_resources().get("cpus", 1)) + 1 + n_jobs)

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> volador.Future[Any]:
        future = self._task.remote(func)
        with self._lock:
            self._under_way.add(future)

        def end(ended: volador.Future[Any]) -> None:
            with self._lock:
                self._under_way.discard(ended)
            if callback is not None:
                callback(ended)

        future.add_done_callback(end)
        return future

    def retrieve_result_callback(self, out: volador.Future[Any]) -> Any:
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        with self._lock:
            under_way = list(self._under_way)
        for future in under_way:
            volador.cancel(future, force=True)


def register_volador() -> None:
    """Makes joblib.parallel_config("volador") known."""
    register_parallel_backend("volador", VoladorBackend)
