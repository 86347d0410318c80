"""Trials that are forks of a warm process, on one machine with two workers: the real programs.

Environment: VOLADOR_BIN, the folder of the programs; PYTHONPATH with the package and NumPy. Exit code 77: they are not there.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import signal
import sys
import unittest

try:
    import numpy  # noqa: F401
    import volador  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from experiment_server_test import Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402

# What it is started by, what it computes, and how it ends.
TRAIN = """
import json, os, pathlib, signal, subprocess, sys, time
import numpy
from determined import core, get_cluster_info

info = get_cluster_info()
notes = pathlib.Path(os.environ["NOTES"])

def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

def note(what, **more):
    keeper = os.getppid()
    warm = b"_warm" in pathlib.Path(f"/proc/{keeper}/cmdline").read_bytes()
    groups = pathlib.Path("/proc/self/cgroup").read_text()
    with open(notes / "notes", "a") as file:
        file.write(json.dumps({"what": what, "trial": info.trial.trial_id, "pid": os.getpid(), "warm": parent(keeper) if warm else 0,
                               "own_group": "/warm-" in groups, **more}) + "\\n")

print("begins", sys.argv, file=sys.stderr)
note("begins", home=os.getcwd(), version=open("version.txt").read())
mode = os.environ.get("MODE", "")
if mode == "code":
    print("a last line")
    sys.exit(7)
generator = numpy.random.default_rng(info.trial.trial_seed)
with core.init() as context:
    for operation in context.searcher.operations():
        weights = numpy.zeros(8)
        for batch in range(1, operation.length + 1):
            x = generator.normal(size=(32, 8))
            weights += info.trial.hparams["lr"] * x.T @ (x.sum(1) - x @ weights) / 32
            context.train.report_training_metrics(batch, {"loss": float(((x.sum(1) - x @ weights) ** 2).mean())})
            if mode == "wait" and batch == 2 and not (notes / "open").exists():
                sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
                note("waits", child=sleeper.pid)
                while not (notes / "open").exists() and not context.preempt.should_preempt():
                    time.sleep(0.01)
                if not (notes / "open").exists():
                    note("preempted")
                    sys.exit(0)
        loss = float((weights**2).sum())
        context.train.report_validation_metrics(operation.length, {"loss": loss})
        operation.report_completed(loss)
        note("ends", loss=loss.hex(), weights=[value.hex() for value in weights])
print("".join(f"line {number}\\n" for number in range(2000)), end="")
"""

# Trains on random numbers without seeds of its own.
CLASS = """
import json, os, torch
from determined import pytorch

class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.3), torch.nn.Linear(64, 1)))
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("lr")))
        x = torch.randn(256, 64)
        self.data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
        with open(os.path.join(os.environ["NOTES"], "notes"), "a") as file:
            warm = b"_warm" in open(f"/proc/{os.getppid()}/cmdline", "rb").read()
            file.write(json.dumps({"what": "begins", "warm": warm, "threads": torch.get_num_threads()}) + "\\n")

    def build_training_data_loader(self):
        return pytorch.DataLoader(self.data, batch_size=32, shuffle=True, num_workers=1)

    def build_validation_data_loader(self):
        return pytorch.DataLoader(self.data, batch_size=32)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"loss": torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])}
"""


class Trials(unittest.TestCase):
    def setUp(self):
        self.folder = self.cluster.home.path / "experiments" / self.id().rsplit(".", 1)[1]
        self.notes_folder, self.code = self.folder / "notes", self.folder / "code"
        for each in (self.notes_folder, self.code, self.folder / "storage"):
            each.mkdir(parents=True)
        (self.code / "train.py").write_text(TRAIN)
        (self.code / "version.txt").write_text("1")

    def create(self, *env, searcher=None, **keys):
        config = {"name": "warm", "entrypoint": "python3 train.py --fast", "max_restarts": 0, "reproducibility": {"experiment_seed": 7},
                  "hyperparameters": {"lr": {"type": "double", "minval": 0.01, "maxval": 0.1}},
                  "searcher": {"metric": "loss", "max_length": {"batches": 4}, **(searcher or {"name": "random", "max_trials": 3, "max_concurrent_trials": 1})},
                  "environment": {"environment_variables": [f"NOTES={self.notes_folder}", *env]},
                  "checkpoint_storage": {"type": "shared_fs", "host_path": str(self.folder / "storage")}, **keys}
        file = self.folder / "config.json"
        file.write_text(json.dumps(config))
        return json.loads(self.cluster.must("experiment", "create", file, self.code, "--json"))["experiment"]["id"]

    def wait(self, experiment, state="COMPLETED"):
        self.cluster.run("experiment", "wait", str(experiment))
        info = self.cluster.get(f"/experiments/{experiment}")
        trials = self.cluster.get(f"/experiments/{experiment}/trials")["rows"]
        self.assertEqual(info["state"], state, trials)
        return trials

    def notes(self, what):
        file = self.notes_folder / "notes"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("\n")]  # The last one may be half written.
        return [row for row in rows if row["what"] == what]

    def wait_note(self, what, count=1):
        return wait_until(f"{count} × {what}", lambda: len(found := self.notes(what)) >= count and found)

    def forget(self):
        (self.notes_folder / "notes").unlink()

    def assert_gone(self, *pids):
        for pid in pids:
            wait_until(f"process {pid} is gone", lambda pid=pid: not pathlib.Path(f"/proc/{pid}").exists() or b"\0" not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())


class WarmTrials(Trials):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def test_a_warm_trial_computes_what_a_cold_one_does(self):
        trials = self.wait(self.create())
        warm, begins = self.notes("ends"), self.notes("begins")
        self.assertTrue(all(note["warm"] for note in begins), begins)
        self.assertFalse(any(note["own_group"] for note in begins), "a trial is in the control group of its job")
        self.assertEqual(len({note["pid"] for note in begins}), 3)
        logs = self.cluster.must("trial", "logs", str(trials[0]["id"]))
        self.assertIn("begins ['train.py', '--fast']", logs)
        self.assertEqual([line for line in logs.splitlines() if line.startswith("line ")], [f"line {number}" for number in range(2000)])
        self.forget()
        cold_trials = self.wait(self.create("VOLADOR_WARM_START=0"))
        self.assertEqual({note["warm"] for note in self.notes("begins")}, {0})
        cold = self.notes("ends")
        self.assertEqual([(note["loss"], note["weights"]) for note in warm], [(note["loss"], note["weights"]) for note in cold])
        self.assertEqual([trial["metrics"] for trial in trials], [trial["metrics"] for trial in cold_trials])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not there")
    def test_a_warm_trial_class_computes_what_a_cold_one_does(self):
        (self.code / "model_def.py").write_text(CLASS)
        reported = []
        for env in ((), ("VOLADOR_WARM_START=0",)):
            trials = self.wait(self.create(*env, entrypoint="model_def:Trial", hyperparameters={"global_batch_size": 32, "lr": 0.01},
                                           searcher={"name": "random", "max_trials": 2, "max_concurrent_trials": 1, "max_length": {"batches": 16}}))
            begins = self.notes("begins")
            self.forget()
            self.assertEqual({note["warm"] for note in begins}, {not env})
            reported.append(([note["threads"] for note in begins], [trial["metrics"] for trial in trials]))
        self.assertEqual(*reported)

    def test_experiments_share_nothing(self):
        first = self.create()
        self.wait(first)
        (self.code / "version.txt").write_text("2")
        self.wait(self.create())
        notes = self.notes("begins")
        by_version = {version: {note["warm"] for note in notes if note["version"] == version} for version in "12"}
        self.assertEqual(set(map(bool, by_version["1"] | by_version["2"])), {True})
        self.assertFalse(by_version["1"] & by_version["2"])

    def test_the_exit_code_and_the_last_lines_arrive(self):
        (trial,) = self.wait(self.create("MODE=code", searcher={"name": "single"}), "ERROR")
        self.assertTrue(self.notes("begins")[0]["warm"])
        jobs = self.cluster.get("/jobs", version="/api/v1")["rows"]
        (job,) = [job for job in jobs if job["spec"]["trial"] == f"{trial['id']}.1"]
        self.assertEqual(job["exit_code"], 7, job)
        self.assertIn("a last line", self.cluster.must("trial", "logs", str(trial["id"])))

    def run_trial(self):
        """Variables with which the process of run-trial was started: those of its job, or of the host that it is a fork of."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                home = f"VOLADOR_HOME={self.cluster.home.path}".encode()
                variables = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if any(pair.startswith(home) for pair in variables) and b"experiment run" in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                    return [pair.partition(b"=")[0] for pair in variables]
        raise AssertionError("no process of run-trial")

    def test_run_trial_is_a_fork_of_its_host_and_log_policies_see_all_lines(self):
        policies = [{"name": "first", "pattern": r"^begins \['train.py'"}, {"name": "last", "pattern": "^line 1999$"}]
        experiment = self.create("MODE=wait", searcher={"name": "single"}, max_restarts=1, log_policies=[{**policy, "action": None} for policy in policies])
        (note,) = self.wait_note("waits")
        self.assertNotIn(b"VOLADOR_TRIAL", self.run_trial())
        os.kill(note["pid"], signal.SIGKILL)
        self.wait_note("waits", 2)
        self.assertNotIn(b"VOLADOR_TRIAL", self.run_trial())
        (self.notes_folder / "open").touch()
        (trial,) = self.wait(experiment)
        self.assertEqual(trial["restarts"], 1)
        rows = self.cluster.get("/jobs", version="/api/v1")["rows"]
        jobs = {job["spec"]["trial"].partition(".")[2]: job for job in rows if job["spec"]["trial"].startswith(f"{trial['id']}.")}
        self.assertEqual({run: (job["exit_code"], sorted(job["labels"])) for run, job in jobs.items()}, {"1": (137, ["first"]), "2": (0, ["first", "last"])})

    def test_a_killed_trial_leaves_nothing(self):
        experiment = self.create("MODE=wait", searcher={"name": "single"})
        (note,) = self.wait_note("waits")
        self.assertTrue(note["warm"])
        self.cluster.must("experiment", "kill", str(experiment))
        self.wait(experiment, "CANCELED")
        self.assert_gone(note["pid"], note["child"])

    def test_a_paused_trial_is_told(self):
        experiment = self.create("MODE=wait", searcher={"name": "single"})
        (note,) = self.wait_note("waits")
        self.cluster.must("experiment", "pause", str(experiment))
        self.wait_note("preempted")
        self.assert_gone(note["pid"], note["child"])
        (self.notes_folder / "open").touch()
        self.cluster.must("experiment", "activate", str(experiment))
        self.wait(experiment)

    def test_trials_end_with_a_warm_process_that_is_killed(self):
        experiment = self.create("MODE=wait", searcher={"name": "single"}, max_restarts=1)
        (note,) = self.wait_note("waits")
        os.kill(note["warm"], signal.SIGKILL)
        self.assert_gone(note["pid"], note["child"])
        (self.notes_folder / "open").touch()
        (trial,) = self.wait(experiment)
        self.assertEqual((trial["restarts"], len({note["warm"] for note in self.notes("begins")})), (1, 2))


class Ends(Trials):
    """In clusters of their own."""

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        super().setUp()
        self.experiment = self.create("MODE=wait", searcher={"name": "single"})
        (self.note,) = self.wait_note("waits")
        self.assertTrue(self.note["warm"])

    def test_stop_leaves_nothing(self):
        self.cluster.must("stop")
        self.assert_gone(self.note["pid"], self.note["child"], self.note["warm"])
        self.assertEqual(self.cluster.home.pids(), [])

    def connections(self):
        """Connections of the trial's process to other machines or the head."""
        sockets = set()
        for descriptor in pathlib.Path(f"/proc/{self.note['pid']}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(descriptor))
        rows = [line.split() for kind in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
        return [row for row in rows if f"socket:[{row[9]}]" in sockets]

    def test_a_trial_reports_through_its_node_also_to_a_head_that_was_killed_meanwhile(self):
        self.assertEqual(self.connections(), [])
        self.cluster.kill(self.cluster.pid_of("head"))
        (self.notes_folder / "open").touch()
        self.cluster.start_head()
        (trial,) = self.wait(self.experiment)
        self.assertEqual((trial["restarts"], trial["run"], trial["state"]), (0, 1, "COMPLETED"))

    def test_a_killed_worker_leaves_no_trial(self):
        for node in ("west", "east"):
            self.cluster.kill(self.cluster.pid_of("worker", node))
        self.assert_gone(self.note["pid"], self.note["warm"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
