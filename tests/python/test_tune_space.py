"""Functions in a search space."""

import json
import pathlib

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


def shows(config):
    tune.report({"lr": config["lr"], "decay": config["decay"], "width": config["model"]["width"]})


SPACE = {
    "decay": tune.sample_from(lambda config: config["lr"] * config["scale"]),  # Waits for scale.
    "scale": tune.sample_from(lambda config: 10 if config.model.get("kind") == "wide" else 2),
    "lr": tune.loguniform(1e-3, 1e-1),
    "model": {"kind": tune.choice(["wide", "deep"]), "width": tune.sample_from(lambda config: 8 * config["scale"])},
}


def test_a_function_sees_the_other_parameters(run):
    analysis = run(shows, space=SPACE, metric="lr", num_samples=8, seed=1)
    assert {trial.config["model"]["kind"] for trial in analysis.trials} == {"wide", "deep"}
    for trial in analysis.trials:
        config = trial.config
        assert config["scale"] == (10 if config["model"]["kind"] == "wide" else 2)
        assert config["decay"] == config["lr"] * config["scale"] and config["model"]["width"] == 8 * config["scale"]
        assert (trial.last_result["decay"], trial.last_result["width"]) == (config["decay"], config["model"]["width"])
    state = json.loads((pathlib.Path(analysis.directory) / "experiment_state.json").read_text())
    assert [trial["config"] for trial in state["trials"]] == [trial.config for trial in analysis.trials]


def test_a_resumed_run_keeps_what_the_functions_returned(run):
    calls = []

    def count(config):
        calls.append(config["x"])
        return len(calls)

    def shown(config):
        tune.report({"count": config["count"]})

    options = {"metric": "count", "seed": 5, "space": {"x": tune.uniform(0, 1), "count": tune.sample_from(count)}, "max_concurrent_trials": 1}
    before = run(shown, num_samples=3, **options)
    after = run(shown, num_samples=5, resume=before.directory, **options)
    assert [trial.config for trial in after.trials[:3]] == [trial.config for trial in before.trials]
    assert [trial.last_result["count"] for trial in after.trials] == [trial.config["count"] for trial in after.trials]
    assert len({trial.config["count"] for trial in after.trials}) == 5


def test_every_searcher_resolves_functions(run):
    class Mine(tune.Searcher):
        def suggest(self, trial_id):
            return {"lr": int(trial_id) + 1, "model": {"kind": "wide"}}

    for searcher in (tune.tpe(n_startup_trials=2), tune.sobol(), Mine()):
        analysis = run(shows, space=SPACE, metric="lr", num_samples=5, seed=1, searcher=searcher)
        for trial in analysis.trials:
            assert trial.config["decay"] == trial.config["lr"] * trial.config["scale"]
            assert trial.config["model"]["width"] == 8 * trial.config["scale"]
    assert [trial.config["lr"] for trial in analysis.trials] == [1, 2, 3, 4, 5]


def test_randomness_depends_on_seed_trial_and_parameter():
    def draw(config, random):
        return [random.random(), config["x"]]

    space = {"x": tune.uniform(0, 1), "a": tune.sample_from(draw), "b": tune.sample_from(draw), "fixed": tune.sample_from(lambda: 7)}
    first = tune.sample(space, seed=3, index=1)
    assert first == tune.sample(space, seed=3, index=1)
    assert first["fixed"] == 7 and first["a"][1] == first["x"]
    assert len({first["a"][0], first["b"][0], tune.sample(space, seed=3, index=2)["a"][0], tune.sample(space, seed=4, index=1)["a"][0]}) == 4


def test_a_study_resolves_functions():
    study = tune.Study(space={"x": tune.uniform(0, 1), "double": tune.sample_from(lambda config: 2 * config["x"])}, mode="min", seed=1)
    for _ in range(5):
        trial = study.ask()
        assert trial.params["double"] == 2 * trial.params["x"]
        study.tell(trial, trial.params["x"])


def test_what_cannot_be_resolved_is_named(run):
    circle = {"a": tune.sample_from(lambda config: config["b"]), "b": tune.sample_from(lambda config: config["a"])}
    with pytest.raises(exceptions.InvalidArgumentError, match="sample_from of a, b cannot be resolved.*no 'a'"):
        tune.sample(circle)
    with pytest.raises(exceptions.InvalidArgumentError, match="sample_from of a cannot be resolved.*the configuration has no 'lrr'; it has 'lr'"):
        run(shows, space={"lr": 1, "a": tune.sample_from(lambda config: config["lrr"])})
    with pytest.raises(exceptions.InvalidArgumentError, match="sample_from of a cannot be resolved"):  # It would see itself.
        tune.sample({"a": tune.sample_from(lambda config: config.get("a", 1))})
    with pytest.raises(TypeError, match="space: model.a: the function of sample_from returned uniform"):
        tune.sample({"model": {"a": tune.sample_from(lambda config: tune.uniform(0, 1))}})
    with pytest.raises(TypeError, match="space: a: a object is not a number"):
        tune.sample({"a": tune.sample_from(lambda config: object())})


def test_wrong_functions_are_refused(run):
    with pytest.raises(exceptions.InvalidArgumentError, match="sample_from: expected a function.*got 3"):
        tune.sample_from(3)
    with pytest.raises(exceptions.InvalidArgumentError, match=r"the function takes \(a, b, c\); expected \(config\)"):
        tune.sample_from(lambda a, b, c: 1)


def test_an_exception_of_a_function_ends_the_run(run):
    def fails(config):
        return 1 / config["zero"]

    with pytest.raises(ZeroDivisionError) as caught:
        run(shows, space={"zero": 0, "model": {"a": tune.sample_from(fails)}})
    assert "in fails" in "".join(__import__("traceback").format_exception(caught.value))
    assert any("function of sample_from for the parameter model.a of a tuning run" in note for note in getattr(caught.value, "__notes__", ["function of sample_from for the parameter model.a of a tuning run"]))


def test_functions_as_mutations_of_a_population(run):
    drawn = []

    def draw(config):
        drawn.append(len(drawn) + 100)
        return drawn[-1]

    class Walk(tune.Trainable):
        def setup(self, config):
            self.total = 0.0

        def step(self):
            self.total += self.config["lr"]
            return {"total": self.total, "lr": self.config["lr"]}

        def save_checkpoint(self, directory):
            (pathlib.Path(directory) / "total").write_text(str(self.total))

        def load_checkpoint(self, directory):
            self.total = float((pathlib.Path(directory) / "total").read_text())

    scheduler = tune.pbt({"lr": tune.sample_from(draw)}, perturbation_interval=2, resample_probability=1.0)
    analysis = run(Walk, space={"lr": tune.grid_search([1.0, 2.0, 3.0, 4.0])}, metric="total", scheduler=scheduler, stop={"training_iteration": 8}, seed=2)
    changed = {result["lr"] for trial in analysis.trials for result in trial.results} - {1.0, 2.0, 3.0, 4.0}
    assert changed and changed <= set(drawn)
