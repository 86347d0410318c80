"""The head's gRPC API to a foreign client, Python's grpcio, which knows no .proto of ours: health, reflection, watches.

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary or grpcio (scripts/setup_grpcio.sh) is not there.
"""

import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import pypi_folder  # noqa: E402
import set_up  # noqa: E402

pypi_folder.require("grpcio", "Python's grpcio", BIN / "volador")

import grpc  # noqa: E402
from google.protobuf import descriptor_pool, message_factory  # noqa: E402
from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: E402
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase  # noqa: E402


class Foreign(set_up.Cluster):
    options = ("--name=petrel",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (authority,) = pathlib.Path(cls.home).glob("**/head/authority.pem")
        cls.roots = authority.read_bytes()

    def channel(self, role=None):
        tls = grpc.ssl_channel_credentials(root_certificates=self.roots)
        if role:
            tls = grpc.composite_channel_credentials(tls, grpc.access_token_call_credentials(self.tokens[role]))
        made = grpc.secure_channel(self.address, tls)
        self.addCleanup(made.close)
        return made

    def refused(self, call):
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        return raised.exception.code()

    def methods(self, role, of="volador.v1.Cluster"):
        """The calls of a service, made of what the server says of itself."""
        channel = self.channel(role)
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = descriptor_pool.DescriptorPool(database)
        service = pool.FindServiceByName(of)

        def call(name, /, **fields):
            method = service.FindMethodByName(name)
            asked = message_factory.GetMessageClass(method.input_type)(**fields)
            make = channel.unary_stream if method.server_streaming else channel.unary_unary
            return make(f"/{service.full_name}/{name}", request_serializer=lambda one: one.SerializeToString(),
                        response_deserializer=message_factory.GetMessageClass(method.output_type).FromString)(asked, timeout=20)

        return database, call

    def test_health_answers_probes_without_a_token(self):
        stub = health_pb2_grpc.HealthStub(self.channel())
        for service in ("", "volador.v1.Cluster"):
            self.assertEqual(stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=20).status, health_pb2.HealthCheckResponse.SERVING)
        self.assertEqual(self.refused(lambda: stub.Check(health_pb2.HealthCheckRequest(service="moon"), timeout=20)), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(self.refused(lambda: next(stub.Watch(health_pb2.HealthCheckRequest(), timeout=20))), grpc.StatusCode.UNAUTHENTICATED)
        watch = health_pb2_grpc.HealthStub(self.channel("viewer")).Watch(health_pb2.HealthCheckRequest(), timeout=20)
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
        watch.cancel()

    def test_reflection_is_for_those_who_may_look(self):
        database = ProtoReflectionDescriptorDatabase(self.channel())
        self.assertEqual(self.refused(lambda: list(database.get_services())), grpc.StatusCode.UNAUTHENTICATED)

    def test_a_client_without_our_protos_calls_the_api(self):
        database, call = self.methods("viewer")
        self.assertLessEqual({"volador.v1.Cluster", "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}, set(database.get_services()))
        nodes = call("ListNodes").nodes
        self.assertEqual([(node.name, node.state) for node in nodes], [("petrel", "alive")])
        self.assertEqual(call("Status").address, self.address)
        self.assertIn("petrel", call("Explain", id="petrel").text)
        self.assertEqual(self.refused(lambda: call("Explain", id="moon")), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(self.refused(lambda: call("Drain", node="petrel")), grpc.StatusCode.PERMISSION_DENIED)
        _, operate = self.methods("operator")
        operate("Drain", node="petrel")
        self.assertEqual(call("ListNodes").nodes[0].state, "draining")
        operate("Drain", node="petrel", undo=True)

    def test_a_watch_is_a_snapshot_then_deltas_and_goes_on_where_it_ended(self):
        _, live = self.methods("viewer", of="volador.v1.Live")
        _, operate = self.methods("operator")
        watch = live("Watch", topic="nodes")
        first = next(watch)
        row = json.loads(first.json)
        self.assertEqual((row["type"], [one["name"] for one in row["rows"]], first.resumable), ("snap", ["petrel"], True))
        operate("Drain", node="petrel")
        last = first
        while json.loads(last.json).get("upserts", [{}])[0].get("state") != "draining":
            before, last = last, next(watch)
            self.assertGreater(last.seq, before.seq)
            self.assertEqual((json.loads(last.json)["type"], json.loads(last.json)["seq"], last.instance), ("delta", last.seq, first.instance))
        watch.cancel()

        operate("Drain", node="petrel", undo=True)
        on = live("Watch", topic="nodes", instance=last.instance, seq=last.seq)
        states = []
        while "alive" not in states:
            message = json.loads(next(on).json)
            self.assertEqual(message["type"], "delta")
            states += [one["state"] for one in message["upserts"]]
        on.cancel()
        for instance, seq in (("another", last.seq), (last.instance, 1 << 40), ("", 0)):
            again = live("Watch", topic="nodes", instance=instance, seq=seq)
            self.assertEqual(json.loads(next(again).json)["type"], "snap")
            again.cancel()

    def test_lists_are_filtered_ordered_paged_and_cut(self):
        _, live = self.methods("viewer", of="volador.v1.Live")
        page = json.loads(live("List", topic="nodes", filter="state=alive petrel", order="-name", fields=["name", "total.CPU"], page_size=1).json)
        self.assertEqual((page["total"], page["next_page_token"], [sorted(row) for row in page["rows"]]), (1, "", [["name", "total"]]))
        self.assertEqual(json.loads(live("List", topic="nodes", filter="state=dead").json)["rows"], [])
        events = json.loads(live("List", topic="events", page_size=1).json)
        rest = json.loads(live("List", topic="events", page_size=1000, page_token=events["next_page_token"] or "1").json)
        self.assertEqual(len(rest["rows"]) + 1, max(rest["total"], 1))
        self.assertEqual(json.loads(live("List", topic="studies").json)["total"], 0)
        self.assertEqual(json.loads(live("List", topic="jobs", filter="state=queued", order="-submitted_ms").json)["rows"], [])
        self.assertEqual(self.refused(lambda: live("List", topic="moon")), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.refused(lambda: live("List", topic="nodes", page_size=-1)), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.refused(lambda: live("List", topic="trials", of="nothing")), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(self.refused(lambda: live("List", topic="tokens")), grpc.StatusCode.INVALID_ARGUMENT)

    def test_a_watch_is_refused_or_ended_with_why(self):
        unsigned = self.channel().unary_stream("/volador.v1.Live/Watch", request_serializer=bytes, response_deserializer=bytes)
        self.assertEqual(self.refused(lambda: next(unsigned(b"\n\x05nodes", timeout=20))), grpc.StatusCode.UNAUTHENTICATED)
        _, live = self.methods("viewer", of="volador.v1.Live")
        self.assertEqual(self.refused(lambda: next(live("Watch", topic="moon"))), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.refused(lambda: next(live("Watch", topic="curves"))), grpc.StatusCode.INVALID_ARGUMENT)
        guest = json.loads(self.volador("token", "create", "--role=viewer", "--json"))
        type(self).tokens["guest"] = guest["token"]
        _, live = self.methods("guest", of="volador.v1.Live")
        watch = live("Watch", topic="cluster")
        self.assertEqual(json.loads(next(watch).json)["type"], "snap")
        self.volador("token", "revoke", guest["id"])
        self.assertEqual(self.refused(lambda: list(watch)), grpc.StatusCode.UNAUTHENTICATED)

    READING = ("List", "Get", "Watch", "Status", "Explain", "Logs", "Read", "Stack", "Timeline", "WhoAmI", "Preview")

    OF_TRIALS = ("GetSearcherEvents", "PostSearcherOperations", "StartTrialRun", "GetTrialOperation", "CompleteTrialOperation", "ReportMetrics", "ReportProgress",
                 "ReportTrialExit", "ReportCheckpoint", "WaitPreemption", "AcknowledgePreemption", "GetGarbage", "ReportGarbage")

    def changing(self, channel):
        """Calls with a request_id, of all services, in the order of their services."""
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = descriptor_pool.DescriptorPool(database)
        services = [pool.FindServiceByName(name) for name in sorted(database.get_services()) if name.startswith("volador.v1.")]
        self.assertGreaterEqual({service.name for service in services}, {"Cluster", "Experiments", "Jobs", "Live", "Models", "Studies"})
        return [(service.full_name, method) for service in services for method in service.methods]

    def test_what_changes_something_has_a_request_id_and_what_has_none_is_for_viewers(self):
        channel = self.channel("viewer")
        for service, method in self.changing(channel):
            with self.subTest(method=method.full_name):
                changes = "request_id" in method.input_type.fields_by_name
                if method.name == "PutJobFiles":  # Names its contents by their hash, so that a repeated call changes nothing.
                    continue
                if method.name in ("ReadCommand", "WriteCommand"):  # Streams of a command: each call is another piece.
                    continue
                if method.name in self.OF_TRIALS:  # Reports of the processes of trials: a repeated one has no effect.
                    continue
                if method.name in ("Login", "Logout", "ChangePassword", "CreateUserToken", "StartProviderLogin", "PollProviderLogin"):  # About the caller, viewers too; replies with secrets are not kept.
                    continue
                self.assertEqual(changes, not method.name.startswith(self.READING))
                if method.server_streaming or method.name in ("ListTokens", "ListAudit", "ListUsers", "ListUserGroups", "GetExperimentFiles", "WatchKatibResources", "PreviewSearch"):  # Not for viewers.
                    continue
                call = channel.unary_unary(f"/{service}/{method.name}", request_serializer=bytes, response_deserializer=bytes)
                try:
                    call(b"", timeout=20)
                    code = grpc.StatusCode.OK
                except grpc.RpcError as error:
                    code = error.code()
                self.assertEqual(changes, code == grpc.StatusCode.PERMISSION_DENIED, code)

    def test_a_request_that_comes_again_gets_the_same_answer_and_other_contents_are_refused(self):
        program = subprocess.Popen([BIN / "tune_sleep", "--num-samples=1", "--seconds=300", "--reports=3000"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        calls = {of: self.methods("operator", of="volador.v1." + of)[1] for of in ("Cluster", "Experiments", "Models", "Studies", "Jobs", "Users", "Live", "Katib", "TensorBoards")}
        until = time.monotonic() + 40
        rows = lambda topic: json.loads(calls["Live"]("List", topic=topic, page_size=20_000).json)["rows"]
        while not [row for row in rows("experiments") if row["state"] == "running"]:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        (experiment,) = [row["name"] for row in rows("experiments") if row["state"] == "running"]
        while not [row for row in rows("actors") if row["state"] == "alive"]:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        actor = [row["id"] for row in rows("actors") if row["state"] == "alive"][0]
        spare = calls["Cluster"]("CreateToken", role="viewer", note="spare").token.id
        loss = [{"metric": "loss", "mode": "min"}]
        runs = calls["Jobs"]("SubmitJob", spec={"command": ["sleep", "600"], "cpus": 1}).job.id  # Beside the trial.
        holder = calls["Jobs"]("SubmitJob", spec={"command": ["sleep", "600"], "cpus": 2}).job.id  # It and jobs after it stay queued.
        for job in (runs, holder):
            self.addCleanup(lambda job=job: calls["Jobs"]("StopJob", job=job, now=True))
        while calls["Jobs"]("GetJob", job=runs).state != "running":
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        config = "{name: ids, entrypoint: sleep 600, searcher: {name: single, metric: loss, max_length: {batches: 1}}, resources: {slots_per_trial: 1}}"
        made = calls["Experiments"]("CreateExperiment", config=config, paused=True).experiment.id
        trial = calls["Experiments"]("CreateExperiment", config=config).experiment.id
        (trial,) = [row.id for row in calls["Experiments"]("ListTrialInfos", experiment=trial).trials]
        calls["Experiments"]("StartTrialRun", trial=trial, run=1)
        checkpoint, newest = "0b5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6e", "1b5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6e"
        for batches, name in ((1, checkpoint), (2, newest)):  # The trial goes on from the second.
            calls["Experiments"]("ReportCheckpoint", trial=trial, run=1, checkpoint={"id": name, "batches": batches})
        resource = "{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {template: {spec: {containers: [{name: main, command: ['true']}]}}}}"
        # For each call a request, and a different one that must not be sent with the same id.
        requests = {
            "StartCommand": ({"job": runs, "command": ["true"]}, {"job": runs, "command": ["false"]}),
            "SubmitJob": ({"spec": {"command": ["true"], "cpus": 2, "name": "a"}}, {"spec": {"command": ["true"], "cpus": 2, "name": "b"}}),
            "SetJobPriority": ({"job": "a", "priority": "urgent"}, {"job": "a", "priority": "normal"}),
            "ExtendJob": ({"job": "a", "duration_s": 60}, {"job": "a", "duration_s": 70}),
            "CreateExperiment": ({"config": config, "paused": True}, {"config": config}),
            "StartTensorBoard": ({"experiments": [made]}, {"experiments": [made], "idle_s": 60}),
            "EditExperiment": ({"id": made, "notes": "a"}, {"id": made, "notes": "b"}),
            "KillTrial": ({"id": 1}, {"id": 2}),
            "ChangeExperiment": ({"id": made, "command": "kill"}, {"id": made, "command": "cancel"}),
            "CreateModel": ({"model": {"name": "digits"}}, {"model": {"name": "letters"}}),
            "RegisterModelVersion": ({"model": "digits", "version": {"checkpoint": newest}}, {"model": "digits", "version": {"checkpoint": checkpoint}}),
            "EditModel": ({"model": "digits", "notes": "a"}, {"model": "digits", "notes": "b"}),
            "EditModelVersion": ({"model": "digits", "version": 1, "comment": "a"}, {"model": "digits", "version": 1, "comment": "b"}),
            "DeleteModelVersion": ({"model": "digits", "version": 1}, {"model": "digits", "version": 2}),
            "DeleteModel": ({"model": "digits"}, {"model": "letters"}),
            "DeleteCheckpoints": ({"ids": [checkpoint]}, {"ids": ["00000000"]}),
            "ApplyKatibResources": ({"yaml": resource % "ids"}, {"yaml": resource % "other"}),
            "DeleteKatibResource": ({"kind": "Job", "namespace": "default", "name": "ids"}, {"kind": "Job", "namespace": "default", "name": "other"}),
            "StopJob": ({"job": "a"}, {"job": "a", "now": True}),
            "DeleteJob": ({"job": "a"}, {"job": "b"}),
            "SetQueue": ({"settings": {"preemption": "never"}}, {"settings": {"preemption": "urgent"}}),
            "PutUser": ({"user": {"name": "idris"}}, {"user": {"name": "idris", "role": "viewer"}}),
            "CreateUserGroup": ({"group": {"name": "vision"}}, {"group": {"name": "other"}}),
            "ChangeUserGroup": ({"group": "vision", "add": ["idris"]}, {"group": "vision", "remove": ["idris"]}),
            "DeleteUserGroup": ({"group": "vision"}, {"group": "other"}),
            "DeleteUser": ({"user": "idris"}, {"user": "other"}),
            "CreateToken": ({"role": "viewer", "note": "a"}, {"role": "viewer", "note": "b"}),
            "RevokeToken": ({"id": spare}, {"id": spare + "x"}),
            "Drain": ({"node": "petrel"}, {"node": "petrel", "undo": True}),
            "Kill": ({"actor": actor, "restart": True}, {"actor": actor}),
            "ControlExperiment": ({"experiment": experiment, "act": "pause"}, {"experiment": experiment, "act": "resume"}),
            "AnnotateExperiment": ({"experiment": experiment, "note": "a"}, {"experiment": experiment, "note": "b"}),
            "LoginLink": ({}, None),
            "CreateStudy": ({"name": "ids", "space_json": '{"x":{"uniform":[0,1]}}', "objectives": loss}, {"name": "ids", "space_json": '{"y":{"uniform":[0,1]}}', "objectives": loss}),
            "Ask": ({"study": "ids", "count": 2}, {"study": "ids", "count": 3}),
            "Report": ({"study": "ids", "number": 0, "step": 1, "value": 0.5}, {"study": "ids", "number": 0, "step": 2, "value": 0.5}),
            "Tell": ({"study": "ids", "number": 0, "values": [0.5]}, {"study": "ids", "number": 1, "values": [0.5]}),
            "DeleteStudy": ({"study": "ids"}, {"study": "other"}),
        }
        found = {method.name: service.rsplit(".", 1)[1] for service, method in self.changing(self.channel("operator")) if "request_id" in method.input_type.fields_by_name}
        self.assertEqual(set(found), set(requests), "each call that changes something is tried here")

        def asked_for():
            time.sleep(0.2)  # Events are shown within 20 ms.
            return [row["text"] for row in rows("events") if "by" in row["fields"]]

        for name, (first, other) in requests.items():
            with self.subTest(call=name):
                call = calls[found[name]]
                once = call(name, request_id="one " + name, **first)
                happened = asked_for()
                self.assertEqual(call(name, request_id="one " + name, **first), once)
                self.assertEqual(asked_for(), happened, "a second time nothing happens")
                if other is not None:
                    self.assertEqual(self.refused(lambda call=call, name=name, other=other: call(name, request_id="one " + name, **other)), grpc.StatusCode.INVALID_ARGUMENT)
                self.assertEqual(self.refused(lambda call=call, name=name, first=first: call(name, request_id="x" * 1025, **first)), grpc.StatusCode.INVALID_ARGUMENT)
        # What was undone since stays undone.
        calls["Cluster"]("Drain", node="petrel", undo=True, request_id="two")
        calls["Cluster"]("Drain", node="petrel", request_id="one Drain")
        self.assertEqual(calls["Cluster"]("ListNodes").nodes[0].state, "alive")
        self.assertNotEqual(calls["Cluster"]("LoginLink").url, calls["Cluster"]("LoginLink").url)
        self.assertNotEqual(calls["Cluster"]("CreateToken", role="viewer").text, calls["Cluster"]("CreateToken", role="viewer").text)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
