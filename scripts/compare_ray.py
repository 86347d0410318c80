"""Runs Ray's microbenchmark and volador_bench in turn and prints both, with their ratios, as a table. See bench_peers.sh."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

# What is measured: our figure, its name in Ray's microbenchmark, and how many of ours are one of Ray's (a time is turned into a rate).
ROWS = (
    ("call_sync", "1:1 actor calls sync", "microseconds"),
    ("call_pipelined", "1:1 actor calls async", "rate"),
    ("call_1_to_n", "1:n actor calls async", "rate"),
    ("call_n_to_n", "n:n actor calls async", "rate"),
    ("call_n_to_n_arg", "n:n actor calls with arg async", "rate"),
    ("task_sync", "single client tasks sync", "microseconds"),
    ("task_async", "single client tasks async", "rate"),
    ("put_small", "single client put calls (Plasma Store)", "rate"),
    ("get_small", "single client get calls (Plasma Store)", "rate"),
    ("put_1gb", "single client put gigabytes", "rate"),
    ("placement_group", "placement group create/removal", "rate"),
)
# Measured here of Ray itself, as volador_bench does it of Volador.
OWN = (
    ("start_ready", "s"),
    ("stop_idle", "s"),
    ("idle_memory", "MB"),
    ("actor_spawn_process", "actors/s"),
)
BEGIN, END = "<!-- peers: scripts/bench_peers.sh --write -->", "<!-- /peers -->"

MICROBENCHMARK = """
import sys
from ray._private import ray_perf
def only(timeit):
    return lambda name, *rest, **more: timeit(name, *rest, **more) if name in sys.argv[1:] else [None]
ray_perf.timeit = only(ray_perf.timeit)
ray_perf.client_microbenchmark_main = lambda results: None
ray_perf.main()
"""

SPAWN = """
import time
import ray
ray.init(address="auto", log_to_driver=False, configure_logging=False)
@ray.remote(num_cpus=0)
class Answer:
    def answer(self):
        return 1
ray.get(Answer.remote().answer.remote())
begin, count = time.monotonic(), 96
for _ in range(count // 32):
    actors = [Answer.remote() for _ in range(32)]
    ray.get([actor.answer.remote() for actor in actors])
print("a second", count / (time.monotonic() - begin))
"""


def say(text):
    print(f"bench_peers: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"bench_peers: {' '.join(map(str, command[:4]))} …: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def environment():
    """Ray without its usage reports."""
    return {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1", "PYTHONWARNINGS": "ignore"}


def number_after(text, word):
    return float(re.search(rf"{word} ([\d.e+-]+)", text).group(1))


def pss_mb(pids):
    total = 0
    for pid in pids:
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += int(re.search(r"^Pss:\s+(\d+)", text, re.M).group(1))
    return total / 1000


def ray_processes():
    """Every process whose program lies in this environment, and Ray's own workers."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if sys.prefix in command or command.startswith("ray::"):
            found.append(int(entry.name))
    return found


def ray_cluster(ray):
    """Start, memory, actors and stop of a head node with its dashboard."""
    out = {"start_ready": [], "stop_idle": []}
    for attempt in range(3):
        begin = time.monotonic()
        run([ray, "start", "--head", "--num-cpus=16", "--disable-usage-stats"], env=environment())
        out["start_ready"].append(time.monotonic() - begin)
        if attempt == 0:
            time.sleep(10)
            out["idle_memory"] = [pss_mb(ray_processes())]
            out["actor_spawn_process"] = [number_after(run([sys.executable, "-c", SPAWN], env=environment()), "a second")]
        begin = time.monotonic()
        run([ray, "stop"], env=environment())
        out["stop_idle"].append(time.monotonic() - begin)
    return {name: sorted(values)[len(values) // 2] for name, values in out.items()}


def ray_microbenchmark():
    """By the names of its figures; only those of ROWS, which its own filter cannot say at once, and none of Ray Client's."""
    text = run([sys.executable, "-c", MICROBENCHMARK, *(name for _, name, _ in ROWS)], env=environment())
    return {name: float(rate) for name, rate in re.findall(r"^(.*) per second ([\d.]+) \+-", text, re.M)}


def ours(bench, names):
    text = run([bench, "--json", "--only=" + ",".join(names)])
    return {line["name"]: line for line in map(json.loads, text.splitlines())}


def amount(value):
    if value >= 1_000_000:
        return f"{value / 1e6:.3g} M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times(ratio):
    return f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.2g} ×"


def table(volador, ray_rates, ray_cluster_figures):
    rows = ["| figure | Volador | limit of the same run, ratio | Ray | Volador beside Ray |", "|---|---|---|---|---|"]

    def add(name, unit, theirs, better):
        figure = volador[name]
        limit = f"{amount(figure['baseline'])}, {figure['ratio']:.2f}" if figure.get("baseline") else ""
        rows.append(f"| `{name}` | {amount(figure['value'])} {unit} | {limit} | {amount(theirs)} {unit} | {times(better)} |")

    for name, unit in OWN:
        theirs = ray_cluster_figures[name]
        value = volador[name]["value"]
        add(name, unit, theirs, value / theirs if unit.endswith("/s") else theirs / value)
    for name, of_ray, kind in ROWS:
        if of_ray not in ray_rates:
            say(f"Ray's microbenchmark has no {of_ray!r} any more: left out")
            continue
        rate, value = ray_rates[of_ray], volador[name]["value"]
        if kind == "microseconds":
            add(name, "µs", 1e6 / rate, 1e6 / rate / value)
        else:
            add(name, "GB/s" if "gigabytes" in of_ray else "/s", rate, value / rate)
    return "\n".join(rows)


def machine():
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    memory = int(re.search(r"^MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M).group(1)) / 2**20
    name = re.search(r'^PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text(), re.M)
    return f"{os.cpu_count()} cores ({cpu.group(1) if cpu else platform.machine()}), {memory:.0f} GiB, {name.group(1) if name else platform.system()}"


def replace_part(page, begin, end, text):
    before, found, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        sys.exit(f"{page}: the marks {begin} and {end} are missing; the table was printed only")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--bench", required=True)
    parser.add_argument("--page", required=True)
    options = parser.parse_args()
    ray = str(pathlib.Path(sys.executable).with_name("ray"))
    version = run([ray, "--version"], env=environment()).split()[-1]

    begin_load = os.getloadavg()[0]
    names = [name for name, *_ in OWN] + [name for name, *_ in ROWS]
    say("Volador")
    volador = ours(options.bench, names)
    say(f"Ray {version}: start, memory, actors, stop")
    cluster = ray_cluster(ray)
    say("Ray's microbenchmark")
    rates = ray_microbenchmark()

    today = datetime.date.today().isoformat()
    text = f"Ray {version}, Python {platform.python_version()}; {machine()}; {today}, load {begin_load:.1f} before the run.\n\n"
    text += table(volador, rates, cluster)
    print(text)
    if options.write:
        replace_part(pathlib.Path(options.page), BEGIN, END, text)


if __name__ == "__main__":
    main()
