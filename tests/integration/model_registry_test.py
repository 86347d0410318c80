"""The model registry on one machine with two workers: the real programs; a trial that uses only the HTTP API.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from experiment_server_test import TRIAL, Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402


class ModelRegistry(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        self.folder = self.cluster.home.path / "models" / self.id().rsplit(".", 1)[1]
        self.notes, self.storage = self.folder / "notes", self.folder / "storage"
        for each in (self.notes, self.storage):
            each.mkdir(parents=True)

    def volador(self, *arguments, code=0):
        done = self.cluster.run(*arguments)
        self.assertEqual(done.returncode, code, f"volador {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done

    def json(self, *arguments):
        return json.loads(self.volador(*arguments, "--json").stdout)

    def begin(self):
        """An experiment whose trial has saved a checkpoint and waits; its policy keeps none when it ends."""
        config = {"name": "digits", "entrypoint": f"python3 {TRIAL}", "max_restarts": 0, "hyperparameters": {"lr": 0.5},
                  "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 4}},
                  "environment": {"environment_variables": [f"NOTES={self.notes}", "GATE=2"]},
                  "checkpoint_storage": {"type": "shared_fs", "host_path": str(self.storage), "save_experiment_best": 0, "save_trial_best": 0, "save_trial_latest": 0}}
        made = self.cluster.post("/experiments", {"config": json.dumps(config)})["experiment"]["id"]
        rows = wait_until("it has saved a checkpoint", lambda: self.checkpoints(made))
        return made, next(iter(rows))

    def checkpoints(self, experiment):
        return {row["id"]: row["state"] for row in self.cluster.get(f"/experiments/{experiment}/checkpoints")["rows"]}

    def end(self, experiment):
        """Returns when nothing is left to delete."""
        (self.notes / "open").touch()
        wait_until("it is COMPLETED", lambda: self.cluster.get(f"/experiments/{experiment}")["state"] == "COMPLETED", 90)
        return wait_until("the others are deleted", lambda: "DELETING" not in (states := self.checkpoints(experiment)).values() and "DELETED" in states.values() and states, 90)

    def test_a_registered_checkpoint_outlives_its_policy_and_the_head(self):
        experiment, checkpoint = self.begin()
        self.assertEqual(self.json("model", "create", "digits", "--description=all of them", "--label=vision", '--metadata={"classes": 10}')["id"], 1)
        version = self.json("model", "register-version", "digits", checkpoint[:8], "--comment=first", "--alias=staging")
        self.assertEqual((version["version"], version["checkpoint"], version["aliases"]), (1, checkpoint, ["staging"]))
        self.assertIn("production → 1", self.volador("model", "promote", "digits", "staging", "production").stdout)
        states = self.end(experiment)
        self.assertEqual([name for name, state in states.items() if state == "COMPLETED"], [checkpoint])
        self.assertEqual([path.name for path in self.storage.iterdir()], [checkpoint])

        self.cluster.kill(self.cluster.pid_of("head"))
        self.cluster.start_head()
        model = self.cluster.get("/models/digits", version="/api/v1")
        self.assertEqual((model["versions"], model["newest_version"], model["aliases"], model["labels"], model["metadata"]), (1, 1, {"production": 1, "staging": 1}, ["vision"], {"classes": 10}))
        self.assertEqual(self.cluster.get("/models/digits/versions/production", version="/api/v1")["checkpoint_info"]["batches"], 2)
        self.assertEqual([row["comment"] for row in self.cluster.get("/models/digits/versions", version="/api/v1")["rows"]], ["first"])
        self.assertIn("digits", self.volador("model", "list", "--label=vision").stdout)
        self.volador("model", "download", "digits@production", self.folder / "copy")
        self.assertEqual(json.loads((self.folder / "copy" / "state.json").read_text()), {"batches": 2})

        refused = self.volador("checkpoint", "rm", checkpoint, "--yes", code=2)
        self.assertIn("it is version 1 of model digits; delete that version first", refused.stderr)
        refused = self.volador("experiment", "delete", str(experiment), "--yes", code=2)
        self.assertIn(f"checkpoint {checkpoint} of experiment {experiment} is version 1 of model digits", refused.stderr)
        self.volador("experiment", "edit", str(experiment), "--save-trial-latest=0")
        self.assertEqual(self.checkpoints(experiment)[checkpoint], "COMPLETED")

        self.volador("model", "delete-version", "digits", "production", "--yes")
        self.assertIn("model digits has no versions yet", self.volador("model", "download", "digits", code=6).stderr)
        self.volador("experiment", "delete", str(experiment), "--yes")
        wait_until("its checkpoints are gone", lambda: not list(self.storage.iterdir()))
        self.volador("model", "delete", "digits", "--yes")
        self.assertIn("there is no model", self.volador("model", "describe", "digits", code=6).stderr)

    def test_commands_name_what_is_wrong(self):
        self.volador("model", "create", "letters")
        self.assertIn("names are unique", self.volador("model", "create", "letters", code=2).stderr)
        self.assertIn("did you mean letters?", self.volador("model", "describe", "leters", code=6).stderr)
        self.assertIn("there is no checkpoint", self.volador("model", "register-version", "letters", "0000", code=6).stderr)
        self.assertIn("what is to change?", self.volador("model", "edit", "letters", code=2).stderr)
        self.volador("model", "edit", "letters", "--name=of the alphabet", "--notes=see the wiki", "--add-label=text")
        shown = self.volador("model", "describe", "of the alphabet").stdout
        for text in ("see the wiki", "text", "no versions"):
            self.assertIn(text, shown)
        self.assertIn("archived", self.volador("model", "archive", "of the alphabet").stdout)
        self.assertIn("is archived", self.volador("model", "edit", "of the alphabet", "--notes=", code=2).stderr)
        self.assertNotIn("alphabet", self.volador("model", "list").stdout)
        self.assertIn("alphabet", self.volador("model", "list", "--all").stdout)
        self.volador("model", "unarchive", "of the alphabet")
        self.volador("model", "delete", "of the alphabet", "--yes")
        status, reply = self.cluster.ask("GET", "/models/letters", version="/api/v1")
        self.assertEqual(status, 404, reply)

    def test_only_its_owner_and_operators_change_it(self):
        token = json.loads(self.cluster.must("token", "create", "--role=driver", "--json"))["token"]
        made = self.cluster.post("/models", {"model": {"name": "mine"}}, version="/api/v1")
        self.assertEqual(made["name"], "mine")
        status, reply = self.cluster.ask("POST", "/models/mine:edit", {"notes": "theirs"}, token=token, version="/api/v1")
        self.assertEqual(status, 403, reply)
        self.assertEqual(self.cluster.get("/models/mine", version="/api/v1")["notes"], "")
        self.cluster.post("/models/mine:edit", {"notes": "ours", "metadata": {"a": [1]}}, version="/api/v1")
        self.assertEqual(self.cluster.get(f"/models/{made['id']}", version="/api/v1")["metadata"], {"a": [1]})
        self.cluster.post("/models/mine:delete", {}, version="/api/v1")


if __name__ == "__main__":
    unittest.main(warnings="ignore")
