"""What each trial gets, whatever its framework: hyperparameters, configuration, ranks and where the training is."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import pickle
import random
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from volador.compat.determined import _info, _profiler, core, errors, util
from volador.compat.determined._plan import trial_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from volador.compat.determined._loop import TrialState

_logger = logging.getLogger("determined")


class TrialContext:
    """Base of the frameworks' contexts. _INIT: what makes one, _TRIAL: the trials that get one; for messages."""

    _INIT: ClassVar[str] = "pytorch.init()"
    _TRIAL: ClassVar[str] = "PyTorchTrial"

    def __init__(
        self,
        core_context: core.Context,
        *,
        trial_seed: int | None = None,
        hparams: dict[str, Any] | None = None,
        slots_per_trial: int = 1,
        exp_conf: dict[str, Any] | None = None,
        steps_completed: int = 0,
        enable_tensorboard_logging: bool = True,
    ) -> None:
        self._core = core_context
        self.distributed: core.DistributedContext | core.DummyDistributedContext = core_context.distributed
        self._batch_sizes = util.calculate_batch_sizes(hparams, slots_per_trial, self._TRIAL) if hparams and "global_batch_size" in hparams else None
        self._hparams = hparams
        self._exp_conf = exp_conf
        self._trial_seed = trial_seed
        self._steps_completed = steps_completed
        self._epoch_len: int | None = None
        self._current_batch_idx: int | None = None
        self._stop_requested = False
        self._enable_tensorboard_logging = enable_tensorboard_logging
        self._tbd_writer: Any = None
        self._profiling: _profiler.Profiling | None = _profiler.profiling_of(exp_conf or {})

    # What was configured.

    def get_global_batch_size(self) -> int:
        """Records of all ranks in a batch."""
        return self._sizes()[1]

    def get_per_slot_batch_size(self) -> int:
        """Records of one rank in a batch: the global size divided by the ranks, rounded down."""
        return self._sizes()[0]

    def _sizes(self) -> tuple[int, int]:
        if self._batch_sizes is None:
            raise ValueError(f"batch size: there is no hyperparameter global_batch_size; pass hparams={{'global_batch_size': …}} to {self._INIT}")
        return self._batch_sizes

    def get_hparams(self) -> dict[str, Any]:
        if self._hparams is None:
            raise ValueError(f"hyperparameters: none were given; pass hparams={{…}} to {self._INIT}")
        return self._hparams

    def get_hparam(self, name: str) -> Any:
        hparams = self.get_hparams()
        if name not in hparams:
            raise ValueError(f"hyperparameters: there is no {name!r}, only {sorted(hparams)}; add it to hyperparameters in the configuration")
        return hparams[name]

    def get_experiment_config(self) -> dict[str, Any]:
        if self._exp_conf is None:
            raise ValueError(f"experiment configuration: none was given; pass exp_conf={{…}} to {self._INIT}")
        return self._exp_conf

    def get_data_config(self) -> dict[str, Any]:
        return self.get_experiment_config().get("data") or {}

    def get_experiment_id(self) -> int:
        return self._core.train._exp_id

    def get_trial_id(self) -> int:
        return self._core.train._trial_id

    def get_trial_seed(self) -> int:
        if self._trial_seed is None:
            raise errors.InternalException("trial seed: none was given; set reproducibility.experiment_seed and start with the launcher")
        return self._trial_seed

    def get_initial_batch(self) -> int:
        """Batches that were trained before this run."""
        return self._steps_completed

    # Where the training is.

    def current_train_batch(self) -> int:
        """Index of the batch, from the start of the trial."""
        if self._current_batch_idx is None:
            raise errors.InternalException("current_train_batch: the training has not begun; call it in train_batch() or in callbacks of the training")
        return self._current_batch_idx

    def current_train_epoch(self) -> int:
        return self.current_train_batch() // self._length()

    def is_epoch_start(self) -> bool:
        return self.current_train_batch() % self._length() == 0

    def is_epoch_end(self) -> bool:
        return self.current_train_batch() % self._length() == self._length() - 1

    def _length(self) -> int:
        if self._epoch_len is None:
            raise errors.InternalException("epochs: the training loader has not been built; call it in train_batch() or in callbacks of the training")
        return self._epoch_len

    def get_stop_requested(self) -> bool:
        return self._stop_requested

    def set_stop_requested(self, stop_requested: bool) -> None:
        """True: the training ends at the next report, validation or checkpoint, with a checkpoint."""
        if not isinstance(stop_requested, bool):
            raise AssertionError(f"set_stop_requested: expected True or False, got {stop_requested!r}")
        _logger.info("stop requested=%s", stop_requested)
        self._stop_requested = stop_requested

    # TensorBoard.

    def get_enable_tensorboard_logging(self) -> bool:
        return self._enable_tensorboard_logging

    def set_enable_tensorboard_logging(self, enable_tensorboard_logging: bool) -> None:
        if not isinstance(enable_tensorboard_logging, bool):
            raise AssertionError(f"set_enable_tensorboard_logging: expected True or False, got {enable_tensorboard_logging!r}")
        self._enable_tensorboard_logging = enable_tensorboard_logging

    def get_tensorboard_path(self) -> pathlib.Path:
        return self._core.train.get_tensorboard_path()


@contextlib.contextmanager
def open_context(
    make: Callable[..., TrialContext],
    distributed: core.DistributedContext | None,
    seed: Callable[[int], None],
    exp_conf: dict[str, Any] | None,
    **options: Any,
) -> Iterator[Any]:
    """A context within core.init(). The configuration and the seed are those of the launcher, if there is one."""
    trial = trial_info()
    if trial is not None:
        seed(trial.trial_seed)
    with core.init(distributed=distributed, tensorboard_mode=core.TensorboardMode.MANUAL) as core_context:
        yield make(
            core_context,
            trial_seed=None if trial is None else trial.trial_seed,
            slots_per_trial=core_context.distributed.size,
            exp_conf=exp_conf if trial is None else trial._config,
            steps_completed=0 if trial is None else trial._steps_completed,
            **options,
        )


def set_random_seeds(seed: int) -> None:
    """Of random, numpy and, where it is installed, torch; the same in all processes."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)
    if util.is_installed("torch"):
        import torch  # type: ignore[import-not-found, unused-ignore]

        torch.random.manual_seed(seed)


# What each checkpoint has.


def write_trial(folder: pathlib.Path, trial: Any, context: TrialContext, state: TrialState) -> None:
    """The program in code/, the counters in trial_state.pkl, and in load_data.json what makes the trial; at the chief."""
    info = _info.get_cluster_info()
    source = (info._code if info is not None else None) or "."
    secret = os.environ.get("VOLADOR_INFO_DIR", "")  # With the trial's token.
    util.write_user_code(folder, source, [context._core.checkpoint._storage, *([secret] if secret else [])])
    with open(folder / "trial_state.pkl", "wb") as file:
        pickle.dump(asdict(state), file)
    with open(folder / "load_data.json", "w", encoding="utf-8") as text:
        json.dump(_load_data(type(trial), context), text)


def _load_data(trial_class: type, context: TrialContext) -> dict[str, Any]:
    from volador.compat.determined import __version__

    module = trial_class.__module__
    in_main = module == "__main__"
    if in_main:
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        module = spec.name if spec is not None else pathlib.Path(getattr(main, "__file__", None) or "").stem
    return {
        "trial_type": context._TRIAL,
        "experiment_config": _jsonable(context._exp_conf),
        "hparams": _jsonable(context._hparams),
        "trial_cls_spec": f"{module}:{trial_class.__qualname__}",
        "is_trainer": True,
        "trial_in_main": in_main,
        "determined_version": __version__,
    }


def _jsonable(value: Any) -> Any:
    return None if value is None else json.loads(util.json_encode(value))


def random_state() -> dict[str, Any]:
    """Of random and numpy; restore_random_state() takes it."""
    import numpy as np

    return {"np_rng_state": np.random.get_state(), "random_rng_state": random.getstate()}


def restore_random_state(states: dict[str, Any]) -> None:
    import numpy as np

    np.random.set_state(states["np_rng_state"])
    random.setstate(states["random_rng_state"])
