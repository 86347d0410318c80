"""volador view DIR over the results of real runs: view_test.py [Class.test …].

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from set_up import BIN, Case, Client, environment_of, main


class View(Case):
    """volador view DIR: results on disk, no cluster."""

    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="vd-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.environment = {**environment_of(self.home, "DISPLAY", "WAYLAND_DISPLAY"), "VOLADOR_HOME": self.home + "/state"}

    def run_experiment(self, *flags):
        done = subprocess.run([BIN / "tune_sleep", "--num-samples=9", "--seconds=0.3", "--reports=9", "--scheduler=asha", *flags], env=self.environment, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_trials_have_their_names_and_tags(self):
        self.run_experiment()
        (state,) = pathlib.Path(self.home).glob("volador_results/*/experiment_state.json")
        told = json.loads(state.read_text(encoding="utf-8"))
        for number, trial in enumerate(told["trials"]):
            trial["name"] = f"{number}_warm"
            trial["tags"] = ["wide"] if number % 2 == 0 else []
        state.write_text(json.dumps(told), encoding="utf-8")
        _, _, browser = self.view(str(state.parent))
        trials = f"/api/v1/experiments/{state.parent.name}/trials"
        self.wait_for(lambda: browser.ask("GET", trials).status == 200 and browser.get(trials)["rows"])  # Runs are read after the link is said.
        rows = browser.get(trials)["rows"]
        self.assertEqual({row["id"]: row["name"] for row in rows}, {trial["trial_id"]: trial["name"] for trial in told["trials"]})
        self.assertEqual(len(browser.get(trials + "?filter=tags%3Dwide")["rows"]), 5)
        self.assertEqual([row["name"] for row in browser.get(trials + "?filter=name%3D3_warm")["rows"]], ["3_warm"])
        (run,) = browser.get("/api/v1/experiments")["rows"]
        self.assertTrue(run["best"]["name"].endswith("_warm"))
        self.assertIn("(3_warm)", browser.get("/api/v1/explain?id=3_warm")["text"])

    def test_runs_of_a_folder_and_what_is_added_to_it(self):
        self.run_experiment()
        folder = os.path.join(self.home, "volador_results")
        before = {path: path.stat().st_mtime_ns for path in pathlib.Path(self.home).rglob("*")}
        program, told, browser = self.view(folder)
        self.assertEqual(told["runs"], 1)
        self.assertEqual((browser.get("/api/v1/session")["role"], browser.get("/api/v1/session")["view"]), ("viewer", folder))
        self.wait_for(lambda: [row["state"] for row in browser.get("/api/v1/experiments")["rows"]] == ["finished"])
        (run,) = browser.get("/api/v1/experiments")["rows"]
        saved = json.loads((pathlib.Path(folder) / run["name"] / "experiment_state.json").read_text(encoding="utf-8"))
        self.assertEqual((run["trials_total"], run["metric"], run["directory"]), (9, saved["metric"], os.path.join(folder, run["name"])))
        self.assertLess(run["started_ms"], run["updated_ms"])
        trials = {row["id"]: row for row in browser.get(f"/api/v1/experiments/{run['name']}/trials")["rows"]}
        self.assertEqual({one["trial_id"]: (one["status"], one["step"]) for one in saved["trials"]}, {name: (row["status"], row["step"]) for name, row in trials.items()})
        curves = {one["trial"]: one["x"] for one in browser.get(f"/api/v1/experiments/{run['name']}/curves?points=10000")["curves"]}
        self.assertEqual(curves, {name: list(range(1, row["step"] + 1)) for name, row in trials.items()})
        rungs = run["scheduler"]["rungs"]
        self.assertGreater(len(rungs), 0)
        self.assertTrue(all(member["trial"] in trials for rung in rungs for member in rung["members"]))
        some = next(iter(trials))
        self.assertIn(trials[some]["status"], browser.get("/api/v1/explain?id=" + some)["text"])
        self.assertEqual(json.loads(browser.ask("GET", "/api/v1/logs?id=" + some).text)["code"], "kNotFound")
        self.assertEqual(browser.get("/api/v1/nodes")["rows"], [])
        self.assertEqual(Client(browser.port).ask("GET", "/api/v1/experiments").status, 401)
        at = f"/api/v1/experiments/{run['name']}"
        self.assertEqual(browser.ask("GET", at + "/files/journal.vlj").text, (pathlib.Path(run["directory"]) / "journal.vlj").read_bytes())
        self.assertEqual(browser.ask("GET", f"{at}/trials/{some}/files/result.json").text, (pathlib.Path(run["directory"]) / some / "result.json").read_bytes())
        self.assertEqual(len(browser.ask("GET", at + "/trials.csv").text.splitlines()), 10)
        self.assertEqual(browser.ask("POST", at + ":annotate", {"note": "x"}, X_Volador_Request="1", Origin=f"http://127.0.0.1:{browser.port}").status, 403)

        self.run_experiment()
        self.wait_for(lambda: [row["state"] for row in browser.get("/api/v1/experiments")["rows"]] == ["finished"] * 2)
        os.kill(program.pid, signal.SIGINT)
        self.assertEqual(program.wait(20), 0)
        after = {path: path.stat().st_mtime_ns for path in before}
        self.assertEqual({path for path in before if path.is_file() and before[path] != after[path]}, set(), "it wrote nothing")
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", browser.port), timeout=5)

    def test_a_run_is_followed_while_it_goes_on(self):
        running = subprocess.Popen([BIN / "tune_sleep", "--num-samples=4", "--seconds=3", "--reports=30"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        folder = pathlib.Path(self.home) / "volador_results"
        self.wait_for(lambda: any(folder.glob("*/experiment_state.json")))
        (directory,) = folder.iterdir()
        _, _, browser = self.view(str(directory))
        points = lambda: sum(len(one["x"]) for one in browser.get(f"/api/v1/experiments/{directory.name}/curves?points=10000")["curves"])
        self.wait_for(lambda: browser.get("/api/v1/experiments")["total"] == 1 and points() > 0)
        self.assertEqual(browser.get("/api/v1/experiments")["rows"][0]["state"], "running")
        seen = points()
        self.wait_for(lambda: points() > seen)
        running.kill()
        self.wait_for(lambda: browser.get("/api/v1/experiments")["rows"][0]["state"] == "crashed")

    def test_what_is_no_run_is_said(self):
        for folder, said in ((self.home + "/nothing", "no such folder"), (self.home, "neither it nor a folder right below it is a run")):
            done = subprocess.run([BIN / "volador", "view", folder], env=self.environment, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 6)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    main()
