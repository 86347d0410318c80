import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import pytest

from volador import exceptions, tune


@pytest.fixture
def run(tmp_path):
    def start(trainable, **options):
        options.setdefault("progress", "silent")
        options.setdefault("storage_path", tmp_path)
        options.setdefault("tensorboard", False)
        return tune.run(trainable, **options)

    return start


def climb(config):
    for step in range(1, 11):
        tune.report({"score": -((config["x"] - 3) ** 2) - 1 / step})


class Counter(tune.Trainable):
    def setup(self, config):
        self.value = config.get("start", 0)

    def step(self):
        self.value += 1
        return {"value": self.value}

    def save_checkpoint(self, directory):
        (pathlib.Path(directory) / "value").write_text(str(self.value))

    def load_checkpoint(self, directory):
        self.value = int((pathlib.Path(directory) / "value").read_text())


def test_a_function_is_tuned(run):
    analysis = run(climb, space={"x": tune.uniform(0, 6)}, metric="score", num_samples=20, seed=1, searcher=tune.tpe(n_startup_trials=5))
    assert len(analysis.trials) == 20
    assert abs(analysis.best_config["x"] - 3) < 0.5
    assert analysis.best_result["training_iteration"] == 10
    assert [trial.trial_id for trial in analysis.ranking()][0] == analysis.best_trial().trial_id
    assert len(analysis.trials[0].results) == 10
    again = tune.Analysis.load(analysis.directory)
    assert again.best_config == analysis.best_config


def test_equal_seeds_give_equal_configurations(run):
    spaces = {"a": tune.loguniform(1e-4, 1), "b": tune.randint(0, 100), "c": {"d": tune.choice(["x", "y"])}, "e": [tune.randn(), 5]}
    first, second = (run(climb, space={"x": 1.0, **spaces}, metric="score", num_samples=4, seed=9) for _ in range(2))
    assert [trial.config for trial in first.trials] == [trial.config for trial in second.trials]


def test_a_grid_is_crossed(run):
    analysis = run(lambda config: {"sum": config["a"] + config["b"]}, space={"a": tune.grid_search([1, 2, 3]), "b": tune.grid_search([10, 20])}, metric="sum")
    assert sorted(trial.last_result["sum"] for trial in analysis.trials) == [11, 12, 13, 21, 22, 23]


def test_a_class_runs_until_it_stops_and_saves(run):
    analysis = run(Counter, space={"start": 5}, metric="value", stop={"value": 9}, checkpoint_frequency=2, checkpoint_at_end=True)
    assert analysis.best_result["value"] == 9
    assert (pathlib.Path(analysis.best_checkpoint().path) / "value").read_text() == "9"
    assert (pathlib.Path(analysis.trials[0].checkpoint.path) / "value").read_text() == "9"
    assert analysis.trials[0].checkpoint.step == 4


def test_a_failed_attempt_goes_on_from_its_checkpoint(run, tmp_path):
    def fragile(config):
        found = tune.get_checkpoint()
        begin = int((pathlib.Path(found.path) / "step").read_text()) if found else 0
        assert (found.step if found else 0) == begin
        for step in range(begin + 1, 7):
            if step == 4 and tune.get_context()["attempt"] == 1:
                os._exit(3)
            directory = tmp_path / f"mine-{step}"
            directory.mkdir(exist_ok=True)
            (directory / "step").write_text(str(step))
            tune.report({"step": step}, checkpoint=tune.Checkpoint.from_directory(directory))

    analysis = run(fragile, metric="step", max_failures=2, checkpoint_frequency=1)
    assert analysis.best_result["step"] == 6
    assert analysis.trials[0].fields["failures"] == 1


def test_an_exception_names_its_type_and_place(run):
    def broken(config):
        tune.report({"score": 1})
        raise KeyError("no such layer")

    with pytest.raises(exceptions.VoladorError, match=r"KeyError: 'no such layer' \(test_tune.py:\d+ in broken\)"):
        run(broken, metric="score")
    analysis = run(broken, metric="score", raise_on_failed_trial=False)
    assert "KeyError" in analysis.trials[0].error


def test_a_trial_that_is_stopped_runs_its_finally(run, tmp_path):
    def endless(config):
        step = 0
        try:
            while True:
                step += 1
                tune.report({"step": step})
        finally:
            (tmp_path / "finally").write_text(str(step))

    run(endless, metric="step", stop={"training_iteration": 3})
    # The run has ended when its trials are told to end; their processes end after that.
    written = tmp_path / "finally"
    end = time.monotonic() + 30
    while not (written.exists() and written.read_text()) and time.monotonic() < end:
        time.sleep(0.01)
    assert written.read_text() == "3"


def test_parameters_reach_functions_and_classes(run):
    data = numpy.arange(200_000)

    def use(config, data, factor):
        return {"sum": data.sum() * factor}

    analysis = run(tune.with_parameters(use, data=data, factor=2), metric="sum", num_samples=2)
    assert analysis.best_result["sum"] == data.sum() * 2

    class Given(tune.Trainable):
        def __init__(self, data):
            self.data = data

        def step(self):
            return {"sum": self.data.sum(), "done": 1}

    assert run(tune.with_parameters(Given, data=data), metric="sum").best_result["sum"] == data.sum()


def test_metrics_may_nest_and_must_be_numbers(run):
    analysis = run(lambda config: {"loss": numpy.float32(0.5), "val": {"acc": True}}, metric="val/acc")
    assert analysis.best_result["loss"] == 0.5
    with pytest.raises(exceptions.VoladorError, match="expected a number"):
        run(lambda config: {"loss": "low"}, metric="loss")


def test_wrong_options_are_named(run):
    with pytest.raises(exceptions.InvalidArgumentError, match="uniform"):
        run(climb, space={"x": tune.uniform(3, 1)}, metric="score")
    with pytest.raises(exceptions.InvalidArgumentError, match="ash.*did you mean"):
        run(climb, space={"x": 1.0}, metric="score", scheduler="ash")
    with pytest.raises(exceptions.InvalidArgumentError, match="grace"):
        run(climb, space={"x": 1.0}, metric="score", scheduler=tune.asha(grace=1))
    with pytest.raises(exceptions.InvalidArgumentError, match="skore"):
        run(climb, space={"x": 1.0}, metric="skore")
    with pytest.raises(TypeError, match="space: model: a Lock|space: model: a lock"):
        run(climb, space={"model": threading.Lock()}, metric="score")
    with pytest.raises(exceptions.InvalidArgumentError, match="mode"):
        run(climb, space={"x": 1.0}, metric="score", mode="best")
    with pytest.raises(exceptions.InfeasibleError):
        run(climb, space={"x": 1.0}, metric="score", resources_per_trial={"num_cpus": 1000})


def test_schedulers_stop_and_populations_move(run):
    analysis = run(climb, space={"x": tune.uniform(-9, 9)}, metric="score", num_samples=16, seed=2, scheduler=tune.asha(max_t=10, reduction_factor=4), max_concurrent_trials=4)
    assert {trial.status for trial in analysis.trials} == {"stopped", "finished"}
    population = run(Counter, space={"start": tune.randint(0, 10)}, metric="value", num_samples=4, seed=3, scheduler=tune.pbt(perturbation_interval=2), stop={"training_iteration": 8})
    assert len(population.trials) == 4
    changed = run(Counter, space={"start": 1, "lr": tune.uniform(0, 1), "kept": tune.uniform(0, 1)}, metric="value", num_samples=4, seed=3,
                  scheduler=tune.pbt({"lr": tune.uniform(0, 1)}, perturbation_interval=1), stop={"training_iteration": 6})
    assert {trial.config["start"] for trial in changed.trials} == {1}


def test_objectives_have_a_front(run):
    analysis = run(lambda config: {"a": config["x"], "b": 1 - config["x"]}, space={"x": tune.uniform(0, 1)}, objectives={"a": "max", "b": "max"}, num_samples=8, searcher=tune.nsga2(population_size=4), seed=1)
    assert len(analysis.pareto_front()) == 8


def test_more_samples_resume_a_run(run):
    first = run(climb, space={"x": tune.uniform(0, 6)}, metric="score", num_samples=3, seed=5)
    second = run(climb, space={"x": tune.uniform(0, 6)}, metric="score", num_samples=5, seed=5, resume=first.directory)
    assert len(second.trials) == 5
    assert [trial.config for trial in second.trials[:3]] == [trial.config for trial in first.trials]


def test_trials_reuse_processes(run):
    class Reused(Counter):
        def step(self):
            return {"pid": os.getpid(), "done": 1}

        def reset_config(self, config):
            self.setup(config)
            return True

    analysis = run(Reused, metric="pid", num_samples=4, max_concurrent_trials=1, reuse_actors=True)
    assert len({trial.last_result["pid"] for trial in analysis.trials}) == 1


def test_ctrl_c_lets_trials_end_and_returns(tmp_path):
    script = textwrap.dedent(
        f"""
        import time, volador
        from volador import tune
        def slow(config):
            step = 0
            while True:
                step += 1
                time.sleep(0.02)
                tune.report({{"step": step}})
                if step == 5: open({str(tmp_path / 'runs')!r}, "w").close()
        volador.init("local", num_cpus=1)
        analysis = tune.run(slow, metric="step", storage_path={str(tmp_path)!r}, progress="silent")
        print("returned", analysis.interrupted)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "runs").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "returned True\n"
