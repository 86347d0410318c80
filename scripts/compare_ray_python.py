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
    "py_train_first_step": ("s", False, "start of a program to the first step of two workers with PyTorch"),
    "py_train_second_run": ("s", False, "fit() of the same program again to its first step"),
    "py_train_report": ("µs", False, "report() of metrics in training"),
}
TRAIN = {name for name in FIGURES if name.startswith("py_train_")}


def per_second(function, seconds=1.0):
    """Calls of function() a second; it returns how many things it did."""
    function()
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        done += function()
    return done / (time.perf_counter() - begin)


def measure(system, only):
    if only and only <= TRAIN:
        return measure_train(system)
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


def measure_train(system):
    """In a process of its own: what it imports and starts is part of the figure."""
    import tempfile

    begin = time.time()
    if system == "ray":
        import ray
        import ray.train
        import ray.train.torch as ray_torch

        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    else:
        import volador
        import volador.compat.ray.train
        import volador.compat.ray.train.torch as ray_torch

        ray = volador.compat.ray
        ray.init(num_cpus=4)

    def loop(config):
        import torch

        if config["system"] == "ray":
            from ray import train
            from ray.train.torch import prepare_model
        else:
            from volador.compat.ray import train
            from volador.compat.ray.train.torch import prepare_model
        model = prepare_model(torch.nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        stepped = time.time()
        train.report({"step": 0})
        reports = []
        for step in range(20):
            began = time.perf_counter()
            train.report({"step": step})
            reports.append(time.perf_counter() - began)
        if train.get_context().get_world_rank() == 0:
            with open(config["file"], "w") as file:
                json.dump([stepped, statistics.median(reports) * 1e6], file)

    with tempfile.TemporaryDirectory() as folder:

        def run():
            file = os.path.join(folder, "times")
            ray_torch.TorchTrainer(
                loop,
                train_loop_config={"file": file, "system": system},
                scaling_config=ray.train.ScalingConfig(num_workers=2),
                run_config=ray.train.RunConfig(storage_path=folder),
            ).fit()
            with open(file) as written:
                return json.load(written)

        first, report = run()
        again = time.time()
        second, _ = run()
    ray.shutdown()
    return {"py_train_first_step": first - begin, "py_train_second_run": second - again, "py_train_report": report}


def environment_of(system, volador_folder):
    """With PyTorch where scripts/setup_pytorch.sh has made it one that can be imported."""
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}
    paths = [volador_folder] if system == "volador" else []
    made = subprocess.run([ROOT / "scripts/setup_pytorch.sh", "--folder"], capture_output=True, text=True).stdout.strip()
    torch = sorted(pathlib.Path(made).parent.glob("torch-*/torch")) if made else []
    if torch:
        paths += [made, str(torch[-1].parent)]
        environment["LD_LIBRARY_PATH"] = os.path.join(made, "stubs")
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)}


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
    parts = [part for part in ((only or set(FIGURES)) - TRAIN, (only or TRAIN) & TRAIN) if part]  # Training: a process of its own.
    for _ in range(options.rounds):
        for system in rounds:
            rounds[system].append({})
            for part in parts:
                done = subprocess.run(
                    [sys.executable, __file__, f"--measure={system}", f"--only={','.join(part)}"],
                    env=environment_of(system, options.volador), capture_output=True, text=True, timeout=600,
                )
                found = [line for line in done.stdout.splitlines() if line.startswith("figures ")]
                if not found:
                    print(done.stdout, done.stderr, file=sys.stderr)
                    return 1
                rounds[system][-1].update(json.loads(found[0].partition(" ")[2]))
    text = table(rounds)
    print(text)
    if options.write:
        page = pathlib.Path(options.page)
        before, _, rest = page.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    return 0


sys.exit(main())
