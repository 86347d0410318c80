"""Programs in the shape of Ray Tune's documentation."""

import json
import os
import subprocess
import sys
import tempfile

import pytest

from volador.compat.ray import train, tune
from volador.compat.ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining
from volador.compat.ray.tune.search import ConcurrencyLimiter
from volador.compat.ray.tune.search.optuna import OptunaSearch


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
    with pytest.raises(ValueError, match="sample_from"):
        tune.sample_from(lambda spec: 1)
    with pytest.raises(ValueError, match="callbacks"):
        tune.Tuner(objective, run_config=tune.RunConfig(callbacks=[object()])).fit()
    with pytest.raises(ValueError, match="time_attr"):
        ASHAScheduler(time_attr="time_total_s")
