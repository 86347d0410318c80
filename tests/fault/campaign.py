#!/usr/bin/env python3
"""Random faults against a cluster of three machines while calls, tasks, objects or an experiment run on it.

A round makes a cluster in network namespaces, starts its work, injects faults from a seed, heals them all, and checks that nothing was
lost, nothing was done twice, everything ended within the stated bound, and nothing was left behind. The seed decides everything but how
the machine interleaves it: --round=SEED runs one round again.

  campaign.py                              four rounds, one of each kind of work, from a fixed seed (ctest: fault_campaign)
  campaign.py --minutes=600 --seed=random  a night
  campaign.py --round=1234567              one round again
  campaign.py --work=counters --fault=HeadKilledOnFullDisk --rounds=10
  campaign.py --python --rounds=50         Python programs
  campaign.py --list                       the kinds of faults

Exit code 77: network namespaces cannot be made here (needs root).
"""

import argparse
import collections
import pathlib
import random
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cluster as clusters  # noqa: E402
import faults  # noqa: E402
import machines  # noqa: E402
import work as works  # noqa: E402

WORK = ("counters", "tune", "objects", "tasks")


class Round:
    def __init__(self, seed, options):
        self.seed = seed
        self.options = options
        self.rng = random.Random(seed)
        # Drawn in any case, so that a seed means the same round whatever else is asked for.
        kind, store = self.rng.choice(WORK), self.rng.choice(("sqlite", "sqlite", "redis"))
        self.kind = options.work or kind
        self.store = options.store or store
        self.counts = collections.Counter()
        self.not_run = {}
        self.begin = time.monotonic()

    def log(self, text):
        print(f"  {time.monotonic() - self.begin:6.1f} s  {text}", flush=True)

    def run(self):
        """None, or what is wrong."""
        if self.store == "redis" and not clusters.shutil.which("redis-server"):
            self.not_run["a Redis store"] = "redis-server is not installed"
            self.store = "sqlite"
        print(f"round {self.seed}: {self.kind}, {self.store}", flush=True)
        cluster = work = None
        try:
            cluster = clusters.Cluster(self.log)
            cluster.start(self.store, self.options.clock_shim)
            work = works.make(cluster, self.kind, self.rng, self.options.python)
            work.start()
            self.log(f"the program runs on {work.machine.name}")
            self.inject_faults(cluster, work)
            cluster.continue_all()
            cluster.ensure_running()
            self.log("everything is healed")
            self.log(work.finish())
            left = cluster.stop()
            if left:
                raise works.Failed("left behind:\n  " + "\n  ".join(left))
            self.log("nothing is left behind")
            return None
        except (works.Failed, AssertionError) as error:
            return str(error) + self.evidence(cluster, work)
        except Exception:
            return traceback.format_exc() + self.evidence(cluster, work)
        finally:
            if work:
                work.kill()
            if cluster:
                cluster.close()

    def evidence(self, cluster, work):
        if not cluster:
            return ""
        cluster.continue_all()
        said = f"\n---- the program\n{work.said()}" if work else ""
        return f"{said}\n{cluster.describe()}\n{cluster.logs()}"

    def inject_faults(self, cluster, work):
        kinds = [kind for kind in (self.options.kinds or faults.KINDS) if self.store in kind.stores]
        # Faults begin one after another and may overlap; one of a kind at a time.
        at = 0.0
        events = []
        for number in range(self.options.faults):
            fault = self.rng.choice(kinds)(cluster, work, self.rng)
            at += self.rng.uniform(0.5, 3.5)
            events.append((at, number, "inject", fault))
            events.append((at + fault.duration, number, "heal", fault))
        events.sort(key=lambda event: (event[0], event[1]))
        begin = time.monotonic()
        injected = set()
        active = set()
        for when, number, what, fault in events:
            time.sleep(max(0.0, begin + when - time.monotonic()))
            if what == "inject":
                if (fault.name, fault.machine.name) in active:
                    self.log(f"{fault}: not injected, one like it lasts")
                    continue
                why = fault.inject()
                if why:
                    self.log(f"{fault}: not injected: {why}")
                    self.not_run.setdefault(fault.name, why)
                    continue
                self.log(f"{fault}")
                self.counts[fault.name] += 1
                injected.add(number)
                active.add((fault.name, fault.machine.name))
            elif number in injected:
                fault.heal()
                active.discard((fault.name, fault.machine.name))
                self.log(f"{fault.name} on {fault.machine.name}: healed, {work.ended()} have ended")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1", help="of the campaign: a number, or \"random\" (default: %(default)s)")
    parser.add_argument("--round", type=int, help="run the one round of this seed again")
    parser.add_argument("--rounds", type=int, help="at most so many rounds (default: one of each kind of work)")
    parser.add_argument("--minutes", type=float, help="begin rounds for so long, in place of --rounds")
    parser.add_argument("--faults", type=int, default=10, help="of one round (default: %(default)s)")
    parser.add_argument("--work", choices=WORK)
    parser.add_argument("--store", choices=("sqlite", "redis"))
    parser.add_argument("--fault", action="append", dest="fault", help="only this kind; repeated: these kinds")
    parser.add_argument("--clock-shim", help="the compiled clock_shim.c; without it no clocks are stepped")
    parser.add_argument("--python", action="store_true", help="the programs are workload.py, for which PYTHONPATH names the package")
    parser.add_argument("--list", action="store_true", help="print the kinds of faults")
    parser.add_argument("--keep-going", action="store_true", help="go on after a round that failed")
    options = parser.parse_args()
    if options.list:
        print("\n".join(kind.__name__ for kind in faults.KINDS))
        return 0
    options.kinds = faults.named(options.fault) if options.fault else None
    if not machines.can_make_namespaces():
        print("not run: network namespaces cannot be made here (needs root)")
        return machines.NOT_RUN

    seed = random.SystemRandom().randrange(1 << 31) if options.seed == "random" else int(options.seed)
    end = time.monotonic() + 60 * options.minutes if options.minutes else None
    kinds_of_work = [kind for kind in WORK if kind != "tune"] if options.python else WORK
    most = 1 if options.round is not None else None if end else options.rounds or len(kinds_of_work)
    print(f"campaign of seed {seed}", flush=True)
    counts, not_run, failed = collections.Counter(), {}, []
    number = 0
    given_work = options.work
    while (most is None or number < most) and (end is None or time.monotonic() < end):
        round_seed = options.round if options.round is not None else 1000 * seed + number
        if options.round is None and not given_work:
            options.work = kinds_of_work[number % len(kinds_of_work)]
        one = Round(round_seed, options)
        wrong = one.run()
        counts.update(one.counts)
        not_run.update(one.not_run)
        number += 1
        if wrong:
            failed.append(round_seed)
            print(f"round {round_seed} FAILED: {wrong}", flush=True)
            print(f"again: {sys.argv[0]} --round={round_seed} --work={one.kind} --store={one.store} --faults={options.faults}"
                  + " --python" * options.python
                  + "".join(f" --fault={name}" for name in options.fault or []), flush=True)
            if not options.keep_going:
                break
    print(f"{number} rounds, {sum(counts.values())} faults of {len(counts)} kinds, {len(failed)} failed")
    for name, count in sorted(counts.items()):
        print(f"  {count} × {name}")
    for name, why in sorted(not_run.items()):
        if name not in counts:
            print(f"  not run: {name}: {why}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
