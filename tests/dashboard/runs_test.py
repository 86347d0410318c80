"""Tags, notes and archive of runs, and what can be downloaded of them, on a real cluster: runs_test.py [Class.test …].

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there.
"""

import csv
import io
import json
import pathlib
import subprocess
import tarfile
import time

from set_up import BIN, Client, Cluster, WebSocket, main


class Runs(Cluster):
    def setUp(self):
        self.before = {row["name"] for row in self.viewer.get("/api/v1/experiments")["rows"]}  # Remains of programs that were killed, perhaps just now.
        self.program = subprocess.Popen([BIN / "tune_sleep", "--num-samples=2", "--seconds=300", "--reports=3000"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end)
        self.wait_for(lambda: self.runs() and self.viewer.get(self.at(self.name) + "/curves")["curves"])

    def end(self):
        self.program.kill()
        self.program.wait()

    def runs(self):
        rows = [row for row in self.viewer.get("/api/v1/experiments")["rows"] if row["state"] == "running" and row["name"] not in self.before]
        if rows:
            self.name = rows[0]["name"]
        return rows

    def row(self):
        (row,) = [row for row in self.viewer.get("/api/v1/experiments")["rows"] if row["name"] == self.name]
        return row

    @staticmethod
    def at(name):
        return "/api/v1/experiments/" + name

    def annotate(self, who, **what):
        return who.ask("POST", self.at(self.name) + ":annotate", what)

    def test_what_was_said_of_a_run_survives_the_head(self):
        self.assertEqual((self.row()["tags"], self.row()["note"], self.row()["archived"]), ([], "", False))
        self.assertEqual(self.annotate(self.operator, add_tags=["best", "v2"], note="first\nsecond", archived=True).status, 200)
        self.assertEqual(self.annotate(self.operator, remove_tags=["best"]).status, 200)
        # Once it was answered it is durable; rows follow within milliseconds.
        self.wait_for(lambda: self.row()["tags"] == ["v2"])
        self.assertEqual((self.row()["note"], self.row()["archived"]), ("first\nsecond", True))
        self.assertEqual([row["name"] for row in self.viewer.get("/api/v1/experiments?filter=tags=v2%20archived=true")["rows"]], [self.name])
        self.assertEqual(self.viewer.get("/api/v1/experiments?filter=tags=best")["rows"], [])
        event = next(row for row in self.viewer.get("/api/v1/events?filter=annotated")["rows"])
        self.assertEqual((event["fields"]["experiment"], event["fields"]["what"]), (self.name, "untag best"))
        self.assertIn(event["fields"]["by"], [row["id"] for row in self.operator.get("/api/v1/tokens")["rows"] if row["role"] == "operator"])

        self.restart_head()
        self.wait_for(self.runs)
        self.assertEqual((self.row()["tags"], self.row()["note"], self.row()["archived"]), (["v2"], "first\nsecond", True))
        self.assertEqual(self.annotate(self.operator, remove_tags=["v2"], note="", archived=False).status, 200)

    def all_of(self, name):
        """What the page shows of an experiment."""
        (row,) = [row for row in self.viewer.get("/api/v1/experiments")["rows"] if row["name"] == name]
        trials = {row["id"]: row for row in self.viewer.get(self.at(name) + "/trials")["rows"]}
        curves = {metric: {row["trial"]: (row["x"], row["y"]) for row in self.viewer.get(f"{self.at(name)}/curves?points=10000&metric={metric}")["curves"]} for metric in row["metrics"]}
        return {"row": row, "trials": trials, "curves": curves}

    def as_it_was(self, name, before):
        """Times are those at which the head wrote it down, not those at which its page was told: some milliseconds apart."""
        now = self.all_of(name)
        for one, other in [(now["row"], before["row"])] + [(now["trials"].get(trial, {}), row) for trial, row in before["trials"].items()]:
            for time_of in [key for key in ("started_ms", "updated_ms", "ended_ms") if abs(one.get(key, 0) - other.get(key, 0)) < 2000 and key in one]:
                one[time_of] = other.get(time_of)
        return now

    def names(self):
        return {row["name"] for row in self.viewer.get("/api/v1/experiments")["rows"]}

    def test_experiments_that_ended_are_there_after_the_head_was_killed(self):
        crashed = self.name
        # The first step of a trial may be written down before its node is.
        self.wait_for(lambda: all(row.get("step", 0) >= 3 for row in self.all_of(crashed)["trials"].values()))
        self.end()
        self.wait_for(lambda: self.row()["state"] == "crashed")
        before = self.names()
        done = subprocess.run([BIN / "tune_sleep", "--num-samples=12", "--seconds=0.3", "--reports=9", "--scheduler=asha"], env=self.environment, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (finished,) = self.names() - before
        self.wait_for(lambda: self.all_of(finished)["row"]["state"] == "finished")
        time.sleep(0.2)  # Within 20 ms it is written.
        shown = {name: self.all_of(name) for name in (crashed, finished)}
        self.assertEqual(len(shown[finished]["trials"]), 12)
        self.assertTrue(shown[finished]["row"]["scheduler"]["rungs"])
        for round_ in range(2):
            self.restart_head()
            self.wait_for(lambda: {crashed, finished} <= self.names())
            for name in (crashed, finished):
                self.maxDiff = None
                until = time.monotonic() + 10
                while self.as_it_was(name, shown[name]) != shown[name] and time.monotonic() < until:
                    time.sleep(0.05)
                self.assertEqual(self.as_it_was(name, shown[name]), shown[name], round_)
        self.assertIn(sorted(shown[finished]["trials"])[0], self.volador("list", "trials"))
        # Nothing of them runs.
        self.assertEqual(self.operator.ask("POST", self.at(finished) + ":stop", {}).status, 404)
        self.assertEqual(self.annotate(self.operator, note="still here").status, 200)
        self.wait_for(lambda: self.row()["note"] == "still here")

    def test_a_program_that_goes_on_under_the_next_head_repeats_nothing(self):
        before = self.all_of(self.name)
        self.restart_head()
        steps = lambda found: {trial: x for trial, (x, _) in found["curves"]["score"].items()}
        self.wait_for(lambda: self.name in self.names() and all(steps(self.all_of(self.name))[trial][-1] > x[-1] for trial, x in steps(before).items()))
        after = self.all_of(self.name)
        self.assertEqual((after["row"]["state"], set(after["trials"])), ("running", set(before["trials"])))
        self.assertLess(abs(after["row"]["started_ms"] - before["row"]["started_ms"]), 2000)
        for trial, x in steps(after).items():
            self.assertEqual(x, sorted(set(x)))
            self.assertLessEqual(set(steps(before)[trial]), set(x))
            self.assertEqual(x, list(range(int(x[0]), int(x[-1]) + 1)), "what was under way is there")
        self.assertEqual([row["name"] for row in self.viewer.get("/api/v1/experiments")["rows"]].count(self.name), 1)

    def test_a_change_is_pushed_and_wrong_ones_change_nothing(self):
        socket = WebSocket(self.port, Authorization=f"Bearer {self.tokens['viewer']}")
        self.addCleanup(socket.close)
        socket.send({"op": "sub", "id": 1, "topic": "experiments"})
        socket.next(lambda message: message["type"] == "snap")
        self.assertEqual(self.annotate(self.operator, add_tags=["live"]).status, 200)
        socket.next(lambda message: message["type"] == "delta" and any(row.get("tags") == ["live"] for row in message["upserts"]))
        self.assertEqual(self.annotate(self.viewer, add_tags=["x"]).status, 403)
        for wrong in ({"add_tags": ["two words"]}, {"add_tags": "x"}, {"add_tags": [1]}, {"note": 1}, {"archived": "yes"}, {"tags": ["x"]}, {"note": "x" * 17_000}):
            answer = self.annotate(self.operator, **wrong)
            self.assertEqual((answer.status, json.loads(answer.text)["code"]), (400, "kInvalidArgument"), wrong)
        self.assertEqual(self.operator.ask("POST", self.at("nothing") + ":annotate", {"note": "x"}).status, 404)
        self.assertEqual((self.row()["tags"], self.row()["note"]), (["live"], ""))
        self.assertEqual(self.annotate(self.operator, remove_tags=["live"]).status, 200)

    def test_tables_and_configurations(self):
        (trial, *_) = self.viewer.get(self.at(self.name) + "/trials")["rows"]
        answer = self.viewer.ask("GET", self.at(self.name) + "/trials.csv")
        self.assertEqual(answer.getheader("Content-Disposition"), f'attachment; filename="{self.name}-trials.csv"')
        rows = {row["trial"]: row for row in csv.DictReader(io.StringIO(answer.text.decode()))}
        self.assertEqual(set(rows), {row["id"] for row in self.viewer.get(self.at(self.name) + "/trials")["rows"]})
        for name, value in trial["config"].items():
            self.assertEqual(rows[trial["id"]]["config." + name], str(value))
        points = list(csv.DictReader(io.StringIO(self.viewer.ask("GET", self.at(self.name) + "/curves.csv?metric=score").text.decode())))
        self.assertTrue(points and all(point["metric"] == "score" for point in points))
        self.assertEqual(json.loads(self.viewer.ask("GET", f"{self.at(self.name)}/config?trial={trial['id']}").text), trial["config"])
        yaml = self.viewer.ask("GET", f"{self.at(self.name)}/config?format=yaml&trial={trial['id']}")
        self.assertEqual((yaml.status, yaml.getheader("Content-Type")), (200, "application/yaml"))
        self.assertEqual(self.viewer.ask("GET", self.at(self.name) + "/config?format=xml").status, 400)

    def test_files_of_the_run(self):
        directory = pathlib.Path(self.row()["directory"])
        self.assertEqual(self.row()["files"], "here")
        names = [row["name"] for row in self.viewer.get(self.at(self.name) + "/files")["rows"]]
        self.assertIn("journal.vlj", names)
        journal = self.viewer.ask("GET", self.at(self.name) + "/files/journal.vlj")
        self.assertTrue((directory / "journal.vlj").read_bytes().startswith(journal.text))
        self.assertEqual(int(journal.getheader("Content-Length")), len(journal.text))
        head = self.viewer.ask("HEAD", self.at(self.name) + "/files/journal.vlj")
        self.assertEqual((head.status, head.text), (200, b""))
        (directory / "outside").symlink_to("/etc/passwd")
        (directory / "folder").symlink_to("/etc")
        self.assertNotIn("outside", [row["name"] for row in self.viewer.get(self.at(self.name) + "/files")["rows"]])
        for path in ("files/outside", "files/..", "files/%2e%2e", "files/..%2f..%2fetc%2fpasswd", "trials/folder/files/passwd", "trials/../files/journal.vlj", "trials/..%2f..%2f/files/x",
                     "trials/%2e%2e/files", "files/nothing", "files/.", "trials/nothing/files"):
            self.assertIn(self.viewer.ask("GET", f"{self.at(self.name)}/{path}").status, (400, 404), path)
        self.assertEqual(Client(self.port).ask("GET", self.at(self.name) + "/files/journal.vlj").status, 401)

    def test_checkpoints_are_tar_files(self):
        self.end()  # It has all CPUs.
        done = subprocess.run([BIN / "tune_pbt_digits"], env=self.environment, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = self.viewer.get("/api/v1/experiments?filter=pbt")["rows"]
        (trial, *_) = self.viewer.get(self.at(run["name"]) + "/trials")["rows"]
        at = f"{self.at(run['name'])}/trials/{trial['id']}/files"
        (checkpoint, *_) = [row["name"] for row in self.viewer.get(at)["rows"] if row["kind"] == "checkpoint"]
        answer = self.viewer.ask("GET", f"{at}/{checkpoint}")
        self.assertEqual(answer.getheader("Content-Disposition"), f'attachment; filename="{trial["id"]}_{checkpoint}.tar"')
        with tarfile.open(fileobj=io.BytesIO(answer.text)) as tar:
            self.assertEqual(tar.getnames(), ["net.bin"])
            self.assertGreater(len(tar.extractfile("net.bin").read()), 1000)

    def test_a_trial_that_waits_is_named_in_the_queue(self):
        second = subprocess.Popen([BIN / "tune_sleep", "--num-samples=2", "--seconds=300", "--cpus=2"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(second.wait)
        self.addCleanup(second.kill)
        waiting = lambda: [row for row in self.viewer.get("/api/v1/queue")["rows"] if row["kind"] == "trial"]
        self.wait_for(waiting)
        (row, *_) = waiting()
        (run,) = [one["name"] for one in self.viewer.get("/api/v1/experiments?filter=state=running")["rows"] if one["name"] not in self.before | {self.name}]
        self.assertEqual(row["experiment"], run)
        self.wait_for(lambda: any((one["id"], one["actor"]) == (row["trial"], row["id"]) for one in self.viewer.get(self.at(run) + "/trials")["rows"]))
        (printed,) = [line for line in self.volador("list", "queue").splitlines() if row["id"][:8] in line.split()]
        self.assertIn("trial", printed.split())
        self.assertEqual([one["trial"] for one in json.loads(self.volador("list", "queue", "--json"))["queue"] if one["id"] == row["id"]], [row["trial"]])

    # The first values of an actor come after its second look, 10 to 20 s after its start.
    def test_what_nodes_and_trials_take(self):
        (trial, *_) = [row for row in self.viewer.get(self.at(self.name) + "/trials")["rows"] if row["status"] == "running"]
        series = lambda query: {row["metric"]: row for row in self.viewer.get("/api/v1/series?" + query)["series"]}
        of_trial = f"experiment={self.name}&trial={trial['id']}"
        self.wait_for(lambda: "calls_per_s" in series(of_trial))
        self.assertGreater(series(of_trial)["calls_per_s"]["max"][-1], 0)
        self.assertGreater(series(of_trial)["memory_bytes"]["y"][-1], 0)
        self.assertEqual(set(series("actor=" + trial["actor"])), set(series(of_trial)))
        self.assertIn("cpu_cores_used", series("name=cpu_cores_used"))


if __name__ == "__main__":
    main()
