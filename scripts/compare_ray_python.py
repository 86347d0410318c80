"""Measures Ray and Volador from Python, in turns on this machine: the figures py_* of docs/benchmarks.md.

compare_ray_python.py [--volador=FOLDER] [--rounds=N] [--only=NAME,…] [--write --page=docs/benchmarks.md]

Run by the interpreter of an environment that has Ray, numpy and cloudpickle. --volador: the folder that holds the
package (default build/python). Each round starts each system in a process of its own; the table has the medians.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- python peers -->", "<!-- /python peers -->"

# name: (unit, whether more is better, what).
FIGURES = {
    "py_import": ("s", False, "import of the package in a new interpreter"),
    "py_init_local": ("s", False, "init() of a private cluster to the first result of a task"),
    "py_call_sync": ("µs", False, "call of an actor's method, one at a time"),
    "py_call_pipelined": ("/s", True, "calls of one actor, 1,000 under way"),
    "py_call_async_actor": ("/s", True, "calls of an actor with coroutines, 1,000 under way"),
    "py_task_async": ("/s", True, "tasks, 1,000 under way"),
    "py_put_small": ("/s", True, "put() of a small value"),
    "py_get_small": ("/s", True, "get() of a small value"),
    "py_put_numpy": ("GB/s", True, "put() of a numpy array of 256 MB"),
    "py_get_numpy": ("µs", False, "get() of that array"),
    "py_actor_spawn": ("/s", True, "actors spawned until their first answer, 20 at once"),
    "py_tune_reports": ("/s", True, "results of 4 trials of 500 reports each, on all processors, with JSON and CSV files"),
    "py_tune_trials": ("s", False, "48 trials of 0.1 s, each alone on a processor"),
}


def per_second(function, seconds=1.0):
    """Calls of function() a second; it returns how many things it did."""
    function()
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        done += function()
    return done / (time.perf_counter() - begin)


def measure(system, only):
    figures = {}
    begin = time.perf_counter()
    if system == "ray":
        import ray
    else:
        import volador.compat.ray as ray
    figures["py_import"] = time.perf_counter() - begin
    import numpy

    begin = time.perf_counter()
    if system == "ray":
        ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=2 << 30)
    else:
        ray.init("local", num_cpus=os.cpu_count(), object_store_memory=2 << 30)

    @ray.remote
    def nothing():
        return None

    ray.get(nothing.remote())
    figures["py_init_local"] = time.perf_counter() - begin

    @ray.remote
    class Plain:
        def nothing(self):
            return None

    @ray.remote
    class Async:
        async def nothing(self):
            return None

    def wanted(name):
        return not only or name in only

    actor = Plain.remote()
    ray.get(actor.nothing.remote())

    def many(method, count=1000):
        def run():
            ray.get([method.remote() for _ in range(count)])
            return count

        return run

    def one():
        ray.get(actor.nothing.remote())
        return 1

    if wanted("py_call_sync"):
        figures["py_call_sync"] = 1e6 / per_second(one)
    if wanted("py_call_pipelined"):
        figures["py_call_pipelined"] = per_second(many(actor.nothing), 2.0)
    if wanted("py_call_async_actor"):
        coroutines = Async.remote()
        ray.get(coroutines.nothing.remote())
        figures["py_call_async_actor"] = per_second(many(coroutines.nothing), 2.0)
        ray.kill(coroutines)
    ray.kill(actor)
    if wanted("py_task_async"):
        figures["py_task_async"] = per_second(many(nothing), 2.0)
    small = {"a": 1, "b": [1, 2, 3]}
    if wanted("py_put_small"):
        figures["py_put_small"] = per_second(lambda: len([ray.put(small) for _ in range(100)]))
    if wanted("py_get_small"):
        refs = [ray.put(small) for _ in range(100)]
        figures["py_get_small"] = per_second(lambda: len([ray.get(ref) for ref in refs]))
    if wanted("py_put_numpy"):
        array = numpy.ones(32 << 20)

        def put():
            ray.put(array)
            return 1

        figures["py_put_numpy"] = per_second(put, 2.0) * array.nbytes / 1e9
        target = numpy.empty_like(array)

        def copy():
            target[:] = array
            return 1

        figures["memcpy"] = per_second(copy, 1.0) * array.nbytes / 1e9
        big = ray.put(array)

        def get():
            ray.get(big)
            return 1

        figures["py_get_numpy"] = 1e6 / per_second(get)
    if wanted("py_actor_spawn"):
        count = 20 if system != "ray" else 6

        def spawn():
            actors = [Plain.options(num_cpus=0).remote() for _ in range(count)]
            ray.get([each.nothing.remote() for each in actors])
            for each in actors:
                ray.kill(each)
            return count

        figures["py_actor_spawn"] = per_second(spawn, 2.0)
    if wanted("py_tune_reports"):
        figures.update(measure_tune(system))
    ray.shutdown()
    return figures


def measure_tune(system):
    import tempfile

    def reports(config):
        for step in range(500):
            tune.report({"score": float(step)})

    def sleeps(config):
        time.sleep(0.1)
        tune.report({"score": 1.0})

    with tempfile.TemporaryDirectory() as folder:
        if system == "ray":
            from ray import tune

            def run(function, samples):
                tuner = tune.Tuner(
                    function,
                    param_space={"x": tune.uniform(0, 1)},
                    tune_config=tune.TuneConfig(num_samples=samples, metric="score", mode="max"),
                    run_config=tune.RunConfig(storage_path=folder, verbose=0),
                )
                return len(tuner.fit())
        else:
            from volador import tune

            def run(function, samples):
                return len(tune.run(function, space={"x": tune.uniform(0, 1)}, metric="score", num_samples=samples, storage_path=folder, progress="silent").trials)

        run(sleeps, 2)
        begin = time.perf_counter()
        assert run(reports, 4) == 4
        seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        assert run(sleeps, 48) == 48
        return {"py_tune_reports": 4 * 500 / seconds, "py_tune_trials": time.perf_counter() - begin}


def show(value, unit):
    if unit == "s":
        return f"{value:.2f} s"
    if unit == "/s":
        return f"{value:,.0f}/s"
    if unit == "GB/s":
        return f"{value:.1f} GB/s"
    return f"{value:,.0f} {unit}"


def table(rounds):
    lines = ["| figure | what | Volador | Ray 2.60 | ratio |", "|---|---|---:|---:|---:|"]
    for name, (unit, more, what) in FIGURES.items():
        values = {system: [each[name] for each in rounds[system] if name in each] for system in rounds}
        if not all(values.values()):
            continue
        ours, theirs = statistics.median(values["volador"]), statistics.median(values["ray"])
        ratio = ours / theirs if more else theirs / ours
        lines.append(f"| `{name}` | {what} | {show(ours, unit)} | {show(theirs, unit)} | {ratio:.1f} × |")
    copies = [each["memcpy"] for system in rounds for each in rounds[system] if "memcpy" in each]
    if copies:
        ours = statistics.median(each["py_put_numpy"] for each in rounds["volador"])
        lines += ["", f"A copy of the array by numpy runs at {statistics.median(copies):.1f} GB/s: `py_put_numpy` is {ours / statistics.median(copies):.2f} of it."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--volador", default=str(ROOT / "build" / "python"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--page")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure", choices=["ray", "volador"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    if options.measure:
        print("figures " + json.dumps(measure(options.measure, only)))
        return 0
    rounds = {"volador": [], "ray": []}
    for _ in range(options.rounds):
        for system in rounds:
            environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}
            if system == "volador":
                environment["PYTHONPATH"] = options.volador
            done = subprocess.run(
                [sys.executable, __file__, f"--measure={system}", f"--only={options.only}"], env=environment, capture_output=True, text=True, timeout=600
            )
            found = [line for line in done.stdout.splitlines() if line.startswith("figures ")]
            if not found:
                print(done.stdout, done.stderr, file=sys.stderr)
                return 1
            rounds[system].append(json.loads(found[0].partition(" ")[2]))
    text = table(rounds)
    print(text)
    if options.write:
        page = pathlib.Path(options.page)
        before, _, rest = page.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    return 0


sys.exit(main())
