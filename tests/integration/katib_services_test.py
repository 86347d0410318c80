"""Katib's gRPC API both ways: services in Python serve our client, and our algorithms serve a client in Python.

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where they or grpcio (scripts/setup_grpcio.sh) are not there.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin"))
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import pypi_folder  # noqa: E402

pypi_folder.require("grpcio", "Python's grpcio", BIN / "volador", BIN / "katib_client")
sys.path.insert(1, str(HERE))

import grpc  # noqa: E402
from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: E402

import katib_wire  # noqa: E402

TOY = [sys.executable, str(HERE / "katib_toy_service.py")]


def lives(pid):
    """Whether the process runs: neither gone nor a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_end(pid):
    """Waits for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select
    select.select([descriptor], [], [], 60)
    os.close(descriptor)


class Client:
    """The program katib_client."""

    def __init__(self, suggestions, early_stopping=None, pause_ms=50):
        self.process = subprocess.Popen([BIN / "katib_client", json.dumps(suggestions), json.dumps(early_stopping or {}), str(pause_ms)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()

    def call(self, *words):
        self.process.stdin.write(" ".join(word if isinstance(word, str) else json.dumps(word) for word in words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def experiment(name="digits", algorithm="toy", **settings):
    return {"name": name, "spec": {"algorithm": {"algorithm_name": algorithm, "algorithm_settings": [{"name": key, "value": value} for key, value in settings.items()]},
                                   "objective": {"type": "MINIMIZE", "objective_metric_name": "loss"},
                                   "parameter_specs": {"parameters": [{"name": "x", "parameter_type": "DOUBLE", "feasible_space": {"min": "0", "max": "1"}}]}}}


def request(count=1, trials=0, **of):
    return {"experiment": experiment(**of), "trials": [{"name": f"t{i}"} for i in range(trials)], "current_request_number": count, "total_request_number": trials + count}


def assigned(reply):
    return [{one["name"]: one["value"] for one in made["assignments"]} for made in reply["parameter_assignments"]]


class ExternalServices(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_new_algorithm_needs_only_its_command(self):
        with Client({"toy": {"command": TOY}}) as client:
            self.assertEqual(client.call("validate", "toy", experiment(factor="3")), {})
            reply = client.call("suggest", "toy", request(2, 5, factor="3"))
            self.assertEqual([one["x"] for one in assigned(reply)], ["15", "18"])
            pid = int(assigned(reply)[0]["pid"])
            # Another experiment has another process, the same one the same.
            self.assertEqual(int(assigned(client.call("suggest", "toy", request()))[0]["pid"]), pid)
            other = int(assigned(client.call("suggest", "toy", request(name="letters")))[0]["pid"])
            self.assertNotEqual(other, pid)
            client.call("end", "digits")
            wait_for_end(pid)
            self.assertFalse(lives(pid))
            self.assertTrue(lives(other))
        wait_for_end(other)
        self.assertFalse(lives(other))

    def test_the_services_end_with_a_client_that_is_killed(self):
        with Client({"toy": {"command": TOY}}) as client:
            pid = int(assigned(client.call("suggest", "toy", request()))[0]["pid"])
            client.process.kill()
            wait_for_end(pid)
            self.assertFalse(lives(pid))

    def test_a_service_ends_with_all_that_it_has_started(self):
        with Client({"toy": {"command": [*TOY, f"--child={self.folder}/child"]}}) as client:
            client.call("suggest", "toy", request())
            ended = int((self.folder / "child").read_text())
            self.assertTrue(lives(ended))  # It has a session of its own.
            client.call("end", "digits")
            wait_for_end(ended)
            self.assertFalse(lives(ended))
            # A process that dies, too: the next one has a child of its own.
            client.call("suggest", "toy", request(die=f"{self.folder}/died"))
            self.assertTrue((self.folder / "died").exists())
            living = int((self.folder / "child").read_text())
            self.assertTrue(lives(living))
        wait_for_end(living)
        self.assertFalse(lives(living))

    def test_equal_names_in_two_namespaces_have_processes_of_their_own(self):
        with Client({"toy": {"command": TOY}}) as client:
            first, second = (int(assigned(client.call("suggest", f"toy@{namespace}", request()))[0]["pid"]) for namespace in ("a", "b"))
            self.assertNotEqual(first, second)
            client.call("end", "a/digits")
            wait_for_end(first)
            self.assertEqual((lives(first), lives(second)), (False, True))

    def test_what_a_killed_client_left_behind_ends_with_the_next_start(self):
        os.environ["OWNER"] = str(self.folder)
        self.addCleanup(os.environ.pop, "OWNER")
        with Client({"toy": {"command": [*TOY, f"--child={self.folder}/child"]}}) as client:
            client.call("suggest", "toy", request())
            child = int((self.folder / "child").read_text())
            client.process.kill()
        self.assertTrue(lives(child))  # It has a session of its own.
        with Client({}) as client:
            client.call("validate", "random", experiment(algorithm="random"))
            wait_for_end(child)
            self.assertFalse(lives(child))

    def test_details_of_an_invalid_argument_reach_the_author(self):
        with Client({"toy": {"command": TOY}}) as client:
            self.assertEqual(client.call("validate", "toy", experiment(colour="red")), {"error": "toy has one setting: factor", "code": "kInvalidArgument"})
            self.assertEqual(client.call("suggest", "toy", request(colour="red")), {"error": "toy has one setting: factor", "code": "kInvalidArgument"})

    def test_a_bug_of_a_service_is_an_error_of_the_application(self):
        with Client({"toy": {"command": TOY}}) as client:
            reply = client.call("suggest", "toy", request(fail="1"))
            self.assertEqual(reply["code"], "kApplication")
            self.assertIn("a bug in the toy", reply["error"])

    def test_health_and_validation_may_be_missing(self):
        with Client({"toy": {"command": [*TOY, "--no-health", "--no-validation"]}}) as client:
            self.assertEqual(client.call("validate", "toy", experiment(colour="red")), {})
            self.assertEqual(len(assigned(client.call("suggest", "toy", request(2)))), 2)

    def test_calls_wait_until_the_service_is_healthy(self):
        with Client({"toy": {"command": [*TOY, f"--slow={self.folder}/ready"]}}) as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
            reply = pool.submit(client.call, "suggest", "toy", request())
            (self.folder / "ready").touch()
            self.assertEqual(len(assigned(reply.result(60))), 1)

    def test_a_process_that_dies_is_started_again_and_the_call_repeated(self):
        with Client({"toy": {"command": TOY}}) as client:
            self.assertEqual(len(assigned(client.call("suggest", "toy", request(die=f"{self.folder}/died")))), 1)
            self.assertTrue((self.folder / "died").exists())

    def test_a_command_that_fails_is_named_with_its_last_line(self):
        with Client({"toy": {"command": ["bash", "-c", "echo no such library >&2; exit 3"]}, "none": {"command": ["no-such-program"]}}, pause_ms=1) as client:
            reply = client.call("suggest", "toy", request())
            self.assertEqual(reply["code"], "kUnavailable")
            self.assertIn('suggestion service "toy": the process ended with exit code 3: no such library (10 attempts)', reply["error"])
            self.assertIn("no-such-program is not in PATH", client.call("suggest", "none", request())["error"])

    def test_a_service_at_an_address(self):
        with Client({"toy": {"address": "127.0.0.1:1"}}, pause_ms=1) as client:
            self.assertEqual(client.call("suggest", "toy", request())["code"], "kUnavailable")
        server = subprocess.Popen([BIN / "volador", "katib", "serve-suggestions", "--port=0"], stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().split()[-1]
            with Client({"random": {"address": address}, "renamed": {"address": address}}) as client:
                self.assertEqual(len(assigned(client.call("suggest", "random", request(3, algorithm="random")))), 3)
                self.assertIn("expected an integer from 0", client.call("validate", "random", experiment(algorithm="random", random_state="-1"))["error"])
        finally:
            server.terminate()
            server.wait(60)
            server.stdout.close()

    def test_algorithms_of_ours_and_unknown_ones(self):
        with Client({"toy": {"command": TOY}}) as client:
            self.assertEqual(len(assigned(client.call("suggest", "tpe", request(2, algorithm="tpe")))), 2)
            self.assertIn("did you mean toy?", client.call("suggest", "toi", request())["error"])
            self.assertIn("register its service under this name in the setting katib.suggestions", client.call("validate", "enas", experiment())["error"])

    def test_early_stopping(self):
        stopping = {"algorithm_name": "external", "algorithm_settings": []}
        with Client({}, {"external": {"command": [*TOY, "--stopping"]}}) as client:
            asked = {"experiment": experiment(), "db_manager_address": "127.0.0.1:7"}
            asked["experiment"]["spec"]["early_stopping"] = stopping
            self.assertEqual(client.call("rules", asked)["early_stopping_rules"], [{"name": "loss", "value": "127.0.0.1:7", "comparison": "LESS", "start_step": 1}])
            self.assertEqual(client.call("check", stopping), {})
            self.assertEqual(client.call("check", {"algorithm_name": "medianstop", "algorithm_settings": [{"name": "start_step", "value": "0"}]})["error"],
                             "start_step must be greater or equal than one (>=1)")

    def test_wrong_settings_are_refused(self):
        for setting, says in (('{toy: {}}', "toy: expected either command or address"), ('{toy: {command: python3}}', "command: expected a list"),
                              ('{toy: {address: here}}', 'address: expected host:port, got "here"'), ('{toy: {image: x}}', "image: expected command or address"),
                              ("/no/such/file", "cannot read /no/such/file"), ("{toy: [", "not valid YAML")):
            ended = subprocess.run([BIN / "katib_client", setting, "{}", "1"], capture_output=True, text=True, check=False, input="")
            self.assertEqual(ended.returncode, 1, setting)
            self.assertIn(says, ended.stderr)


class ServedAlgorithms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen([BIN / "volador", "katib", "serve-suggestions", "--port=0"], stdout=subprocess.PIPE, text=True)
        cls.address = cls.server.stdout.readline().split()[-1]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        assert cls.server.wait(60) == 0
        cls.server.stdout.close()

    def setUp(self):
        self.channel = grpc.insecure_channel(self.address)
        self.addCleanup(self.channel.close)
        self.suggestion = katib_wire.Stub(self.channel, "Suggestion")

    def experiment(self, algorithm, **settings):
        made = katib_wire.message("Experiment")(name="digits")
        made.spec.algorithm.algorithm_name = algorithm
        for name, value in settings.items():
            made.spec.algorithm.algorithm_settings.add(name=name, value=value)
        made.spec.objective.type = 1
        made.spec.objective.objective_metric_name = "loss"
        for name in ("x", "y"):
            parameter = made.spec.parameter_specs.parameters.add(name=name, parameter_type=1)
            parameter.feasible_space.min, parameter.feasible_space.max, parameter.feasible_space.step = "0", "0.3", "0.1"
        return made

    def test_health(self):
        stub = health_pb2_grpc.HealthStub(self.channel)
        for name in ("manager.v1beta1.Suggestion", "manager.v1beta1.EarlyStopping", ""):
            self.assertEqual(stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=20).status, health_pb2.HealthCheckResponse.SERVING)

    def test_every_algorithm_answers(self):
        asked = katib_wire.message("GetSuggestionsRequest")
        for algorithm in ("random", "grid", "tpe", "multivariate-tpe", "bayesianoptimization", "cmaes", "sobol", "pbt"):
            made = self.experiment(algorithm)
            self.suggestion.ValidateAlgorithmSettings(katib_wire.message("ValidateAlgorithmSettingsRequest")(experiment=made), timeout=20)
            reply = self.suggestion.GetSuggestions(asked(experiment=made, current_request_number=3, total_request_number=3), timeout=60)
            self.assertEqual(len(reply.parameter_assignments), 3, algorithm)
            for one in reply.parameter_assignments:
                for assignment in one.assignments:
                    self.assertIn(assignment.value, ("0", "0.1", "0.2", "0.3"))

    def test_invalid_settings_are_invalid_arguments(self):
        for made, says in ((self.experiment("tpe", gamma="2"), "setting gamma of algorithm tpe: expected a number in (0, 1), got \"2\""),
                           (self.experiment("tpee"), "did you mean tpe?"), (self.experiment("hyperband"), "r_l and resource_name must be set.")):
            with self.assertRaises(grpc.RpcError) as raised:
                self.suggestion.ValidateAlgorithmSettings(katib_wire.message("ValidateAlgorithmSettingsRequest")(experiment=made), timeout=20)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(says, raised.exception.details())

    def test_medianstop_reads_the_metric_store_of_the_request(self):
        logs = {"a": ["0.2"], "b": ["0.8"], "c": ["0.9"]}

        class Store:
            def GetObservationLog(self, request, _):
                reply = katib_wire.message("GetObservationLogReply")()
                for value in logs[request.trial_name]:
                    one = reply.observation_log.metric_logs.add(time_stamp="2026-01-01T00:00:00Z")
                    one.metric.name, one.metric.value = request.metric_name, value
                return reply

        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        katib_wire.serve(server, "DBManager", Store())
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, 0)
        stub = katib_wire.Stub(self.channel, "EarlyStopping")
        for settings, limit in (({}, 0.8), ({"compatibility": "katib"}, 0.6333)):
            made = self.experiment("random")
            made.spec.early_stopping.algorithm_name = "medianstop"
            for name, value in {"start_step": "1", **settings}.items():
                made.spec.early_stopping.algorithm_settings.add(name=name, value=value)
            asked = katib_wire.message("GetEarlyStoppingRulesRequest")(experiment=made, db_manager_address=f"127.0.0.1:{port}")
            for name in logs:
                asked.trials.add(name=name).status.condition = 2
            (rule,) = stub.GetEarlyStoppingRules(asked, timeout=20).early_stopping_rules
            self.assertAlmostEqual(float(rule.value), limit, places=4)
            self.assertEqual((rule.name, rule.comparison, rule.start_step), ("loss", 3, 1))
        spec = katib_wire.message("ValidateEarlyStoppingSettingsRequest")()
        spec.early_stopping.algorithm_name = "medianstop"
        spec.early_stopping.algorithm_settings.add(name="min_trials_required", value="0")
        with self.assertRaises(grpc.RpcError) as raised:
            stub.ValidateEarlyStoppingSettings(spec, timeout=20)
        self.assertEqual((raised.exception.code(), raised.exception.details()),
                         (grpc.StatusCode.INVALID_ARGUMENT, "min_trials_required must be greater than zero (>0)"))


if __name__ == "__main__":
    unittest.main()
