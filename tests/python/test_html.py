"""HTML for notebooks, made from plain data."""

import html.parser
import math

import pytest

import volador
from volador import _html, _notebook, tune
from volador.tune import _progress
from volador.train import _progress as _training


class Parsed(html.parser.HTMLParser):
    """Elements must be closed in their order. Collects texts by row, and all names of elements."""

    def __init__(self, text):
        super().__init__()
        self.open, self.names, self.rows, self.texts, self.titles = [], set(), [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.names.add(tag)
        self.titles += [value for name, value in attributes if name == "title"]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.rows and any(tag in ("td", "th") for tag in self.open):
            self.rows[-1][-1] += data

    @property
    def text(self):
        return "".join(self.texts)


def trial(number, status="finished", score=None, **more):
    fields = {"trial_id": f"t{number}", "index": number, "status": status, "step": 3, "config": {"lr": 0.5 / (number + 1), "model": {"width": 16}}}
    return {**fields, "last_result": {} if score is None else {"score": score, "training_iteration": 3.0}, **more}


def shown(trials, **fields):
    fields.setdefault("metrics", ["score"])
    run = _progress.Run("digits", trials={each["trial_id"]: each for each in trials}, **fields)
    return Parsed(_html.page(_progress.page_of(run)))


def test_all_text_of_the_data_is_escaped():
    attack = '<script>alert("1")</script>\'&\x1b[31m\u202e'
    page = _html.Page(
        title=attack, state=attack, facts=[attack], lines=[attack], tables=[_html.Table([attack * 9], [_html.Row([attack * 9]), _html.Row([_html.State(attack)])], attack)],
        errors=[(attack, attack)], notices=[attack], footer=attack,
    )
    made = _html.page(page)
    assert "<script" not in made and "\x1b" not in made and "\u202e" not in made
    parsed = Parsed(made)
    assert parsed.names <= {"div", "strong", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert parsed.text.count('<script>alert("1")</script>') >= 9
    assert all(len(title) <= _html.TOOLTIP_MAX for title in parsed.titles)
    run = trial(0, "failed", error=attack, config={attack: attack}, last_result={attack: 1.0})
    assert "<script" not in _html.page(_progress.page_of(_progress.Run(attack, metrics=[attack], trials={attack: {**run, "trial_id": attack}})))


def test_long_texts_are_cut_and_stay_in_the_tooltip():
    name, value = "parameter_" * 20, "value " * 40
    parsed = Parsed(_html.page(_html.Page("run", tables=[_html.Table([name], [_html.Row([value])])])))
    assert all(len(cell) <= _html.TEXT_MAX for row in parsed.rows for cell in row)
    assert parsed.titles == [name, value]
    assert len(Parsed(_html.page(_html.Page("run", errors=[("trial t1", "x" * 10_000)]))).text) < 1000


def test_numbers_are_short_and_missing_ones_are_dashes():
    values = [1, 2.0, 0.123456, 1e-7, 123456789.5, math.nan, -math.inf, True, None, "text", [1, 2]]
    assert [_html.plain(value) for value in values] == ["1", "2", "0.1235", "1e-07", "1.235e+08", "nan", "-inf", "True", "–", "text", "[1, 2]"]
    assert [_html.elapsed(seconds) for seconds in (0, 21.9, 3723)] == ["0:00", "0:21", "1:02:03"]
    assert _html.resources({"cpus": 4, "gpus": 1, "memory": 2**32, "disk": 2}, {"cpus": 2, "gpus": 0.5}) == "2 of 4 CPUs, 0.5 of 1 GPU, 0 of 2 disk"


def test_the_best_trial_is_marked_and_the_first():
    parsed = shown([trial(0, score=0.1), trial(1, "running", score=0.4), trial(2, score=0.9), trial(3, "waiting")], planned=6, seconds=83)
    assert parsed.rows[0] == ["", "trial", "state", "step", "score", "lr", "model.width"]
    assert [row[:3] for row in parsed.rows[1:]] == [["★", "t2", "● finished"], ["", "t1", "● running"], ["", "t0", "● finished"], ["", "t3", "● waiting"]]
    assert parsed.rows[4][4] == "–"
    assert "2 of 6 trials: 1 running, 3 waiting, 2 finished" in parsed.text
    assert "1:23" in parsed.text
    assert "best t2: score 0.9 at step 3 · lr 0.1667, model.width 16" in parsed.text
    assert [row[1] for row in shown([trial(0, score=0.1), trial(1, score=0.4)], mode="min").rows[1:]] == ["t0", "t1"]


def test_a_value_that_is_no_result_is_never_the_best():
    trials = [trial(0, score="nan"), trial(1, score=math.nan), trial(2, score="inf"), trial(3), trial(4, score=-5.0)]
    parsed = shown(trials)
    assert parsed.rows[1][:2] == ["★", "t4"]
    assert {row[1]: row[4] for row in parsed.rows[1:]} == {"t0": "nan", "t1": "nan", "t2": "inf", "t3": "–", "t4": "-5"}
    assert "★" not in shown(trials[:4]).text
    assert "best" not in shown(trials[:4]).text


def test_a_report_without_the_metric_leaves_its_last_value():
    summary = {"last": 0.75, "last_step": 2}
    parsed = shown([trial(1, score=0.75), trial(0, metrics={"score": summary}, last_result={"other": 1.0})])
    assert parsed.rows[1][:5] == ["★", "t0", "● finished", "3", "0.75"]  # The first that was created has equal values too.
    assert "best t0: score 0.75 at step 2" in parsed.text


def test_of_many_trials_some_rows_are_shown_and_the_others_are_counted():
    trials = [trial(number, "running" if number >= 9_990 else "finished", score=float(number % 1000)) for number in range(10_000)]
    parsed = shown(trials, planned=10_000)
    assert len(parsed.rows) == 1 + _progress.ROWS_MAX
    assert [row[2] for row in parsed.rows[1:12]] == ["● finished"] + ["● running"] * 10
    assert "… more trials: 9980 finished" in parsed.text
    assert len(_html.page(_progress.page_of(_progress.Run("digits", trials={each["trial_id"]: each for each in trials})))) < 20_000


def test_a_run_without_metric_and_one_with_several():
    parsed = shown([trial(0, score=0.5)], metrics=[])
    assert parsed.rows[0] == ["trial", "state", "step", "score", "lr", "model.width"]
    two = [trial(number, last_result={"loss": 1.0 * number, "size": 5.0 - number}) for number in range(3)]
    parsed = shown(two, metrics=["loss", "size"], best=["t0", "t2"], state="finished")
    assert [row[:2] for row in parsed.rows[1:]] == [["★", "t0"], ["★", "t2"], ["", "t1"]]


def test_many_parameters_are_counted_and_constants_left_out():
    config = {f"p{number}": number for number in range(30)}
    parsed = shown([trial(0, config=config)])
    assert len(parsed.rows[0]) == 4 + _progress.COLUMNS_MAX
    assert "… 22 more parameters" in parsed.text
    space = {"lr": tune.uniform(0, 1), "batch": 32, "model": {"width": tune.choice([1, 2]), "depth": 3}, "layers": [tune.randint(1, 5)]}
    assert _progress.variable_paths(space) == ["lr", "model.width", "layers"]
    parsed = shown([trial(0, config={"lr": 0.1, "batch": 32, "model": {"width": {"low": 1}, "depth": 3}})], parameters=["lr", "model.width"])
    assert parsed.rows[0][3:] == ["score", "lr", "model.width.low"]


def test_failed_trials_say_why():
    parsed = shown([trial(number, "failed", error=f"ValueError: {number}") for number in range(8)])
    assert "trial t0 ValueError: 0" in parsed.text and "trial t5" not in parsed.text
    assert "… 3 more failed" in parsed.text


def test_a_page_has_a_text_for_readers_without_html():
    page = _progress.page_of(_progress.Run("digits", ["score"], trials={"t0": trial(0, score=0.5)}, planned=1, state="finished", directory="~/r"))
    assert _html.text(page) == "digits · finished · 1 of 1 trial: 1 finished · 0:00\nbest t0: score 0.5 at step 3 · lr 0.5, model.width 16\nresults ~/r"


def test_a_training_run_shows_its_metrics_and_ranks():
    run = _training.Training("digits", "loss", activity="waits for 1 worker", step=7, checkpoint=5, directory="~/r")
    for value in (0.5, math.nan, 0.25, 0.75):
        run.metrics.setdefault("accuracy", _training.Series()).add(1 - value)
        run.metrics.setdefault("loss", _training.Series()).add(value)
    run.metrics["other"] = _training.Series()
    run.metrics["other"].add(math.nan)
    run.ranks = [("heron", 4711, "cpu")] * 20
    run.faults.append(("rank 1", "its process was killed by <SIGKILL>"))
    parsed = Parsed(_html.page(_training.page_of(run)))
    assert ["loss", "0.75", "0.25", "0.75"] == parsed.rows[1]
    assert ["other", "nan", "nan", "nan"] in parsed.rows
    assert sum(row[1:] == ["heron", "4711", "cpu"] for row in parsed.rows) == _training.RANKS_MAX
    for part in ("step 7", "20 workers", "1 fault", "waits for 1 worker", "last checkpoint after step 5", "… 4 more ranks", "rank 1 its process was killed by <SIGKILL>"):
        assert part in parsed.text
    run.state = "finished"
    assert "waits for" not in Parsed(_html.page(_training.page_of(run))).text


class Report:
    """Records the calls that a run's report gets."""

    directory = "/results/digits"

    def __init__(self):
        self.calls = []

    def stop_requested(self):
        return False

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


def test_what_follows_a_training_run_passes_everything_on(monkeypatch):
    published = []
    monkeypatch.setattr(_notebook, "publish", lambda data, display_id, is_first: published.append((data["text/plain"], display_id, is_first)))
    report = Report()
    with _training.Watch("digits", "loss") as watch:
        assert watch.around(report).directory == "/results/digits"
        assert not watch.stop_requested()
        watch.activity("waits for 1 worker")
        watch.ranks([(None, "heron", 4711, "cpu")], 0)
        watch.metrics(3, {"loss": 0.5})
        watch.fault(0, "it was killed")
        watch.event("goes on")
        watch.checkpoint(2)
        watch.end("finished", "")
    assert [call[0] for call in report.calls] == ["activity", "ranks", "metrics", "fault", "event", "end"]
    assert report.calls[2] == ("metrics", 3, {"loss": 0.5})
    assert published[0][2] and not any(is_first for _, _, is_first in published[1:])
    assert len({display_id for _, display_id, _ in published}) == 1
    last = published[-1][0]
    assert last.startswith("digits · finished · step 3 · 1 worker · 1 fault · 0:00\nlast checkpoint after step 2\nrank 0: it was killed\ngoes on")
    with pytest.raises(KeyError), _training.Watch("digits", "loss"):
        raise KeyError("lost")
    assert "failed" in published[-1][0]


def test_a_page_that_cannot_be_made_ends_no_run(monkeypatch):
    monkeypatch.setattr(_notebook, "publish", lambda *arguments: None)

    def page():
        raise ValueError("no page")

    with pytest.warns(RuntimeWarning, match="ValueError: no page"), _notebook.LiveOutput(page):
        pass


def climb(config):
    for step in range(3):
        tune.report({"score": config["x"] + step})
    if config["x"] > 3:
        raise ValueError("too <far>")


def test_results_have_tables(tmp_path):
    assert not _notebook.is_notebook()
    analysis = tune.run(
        climb, name="climb", space={"x": tune.grid_search([1, 2, 4]), "fixed": 1}, metric="score", storage_path=tmp_path, progress="silent", raise_on_failed_trial=False
    )
    best = analysis.best_trial()
    for one in (analysis, tune.Analysis.load(analysis.directory)):
        parsed = Parsed(one._repr_html_())
        assert parsed.rows[0] == ["", "trial", "state", "step", "score", "x"]
        assert parsed.rows[1][:2] == ["★", best.trial_id]
        assert "climb" in parsed.text and "too <far>" in parsed.text
    parsed = Parsed(best._repr_html_())
    assert ["x", str(best.config["x"])] in parsed.rows and ["score", _html.number(best.last_result["score"])] in parsed.rows
    from volador.compat.ray.tune import ResultGrid

    assert ResultGrid(analysis)._repr_html_() == analysis._repr_html_()


def test_a_run_with_objectives_marks_those_that_no_other_dominates(tmp_path):
    def two(config):
        tune.report({"loss": config["x"], "size": 3 - config["x"] if config["x"] < 3 else 5})

    analysis = tune.run(
        two, space={"x": tune.grid_search([1, 2, 3])}, objectives={"loss": "min", "size": "min"}, storage_path=tmp_path, progress="silent"
    )
    parsed = Parsed(analysis._repr_html_())
    assert [row[0] for row in parsed.rows[1:]] == ["★", "★", ""]
    assert parsed.rows[0][4:6] == ["loss", "size"]


def test_studies_have_tables():
    study = tune.Study(mode="min", searcher="random", seed=1)
    assert "no trials" in Parsed(study._repr_html_()).text

    def objective(one):
        x = one.suggest_float("x", 0, 1)
        if one.number == 3:
            raise ValueError("<bad>")
        return x

    study.optimize(objective, 30, catch=ValueError)
    parsed = Parsed(study._repr_html_())
    assert parsed.rows[0] == ["", "trial", "state", "value", "x"]
    assert parsed.rows[1][:2] == ["★", str(study.best_trial.number)]
    assert "30 trials: 29 complete, 1 failed" in parsed.text and "… 10 more" in parsed.text and "trial 3 ValueError: <bad>" in parsed.text
    from volador.compat import optuna

    assert "no trials" in optuna.create_study()._repr_html_()


def test_clusters_and_actors_say_what_they_have(cluster):
    class Named(volador.Actor):
        def pid(self):
            return 1

    parsed = Parsed(cluster._repr_html_())
    assert parsed.rows[0] == ["resource", "total", "in use", "free"]
    actor = Named.options(name="<shown>", num_cpus=2).remote()
    volador.wait_ready(actor)
    found = volador.get_actor("<shown>")
    for handle in (actor, found):
        parsed = Parsed(handle._repr_html_())
        assert "Actor" in parsed.text and "● alive" in parsed.text and "name <shown>" in parsed.text
        with pytest.raises(AttributeError):
            handle._ipython_display_
        with pytest.raises(AttributeError):
            handle._repr_png_
    volador.kill(actor)
