"""Figures of Katib's gRPC services: python3 tests/bench/katib_service_figures.py [suggestion|store]

  suggestion   round trip of a suggestion to an external service in Python: through the head's client, and as grpcio sees it
  store        points a second into the metric store at the head's port, beside the same messages to a bare gRPC server that drops them

Environment: VOLADOR_BIN, the folder of the programs. Needs grpcio (scripts/setup_grpcio.sh).
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin"))
sys.path.insert(0, str(ROOT / "tests"))
import pypi_folder  # noqa: E402

pypi_folder.require("grpcio", "Python's grpcio", BIN / "katib_client")
sys.path.insert(1, str(ROOT / "tests/integration"))
import grpc  # noqa: E402

import katib_wire  # noqa: E402
from katib_store_test import Store, experiment  # noqa: E402
from experiment_server_test import Cluster  # noqa: E402

COUNT = 500
POINTS, AT_ONCE = 1000, 8  # Points of a report, and reports at once.
REPORTS, SINGLE_REPORTS = 500, 3000
TOY = [sys.executable, str(ROOT / "tests/integration/katib_toy_service.py")]


def suggestion():
    request = json.dumps({"experiment": {"name": "figures"}, "current_request_number": 1})
    client = subprocess.run([BIN / "katib_client", json.dumps({"toy": {"command": TOY}}), "{}", "100"], check=True, capture_output=True, text=True,
                            input=f"suggest toy {request}\ntime {COUNT} toy {request}\n")
    ours = json.loads(client.stdout.splitlines()[1])
    port = 47811
    service = subprocess.Popen(TOY, env={**os.environ, "PORT": str(port)}, stdout=subprocess.PIPE, text=True)
    try:
        service.stdout.readline()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = katib_wire.Stub(channel, "Suggestion")
            asked = katib_wire.message("GetSuggestionsRequest")(current_request_number=1)
            stub.GetSuggestions(asked, timeout=20, wait_for_ready=True)
            theirs = []
            for _ in range(COUNT):
                began = time.perf_counter()
                stub.GetSuggestions(asked, timeout=20)
                theirs.append((time.perf_counter() - began) * 1e3)
    finally:
        service.kill()
        service.wait()
    for name, times in (("the head's client", ours), ("grpcio's client", theirs)):
        times = sorted(times)
        print(f"{name}: median {statistics.median(times):.2f} ms, 95 % {times[int(0.95 * COUNT)]:.2f} ms")


def report(trial, first, count):
    request = katib_wire.message("ReportObservationLogRequest")(trial_name=trial)
    for i in range(count):
        seconds = first + i
        stamp = f"2026-01-01T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{seconds % 1000:03}Z"
        log = request.observation_log.metric_logs.add(time_stamp=stamp)
        log.metric.name, log.metric.value = "Validation-accuracy", f"{0.5 + seconds % 1000 / 3000:.6f}"
    return request.SerializeToString()


def send(channel, requests):
    """Seconds for all of them, AT_ONCE at a time."""
    call = channel.unary_unary("/api.v1.beta1.DBManager/ReportObservationLog")
    began = time.perf_counter()
    running = []
    for request in requests:
        if len(running) == AT_ONCE:
            running.pop(0).result()
        running.append(call.future(request, timeout=60, wait_for_ready=True))
    for one in running:
        one.result()
    return time.perf_counter() - began


def store():
    cluster = Cluster()
    bare = subprocess.Popen([BIN / "katib_client", "drop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        cluster.post("/resources", {"yaml": experiment("figures", "sleep 600", parallel=1, most=1)}, version="/api/v1/katib")
        rows = []
        while not rows or not rows[0]["trial"]:
            rows = cluster.get("/resources?kind=Trial", version="/api/v1/katib")["rows"]
        trial = rows[0]["name"]
        head = Store(cluster)
        with grpc.insecure_channel(f"127.0.0.1:{int(bare.stdout.readline())}") as dropping:
            for reports, points in ((REPORTS, POINTS), (SINGLE_REPORTS, 1)):
                requests = [report(trial, i * points, points) for i in range(reports)]
                for name, channel in (("a server that drops them", dropping), ("the head", head.channel), ("the head again", head.channel)):
                    seconds = send(channel, requests)
                    print(f"{reports} reports of {points} points to {name}: {reports * points / seconds:,.0f} points/s, {reports / seconds:,.0f} reports/s")
        began = time.perf_counter()
        logs = head.calls.GetObservationLog(katib_wire.message("GetObservationLogRequest")(trial_name=trial, start_time="2026-01-01T23:00:00Z"), timeout=60)
        print(f"{len(logs.observation_log.metric_logs)} of them read by time: {time.perf_counter() - began:.3f} s")
        head.close()
    finally:
        bare.stdin.close()
        bare.wait(60)
        cluster.close()


def main():
    for name, function in (("suggestion", suggestion), ("store", store)):
        if not sys.argv[1:] or name in sys.argv[1:]:
            function()


main()
