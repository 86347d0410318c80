"""A trial with several slots, on the workers of volador.train: it goes on from its last checkpoint when a worker is lost."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING, Any

import volador
from volador import train
from volador.compat.determined import errors
from volador.compat.determined.core import _preempt
from volador.train import _controller, _session

if TYPE_CHECKING:
    from collections.abc import Callable

    from volador.compat.determined._launch import Job

_RESTARTS = 5  # max_restarts where the configuration has none.
_LATEST = "latest_checkpoint"  # File in the run's folder with the id of the last checkpoint.


def run(job: Job, slots: int, work: Callable[[Job, Callable[[str, int, dict[str, Any]], None]], None], say: Callable[[str], None]) -> None:
    """Runs work(job, listener) on `slots` workers, each with a GPU where the cluster has that many.

    Raises what the trial raised after max_restarts restarts, and what TorchTrainer.fit() raises."""
    config, searcher = job.document.config, job.document.config["searcher"]
    cluster = volador.cluster_resources()
    has_gpus = cluster.get("gpus", 0) >= slots
    say(f"{slots} workers, each with {'a GPU' if has_gpus else 'a share of the CPUs: the cluster has fewer GPUs'}")
    result = train.TorchTrainer(
        functools.partial(_work, work, job),
        num_workers=slots,
        num_cpus=0 if has_gpus else min(1.0, int(cluster.get("cpus", 1) / slots * 100) / 100),
        num_gpus=1 if has_gpus else 0,
        name=_controller.file_name_of(str(config.get("name") or "trial")),
        storage=job.storage,
        metric=str(searcher.get("metric") or "loss"),
        mode="min" if searcher.get("smaller_is_better", True) else "max",
        max_failures=int(config.get("max_restarts", _RESTARTS)),
        retry_user_errors=True,
    ).fit()
    with contextlib.suppress(OSError):
        say(f"checkpoint: {_latest(result.path)}")


def _work(work: Callable[[Job, Callable[[str, int, dict[str, Any]], None]], None], job: Job) -> None:
    """On a worker."""
    session = _session.current("determined")
    folder = session.context.directory
    with contextlib.suppress(OSError):
        job.checkpoint = _latest(folder)

    waiting: tuple[int, dict[str, Any]] | None = None  # Of the training; a validation at the same step follows.

    def publish() -> None:
        nonlocal waiting
        if waiting is not None:
            session.publish(*waiting)
        waiting = None

    def listen(kind: str, steps: int, values: dict[str, Any]) -> None:
        nonlocal waiting
        if session.context.rank != 0:
            return
        if kind == "checkpoint":
            path = os.path.join(folder, f".{_LATEST}")
            with open(path, "w") as file:
                file.write(str(values["path"]))
            os.replace(path, os.path.join(folder, _LATEST))
            return
        if waiting is not None and waiting[0] == steps:
            values = {**waiting[1], **values}
        else:
            publish()
        waiting = steps, values

    _preempt.asked = session.is_pausing
    try:
        work(job, listen)
    except errors.InvalidHP as error:
        print(f"warning: the trial ends: InvalidHP {error}".rstrip(), flush=True)
    finally:
        publish()
        _preempt.asked = None
    if _preempt.was_preempted():
        raise _session.Left


def _latest(folder: str) -> str:
    with open(os.path.join(folder, _LATEST)) as file:
        return file.read()
