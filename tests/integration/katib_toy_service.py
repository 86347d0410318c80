"""A suggestion service in the form of Katib's: x is the number of trials so far, times the setting `factor`. Listens on 127.0.0.1:PORT.

Options: --no-health serves no health checks, --no-validation has no ValidateAlgorithmSettings, --stopping serves EarlyStopping as well,
--deaf starts but never listens, --child=FILE starts a process with a session of its own and writes its pid, --slow=FILE does not become healthy before the file exists.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import pypi_folder  # noqa: E402

pypi_folder.find("grpcio")
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent))

import grpc  # noqa: E402
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # noqa: E402

import katib_wire  # noqa: E402


class Toy:
    def factor(self, experiment, context):
        settings = {one.name: one.value for one in experiment.spec.algorithm.algorithm_settings}
        if set(settings) - {"factor", "die", "fail"}:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "toy has one setting: factor")
        if "die" in settings and not os.path.exists(settings["die"]):
            pathlib.Path(settings["die"]).touch()
            os._exit(7)
        if "fail" in settings:
            raise ValueError("a bug in the toy")
        return int(settings.get("factor", 1))

    def GetSuggestions(self, request, context):
        factor = self.factor(request.experiment, context)
        reply = katib_wire.message("GetSuggestionsReply")()
        for i in range(request.current_request_number):
            made = reply.parameter_assignments.add()
            made.assignments.add(name="x", value=str(factor * (len(request.trials) + i)))
            made.assignments.add(name="pid", value=str(os.getpid()))
        return reply


class Validating(Toy):
    def ValidateAlgorithmSettings(self, request, context):
        self.factor(request.experiment, context)
        return katib_wire.message("ValidateAlgorithmSettingsReply")()


class Stopping:
    def GetEarlyStoppingRules(self, request, context):
        reply = katib_wire.message("GetEarlyStoppingRulesReply")()
        reply.early_stopping_rules.add(name="loss", value=request.db_manager_address or "none", comparison=2, start_step=1)
        return reply


def main():
    for one in sys.argv:
        if one.startswith("--child="):
            child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            pathlib.Path(one.partition("=")[2]).write_text(str(child.pid))
    if "--deaf" in sys.argv:
        threading.Event().wait()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    katib_wire.serve(server, "Suggestion", Toy() if "--no-validation" in sys.argv else Validating())
    if "--stopping" in sys.argv:
        katib_wire.serve(server, "EarlyStopping", Stopping())
    if "--no-health" not in sys.argv:
        checked = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(checked, server)
        slow = [one.partition("=")[2] for one in sys.argv if one.startswith("--slow=")]
        for name in ("manager.v1beta1.Suggestion", "manager.v1beta1.EarlyStopping"):
            checked.set(name, health_pb2.HealthCheckResponse.NOT_SERVING if slow else health_pb2.HealthCheckResponse.SERVING)

        def become_healthy():
            while not os.path.exists(slow[0]):
                time.sleep(0.02)
            checked.set("manager.v1beta1.Suggestion", health_pb2.HealthCheckResponse.SERVING)

        if slow:
            threading.Thread(target=become_healthy, daemon=True).start()
    server.add_insecure_port(f"127.0.0.1:{os.environ['PORT']}")
    server.start()
    print("listens", flush=True)
    server.wait_for_termination()


main()
