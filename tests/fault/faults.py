"""The kinds of faults. Each takes the cluster, the random source of its round and a Work (checks.py): inject() and heal(), once each.

inject() returns None, or why the fault cannot be injected here or now. A fault that was not injected counts as not run.
"""

import os
import pathlib
import random
import resource
import shutil
import signal

import machines


class Fault:
    seconds = (1.0, 4.0)  # From injection to healing.
    stores = ("sqlite", "redis")

    def __init__(self, cluster, work, rng):
        self.cluster = cluster
        self.work = work
        self.duration = rng.uniform(*self.seconds)
        self.pick(rng)

    def pick(self, rng):
        self.machine = rng.choice(self.cluster.lan.machines)
        self.place = rng.random()  # Which of several processes.

    def one_of(self, pids):
        return pids[int(self.place * len(pids))] if pids else None

    def __str__(self):
        return f"{self.name} on {self.machine.name} for {self.duration:.1f} s"

    def inject(self):
        raise NotImplementedError

    def heal(self):
        pass

    @property
    def name(self):
        return type(self).__name__


class OnHead(Fault):
    def pick(self, rng):
        self.machine = self.cluster.head


class HeadKilled(OnHead):
    def inject(self):
        pid = self.cluster.head_pid()
        if not pid:
            return "no head runs"
        self.cluster.signal(pid, signal.SIGKILL)

    def heal(self):
        if not self.cluster.head_pid():
            self.cluster.start_head(check=False)


class HeadStopped(OnHead):
    seconds = (0.5, 6.0)

    def inject(self):
        self.pid = self.cluster.head_pid()
        if not self.pid:
            return "no head runs"
        self.cluster.signal(self.pid, signal.SIGSTOP)

    def heal(self):
        self.cluster.signal(self.pid, signal.SIGCONT)


class WorkerKilled(Fault):
    def inject(self):
        pid = self.cluster.worker_pid(self.machine)
        if not pid:
            return "no worker runs there"
        self.cluster.signal(pid, signal.SIGKILL)

    def heal(self):
        if not self.cluster.worker_pid(self.machine):
            self.cluster.start_worker(self.machine, check=False)


class WorkerStopped(Fault):
    seconds = (0.5, 7.0)

    def inject(self):
        self.pid = self.cluster.worker_pid(self.machine)
        if not self.pid:
            return "no worker runs there"
        self.cluster.signal(self.pid, signal.SIGSTOP)

    def heal(self):
        self.cluster.signal(self.pid, signal.SIGCONT)


class HostKilled(Fault):
    def inject(self):
        pid = self.one_of(self.cluster.children(self.machine))
        if not pid:
            return "no host runs there"
        self.cluster.signal(pid, signal.SIGKILL)


class HostStopped(Fault):
    seconds = (0.5, 6.0)

    def inject(self):
        self.pid = self.one_of(self.cluster.children(self.machine))
        if not self.pid:
            return "no host runs there"
        self.cluster.signal(self.pid, signal.SIGSTOP)

    def heal(self):
        self.cluster.signal(self.pid, signal.SIGCONT)


class MachineFrozen(Fault):
    """Every process of one machine but the test's own program."""

    seconds = (0.5, 7.0)

    def inject(self):
        self.pids = [pid for pid in self.machine.pids() if pid not in self.work.pids()]
        for pid in self.pids:
            self.cluster.signal(pid, signal.SIGSTOP)

    def heal(self):
        for pid in self.pids:
            self.cluster.signal(pid, signal.SIGCONT)


class ProgramStopped(Fault):
    """The program that makes the calls stands still, for less time than its connection may be silent."""

    seconds = (0.3, 3.0)

    def pick(self, rng):
        self.machine = self.work.machine

    def inject(self):
        for pid in self.work.pids():
            self.cluster.signal(pid, signal.SIGSTOP)

    def heal(self):
        for pid in self.work.pids():
            self.cluster.signal(pid, signal.SIGCONT)


class OnLine(Fault):
    """A fault of a machine's network; not of the one that the program runs on, whose end after driver_grace is no fault."""

    def pick(self, rng):
        self.machine = rng.choice([machine for machine in self.cluster.lan.machines[1:] if machine is not self.work.machine])

    def tc(self, *arguments, check=False):
        return machines.run("ip", "netns", "exec", self.machine.namespace, "tc", *arguments, check=check)


class CableCut(OnLine):
    seconds = (0.5, 9.0)

    def inject(self):
        self.machine.cut_cable()

    def heal(self):
        self.machine.heal_cable()


class PacketsLost(OnLine):
    """Every nth packet that leaves the machine or arrives there, at random: by a filter in the kernel, since netem is often missing."""

    seconds = (2.0, 6.0)

    def pick(self, rng):
        super().pick(rng)
        self.share = rng.choice([0.01, 0.05, 0.2])

    def inject(self):
        if shutil.which("tc") is None:
            return "tc is not installed"
        most = int(self.share * 0xFFFFFFFF)
        # A = random; drop (2) where it is at most `most`, else pass on (-1).
        program = f"4,32 0 0 4294963256,37 0 1 {most},6 0 0 4294967295,6 0 0 2"
        self.tc("qdisc", "add", "dev", self.machine.inside, "clsact")
        for way in ("egress", "ingress"):
            done = self.tc("filter", "add", "dev", self.machine.inside, way, "bpf", "da", "bytecode", program)
            if done.returncode != 0:
                self.heal()
                return f"the kernel takes no packet filter: {done.stderr.strip()}"

    def heal(self):
        self.tc("qdisc", "del", "dev", self.machine.inside, "clsact")


class ThinPipe(OnLine):
    seconds = (2.0, 6.0)

    def pick(self, rng):
        super().pick(rng)
        self.rate = rng.choice(["64kbit", "512kbit", "4mbit"])

    def inject(self):
        if shutil.which("tc") is None:
            return "tc is not installed"
        done = self.tc("qdisc", "add", "dev", self.machine.inside, "root", "tbf", "rate", self.rate, "burst", "16kb", "latency", "400ms")
        if done.returncode != 0:
            return f"the kernel limits no rate: {done.stderr.strip()}"

    def heal(self):
        self.tc("qdisc", "del", "dev", self.machine.inside, "root")


class DiskFull(Fault):
    seconds = (1.0, 6.0)

    def inject(self):
        self.ballast = self.machine.home / f"ballast_{id(self)}"
        fill(self.ballast)

    def heal(self):
        self.ballast.unlink(missing_ok=True)


class HeadKilledOnFullDisk(OnHead):
    """The disk below the head and its node fills; the head is killed; there is room again; the head comes back."""

    seconds = (3.0, 8.0)

    def inject(self):
        self.ballast = self.machine.home / f"ballast_{id(self)}"
        fill(self.ballast)

    def heal(self):
        pid = self.cluster.head_pid()
        if pid:
            self.cluster.signal(pid, signal.SIGKILL)
        self.ballast.unlink(missing_ok=True)
        machines.wait_until("the killed head is gone", lambda: not self.cluster.head_pid(), 10)
        self.cluster.start_head(check=False)


class HeadStartedOnFullDisk(OnHead):
    """The head is killed and started on a disk that is full; later there is room."""

    seconds = (2.0, 5.0)

    def inject(self):
        self.ballast = self.machine.home / f"ballast_{id(self)}"
        pid = self.cluster.head_pid()
        if not pid:
            return "no head runs"
        fill(self.ballast)
        self.cluster.signal(pid, signal.SIGKILL)
        machines.wait_until("the killed head is gone", lambda: not self.cluster.head_pid(), 10)
        self.cluster.start_head(check=False)

    def heal(self):
        self.ballast.unlink(missing_ok=True)
        if not self.cluster.head_pid():
            self.cluster.start_head(check=False)


def fill(path):
    try:
        with open(path, "ab", buffering=0) as file:
            for size in (1 << 20, 4096, 512):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
    except OSError:
        pass


class DescriptorsShort(Fault):
    """The head or a worker may open no more descriptors."""

    def pick(self, rng):
        self.machine = rng.choice(self.cluster.lan.machines)
        self.of_head = rng.random() < 0.5
        if self.of_head:
            self.machine = self.cluster.head
        self.spare = rng.randint(0, 8)

    def inject(self):
        self.pid = self.cluster.head_pid() if self.of_head else self.cluster.worker_pid(self.machine)
        if not self.pid:
            return "it does not run"
        try:
            opened = len(os.listdir(f"/proc/{self.pid}/fd"))
            self.before = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (opened + self.spare, self.before[1]))
        except (OSError, ValueError) as error:
            return f"its limit cannot be set: {error}"

    def heal(self):
        try:
            resource.prlimit(self.pid, resource.RLIMIT_NOFILE, self.before)
        except (OSError, ValueError):
            pass  # It is gone; ensure_running() starts it.


class ClockStepped(Fault):
    """The wall clock of one machine jumps, within what certificates are back-dated, and jumps back."""

    def pick(self, rng):
        super().pick(rng)
        self.step = rng.choice([-1, 1]) * rng.choice([2, 30, 200])

    def inject(self):
        if not self.cluster.clocks:
            return "no compiled clock shim was given (--clock-shim)"
        self.cluster.step_clock(self.machine, self.step)

    def heal(self):
        self.cluster.step_clock(self.machine, 0)


class RedisKilled(OnHead):
    stores = ("redis",)

    def inject(self):
        self.cluster.redis.kill()

    def heal(self):
        self.cluster.redis.start()


class RedisStopped(OnHead):
    stores = ("redis",)

    def inject(self):
        self.cluster.signal(self.cluster.redis.process.pid, signal.SIGSTOP)

    def heal(self):
        self.cluster.signal(self.cluster.redis.process.pid, signal.SIGCONT)


KINDS = [HeadKilled, HeadStopped, WorkerKilled, WorkerStopped, HostKilled, HostStopped, MachineFrozen, ProgramStopped, CableCut, PacketsLost,
         ThinPipe, DiskFull, HeadKilledOnFullDisk, HeadStartedOnFullDisk, DescriptorsShort, ClockStepped, RedisKilled, RedisStopped]


def named(names):
    by_name = {kind.__name__: kind for kind in KINDS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise SystemExit(f"no fault is called {unknown[0]}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names]
