"""Runs Optuna on the functions of tests/bench/search_runs.cc and says how often a search of ours ends worse than one of its.

  compare_search.py [--samplers=tpe,cmaes,gp,nsga2] [--functions=branin,…] [--seeds=30] [--page=FILE] RUNS

RUNS is what search_runs printed. The exit status is 1 where the one-sided 95 % bound of a sampler is above 0.60. With --page the rows of the samplers
that were measured with all functions stand in that page's table instead of those that were there.
"""

import argparse
import datetime
import math
import pathlib
import random
import re
import sys

import optuna

BEGIN, END = "<!-- search quality: scripts/bench_tune_peers.sh --parts=quality --write -->", "<!-- /search quality -->"
NAMES = {"nsga2": "NSGA-II", "tpe": "TPE", "cmaes": "CMA-ES", "gp": "Gaussian process"}  # In the order of the page's rows.
BOUND_MOST = 0.60
REPLICAS = 2_000


# ---- The functions, lower is better.


def branin(trial):
    x, y = trial.suggest_float("x", -5, 10), trial.suggest_float("y", 0, 15)
    valley = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return valley**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


ALPHA = (1, 1.2, 3, 3.2)
A = ((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14))
P = (
    (1312, 1696, 5569, 124, 8283, 5886),
    (2329, 4135, 8307, 3736, 1004, 9991),
    (2348, 1451, 3522, 2883, 3047, 6650),
    (4047, 8828, 8732, 5743, 1091, 381),
)


def point(trial, dimensions, low, high):
    return [trial.suggest_float(f"x{i}", low, high) for i in range(dimensions)]


def hartmann6(trial):
    x = point(trial, 6, 0, 1)
    return -sum(w * math.exp(-sum(a * (v - 1e-4 * p) ** 2 for a, v, p in zip(row, x, middle))) for w, row, middle in zip(ALPHA, A, P))


def rosenbrock5(trial):
    x = point(trial, 5, -5, 10)
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def mixed(trial):
    x, lr = trial.suggest_float("x", -5, 5), trial.suggest_float("lr", 1e-5, 1, log=True)
    n, kind = trial.suggest_int("n", 1, 16), trial.suggest_categorical("kind", ["a", "b", "c"])
    return (x - 1) ** 2 + (math.log10(lr) + 3) ** 2 + 0.1 * (n - 8) ** 2 + {"a": 1, "b": 0, "c": 2}[kind]


def zdt(second):
    def values(trial):
        x = point(trial, 6, 0, 1)
        g = 1 + 9 * sum(x[1:]) / 5
        return x[0], g * second(x[0], g)

    return values


def spheres(trial):
    x = point(trial, 6, 0, 1)
    return sum((v - 0.3) ** 2 for v in x), sum((v - 0.6) ** 2 for v in x)


SINGLE = {"branin": branin, "hartmann6": hartmann6, "rosenbrock5": rosenbrock5, "mixed": mixed}
# With the reference point of the hypervolume, in both objectives.
DOUBLE = {
    "zdt1": (zdt(lambda f, g: 1 - math.sqrt(f / g)), 5),
    "zdt2": (zdt(lambda f, g: 1 - (f / g) ** 2), 5),
    "zdt3": (zdt(lambda f, g: 1 - math.sqrt(f / g) - f / g * math.sin(10 * math.pi * f)), 5),
    "spheres": (spheres, 2),
}


def hypervolume(points, reference):
    volume, low = 0.0, reference
    for first, second in sorted(points):
        if first >= reference or second >= low:
            continue
        volume += (reference - first) * (low - second)
        low = second
    return volume


# ---- Optuna, with its defaults.

SAMPLERS = {
    "tpe": (200, lambda seed: optuna.samplers.TPESampler(seed=seed)),
    "cmaes": (500, lambda seed: optuna.samplers.CmaEsSampler(seed=seed)),
    "gp": (60, lambda seed: optuna.samplers.GPSampler(seed=seed)),
    "nsga2": (500, lambda seed: optuna.samplers.NSGAIISampler(seed=seed)),
}


def functions_of(sampler, asked):
    """Those that both sides run; asked: names with commas between, all where it is empty."""
    names = list(DOUBLE) if sampler == "nsga2" else [name for name in SINGLE if sampler != "cmaes" or name != "mixed"]
    return [name for name in names if not asked or name in asked.split(",")]


def optuna_run(sampler, function, seed):
    trials, make = SAMPLERS[sampler]
    if function in SINGLE:
        study = optuna.create_study(sampler=make(seed))
        study.optimize(SINGLE[function], n_trials=trials)
        return study.best_value
    values, reference = DOUBLE[function]
    study = optuna.create_study(directions=["minimize"] * 2, sampler=make(seed))
    study.optimize(values, n_trials=trials)
    return -hypervolume([trial.values for trial in study.trials], reference)


# ---- How often ours ends worse.


def same(a, b):
    """But for rounding: both have converged."""
    return abs(a - b) <= 1e-9 * max(1, abs(a), abs(b))


def share_worse(ours, theirs):
    return sum(0.5 if same(a, b) else float(a > b) for a in ours for b in theirs) / (len(ours) * len(theirs))


def mean(values):
    return sum(values) / len(values)


def bound(by_function, seed=0):
    """One-sided, 95 %: by bootstrap, the runs of each function drawn anew among themselves."""
    draw = random.Random(seed)
    replicas = []
    for _ in range(REPLICAS):
        replicas.append(mean([share_worse(draw.choices(ours, k=len(ours)), draw.choices(theirs, k=len(theirs))) for ours, theirs in by_function]))
    replicas.sort()
    return replicas[math.ceil(0.95 * len(replicas)) - 1]


def row_of(sampler, shares, worst, seeds):
    """shares: by function, how often ours ends worse."""
    each = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    return f"| {NAMES[sampler]} | {SAMPLERS[sampler][0]} | {mean(list(shares.values())):.2f} | {worst:.2f} | {each} | {seeds} seeds, {datetime.date.today()} |"


def write_rows(page, rows):
    """rows: by sampler. Those of samplers that are not among them stay."""
    text = page.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    for sampler, name in NAMES.items():
        known = re.search(rf"^\| {re.escape(name)} \|.*$", text[begin:end], re.MULTILINE)
        if known and sampler not in rows:
            rows[sampler] = known.group(0)
    table = ["| sampler | trials | ends worse | bound | by function | measured |", "|---|---|---|---|---|---|", *(rows[sampler] for sampler in NAMES if sampler in rows)]
    page.write_text(text[:begin] + "\n" + "\n".join(table) + "\n" + text[end:], encoding="utf-8")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--samplers", default=",".join(SAMPLERS))
    arguments.add_argument("--functions", default="")
    arguments.add_argument("--seeds", type=int, default=30)
    arguments.add_argument("--page", type=pathlib.Path)
    arguments.add_argument("runs")
    told = arguments.parse_args()
    unknown = [name for name in told.samplers.split(",") if name not in SAMPLERS]
    if unknown:
        arguments.error(f"--samplers: there is no {unknown[0]}; there are {', '.join(SAMPLERS)}")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    ours = {}
    with open(told.runs, encoding="utf-8") as lines:
        for line in lines:
            sampler, function, _, value = line.split()
            ours.setdefault((sampler, function), []).append(float(value))
    print(f"Optuna {optuna.__version__}, both with their defaults; {told.seeds} seeds each; lower is better, of fronts the negative hypervolume")
    good = True
    rows = {}
    for sampler in told.samplers.split(","):
        print(f"{sampler}, {SAMPLERS[sampler][0]} trials")
        by_function, shares = [], {}
        for function in functions_of(sampler, told.functions):
            mine = ours[(sampler, function)]
            theirs = [optuna_run(sampler, function, seed) for seed in range(told.seeds)]
            by_function.append((mine, theirs))
            shares[function] = share_worse(mine, theirs)
            print(f"  {function:12} mean {mean(mine):12.6g}  Optuna {mean(theirs):12.6g}  ends worse {shares[function]:.2f}", flush=True)
        if not by_function:
            continue
        worst = bound(by_function)
        good = good and worst <= BOUND_MOST
        print(f"  {'all':12} ends worse {mean([share_worse(a, b) for a, b in by_function]):.2f}, 95 % bound {worst:.2f} (at most {BOUND_MOST:.2f})")
        if list(shares) == functions_of(sampler, ""):
            rows[sampler] = row_of(sampler, shares, worst, told.seeds)
    if told.page:
        write_rows(told.page, rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
