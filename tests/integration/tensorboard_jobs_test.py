"""TensorBoard for experiments: a job that shows their metrics and event files, its page, its end; a small server stands in for TensorBoard, and where
it is installed (scripts/setup_tensorboard.sh) the real one is asked too.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import http.cookiejar
import json
import os
import pathlib
import signal
import stat
import struct
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import experiment_server_test  # noqa: E402
import pypi_folder  # noqa: E402
from jobs_test import VOLADOR  # noqa: E402
from single_machine import wait_until  # noqa: E402

# Lists the files of its folder, and gives their contents.
STAND_IN = """#!/usr/bin/env python3
import argparse, http.server, json, os, pathlib
options = argparse.ArgumentParser()
for name in ("--logdir", "--host", "--port", "--reload_interval"): options.add_argument(name)
given = options.parse_args()
root = pathlib.Path(given.logdir)
class App(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = root / self.path.strip("/")
        if self.path == "/":
            found = [os.path.join(folder, file) for folder, _, files in os.walk(root, followlinks=True) for file in files]
            body = json.dumps(sorted(os.path.relpath(file, root) for file in found)).encode()
        else: body = path.read_bytes()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer((given.host, int(given.port)), App).serve_forever()
"""


def fields_of(message):
    """Number and value of the fields of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        size = {0: None, 1: 8, 2: None, 5: 4}[tag & 7]
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        size = varint() if size is None else size
        yield tag >> 3, message[at : at + size]
        at += size


def scalars_of(file):
    """(tag, step, value) of the points of an event file, in its order."""
    points = []
    while file:
        (size,) = struct.unpack("<Q", file[:8])
        event = list(fields_of(file[12 : 12 + size]))
        file = file[16 + size :]
        step = next((value for number, value in event if number == 2), 0)
        for summary in (value for number, value in event if number == 5):
            for value in (dict(fields_of(one)) for number, one in fields_of(summary) if number == 1):
                if 2 in value:
                    points.append((value[1].decode(), step, struct.unpack("<f", value[2])[0]))
    return points


class Cluster(experiment_server_test.Cluster):
    labels = ("--labels=pool=bare",)  # "east" has no TensorBoard.

    def start_head(self):
        programs = self.home.path / "programs"
        programs.mkdir()
        (programs / "tensorboard").write_text(STAND_IN)
        (programs / "tensorboard").chmod(0o755 | stat.S_IEXEC)
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{programs}:{before}"
        try:
            super().start_head()
        finally:
            os.environ["PATH"] = before


class Page:
    """The page of a TensorBoard in a browser."""

    def __init__(self, cluster, board):
        opened = cluster.post(f"/jobs/{board['job']['id']}/page", {"port": board["port"]}, version="/api/v1")
        self.url = f"http://127.0.0.1:{opened['port']}"
        self.browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        self.browser.open(self.url + opened["path"], timeout=60).close()

    def get(self, path):
        with self.browser.open(f"{self.url}/{path}", timeout=60) as reply:
            return reply.read()

    def files(self):
        try:
            return json.loads(self.get(""))
        except (ValueError, urllib.error.HTTPError):  # It starts.
            return []

    def wait_file(self, start):
        return wait_until(f"it shows {start}…", lambda: next((file for file in self.files() if file.startswith(start)), None))


class TensorBoards(experiment_server_test.Experiments):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    def setUp(self):
        super().setUp()
        self.must = self.cluster.must

    def start(self, *arguments):
        started = json.loads(self.must("tensorboard", "start", *map(str, arguments), "--json"))
        self.addCleanup(self.cluster.run, "tensorboard", "kill", started["board"]["job"]["id"])
        return started

    def open_tokens(self):
        return [line for line in self.must("token", "list").splitlines() if "revoked" not in line]

    def ended_experiment(self, **options):
        experiment = self.create({"name": "single"}, **options)
        return self.wait_state(experiment, "COMPLETED")

    def page_of(self, board):
        self.cluster.wait_state(board["job"]["id"], "running")
        return wait_until("its page opens", lambda: self.page_or_none(board))

    def page_or_none(self, board):
        try:
            return Page(self.cluster, board)
        except urllib.error.HTTPError as error:  # Its port is not open yet, or it starts.
            self.assertIn(error.code, (502, 503))
            return None

    def test_metrics_are_shown_and_the_same_board_is_found_again(self):
        info = self.ended_experiment()
        (trial,) = self.trials(info["id"])
        started = self.start(info["id"])
        self.assertNotIn("existing", [key for key, value in started.items() if value is True])
        board = started["board"]
        self.assertEqual((board["experiments"], board["idle_s"], board["job"]["spec"]["cpus"]), ([info["id"]], 600, 0.1))
        page = self.page_of(board)
        file = page.wait_file(f"experiment-{info['id']}/trial-{trial['id']}/events.out.tfevents.")
        shown = scalars_of(page.get(file))
        expected = []
        for group in ("training", "validation"):
            for series in self.cluster.get(f"/trials/{trial['id']}/metrics?group={group}")["series"]:
                expected += [(f"{group}/{series['metric']}", batches, value) for batches, value in zip(series["batches"], series["values"])]
        self.assertGreater(len(expected), 4)
        self.assertEqual(sorted((tag, step, round(value, 4)) for tag, step, value in shown), sorted((tag, step, round(value, 4)) for tag, step, value in expected))
        again = self.start(info["id"])
        self.assertEqual((again["existing"], again["board"]["job"]["id"]), (True, board["job"]["id"]))
        self.assertIn(board["job"]["id"], self.must("tensorboard", "list"))
        self.assertIn("TensorBoard", "\n".join(self.open_tokens()))
        self.must("tensorboard", "kill", board["job"]["id"])
        self.cluster.wait_state(board["job"]["id"], "stopped")
        wait_until("its token is revoked", lambda: "TensorBoard" not in "\n".join(self.open_tokens()))
        self.assertNotIn(board["job"]["id"], self.must("tensorboard", "list"))

    def test_points_of_a_running_trial_are_added_and_the_event_files_of_programs_take_their_place(self):
        experiment = self.create({"name": "single"}, env=["GATE=2"])
        self.wait_note("waits")
        (trial,) = self.trials(experiment)
        board = self.start("--trial", trial["id"], "--idle=1h")["board"]
        self.assertEqual((board["trials"], board["idle_s"]), ([trial["id"]], 3600))
        page = self.page_of(board)
        file = page.wait_file(f"experiment-{experiment}/trial-{trial['id']}/events.out.tfevents.")
        first = scalars_of(page.get(file))
        self.assertTrue(all(step <= 2 for _, step, _ in first), first)
        (self.notes_folder / "open").touch()
        info = self.wait_state(experiment, "COMPLETED")
        more = wait_until("the later points are there", lambda: len(all_ := scalars_of(page.get(file))) > len(first) and all_)
        self.assertEqual(more[: len(first)], first)

        own = pathlib.Path(info["storage"]) / f"tensorboard/experiment/{experiment}/trial/{trial['id']}"
        own.mkdir(parents=True)
        (own / "events.out.tfevents.1").write_bytes(b"own")
        other = self.start(experiment)["board"]
        shown = self.page_of(other).wait_file(f"experiment-{experiment}/trial-{trial['id']}/")
        self.assertEqual(shown, f"experiment-{experiment}/trial-{trial['id']}/events.out.tfevents.1")

    def test_it_ends_when_it_is_not_used(self):
        info = self.ended_experiment()
        board = self.start(info["id"], "--idle=1s")["board"]
        self.cluster.wait_state(board["job"]["id"], "succeeded")
        self.assertIn("no request for 1.00 s: TensorBoard ends", self.must("job", "logs", board["job"]["id"]))

    def test_the_command_leads_a_port_here_to_it(self):
        info = self.ended_experiment()
        opened = subprocess.Popen([VOLADOR, "tensorboard", "start", str(info["id"])], cwd=self.cluster.work,
                                  env=self.cluster.home.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            job = opened.stdout.readline().split()[1]
            line = ""
            while "http://127.0.0.1:" not in line:
                line = opened.stderr.readline()
                self.assertTrue(line, "it has ended")
            url = line.split("of experiment")[1].split(": ")[1].strip()

            def listed():
                try:
                    with urllib.request.urlopen(url, timeout=60) as reply:
                        return json.loads(reply.read())
                except (OSError, ValueError):  # It starts.
                    return None
            wait_until("it answers here", listed)
        finally:
            opened.send_signal(signal.SIGINT)
            opened.communicate(timeout=60)
        self.assertEqual(self.cluster.job(job)["state"], "running", "it goes on without the port")
        self.must("tensorboard", "kill", job)

    def test_without_tensorboard_the_command_says_how_to_install_it(self):
        if subprocess.run(["python3", "-c", "import tensorboard"], capture_output=True, check=False).returncode == 0:
            self.skipTest("python3 has TensorBoard")
        info = self.ended_experiment()
        done = self.cluster.run("tensorboard", "start", str(info["id"]), "--pool=bare")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("TensorBoard is not installed on node east; install it there with: python3 -m pip install tensorboard", done.stderr)

    def test_what_it_refuses(self):
        self.assertEqual(self.cluster.run("tensorboard", "start").returncode, 2)
        self.assertEqual(self.cluster.run("tensorboard", "start", "999").returncode, 6)
        self.assertEqual(self.cluster.run("tensorboard", "open", "job-999").returncode, 6)
        self.assertEqual(self.cluster.run("tensorboard", "kill", "job-999").returncode, 6)
        self.assertEqual(self.cluster.ask("POST", "/tensorboards", {"experiments": []}, version="/api/v1")[0], 400)
        self.assertEqual(self.cluster.ask("POST", "/tensorboards", {"trials": [999]}, version="/api/v1")[0], 404)

    def test_the_real_one_reads_exported_events(self):
        if not pypi_folder.find("tensorboard"):
            self.skipTest("TensorBoard is missing; scripts/setup_tensorboard.sh installs it")
        from tensorboard.backend.event_processing import event_accumulator

        info = self.ended_experiment()
        (trial,) = self.trials(info["id"])
        target = self.cluster.home.path / "exported"
        self.must("experiment", "export-events", str(info["id"]), f"--to={target}", "--follow")
        events = event_accumulator.EventAccumulator(str(target / f"experiment-{info['id']}/trial-{trial['id']}"))
        events.Reload()
        series = self.cluster.get(f"/trials/{trial['id']}/metrics")["series"]
        (loss,) = (one for one in series if one["metric"] == "loss")
        self.assertEqual([(one.step, round(one.value, 4)) for one in events.Scalars("validation/loss")],
                         [(batches, round(value, 4)) for batches, value in zip(loss["batches"], loss["values"])])


# Only those of this file.
for name in dir(experiment_server_test.Experiments):
    if name.startswith("test_"):
        setattr(TensorBoards, name, None)
del name

if __name__ == "__main__":
    unittest.main()
