"""Programs in the shape of Ray Tune's documentation."""

import datetime
import json
import os
import subprocess
import sys
import tempfile

import pytest

from volador.compat.ray import train, tune
from volador.compat.ray.tune.experiment import Trial
from volador.compat.ray.tune.logger import LoggerCallback
from volador.compat.ray.tune.schedulers import ASHAScheduler, FIFOScheduler, PopulationBasedTraining, TrialScheduler
from volador.compat.ray.tune.search import ConcurrencyLimiter, Searcher
from volador.compat.ray.tune.search.optuna import OptunaSearch
from volador.compat.ray.tune.stopper import (
    CombinedStopper,
    ExperimentPlateauStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    TimeoutStopper,
    TrialPlateauStopper,
)


def objective(config):
    start = 1
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with open(os.path.join(checkpoint.path, "state.json")) as file:
            start = json.load(file)["step"] + 1
    for step in range(start, 11):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "state.json"), "w") as file:
                json.dump({"step": step}, file)
            tune.report({"mean_loss": (config["a"] - 2) ** 2 + 1 / step}, checkpoint=tune.Checkpoint.from_directory(directory))


def test_a_tuner_fits(tmp_path):
    tuner = tune.Tuner(
        tune.with_resources(objective, {"cpu": 1}),
        param_space={"a": tune.uniform(0, 4), "b": tune.grid_search([1, 2])},
        tune_config=tune.TuneConfig(
            num_samples=4, metric="mean_loss", mode="min", scheduler=ASHAScheduler(max_t=10, grace_period=2), search_alg=ConcurrencyLimiter(OptunaSearch(), 2)
        ),
        run_config=train.RunConfig(name="mine", storage_path=str(tmp_path), verbose=0, checkpoint_config=train.CheckpointConfig(num_to_keep=2)),
    )
    results = tuner.fit()
    assert len(results) == 8 and results.num_errors == 0
    best = results.get_best_result()
    assert best.metrics["mean_loss"] == min(result.metrics["mean_loss"] for result in results)
    assert set(best.config) == {"a", "b"}
    assert os.path.isdir(best.path)
    assert results.get_best_result("mean_loss", "max").metrics["mean_loss"] >= best.metrics["mean_loss"]
    with best.checkpoint.as_directory() as directory, open(os.path.join(directory, "state.json")) as file:
        assert json.load(file)["step"] == best.checkpoint.step


def test_the_older_forms(tmp_path):
    def train_function(config):
        for step in range(3):
            tune.report(score=config["x"] * step)

    analysis = tune.run(
        train_function, config={"x": tune.choice([1, 2])}, num_samples=3, metric="score", mode="max", local_dir=str(tmp_path), verbose=0, resources_per_trial={"cpu": 0.5}
    )
    assert analysis.best_result["score"] == analysis.best_config["x"] * 2


def test_a_class_and_a_population(tmp_path):
    class Walk(tune.Trainable):
        def setup(self, config):
            self.position = 0.0

        def step(self):
            self.position += self.config["speed"]
            return {"position": self.position}

        def save_checkpoint(self, checkpoint_dir):
            with open(os.path.join(checkpoint_dir, "position"), "w") as file:
                file.write(str(self.position))

        def load_checkpoint(self, checkpoint_dir):
            with open(os.path.join(checkpoint_dir, "position")) as file:
                self.position = float(file.read())

    results = tune.Tuner(
        Walk,
        param_space={"speed": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="position",
            mode="max",
            num_samples=4,
            scheduler=PopulationBasedTraining(perturbation_interval=2, hyperparam_mutations={"speed": [0.1, 0.5, 0.9]}),
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), stop={"training_iteration": 6}, verbose=0),
    ).fit()
    assert all(result.metrics["training_iteration"] == 6 for result in results)


def test_a_script_for_ray_runs_unchanged(tmp_path):
    (tmp_path / "script.py").write_text(
        """
import ray
from ray import tune
from ray.tune.schedulers import HyperBandScheduler
from ray.tune.search.hyperopt import HyperOptSearch

@ray.remote
def name():
    import ray as inside
    return inside.__name__

def objective(config):
    for step in range(1, 5):
        tune.report({"score": config["x"] * step})

if __name__ == "__main__":
    ray.init(num_cpus=2)
    results = tune.Tuner(
        objective,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(num_samples=3, metric="score", mode="max", scheduler=HyperBandScheduler(max_t=4), search_alg=HyperOptSearch()),
        run_config=tune.RunConfig(storage_path="results", verbose=0),
    ).fit()
    print(ray.get(name.remote()), len(results), results.num_errors)
"""
    )
    done = subprocess.run([sys.executable, "-m", "volador.compat", "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "volador.compat.ray 3 0\n", done.stderr
    wrong = subprocess.run([sys.executable, "-m", "volador.compat", "none.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 1 and "no script none.py" in wrong.stderr


def test_errors_are_kept_and_what_is_not_there_is_refused(tmp_path):
    def fail(config):
        raise ValueError("broken")

    results = tune.Tuner(fail, tune_config=tune.TuneConfig(num_samples=2), run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0)).fit()
    assert results.num_errors == 2 and "broken" in str(results.errors[0])
    with pytest.raises(ValueError, match="stop: the class Never was given"):
        tune.Tuner(objective, run_config=tune.RunConfig(stop=type("Never", (Stopper,), {}))).fit()
    with pytest.raises(ValueError, match="callbacks"):
        tune.Tuner(objective, run_config=tune.RunConfig(callbacks=[object()])).fit()
    with pytest.raises(ValueError, match="time_attr"):
        ASHAScheduler(time_attr="time_total_s")


class Steps(Searcher):
    """A search of a user's, with a state of its own."""

    def __init__(self):
        super().__init__(metric="loss", mode="min")
        self.next = 0
        self.results = []
        self.completed = {}

    def set_search_properties(self, metric, mode, config, **spec):
        self.space = config
        return super().set_search_properties(metric, mode, config, **spec)

    def suggest(self, trial_id):
        if self.next == 5:
            return Searcher.FINISHED
        if self.next > len(self.completed) + 1:
            return None
        self.next += 1
        return {"x": self.next}

    def on_trial_result(self, trial_id, result):
        self.results.append((trial_id, result["training_iteration"]))

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.completed[trial_id] = None if error else result[self.metric]

    def save(self, checkpoint_path):
        with open(checkpoint_path, "w") as file:
            json.dump([self.next, self.completed], file)

    def restore(self, checkpoint_path):
        with open(checkpoint_path) as file:
            self.next, self.completed = json.load(file)


def slope(config):
    for step in range(1, 5):
        tune.report({"loss": config["x"] / step})


def test_a_searcher_of_a_user_and_its_state(tmp_path):
    def fit(searcher, samples, directory=None):
        config = tune.TuneConfig(metric="loss", mode="min", num_samples=samples, search_alg=ConcurrencyLimiter(searcher, max_concurrent=2))
        run = tune.RunConfig(name="steps", storage_path=str(tmp_path), verbose=0)
        if directory is None:
            return tune.Tuner(slope, param_space={"kept": 1}, tune_config=config, run_config=run).fit()
        assert tune.Tuner.can_restore(directory)
        return tune.Tuner.restore(directory, slope, param_space={"kept": 1}, tune_config=config, run_config=run).fit()

    first = Steps()
    results = fit(first, 3)
    assert [result.config for result in results] == [{"x": i, "kept": 1} for i in (1, 2, 3)]
    assert first.space == {"kept": 1} and first.completed == {str(i): (i + 1) / 4 for i in range(3)}
    assert sorted(first.results) == [(str(i), step) for i in range(3) for step in range(1, 5)]
    second = Steps()
    more = fit(second, 10, results.experiment_path)
    assert [result.config["x"] for result in more] == [1, 2, 3, 4, 5]
    assert second.completed == {str(i): (i + 1) / 4 for i in range(5)}
    assert len(second.results) < 20  # It was not told again what its state includes.


class Cutoff(FIFOScheduler):
    def on_trial_result(self, tune_controller, trial, result):
        assert trial in tune_controller.get_trials() and trial.status == Trial.RUNNING
        return self.STOP if result["loss"] > 1 and result["training_iteration"] == 2 else self.CONTINUE


class Turns(TrialScheduler):
    """One step of each trial in turn."""

    def __init__(self):
        self.order = []

    def on_trial_result(self, tune_controller, trial, result):
        self.order.append(trial.config["x"])
        return TrialScheduler.PAUSE if result["training_iteration"] < 3 else TrialScheduler.CONTINUE

    def choose_trial_to_run(self, tune_controller):
        paused = [trial for trial in tune_controller.get_live_trials() if trial.status == Trial.PAUSED]
        return min(paused, key=lambda trial: (trial.last_result["training_iteration"], trial.config["x"])) if len(paused) == 2 else None


def test_schedulers_of_users(tmp_path):
    run = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    space = {"x": tune.grid_search([1, 2, 4])}
    results = tune.Tuner(slope, param_space=space, tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=Cutoff()), run_config=run).fit()
    assert [result.metrics["training_iteration"] for result in results] == [4, 4, 2]

    class Walk(tune.Trainable):
        def setup(self, config):
            self.count = 0

        def step(self):
            self.count += 1
            return {"loss": self.count, "done": self.count == 3}

        def save_checkpoint(self, checkpoint_dir):
            with open(os.path.join(checkpoint_dir, "count"), "w") as file:
                file.write(str(self.count))

        def load_checkpoint(self, checkpoint_dir):
            with open(os.path.join(checkpoint_dir, "count")) as file:
                self.count = int(file.read())

    turns = Turns()
    walked = tune.Tuner(Walk, param_space={"x": tune.grid_search([1, 2])}, tune_config=tune.TuneConfig(metric="loss", mode="max", scheduler=turns), run_config=run).fit()
    assert [result.metrics["loss"] for result in walked] == [3, 3] and sorted(turns.order) == [1, 1, 1, 2, 2, 2]

    class Mine(ASHAScheduler):
        def on_trial_result(self, tune_controller, trial, result):
            return self.STOP

    with pytest.raises(ValueError, match="Mine has its own on_trial_result.*FIFOScheduler"):
        tune.Tuner(slope, param_space=space, tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=Mine()), run_config=run).fit()


def test_callbacks_of_users(tmp_path):
    class Tells(tune.Callback):
        def __init__(self):
            self.lines = []

        def on_trial_result(self, iteration, trials, trial, result, **info):
            assert trial in trials and result["trial_id"] == trial.trial_id
            self.lines.append(result["loss"])

        def on_trial_complete(self, iteration, trials, trial, **info):
            assert trial.status == Trial.TERMINATED
            self.lines.append("complete")

        def on_experiment_end(self, trials, **info):
            self.lines.append(len(trials))

    class Log(LoggerCallback):
        def __init__(self):
            self.lines = []

        def log_trial_start(self, trial):
            self.lines.append("start")

        def log_trial_result(self, iteration, trial, result):
            self.lines.append(result["training_iteration"])

        def log_trial_end(self, trial, failed=False):
            self.lines.append(failed)

    tells, log = Tells(), Log()
    tune.Tuner(slope, param_space={"x": 1}, run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0, callbacks=[tells, log])).fit()
    assert tells.lines == [1, 1 / 2, 1 / 3, 1 / 4, "complete", 1]
    assert log.lines == ["start", 1, 2, 3, 4, False]

    class Broken(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            raise KeyError("nothing")

    with pytest.raises(KeyError, match="nothing"):
        tune.Tuner(slope, param_space={"x": 1}, run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0, callbacks=[Broken()])).fit()


def test_functions_of_the_specification(tmp_path):
    space = {
        "x": tune.grid_search([1, 2]),
        "twice": tune.sample_from(lambda spec: 2 * spec.config.x),
        "four": tune.sample_from(lambda spec: 2 * spec.config["twice"]),
        "model": {"width": tune.sample_from(lambda spec: spec["x"] + spec["config"]["four"])},
        "constant": tune.sample_from(lambda: 7),
    }
    results = tune.Tuner(slope, param_space=space, run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0)).fit()
    assert [result.config for result in results] == [{"x": x, "twice": 2 * x, "four": 4 * x, "model": {"width": 5 * x}, "constant": 7} for x in (1, 2)]


def test_stoppers(tmp_path):
    def fall(config):
        for step in range(1, 11):
            tune.report({"loss": max(config["x"] - step, 0)})

    def steps(stop, **options):
        run = tune.RunConfig(storage_path=str(tmp_path), verbose=0, stop=stop)
        results = tune.Tuner(
            fall, param_space={"x": tune.grid_search([2, 4])}, tune_config=tune.TuneConfig(metric="loss", mode="min", **options), run_config=run
        ).fit()
        return [int(result.metrics.get("training_iteration", 0)) for result in results]

    class Mine(Stopper):
        def __init__(self):
            self.trials = set()

        def __call__(self, trial_id, result):
            assert result["trial_id"] == trial_id
            self.trials.add(trial_id)
            return result["loss"] == 0

        def stop_all(self):
            return False

    mine = Mine()
    assert steps(mine) == [2, 4] and len(mine.trials) == 2
    assert steps(MaximumIterationStopper(3)) == [3, 3]
    assert steps(CombinedStopper(MaximumIterationStopper(3), CombinedStopper(Mine()), NoopStopper())) == [2, 3]
    assert steps([MaximumIterationStopper(3), Mine()]) == [2, 3]
    assert steps(lambda trial_id, result: result["loss"] == 0 and result["trial_id"] == trial_id) == [2, 4]
    assert steps(FunctionStopper(lambda trial_id, result: result["loss"] == 0)) == [2, 4]
    assert steps(TrialPlateauStopper("loss", std=0.01, num_results=3)) == [4, 6]
    assert steps(TrialPlateauStopper("loss", num_results=3, metric_threshold=-1, mode="min")) == [10, 10]
    assert steps(ExperimentPlateauStopper("loss", top=3), max_concurrent_trials=1)[0] == 4
    assert steps(TimeoutStopper(datetime.timedelta(hours=1))) == [10, 10]
    assert steps({"training_iteration": 5}) == [5, 5]

    class Own(MaximumIterationStopper):
        def __call__(self, trial_id, result):
            return True

    with pytest.raises(ValueError, match="Own has its own methods.*derive from Stopper"):
        steps(Own(3))
    with pytest.raises(ValueError, match="MaximumIterationStopper is evaluated by the runtime"):
        MaximumIterationStopper(3)("1", {})
    with pytest.raises(ValueError, match="TrialPlateauStopper: mode is None; with metric_threshold"):
        TrialPlateauStopper("loss", metric_threshold=1)
