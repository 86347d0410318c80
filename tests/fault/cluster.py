"""A cluster of three machines that faults may hit anywhere: what runs where, how it is started again, what may be left behind."""

import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import machines  # noqa: E402

DISK_BYTES = 160 << 20  # Disk of one machine: its cluster files and copies of the test's program fit several times.


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def parent_of(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


class Redis:
    """A Redis server on the head's machine, with an append-only file on a disk that is never full."""

    def __init__(self, machine, directory):
        self.machine = machine
        self.directory = directory
        directory.mkdir()
        self.process = None

    def start(self):
        if self.process and self.process.poll() is None:
            return
        self.process = self.machine.start(
            "redis-server", "--port", "6399", "--bind", "127.0.0.1", "--dir", self.directory, "--appendonly", "yes", "--save", "",
            output=self.directory / "redis.log")
        machines.wait_until("Redis answers", self.answers, 20)

    def answers(self):
        done = machines.run(*self.machine.command("redis-cli", "-p", "6399", "ping"), check=False, timeout=5)
        return "PONG" in done.stdout

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Cluster:
    def __init__(self, log):
        self.log = log
        self.lan = machines.Lan(3)
        self.directory = self.lan.directory
        self.head = self.lan.machines[0]
        self.shared_memory_before = set(os.listdir("/dev/shm"))
        self.clocks = {}
        self.redis = None
        self.head_options = []
        self.stopped = set()  # Pids under SIGSTOP.
        self.joins = {}

    def start(self, store, clock_shim):
        for machine in self.lan.machines:
            machines.run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", machine.home)
            if clock_shim:
                self.clocks[machine.name] = self.add_clock(machine, clock_shim)
        if store == "redis":
            self.redis = Redis(self.head, self.directory / "redis")
            self.redis.start()
            self.head_options.append("--store=redis://127.0.0.1:6399")
        started = self.start_head()
        join = machines.LanTest.parse_join(started.stdout)[2:]
        self.program_environment = self.parse_connect(started.stdout)
        for machine in self.lan.machines:
            self.joins[machine.name] = (*join, f"--name={machine.name}", f"--bind={machine.address}", "--num-cpus=2")
        for machine in self.lan.machines[1:]:
            self.start_worker(machine)
        machines.wait_until("every node has joined", lambda: self.nodes_alive() == 3, 30)

    def add_clock(self, machine, shim):
        file = self.directory / f"clock_{machine.name}"
        file.write_bytes(struct.pack("<q", 0))
        environment = machine.environment

        def with_clock(**more):
            return environment(**{"LD_PRELOAD": str(shim), "VOLADOR_FAULT_CLOCK": str(file), **more})

        machine.environment = with_clock
        return file

    def step_clock(self, machine, seconds):
        with open(self.clocks[machine.name], "r+b") as file:
            file.write(struct.pack("<q", int(seconds * 1e9)))

    @staticmethod
    def parse_connect(text):
        for line in text.splitlines():
            words = line.split()
            if words[:2] == ["connect", "export"]:
                return dict(word.split("=", 1) for word in words[2:4])
        raise AssertionError(f"no connect command in:\n{text}")

    # ---- what runs ----

    def head_pid(self):
        pids = [pid for pid in self.head.head_pids() if is_alive(pid)]
        return pids[0] if pids else None

    def worker_pid(self, machine):
        for file in machine.home.glob("clusters/*/nodes/*/worker.pid"):
            pid = machine._pid(file)
            if pid and is_alive(pid):
                return pid
        return None

    def children(self, machine):
        """Templates and hosts: children of the machine's worker."""
        worker = self.worker_pid(machine)
        return sorted(pid for pid in machine.pids() if worker and parent_of(pid) == worker)

    def start_head(self, check=True):
        return self.head.volador("start", "--head", f"--bind={self.head.address}", "--name=m1", "--num-cpus=2", *self.head_options, check=check)

    def start_worker(self, machine, check=True):
        return machine.volador("start", *self.joins[machine.name], check=check)

    def nodes_alive(self):
        done = self.head.volador("list", "nodes", "--json", check=False)
        if done.returncode != 0:
            return 0
        return sum(1 for node in json.loads(done.stdout)["nodes"] if node["state"] == "alive")

    def ensure_running(self):
        """After all faults are healed: starts what died of them, as a supervisor would."""
        if self.redis:
            self.redis.start()
        if not self.head_pid():
            self.log("starts the head, which is gone")
            self.start_head()
        for machine in self.lan.machines:
            if not self.worker_pid(machine):
                self.log(f"starts the worker of {machine.name}, which is gone")
                self.start_worker(machine)
        machines.wait_until("every node is alive after everything was healed", lambda: self.nodes_alive() == 3, 60, self.describe)

    # ---- stopping ----

    def signal(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if number == signal.SIGSTOP:
            self.stopped.add(pid)
        elif number == signal.SIGCONT:
            self.stopped.discard(pid)

    def continue_all(self):
        for pid in list(self.stopped):
            self.signal(pid, signal.SIGCONT)

    def stop(self):
        """Stops the cluster and returns what it left behind."""
        for machine in reversed(self.lan.machines):
            machine.volador("stop", check=False)
        left = []
        for machine in self.lan.machines:
            end = time.monotonic() + 15
            redis = {self.redis.process.pid} if self.redis and machine is self.head else set()
            while set(machine.pids()) - redis and time.monotonic() < end:
                time.sleep(0.05)
            for pid in set(machine.pids()) - redis:
                left.append(f"process {pid} of {machine.name}: {command_of(pid)}")
            left += [f"file {path}" for path in leftovers_below(machine.home)]
        if self.redis:
            self.redis.stop()
        left += [f"shared memory /dev/shm/{name}" for name in set(os.listdir("/dev/shm")) - self.shared_memory_before if "volador" in name]
        return left

    def describe(self):
        text = ""
        for command in (("status",), ("list", "nodes"), ("list", "actors")):
            try:
                done = self.head.volador(*command, check=False, timeout=20)
                text += f"$ volador {' '.join(command)}\n{done.stdout}{done.stderr}\n"
            except subprocess.TimeoutExpired:
                text += f"$ volador {' '.join(command)}: no answer within 20 s\n"
        return text

    def logs(self, bytes_max=6000):
        text = ""
        for machine in self.lan.machines:
            for file in sorted(machine.home.glob("clusters/*/head/head.log")) + sorted(machine.home.glob("clusters/*/nodes/*/worker.log")):
                text += f"---- {file}\n{file.read_text(errors='replace')[-bytes_max:]}\n"
        return text

    def close(self):
        self.continue_all()
        if self.redis:
            self.redis.stop()
        for machine in self.lan.machines:
            machine.signal_all(signal.SIGCONT)
            machine.signal_all(signal.SIGKILL)
            machines.wait_until(f"no process is left on {machine.name}", lambda machine=machine: not machine.pids(), 10)
            machines.run("umount", "-l", machine.home, check=False)
        self.lan.close()


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "(gone)"


TEMPORARY = (".tmp", ".partial", ".new")


def leftovers_below(home):
    """Sockets, temporary files and scratch that a stopped cluster should not leave."""
    for path in home.rglob("*"):
        if path.is_socket() or (path.is_file() and (path.name.endswith(TEMPORARY) or ".partial" in path.name)):
            yield path
        elif path.parent.name in ("scratch", "spill") and path.parent.parent.parent.name == "nodes":
            yield path
