"""A cluster of three machines, an experiment whose every step can be checked, and one fault each."""

import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import machines  # noqa: E402
import oracle  # noqa: E402

TRIALS, STEPS, STEP_MS, EVERY = 6, 40, 150, 5


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Faults(machines.LanTest):
    machine_count = 3
    worker_options = ["--num-cpus=2"]

    def start_experiment(self, **more):
        self.storage = self.lan.directory / "results"
        self.storage.mkdir(exist_ok=True)
        self.ledger = self.lan.directory / "ledger"
        self.output = self.lan.directory / "driver.txt"
        arguments = dict(trials=TRIALS, steps=STEPS, step_ms=STEP_MS, every=EVERY, storage=self.storage, ledger=self.ledger, failures=5)
        await_steps = more.pop("await_steps", True)
        arguments.update(more)
        self.driver = self.head.start(machines.BIN / "oracle_trials", *[f"{key}={value}" for key, value in arguments.items()], output=self.output)
        if await_steps:
            machines.wait_until("every trial has made a few steps", lambda: self.trials_past(3) == TRIALS, 40, self.said)

    def trials_past(self, step):
        if not self.ledger.exists():
            return 0
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return len({line[0] for line in lines if len(line) == 5 and int(line[3]) > step})

    def hosts(self, machine=None):
        """Processes that run trials now, by what they wrote down themselves."""
        pids = {int(line.split()[2]) for line in self.ledger.read_text().splitlines()}
        here = set(machine.pids()) if machine else pids
        return sorted(pid for pid in pids & here if is_alive(pid))

    def finish_experiment(self, seconds=90, every=EVERY):
        try:
            code = self.driver.wait(seconds)
        except Exception:
            self.driver.kill()
            raise AssertionError(f"the experiment did not end:\n{self.said()}\n{self.head.volador('list', 'actors', check=False).stdout}")
        self.assertEqual(code, 0, self.said())
        return oracle.check(self, self.storage, self.ledger, TRIALS, STEPS, every)

    def said(self):
        return self.output.read_text(errors="replace")[-4000:]

    def test_a_host_killed(self):
        self.start_experiment()
        os.kill(self.hosts(self.lan.machines[1])[0], signal.SIGKILL)
        self.finish_experiment()
        self.stop_all()

    def test_a_worker_killed(self):
        self.start_experiment()
        victim = self.lan.machines[1]
        worker = victim.worker_pid()
        hosts = self.hosts(victim)
        self.assertTrue(hosts)
        os.kill(worker, signal.SIGKILL)
        machines.wait_until("the hosts of the killed worker are gone", lambda: not any(map(is_alive, hosts)), 2)
        self.finish_experiment()
        self.stop_all()

    def test_a_worker_stopped(self):
        """What runs on a node that its user stops goes on elsewhere, and that counts as no failure of the trial."""
        self.start_experiment(failures=0)
        victim = self.lan.machines[1]
        self.assertTrue(self.hosts(victim))
        victim.volador("stop")
        self.finish_experiment()
        self.stop_all()

    def test_a_machine_frozen_for_ten_seconds(self):
        self.start_experiment(steps=STEPS)
        victim = self.lan.machines[1]
        victim.signal_all(signal.SIGSTOP)
        machines.wait_until("the frozen node is given up", lambda: self.node_states().get("m2") != "alive", 6)
        time.sleep(10)
        victim.signal_all(signal.SIGCONT)
        machines.wait_until("the node has joined again", lambda: self.node_states().get("m2") == "alive", 10)
        self.finish_experiment()
        self.stop_all()

    def test_a_cable_cut_and_healed(self):
        self.start_experiment()
        victim = self.lan.machines[2]
        victim.cut_cable()
        time.sleep(8)
        victim.heal_cable()
        machines.wait_until("the node has joined again", lambda: self.node_states().get("m3") == "alive", 20)
        self.finish_experiment()
        self.stop_all()

    def test_a_cable_cut_under_a_checkpoint(self):
        """Large files that do not change travel once, on a line that is cut while they do."""
        frozen_mb, cut_at = 16, 10 << 20
        victim = self.lan.machines[2]
        machines.run("ip", "netns", "exec", victim.namespace, "tc", "qdisc", "add", "dev", victim.inside, "root", "tbf", "rate", "200mbit", "burst", "256kb", "latency", "100ms")
        counter = pathlib.Path(f"/sys/class/net/{victim.port_outside}/statistics/rx_bytes")
        before = int(counter.read_text())
        sent = lambda: int(counter.read_text()) - before
        self.start_experiment(frozen_mb=frozen_mb, every=2, failures=0, await_steps=False)
        machines.wait_until("a checkpoint is on its way", lambda: sent() > cut_at, 40, self.said)
        victim.cut_cable()
        time.sleep(2.5)
        cut_after = sent()
        victim.heal_cable()
        self.assertLess(cut_after, 2 * frozen_mb << 20, "the cut came too late to interrupt anything")
        self.finish_experiment(every=2)
        here = sum(1 for trial in self.saved() if trial["node"] == "m3")
        self.assertGreater(here, 0)
        # Each trial's file once, and what messages, certificates and torn pieces take: not once for each of 20 checkpoints.
        self.assertLess(sent(), (here * frozen_mb + 7) << 20, f"{cut_after} had left before the cut")
        for trial in self.saved():
            self.assertLess(trial["received_bytes"], 2_000, "its last checkpoint brought more than what had changed")
        self.stop_all()

    def test_a_checkpoint_that_lies_on_its_node_is_not_sent_there_again(self):
        frozen_mb = 16
        self.start_experiment(frozen_mb=frozen_mb, every=2)
        victim = self.lan.machines[2]
        machines.wait_until("every trial has saved", lambda: len(list(self.storage.glob("oracle_*/*/checkpoint_*/checkpoint.json"))) >= TRIALS, 40, self.said)
        counter = pathlib.Path(f"/sys/class/net/{victim.port_outside}/statistics/tx_bytes")  # Towards the machine.
        before = int(counter.read_text())
        for pid in self.hosts(victim):
            os.kill(pid, signal.SIGKILL)
        self.finish_experiment(every=2)
        self.assertEqual(sum(1 for trial in self.saved() if trial["node"] == "m3" and trial["attempt"] == 2), 2, "they went on where they were")
        self.assertLess(int(counter.read_text()) - before, frozen_mb << 19)
        self.stop_all()

    def saved(self):
        """For each trial the node on which it ended, and the result of its last checkpoint."""
        (directory,) = self.storage.glob("oracle_*")
        last = [max(trial.parent.glob("checkpoint_*")) for trial in directory.glob("*/params.json")]
        nodes = {row["id"]: row["node"] for row in json.loads(self.head.volador("list", "trials", "--json").stdout)["trials"]}
        return [dict(json.loads((each / "checkpoint.json").read_text()), node=nodes[each.parent.name]) for each in last]

    def test_the_head_killed_and_restarted(self):
        self.start_experiment(step_timeout_ms=1500)
        (head,) = self.head.head_pids()
        os.kill(head, signal.SIGKILL)
        time.sleep(6)  # Actors are suspended after 3.5 s, and steps that time out meanwhile do not count as failures.
        self.head.volador("start", "--head")
        again = self.finish_experiment()
        self.assertEqual(again, 0, "something healthy was restarted:\n" + self.said())
        self.stop_all()

    def test_the_head_stopped_for_a_restart(self):
        """`volador stop` is final for programs; with --for-restart they and the workers wait for the head."""
        self.start_experiment(step_timeout_ms=1500)
        self.head.volador("stop", "--for-restart")
        machines.wait_until("the head has ended", lambda: not self.head.head_pids(), 10)
        self.assertIsNotNone(self.head.worker_pid())
        time.sleep(6)  # Longer than a lease.
        self.head.volador("start", "--head")
        again = self.finish_experiment()
        self.assertEqual(again, 0, "something healthy was restarted:\n" + self.said())
        self.stop_all()

    def test_the_driver_killed(self):
        self.start_experiment()
        hosts = self.hosts()
        self.assertEqual(len(hosts), TRIALS)
        os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.wait()
        machines.wait_until("its actors have ended", lambda: not any(map(is_alive, hosts)), 4)
        self.stop_all()

    def token(self, role):
        made = json.loads(self.head.volador("token", "create", f"--role={role}", "--json").stdout)
        return made["id"], made["token"]

    def test_tokens_revoked(self):
        """Revokes the tokens of a working machine and of a program on another one: the program on a third one continues."""
        leaver, elsewhere = self.lan.machines[2], self.lan.machines[1]
        address = next(word for word in self.join_command if word.startswith("--address="))
        leaver.volador("stop")
        joined_with, secret = self.token("join")
        join = ("start", address, f"--token={secret}", "--name=m3", f"--bind={leaver.address}", *self.worker_options)
        leaver.volador(*join)
        connected_with, driver_secret = self.token("driver")
        self.start_experiment()
        hosts = self.hosts(leaver)
        self.assertTrue(hosts)
        other_output = self.lan.directory / "other.txt"
        other = elsewhere.start(machines.BIN / "oracle_trials", "trials=1", "steps=400", f"storage={self.lan.directory / 'other'}",
                                f"ledger={self.lan.directory / 'other_ledger'}", output=other_output, VOLADOR_ADDRESS=address.removeprefix("--address="), VOLADOR_TOKEN=driver_secret)

        self.head.volador("token", "revoke", joined_with)
        machines.wait_until("no host is left on the machine whose token was revoked", lambda: not any(map(is_alive, hosts)), 10, self.said)
        machines.wait_until("the machine is no member any more", lambda: self.node_states().get("m3") != "alive", 10)
        refused = leaver.volador(*join, check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("revoked", refused.stdout + refused.stderr)

        self.head.volador("token", "revoke", connected_with)
        self.assertNotEqual(other.wait(20), 0)
        self.assertIn("revoked", other_output.read_text())
        self.finish_experiment()
        self.stop_all()

    def test_a_full_disk_under_the_results(self):
        storage = self.lan.directory / "results"
        storage.mkdir()
        machines.run("mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", storage)
        self.addCleanup(machines.run, "umount", "-l", storage, check=False)
        self.start_experiment(step_ms=300)
        try:
            with open(storage / "ballast", "wb") as file:
                while True:
                    file.write(b"x" * 4096)
                    file.flush()
        except OSError:
            pass
        code = self.driver.wait(120)
        self.assertGreaterEqual(code, 0, "the driver crashed")
        self.assertIn("space", self.said())
        self.stop_all()


if __name__ == "__main__":
    machines.main()
