"""The Core API of Determined, its alias, and programs that are started from a configuration."""

import logging
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")
np = pytest.importorskip("numpy")
yaml = pytest.importorskip("yaml")

from volador.compat import _alias  # noqa: E402
from volador.compat import determined as det  # noqa: E402
from volador.compat.determined import _config, _launch, core, pytorch  # noqa: E402
from volador.compat.determined.core import _preempt  # noqa: E402
from volador.compat.determined.pytorch import samplers  # noqa: E402

pytestmark = pytest.mark.usefixtures("determined_alone")

TRIALS = pathlib.Path(__file__).parent / "determined_trials"


def test_core_checkpoints(tmp_path):
    source = tmp_path / "mine"
    (source / "sub").mkdir(parents=True)
    (source / "a.txt").write_text("a")
    (source / "sub" / "b.txt").write_text("b")
    with core.init(checkpoint_storage=str(tmp_path / "store")) as context:
        with pytest.raises(ValueError, match="expected a 'steps_completed' integer"):
            context.checkpoint.upload(source, {})
        with pytest.raises(ValueError, match="steps_completed"), context.checkpoint.store_path() as (path, _):
            (path / "x").write_text("x")
        assert list((tmp_path / "store").iterdir()) == []  # Nothing is left of it.
        uuid = context.checkpoint.upload(source, {"steps_completed": 3}, selector=lambda name: name.startswith("sub"))
        context.checkpoint.download(uuid, tmp_path / "copy")
        assert sorted(path.name for path in (tmp_path / "copy").rglob("*")) == ["b.txt", "metadata.json", "sub"]
        assert context.checkpoint.get_metadata(uuid) == {"steps_completed": 3}
        with context.checkpoint.restore_path(uuid) as path:
            assert (path / "sub" / "b.txt").read_text() == "b"
        context.checkpoint.delete(uuid)
        with pytest.raises(det.errors.CheckpointNotFound, match=uuid), context.checkpoint.restore_path(uuid):
            pass
        with pytest.raises(ValueError, match="expected the id of a checkpoint"):
            context.checkpoint.delete("../mine")
    assert (source / "a.txt").exists()


def test_core_operations_and_preemption():
    with core.init() as context:
        assert context.searcher.get_configured_units() is core.Unit.EPOCHS
        with pytest.raises(RuntimeError, match="was not completed"):
            for op in context.searcher.operations():
                assert op.length == 1
        for op in context.searcher.operations(core.SearcherMode.ChiefOnly):
            op.report_progress(0.5)
            op.report_completed(1.0)
            with pytest.raises(RuntimeError, match="called before"):
                op.report_completed(1.0)
        assert not context.preempt.should_preempt()
        _preempt.request_preemption()
        assert context.preempt.should_preempt()
        assert context.train.get_experiment_best_validation() is None
        with pytest.raises(RuntimeError, match="metric 'm' is None"):
            context.train.report_validation_metrics(1, {"m": None})
    with pytest.raises(SystemExit) as ended, core.init():
        raise det.InvalidHP("too large")
    assert ended.value.code == 0
    with pytest.raises(RuntimeError, match="not started"):
        core.PreemptContext(core.DummyDistributedContext()).should_preempt()


def test_metrics_go_to_the_log(caplog):
    with caplog.at_level(logging.INFO, "determined.core"), core.init() as context:
        context.train.report_training_metrics(4, {"loss": np.float32(0.5), "bad": float("nan")})
    assert 'metrics group=training steps_completed=4 metrics={"loss": 0.5, "bad": "NaN"}' in caplog.text


# The alias and the launcher.


def test_the_alias_gives_the_same_modules_and_yields_to_a_real_package(tmp_path, monkeypatch):
    for name in [each for each in sys.modules if each.partition(".")[0] == "determined"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    _alias.install()
    (tmp_path / "determined").mkdir()  # A folder without modules.
    monkeypatch.syspath_prepend(str(tmp_path))
    import determined
    from determined.pytorch import PyTorchTrial
    from determined.pytorch.samplers import SkipBatchSampler

    assert determined is det and determined.pytorch is pytorch
    assert PyTorchTrial is pytorch.PyTorchTrial and SkipBatchSampler is samplers.SkipBatchSampler
    with pytest.raises(ModuleNotFoundError, match="determined.estimator"):
        import determined.estimator  # noqa: F401
    del sys.modules["determined"]
    (tmp_path / "determined" / "__init__.py").write_text("real = True\n")
    import determined

    assert determined.real
    monkeypatch.delitem(sys.modules, "determined")


def launch(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "volador.determined", *map(str, arguments)], capture_output=True, text=True, timeout=120, **options)


def test_a_tutorial_trains_from_its_configuration_and_goes_on(tmp_path):
    done = launch("model_def:MNistTrial", TRIALS / "const.yaml", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if "training" in line][0].startswith("batch 16  training  loss ")
    validations = [re.match(r"batch (\d+)  validation  validation_loss (\S+)  accuracy (\S+)", line) for line in lines if "validation_loss" in line]
    assert [int(match[1]) for match in validations] == [16, 32, 48, 64]
    assert float(validations[-1][3]) > 0.6 and float(validations[-1][2]) < float(validations[0][2])
    last = re.fullmatch(r"checkpoint: (.*) \(batch (\d+)\)", lines[-1])
    assert int(last[2]) == 64 and (pathlib.Path(last[1]) / "code" / "model_def.py").exists()
    early = next(pathlib.Path(tmp_path / "out" / line.split()[-1]) for line in lines if line.startswith("batch 32  checkpoint"))
    again = launch(TRIALS / "const.yaml", "--output", tmp_path / "out", "--checkpoint", early.name)
    assert [line for line in again.stdout.splitlines() if "batch 64  v" in line] == [line for line in lines if "batch 64  v" in line]
    assert "batch 16 " not in again.stdout and again.returncode == 0


def test_a_core_api_program_runs_from_its_configuration(tmp_path):
    done = launch(TRIALS / "core_loop.yaml", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "notice: hyperparameters.increment_by: 2, the middle of int 1 to 3; write a constant to choose another"
    assert [line for line in lines if "checkpoint" not in line][1:] == ["batch 10  training  x 20", "batch 20  training  x 40", "batch 25  validation  x 50"]
    assert lines[-1].endswith("(batch 20)")


GOOD = {
    "name": "n",
    "entrypoint": "model_def:MNistTrial",
    "hyperparameters": {"global_batch_size": 8},
    "searcher": {"name": "single", "metric": "m", "max_length": {"batches": 10}},
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sercher": 1}, "conf.yaml:10: sercher: there is no such key at the top level; did you mean searcher?"),
        ({"searcher": {"name": "single", "max_length": {"batches": 10}}}, "conf.yaml:5: searcher.metric: expected the name of a validation metric, got None"),
        ({"searcher": {"metric": "m", "max_length": {"batchs": 10}}}, 'searcher.max_length: expected a whole number, or one of "batches"'),
        ({"searcher": {"metric": "m", "max_length": {"batches": 0}}}, "searcher.max_length: expected at least 1, got 0"),
        ({"searcher": {"metric": "m", "max_length": 10}}, "searcher.max_length: expected a unit, got the bare number 10; write {batches: 10}"),
        ({"searcher": {"metric": "m"}}, "searcher.max_length: missing; add for example max_length: {batches: 1000}"),
        ({"min_validation_period": 5}, "min_validation_period: expected a unit, got 5; write {batches: 5}"),
        ({"scheduling_unit": 0}, "scheduling_unit: expected a whole number, at least 1, got 0"),
        ({"checkpoint_policy": "newest"}, "checkpoint_policy: expected best, all or none, got 'newest'"),
        ({"hyperparameters": {"lr": {"type": "int", "minval": 3, "maxval": 1}}}, "hyperparameters.lr: expected minval below maxval, got 3 and 1"),
        ({"hyperparameters": {"lr": {"type": "integer"}}}, "hyperparameters.lr.type: expected const, int, double, log or categorical, got 'integer'"),
        ({"hyperparameters": {"lr": {"type": "categorical", "vals": []}}}, "hyperparameters.lr.vals: expected a list of at least one value"),
        ({"hyperparameters": {}, "min_checkpoint_period": {"records": 9}}, "min_checkpoint_period: a length in records needs the hyperparameter global_batch_size"),
        ({"entrypoint": None}, "entrypoint: missing; add entrypoint: module:Class"),
        ({"entrypoint": "horovodrun -np 8 x"}, "entrypoint: expected module:Class or python3 SCRIPT.py"),
        ({"entrypoint": "no_such_module:T"}, "entrypoint: there is no no_such_module.py in .; put it beside the configuration"),
        ({"checkpoint_storage": {"type": "s3", "bucket": "b"}}, "checkpoint_storage: bucket: expected the name of a bucket"),
        ({"checkpoint_storage": {"type": "nfs"}}, "checkpoint_storage: expected a path or an address"),
        ({"reproducibility": {"experiment_seed": -1}}, "reproducibility.experiment_seed: expected a whole number, 0 to 4294967295, got -1"),
    ],
)
def test_a_wrong_configuration_says_where_and_what(change, message, capsys):
    pathlib.Path("conf.yaml").write_text(yaml.safe_dump({**GOOD, **change}, sort_keys=False))
    assert _launch.main(["conf.yaml"]) == 2
    said = capsys.readouterr().err
    assert re.match(r"error: conf\.yaml:\d+: ", said) and message in said, said


def test_what_is_not_a_configuration(capsys):
    for text, message in (("a: [1\nb: 2", "conf.yaml:2: this is not YAML"), ("- a", "conf.yaml:1: expected a mapping of keys"), (None, "cannot be read")):
        pathlib.Path("conf.yaml").unlink(missing_ok=True)
        if text is not None:
            pathlib.Path("conf.yaml").write_text(text)
        assert _launch.main(["conf.yaml"]) == 2
        assert message in capsys.readouterr().err


def test_ranges_of_hyperparameters_take_their_middle():
    pathlib.Path("conf.yaml").write_text(
        """
name: n
searcher: {metric: m, max_length: {epochs: 2}}
hyperparameters:
  a: {type: int, minval: 1, maxval: 4}
  b: {type: double, minval: 0, maxval: 1}
  c: {type: log, base: 10, minval: -4, maxval: -2}
  d: {type: categorical, vals: [x, y]}
  e: {type: const, val: [1]}
  f: {g: 3, h: {type: const, val: 4}}
  i: 1e-3
"""
    )
    values, notices = _config.hparams_of(_config.read("conf.yaml"))
    assert values == {"a": 2, "b": 0.5, "c": 1e-3, "d": "x", "e": [1], "f": {"g": 3, "h": 4}, "i": 0.001}
    assert len(notices) == 4 and notices[2].startswith("hyperparameters.c: 0.001, the middle of log -4 to -2")


def test_code_of_a_program_imports_beside_another_of_that_name(tmp_path, monkeypatch):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "twin_module.py").write_text(f"where = {name!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "here"))
    import twin_module as here

    with det.import_from_path(tmp_path / "there"):
        import twin_module as there
    assert (here.where, there.where, sys.modules["twin_module"]) == ("here", "there", here)
    monkeypatch.delitem(sys.modules, "twin_module")
