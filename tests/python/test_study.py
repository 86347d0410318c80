"""Searches in a loop of the program, and Optuna's names."""

import math
import os

import pytest
import volador
from volador import tune
from volador.compat import optuna


def test_ask_and_tell_with_a_space():
    study = tune.Study({"x": tune.uniform(-5, 5), "layer": {"width": tune.choice([8, 16])}}, mode="max", seed=1)
    for _ in range(60):
        trial = study.ask()
        study.tell(trial, -((trial.params["x"] - 2) ** 2) + trial.params["layer"]["width"])
    assert abs(study.best_params["x"] - 2) < 0.5 and study.best_params["layer"] == {"width": 16}
    with pytest.raises(volador.exceptions.InvalidArgumentError, match="trial 3 is not open"):
        study.tell(study.trials[3], 1)


def objective(trial):
    x = trial.suggest_float("x", -5, 5)
    kind = trial.suggest_categorical("kind", ["plain", None, ("a", 1)])
    depth = trial.suggest_int("depth", 2, 10, step=2)
    rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
    extra = trial.suggest_float("momentum", 0.0, 1.0, step=0.25) if kind == "plain" else 1.0
    assert depth % 2 == 0 and 1e-4 <= rate <= 1e-1 and extra in (0.0, 0.25, 0.5, 0.75, 1.0)
    return (x - 2) ** 2 + abs(depth - 6) + (math.log10(rate) + 2) ** 2 + (0 if kind == "plain" else 1) + extra


def test_an_objective_suggests_its_parameters():
    study = tune.Study(seed=1)
    study.optimize(objective, 150)
    random_study = tune.Study(searcher="random", seed=1)
    random_study.optimize(objective, 150)
    assert study.best_value < random_study.best_value and study.best_value < 1.0
    assert study.best_params["kind"] == "plain" and set(study.best_params) == {"x", "kind", "depth", "rate", "momentum"}
    again = tune.Study(seed=1)
    again.optimize(objective, 150)
    assert [trial.params for trial in again.trials] == [trial.params for trial in study.trials]


def test_trials_run_as_tasks():
    def where(trial):
        trial.set_user_attr("pid", os.getpid())
        return trial.suggest_float("x", 0, 1)

    study = tune.Study(seed=2)
    study.optimize(where, 30, num_jobs=3)
    assert len(study.trials) == 30 and all(trial.state == "complete" for trial in study.trials)
    assert os.getpid() not in {trial.user_attrs["pid"] for trial in study.trials}


def test_pruning():
    def slow(trial):
        x = trial.suggest_float("x", 0, 1)
        for step in range(5):
            trial.report(x + step, step)
            if trial.should_prune():
                raise tune.TrialPruned
        return x

    study = tune.Study(searcher="random", seed=3, pruner=tune.MedianPruner(startup_trials=4))
    study.optimize(slow, 40)
    pruned = [trial for trial in study.trials if trial.state == "pruned"]
    assert 5 < len(pruned) < 36 and all(trial.value == trial.params["x"] for trial in pruned)  # At step 0.
    assert all(trial.state == "complete" for trial in study.trials[:4])


def test_exceptions_and_wrong_values():
    def wrong(trial):
        trial.suggest_float("x", 0, 1)
        if trial.number == 1:
            raise ZeroDivisionError("by nothing")
        return 1.0

    study = tune.Study()
    with pytest.raises(ZeroDivisionError, match="by nothing"):
        study.optimize(wrong, 5)
    assert [trial.state for trial in study.trials] == ["complete", "failed"] and "ZeroDivisionError" in study.trials[1].error
    other = tune.Study()
    other.optimize(wrong, 3, catch=ZeroDivisionError)
    assert [trial.state for trial in other.trials] == ["complete", "failed", "complete"]
    with pytest.raises(volador.exceptions.InvalidArgumentError, match="the objective returned 'best'; expected a number"):
        tune.Study().optimize(lambda trial: "best", 1)
    with pytest.raises(volador.exceptions.InvalidArgumentError, match=r"x was suggested from uniform\(0, 1\) and then from uniform\(0, 2\)"):
        tune.Study().optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_float("x", 0, 2), 1)
    with pytest.raises(volador.exceptions.InvalidArgumentError, match="num_trials and timeout are both None"):
        tune.Study().optimize(objective)


def test_enqueued_parameters_come_first():
    study = tune.Study(seed=1)
    study.enqueue({"x": 1.5, "kind": ("a", 1), "depth": 8})
    study.enqueue({"kind": "other"})
    study.optimize(objective, 1)
    assert study.trials[0].params["x"] == 1.5 and study.trials[0].params["kind"] == ("a", 1) and study.trials[0].params["depth"] == 8
    with pytest.raises(volador.exceptions.InvalidArgumentError, match="kind was enqueued as 'other', which the objective does not suggest"):
        study.optimize(objective, 1)


def test_several_values():
    def two(trial):
        x = trial.suggest_float("x", 0, 2)
        return x, (x - 1) ** 2

    study = tune.Study(mode=["min", "min"], searcher="nsga2", seed=1)
    study.optimize(two, 60)
    front = study.best_trials
    seconds = [trial.values[1] for trial in sorted(front, key=lambda trial: trial.values[0])]
    assert len(front) > 3 and seconds == sorted(seconds, reverse=True)
    with pytest.raises(ValueError, match="several modes"):
        study.best_trial  # noqa: B018


def test_names_of_optuna():
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=5, n_startup_trials=8))
    seen = []
    study.optimize(
        lambda trial: -((trial.suggest_float("x", -5, 5) - 1) ** 2) - trial.suggest_int("n", 1, 4),
        n_trials=60,
        callbacks=[lambda study, trial: seen.append((trial.number, trial.state))],
    )
    assert abs(study.best_params["x"] - 1) < 0.6 and study.best_params["n"] == 1 and study.best_trial.state is optuna.TrialState.COMPLETE
    assert seen == [(number, optuna.TrialState.COMPLETE) for number in range(60)]
    trial = study.ask()
    study.tell(trial, trial.suggest_float("x", -5, 5))
    assert len(study.trials) == 61
    with pytest.raises(volador.exceptions.InvalidArgumentError, match="storage is not there"):
        optuna.create_study(storage="sqlite:///x.db")
    with pytest.raises(ValueError, match="direction is 'max'; expected"):
        optuna.create_study(direction="max")
