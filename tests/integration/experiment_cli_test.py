"""Experiments by the command line, on one machine with two workers: the real programs; trials that use only the HTTP API.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import csv
import io
import json
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from experiment_server_test import TRIAL, Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402


class ExperimentCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        self.folder = self.cluster.home.path / "experiments" / self.id().rsplit(".", 1)[1]
        self.notes_folder, self.storage = self.folder / "notes", self.folder / "storage"
        self.code = self.folder / "code"
        for each in (self.notes_folder, self.storage, self.code):
            each.mkdir(parents=True)
        shutil.copy(TRIAL, self.code / "train.py")

    def config(self, env=(), **keys):
        """The file of a configuration."""
        config = {"name": "digits", "entrypoint": "echo begins; exec python3 train.py", "max_restarts": 0, "hyperparameters": {"lr": 0.5},
                  "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 4}},
                  "environment": {"environment_variables": [f"NOTES={self.notes_folder}", *env]},
                  "checkpoint_storage": {"type": "shared_fs", "host_path": str(self.storage)}, **keys}
        file = self.folder / "digits.yaml"
        file.write_text(json.dumps(config))
        return file

    def volador(self, *arguments, code=0):
        done = self.cluster.run(*arguments)
        self.assertEqual(done.returncode, code, f"volador {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done

    def json(self, *arguments):
        return json.loads(self.volador(*arguments, "--json").stdout)

    def create(self, *arguments, **options):
        return self.json("experiment", "create", self.config(**options), self.code, *arguments)["experiment"]["id"]

    def wait_note(self, what):
        file = self.notes_folder / "notes"
        wait_until(what, lambda: file.exists() and [line for line in file.read_text().splitlines() if json.loads(line)["what"] == what])

    def test_it_is_followed_and_shown(self):
        done = self.volador("experiment", "create", self.config(), self.code, "--follow")
        self.assertEqual(done.stdout, "begins\n")
        (experiment,) = self.json("experiment", "list", "--name=digits", "--limit=1")["experiments"]
        shown = self.volador("experiment", "describe", experiment["id"]).stdout
        for part in ("digits · COMPLETED", "loss 0.125", "single, minimizes loss, up to 4 batches", "lr = 0.5", str(self.storage)):
            self.assertIn(part, shown)
        (trial,) = self.json("experiment", "list-trials", experiment["id"])["trials"]
        self.assertIn("validation", self.volador("trial", "describe", trial["id"]).stdout)
        self.assertEqual(self.volador("trial", "logs", trial["id"]).stdout, "begins\n")
        self.assertEqual(self.volador("experiment", "logs", experiment["id"], "--follow").stdout, "begins\n")
        rows = list(csv.DictReader(io.StringIO(self.volador("trial", "metrics", trial["id"], "--group=training", "--csv").stdout)))
        self.assertEqual([(row["metric"], int(row["batches"])) for row in rows], [("loss", each) for each in (1, 2, 3, 4)])
        self.assertEqual(self.json("experiment", "metrics", experiment["id"])["series"][0]["values"], [0.125])
        self.assertIn("name: digits\n", self.volador("experiment", "config", experiment["id"]).stdout)
        # Its best checkpoint.
        self.volador("trial", "download", trial["id"], self.folder / "best")
        self.assertEqual(json.loads((self.folder / "best/state.json").read_text()), {"batches": 4})

    def test_it_is_paused_continued_and_killed(self):
        experiment = self.create(env=["GATE=3"])
        self.wait_note("waits")
        self.volador("experiment", "pause", experiment)
        self.wait_note("preempted")
        (self.notes_folder / "open").touch()
        self.volador("experiment", "activate", experiment)
        self.assertIn("COMPLETED", self.volador("experiment", "wait", experiment).stdout)
        (self.notes_folder / "open").unlink()
        fork = self.json("experiment", "fork", experiment, "--set=name=fork")["experiment"]["id"]
        self.volador("experiment", "label", "add", fork, "second")
        self.volador("experiment", "edit", fork, "--description=again")
        info = self.json("experiment", "describe", fork)
        self.assertEqual((info["name"], info["parent"], info["labels"], info["description"]), ("fork", experiment, ["second"], "again"))
        self.volador("experiment", "kill", fork)
        self.volador("experiment", "wait", fork, code=1)
        self.volador("experiment", "wait", 4711, code=6)

    def test_its_code_comes_back_and_it_is_reproduced(self):
        experiment = self.create()
        self.volador("experiment", "wait", experiment)
        again = self.json("experiment", "reproduce", experiment)["experiment"]["id"]
        self.volador("experiment", "wait", again)
        first, second = (self.json("experiment", "config", number) for number in (experiment, again))
        self.assertEqual(first["reproducibility"], second["reproducibility"])
        series = [self.json("experiment", "metrics", number)["series"] for number in (experiment, again)]
        self.assertEqual(*[[(row["metric"], row["batches"], row["values"]) for row in rows] for rows in series])
        self.volador("experiment", "download-model-def", experiment, self.folder / "fetched")
        self.assertEqual((self.folder / "fetched/train.py").read_text(), TRIAL.read_text())

    def test_deleted_checkpoints_are_removed_from_the_storage(self):
        experiment = self.create()
        self.volador("experiment", "wait", experiment)
        # By its policy the best and the latest of the three stay, which are both of the last batch.
        stored = lambda: {path.name for path in self.storage.iterdir()}  # noqa: E731
        wait_until("the other one is removed", lambda: len(stored()) == 2)
        wait_until("it is shown as deleted", lambda: {row["id"] for row in self.json("checkpoint", "list", experiment)["checkpoints"]} == stored())
        one, other = stored()
        self.assertIn("state.json", self.volador("checkpoint", "describe", one[:8]).stdout)
        self.volador("checkpoint", "rm", one[:8], "--yes")
        wait_until("it is removed", lambda: stored() == {other})
        self.volador("experiment", "delete", experiment, "--yes")
        wait_until("the experiment is deleted", lambda: self.cluster.run("experiment", "describe", experiment).returncode == 6)
        self.assertEqual(stored(), set())

    def test_what_is_wrong_is_said_before_anything_is_sent(self):
        file = self.config(sercher={})
        done = self.volador("experiment", "create", file, self.code, code=3)
        self.assertIn("digits.yaml", done.stderr)
        self.assertIn("sercher", done.stderr)
        done = self.volador("experiment", "create", self.config(resources={"slots_per_trial": 64}), self.code, code=7)
        self.assertIn("64", done.stderr)
        self.volador("experiment", "create", self.config(), self.code, "--validate")

    def test_a_startup_hook_that_fails_ends_the_trial(self):
        (self.code / "startup-hook.sh").write_text("echo installing\nfalse\necho never\n")
        done = self.volador("experiment", "create", self.config(), self.code, "-f", code=1)
        self.assertEqual(done.stdout, "installing\n")
        self.assertIn("ERROR", done.stderr)


if __name__ == "__main__":
    if not shutil.which("python3"):
        sys.exit(77)
    unittest.main(warnings="ignore")
