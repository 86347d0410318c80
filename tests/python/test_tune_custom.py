"""Searchers, schedulers and callbacks that are Python code."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import traceback

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


def volador_command():
    return os.path.join(os.environ["VOLADOR_BIN"], "volador") if "VOLADOR_BIN" in os.environ else "volador"


def climb(config):
    for step in range(1, 6):
        tune.report({"score": -((config["x"] - 3) ** 2) - 1 / step, "cost": step})


class Halving(tune.Searcher):
    """Asks near the best so far."""

    def setup(self):
        self.told = []
        self.best = (float("-inf"), None)
        self.configs = {}

    def suggest(self, trial_id):
        number = len(self.configs)
        if number < 4:
            config = self.sample(number)
        else:
            config = {"x": self.best[1]["x"] + random.Random(f"{self.seed} {number}").gauss(0, 0.3)}
        self.configs[trial_id] = config
        return config

    def on_result(self, trial_id, result):
        self.told.append((trial_id, result["training_iteration"]))

    def on_complete(self, trial_id, result, error):
        if not error and result[self.metric] > self.best[0]:
            self.best = (result[self.metric], self.configs[trial_id])


def test_a_searcher_suggests_and_is_told(run):
    searcher = Halving()
    space = {"x": tune.uniform(0, 6), "fixed": 7, "model": {"width": 4, "lr": tune.uniform(0, 1)}}
    analysis = run(climb, space=space, metric="score", num_samples=12, seed=5, searcher=searcher, max_concurrent_trials=2)
    assert len(analysis.trials) == 12
    assert (searcher.metric, searcher.mode, searcher.num_samples, searcher.seed, searcher.space) == ("score", "max", 12, 5, space)
    assert [trial.config["x"] for trial in analysis.trials] == [searcher.configs[str(i)]["x"] for i in range(12)]
    assert {trial.config["fixed"] for trial in analysis.trials} == {7}
    assert analysis.trials[11].config["model"] == {"width": 4}
    assert analysis.trials[0].config == tune.sample(space, seed=5, index=0)
    assert sorted(searcher.told) == sorted((str(i), step) for i in range(12) for step in range(1, 6))
    assert searcher.best[0] == analysis.best_result["score"]


def test_a_searcher_waits_and_ends(run):
    class OneAtATime(tune.Searcher):
        live = False
        most = 0

        def suggest(self, trial_id):
            if self.live:
                return tune.WAIT
            if trial_id == "3":
                return None
            self.live = True
            return {"x": int(trial_id)}

        def on_complete(self, trial_id, result, error):
            self.live = False
            self.last = (trial_id, result["cost"], error)

    searcher = OneAtATime()
    analysis = run(climb, metric="score", num_samples=-1, searcher=searcher)
    assert [trial.config["x"] for trial in analysis.trials] == [0, 1, 2]
    assert searcher.last == ("2", 5, False)


def test_a_failed_trial_is_told_as_one(run):
    class Told(tune.Searcher):
        ends = {}

        def suggest(self, trial_id):
            return {"fails": trial_id == "0"}

        def on_complete(self, trial_id, result, error):
            self.ends[trial_id] = (error, result)

    def trial(config):
        if config["fails"]:
            raise ValueError("no")
        tune.report({"score": 2})

    searcher = Told()
    run(trial, metric="score", num_samples=2, searcher=searcher, raise_on_failed_trial=False)
    assert searcher.ends["0"] == (True, None)
    assert searcher.ends["1"][0] is False and searcher.ends["1"][1]["score"] == 2


def test_ask_and_tell(run):
    class Optimizer:
        def __init__(self):
            self.told = []

        def ask(self):
            return {"x": len(self.told) + 1}

        def tell(self, point, value):
            self.told.append((point["x"], value))

    optimizer = Optimizer()
    run(climb, metric="score", num_samples=3, searcher=tune.AskTell(optimizer), max_concurrent_trials=1)
    assert optimizer.told[0] == (1, pytest.approx(4.2)) and len(optimizer.told) == 3
    maximizer = Optimizer()
    run(climb, metric="score", num_samples=1, searcher=tune.AskTell(maximizer, mode="max", config=lambda point: {"x": 3}))
    assert maximizer.told == [(1, pytest.approx(-0.2))]
    with pytest.raises(exceptions.InvalidArgumentError, match="tune.AskTell"):
        run(climb, metric="score", searcher=optimizer)
    with pytest.raises(exceptions.InvalidArgumentError, match="no method tell"):
        tune.AskTell(object.__new__(type("Asks", (), {"ask": lambda self: None})))


class StopsBadOnes(tune.Scheduler):
    def setup(self):
        self.calls = []

    def on_trial_add(self, trial):
        self.calls.append(("add", trial.trial_id))

    def on_trial_result(self, trial, result):
        trial.seen = getattr(trial, "seen", 0) + 1
        assert trial.seen == result["training_iteration"] and trial.last_result == result
        return tune.STOP if trial.config["x"] < 3 and result["cost"] >= 2 else tune.CONTINUE

    def on_trial_complete(self, trial, result):
        self.calls.append(("complete", trial.trial_id, result["cost"]))


def test_a_scheduler_stops_trials(run):
    scheduler = StopsBadOnes()
    analysis = run(climb, space={"x": tune.grid_search([1, 2, 3, 4])}, metric="score", scheduler=scheduler)
    assert [(trial.status, trial.last_result["cost"]) for trial in analysis.trials] == [("stopped", 2), ("stopped", 2), ("finished", 5), ("finished", 5)]
    assert "StopsBadOnes" in analysis.trials[0].fields["reason"]
    assert sorted(call[0] for call in scheduler.calls) == ["add"] * 4 + ["complete"] * 4


class Counter(tune.Trainable):
    def setup(self, config):
        self.value = 0

    def step(self):
        self.value += 1
        return {"value": self.value, "pid": os.getpid()}

    def save_checkpoint(self, directory):
        (pathlib.Path(directory) / "value").write_text(str(self.value))

    def load_checkpoint(self, directory):
        self.value = int((pathlib.Path(directory) / "value").read_text())


class Barrier(tune.Scheduler):
    """All trials wait for each other at step 2; then the last one is ended."""

    def setup(self):
        self.waiting = []
        self.failed = []

    def on_trial_result(self, trial, result):
        if result["training_iteration"] != 2:
            return tune.CONTINUE
        self.waiting.append(trial)
        if len(self.waiting) == 3:
            assert [each.status for each in self.waiting] == ["paused", "paused", "running"]
            self.stop(self.waiting[1])
            self.resume(self.waiting[0])
        return tune.PAUSE if len(self.waiting) < 3 else tune.CONTINUE


def test_a_scheduler_pauses_resumes_and_ends_others(run):
    scheduler = Barrier()
    analysis = run(Counter, space={"x": tune.uniform(0, 1)}, metric="value", num_samples=3, scheduler=scheduler, stop={"value": 4})
    by_id = {trial.trial_id: trial for trial in analysis.trials}
    first, second, third = (by_id[trial.trial_id] for trial in scheduler.waiting)
    assert (first.last_result["value"], first.fields["attempt"]) == (4, 2)
    assert (second.status, second.last_result["value"]) == ("stopped", 2)
    assert (third.last_result["value"], third.fields["attempt"]) == (4, 1)


class Scribe(tune.Callback):
    def __init__(self):
        self.lines = []

    def setup(self, name, directory, num_trials, resumed):
        self.lines.append(("setup", name, num_trials, resumed))
        self.directory = directory

    def on_trial_start(self, trial):
        assert trial.status == "running"
        self.lines.append(("start", trial.fields["index"], trial.fields["attempt"]))

    def on_trial_restore(self, trial, checkpoint):
        self.lines.append(("restore", checkpoint.step))

    def on_trial_result(self, trial, result):
        assert trial.last_result == result
        self.lines.append(("result", result["value"]))

    def on_checkpoint(self, trial, checkpoint):
        self.lines.append(("checkpoint", checkpoint.step, (pathlib.Path(checkpoint.path) / "value").read_text()))

    def on_trial_recover(self, trial):
        self.lines.append(("recover", trial.error.split(":")[0]))

    def on_trial_complete(self, trial):
        self.lines.append(("complete", trial.status))

    def on_experiment_end(self, analysis):
        self.lines.append(("end", len(analysis.trials), analysis.directory == self.directory))


def test_callbacks_are_told(run):
    class Fragile(Counter):
        def step(self):
            if self.value == 2 and tune.get_context()["attempt"] == 1:
                raise RuntimeError("out of luck")
            return super().step()

    scribe = Scribe()
    run(Fragile, name="told", metric="value", stop={"value": 3}, checkpoint_frequency=2, max_failures=1, callbacks=[scribe])
    assert scribe.lines == [
        ("setup", "told", 1, False),
        ("start", 0, 1),
        ("result", 1),
        ("result", 2),
        ("checkpoint", 2, "2"),
        ("recover", "RuntimeError"),
        ("start", 0, 2),
        ("restore", 2),
        ("result", 3),
        ("complete", "finished"),
        ("end", 1, True),
    ]


class Broken(Exception):
    pass


def breaks(base, method, at, own):
    """A class whose method raises at its call number `at`."""

    def broken(self, *arguments):
        calls = self.__dict__.setdefault("calls", {})
        calls[method] = calls.get(method, 0) + 1
        if calls[method] == at:
            raise Broken("in the middle")
        return own(self, *arguments)

    return type("Fails", (base,), {method: broken})


@pytest.mark.parametrize("method,own", [("suggest", lambda self, i: {"x": int(i)}), ("on_result", None), ("on_complete", None)])
def test_an_exception_of_a_searcher_ends_the_run_which_can_be_resumed(run, method, own, tmp_path):
    class Plain(tune.Searcher):
        def suggest(self, trial_id):
            return {"x": int(trial_id)}

    options = {"metric": "score", "num_samples": 4, "name": "mine", "max_concurrent_trials": 1}
    with pytest.raises(Broken, match="in the middle") as raised:
        run(climb, searcher=breaks(Plain, method, 2, own or (lambda self, *arguments: None))(), **options)
    text = "".join(traceback.format_exception(raised.value))
    assert "in broken" in text and "test_tune_custom.py" in text
    if sys.version_info >= (3, 11):
        assert f"Fails.{method}()" in text and "resume=" in text
    (directory,) = tmp_path.glob("mine_*")
    Fails = type("Fails", (Plain,), {})
    again = run(climb, searcher=Fails(), resume=directory, **options)
    assert [(trial.config["x"], trial.status) for trial in again.trials] == [(i, "finished") for i in range(4)]


@pytest.mark.parametrize("method", ["on_trial_add", "on_trial_result", "on_trial_complete"])
def test_an_exception_of_a_scheduler_ends_the_run_which_can_be_resumed(run, method, tmp_path):
    options = {"metric": "score", "num_samples": 4, "name": "mine", "max_concurrent_trials": 1, "space": {"x": tune.uniform(0, 1)}}
    scheduler = breaks(tune.Scheduler, method, 2, lambda self, *arguments: tune.CONTINUE)()
    with pytest.raises(Broken):
        run(climb, scheduler=scheduler, **options)
    (directory,) = tmp_path.glob("mine_*")
    again = run(climb, scheduler=type("Fails", (tune.Scheduler,), {})(), resume=directory, **options)
    assert [trial.status for trial in again.trials] == ["finished"] * 4


@pytest.mark.parametrize("method", ["setup", "on_trial_start", "on_trial_result", "on_trial_complete", "on_experiment_end"])
def test_an_exception_of_a_callback_ends_the_run_which_can_be_resumed(run, method, tmp_path):
    options = {"metric": "score", "num_samples": 4, "name": "mine", "max_concurrent_trials": 1, "space": {"x": tune.uniform(0, 1)}}
    with pytest.raises(Broken):
        run(climb, callbacks=[breaks(tune.Callback, method, 1, None)()], **options)
    (directory,) = tmp_path.glob("mine_*")
    again = run(climb, callbacks=[tune.Callback()], resume=directory, **options)
    assert [trial.status for trial in again.trials] == ["finished"] * 4


def test_a_searcher_without_save_is_told_everything_again(run):
    options = {"space": {"x": tune.uniform(0, 6)}, "metric": "score", "seed": 3, "max_concurrent_trials": 2}
    first, second = Halving(), Halving()
    before = run(climb, num_samples=6, searcher=first, **options)
    after = run(climb, num_samples=9, searcher=second, resume=before.directory, **options)
    assert [trial.config for trial in after.trials[:6]] == [trial.config for trial in before.trials]
    assert second.told[: len(first.told)] == first.told
    assert len(after.trials) == 9 and {id_: second.configs[id_] for id_ in first.configs} == first.configs


class Restless(tune.Searcher):
    """Draws what no seed fixes, and waits for every trial."""

    def setup(self):
        self.configs = {}
        self.ended = []
        self.asked = 0

    def suggest(self, trial_id):
        self.asked += 1
        if len(self.ended) < len(self.configs):
            return tune.WAIT
        self.configs[trial_id] = {"x": random.SystemRandom().random()}
        return self.configs[trial_id]

    def on_complete(self, trial_id, result, error):
        assert self.configs[trial_id]["x"] == pytest.approx(3 - (-result["score"] - 1 / 5) ** 0.5)
        self.ended.append(trial_id)


def test_a_resume_of_a_searcher_that_cannot_repeat_itself_names_what_to_write(run):
    options = {"metric": "score", "seed": 3}
    before = run(climb, num_samples=3, searcher=Restless(), **options)
    with pytest.raises(exceptions.InvalidArgumentError, match=r"Restless.suggest\(\) returns another.*save\(\) and restore"):
        run(climb, num_samples=5, searcher=Restless(), resume=before.directory, **options)

    class Corrected(Restless):
        def on_start(self, trial_id, config):
            self.configs[trial_id] = config

    Corrected.__name__ = "Restless"
    searcher = Corrected()
    after = run(climb, num_samples=5, searcher=searcher, resume=before.directory, **options)
    assert [trial.config for trial in after.trials[:3]] == [trial.config for trial in before.trials]
    assert [trial.config for trial in after.trials] == list(searcher.configs.values())


@pytest.mark.parametrize("as_bytes", [False, True])
def test_the_state_of_a_searcher_is_saved_with_the_run(run, as_bytes):
    class Saved(Restless):
        restored = None

        def save(self):
            state = {"configs": self.configs, "ended": self.ended}
            return json.dumps(state).encode() if as_bytes else state

        def restore(self, state):
            state = json.loads(state) if as_bytes else state
            self.restored = len(state["ended"])
            self.configs, self.ended = state["configs"], state["ended"]

    options = {"metric": "score", "seed": 3}
    before = run(climb, num_samples=3, searcher=Saved(), **options)
    searcher = Saved()
    after = run(climb, num_samples=5, searcher=searcher, resume=before.directory, **options)
    assert [trial.config for trial in after.trials[:3]] == [trial.config for trial in before.trials]
    assert len(after.trials) == 5 and searcher.ended == ["0", "1", "2", "3", "4"]
    assert searcher.restored == 3
    last = Saved()
    whole = run(climb, num_samples=6, searcher=last, resume=before.directory, **options)
    assert [trial.config for trial in whole.trials[:5]] == [trial.config for trial in after.trials]
    with pytest.raises(exceptions.InvalidArgumentError, match="not restore"):
        run(climb, searcher=type("Half", (Restless,), {"save": lambda self: 1})(), metric="score")


class Impatient(tune.Scheduler):
    """Decides by chance, as no replay could."""

    def setup(self):
        self.decided = {}

    def on_trial_result(self, trial, result):
        assert trial.trial_id not in self.decided or self.decided[trial.trial_id] != "stop"
        decision = tune.STOP if random.SystemRandom().random() < 0.3 else tune.CONTINUE
        self.decided[trial.trial_id] = decision
        return decision


def test_a_resumed_run_keeps_the_decisions_of_a_scheduler(run):
    class Saved(Impatient):
        def save(self):
            return self.decided

        def restore(self, state, trials):
            assert set(state) <= set(trials) and all(trials[id_].trial_id == id_ for id_ in state)
            self.decided = state

    for kind in (Impatient, Saved):
        options = {"metric": "score", "seed": 3, "space": {"x": tune.uniform(0, 6)}}
        scheduler = kind()
        before = run(climb, num_samples=8, scheduler=scheduler, **options)
        if kind is Impatient:  # It is asked again; what it says now does not count.
            kind = type("Impatient", (tune.Scheduler,), {})
        after = run(climb, num_samples=12, scheduler=kind(), resume=before.directory, **options)
        assert len(after.trials) == 12
        assert [(trial.status, trial.last_result["cost"]) for trial in after.trials[:8]] == [(trial.status, trial.last_result["cost"]) for trial in before.trials]


class Walk(tune.Trainable):
    def setup(self, config):
        self.total = 0

    def step(self):
        self.total += self.config["lr"]
        return {"total": self.total, "lr": self.config["lr"]}

    def save_checkpoint(self, directory):
        (pathlib.Path(directory) / "total").write_text(str(self.total))

    def load_checkpoint(self, directory):
        self.total = int((pathlib.Path(directory) / "total").read_text())


class Tournament(tune.Scheduler):
    """All trials wait for each other at step 2; then the worst goes on as a copy of the best, and the second with another rate."""

    copies = True

    def setup(self):
        self.waiting = []
        self.copied = []

    def on_trial_result(self, trial, result):
        return tune.PAUSE if result["training_iteration"] == 2 else tune.CONTINUE

    def on_checkpoint(self, trial, step):
        assert trial.checkpoint_step == step == 2
        self.waiting.append(trial)
        if len(self.waiting) < 3:
            return
        best, second, worst = sorted(self.waiting, key=lambda each: -each.last_result["total"])
        self.copy(worst, best, {**best.config, "lr": 30})
        self.copy(second, second, {**second.config, "lr": 7})
        self.resume(best)
        assert (best.status, second.status, worst.status) == ("waiting", "waiting", "waiting")

    def on_trial_copied(self, trial, source, step):
        self.copied.append((trial.trial_id, source.trial_id, step, trial.config["lr"]))


class SavedTournament(Tournament):
    def save(self):
        return self.copied

    def restore(self, state, trials):
        self.copied = [tuple(one) for one in state]
        assert [trials[one[0]].config["lr"] for one in self.copied] == [one[3] for one in self.copied]
        assert all(trial.checkpoint_step == 2 for trial in trials.values())


@pytest.mark.parametrize("kind", [Tournament, SavedTournament])
def test_a_scheduler_copies_paused_trials(run, kind):
    options = {"space": {"lr": tune.grid_search([1, 2, 3]), "fixed": 5}, "metric": "total", "stop": {"training_iteration": 4}, "seed": 1}
    scheduler = kind()
    before = run(Walk, scheduler=scheduler, **options)
    ids = [trial.trial_id for trial in before.trials]
    assert sorted(scheduler.copied) == sorted([(ids[0], ids[2], 2, 30), (ids[1], ids[1], 2, 7)])
    assert [[result["total"] for result in trial.results] for trial in before.trials] == [[1, 2, 36, 66], [2, 4, 11, 18], [3, 6, 9, 12]]
    assert [trial.config for trial in before.trials] == [{"lr": lr, "fixed": 5} for lr in (30, 7, 3)]
    why = subprocess.run([volador_command(), "tune", "why", before.directory, ids[0]], capture_output=True, text=True, timeout=60)
    assert f"as a copy of trial {ids[2]}" in why.stdout, why
    # What the object says in a resumed run does not count, or it is not asked.
    if kind is Tournament:
        kind = type("Tournament", (tune.Scheduler,), {"copies": True})
    scheduler = kind()
    after = run(Walk, scheduler=scheduler, resume=before.directory, **options)
    assert [trial.config for trial in after.trials] == [trial.config for trial in before.trials]
    assert [trial.last_result["total"] for trial in after.trials] == [66, 18, 12]


def test_a_scheduler_copies_the_trial_that_reports(run):
    class Follows(tune.Scheduler):
        copies = True
        first = None
        followed = False

        def on_trial_result(self, trial, result):
            self.first = self.first or trial
            if trial is self.first:
                return tune.CHECKPOINT if result["training_iteration"] == 3 else tune.CONTINUE
            if not self.followed:
                self.followed = True
                assert self.first.status == "ended" and self.first.checkpoint_step == 3
                self.copy(trial, self.first)
            return tune.CONTINUE

    analysis = run(
        Walk, space={"lr": tune.grid_search([1, 5])}, metric="total", scheduler=Follows(), stop={"training_iteration": 5}, max_concurrent_trials=1
    )
    assert [[result["total"] for result in trial.results] for trial in analysis.trials] == [[1, 2, 3, 4, 5], [5, 4, 5]]
    assert [trial.config for trial in analysis.trials] == [{"lr": 1}, {"lr": 1}]


def test_wrong_copies_are_refused(run):
    class Wrong(tune.Scheduler):
        copies = True

        def __init__(self, act):
            self.act = act
            self.trials = []

        def on_trial_add(self, trial):
            self.trials.append(trial)

        def on_trial_result(self, trial, result):
            other = next((each for each in self.trials if each is not trial), trial)
            return self.act(self, trial, other)

    options = {"space": {"lr": tune.grid_search([1, 5])}, "metric": "total", "stop": {"training_iteration": 3}, "max_concurrent_trials": 1}
    for act, error, message in (
        (lambda self, trial, other: self.copy(other, trial), exceptions.InvalidArgumentError, "is waiting; expected a paused trial, or the one whose result"),
        (lambda self, trial, other: self.copy(trial, trial), exceptions.InvalidArgumentError, "is running; expected a paused trial, since it is its own source"),
        (lambda self, trial, other: self.copy(trial, other), exceptions.InvalidArgumentError, "has no checkpoint.*tune.CHECKPOINT"),
        (lambda self, trial, other: "clone", TypeError, "returned 'clone'; expected tune.CONTINUE, tune.CHECKPOINT"),
    ):
        with pytest.raises(error, match=message):
            run(Walk, scheduler=Wrong(act), **options)
    still = Wrong(lambda self, trial, other: self.copy(trial, other))
    still.copies = False
    with pytest.raises(exceptions.InvalidArgumentError, match="Wrong does not say that it copies trials; write copies = True"):
        run(Walk, scheduler=still, **options)
    with pytest.raises(exceptions.InvalidArgumentError, match="searcher"):
        run(Walk, scheduler=Wrong(None), searcher=tune.tpe(), **{**options, "space": {"lr": tune.randint(1, 5)}})


def test_wrong_parts_are_refused(run):
    with pytest.raises(exceptions.InvalidArgumentError, match="searcher: the class Halving was given"):
        run(climb, searcher=Halving, metric="score")
    with pytest.raises(exceptions.InvalidArgumentError, match="scheduler: expected one of volador.tune.*got a int"):
        run(climb, scheduler=3, metric="score")
    with pytest.raises(exceptions.InvalidArgumentError, match="callbacks.*tune.Callback"):
        run(climb, callbacks=[print], metric="score")

    class Returns(tune.Searcher):
        def __init__(self, value):
            self.value = value

        def suggest(self, trial_id):
            return self.value

    with pytest.raises(TypeError, match="suggest.. returned a int"):
        run(climb, searcher=Returns(3), metric="score")
    with pytest.raises(TypeError, match="x; expected a value"):
        run(climb, searcher=Returns({"x": tune.uniform(0, 1)}), metric="score")
    with pytest.raises(NotImplementedError, match="Searcher has no suggest"):
        run(climb, searcher=tune.Searcher(), metric="score")
    with pytest.raises(TypeError, match="on_trial_result.. returned None"):
        run(climb, space={"x": 1}, scheduler=type("Silent", (tune.Scheduler,), {"on_trial_result": lambda self, trial, result: None})(), metric="score")


def test_ctrl_c_ends_a_run_with_python_parts_and_resume_goes_on(tmp_path):
    script = textwrap.dedent(
        f"""
        import sys, volador
        from volador import tune
        class Mine(tune.Searcher):
            def suggest(self, trial_id):
                return {{"number": int(trial_id)}}
        class Keeps(tune.Scheduler):
            pass
        class Tells(tune.Callback):
            def on_trial_result(self, trial, result):
                if result["step"] == 5 and len(sys.argv) == 1: open({str(tmp_path / 'runs')!r}, "w").close()
        def slow(config):
            import os, time
            step = 0
            while step < 6 or not os.path.exists({str(tmp_path / 'quick')!r}):
                step += 1
                time.sleep(0.01)
                tune.report({{"step": step}})
        volador.init("local", num_cpus=2)
        analysis = tune.run(slow, name="mine", metric="step", num_samples=3, searcher=Mine(), scheduler=Keeps(), callbacks=[Tells()],
                            storage_path={str(tmp_path)!r}, progress="silent", resume=sys.argv[1] if len(sys.argv) > 1 else None)
        print("returned", analysis.interrupted, [trial.config["number"] for trial in analysis.trials])
        """
    )
    (tmp_path / "script.py").write_text(script)
    process = subprocess.Popen([sys.executable, tmp_path / "script.py"], stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "runs").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0].startswith("returned True [0, 1")
    (tmp_path / "quick").touch()
    (directory,) = tmp_path.glob("mine_*")
    again = subprocess.run([sys.executable, tmp_path / "script.py", directory], capture_output=True, text=True, timeout=60)
    assert again.stdout == "returned False [0, 1, 2]\n", again.stderr


KILLED = """
import json, os, random, sys, volador
from volador import tune

class Restless(tune.Searcher):
    def setup(self):
        self.configs, self.ended = {}, []

    def suggest(self, trial_id):
        self.configs[trial_id] = {"x": random.SystemRandom().random()}
        return self.configs[trial_id]

    def on_start(self, trial_id, config):
        self.configs[trial_id] = config

    def on_complete(self, trial_id, result, error):
        assert result["x"] == self.configs[trial_id]["x"], (trial_id, result, self.configs)
        self.ended.append(trial_id)

    def save(self):
        return [self.configs, self.ended]

    def restore(self, state):
        self.configs, self.ended = state

class Chance(tune.Scheduler):
    def on_trial_result(self, trial, result):
        return tune.STOP if random.SystemRandom().random() < 0.1 else tune.CONTINUE

class Tells(tune.Callback):
    results = 0

    def on_trial_result(self, trial, result):
        self.results += 1
        if self.results == 30 and sys.argv[2] == "first":
            os.kill(os.getpid(), 9)

def trial(config):
    for step in range(1, 6):
        tune.report({"x": config["x"], "step": step})

volador.init("local", num_cpus=2)
searcher = Restless()
analysis = tune.run(trial, name="mine", metric="x", num_samples=15, searcher=searcher, scheduler=Chance(), callbacks=[Tells()], seed=1, tensorboard=False,
                    storage_path=sys.argv[1], progress="silent", resume=sys.argv[3] if len(sys.argv) > 3 else None)
assert sorted(searcher.ended, key=int) == [str(i) for i in range(15)], searcher.ended
for trial in analysis.trials:
    steps = [result["training_iteration"] for result in trial.results]
    assert steps == list(range(1, len(steps) + 1)) and (trial.status == "stopped" or len(steps) == 5), (trial, steps)
print([trial.config["x"] for trial in analysis.trials] == [searcher.configs[str(i)]["x"] for i in range(15)], {trial.status for trial in analysis.trials} <= {"finished", "stopped"})
"""


def test_a_killed_program_is_resumed(tmp_path):
    (tmp_path / "script.py").write_text(KILLED)
    killed = subprocess.run([sys.executable, tmp_path / "script.py", tmp_path, "first"], capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (directory,) = tmp_path.glob("mine_*")
    again = subprocess.run([sys.executable, tmp_path / "script.py", tmp_path, "again", directory], capture_output=True, text=True, timeout=120)
    assert again.stdout == "True True\n", again.stderr
