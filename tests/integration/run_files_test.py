"""Files of a run whose program ran on another machine than the head, over the dashboard's API, and what happens when that machine, a file or
the right to read it is gone: run_files_test.py [RunFiles.test …]."""

import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import machines  # noqa: E402

OTHER_USER = 65534


class Machine(machines.Machine):
    """All processes of one machine share its mounts, as they do outside of `ip netns exec`: the directory of a run is the same to all of them."""

    user = None

    def command(self, *arguments):
        as_user = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"] if self.user else []
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *as_user, *map(str, arguments)]


class RunFiles(machines.LanTest):
    machine_count = 2
    worker_options = ["--num-cpus=2"]

    def setUp(self):
        usual, machines.Machine = machines.Machine, Machine
        try:
            super().setUp()
        finally:
            machines.Machine = usual
        machines.run("ip", "addr", "add", f"10.98.{self.lan.subnet}.254/24", "dev", self.lan.bridge)
        self.there = self.lan.machines[1]
        link = self.head.volador("dashboard").stdout.strip()
        self.port = int(link.split("/")[2].rsplit(":", 1)[1])
        self.tokens = {role: json.loads(self.head.volador("token", "create", f"--role={role}", "--json").stdout)["token"] for role in ("viewer", "operator", "driver", "join")}

    # ---- runs ----

    def start_program(self, steps=8, step_ms=20, checkpoints=4):
        """A program on the second machine; its results lie on that machine."""
        self.storage = self.lan.directory / "results"
        self.storage.mkdir(exist_ok=True)
        self.output = self.lan.directory / "driver.txt"
        address = next(word for word in self.join_command if word.startswith("--address="))
        program = self.there.start(machines.BIN / "oracle_trials", "trials=1", f"steps={steps}", f"step_ms={step_ms}", f"every={checkpoints}", f"storage={self.storage}",
                                   f"ledger={self.lan.directory / 'ledger'}", output=self.output, VOLADOR_ADDRESS=address.removeprefix("--address="), VOLADOR_TOKEN=self.tokens["driver"])
        self.addCleanup(self.end, program)
        return program

    @staticmethod
    def end(program):
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()

    def finish_program(self):
        program = self.start_program()
        self.assertEqual(program.wait(60), 0, self.said())
        self.find_run()
        # The program has said goodbye: only a node can read now.
        machines.wait_until("the run has ended", lambda: self.row()["state"] == "finished")

    def find_run(self):
        self.run_row = machines.wait_until("the head knows the run and its trial", lambda: next((row for row in self.get("/api/v1/experiments")["rows"] if row["trials_total"]), None), 40, self.said)
        self.at = "/api/v1/experiments/" + self.run_row["name"]
        self.directory = pathlib.Path(self.run_row["directory"])
        (trial,) = machines.wait_until("its trial", lambda: self.get(self.at + "/trials")["rows"])
        self.trial = trial["id"]

    def row(self):
        (row,) = self.get("/api/v1/experiments")["rows"]
        return row

    def said(self):
        return self.output.read_text(errors="replace")[-4000:]

    def stop_worker(self):
        self.there.volador("stop")
        machines.wait_until("no node there", lambda: self.node_states().get("m2") != "alive")

    # ---- requests ----

    def request(self, path, role="viewer", method="GET"):
        """The answer with its body unread; `leave` closes its connection."""
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        line = http.client.HTTPSConnection(self.head.address, self.port, timeout=30, context=unchecked)
        self.addCleanup(line.close)
        line.request(method, path, headers={"Authorization": f"Bearer {self.tokens[role]}"} if role else {})
        answer = line.getresponse()
        answer.leave = lambda: (answer.close(), line.close())
        return answer

    def ask(self, path, **how):
        answer = self.request(path, **how)
        answer.text = answer.read()
        return answer

    def get(self, path):
        answer = self.ask(path)
        self.assertEqual(answer.status, 200, answer.text)
        return json.loads(answer.text)

    def refusal(self, path, **how):
        answer = self.ask(path, **how)
        problem = json.loads(answer.text)
        self.assertEqual(problem["status"], answer.status)
        return answer.status, problem["detail"]

    # ---- tests ----

    def test_files_come_from_the_machine_where_they_lie(self):
        self.finish_program()
        self.assertEqual(self.row()["files"], "elsewhere")
        listed = {row["name"]: row for row in self.get(self.at + "/files")["rows"]}
        self.assertEqual(listed["journal.vlj"]["bytes"], (self.directory / "journal.vlj").stat().st_size)
        journal = self.ask(self.at + "/files/journal.vlj")
        self.assertEqual(journal.text, (self.directory / "journal.vlj").read_bytes())
        self.assertEqual(int(journal.getheader("Content-Length")), len(journal.text))
        self.assertIn("attachment", journal.getheader("Content-Disposition"))
        of_trial = f"{self.at}/trials/{self.trial}/files"
        rows = {row["name"]: row for row in self.get(of_trial)["rows"]}
        for name in ("params.json", "result.json", "progress.csv"):
            self.assertEqual(self.ask(f"{of_trial}/{name}").text, (self.directory / self.trial / name).read_bytes(), name)
        checkpoint = max(name for name, row in rows.items() if row["kind"] == "checkpoint")
        tar = self.ask(f"{of_trial}/{checkpoint}")
        self.assertEqual(tar.getheader("Content-Disposition"), f'attachment; filename="{self.trial}_{checkpoint}.tar"')
        with tarfile.open(fileobj=io.BytesIO(tar.text)) as opened:
            self.assertEqual(opened.extractfile("state").read().split()[0], b"8")

        large = os.urandom(1 << 20) * 24
        (self.directory / self.trial / "large.bin").write_bytes(large)
        self.assertEqual(self.ask(f"{of_trial}/large.bin").text, large)
        head = self.ask(f"{of_trial}/large.bin", method="HEAD")
        self.assertEqual((head.status, head.text, int(head.getheader("Content-Length"))), (200, b"", len(large)))
        # Clients that do not read on hold an open file each, up to a limit; who leaves in the middle gives it back.
        waiting = [self.request(f"{of_trial}/large.bin") for _ in range(64)]
        self.assertEqual([answer.status for answer in waiting], [200] * 64)
        self.assertEqual(self.open_files("large.bin"), 64)
        status, detail = self.refusal(f"{of_trial}/large.bin")
        self.assertEqual((status, "64 files are on their way" in detail), (503, True), detail)
        for answer in waiting:
            answer.leave()
        machines.wait_until("no file is held open", lambda: self.open_files("large.bin") == 0)
        self.assertEqual(self.ask(f"{of_trial}/large.bin").text, large)

        self.outside()
        self.roles()
        (self.directory / self.trial / "large.bin").unlink()
        self.assertEqual(self.refusal(f"{of_trial}/large.bin")[0], 404)
        shutil.rmtree(self.directory)
        self.assertEqual(self.refusal(self.at + "/files")[0], 404)
        self.stop_all()

    def open_files(self, name):
        links = pathlib.Path(f"/proc/{self.there.worker_pid()}/fd").iterdir()
        return sum(os.readlink(link).endswith(name) for link in links if os.path.lexists(link))

    def outside(self):
        """Nothing but what lies in the run's own directory."""
        (self.directory / "outside").symlink_to("/etc/passwd")
        (self.directory / "folder").symlink_to("/etc")
        (self.directory / self.trial / "outside").symlink_to("/etc/passwd")
        os.mkfifo(self.directory / "pipe")
        self.assertFalse({"outside", "folder", "pipe"} & {row["name"] for row in self.get(self.at + "/files")["rows"]})
        for path in ("files/outside", "files/pipe", "files/..", "files/%2e%2e", "files/..%2f..%2fetc%2fpasswd", "files/%2fetc%2fpasswd", "trials/folder/files", "trials/folder/files/passwd", f"trials/{self.trial}/files/outside",
                     "trials/../files/journal.vlj", "trials/..%2f..%2f/files/x", "trials/%2e%2e/files", "files/nothing", "files/.", "trials/nothing/files", f"trials/{self.trial}/files/checkpoint_999999"):
            self.assertIn(self.refusal(f"{self.at}/{path}")[0], (400, 404), path)
        self.assertEqual(self.refusal("/api/v1/experiments/nothing/files")[0], 404)
        # A folder that holds no run is none, whatever a program called it.
        kept = self.directory / "journal.vlj"
        kept.rename(self.directory / "kept")
        status, detail = self.refusal(self.at + "/files/kept")
        self.assertEqual(status, 404)
        self.assertIn("holds no run", detail)
        (self.directory / "kept").rename(kept)

    def roles(self):
        for path in (self.at + "/files", self.at + "/files/journal.vlj", f"{self.at}/trials/{self.trial}/files", f"{self.at}/trials/{self.trial}/files/result.json"):
            for role, status in (("viewer", 200), ("operator", 200), ("driver", 403), ("join", 403), (None, 401)):
                self.assertEqual(self.ask(path, role=role).status, status, (path, role))

    def begin_large(self):
        """An answer of which a part has been read, and what its client still expects."""
        self.finish_program()
        (self.directory / self.trial / "large.bin").write_bytes(bytes(64 << 20))
        answer = self.request(f"{self.at}/trials/{self.trial}/files/large.bin")
        self.assertEqual(len(answer.read(1 << 20)), 1 << 20)
        return answer

    def test_a_machine_that_dies_in_the_middle_breaks_the_download(self):
        answer = self.begin_large()
        os.kill(self.there.worker_pid(), signal.SIGKILL)
        with self.assertRaises((http.client.IncompleteRead, ConnectionError, ssl.SSLError)):
            answer.read()
        machines.wait_until("the node is gone", lambda: self.node_states().get("m2") != "alive")
        status, detail = self.refusal(self.at + "/files/journal.vlj")
        self.assertEqual(status, 409)
        self.assertIn(str(self.directory), detail)
        self.assertIn("start a node there", detail)
        # Another node on that machine is as good.
        self.there.volador(*self.join_command[1:], "--name=again", f"--bind={self.there.address}", *self.worker_options)
        self.assertEqual(self.ask(self.at + "/files/journal.vlj").text, (self.directory / "journal.vlj").read_bytes())
        self.stop_all()

    def test_a_cable_cut_in_the_middle_breaks_the_download(self):
        answer = self.begin_large()
        self.there.cut_cable()
        with self.assertRaises((http.client.IncompleteRead, ConnectionError, ssl.SSLError)):
            answer.read()
        self.there.heal_cable()
        machines.wait_until("the node has joined again", lambda: self.node_states().get("m2") == "alive")
        self.assertEqual(len(self.ask(f"{self.at}/trials/{self.trial}/files/large.bin").text), 64 << 20)
        self.stop_all()

    def test_the_program_reads_them_while_it_runs_and_no_node_is_there(self):
        self.stop_worker()
        program = self.start_program(steps=100000)
        self.find_run()
        journal = self.ask(self.at + "/files/journal.vlj")
        self.assertEqual(journal.status, 200, journal.text)
        self.assertTrue((self.directory / "journal.vlj").read_bytes().startswith(journal.text) and journal.text)
        of_trial = f"{self.at}/trials/{self.trial}/files"
        machines.wait_until("the trial has a folder", lambda: self.ask(of_trial).status == 200)
        machines.wait_until("a checkpoint", lambda: any(row["kind"] == "checkpoint" for row in self.get(of_trial)["rows"]))
        self.assertEqual(self.refusal(self.at + "/files/..%2fx")[0], 400)
        (self.directory / "large.bin").write_bytes(bytes(64 << 20))
        answer = self.request(self.at + "/files/large.bin")
        answer.read(1 << 20)
        self.end(program)
        with self.assertRaises((http.client.IncompleteRead, ConnectionError, ssl.SSLError)):
            answer.read()
        machines.wait_until("nobody is there", lambda: self.ask(self.at + "/files").status == 409)
        self.assertIn(str(self.directory), self.refusal(self.at + "/files")[1])
        self.stop_all()

    def test_a_node_of_another_user_reads_only_what_it_may(self):
        self.stop_worker()
        for folder in (self.lan.directory, *self.lan.directory.glob("m2")):
            folder.chmod(0o755)
        shutil.rmtree(self.there.home)
        self.there.home.mkdir()
        os.chown(self.there.home, OTHER_USER, OTHER_USER)
        self.there.user = OTHER_USER
        self.there.volador(*self.join_command[1:], "--name=theirs", f"--bind={self.there.address}", *self.worker_options)
        self.there.user = None
        program = self.start_program(steps=100000)
        self.find_run()
        self.directory.chmod(0o700)
        journal = self.ask(self.at + "/files/journal.vlj")  # Served by the program, which wrote it.
        self.assertEqual(journal.status, 200, journal.text)
        self.end(program)
        machines.wait_until("the program is gone", lambda: self.ask(self.at + "/files/journal.vlj").status != 200)
        status, detail = self.refusal(self.at + "/files/journal.vlj")
        self.assertEqual(status, 403, detail)
        for word in ("node theirs", "Permission denied", str(self.directory)):
            self.assertIn(word, detail)
        for folder in (self.directory.parent, self.directory):  # Results are private.
            folder.chmod(0o755)
        (self.directory / "journal.vlj").chmod(0o644)
        self.assertEqual(self.ask(self.at + "/files/journal.vlj").text, (self.directory / "journal.vlj").read_bytes())
        self.there.user = OTHER_USER
        self.there.volador("stop")


if __name__ == "__main__":
    if shutil.which("nsenter") is None or shutil.which("setpriv") is None:
        print("not run: nsenter and setpriv are missing")
        sys.exit(machines.NOT_RUN)
    machines.main()
