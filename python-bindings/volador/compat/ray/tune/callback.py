"""ray.tune.Callback, called on a thread of the run. An exception ends the run and is raised by fit()."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from volador import tune as _tune
from volador.compat.ray.tune.experiment import Trial
from volador.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Callback:
    """on_step_begin, on_step_end, get_state and set_state are never called. trials: those that have been told of so far."""

    def setup(self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None, **info: Any) -> None:
        pass

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        pass

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        pass

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        pass

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        pass

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        pass

    def on_trial_result(self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any) -> None:
        pass

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        pass

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        pass

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        pass

    def on_checkpoint(self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: _tune.Checkpoint, **info: Any) -> None:
        pass

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        pass


class LoggerCallback(Callback):
    """ray.tune.logger.LoggerCallback."""

    def log_trial_start(self, trial: Trial) -> None:
        pass

    def log_trial_restore(self, trial: Trial) -> None:
        pass

    def log_trial_save(self, trial: Trial) -> None:
        pass

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        pass

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        pass

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_save(trial)

    def on_trial_result(self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any) -> None:
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_end(trial, failed=True)


class _Adapter(_tune.Callback):
    """Makes Ray's calls of Volador's."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        self.trials: dict[str, Trial] = {}
        self.iteration = 0

    def setup(self, name: str, directory: str, num_trials: int | None, resumed: bool) -> None:
        self.callback.setup(stop=None, num_samples=num_trials, total_num_samples=num_trials, experiment_name=name, experiment_path=directory)

    def on_trial_start(self, trial: _tune.Trial) -> None:
        self._tell(self.callback.on_trial_start, trial)

    def on_trial_restore(self, trial: _tune.Trial, checkpoint: _tune.Checkpoint) -> None:
        self._tell(self.callback.on_trial_restore, trial)

    def on_trial_result(self, trial: _tune.Trial, result: dict[str, float]) -> None:
        self._tell(self.callback.on_trial_result, trial, result={**result, "trial_id": trial.trial_id, "config": trial.config})

    def on_checkpoint(self, trial: _tune.Trial, checkpoint: _tune.Checkpoint) -> None:
        self._tell(self.callback.on_trial_save, trial)
        self._tell(self.callback.on_checkpoint, trial, checkpoint=checkpoint)

    def on_trial_recover(self, trial: _tune.Trial) -> None:
        self._tell(self.callback.on_trial_recover, trial)

    def on_trial_error(self, trial: _tune.Trial) -> None:
        self._tell(self.callback.on_trial_error, trial)

    def on_trial_complete(self, trial: _tune.Trial) -> None:
        self._tell(self.callback.on_trial_complete, trial)

    def on_experiment_end(self, analysis: _tune.Analysis) -> None:
        self.callback.on_experiment_end([Trial(trial) for trial in analysis.trials])

    def _tell(self, method: Any, trial: _tune.Trial, **more: Any) -> None:
        self.iteration += 1
        seen = self.trials.setdefault(trial.trial_id, Trial(trial))
        seen._trial = trial
        method(iteration=self.iteration, trials=list(self.trials.values()), trial=seen, **more)


def callbacks_of(callbacks: Sequence[Any] | None) -> list[_tune.Callback]:
    """Ray's and Volador's callbacks as Volador's."""
    found: list[_tune.Callback] = []
    for callback in callbacks or ():
        if isinstance(callback, _tune.Callback):
            found.append(callback)
        elif isinstance(callback, Callback):
            found.append(type(type(callback).__name__, (_Adapter,), {})(callback))
        else:
            raise InvalidArgumentError(f"RunConfig: callbacks has a {type(callback).__name__}; expected an object of a class that derives from tune.Callback")
    return found
