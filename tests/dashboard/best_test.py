"""A run has the same best trial in the program, the API, the live topic, the commands and volador view, also after a restart of the
head: best_test.py [Class.test …].

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there.
"""

import json
import pathlib
import subprocess

from set_up import BIN, Cluster, WebSocket, main


def point(best):
    return {key: best[key] for key in ("trial", "value", "step")}


class Best(Cluster):
    def rows_of(self, client):
        try:
            return [row for row in client.get("/api/v1/experiments")["rows"] if row["state"] == "finished"]
        except ConnectionError:
            return []

    def live_row(self):
        browser = WebSocket(self.port, Authorization="Bearer " + self.tokens["viewer"])
        self.addCleanup(browser.line.close)
        browser.send({"op": "sub", "id": 1, "topic": "experiments"})
        while True:
            message = browser.read()
            rows = message.get("rows", []) + message.get("upserts", [])
            if rows:
                return rows[0]

    def check_row(self, row, told):
        """A row of the API, a live message or a view."""
        self.assertEqual((point(row["best"]), row["best"]["config"]), (point(told["best"]), told["best"]["config"]))
        self.assertEqual((point(row["best_so_far"]), row["best_so_far"]["config"]), (point(told["best_so_far"]), told["best_so_far"]["config"]))
        self.assertEqual((row["trials_total"], row["trials_planned"], row["left"]), (5, 5, None))

    def check_cluster(self, told):
        self.wait_for(lambda: self.rows_of(self.viewer))
        (row,) = self.rows_of(self.viewer)
        self.check_row(row, told)
        self.check_row(self.live_row(), told)
        name = row["name"]
        self.assertEqual(self.viewer.get(f"/api/v1/experiments/{name}/config"), told["best"]["config"])
        (status,) = json.loads(self.volador("status", "--json"))["experiments"]
        self.assertEqual((point(status["best"]), point(status["best_so_far"])), (point(told["best"]), point(told["best_so_far"])))
        self.assertRegex(self.volador("status"), rf"{told['best']['trial']}  0.6 ")
        trials = json.loads(self.volador("list", "trials", name, "--json"))["trials"]
        self.assertEqual(len(trials), row["trials_total"])
        (listed,) = [trial for trial in trials if trial["id"] == told["best"]["trial"]]
        self.assertEqual(listed["metrics"]["score"], told["best"]["value"])

    def check_commands(self, told):
        """Those that read the results on disk."""
        (run,) = json.loads(self.volador("tune", "list", told["directory"], "--json"))["runs"]
        self.assertEqual((run["best_trial"], run["best_value"]), (told["best"]["trial"], told["best"]["value"]))
        self.assertEqual((run["best_so_far_trial"], run["best_so_far_value"]), (told["best_so_far"]["trial"], told["best_so_far"]["value"]))
        self.assertEqual((run["trials"], run["trials_total"]), (5, 5))
        shown = json.loads(self.volador("tune", "show", told["directory"], "--json"))
        self.assertEqual((shown["best"]["trial_id"], shown["best"]["config"]), (told["best"]["trial"], told["best"]["config"]))
        self.assertEqual(shown["best_so_far"], {"trial_id": told["best_so_far"]["trial"], "value": 0.9, "step": 1})
        text = self.volador("tune", "show", told["directory"])
        self.assertIn(f"best        {told['best']['trial']}  score 0.6 at step 3", text)
        self.assertIn(f"best so far {told['best_so_far']['trial']}  score 0.9 at step 1", text)

    def check_view(self, told):
        _, _, browser = self.view(told["directory"])
        self.wait_for(lambda: self.rows_of(browser))
        self.check_row(self.rows_of(browser)[0], told)

    def test_everybody_names_the_same_trial(self):
        done = subprocess.run([BIN / "scripted_trials"], env=self.environment, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = json.loads(done.stdout.splitlines()[-1])
        # Trials in the order of their creation: which one it is does not depend on who reported first.
        state = json.loads((pathlib.Path(told["directory"]) / "experiment_state.json").read_text(encoding="utf-8"))
        ids = [trial["trial_id"] for trial in state["trials"]]
        self.assertEqual(told["best"], {"trial": ids[1], "value": 0.6, "step": 3, "config": {"row": 1}})
        self.assertEqual(told["best_so_far"], {"trial": ids[0], "value": 0.9, "step": 1, "config": {"row": 0}})
        self.check_cluster(told)
        self.check_commands(told)
        self.check_view(told)
        self.restart_head()
        self.check_cluster(told)


if __name__ == "__main__":
    main()
