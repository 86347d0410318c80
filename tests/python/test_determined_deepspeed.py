"""DeepSpeedTrial in a process of a trial, with a head that is an object of the test: with DeepSpeed where it is installed, else with an engine that has
its interface (determined_trials/small_engine.py)."""

import importlib.util
import json
import os
import pathlib
import shutil
import signal
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("yaml")

from volador.compat.determined import _launch, errors  # noqa: E402
from volador.compat.determined import core as det_core  # noqa: E402
from volador.compat.determined.core import _preempt, _train  # noqa: E402
from volador.compat.determined.pytorch import deepspeed as det_deepspeed  # noqa: E402

TRIALS = pathlib.Path(__file__).parent / "determined_trials"
sys.path.insert(0, str(TRIALS))

import small_engine  # noqa: E402
from fake_head import FakeHead, join_trial, leave_cluster, metrics_of, write_info  # noqa: E402

INSTALLED = importlib.util.find_spec("deepspeed") is not None
if INSTALLED and not torch.cuda.is_available():
    os.environ.setdefault("DS_ACCELERATOR", "cpu")

CONFIG = {
    "name": "digits",
    "entrypoint": "deepspeed_def:DigitsTrial",
    "searcher": {"name": "single", "metric": "validation_loss", "smaller_is_better": True, "max_length": {"batches": 12}},
    "scheduling_unit": 4,
    "min_validation_period": {"batches": 4},
    "min_checkpoint_period": {"batches": 0},
    "perform_initial_validation": False,
    "checkpoint_policy": "none",
}
HPARAMS = {"overwrite_deepspeed_args": {"gradient_accumulation_steps": 2}}  # 16 records are a batch, 8 batches an epoch.


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """Makes this process one of trial 7 of experiment 3, in a folder with the program; returns a function that tells it its head."""
    for name in ("deepspeed_def.py", "data.py"):
        shutil.copy(TRIALS / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    if not INSTALLED:
        monkeypatch.setitem(sys.modules, "deepspeed", small_engine)
    before = signal.getsignal(signal.SIGTERM)

    def start(head, config=None, latest=None, steps=0):
        storage = {"type": "shared_fs", "host_path": str(tmp_path), "storage_path": "store"}
        write_info(tmp_path / "info", {**CONFIG, **(config or {})}, HPARAMS, latest, storage, steps, addresses=("10.0.0.1",), rank=0, slots=(0,))
        join_trial(monkeypatch, head, tmp_path / "info", ("deepspeed_def", "data"))
        return head

    yield start
    signal.signal(signal.SIGTERM, before)
    leave_cluster()
    _train.listener = None


def test_a_class_trains_in_micro_batches_and_goes_on_bit_for_bit(trial):
    whole = trial(FakeHead([12]))
    assert _launch.main(["--trial"]) == 0
    training, validations = metrics_of(whole, "training"), metrics_of(whole, "validation")
    assert sorted(training) == sorted(validations) == [4, 8, 12]
    assert set(training[4]) == {"loss"} and set(validations[4]) == {"validation_loss", "accuracy"}
    assert validations[12]["validation_loss"] < validations[4]["validation_loss"]
    assert whole.of("CompleteTrialOperation") == [{"length": 12, "metric": validations[12]["validation_loss"]}]
    first = trial(FakeHead([12]))
    first.preempt_after = ("ReportMetrics", 2)  # The validation at 4.
    first.wait_for_preemption(_preempt._requested)
    assert _launch.main(["--trial"]) == 0
    assert first.names()[-2:] == ["ReportCheckpoint", "AcknowledgePreemption"]
    saved = first.of("ReportCheckpoint")[0]["checkpoint"]
    assert {"det_state_dict_rank0.pth", "trial_state.pkl", "load_data.json", "code/deepspeed_def.py", "model0/"} <= set(saved["resources"])
    second = trial(FakeHead([12]), latest=saved["id"], steps=4)
    assert _launch.main(["--trial"]) == 0
    assert sorted(metrics_of(second, "training")) == [8, 12]
    for group in ("training", "validation"):
        assert {**metrics_of(first, group), **metrics_of(second, group)} == metrics_of(whole, group)
    state = torch.load(pathlib.Path("store") / second.of("ReportCheckpoint")[-1]["checkpoint"]["id"] / "det_state_dict_rank0.pth", weights_only=False)
    assert state["callbacks"] == {"counting": {"reports": 3}}


def test_a_trial_may_take_the_micro_batches_itself(trial):
    automatic = trial(FakeHead([4]))
    assert _launch.main(["--trial"]) == 0
    manual = trial(FakeHead([4]), {"entrypoint": "deepspeed_def:ManualTrial"})
    assert _launch.main(["--trial"]) == 0
    assert metrics_of(manual, "validation") == metrics_of(automatic, "validation")
    trial(FakeHead([4]), {"entrypoint": "deepspeed_def:ForgetfulTrial"})
    with pytest.raises(errors.InvalidExperimentException, match="the engine has taken 1 micro-batches, expected a multiple of its 2"):
        _launch.main(["--trial"])


def test_lengths_in_epochs(trial):
    head = trial(FakeHead([1]), {"searcher": {**CONFIG["searcher"], "max_length": {"epochs": 1}}, "min_validation_period": {"epochs": 1}})
    assert _launch.main(["--trial"]) == 0
    assert sorted(metrics_of(head, "validation")) == [8]


@pytest.mark.skipif(INSTALLED, reason="DeepSpeed is installed")
def test_a_missing_deepspeed_is_named(trial, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "deepspeed")
    trial(FakeHead([4]))
    assert _launch.main(["--trial"]) == 2
    assert "deepspeed is not installed; install it with: pip install deepspeed" in capsys.readouterr().err
    with pytest.raises(ModuleNotFoundError, match="DeepSpeedTrial: DeepSpeed is not installed"), det_deepspeed.init():
        pass


def context_of(**options):
    return det_deepspeed.DeepSpeedTrialContext(det_core.Context(det_core.CheckpointContext(det_core.DummyDistributedContext(), ".")), **options)


def engine_of(size=2, steps=3):
    model = torch.nn.Linear(1, 1)
    config = {"train_micro_batch_size_per_gpu": size, "gradient_accumulation_steps": steps, "optimizer": {"params": {"lr": 0.1}}}
    return small_engine.Engine(model, model.parameters(), config)


def test_the_context_takes_engines_and_one_mpu():
    context = context_of()
    mpu = det_deepspeed.ModelParallelUnit(1, 2, should_report_metrics=False, should_build_data_loader=True)
    with pytest.raises(errors.InvalidExperimentException, match=r"call wrap_model_engine\(\) before"):
        context.set_mpu(mpu)
    with pytest.raises(errors.InvalidExperimentException, match="no engine was wrapped"):
        context.num_micro_batches_per_slot  # noqa: B018
    engine = engine_of()
    assert context.wrap_model_engine(engine) is engine and context.models == [engine]
    assert (context.train_micro_batch_size_per_gpu, context.num_micro_batches_per_slot, context.use_pipeline_parallel) == (2, 3, False)
    assert context._mpu == det_deepspeed.ModelParallelUnit(0, 1, True, True)
    context.set_mpu(mpu)
    assert context._mpu is mpu
    with pytest.raises(errors.InvalidExperimentException, match="called before"):
        context.set_mpu(mpu)
    with pytest.raises(errors.InvalidExperimentException, match="optimizations.aggregation_frequency"):
        context_of(exp_conf={"optimizations": {"aggregation_frequency": 2}})


class Grid:
    def __init__(self, stage):
        self.stage = stage

    def get_pipe_parallel_rank(self):
        return self.stage

    def get_pipe_parallel_world_size(self):
        return 3

    def get_data_parallel_rank(self):
        return 1

    def get_data_parallel_world_size(self):
        return 2

    def get_slice_parallel_rank(self):
        return 0


def test_a_pipeline_engine_decides_which_processes_read(monkeypatch):
    class Pipeline(small_engine.Engine):
        mpu = Grid(1)

    fake = type(sys)("deepspeed")
    fake.PipelineEngine = Pipeline
    monkeypatch.setitem(sys.modules, "deepspeed", fake)
    engine = engine_of()
    engine.__class__ = Pipeline
    context = context_of()
    context.wrap_model_engine(engine)
    assert context.use_pipeline_parallel and context._calls_per_batch() == 1
    assert context._mpu == det_deepspeed.ModelParallelUnit(1, 2, should_report_metrics=True, should_build_data_loader=False)
    assert [det_deepspeed.make_deepspeed_mpu(Grid(stage)).should_build_data_loader for stage in range(3)] == [True, False, True]


def test_configurations_are_merged(tmp_path):
    base = {"optimizer": {"type": "Adam", "params": {"lr": 1, "eps": 2}}, "fp16": False}
    merged = {"optimizer": {"type": "Adam", "params": {"lr": 3, "eps": 2}}, "fp16": False, "more": 1}
    assert det_deepspeed.overwrite_deepspeed_config(base, {"optimizer": {"params": {"lr": 3}}, "more": 1}) == merged
    file = tmp_path / "ds.json"
    file.write_text(json.dumps(base))
    assert det_deepspeed.overwrite_deepspeed_config(str(file), {}) == base
    file.write_text('{"a": 1, "a": 2}')
    with pytest.raises(ValueError, match="the file has a twice"):
        det_deepspeed.overwrite_deepspeed_config(str(file), {})
    with pytest.raises(TypeError, match="got a list"):
        det_deepspeed.overwrite_deepspeed_config([], {})
