"""Training over several machines, and one fault each: the head and the program on the first one, the ranks on two others.

nodes_trials counts within the model how often each row was learned from, and its ranks write down each step with its time.
Environment: VOLADOR_BIN, the folder of the programs; VOLADOR_TIMES=1 prints how long the run took to go on after
what happened to it, and its longest pause.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import machines  # noqa: E402

ROWS, STEPS = 480, 40  # Those of an epoch, as in nodes_trials.cc.

Step = collections.namedtuple("Step", "at step epoch rank world pid node")


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Nodes(machines.LanTest):
    machine_count = 3

    def setUp(self):
        self.lan = machines.Lan(self.machine_count)
        self.addCleanup(self.check_nothing_is_left)
        self.addCleanup(self.lan.close)
        self.head, self.near, self.far = self.lan.machines
        self.folder = self.lan.directory / "run"
        self.folder.mkdir()
        self.output = self.lan.directory / "output"
        started = self.head.volador("start", "--head", f"--bind={self.head.address}", "--name=m1", "--num-cpus=0", "--no-dashboard")
        self.join_command = self.parse_join(started.stdout)

    def join(self, machine, cpus=2):
        """Starts the machine's worker. With two CPUs each, four ranks fill both machines."""
        self.event_at = time.monotonic()
        machine.volador(*self.join_command[1:], f"--name={machine.name}", f"--bind={machine.address}", f"--num-cpus={cpus}")

    def check_nothing_is_left(self):
        for machine in self.lan.machines:
            self.assertEqual(machine.pids(), [], f"processes of {machine.name} are left")
        self.assertNotIn(self.lan.tag, machines.run("ip", "netns", "list").stdout)
        self.assertNotIn(self.lan.tag, machines.run("ip", "link").stdout)

    # ---- The run.

    def train(self, cpus=2, **arguments):
        """Starts the workers and the program, and waits until four ranks on both machines train."""
        with concurrent.futures.ThreadPoolExecutor() as both:
            list(both.map(lambda machine: self.join(machine, cpus), (self.near, self.far)))
        arguments = [f"{key}={value}" for key, value in dict(arguments, folder=self.folder).items()]
        self.driver = self.head.start(machines.BIN / "nodes_trials", *arguments, output=self.output)
        started = self.await_steps("four ranks train", lambda step: step.world == 4, seconds=90)
        self.assertEqual({step.node for step in started}, {"m2", "m3"})
        self.pids = self.group()
        self.others, self.lost = self.on(self.near), self.on(self.far)

    def steps(self):
        try:
            text = (self.folder / "steps").read_text()
        except FileNotFoundError:
            return []
        rows = [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
        return [Step(float(row[0]), *map(int, row[1:6]), row[6]) for row in rows]

    def lines(self, kind):
        found = []
        for line in self.output.read_text(errors="replace").splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                fields = json.loads(line)
                if fields.pop("line") == kind:
                    found.append(fields)
        return found

    def said(self):
        return self.output.read_text(errors="replace")[-6000:]

    def until(self, what, condition, seconds=30):
        """As wait_until(), but fails at once when the program has ended."""

        def tried():
            value = condition()
            if not value and self.driver.poll() is not None:
                raise AssertionError(f"the program ended before {what}:\n{self.said()}")
            return value

        return machines.wait_until(what, tried, seconds, self.said)

    def await_steps(self, what, wanted, count=4, seconds=30):
        """Waits until `count` steps of ranks satisfy `wanted`; returns them."""

        def found():
            steps = [step for step in self.steps() if wanted(step)]
            return len(steps) >= count and steps

        return self.until(what, found, seconds)

    def group(self):
        """Pids of the present group by rank."""
        return [changed["pids"] for changed in self.lines("changed") if changed["pids"]][-1]

    def await_group(self, what, expected):
        self.until(f"{what} are {expected}", lambda: self.group()[: len(expected)] == expected)

    def on(self, machine):
        """Pids of the living ranks on a machine, by the steps that they wrote down."""
        return sorted({step.pid for step in self.steps() if step.node == machine.name and is_alive(step.pid)})

    def survivors(self, lost):
        return [pid for pid in self.pids if pid not in lost]

    # ---- Faults.

    def fault(self, action, places=range(STEPS // 4, STEPS // 2)):
        """Carries out a fault in the middle of an epoch, behind a step with one of these places in it."""
        begin = time.monotonic()
        wanted = lambda step: step.at > begin and step.step % STEPS in places
        last = self.await_steps("the middle of an epoch", wanted, count=1)[-1]
        self.fault_at = self.event_at = time.monotonic()
        action()
        return last

    def goes_on(self, what, wanted):
        """Waits for the first step after the fault that satisfies `wanted`, and returns it."""
        first = self.await_steps(what, lambda step: step.at > self.fault_at and wanted(step), count=1)[0]
        if os.environ.get("VOLADOR_TIMES"):
            times = [self.event_at, *sorted(step.at for step in self.steps() if self.event_at < step.at <= first.at)]
            pause = max(after - before for before, after in zip(times, times[1:]))
            print(f"{self._testMethodName}: {what} after {first.at - self.event_at:.2f} s, with a pause of {pause:.2f} s", file=sys.stderr)
        return first

    def is_of_another_group(self, step):
        return step.world != 4 or step.pid not in self.pids

    def check_same_call(self, first):
        """The first step of another group continues the steps of the group before, in the same call of train()."""
        last = max((step for step in self.steps() if step.at < first.at and not self.is_of_another_group(step)), key=lambda step: step.step)
        self.assertIn(first.step, (last.step, last.step + 1))
        if last.step % STEPS != STEPS - 1:
            self.assertEqual(first.epoch, last.epoch)

    def finish(self, failures):
        """Ends the run with the epoch, checks what it has learned, and stops the cluster, of which nothing is left."""
        (self.folder / "enough").touch()
        self.await_end()
        self.check_epochs(failures)
        self.stop_all()

    def await_end(self):
        try:
            code = self.driver.wait(30)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run does not end:\n{self.said()}\n{self.head.volador('list', 'actors', check=False).stdout}")
        self.assertEqual(code, 0, self.said())

    def check_epochs(self, failures):
        epochs = self.lines("epoch")
        for number, epoch in enumerate(epochs, 1):
            self.assertEqual((epoch["epoch"], epoch["step"]), (number, number * STEPS))
            self.assertLessEqual(epoch["num_samples"], ROWS)  # Those of a rank that was lost, or gave up a step, are missing.
            self.assertAlmostEqual(epoch["uses_min"], number, delta=1e-3, msg="each row once an epoch")
            self.assertAlmostEqual(epoch["uses_max"], number, delta=1e-3, msg="each row once an epoch")
        self.assertEqual(epochs[-1]["failures"], failures, self.said())
        (end,) = self.lines("end")
        self.assertLess(end["distance"], 1e-4, "the state is not that of a run with one worker")

    def check_no_step_was_repeated(self):
        """All ranks of one group, and no other, have done each step, and their metrics are complete."""
        self.assertEqual({epoch["num_samples"] for epoch in self.lines("epoch")}, {ROWS})
        ranks = collections.defaultdict(list)
        for step in self.steps():
            ranks[step.step].append(step)
        self.assertEqual(sorted(ranks), list(range(len(ranks))))
        for number, done in ranks.items():
            self.assertEqual({step.world for step in done}, {len(done)}, f"step {number}: {done}")

    def connections(self, machine, pids):
        """(local, peer) addresses of the TCP connections of these processes."""
        found = machines.run(*machine.command("ss", "-Htnp", "state", "established")).stdout
        return {tuple(line.split()[2:4]) for line in found.splitlines() if any(f"pid={pid}," in line for pid in pids)}

    # ---- Cases.

    def test_undisturbed(self):
        self.train(epochs=3)
        here, there = self.connections(self.near, self.others), self.connections(self.far, self.lost)
        between = [pair for pair in here if pair[::-1] in there]
        self.assertNotEqual(between, [], f"no rank is connected to one of the other machine: {here}, {there}")
        for pair in between:
            self.assertEqual([address.rsplit(":", 1)[0] for address in pair], [self.near.address, self.far.address])
        self.await_end()
        self.check_epochs(failures=0)
        self.check_no_step_was_repeated()
        (end,) = self.lines("end")
        self.assertEqual(f"{end['loss']:.6f}", f"{end['loss_alone']:.6f}")
        self.stop_all()

    def test_a_machine_lost(self):
        self.train()
        self.fault(lambda: self.far.signal_all(signal.SIGKILL))
        self.check_same_call(self.goes_on("the others go on", lambda step: step.world == 2))
        self.await_group("the others", self.survivors(self.lost))
        self.join(self.far)
        self.goes_on("the run has grown", lambda step: step.world == 4 and step.pid not in self.pids)
        self.await_group("its first ranks", self.survivors(self.lost))
        self.finish(failures=2)

    def test_a_cable_cut(self):
        self.train()
        self.fault(self.far.cut_cable)
        self.check_same_call(self.goes_on("the others go on", lambda step: step.world == 2))
        self.await_group("the others", self.survivors(self.lost))
        self.event_at = time.monotonic()
        self.far.heal_cable()
        self.until("the ranks that were cut off have ended", lambda: not any(map(is_alive, self.lost)))
        self.goes_on("the run has grown", lambda step: step.world == 4 and step.pid not in self.pids)
        self.await_group("its first ranks", self.survivors(self.lost))
        self.finish(failures=2)

    def test_no_way_between_the_machines(self):
        """Both machines reach the head and not each other: the group is formed again when they do, and no rank is ended."""
        self.train(hang_ms=1000)
        ways = [(self.near, self.far.address), (self.far, self.near.address)]
        change = lambda what: [machines.run("ip", "-n", one.namespace, "route", what, "blackhole", address) for one, address in ways]
        last = self.fault(lambda: change("add"))
        self.until("the group is formed again", lambda: any("forms generation" in changed["explain"] for changed in self.lines("changed")
                                                            if changed["at"] > self.fault_at))
        self.event_at = time.monotonic()
        change("del")
        self.goes_on("they go on", lambda step: step.step >= last.step + 20)
        self.await_group("the ranks", self.pids)
        self.finish(failures=0)

    def test_a_drained_machine(self):
        """Its ranks move to another one between two steps; nothing happens to the run when its worker stops then."""
        self.train(cpus=4)
        self.fault(lambda: self.head.volador("drain", "m3"))
        self.goes_on("its ranks have moved", lambda step: step.world == 4 and step.pid not in self.pids)
        self.until("they have ended", lambda: not any(map(is_alive, self.lost)))
        self.until("all ranks are on the other machine", lambda: len(self.group()) == 4 and not self.on(self.far))
        group = self.group()
        self.far.volador("stop")
        machines.wait_until("the node has left", lambda: self.node_states().get("m3") != "alive", 10)
        epochs = len(self.lines("epoch"))
        self.until("two more epochs", lambda: len(self.lines("epoch")) >= epochs + 2)
        self.assertEqual(self.group(), group)
        self.finish(failures=0)
        self.check_no_step_was_repeated()

    def test_a_drained_machine_whose_ranks_find_no_other_place(self):
        """Ranks that the run needs stay until others are ready, over the end of a call of train() too."""
        self.train(min=4, max=4)
        last = self.fault(lambda: self.head.volador("drain", "m3"))
        self.await_steps("the next epoch", lambda step: step.epoch == last.epoch + 1)
        self.assertEqual(self.group(), self.pids)
        self.finish(failures=0)
        self.check_no_step_was_repeated()

    def test_a_stopped_machine(self):
        """As a provider ends a machine: its worker gets SIGTERM. The run has all its ranks again when a machine comes."""
        self.train()
        self.fault(lambda: os.kill(self.far.worker_pid(), signal.SIGTERM))
        self.check_same_call(self.goes_on("the others go on", lambda step: step.world == 2))
        self.await_group("the others", self.survivors(self.lost))
        machines.wait_until("the machine has no process any more", lambda: not self.far.pids(), 15)
        self.join(self.far)
        self.goes_on("the run has grown", lambda step: step.world == 4 and step.pid not in self.pids)
        self.finish(failures=0)

    def test_the_head_killed(self):
        """Ranks that are parked without a head answer nothing. They are not frozen, and go on training."""
        self.train(step_ms=250, hang_ms=2000)
        (head,) = self.head.head_pids()
        last = self.fault(lambda: os.kill(head, signal.SIGKILL), places=range(1, 8))
        (self.folder / "enough").touch()
        end = (last.epoch + 1) * STEPS - 2  # 7.5 s later at least: parked for 4 s.
        self.await_steps("the run goes on without a head", lambda step: step.step == end)
        self.head.volador("start", "--head")
        self.await_end()
        self.assertEqual(self.group(), self.pids)
        self.check_epochs(failures=0)
        self.check_no_step_was_repeated()
        self.stop_all()

    def test_a_rank_killed_while_the_head_is_away(self):
        self.train()
        (head,) = self.head.head_pids()
        os.kill(head, signal.SIGKILL)
        machines.wait_until("the head has ended", lambda: not is_alive(head))
        lost = self.lost[-1]
        self.fault(lambda: os.kill(lost, signal.SIGKILL))
        self.until("the others have noticed it", lambda: "ends generation" in self.lines("changed")[-1]["explain"])
        self.event_at = time.monotonic()
        self.head.volador("start", "--head")
        self.check_same_call(self.goes_on("the others go on", self.is_of_another_group))
        self.goes_on("the run has grown", lambda step: step.world == 4 and step.pid not in self.pids)
        self.await_group("its first ranks", self.survivors([lost]))
        self.finish(failures=1)


if __name__ == "__main__":
    machines.main()
