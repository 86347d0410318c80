"""Figures of experiments beside the same work without them: python3 tests/bench/experiment_figures.py [TRIALS]

Environment: VOLADOR_BIN, the folder of the programs; PYTHONPATH with the package volador. PyTorch is needed.
  experiment_create  `volador experiment create` to the first batch of its trial, p50, in s, beside a plain PyTorch loop in `python3 train.py`
  trial_turnaround   end of a trial to the first batch of the next one, p50, in s, warm and in a new process: a trial class with PyTorch, and a Core API program
  experiment_asha    seconds for TRIALS trials (200) of adaptive_asha with 0.1 s of work for 16 batches on 16 slots, warm and in new processes, beside that work
                     alone, and the CPU time of a run: of all processes of the cluster (cluster_cpu.py)
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import cluster_cpu

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin")).resolve()

PLAIN = """
import sys, time, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 8)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
for batch, (data, wanted) in enumerate(loader):
    loss = torch.nn.functional.mse_loss(model(data), wanted)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if batch == 0:
        open(sys.argv[1], "a").write(f"begin {time.time()}\\n")
"""

CLASS = """
import atexit, os, time, torch
from determined import pytorch

STAMPS = os.environ["STAMPS"]

def stamp(what):
    with open(STAMPS, "a") as file:
        file.write(f"{what} {time.time()}\\n")

class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context, self.first = context, True
        self.model = context.wrap_model(torch.nn.Linear(8, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=context.get_hparam("lr")))
        x = torch.randn(64, 8)
        self.data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
        atexit.register(stamp, "end")

    def build_training_data_loader(self):
        return pytorch.DataLoader(self.data, batch_size=8)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        if self.first:
            stamp("begin")
            self.first = False
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"loss": torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])}
"""

CORE = """
import atexit, os, time
from determined import core, get_cluster_info

def stamp(what):
    with open(os.environ["STAMPS"], "a") as file:
        file.write(f"{what} {time.time()}\\n")

atexit.register(stamp, "end")
batches = get_cluster_info().trial._steps_completed
with core.init() as context:
    for operation in context.searcher.operations():
        stamp("begin")
        time.sleep(float(os.environ.get("WORK", "0")) * (operation.length - batches))
        batches = operation.length
        loss = get_cluster_info().trial.hparams["lr"] / batches
        context.train.report_validation_metrics(batches, {"loss": loss})
        with context.checkpoint.store_path({"steps_completed": batches}) as (path, _):
            (path / "state").write_text("x")
        operation.report_completed(loss)
"""


def config(home, name, entrypoint, searcher, **more):
    return {
        "name": name,
        "entrypoint": entrypoint,
        "hyperparameters": {"global_batch_size": 8, "lr": {"type": "double", "minval": 0.01, "maxval": 0.1} if searcher["name"] != "single" else 0.1},
        "searcher": {"metric": "loss", "max_length": {"batches": 16}, **searcher},
        "resources": {"slots_per_trial": 1},
        "environment": {"environment_variables": [f"STAMPS={home}/stamps", *(f"{key}={value}" for key, value in more.items())]},
        "checkpoint_storage": {"type": "shared_fs", "host_path": str(home)},
    }


def run(home, *arguments):
    """Stamps of the experiment, and when its creation began. It has completed."""
    code = home / "code"
    code.mkdir(exist_ok=True)
    (code / "model_def.py").write_text(CLASS)
    (code / "train.py").write_text(CORE)
    stamps = home / "stamps"
    stamps.unlink(missing_ok=True)
    file = home / "config.json"
    file.write_text(json.dumps(config(home, *arguments[:3], **(arguments[3] if len(arguments) > 3 else {}))))
    began = time.time()
    made = json.loads(subprocess.run([BIN / "volador", "experiment", "create", file, code, "--json"], check=True, capture_output=True, text=True).stdout)
    subprocess.run([BIN / "volador", "experiment", "wait", str(made["experiment"]["id"])], check=True, capture_output=True)
    ended = time.time()
    return began, [(what, float(when)) for what, when in (line.split() for line in stamps.read_text().splitlines())], ended


def create(home, times=7):
    waits = []
    for _ in range(times):
        began, stamps, _ = run(home, "create", "model_def:Trial", {"name": "single"})
        waits.append(stamps[0][1] - began)
    return statistics.median(waits)


def plain(home, times=7):
    program, waits = home / "plain.py", []
    program.write_text(PLAIN)
    for _ in range(times):
        stamps = home / "stamps"
        stamps.unlink(missing_ok=True)
        began = time.time()
        subprocess.run([sys.executable, program, stamps], check=True)
        waits.append(float(stamps.read_text().split()[1]) - began)
    return statistics.median(waits)


def turnaround(home, entrypoint, more, trials=6):
    _, stamps, _ = run(home, "turnaround", entrypoint, {"name": "random", "max_trials": trials, "max_concurrent_trials": 1}, more)
    gaps = [later[1] - earlier[1] for earlier, later in zip(stamps, stamps[1:], strict=False) if (earlier[0], later[0]) == ("end", "begin")]
    assert len(gaps) == trials - 1, stamps
    return statistics.median(gaps)


COLD = {"VOLADOR_WARM_START": "0"}


def asha(home, trials, more):
    used = cluster_cpu.seconds(home)
    began, stamps, ended = run(home, "asha", "python3 train.py", {"name": "adaptive_asha", "max_trials": trials, "max_concurrent_trials": 16}, {"WORK": "0.00625", **more})
    runs = sum(what == "end" for what, _ in stamps)
    return ended - began, runs, (cluster_cpu.seconds(home) - used) / runs


def main():
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory(prefix="vb-") as name:
        home = pathlib.Path(name)
        os.environ.update(VOLADOR_HOME=name, HOME=name)
        os.environ.pop("VOLADOR_BIN", None)  # No setting.
        cluster_cpu.adopt()
        subprocess.run([BIN / "volador", "start", "--head", "--port=0", "--num-cpus=16", "--no-dashboard"], check=True, stdout=subprocess.DEVNULL)
        try:
            run(home, "warm", "model_def:Trial", {"name": "single"})  # The first job starts the template.
            made, bare = create(home), plain(home)
            print(f"experiment_create    {made:6.2f} s    plain loop  {bare:5.2f} s    more {made - bare:5.2f} s")
            for entrypoint, what in (("model_def:Trial", "class with PyTorch"), ("python3 train.py", "Core API program without PyTorch")):
                warm, cold = turnaround(home, entrypoint, {}), turnaround(home, entrypoint, COLD)
                print(f"trial_turnaround     {warm:6.3f} s    in new processes {cold:6.3f} s    {what}", flush=True)
            work = 0.00625 * 16 * trials / 16  # If every trial trained in full.
            for what, more in (("warm", {}), ("in new processes", COLD)):
                seconds, runs, cpu = asha(home, trials, more)
                print(f"experiment_asha      {seconds:6.1f} s    {what}: {trials} trials, {runs} runs, {cpu:.3f} CPU-s each; at most {work:.1f} s of work on each slot", flush=True)
        finally:
            subprocess.run([BIN / "volador", "stop"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
