"""What runs while faults happen, and what must be true of it afterwards."""

import collections
import pathlib
import subprocess
import sys
import unittest

import machines
import oracle

BOUND_SECONDS = 30  # After everything was healed every call, task and object ends within it: docs/notes.md, "How soon a call ends".


class Failed(Exception):
    pass


class Work:
    """A program on one machine that submits work until it is told to stop."""

    kinds = ("counters", "tasks", "objects")

    def __init__(self, cluster, kind, rng, in_python=False):
        self.cluster = cluster
        self.kind = kind
        self.program = [sys.executable, pathlib.Path(__file__).with_name("workload.py")] if in_python else [machines.BIN / "fault_workload"]
        self.machine = rng.choice(cluster.lan.machines[:2])
        self.rng = rng
        directory = cluster.directory
        self.ledger = directory / "ledger"
        self.results = directory / "results.txt"
        self.stop_file = directory / "stop"
        self.output = self.machine.home / "program.txt"  # On a disk that may be full.
        self.process = None

    def arguments(self):
        actors = self.rng.choice([3, 6, 9])
        return [*self.program, f"kind={self.kind}", f"ledger={self.ledger}", f"results={self.results}", f"stop={self.stop_file}",
                f"actors={actors}", f"work_ms={self.rng.choice([0, 2, 20])}", f"bound_s={BOUND_SECONDS}"]

    def start(self):
        arguments = self.arguments()
        environment = {} if self.machine is self.cluster.head else self.cluster.program_environment
        self.process = self.machine.start(*arguments, output=self.output, **environment)
        machines.wait_until("the first work has ended", lambda: self.ended() >= 20, 60, self.said)

    def pids(self):
        """The program's own process, and nothing that it started."""
        return [self.process.pid] if self.process and self.process.poll() is None else []

    def ended(self):
        if self.process and self.process.poll() is not None:
            raise Failed(f"the program ended with {self.process.returncode} under faults:\n{self.said()}")
        return self.results.read_text().count("\n") if self.results.exists() else 0

    def said(self):
        return self.output.read_text(errors="replace")[-4000:] if self.output.exists() else ""

    def finish(self):
        """After everything was healed."""
        self.stop_file.touch()
        try:
            code = self.process.wait(BOUND_SECONDS + 60)
        except subprocess.TimeoutExpired:
            raise Failed(f"the program did not leave, {BOUND_SECONDS + 60} s after everything was healed:\n{self.said()}") from None
        if code != 0:
            raise Failed(f"the program ended with {code}:\n{self.said()}")
        return getattr(self, f"check_{self.kind}")()

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    # ---- oracles ----

    def rows(self):
        """{what: how it ended}, each once."""
        rows = {}
        for line in self.results.read_text(errors="replace").splitlines():
            words = line.split(" ", 2)
            what = f"{words[0]} {words[1]}"
            if what in rows:
                raise Failed(f"{what} ended twice: {rows[what]!r} and {words[2]!r}")
            rows[what] = words[2]
        return rows

    def check_counters(self):
        """Each call ended well, once; an incarnation executed it at most once, in the order in which the calls were made."""
        executed = collections.defaultdict(list)  # By actor and incarnation: calls in the order of their execution.
        for line in self.ledger.read_text().splitlines():
            actor, incarnation, call = line.split()
            executed[(actor, incarnation)].append(int(call))
        for (actor, incarnation), calls in executed.items():
            for before, after in zip(calls, calls[1:]):
                if after <= before:
                    raise Failed(f"incarnation {incarnation} of actor {actor} executed call {after} after call {before}")
        results = collections.defaultdict(dict)
        for what, how in self.rows().items():
            actor, call = what.split()[1].split(".")
            if not how.startswith("ok "):
                raise Failed(f"{what} ended with: {how}")
            _, incarnation, count = how.split()
            results[actor][int(call)] = incarnation
            calls = executed[(actor, incarnation)]
            if int(count) > len(calls) or calls[int(count) - 1] != int(call):
                raise Failed(f"{what} was answered as number {count} of incarnation {incarnation}, which did not execute it there")
        for actor, calls in results.items():
            if sorted(calls) != list(range(1, len(calls) + 1)):
                raise Failed(f"actor {actor}: results of {len(calls)} calls, but not of the first {len(calls)}")
            answered_by = [calls[call] for call in sorted(calls)]
            changes = [one for at, one in enumerate(answered_by) if at == 0 or answered_by[at - 1] != one]
            if len(changes) != len(set(changes)):
                raise Failed(f"actor {actor}: an earlier incarnation answered calls after a later one had: {changes}")
        return f"{sum(map(len, results.values()))} calls, {len(executed)} incarnations of {len(results)} actors"

    def check_tasks(self):
        executed = collections.Counter(line.split()[2] for line in self.ledger.read_text().splitlines())
        rows = self.rows()
        for what, how in rows.items():
            number = what.split()[1]
            if how != f"ok {2 * int(number)}":
                raise Failed(f"{what} ended with: {how}")
            if executed[number] == 0:
                raise Failed(f"{what} ended well and was never executed")
        return f"{len(rows)} tasks, {sum(executed.values())} executions"

    def check_objects(self):
        """An object that a task made is made again where it is lost; one that the program put may be lost with its node."""
        rows = self.rows()
        lost = 0
        for what, how in rows.items():
            kind, number = what.split()
            expected = sum((int(number) * 31 + at) % 1000 for at in range(1000)) * 50
            if how == f"ok {expected}":
                continue
            if kind == "put" and how.split()[1] in ("kObjectLost", "kUnavailable"):
                lost += 1
                continue
            raise Failed(f"{what} ended with: {how} (its sum is {expected})")
        return f"{len(rows)} objects, {lost} of the program's own were lost with a node"


class Tune(Work):
    """An experiment whose every step has one right value (tests/integration/oracle_trials.cc)."""

    TRIALS, STEPS, EVERY = 6, 60, 5

    def arguments(self):
        self.storage = self.cluster.directory / "storage"
        self.storage.mkdir()
        return [machines.BIN / "oracle_trials", f"trials={self.TRIALS}", f"steps={self.STEPS}", "step_ms=400", f"every={self.EVERY}", "failures=100",
                f"storage={self.storage}", f"ledger={self.ledger}"]

    def start(self):
        arguments = self.arguments()
        environment = {} if self.machine is self.cluster.head else self.cluster.program_environment
        self.process = self.machine.start(*arguments, output=self.output, **environment)
        machines.wait_until("the first steps have ended", lambda: self.ended() >= 10, 60, self.said)

    def ended(self):
        if self.process and self.process.poll() not in (None, 0):
            raise Failed(f"the program ended with {self.process.returncode} under faults:\n{self.said()}")
        return self.ledger.read_text().count("\n") if self.ledger.exists() else 0

    def finish(self):
        # What is left to compute, each trial once more from its last checkpoint, and what a call may wait at most.
        seconds = self.TRIALS * self.STEPS * 0.4 / 3 + BOUND_SECONDS + 60
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"the experiment did not end within {seconds:.0f} s after everything was healed:\n{self.said()}") from None
        if code != 0:
            raise Failed(f"the experiment ended with {code}:\n{self.said()}")
        again = None
        try:
            again = oracle.check(unittest.TestCase(), self.storage, self.ledger, self.TRIALS, self.STEPS, self.EVERY)
        except AssertionError as error:
            raise Failed(str(error)) from None
        partial = [path for path in self.storage.rglob("*") if ".partial" in path.name or path.name.endswith(".tmp")]
        if partial:
            raise Failed(f"the experiment left {partial}")
        return f"{self.TRIALS} trials of {self.STEPS} steps, {again} steps executed again"


def make(cluster, kind, rng, in_python):
    return Tune(cluster, kind, rng) if kind == "tune" else Work(cluster, kind, rng, in_python)
