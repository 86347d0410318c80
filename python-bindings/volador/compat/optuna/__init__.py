"""Optuna's names on Volador's searchers: create_study, Trial.suggest_*, pruning, samplers.

n_jobs above 1 runs the objective in tasks of the cluster, which share no variables (Optuna's are threads). Studies live in
the program: storage is refused; `volador tune` shares studies between programs."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from volador.compat.optuna import pruners, samplers, trial
from volador.exceptions import InvalidArgumentError
from volador.tune import Study as _Study
from volador.tune import TrialPruned
from volador.compat.optuna.trial import Trial, TrialState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Study", "Trial", "TrialPruned", "TrialState", "create_study", "exceptions", "logging", "pruners", "samplers", "study", "trial"]

_MODES = {"minimize": "min", "maximize": "max"}


class StudyDirection:
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class Study:
    """optuna.Study."""

    def __init__(self, core: _Study, name: str, directions: list[str]) -> None:
        self._core = core
        self.study_name = name
        self.directions = directions

    def _repr_html_(self) -> str:
        return self._core._repr_html_()

    @property
    def direction(self) -> str:
        return self.directions[0]

    def optimize(
        self,
        func: Callable[[Trial], float | Sequence[float]],
        n_trials: int | None = None,
        timeout: float | None = None,
        n_jobs: int = 1,
        catch: Any = (),
        callbacks: Sequence[Callable[[Study, trial.FrozenTrial], object]] | None = None,
        gc_after_trial: bool = False,
        show_progress_bar: bool = False,
    ) -> None:
        if n_jobs == -1:
            import volador

            n_jobs = max(1, int(volador.cluster_resources().get("cpus", 1)))
        self._core.optimize(
            trial.Objective(func),
            n_trials,
            timeout=timeout,
            num_jobs=n_jobs,
            catch=tuple(catch) if isinstance(catch, (list, tuple, set)) else catch,
            callbacks=[lambda _, ended, call=call: call(self, trial.FrozenTrial(ended)) for call in callbacks or ()],  # type: ignore[misc]
        )

    def ask(self) -> Trial:
        return Trial(self._core.ask())

    def tell(self, given: Trial | int, values: Any = None, state: TrialState | None = None) -> None:
        core = self._core.trials[given] if isinstance(given, int) else given._core
        self._core.tell(core, None if state is TrialState.FAIL else values)

    def enqueue_trial(self, params: dict[str, Any], **_: Any) -> None:
        self._core.enqueue(params)

    def stop(self) -> None:
        self._core.stop()

    def trials_dataframe(self, **_: Any) -> Any:
        return self._core.trials_dataframe()

    def get_trials(self, deepcopy: bool = True, states: Any = None) -> list[trial.FrozenTrial]:
        found = self.trials
        return found if states is None else [each for each in found if each.state in states]

    @property
    def trials(self) -> list[trial.FrozenTrial]:
        return [trial.FrozenTrial(each) for each in self._core.trials]

    @property
    def best_trial(self) -> trial.FrozenTrial:
        return trial.FrozenTrial(self._core.best_trial)

    @property
    def best_trials(self) -> list[trial.FrozenTrial]:
        return [trial.FrozenTrial(each) for each in self._core.best_trials]

    @property
    def best_value(self) -> float:
        return self._core.best_value

    @property
    def best_params(self) -> dict[str, Any]:
        return self._core.best_params


def create_study(
    *,
    storage: Any = None,
    sampler: str | None = None,
    pruner: Any = None,
    study_name: str | None = None,
    direction: str | None = None,
    load_if_exists: bool = False,
    directions: Sequence[str] | None = None,
) -> Study:
    if storage is not None:
        raise InvalidArgumentError("create_study: storage is not there; a study lives in its program, and `volador tune` shares studies between programs")
    if direction is not None and directions is not None:
        raise ValueError("create_study: direction and directions are both given; give one of them")
    named = list(directions or [direction or "minimize"])
    for each in named:
        if each not in _MODES:
            raise ValueError(f'create_study: direction is {each!r}; expected "minimize" or "maximize"')
    modes = [_MODES[each] for each in named]
    text = sampler if sampler is not None else "tpe"
    core = _Study(mode=modes, searcher=text, seed=getattr(sampler, "seed", None), pruner=(pruner or pruners.MedianPruner()).core)
    return Study(core, study_name or "no-name", named)


class exceptions:
    """optuna.exceptions."""

    TrialPruned = TrialPruned
    OptunaError = Exception


class logging:
    """optuna.logging: nothing is logged."""

    DEBUG, INFO, WARNING, WARN, ERROR, CRITICAL, FATAL = 10, 20, 30, 30, 40, 50, 50

    @staticmethod
    def set_verbosity(verbosity: int) -> None: ...
    @staticmethod
    def get_verbosity() -> int:
        return logging.WARNING

    @staticmethod
    def disable_default_handler() -> None: ...
    @staticmethod
    def enable_default_handler() -> None: ...
    @staticmethod
    def disable_propagation() -> None: ...
    @staticmethod
    def enable_propagation() -> None: ...


study: types.ModuleType = sys.modules[__name__]
