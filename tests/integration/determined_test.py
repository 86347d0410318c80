"""Trials of Determined by the Python package on one machine with two workers: the real programs, classes and scripts that train on drawn digits.

Environment: VOLADOR_BIN, the folder of the programs; PYTHONPATH with the package, PyTorch and PyYAML. Exit code 77: they are not there.
"""

import contextlib
import math
import os
import pathlib
import re
import shutil
import sys
import unittest

try:
    import torch
    import yaml
    from volador import exceptions
    from volador.compat.determined.experimental import client
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from experiment_server_test import Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402

TRIALS = pathlib.Path(__file__).resolve().parents[1] / "python" / "determined_trials"
SECONDS = 120

# Meets the test at places of the training, by files in a folder.
MODEL = """
import os, pathlib, time

from volador.compat.determined.core import _preempt

MEETING = pathlib.Path("FOLDER")


class Meeting(MNistTrial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        self.meet(batch_idx)
        return super().train_batch(batch, epoch_idx, batch_idx)

    def meet(self, batch_idx):
        pass

    def once(self, name):
        if self.context.distributed.rank != 0 or (MEETING / name).exists():
            return False
        (MEETING / name).touch()
        return True


class Paused(Meeting):
    def meet(self, batch_idx):
        if batch_idx == 9 and self.once("reached"):
            while not _preempt.is_requested():
                time.sleep(0.01)


class Gated(Meeting):
    def meet(self, batch_idx):
        if batch_idx == 5 and self.once("reached"):
            while not (MEETING / "open").exists():
                time.sleep(0.01)


class Failing(Meeting):
    def meet(self, batch_idx):
        if batch_idx == 9 and self.once("failed"):
            raise ArithmeticError("it failed once")


class Invalid(Meeting):
    def meet(self, batch_idx):
        if batch_idx == 2:
            raise det.InvalidHP("no good")


class Diverging(MNistTrial):
    def evaluate_batch(self, batch):
        return {"validation_loss": float("nan"), "accuracy": 0.5}
"""


class SmallNodes(Cluster):
    """Two workers with a CPU each and no GPU, so that two slots need both."""

    def must(self, *arguments):
        if arguments[0] == "start":
            arguments = [word for word in arguments if not str(word).startswith(("--num-cpus", "--num-gpus"))] + ["--num-cpus=1", "--num-gpus=0"]
        return super().must(*arguments)


# Stands for DeepSpeed's launcher: shows each node of the host file, then runs the program here.
LAUNCHER = """#!/bin/bash
hostfile=$2
while [ "$1" != -- ]; do shift; done
shift
while read -r host slots; do ssh -n "$host" 'echo "node $VOLADOR_JOB_RANK of $VOLADOR_JOB_NODES"'; done < "$hostfile"
RANK=0 exec "$@"
"""


class Case(unittest.TestCase):
    make_cluster = Cluster

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.make_cluster()
        os.environ.update(VOLADOR_ADDRESS=cls.cluster.head_address(), VOLADOR_TOKEN=cls.cluster.token)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        name = self.id().rsplit(".", 1)[1]
        self.meeting = self.cluster.home.path / "meetings" / name
        self.meeting.mkdir(parents=True)
        self.code = self.cluster.home.path / "code" / name
        self.code.mkdir(parents=True)
        for file in ("model_def.py", "data.py", "core_loop.py"):
            shutil.copy(TRIALS / file, self.code)
        with open(self.code / "model_def.py", "a") as file:
            file.write(MODEL.replace("FOLDER", str(self.meeting)))

    def create(self, entrypoint="model_def:MNistTrial", hparams=None, **config):
        given = yaml.safe_load((TRIALS / "const.yaml").read_text())
        given.update(
            name=self.id().rsplit(".", 1)[1],
            entrypoint=entrypoint,
            data={"records": 256},
            searcher={"name": "single", "metric": "validation_loss", "max_length": {"batches": 16}, **config.pop("searcher", {})},
            scheduling_unit=4,
            min_validation_period={"batches": 8},
            min_checkpoint_period={"batches": 4},
            max_restarts=0,
            resources={"slots_per_trial": 0},
        )
        given.update(config)
        given["hyperparameters"].update({"n_filters1": 4, "n_filters2": 4, **(hparams or {})})
        return client.create_experiment(given, model_dir=self.code)

    def wait_completed(self, experiment):
        def ended():
            with contextlib.suppress(exceptions.UnavailableError):  # The head may be away.
                return experiment.reload().state.value in ("COMPLETED", "ERROR", "CANCELED")
            return False
        wait_until(f"experiment {experiment.id} has ended", ended, SECONDS)
        said = [line for trial in experiment.get_trials() for line in trial.logs()]
        self.assertEqual(experiment.state.value, "COMPLETED", "\n".join([experiment.reason, *said[-60:]]))
        return experiment.get_trials()

    def reached(self, name="reached"):
        wait_until(f"the trial is at {name}", (self.meeting / name).exists, SECONDS)

    @staticmethod
    def reports(trial, group="training"):
        return [(report.steps_completed, report.metrics) for report in trial.iter_metrics(group)]


class Determined(Case):
    def plain(self):
        """Reports of the trial that nothing disturbs."""
        if not hasattr(type(self), "_plain"):
            (trial,) = self.wait_completed(self.create())
            type(self)._plain = {group: self.reports(trial, group) for group in ("training", "validation")}
        return self._plain

    def is_as_plain(self, trial):
        for group, expected in self.plain().items():
            self.assertEqual(self.reports(trial, group), expected)  # To the last bit.

    def test_a_class_trains_and_its_checkpoint_loads(self):
        experiment = self.create()
        (trial,) = self.wait_completed(experiment)
        self.assertEqual([steps for steps, _ in self.reports(trial)], [4, 8, 12, 16])
        validations = self.reports(trial, "validation")
        self.assertEqual([steps for steps, _ in validations], [8, 16])
        self.assertEqual(set(validations[0][1]), {"validation_loss", "accuracy"})
        best = experiment.top_checkpoint()
        self.assertEqual(best.metric, min(metrics["validation_loss"] for _, metrics in validations))
        folder = pathlib.Path(best.download(self.meeting / "best"))
        self.assertEqual({str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}, {path for path in best.resources if not path.endswith("/")})
        self.assertEqual(sorted(path.name for path in (folder / "code").iterdir()), ["core_loop.py", "data.py", "model_def.py"])
        state = torch.load(folder / "state_dict.pth", weights_only=False)
        self.assertIn("models_state_dict", state)
        self.assertTrue(any("validation_loss" in line for line in trial.logs()))

    def pause_and_activate(self, **config):
        """The trial, which trained on after the pause."""
        experiment = self.create("model_def:Paused", **config)
        self.reached()
        experiment.pause()
        wait_until("its job has ended", lambda: self.cluster.job(self.cluster.get(f"/experiments/{experiment.id}/trials")["rows"][0]["job"])["state"] == "succeeded")
        (trial,) = experiment.get_trials()
        self.assertEqual((trial.state.value, trial.steps_completed), ("PAUSED", 12))
        self.assertEqual(trial.select_checkpoint(latest=True).steps_completed, 12)
        experiment.activate()
        (trial,) = self.wait_completed(experiment)
        self.assertEqual(trial.restarts, 0)
        return trial

    def test_a_paused_trial_goes_on_as_if_it_was_not(self):
        self.is_as_plain(self.pause_and_activate())

    def test_a_failed_trial_goes_on_from_its_checkpoint(self):
        experiment = self.create("model_def:Failing", max_restarts=1)
        (trial,) = self.wait_completed(experiment)
        self.assertEqual((trial.restarts, (self.meeting / "failed").exists()), (1, True))
        self.is_as_plain(trial)

    def test_invalid_hyperparameters_end_a_trial_without_a_failure(self):
        (trial,) = self.wait_completed(self.create("model_def:Invalid"))
        self.assertEqual((trial.state.value, trial.restarts), ("COMPLETED", 0))

    def test_a_diverged_trial_ends_with_what_it_reports(self):
        experiment = self.create("model_def:Diverging")
        (trial,) = self.wait_completed(experiment)
        self.assertTrue(all(math.isnan(metrics["validation_loss"]) and metrics["accuracy"] == 0.5 for _, metrics in self.reports(trial, "validation")))
        self.assertEqual((len(self.reports(trial, "validation")), experiment.top_n_checkpoints(1)), (2, []))

    def test_adaptive_asha_over_four_hyperparameters(self):
        experiment = self.create(
            hparams={
                "learning_rate": {"type": "log", "base": 10, "minval": -2, "maxval": 0},
                "n_filters1": {"type": "int", "minval": 2, "maxval": 6},
                "dropout1": {"type": "double", "minval": 0.0, "maxval": 0.5},
                "dropout2": {"type": "categorical", "vals": [0.0, 0.25]},
            },
            searcher={"name": "adaptive_asha", "max_trials": 4, "max_rungs": 2, "divisor": 4, "mode": "aggressive"},
        )
        trials = self.wait_completed(experiment)
        self.assertEqual(({trial.state.value for trial in trials}, len(trials)), ({"COMPLETED"}, 4))
        lengths = sorted(trial.steps_completed for trial in trials)
        self.assertEqual((lengths[0], lengths[-1]), (4, 16))
        self.assertTrue(all({"learning_rate", "n_filters1", "dropout1", "dropout2"} <= trial.hparams.keys() for trial in trials))
        best = min(trial.best_metric for trial in trials)
        self.assertEqual(experiment.top_checkpoint().metric, best)

    def test_a_core_api_script_gets_the_names_of_determined(self):
        experiment = self.create("python3 core_loop.py 0", hparams={"increment_by": 2}, searcher={"metric": "x", "max_length": {"batches": 25}})
        (trial,) = self.wait_completed(experiment)
        self.assertEqual((self.reports(trial), self.reports(trial, "validation")), ([(10, {"x": 20.0}), (20, {"x": 40.0})], [(25, {"x": 50.0})]))
        self.assertEqual(trial.best_metric, 50.0)

    def test_slots_are_processes(self):
        for entrypoint in ("model_def:MNistTrial", "python3 -m determined.launch.torch_distributed --trial model_def:MNistTrial"):
            experiment = self.create(entrypoint, resources={"slots_per_trial": 2})
            (trial,) = self.wait_completed(experiment)
            self.assertEqual([steps for steps, _ in self.reports(trial)], [4, 8, 12, 16])
            lines = list(trial.logs())
            shown = [line for line in lines if re.search(r"batch 16  validation", line)]
            self.assertEqual(len(shown), 1, lines)  # By the chief only.
            self.assertEqual(shown[0].startswith("[rank=0] "), "launch" in entrypoint)
        paused = self.pause_and_activate(resources={"slots_per_trial": 2})
        for group in ("training", "validation"):
            self.assertEqual(self.reports(paused, group), self.reports(trial, group))

    def test_a_killed_head_fails_no_trial(self):
        experiment = self.create("model_def:Gated")
        self.reached()
        self.cluster.kill(self.cluster.pid_of("head"))
        (self.meeting / "open").touch()
        self.cluster.start_head()
        (trial,) = self.wait_completed(experiment)
        self.assertEqual(trial.restarts, 0)
        self.is_as_plain(trial)


class TwoNodes(Case):
    make_cluster = SmallNodes

    def test_slots_on_two_nodes(self):
        reports = []
        for entrypoint in ("model_def:MNistTrial", "python3 -m determined.launch.torch_distributed --trial model_def:MNistTrial"):
            experiment = self.create(entrypoint, resources={"slots_per_trial": 2})
            (trial,) = self.wait_completed(experiment)
            job = self.cluster.job(self.cluster.get(f"/experiments/{experiment.id}/trials")["rows"][0]["job"])
            self.assertEqual({rank["node"] for rank in job["ranks"]}, {"west", "east"})
            reports.append(self.reports(trial))
        self.assertEqual([steps for steps, _ in reports[0]], [4, 8, 12, 16])
        self.assertEqual(reports[0], reports[1])

    def test_a_launcher_of_the_first_node_reaches_the_other_one(self):
        (self.code / "tools").mkdir()
        (self.code / "tools" / "deepspeed").write_text(LAUNCHER)
        (self.code / "tools" / "deepspeed").chmod(0o755)
        entrypoint = "PATH=$PWD/tools:$PATH exec python3 -m determined.launch.deepspeed -- python3 core_loop.py 0"
        experiment = self.create(entrypoint, hparams={"increment_by": 2}, searcher={"metric": "x", "max_length": {"batches": 10}}, resources={"slots_per_trial": 2})
        (trial,) = self.wait_completed(experiment)
        self.assertEqual(self.reports(trial, "validation"), [(10, {"x": 20.0})])
        self.assertEqual([line for line in trial.logs() if line.startswith("node ")], ["node 0 of 2", "node 1 of 2"])


if __name__ == "__main__":
    unittest.main(warnings="ignore")
