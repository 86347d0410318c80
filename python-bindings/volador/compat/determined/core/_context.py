"""core.init()."""

from __future__ import annotations

import faulthandler
import logging
import os
import pathlib
import signal
import sys
import tempfile
from typing import Any

from volador import storage
from volador.compat.determined import _config, _info, _session, errors
from volador.compat.determined.core import _preempt
from volador.compat.determined.core._checkpoint import CheckpointContext
from volador.compat.determined.core._distributed import DistributedContext, DummyDistributedContext
from volador.compat.determined.core._preempt import PreemptContext, PreemptMode
from volador.compat.determined.core._searcher import SearcherContext
from volador.compat.determined.core._train import EarlyExitReason, TensorboardMode, TrainContext

_logger = logging.getLogger("determined.core")


class Context:
    """The parts of the Core API; use it as `with core.init() as context`. An InvalidHP that leaves the block ends the process with code 0."""

    def __init__(
        self,
        checkpoint: CheckpointContext,
        distributed: DistributedContext | None = None,
        preempt: PreemptContext | None = None,
        train: TrainContext | None = None,
        searcher: SearcherContext | None = None,
        upload_events: bool = False,
    ) -> None:
        self.checkpoint = checkpoint
        self.distributed: DistributedContext | DummyDistributedContext = distributed or DummyDistributedContext()
        self.preempt: PreemptContext = preempt or PreemptContext(self.distributed)
        self.train: TrainContext = train or TrainContext(distributed=self.distributed)
        self.searcher: SearcherContext = searcher or SearcherContext(self.distributed)
        self.profiler: ProfilerContext = ProfilerContext()
        self._upload_events = upload_events

    def __enter__(self) -> Context:
        self.preempt.start()
        if self._upload_events:
            self.train._keep_events_stored()
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.preempt.close()
        self.distributed.close()
        if self._upload_events:
            self.train._store_last_events()
        if isinstance(value, errors.InvalidHP):
            self.train.report_early_exit(EarlyExitReason.INVALID_HP)
            _logger.warning("InvalidHP ends the trial without a failure: %s", value)
            sys.exit(0)


class ProfilerContext:
    """Kept for programs that turn it on: nodes always record the use of CPU, memory and GPUs of a trial, which its page shows."""

    def on(self, sampling_interval: float = 1, samples_per_report: int = 10) -> None:
        """ValueError: a number that is not above 0."""
        for name, value in (("sampling_interval", sampling_interval), ("samples_per_report", samples_per_report)):
            if not value > 0:
                raise ValueError(f"profiler.on: {name}: expected a number above 0, got {value!r}")
        _logger.debug("the nodes record the use of resources")

    def off(self) -> None:
        """No effect."""


def default_storage() -> str:
    """Where checkpoints lie if nobody names a folder."""
    return os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "determined")


_OBJECT_STORES = ("s3", "gcs", "azure")


def _is_object_store(checkpoint_storage: str | dict[str, Any]) -> bool:
    if isinstance(checkpoint_storage, str):
        return "://" in checkpoint_storage and not checkpoint_storage.startswith("file://")
    return checkpoint_storage.get("type") in _OBJECT_STORES


def storage_of(checkpoint_storage: str | dict[str, Any] | None) -> str | None:
    """A folder from `checkpoint_storage`: a path, or a mapping of type shared_fs or directory; None for an object store. ValueError: neither."""
    if checkpoint_storage is None or _is_object_store(checkpoint_storage):
        return None
    if isinstance(checkpoint_storage, str):
        return os.path.abspath(checkpoint_storage.removeprefix("file://"))
    kind = checkpoint_storage.get("type", "shared_fs")
    base = checkpoint_storage.get({"shared_fs": "host_path", "directory": "container_path"}.get(kind, ""))
    if not isinstance(base, str):
        raise ValueError(
            "checkpoint_storage: expected a path or an address such as s3://bucket/prefix, or type shared_fs with host_path, or type directory with container_path, "
            f"or type {', '.join(_OBJECT_STORES)}; got {checkpoint_storage!r}"
        )
    return os.path.join(os.path.abspath(base), checkpoint_storage.get("storage_path") or "")


def object_store_of(checkpoint_storage: str | dict[str, Any] | None) -> storage.Storage | None:
    """The object store of `checkpoint_storage`; None: it is a folder. ValueError: wrong settings, or rclone is missing."""
    if checkpoint_storage is None or not _is_object_store(checkpoint_storage):
        return None
    return storage.open(checkpoint_storage)


def init(
    *,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
) -> Context:
    """Builds the context of this process.

    distributed: needed for more than one process. checkpoint_storage: a folder; default: the launcher's, then ~/.local/share/determined. With an object
    store (an address such as s3://bucket/prefix, or a mapping) checkpoints are in that folder and in the object store.
    Without a launcher there is one operation, of length 1 in epochs, and metrics go to the log. In a trial of a cluster operations come from its
    search, reports go to its head, checkpoints are in the experiment's storage, and SIGTERM asks to save and end. SIGUSR1 prints the stacks of all
    threads."""
    info = _info.get_cluster_info()
    distributed = distributed or DummyDistributedContext()
    _stacks_on_sigusr1()
    if info is not None and info._session is not None:
        return _in_cluster(info, info._session, distributed, checkpoint_storage, preempt_mode, tensorboard_mode)
    folder = storage_of(checkpoint_storage) or (info._storage if info is not None else None) or default_storage()
    wanted = checkpoint_storage
    if wanted is None and info is not None and info.task_type == "TRIAL":
        wanted = info.trial._config.get("checkpoint_storage")
    train, searcher = TrainContext(distributed=distributed), SearcherContext(distributed)
    if info is not None and info.task_type == "TRIAL":
        length, units = _config.searched_length(info.trial._config)
        train = TrainContext(pathlib.Path(folder) / "tensorboard", distributed=distributed, **_identity(info.trial))
        searcher = SearcherContext(distributed, length, units)
    else:
        _logger.debug("checkpoints are stored in %s", folder)
    return Context(CheckpointContext(distributed, folder, object_store_of(wanted)), distributed, PreemptContext(distributed, preempt_mode), train, searcher)


def _identity(trial: _info.TrialInfo) -> dict[str, Any]:
    goal = trial._config.get("searcher") or {}
    return {
        "trial_id": trial.trial_id,
        "experiment_id": trial.experiment_id,
        "searcher_metric": goal.get("metric"),
        "smaller_is_better": bool(goal.get("smaller_is_better", True)),
    }


def _in_cluster(
    info: _info.ClusterInfo,
    session: _session.Session,
    distributed: DistributedContext,
    checkpoint_storage: str | dict[str, Any] | None,
    preempt_mode: PreemptMode,
    tensorboard_mode: TensorboardMode,
) -> Context:
    """In a trial of a cluster: only the chief reports."""
    trial, chief = info.trial, session if distributed.rank == 0 else None
    wanted = checkpoint_storage or info._checkpoint_storage or trial._config.get("checkpoint_storage")
    store, folder = object_store_of(wanted), storage_of(wanted)
    passing = folder is None  # Through a folder of this machine, to the object store.
    if folder is None:
        folder = os.path.join(os.environ.get("VOLADOR_INFO_DIR") or tempfile.gettempdir(), f"checkpoints-of-trial-{trial.trial_id}")
    events = f"tensorboard/experiment/{trial.experiment_id}/trial/{trial.trial_id}"
    length, units = _config.searched_length(trial._config)
    _preempt.on_sigterm()
    preempt = PreemptContext(distributed, preempt_mode, session)
    train = TrainContext(
        pathlib.Path(folder) / events,
        distributed=distributed,
        session=session,
        searched_length=length,
        event_store=store if distributed.rank == 0 else None,
        event_key=events,
        **_identity(trial),
    )
    searcher = SearcherContext(distributed, length, units, chief, preempt.acknowledge_preemption_signal)
    checkpoint = CheckpointContext(distributed, folder, store, chief, passing)
    return Context(checkpoint, distributed, preempt, train, searcher, upload_events=tensorboard_mode is TensorboardMode.AUTO)


def _stacks_on_sigusr1() -> None:
    try:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    except (AttributeError, ValueError, OSError):  # No such signal here, or no standard error to write to.
        _logger.debug("SIGUSR1 does not print stacks here")
