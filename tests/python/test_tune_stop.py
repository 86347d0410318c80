"""Stop conditions."""

import time

import pytest

from volador import exceptions, tune


@pytest.fixture
def run(tmp_path):
    def start(trainable, **options):
        options.setdefault("progress", "silent")
        options.setdefault("storage_path", tmp_path)
        options.setdefault("tensorboard", False)
        options.setdefault("metric", "score")
        return tune.run(trainable, **options)

    return start


def climb(config):
    for step in range(1, 21):
        tune.report({"score": min(config["x"] * step, 30), "loss": 1 / step})


GRID = {"x": tune.grid_search([1, 2, 3])}


def steps_of(analysis):
    return [int(trial.last_result["training_iteration"]) for trial in analysis.trials]


def test_thresholds_of_metrics(run):
    assert steps_of(run(climb, space=GRID, stop={"score": 6, "training_iteration": 4})) == [4, 3, 2]
    assert steps_of(run(climb, space=GRID, stop=[tune.at_most("loss", 0.25)])) == [4, 4, 4]
    assert steps_of(run(climb, space=GRID, stop=[{"score": 6}, tune.max_steps(5)])) == [5, 3, 2]
    assert steps_of(run(climb, space=GRID, stop=tune.at_least("score", 12), metric="loss", mode="min")) == [12, 6, 4]


def test_a_function_ends_trials(run):
    seen = []

    def ends(trial_id, result):
        seen.append(trial_id)
        return result["score"] > 5 and result["loss"] < 0.5

    analysis = run(climb, space=GRID, stop=ends)
    assert steps_of(analysis) == [6, 3, 3]
    assert set(seen) == {trial.trial_id for trial in analysis.trials} and len(seen) == 12
    assert [trial.status for trial in analysis.trials] == ["finished"] * 3


class Budget(tune.Stopper):
    """Ends a trial after three results that are no better, and all trials after a number of results."""

    def __init__(self, results):
        self.left = results
        self.best = {}

    def __call__(self, trial_id, result):
        best, row = self.best.get(trial_id, (float("-inf"), 0))
        row = 0 if result["score"] > best else row + 1
        self.best[trial_id] = (max(best, result["score"]), row)
        self.left -= 1
        return row == 3

    def stop_all(self):
        return self.left == 0


def test_a_stopper_has_state_and_ends_all(run):
    assert steps_of(run(climb, space=GRID, stop=Budget(1000))) == [20, 18, 13]  # 3 * 10 is the limit of the score.
    analysis = run(climb, space=GRID, stop=Budget(7), max_concurrent_trials=1)
    assert steps_of(analysis) == [7] if len(analysis.trials) == 1 else steps_of(analysis)[0] == 7
    assert not any(trial.results for trial in analysis.trials[1:])


def test_a_stopper_only_for_all(run):
    class Enough(tune.Stopper):
        results = 0

        def stop_all(self):
            self.results += 1
            return self.results == 5

    analysis = run(climb, space={"x": 1}, stop=Enough())
    assert steps_of(analysis) == [5]


def test_a_resumed_run_tells_a_stopper_everything_again(run):
    first = run(climb, space={"x": tune.uniform(1, 2)}, num_samples=2, seed=1, stop=Budget(1000))
    second = Budget(1000)
    after = run(climb, space={"x": tune.uniform(1, 2)}, num_samples=3, seed=1, stop=second, resume=first.directory)
    assert set(second.best) == {trial.trial_id for trial in after.trials}
    assert steps_of(after)[:2] == steps_of(first)
    with pytest.raises(exceptions.InvalidArgumentError, match="resume.*option"):
        run(climb, space={"x": tune.uniform(1, 2)}, num_samples=3, seed=1, stop={"score": 3}, resume=first.directory)


def test_the_conditions_of_the_runtime(run):
    def flat(config):
        for step in range(1, 31):
            tune.report({"score": min(step, config["x"]), "nan": float("nan") if step == config["x"] else 0.0})

    space = {"x": tune.grid_search([3, 9])}
    assert steps_of(run(flat, space=space, stop=tune.trial_plateau(std=0.01, num_results=3, grace_period=2))) == [5, 11]
    assert steps_of(run(flat, space=space, stop=tune.trial_plateau("score", num_results=3, metric_threshold=5, mode="max"))) == [30, 11]
    diverged = run(flat, space=space, stop=tune.stop_on_nan("nan"))
    assert steps_of(diverged) == [3, 9] and {trial.status for trial in diverged.trials} == {"stopped"}
    whole = run(flat, space=space, stop=tune.experiment_plateau("score", std=0.0, top=4), max_concurrent_trials=1)
    assert steps_of(whole)[0] == 6 and len([trial for trial in whole.trials if trial.results]) == 1


def test_times(run):
    def slow(config):
        while True:
            time.sleep(0.02)
            tune.report({"score": 1})

    before = time.monotonic()
    analysis = run(slow, stop=tune.timeout(0.5))
    assert analysis.trials and 0.5 <= time.monotonic() - before < 30
    limited = run(slow, stop=tune.max_time(0.2))
    assert limited.trials[0].status == "finished" and limited.trials[0].last_result["time_total_s"] >= 0.2


def test_an_exception_of_a_stop_function_ends_the_run_which_can_be_resumed(run):
    def broken(trial_id, result):
        if result["training_iteration"] == 4:
            raise KeyError("no such metric")
        return False

    with pytest.raises(KeyError, match="no such metric") as caught:
        run(climb, space={"x": 1}, stop=broken)
    notes = getattr(caught.value, "__notes__", None)
    if notes is not None:
        assert "broken() of a tuning run" in notes[0] and "resume=" in notes[1]
        directory = notes[1].split("resume='")[1].split("'")[0]
        assert steps_of(run(climb, space={"x": 1}, stop=lambda trial_id, result: result["training_iteration"] == 9, resume=directory)) == [9]


def test_wrong_conditions_are_refused(run):
    for stop, message in (
        ({"score": "high"}, "the threshold of score is 'high'; expected a number"),
        ({3: 1}, "stop: 3 is a int; expected the name of a metric"),
        (Budget, r"the class Budget was given; expected an object, Budget\("),
        ("score", "stop: expected thresholds.*got 'score'"),
        ([tune.max_steps(5), {"training_iteration": 9}], "stop: trials end after 9 steps and after 5 steps|stop: trials end after 5 steps and after 9 steps"),
        (tune.max_steps(0), "max_steps is 0, expected at least 1"),
        (tune.trial_plateau(std=-1), "stop.trial_plateau.std: expected a number above 0, got -1"),
    ):
        with pytest.raises(exceptions.InvalidArgumentError, match=message):
            run(climb, space={"x": 1}, stop=stop)
    with pytest.raises(exceptions.InvalidArgumentError, match='stop.trial_plateau.mode: expected "max" or "min", got "up"'):
        tune.trial_plateau("score", mode="up")
