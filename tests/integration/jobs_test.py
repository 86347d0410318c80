"""Jobs by the command line, on one machine with two workers: the real programs, real commands, killed processes.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import json
import os
import pathlib
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from single_machine import BIN, Home, wait_until  # noqa: E402

VOLADOR = BIN / "volador"


class Cluster:
    """A head with a worker of 2 CPUs, and a second worker "east" of 2 CPUs and 2 GPUs."""

    labels = ()  # Further options of "east".
    gpus = 2  # On "east".

    def __init__(self):
        self.home = Home()
        self.work = self.home.path / "work"
        self.work.mkdir()
        self.start_head()
        token = json.loads(self.must("token", "create", "--role=join", "--json"))["token"]
        self.join = ("start", f"--address={self.head_address()}", f"--token={token}", "--num-cpus=2", f"--num-gpus={self.gpus}")
        self.must(*self.join, "--name=east", *self.labels)

    def start_head(self):
        self.must("start", "--head", "--cluster=heron", "--port=0", "--name=west", "--num-cpus=2", "--num-gpus=0", "--no-dashboard")

    def head_address(self):
        return json.loads(self.must("status", "--json"))["address"]

    def run(self, *arguments, **options):
        return self.home.run(VOLADOR, *arguments, cwd=self.work, **options)

    def must(self, *arguments):
        done = self.run(*arguments)
        if done.returncode != 0:
            raise AssertionError(f"volador {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, *arguments):
        return json.loads(self.must("job", "submit", "--json", *arguments))["id"]

    def job(self, job):
        return json.loads(self.must("job", "show", job, "--json"))

    def wait_state(self, job, *states, seconds=60.0):
        return wait_until(f"{job} is {' or '.join(states)}", lambda: (found := self.job(job))["state"] in states and found, seconds)

    def pid_of(self, role, node=""):
        folder = self.home.path / "volador/clusters/heron"
        file = folder / "head/head.pid" if role == "head" else folder / f"nodes/{node}/worker.pid"
        return int(file.read_text().split()[0])

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)
        wait_until(f"process {pid} has ended", lambda: pid not in self.home.pids())

    def close(self):
        self.run("stop")
        self.home.close()


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        self.run_ = self.cluster.run

    def follow(self, *arguments):
        return self.cluster.run("job", "submit", "--follow", *arguments)

    def test_the_code_folder_travels_and_the_exit_code_comes_back(self):
        (self.cluster.work / "main.py").write_text("import helper, sys\nprint(helper.WORD)\nsys.exit(int(sys.argv[1]))\n")
        (self.cluster.work / "helper.py").write_text("WORD = 'from the helper'\n")
        (self.cluster.work / "secret.txt").write_text("no")
        (self.cluster.work / ".voladorignore").write_text("secret.txt\n")
        good = self.follow("--", "python3", "main.py", "0")
        self.assertEqual((good.returncode, good.stdout), (0, "from the helper\n"), good.stderr)
        bad = self.follow("--", "python3", "main.py", "7")
        self.assertEqual(bad.returncode, 7)
        self.assertIn("exited with code 7", bad.stderr)
        listed = self.follow("--", "ls", "-a")
        self.assertIn("main.py", listed.stdout)
        self.assertNotIn("secret.txt", listed.stdout)

    def test_ranks_on_two_nodes_know_each_other(self):
        ran = self.follow("--no-code", "--nodes=2", "--", "bash", "-c",
                          "echo $RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $VOLADOR_JOB_NODE $VOLADOR_JOB_HOSTS")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = sorted(ran.stdout.splitlines())
        self.assertRegex(lines[0], r"^\[0\] 0/2 127\.0\.0\.1:\d+ (east|west) 127\.0\.0\.1,127\.0\.0\.1$")
        self.assertRegex(lines[1], r"^\[1\] 1/2 127\.0\.0\.1:\d+ (east|west) 127\.0\.0\.1,127\.0\.0\.1$")

    def test_one_failing_rank_ends_the_others_gracefully(self):
        script = "if [ $RANK = 1 ]; then sleep 0.3; exit 9; fi; trap 'echo saved; exit 0' TERM; sleep 100 & wait"
        ran = self.follow("--no-code", "--nodes=2", "--", "bash", "-c", script)
        self.assertEqual(ran.returncode, 9, ran.stderr)
        self.assertIn("[0] saved", ran.stdout)
        self.assertRegex(ran.stderr, r"rank 1 on node (east|west): exited with code 9")

    def test_a_failed_setup_fails_the_job_with_its_exit_code(self):
        ran = self.follow("--no-code", "--setup=echo prepares; exit 4", "--", "echo", "never")
        self.assertEqual(ran.returncode, 4)
        self.assertIn("prepares", ran.stdout)
        self.assertNotIn("never", ran.stdout)
        ran = self.follow("--no-code", "--setup=export A=1; touch made", "--", "ls")
        self.assertEqual((ran.returncode, ran.stdout), (0, "made\n"))

    def test_a_failed_job_starts_again_and_its_whole_output_is_kept(self):
        ran = self.follow("--no-code", "--name=again", "--restarts=2", "--", "bash", "-c", "echo attempt; exit 3")
        self.assertEqual(ran.returncode, 3)
        self.assertEqual(ran.stdout.count("attempt"), 3)
        self.assertEqual(self.cluster.job("again")["restarts"], 2)

    def test_stop_sends_sigterm_and_kills_after_the_graceful_time(self):
        script = "trap 'echo saves; sleep 0.2; echo saved; exit 0' TERM; echo ready; sleep 100 & wait"
        job = self.cluster.submit("--no-code", "--", "bash", "-c", script)
        wait_until("it is ready", lambda: "ready" in self.run_("job", "logs", job).stdout)
        self.assertIn("stopping", self.cluster.must("job", "stop", job))
        self.assertEqual(self.cluster.wait_state(job, "stopped")["exit_code"], 0)
        self.assertIn("saves\nsaved", self.run_("job", "logs", job).stdout)
        # It ignores SIGTERM, and so does its child in a session of its own.
        script = "trap '' TERM; setsid sleep 1234.5 & echo ready; while true; do sleep 1; done"
        job = self.cluster.submit("--no-code", "--graceful=1s", "--", "bash", "-c", script)
        wait_until("it is ready", lambda: "ready" in self.run_("job", "logs", job).stdout)
        began = time.monotonic()
        self.cluster.must("job", "stop", job)
        self.cluster.wait_state(job, "stopped")
        self.assertGreater(time.monotonic() - began, 0.8)
        wait_until("nothing is left", lambda: not self.processes("1234.5"))

    def processes(self, word):
        found = []
        for pid in self.cluster.home.pids():
            try:
                if word.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
            except OSError:
                pass
        return found

    def test_nothing_of_a_job_is_left_after_its_end(self):
        script = "for i in 1 2 3 4 5; do (setsid sleep 4321.5 &) ; done; nohup sleep 4321.5 & exit 0"
        ran = self.follow("--no-code", "--", "bash", "-c", script)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        wait_until("nothing is left", lambda: not self.processes("4321.5"))

    def test_a_job_expires_and_may_be_extended_before(self):
        expired = self.follow("--no-code", "--duration=1s", "--graceful=1s", "--", "sleep", "100")
        self.assertIn("its maximum running time of 1.00 s is over", expired.stderr)
        job = self.cluster.submit("--no-code", "--duration=3s", "--", "bash", "-c", "echo $$; sleep 5; echo end")
        self.cluster.wait_state(job, "running")
        self.cluster.must("job", "extend", job, "1h")
        self.assertEqual(self.cluster.wait_state(job, "succeeded", "expired")["state"], "succeeded")

    def test_the_queue_says_when_and_why_and_priority_changes_it(self):
        blockers = [self.cluster.submit("--no-code", "--cpus=2", "--duration=1h", "--", "sleep", "100") for _ in range(2)]
        for job in blockers:
            self.cluster.wait_state(job, "running")
        first = self.cluster.submit("--no-code", "--name=first", "--", "true")
        second = self.cluster.submit("--no-code", "--name=second", "--", "true")
        self.assertEqual([self.cluster.job(job)["position"] for job in (first, second)], [1, 2])
        shown = self.cluster.must("job", "show", first)
        self.assertIn("needs cpus 1 on each node", shown)
        self.assertIn("at the latest", self.cluster.must("job", "show", second) + shown)
        self.assertIn("behind 1 job", self.cluster.must("job", "show", second))
        self.cluster.must("job", "priority", "second", "urgent")
        self.assertEqual([self.cluster.job(job)["position"] for job in (first, second)], [2, 1])
        dry = json.loads(self.cluster.must("job", "submit", "--dry-run", "--json", "--no-code", "--", "true"))
        self.assertFalse(dry["start"]["now"])
        self.assertGreater(dry["start"]["likely_ms"], time.time() * 1000)
        for job in blockers:
            self.cluster.must("job", "stop", "--now", job)
        for job in (first, second):
            self.cluster.wait_state(job, "succeeded")

    def test_what_can_never_run_or_is_wrong_is_refused_at_once(self):
        for arguments, words in (
            (("--gpus=8", "--", "true"), "needs 8 GPUs on a node, and the largest node has 2 GPUs"),
            (("--nodes=3", "--", "true"), "needs 3 nodes, and 2 could hold it"),
            (("--", "A=1", "true"), "bash -c 'A=1 true'"),
            (("--", "a", "&&", "b"), "bash -c 'a && b'"),
            (("--mode=torhc", "--", "true"), "torch"),
            (("--priority=high", "--", "true"), "very_urgent"),
            (("--memory=lots", "--", "true"), "--memory: expected"),
            (("--restarts=-1", "--", "true"), "max_restarts: expected 0 to 1000, got -1"),
            (("--directory=../x", "--code=.", "--", "true"), "inside the code folder"),
            (("--node=north", "--", "true"), "north"),
            ((), "which command?"),
        ):
            with self.subTest(words):
                done = self.cluster.run("job", "submit", "--no-code" if "--code=." not in arguments else "--timeout=5s", *arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)
        self.assertIn('there is no job "job-4711"', self.cluster.run("job", "show", "job-4711").stderr)

    def test_a_file_describes_a_job_and_its_errors_have_a_place(self):
        file = self.cluster.work / "job.yaml"
        file.write_text("name: described\ncommand: echo $A $(nproc >/dev/null && echo b)\ncpus: 2\nenv: {A: a}\nduration: 1h\n")
        ran = self.follow("--no-code", f"--file={file}")
        self.assertEqual((ran.returncode, ran.stdout), (0, "a b\n"), ran.stderr)
        self.assertEqual(self.cluster.job("described")["spec"]["duration_s"], 3600)
        file.write_text("command: [true]\ngpu: 1\n")
        wrong = self.cluster.run("job", "submit", "--no-code", f"--file={file}")
        self.assertEqual(wrong.returncode, 3)
        self.assertIn("job.yaml:2:1: there is no field \"gpu\"; did you mean gpus?", wrong.stderr)

    @unittest.skipUnless(shutil.which("bwrap"), "bubblewrap is not installed")
    def test_an_isolated_job_sees_and_changes_only_what_it_may(self):
        data = self.cluster.home.path / "data"
        data.mkdir(exist_ok=True)
        (data / "input").write_text("given\n")
        script = ("cat /data/input; touch /data/x || echo read-only; touch here; df --output=size -B1 /dev/shm | tail -1; hostname; "
                  "touch /etc/x || echo no; cat $VOLADOR_HOME/clusters/*/access.json || echo hidden; mknod z c 1 3 || echo no device; "
                  "ls /proc | grep -c '^[0-9]'; kill -9 1; echo lives; exit 6")
        ran = self.follow("--no-code", "--name=inside", "--shm=64MiB", f"--mount={data}:/data:ro", "--", "bash", "-c", script)
        self.assertEqual(ran.returncode, 6, ran.stderr)
        lines = [line.strip() for line in ran.stdout.splitlines() if not line.startswith(("touch:", "cat:", "mknod:", "bash:"))]
        self.assertEqual(lines[:7], ["given", "read-only", str(64 << 20), f"{self.cluster.job('inside')['id']}-0", "no", "hidden", "no device"])
        self.assertLess(int(lines[7]), 10)
        self.assertEqual(lines[8], "lives")
        self.assertEqual([file.name for file in data.iterdir()], ["input"])
        job = self.cluster.submit("--no-code", "--isolated", "--", "bash", "-c", "trap 'echo saved; exit 0' TERM; echo up; sleep 77 & wait")
        wait_until("it runs", lambda: "up" in self.run_("job", "logs", job).stdout)
        self.cluster.must("job", "stop", job)
        self.cluster.wait_state(job, "stopped")
        self.assertIn("saved", self.run_("job", "logs", job).stdout)

    @unittest.skipUnless(shutil.which("bwrap"), "bubblewrap is not installed")
    def test_a_job_reads_a_copy_of_a_mount_that_is_made_once(self):
        data = self.cluster.home.path / "shared-data"
        (data / "train").mkdir(parents=True)
        (data / "train" / "a").write_text("first\n")
        read = ("--no-code", f"--mount={data}:/data:copy", "--", "bash", "-c", "cat /data/train/a; touch /data/x || echo read-only")
        ran = self.follow(*read)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(f"volador: copying {data} (6 B, 1 file)", ran.stdout)
        self.assertIn("first\n", ran.stdout)
        self.assertIn("read-only\n", ran.stdout)
        self.assertNotIn("copying", self.follow(*read).stdout)
        (data / "train" / "a").write_text("second\n")
        self.assertIn("second\n", self.follow(*read).stdout)
        missing = self.follow("--no-code", "--mount=/not/there:/x:copy", "--", "true")
        self.assertEqual(missing.returncode, 125)
        self.assertIn("cannot copy it: /not/there: No such file or directory", missing.stdout)

    @unittest.skipUnless(shutil.which("bwrap"), "bubblewrap is not installed")
    def test_mounts_are_checked(self):
        for mount, words in (("rel:/x", "absolute"), ("/tmp:/a/../b", ".."), ("/tmp:/x:no", "option")):
            with self.subTest(mount):
                done = self.cluster.run("job", "submit", "--no-code", f"--mount={mount}", "--", "true")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(words, done.stderr)
        missing = self.follow("--no-code", "--mount=/not/there:/x", "--", "true")
        self.assertEqual(missing.returncode, 126)
        self.assertIn("has no /not/there", missing.stdout)

    def test_gpus_are_granted_by_number(self):
        ran = self.follow("--no-code", "--gpus=2", "--", "bash", "-c", "echo $CUDA_VISIBLE_DEVICES $VOLADOR_JOB_NODE")
        self.assertEqual((ran.returncode, ran.stdout), (0, "0,1 east\n"), ran.stderr)
        ran = self.follow("--no-code", "--", "bash", "-c", "echo [$CUDA_VISIBLE_DEVICES]")
        self.assertEqual(ran.stdout, "[]\n")

    def test_a_cloned_job_is_equal_and_a_deleted_one_is_gone(self):
        job = self.cluster.submit("--no-code", "--name=original", "--env=A=1", "--", "true")
        self.cluster.wait_state(job, "succeeded")
        clone = json.loads(self.cluster.must("job", "clone", job, "--name=copy", "--json"))["id"]
        one, other = self.cluster.job(job)["spec"], self.cluster.wait_state(clone, "succeeded")["spec"]
        self.assertEqual({**one, "name": ""}, {**other, "name": ""})
        self.cluster.must("job", "delete", "--yes", job)
        self.assertEqual(self.cluster.run("job", "show", job).returncode, 6)

    def test_only_its_own_token_or_an_operator_changes_a_job(self):
        driver = json.loads(self.cluster.must("token", "create", "--role=driver", "--json"))["token"]
        viewer = json.loads(self.cluster.must("token", "create", "--role=viewer", "--json"))["token"]
        job = self.cluster.submit("--no-code", "--", "sleep", "30")
        refused = self.cluster.run("job", "stop", job, VOLADOR_TOKEN=driver)
        self.assertEqual(refused.returncode, 5)
        self.assertIn("it was submitted by token", refused.stderr)
        own = json.loads(self.cluster.run("job", "submit", "--no-code", "--json", "--", "sleep", "30", VOLADOR_TOKEN=driver).stdout)["id"]
        urgent = self.cluster.run("job", "submit", "--no-code", "--priority=very_urgent", "--", "true", VOLADOR_TOKEN=driver)
        self.assertIn("very_urgent is for operators", urgent.stderr)
        self.assertEqual(self.cluster.run("job", "stop", "--now", own, VOLADOR_TOKEN=driver).returncode, 0)
        self.assertEqual(self.cluster.run("job", "list", VOLADOR_TOKEN=viewer).returncode, 0)
        self.assertEqual(self.cluster.run("job", "submit", "--no-code", "--", "true", VOLADOR_TOKEN=viewer).returncode, 5)
        self.cluster.must("job", "stop", "--now", job)


class JobFaults(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)

    def test_jobs_go_on_while_the_head_is_away_and_their_ends_are_not_lost(self):
        long = self.cluster.submit("--no-code", "--", "bash", "-c", "for i in $(seq 40); do echo $i; sleep 0.1; done")
        pair = self.cluster.submit("--no-code", "--nodes=2", "--", "bash", "-c", "sleep 1; exit $((RANK * 5))")
        waits = self.cluster.submit("--no-code", "--cpus=2", "--", "echo", "later")
        for job in (long, pair):
            self.cluster.wait_state(job, "running")
        self.cluster.kill(self.cluster.pid_of("head"))
        time.sleep(1.5)  # The pair ends in this time.
        self.cluster.start_head()
        self.assertEqual(self.cluster.wait_state(pair, "failed", "succeeded", "queued")["exit_code"], 5)
        self.assertEqual(self.cluster.wait_state(long, "succeeded", "failed")["state"], "succeeded")
        self.assertEqual(self.cluster.job(long)["restarts"], 0)
        self.assertEqual(self.cluster.must("job", "logs", long).split(), [str(i) for i in range(1, 41)])
        self.cluster.wait_state(waits, "succeeded")

    def test_a_job_of_a_killed_worker_runs_again_on_another_node(self):
        job = self.cluster.submit("--no-code", "--", "bash", "-c", "echo on $VOLADOR_JOB_NODE; sleep 3")
        running = self.cluster.wait_state(job, "running")
        node = running["ranks"][0]["node"]
        self.cluster.kill(self.cluster.pid_of("worker", node))
        ended = self.cluster.wait_state(job, "succeeded", "failed")
        self.assertEqual((ended["state"], ended["restarts"]), ("succeeded", 0), ended["reason"])
        self.assertNotEqual(ended["ranks"][0]["node"], node)
        self.assertEqual(ended["earlier"][0]["node"], node)

    def test_a_stopped_job_saves_its_state_although_the_head_is_killed_meanwhile(self):
        job = self.cluster.submit("--no-code", "--graceful=60s", "--", "bash", "-c",
                                  "trap 'sleep 4; echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done")
        wait_until("it runs", lambda: "up" in self.cluster.must("job", "logs", job))
        self.cluster.must("job", "stop", job)
        self.cluster.kill(self.cluster.pid_of("head"))
        self.cluster.start_head()
        self.assertEqual(self.cluster.wait_state(job, "stopped", "failed")["state"], "stopped")
        self.assertIn("saved", self.cluster.must("job", "logs", job).split())

    def test_a_stopped_cluster_leaves_no_process_of_a_job(self):
        self.cluster.submit("--no-code", "--", "bash", "-c", "trap '' TERM; setsid sleep 500 & sleep 500")
        self.cluster.submit("--no-code", "--nodes=2", "--", "sleep", "500")
        wait_until("both run", lambda: self.cluster.must("job", "list", "--state=running").count("running") >= 1)
        self.cluster.must("stop")
        wait_until("nothing is left", lambda: not self.cluster.home.pids())


class OneWorker(Cluster):
    """A head with a worker of 4 CPUs."""

    def __init__(self):
        self.home = Home()
        self.work = self.home.path / "work"
        self.work.mkdir()
        self.start_head()

    def start_head(self):
        self.must("start", "--head", "--cluster=heron", "--port=0", "--name=west", "--num-cpus=4", "--num-gpus=0", "--no-dashboard")

    def add_worker(self, name):
        token = json.loads(self.must("token", "create", "--role=join", "--json"))["token"]
        self.must("start", f"--address={self.head_address()}", f"--token={token}", "--num-cpus=4", "--num-gpus=0", f"--name={name}")


# Rank 0 listens at MASTER_ADDR:MASTER_PORT and answers each other rank with the sum of all ranks.
SUM_OF_RANKS = """
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        others = [server.accept()[0] for _ in range(world - 1)]
        total = sum(int(other.recv(16)) for other in others)
        for other in others:
            other.sendall(b"%d" % total)
else:
    while True:
        try:
            link = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    link.sendall(b"%d" % rank)
    total = int(link.recv(16))
print(f"rank {rank} of {world}: {total}", flush=True)
"""

PYTORCH_JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: summing}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template: {spec: {containers: [{name: pytorch, image: example, command: [bash, -c, "exec python3 sum_of_ranks.py"]}]}}
    Worker:
      replicas: 2
      restartPolicy: Never
      template: {spec: {containers: [{name: pytorch, image: example, command: [bash, -c, "exec python3 sum_of_ranks.py"]}]}}
"""


class SharedNodes(unittest.TestCase):
    """Jobs of three ranks on a cluster with one worker."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = OneWorker()
        (cls.cluster.work / "sum_of_ranks.py").write_text(SUM_OF_RANKS)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def follow(self, *arguments):
        return self.cluster.run("job", "submit", "--follow", *arguments)

    def test_ranks_of_one_node_have_variables_folders_and_logs_of_their_own(self):
        script = ("echo own > made-by-$RANK; echo $RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $VOLADOR_JOB_NODE $VOLADOR_JOB_HOSTS "
                  "$(readlink -f .) $VOLADOR_JOB_DIR $(ls -d made-by-*)")
        ran = self.follow("--nodes=3", "--share-nodes", "--name=three", "--", "bash", "-c", script)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = sorted(ran.stdout.splitlines())
        self.assertEqual(len(lines), 3, ran.stdout)
        seen = {"places": set(), "folders": set(), "job folders": set()}
        for rank, line in enumerate(lines):
            prefix, of, place, node, hosts, folder, job_folder, made = line.split()
            self.assertEqual((prefix, of, node, hosts), (f"[{rank}]", f"{rank}/3", "west", "127.0.0.1,127.0.0.1,127.0.0.1"))
            self.assertEqual(made, f"made-by-{rank}", "it sees what another rank made")
            seen["places"].add(place)
            seen["folders"].add(folder)
            seen["job folders"].add(job_folder)
        self.assertEqual({what: len(values) for what, values in seen.items()}, {"places": 1, "folders": 3, "job folders": 3})
        shown = self.cluster.must("job", "show", "three")
        self.assertIn("ranks may share a node", shown)
        self.assertEqual({rank["node"] for rank in self.cluster.job("three")["ranks"]}, {"west"})
        self.assertEqual({rank["state"] for rank in self.cluster.job("three")["ranks"]}, {"ended"})

    def test_ranks_of_tensorflow_have_ports_of_their_own(self):
        ran = self.follow("--no-code", "--nodes=3", "--share-nodes", "--mode=tensorflow", "--", "bash", "-c", "echo $TF_CONFIG")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        configs = [json.loads(line.split(" ", 1)[1]) for line in ran.stdout.splitlines()]
        self.assertEqual(sorted(one["task"]["index"] for one in configs), [0, 1, 2])
        self.assertEqual({len(set(one["cluster"]["worker"])) for one in configs}, {3})

    def test_a_launcher_starts_processes_on_the_other_ranks_of_its_node(self):
        (self.cluster.work / "where.sh").write_text("echo $1 $VOLADOR_JOB_RANK\n")
        ran = self.follow("--nodes=3", "--share-nodes", "--mode=mpi", "--", "bash", "-c",
                          "for i in 1 2 3; do ssh server$i \"cd $PWD && sh where.sh server$i\"; done; : mpirun")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual([line.split(" ", 1)[-1] for line in ran.stdout.splitlines()], ["server1 0", "server2 1", "server3 2"])

    def test_what_does_not_fit_is_refused_with_the_way_out(self):
        alone = self.follow("--no-code", "--nodes=3", "--", "true")
        self.assertNotEqual(alone.returncode, 0)
        self.assertIn("it needs 3 nodes, and 1 could hold it; with --share-nodes", alone.stderr)
        many = self.follow("--no-code", "--nodes=5", "--share-nodes", "--", "true")
        self.assertIn("it needs room for 5 ranks, and the nodes have room for 4", many.stderr)

    def test_a_failing_rank_ends_the_others(self):
        script = "if [ $RANK = 1 ]; then exit 9; fi; trap 'echo saved; exit 0' TERM; sleep 100 & wait"
        ran = self.follow("--no-code", "--nodes=3", "--share-nodes", "--", "bash", "-c", script)
        self.assertEqual(ran.returncode, 9, ran.stderr)
        self.assertIn("rank 1 on node west: exited with code 9", ran.stderr)

    def test_replicas_of_a_pytorch_job_talk_to_their_master_on_one_node(self):
        file = self.cluster.work / "summing.yaml"
        file.write_text(PYTORCH_JOB)
        self.cluster.must("apply", "-f", str(file), "--code=.")
        job = wait_until("it ended", lambda: [one for one in json.loads(self.cluster.must("job", "list", "--json"))["jobs"]
                                              if one["spec"]["name"] == "summing" and one["state"] in ("succeeded", "failed")])[0]
        self.assertEqual(job["state"], "succeeded", self.cluster.must("job", "logs", job["id"]))
        self.assertEqual(sorted(line.split("] ", 1)[-1] for line in self.cluster.must("job", "logs", job["id"]).splitlines()),
                         ["rank 0 of 3: 3", "rank 1 of 3: 3", "rank 2 of 3: 3"])
        self.assertEqual({rank["node"] for rank in job["ranks"]}, {"west"})


class SharedNodesFaults(unittest.TestCase):
    def setUp(self):
        self.cluster = OneWorker()
        self.addCleanup(self.cluster.close)

    def test_all_ranks_of_a_killed_worker_run_again_together(self):
        go_on = self.cluster.work / "go-on"
        job = self.cluster.submit("--no-code", "--nodes=3", "--share-nodes", "--", "bash", "-c",
                                  f"echo up; until [ -e {go_on} ]; do sleep 0.1; done")
        self.cluster.wait_state(job, "running")
        self.cluster.kill(self.cluster.pid_of("worker", "west"))
        self.cluster.add_worker("north")
        again = self.cluster.wait_state(job, "running", seconds=120)
        again = wait_until("it runs there", lambda: (found := self.cluster.job(job))["state"] == "running"
                           and {rank["node"] for rank in found["ranks"]} == {"north"} and found, 120)
        self.assertEqual([rank["attempt"] for rank in again["ranks"]], [2, 2, 2])
        self.assertEqual([rank["node"] for rank in again["earlier"]], ["west", "west", "west"])
        go_on.touch()
        ended = self.cluster.wait_state(job, "succeeded", "failed")
        self.assertEqual((ended["state"], ended["restarts"]), ("succeeded", 0), ended["reason"])


if __name__ == "__main__":
    unittest.main()
