"""Runs Optuna, Ray Tune and volador_bench in turn and prints them, with their ratios, as a table. See bench_tune_peers.sh."""

import argparse
import datetime
import importlib.metadata
import os
import pathlib
import platform
import random
import statistics
import sys
import time

import compare_ray as peers

BEGIN, END = "<!-- tune peers: scripts/bench_tune_peers.sh --write -->", "<!-- /tune peers -->"

# ---- Optuna: as tests/bench/search_figures.cc does it.

DIMENSIONS, TOLD, PAIRS = 10, 1_000, 50
# Our figure and how many times faster it is to be.
ASKS = (("tpe_ask", 20), ("cmaes_ask", 10), ("gp_ask", 10))


def bowl(point):
    return sum((x - 0.3) ** 2 for x in point.values())


def optuna_ask_ms(name):
    """Mean milliseconds of an ask, its draws and a tell, from trial 1,000 on.

    The trials before are at random points; of CMA-ES, whose state comes of its own trials only, its own."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {"tpe_ask": optuna.samplers.TPESampler, "cmaes_ask": optuna.samplers.CmaEsSampler, "gp_ask": optuna.samplers.GPSampler}
    study = optuna.create_study(sampler=samplers[name](seed=0))
    draw = random.Random(0)
    space = {f"x{i}": optuna.distributions.FloatDistribution(0, 1) for i in range(DIMENSIONS)}

    def pair():
        trial = study.ask()
        study.tell(trial, bowl({key: trial.suggest_float(key, 0, 1) for key in space}))

    for _ in range(TOLD):
        if name == "cmaes_ask":
            pair()
            continue
        point = {key: draw.random() for key in space}
        study.add_trial(optuna.trial.create_trial(params=point, distributions=space, value=bowl(point)))
    begin = time.perf_counter()
    for _ in range(PAIRS):
        pair()
    return 1e3 * (time.perf_counter() - begin) / PAIRS


# ---- Rustuna, the same sampler in Rust; its parameters are drawn together, too.

RUSTUNA_ASKS, RUSTUNA_AIM = (("tpe_ask", 10), ("tpe_ask_40", 40)), 2


def rustuna_ask_ms(dimensions, seed):
    """As optuna_ask_ms, of TPE."""
    import rustuna

    study = rustuna.create_study(sampler=rustuna.samplers.TPESampler(seed=seed))
    draw = random.Random(seed)
    space = {f"x{i}": rustuna.distributions.FloatDistribution(0, 1) for i in range(dimensions)}

    def pair():
        trial = study.ask()
        study.tell(trial.number, bowl({key: trial.suggest_float(key, 0, 1) for key in space}))

    for _ in range(TOLD):
        point = {key: draw.random() for key in space}
        study.add_trial(rustuna.create_trial(params=point, distributions=space, value=bowl(point)))
    begin = time.perf_counter()
    for _ in range(PAIRS):
        pair()
    return 1e3 * (time.perf_counter() - begin) / PAIRS


# ---- Ray Tune, on 16 logical CPUs, with its loggers for JSON, CSV and TensorBoard. In a process of its own.

TRIALS = """
import sys, tempfile, time
import ray
from ray import tune
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback
ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False, configure_logging=False)
trials, seconds, steps = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
def run(config):
    for step in range(steps):
        if seconds > 0:
            time.sleep(seconds)
        tune.report({"score": config["x"] + step})
with tempfile.TemporaryDirectory() as storage:
    begin = time.monotonic()
    results = tune.Tuner(run, param_space={"x": tune.uniform(0, 1)},
                         tune_config=tune.TuneConfig(num_samples=trials, metric="score", mode="max"),
                         run_config=tune.RunConfig(verbose=0, storage_path=storage,
                                                   callbacks=[JsonLoggerCallback(), CSVLoggerCallback(), TBXLoggerCallback()])).fit()
    assert results.num_errors == 0
    print("seconds", time.monotonic() - begin)
"""


def ray_seconds(trials, seconds, steps):
    environment = {**peers.environment(), "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1"}
    return peers.number_after(peers.run([sys.executable, "-c", TRIALS, str(trials), str(seconds), str(steps)], env=environment), "seconds")


def compare_asks(bench, rows):
    for name, aim in ASKS:
        peers.say(f"{name}: Volador")
        ours = peers.ours(bench, [name])[name]["value"]
        peers.say(f"{name}: Optuna")
        theirs = optuna_ask_ms(name)
        rows.append(f"| `{name}` | {ours:.3g} ms | Optuna | {theirs:.3g} ms | {peers.times(theirs / ours)} | {aim} × |")


def compare_asks_with_rustuna(bench, rows):
    """The medians of five runs each, in turn."""
    for name, dimensions in RUSTUNA_ASKS:
        ours, theirs = [], []
        for seed in range(5):
            peers.say(f"{name}: Volador, Rustuna")
            ours.append(peers.ours(bench, [name])[name]["value"])
            theirs.append(rustuna_ask_ms(dimensions, seed))
        mine, its = statistics.median(ours), statistics.median(theirs)
        rows.append(f"| `{name}` | {mine:.3g} ms | Rustuna | {its:.3g} ms | {peers.times(its / mine)} | {RUSTUNA_AIM} × |")


def compare_trials(bench, rows):
    peers.say("640 trials of one second: Volador")
    ours = peers.ours(bench, ["tune_overhead_16"])["tune_overhead_16"]
    peers.say("640 trials of one second: Ray Tune")
    theirs = ray_seconds(640, 1, 1)
    beside = f"{ours['value'] / ours['baseline']:.3f} beside {theirs / ours['baseline']:.2f} × the floor of 40 s"
    rows.append(f"| `tune_overhead_16` | {ours['value']:.1f} s | Ray Tune | {theirs:.1f} s | {beside} | 1.01 × the floor |")
    peers.say("reports: Volador")
    rate = peers.ours(bench, ["tune_reports_all_loggers"])["tune_reports_all_loggers"]["value"]
    peers.say("reports: Ray Tune")
    # Starting its actors takes seconds: the difference of two runs leaves them out.
    few, many = ray_seconds(16, 0, 10), ray_seconds(16, 0, 1_010)
    theirs = 16 * 1_000 / (many - few)
    rows.append(f"| `tune_reports_all_loggers` | {rate:,.0f}/s | Ray Tune | {theirs:,.0f}/s | {peers.times(rate / theirs)} | 10,000/s |")


def versions(parts):
    names = []
    if "asks" in parts:
        import optuna

        names += [f"Optuna {optuna.__version__}", f"Rustuna {importlib.metadata.version('rustuna')}"]
    if "trials" in parts:
        import ray

        names.append(f"Ray Tune {ray.__version__}")
    return ", ".join(names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", default="asks,trials")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--bench", required=True)
    parser.add_argument("--page", required=True)
    options = parser.parse_args()
    parts = options.parts.split(",")
    begin_load = os.getloadavg()[0]
    rows = ["| figure | Volador | beside | its figure | ratio | aim |", "|---|---|---|---|---|---|"]
    if "asks" in parts:
        compare_asks(options.bench, rows)
        compare_asks_with_rustuna(options.bench, rows)
    if "trials" in parts:
        compare_trials(options.bench, rows)
    today = datetime.date.today().isoformat()
    text = f"{versions(parts)}, Python {platform.python_version()}; {peers.machine()}; {today}, load {begin_load:.1f} before the run.\n\n"
    text += "\n".join(rows)
    print(text)
    if options.write:
        peers.replace_part(pathlib.Path(options.page), BEGIN, END, text)


if __name__ == "__main__":
    main()
