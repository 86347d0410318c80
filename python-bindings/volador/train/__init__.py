"""Data-parallel training with PyTorch: one function on many workers, which goes on when workers are lost or come.

    def train(config):
        model = volador.train.torch.prepare_model(Net())
        loader = volador.train.torch.prepare_data_loader(DataLoader(data, batch_size=32, shuffle=True))
        start = 0
        if checkpoint := volador.train.get_checkpoint():
            start = load(checkpoint.path, model)
        for epoch in range(start, config["epochs"]):
            ...
            with volador.train.checkpoint_folder() as folder:
                save(folder, model, epoch + 1)  # On rank 0.
                volador.train.report({"loss": loss}, checkpoint=folder)

    result = TorchTrainer(train, config={"epochs": 10}, num_workers=(2, 4)).fit()
"""

from __future__ import annotations

import inspect
import os
import tempfile
from typing import TYPE_CHECKING, Any

from volador import _core, _notebook, _runtime
from volador.exceptions import InvalidArgumentError
from volador.train import _controller, _progress, _session
from volador.train._controller import Result
from volador.train._session import TrainContext
from volador.tune import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Checkpoint", "Result", "TorchTrainer", "TrainContext", "checkpoint_folder", "get_checkpoint", "get_context", "report"]

_BACKENDS = ("auto", "gloo", "nccl")


class TorchTrainer:
    """Runs function(config), or function(), on workers that form a process group of torch.distributed.

    num_workers: a number, or (least, most): the run takes what the cluster has room for, goes on with fewer when a
    worker is lost, and takes more in at a checkpoint. After each such change the function is started again in the same
    processes, with get_checkpoint() and another get_context().

    config: passed to the function. num_cpus, num_gpus, memory (bytes), resources: of a worker. strategy: of the
    placement of the least workers, as placement_group(). name, storage: results lie in <storage>/<name>_<time>; default
    ~/volador_results. With an address (s3://bucket/prefix, gs://…, azure://…) they are in ~/volador_results and are
    copied to that storage, each checkpoint when it is complete. metric, mode: what lists and the dashboard show. checkpoints_kept: number of checkpoints that are
    not removed, those with the best checkpoint_score (a metric, by mode) or the newest; the last one is always kept.
    max_failures: workers that may be lost, -1: any number. retry_user_errors: an exception of the function counts as
    such a loss. backend: "auto" (NCCL where each worker has a whole GPU, else Gloo), "gloo", "nccl". env: variables of the workers.
    start_timeout: seconds without enough workers after which the run fails. hang_timeout: seconds after which a worker
    that does not answer is ended. collective_timeout: seconds, of torch.distributed. resume_from: a checkpoint to begin with, or
    its path or address; reports go on with the number behind its own.
    progress: "auto" shows the run in the cell of a notebook, "silent" does not."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        config: Mapping[str, Any] | None = None,
        num_workers: int | tuple[int, int] = 1,
        num_cpus: float = 1,
        num_gpus: float = 0,
        memory: int = 0,
        resources: Mapping[str, float] | None = None,
        strategy: str = "PACK",
        name: str | None = None,
        storage: str | os.PathLike[str] | None = None,
        metric: str = "loss",
        mode: str = "min",
        checkpoints_kept: int | None = None,
        checkpoint_score: str | None = None,
        max_failures: int = -1,
        retry_user_errors: bool = False,
        backend: str = "auto",
        env: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
        hang_timeout: float = 30.0,
        collective_timeout: float = 1800.0,
        resume_from: Checkpoint | str | os.PathLike[str] | None = None,
        progress: str = "auto",
    ) -> None:
        if not callable(function):
            raise TypeError(f"TorchTrainer: expected a function, got a {type(function).__name__}")
        least, most = num_workers if isinstance(num_workers, tuple) else (num_workers, num_workers)
        if not 1 <= least <= most:
            raise InvalidArgumentError(f"TorchTrainer: num_workers is {num_workers!r}; expected a number from 1 on, or (least, most) with 1 <= least <= most")
        if mode not in ("min", "max"):
            raise InvalidArgumentError(f'TorchTrainer: mode is {mode!r}; expected "min" or "max"')
        if backend not in _BACKENDS:
            raise InvalidArgumentError(f"TorchTrainer: backend is {backend!r}; expected one of {', '.join(_BACKENDS)}")
        if backend == "nccl" and num_gpus < 1:
            raise InvalidArgumentError(f'TorchTrainer: backend "nccl" needs a whole GPU for each worker, num_gpus is {num_gpus}; give num_gpus=1, or backend="gloo"')
        if progress not in ("auto", "silent"):
            raise InvalidArgumentError(f'TorchTrainer: progress is {progress!r}; expected "auto" or "silent"')
        if checkpoints_kept is not None and checkpoints_kept < 1:
            raise InvalidArgumentError(f"TorchTrainer: checkpoints_kept is {checkpoints_kept}; expected at least 1, or None for all")
        for option, value in (("start_timeout", start_timeout), ("hang_timeout", hang_timeout), ("collective_timeout", collective_timeout)):
            if not value > 0:
                raise InvalidArgumentError(f"TorchTrainer: {option} is {value!r}; expected seconds above 0")
        if max_failures < -1:
            raise InvalidArgumentError(f"TorchTrainer: max_failures is {max_failures}; expected -1 (any number) or more")
        if resume_from is not None and not isinstance(resume_from, Checkpoint):
            place = os.fspath(resume_from)
            resume_from = Checkpoint(place, 0 if _core.is_storage_address(place) else _core.step_of_checkpoint(place))
        if resume_from is not None and not _core.is_storage_address(resume_from.path) and not os.path.isdir(resume_from.path):
            raise InvalidArgumentError(
                f"TorchTrainer: resume_from names {resume_from.path}, which is no folder; give the path of a Checkpoint, or its address in a storage"
            )
        given = dict(config or {})
        parameters = inspect.signature(function).parameters.values()
        needed = [one for one in parameters if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        if len(needed) > 1:
            raise InvalidArgumentError(f"TorchTrainer: the function needs {len(needed)} arguments; expected one (config) or none; functools.partial gives it others")
        takes_config = any(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL) for one in parameters)
        label = str(getattr(getattr(function, "func", function), "__name__", "train"))
        self._progress = progress
        self._options = _controller.Options(
            function=function,
            arguments=(given,) if takes_config else (),
            config=given,
            min_workers=least,
            max_workers=most,
            resources={"num_cpus": num_cpus, "num_gpus": num_gpus, "memory": memory, "resources": dict(resources or {})},
            strategy=strategy,
            name=name or _controller.file_name_of(label),
            storage="" if storage is None else _storage_path(os.fspath(storage)),
            metric=metric,
            mode=mode,
            checkpoints_kept=checkpoints_kept,
            checkpoint_score=checkpoint_score,
            max_failures=max_failures,
            retry_user_errors=retry_user_errors,
            backend=backend,
            env=dict(env or {}),
            start_timeout=start_timeout,
            hang_timeout=hang_timeout,
            collective_timeout=collective_timeout,
            resume_from=resume_from,
        )

    def fit(self) -> Result:
        """Runs the function until it has returned on all workers.

        Raises the exception of the function, with its remote traceback as cause; ActorDiedError (more workers were lost
        than max_failures), UnavailableError (not enough workers within start_timeout), InfeasibleError, CancelledError
        (a user stopped the run on the page)."""
        _runtime.ensure()
        if self._progress == "silent" or not _notebook.is_notebook():
            return _controller.Controller(self._options).run()
        with _progress.Watch(self._options.name, self._options.metric) as watch:
            return _controller.Controller(self._options, watch).run()


def _storage_path(storage: str) -> str:
    """An absolute path, or an address such as s3://bucket/prefix as it is."""
    return storage if _core.is_storage_address(storage) else os.path.abspath(os.path.expanduser(storage))


def report(metrics: Mapping[str, Any], *, checkpoint: Checkpoint | str | os.PathLike[str] | None = None) -> None:
    """On each worker, equally often: ends a step of the run. Waits for the other workers.

    metrics: those of rank 0 count. checkpoint: a folder whose files are copied before this returns; where several
    workers give one, their files are merged. The run goes on from the last one after a loss."""
    _session.current("report").report(metrics, checkpoint)


def get_checkpoint() -> Checkpoint | None:
    """On a worker: what to go on from; None at the begin of a new run."""
    return _session.current("get_checkpoint").checkpoint


def get_context() -> TrainContext:
    """On a worker: its rank and the size of the group."""
    return _session.current("get_context").context


def checkpoint_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for the files of a checkpoint, for a with statement, which removes it."""
    return tempfile.TemporaryDirectory(prefix="volador-checkpoint-")
