#!/usr/bin/env python3
"""Random kills and stops while experiments in Determined's form and Katib's run: nothing is lost, and nothing counts twice.

A round starts a cluster of two workers on this machine, runs a random search, an adaptive search and an Experiment of Katib, and kills or stops the head,
a worker, a host of a trial or a trial's program at random. Afterwards all must have completed, with the hyperparameters of their seed and with each
metric once; and the cluster stops without leftovers.

  experiment_kills.py                           one round of 12 faults from a fixed seed (ctest: fault_experiments)
  experiment_kills.py --faults=200 --seed=random
  experiment_kills.py --keep                    leaves the folder of a round that failed

Environment: VOLADOR_BIN, the folder of the programs.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
from experiment_server_test import TRIAL, Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402

TRIALS = {"random": 24, "adaptive": 24, "katib": 10}
LENGTH, STEP_S = 16, 0.04
END_SECONDS = 240  # From the last fault to the end of the last experiment.
KATIB = """
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata:
  name: kills
spec:
  objective: {type: minimize, objectiveMetricName: loss}
  algorithm:
    algorithmName: random
    algorithmSettings: [{name: random_state, value: "7"}]
  maxTrialCount: %d
  parallelTrialCount: 2
  maxFailedTrialCount: 0
  parameters:
    - {name: lr, parameterType: double, feasibleSpace: {min: "0.1", max: "1.0"}}
  trialTemplate:
    primaryContainerName: main
    trialParameters: [{name: lr, reference: lr}]
    trialSpec:
      apiVersion: batch/v1
      kind: Job
      spec:
        backoffLimit: 100
        template:
          spec:
            restartPolicy: OnFailure
            containers:
              - name: main
                image: none
                command: ["sh", "-c", "sleep 0.3; echo loss=${trialParameters.lr}"]
"""


class Failed(Exception):
    pass


class Round:
    def __init__(self, seed, faults):
        self.rng = random.Random(seed)
        self.faults = faults
        self.counts = collections.Counter()
        self.begin = time.monotonic()
        self.cluster = Cluster()
        self.notes = self.cluster.home.path / "notes"
        self.notes.mkdir()

    def log(self, text):
        print(f"  {time.monotonic() - self.begin:6.1f} s  {text}", flush=True)

    # ---- the work ----

    def create(self, name, searcher):
        config = {"name": name, "entrypoint": f"python3 {TRIAL}", "max_restarts": 100, "reproducibility": {"experiment_seed": 11},
                  "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
                  "searcher": {"metric": "loss", "max_length": {"batches": LENGTH}, "max_concurrent_trials": 4, **searcher},
                  "environment": {"environment_variables": [f"NOTES={self.notes}", f"STEP_S={STEP_S}"]}}
        return self.cluster.post("/experiments", {"config": json.dumps(config)})["experiment"]["id"]

    def start(self):
        self.random = self.create("random", {"name": "random", "max_trials": TRIALS["random"]})
        self.adaptive = self.create("adaptive", {"name": "adaptive_asha", "max_trials": TRIALS["adaptive"], "divisor": 2, "max_rungs": 3})
        file = self.cluster.work / "katib.yaml"
        file.write_text(KATIB % TRIALS["katib"])
        self.cluster.must("apply", "-f", file)

    # ---- faults ----

    def pid_or_none(self, role, node=""):
        try:
            pid = self.cluster.pid_of(role, node)
        except OSError:
            return None
        return pid if pid in self.cluster.home.pids() else None

    def of_program(self, *words):
        """One process of ours whose command line has one of the words."""
        found = []
        for pid in self.cluster.home.pids():
            try:
                text = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if any(word in text for word in words):
                found.append(pid)
        return self.rng.choice(sorted(found)) if found else None

    def start_east(self):
        self.cluster.run(*self.cluster.join, "--name=east")

    def kill(self, pid):
        if pid is None:
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def kill_head(self):
        if not self.kill(self.pid_or_none("head")):
            return False
        time.sleep(self.rng.uniform(0, 1.5))
        self.ensure_running()
        return True

    def kill_east(self):
        if not self.kill(self.pid_or_none("worker", "east")):
            return False
        time.sleep(self.rng.uniform(0, 1.5))
        self.ensure_running()
        return True

    def kill_head_and_workers(self):
        done = [self.kill(self.pid_or_none(*which)) for which in (("head",), ("worker", "west"), ("worker", "east"))]
        self.ensure_running()
        return any(done)

    def kill_host(self):
        return self.kill(self.of_program("volador job-host"))

    def kill_trial(self):
        return self.kill(self.of_program("experiment_trial.py", "run-trial", "sleep 0.3"))

    def pause(self, pid):
        if pid is None:
            return False
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.rng.uniform(0.2, 3))
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
        return True

    def pause_head(self):
        return self.pause(self.pid_or_none("head"))

    def pause_worker(self):
        return self.pause(self.pid_or_none("worker", self.rng.choice(["west", "east"])))

    def ensure_running(self):
        if self.pid_or_none("head") is None or self.pid_or_none("worker", "west") is None:
            self.cluster.start_head()
        if self.pid_or_none("worker", "east") is None:
            self.start_east()

    def inject(self):
        kinds = [self.kill_head] * 3 + [self.kill_east] * 2 + [self.kill_head_and_workers, self.kill_host, self.pause_head, self.pause_worker] + [self.kill_trial] * 2
        done = 0
        while done < self.faults:
            time.sleep(self.rng.uniform(0.1, 1.6))
            kind = self.rng.choice(kinds)
            if not self.is_busy():
                self.log("the experiments end before the last fault: more of them start")
                self.check()
                self.start_again()
            if kind():
                done += 1
                self.counts[kind.__name__] += 1
                self.log(kind.__name__)
        self.ensure_running()

    def is_busy(self):
        return not all(self.states().values())

    def start_again(self):
        self.cluster.must("delete", "experiment", "kills")
        self.start()

    # ---- what must be true afterwards ----

    def states(self):
        """Whether each has ended. An end other than its success is an error."""
        ended = {}
        for experiment in (self.random, self.adaptive):
            info = self.cluster.get(f"/experiments/{experiment}")
            if info["state"] in ("ERROR", "CANCELED", "STOPPING_ERROR"):
                raise Failed(f"experiment {experiment} failed: {json.dumps(info)[:2000]}")
            ended[str(experiment)] = info["state"] == "COMPLETED"
        row = json.loads(self.cluster.must("get", "experiment", "kills", "-o", "json"))
        conditions = [one["type"] for one in row["status"].get("conditions", []) if one["status"] == "True"]
        if "Failed" in conditions:
            raise Failed(f"the Experiment of Katib failed: {json.dumps(row['status'])[:3000]}")
        ended["katib"] = "Succeeded" in conditions
        return ended

    def check(self):
        end = time.monotonic() + END_SECONDS
        while not all(states := self.states().values()):
            if time.monotonic() > end:
                raise Failed(f"not ended within {END_SECONDS} s after the last fault: {self.states()}")
            time.sleep(0.2)
        del states
        self.check_trials(self.random, TRIALS["random"], {LENGTH})
        self.check_trials(self.adaptive, TRIALS["adaptive"], {LENGTH // 4, LENGTH // 2, LENGTH})
        status = json.loads(self.cluster.must("get", "experiment", "kills", "-o", "json"))["status"]
        if (status["trials"], status["trialsSucceeded"]) != (TRIALS["katib"], TRIALS["katib"]):
            raise Failed(f"expected {TRIALS['katib']} trials that succeeded: {json.dumps(status)[:3000]}")
        for row in json.loads(self.cluster.must("get", "trials", "-o", "json"))["items"]:
            lr = {one["name"]: one["value"] for one in row["spec"]["parameterAssignments"]}["lr"]
            (metric,) = [one for one in row["status"]["observation"]["metrics"] if one["name"] == "loss"]
            if {metric["min"], metric["max"], metric["latest"]} != {lr}:
                raise Failed(f"trial {row['metadata']['name']} observed {metric}, expected {lr}")
        refused = [line for line in (self.notes / "notes").read_text().splitlines() if '"refused"' in line and "is not the current" not in line]
        if refused:
            raise Failed("requests of trials were refused:\n" + "\n".join(refused[:5]))

    def check_trials(self, experiment, count, lengths):
        rows = self.cluster.get(f"/experiments/{experiment}/trials")["rows"]
        # As with Determined, a program that is killed after the last length of its trial, before it ends by itself, makes an error of it.
        killed = {row["id"] for row in rows if row["state"] == "ERROR" and "137" in row["reason"] and row["best_metric"] and row["searched_length"] == 0}
        if len(rows) != count or {row["state"] for row in rows if row["id"] not in killed} != {"COMPLETED"}:
            raise Failed(f"experiment {experiment}: expected {count} trials that completed: {[(row['id'], row['state']) for row in rows]}")
        for row in rows:
            if row["batches"] not in lengths:
                raise Failed(f"trial {row['id']} trained {row['batches']} batches, expected one of {sorted(lengths)}")
            series = self.cluster.get(f"/trials/{row['id']}/metrics?group=training")["series"]
            seen = [point for one in series if one["metric"] == "loss" for point in zip(one["batches"], one["values"])]
            expected = [(batches, row["hparams"]["lr"] / batches) for batches in range(1, row["batches"] + 1)]
            if [batches for batches, _ in seen] != [batches for batches, _ in expected] or any(
                    abs(value - right) > 1e-9 for (_, value), (_, right) in zip(seen, expected)):
                raise Failed(f"trial {row['id']} has metrics {seen}, expected {expected}")
        hparams = [row["hparams"]["lr"] for row in rows]
        if len(set(hparams)) != count:
            raise Failed(f"experiment {experiment} drew a point twice: {hparams}")

    def stop(self):
        self.cluster.run("stop")
        wait_until("all processes of the cluster have ended", lambda: not self.cluster.home.pids(), 30)
        left = [path for path in self.cluster.home.path.rglob("*") if path.is_socket() or path.name.endswith((".tmp", ".partial"))]
        if left:
            raise Failed(f"left behind: {left}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1", help="a number, or \"random\" (default: %(default)s)")
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--keep", action="store_true", help="leave the folder of a round that failed")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if options.seed == "random" else int(options.seed)
    print(f"seed {seed}", flush=True)
    one = Round(seed, options.faults)
    try:
        one.start()
        one.inject()
        one.log("no more faults")
        one.check()
        one.stop()
        print(f"{sum(one.counts.values())} faults: {dict(one.counts)}: nothing was lost, nothing counted twice, nothing is left")
        return 0
    except Exception as error:
        print(f"FAILED with seed {seed}: {error if isinstance(error, Failed) else traceback.format_exc()}", flush=True)
        for file in sorted(one.cluster.home.path.glob("volador/clusters/*/head/head.log")):
            print(f"---- {file}\n{file.read_text(errors='replace')[-6000:]}")
        if options.keep:
            shutil.copytree(one.cluster.home.path, f"/tmp/kills-{seed}", symlinks=True, ignore_dangling_symlinks=True,
                            ignore=lambda folder, names: [name for name in names if (pathlib.Path(folder) / name).is_socket()])
            print(f"kept: /tmp/kills-{seed}")
        return 1
    finally:
        one.cluster.close()


if __name__ == "__main__":
    sys.exit(main())
