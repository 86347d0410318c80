"""Several machines on one: network namespaces on a bridge, each with a home of its own, and the real programs in them.

Needs root (namespaces). A test that cannot make them is reported as not run: exit code 77, which ctest counts as skipped.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin")).resolve()
NOT_RUN = 77


def run(*command, check=True, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def can_make_namespaces():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"vdprobe{os.getpid()}"
    made = run("ip", "netns", "add", name, check=False).returncode == 0
    run("ip", "netns", "del", name, check=False)
    return made


def processes_with_home(home):
    """Pids of everything whose environment names this VOLADOR_HOME."""
    needle = f"VOLADOR_HOME={home}\0".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if needle in (entry / "environ").read_bytes() + b"\0":
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state not in "ZX":
                    found.append(int(entry.name))
        except OSError:
            pass
    return found


def wait_until(what, condition, seconds=20.0, context=lambda: ""):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}\n{context()}")


class Machine:
    """One host: a namespace with an address, and a VOLADOR_HOME."""

    def __init__(self, lan, number):
        self.lan = lan
        self.name = f"m{number}"
        self.namespace = f"{lan.tag}m{number}"
        self.address = f"10.98.{lan.subnet}.{number}"
        self.port_outside = f"{lan.tag}p{number}"
        self.home = lan.directory / self.name
        self.home.mkdir()
        self.inside = inside = f"{lan.tag}e{number}"
        run("ip", "netns", "add", self.namespace)
        run("ip", "link", "add", inside, "type", "veth", "peer", "name", self.port_outside)
        run("ip", "link", "set", inside, "netns", self.namespace)
        run("ip", "link", "set", self.port_outside, "master", lan.bridge, "up")
        run("ip", "-n", self.namespace, "addr", "add", f"{self.address}/24", "dev", inside)
        run("ip", "-n", self.namespace, "link", "set", inside, "up")
        run("ip", "-n", self.namespace, "link", "set", "lo", "up")

    def environment(self, **more):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("VOLADOR_")}
        kept.update(VOLADOR_HOME=str(self.home), HOME=str(self.home), NO_COLOR="1", **more)
        return kept

    def command(self, *arguments):
        # Not by `ip netns exec`: each of its commands would have mounts of its own, and be a machine of its own to Volador.
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *map(str, arguments)]

    def volador(self, *arguments, check=True, timeout=60, **environment):
        return run(*self.command(BIN / "volador", *arguments), check=check, timeout=timeout, env=self.environment(**environment))

    def start(self, *arguments, output, **environment):
        """Runs a program here in the background; its output goes to a file."""
        with open(output, "wb") as file:
            return subprocess.Popen(self.command(*arguments), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                    env=self.environment(**environment), start_new_session=True)

    def cut_cable(self):
        run("ip", "link", "set", self.port_outside, "down")

    def heal_cable(self):
        run("ip", "link", "set", self.port_outside, "up")

    def pids(self):
        return processes_with_home(self.home)

    def worker_pids(self):
        """The worker and everything below it."""
        return [pid for pid in self.pids() if pid not in self.head_pids()]

    def head_pids(self):
        return [self._pid(file) for file in self.home.glob("clusters/*/head/head.pid") if self._pid(file)]

    def worker_pid(self):
        for file in self.home.glob("clusters/*/nodes/*/worker.pid"):
            if self._pid(file):
                return self._pid(file)
        raise AssertionError(f"no worker runs on {self.name}")

    @staticmethod
    def _pid(file):
        try:
            pid = int(file.read_text().split()[0])
            os.kill(pid, 0)
            return pid
        except (OSError, ValueError, IndexError):
            return None

    def signal_all(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def remove(self):
        self.signal_all(signal.SIGCONT)
        self.signal_all(signal.SIGKILL)
        run("ip", "netns", "del", self.namespace, check=False)
        run("ip", "link", "del", self.port_outside, check=False)


class Lan:
    """A bridge and its machines; everything is gone after close()."""

    def __init__(self, machines):
        self.tag = f"vd{os.getpid() % 100000}"
        self.subnet = os.getpid() % 250 + 1
        self.bridge = f"{self.tag}br"
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="vdlan-", dir="/tmp"))
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "link", "set", self.bridge, "up")
        self.machines = [Machine(self, number) for number in range(1, machines + 1)]

    def close(self):
        for machine in self.machines:
            machine.remove()
        run("ip", "link", "del", self.bridge, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


class LanTest(unittest.TestCase):
    """A cluster: the head (and a worker) on the first machine, a worker on each other one."""

    machine_count = 3
    worker_options = ["--num-cpus=2"]
    head_options = []

    def setUp(self):
        self.lan = Lan(self.machine_count)
        self.addCleanup(self.lan.close)
        head, *others = self.lan.machines
        self.head = head
        started = head.volador("start", "--head", f"--bind={head.address}", "--name=m1", *self.worker_options, *self.head_options)
        self.join_command = self.parse_join(started.stdout)
        for machine in others:
            machine.volador(*self.join_command[1:], f"--name={machine.name}", f"--bind={machine.address}", *self.worker_options)

    @staticmethod
    def parse_join(text):
        """The join command as `start --head` prints it."""
        for line in text.splitlines():
            words = line.split()
            if words[:1] == ["join"]:
                return [word for word in words[1:] if not word.startswith("(")][:4]
        raise AssertionError(f"no join command in:\n{text}")

    def status(self):
        return json.loads(self.head.volador("status", "--json").stdout)

    def node_states(self):
        return {node["name"]: node["state"] for node in json.loads(self.head.volador("list", "nodes", "--json").stdout)["nodes"]}

    def stop_all(self):
        for machine in reversed(self.lan.machines):
            machine.volador("stop", check=False)
        for machine in self.lan.machines:
            wait_until(f"no process left on {machine.name}", lambda: not machine.pids(), 10)
            leftovers = [path for path in machine.home.rglob("*") if path.is_socket()]
            self.assertEqual(leftovers, [], "sockets left behind")


def main():
    if not can_make_namespaces():
        print("not run: network namespaces cannot be made here (needs root)")
        sys.exit(NOT_RUN)
    unittest.main(verbosity=2)
