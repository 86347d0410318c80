"""Trials of Determined with several slots, on workers."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
yaml = pytest.importorskip("yaml")

TRIALS = pathlib.Path(__file__).parent / "determined_trials"


def run(tmp_path, change, model="", expected=0):
    """Runs the experiment in a folder of its own; returns what it printed."""
    folder = tmp_path / "experiment"
    folder.mkdir()
    for name in ("model_def.py", "data.py"):
        (folder / name).write_text((TRIALS / name).read_text() + (model if name == "model_def.py" else ""))
    config = {**yaml.safe_load((TRIALS / "const.yaml").read_text()), **change}
    (folder / "conf.yaml").write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [sys.executable, "-m", "volador.determined", "conf.yaml", "--output", str(tmp_path / "output")],
        cwd=folder, env={**os.environ, "VOLADOR_HOME": str(tmp_path / "home")}, capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


FAULT = """
import os, signal

class Fault(MNistTrial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        flag = self.context.get_data_config()["flag"]
        if batch_idx == 40 and self.context.distributed.rank == 1 and not os.path.exists(flag):
            open(flag, "w").close()
            FAULT
        return super().train_batch(batch, epoch_idx, batch_idx)
"""


def last_validation(text):
    found = re.findall(r"batch (\d+)  validation  .*accuracy ([\d.]+)", text)
    return int(found[-1][0]), float(found[-1][1])


def test_two_slots_train_on_two_workers(tmp_path):
    text = run(tmp_path, {"resources": {"slots_per_trial": 2}})
    steps, accuracy = last_validation(text)
    assert "2 workers, each with a share of the CPUs" in text and steps == 64 and accuracy > 0.5
    folder = pathlib.Path(re.findall(r"^checkpoint: (.*)$", text, re.MULTILINE)[-1])
    assert (folder / "state_dict.pth").exists()
    lines = [json.loads(line) for line in open(next((tmp_path / "output").glob("digits_const_*/train-*/result.json")))]
    assert {"loss", "accuracy", "validation_loss"} <= set(lines[-1])


@pytest.mark.parametrize("fault", ["os.kill(os.getpid(), signal.SIGKILL)", 'raise RuntimeError("no luck")'])
def test_it_goes_on_from_its_last_checkpoint(tmp_path, fault):
    text = run(
        tmp_path,
        {
            "resources": {"slots_per_trial": 2},
            "entrypoint": "model_def:Fault",
            "data": {"records": 512, "flag": str(tmp_path / "flag")},
            "min_checkpoint_period": {"batches": 16},
        },
        FAULT.replace("FAULT", fault),
    )
    assert (tmp_path / "flag").exists()
    steps, accuracy = last_validation(text)
    assert steps == 64 and accuracy > 0.5
    assert text.count("batch 32  checkpoint") == 1 and text.count("batch 16  checkpoint") == 1


def test_a_trial_that_always_fails_ends_with_its_exception(tmp_path):
    text = run(
        tmp_path,
        {"resources": {"slots_per_trial": 2}, "entrypoint": "model_def:Broken", "max_restarts": 1},
        """
class Broken(MNistTrial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        raise ArithmeticError("it never works")
""",
        expected=1,
    )
    assert "ArithmeticError: it never works" in text
