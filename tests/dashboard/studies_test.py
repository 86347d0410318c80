"""Shared studies by HTTP, gRPC and the command line against a real head: studies_test.py [Class.test …].

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there; what needs Python's grpcio
(scripts/setup_grpcio.sh) is skipped without it.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading
import unittest

import contract_test
from set_up import BIN, Client

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import pypi_folder  # noqa: E402

FOUND = pypi_folder.find("grpcio")
if FOUND:
    import grpc
    from google.protobuf import descriptor_pool, message_factory
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SPACE = {"x": {"uniform": [-5, 5]}, "batch": {"choice": [16, 32]}}
LOSS = [{"metric": "loss", "mode": "min"}]


class Studies(contract_test.Cluster):
    def post(self, path, body=None, who=None):
        answer = (who or self.operator).ask("POST", "/api/v1/studies" + path, body or {})
        return answer.status, json.loads(answer.text)

    def create(self, name, **more):
        status, study = self.post("", {"name": name, "space": SPACE, "objectives": LOSS, **more})
        self.assertEqual(status, 201, study)
        return study

    def test_a_study_from_its_making_to_its_end(self):
        made = self.create("line", searcher="tpe:n_startup_trials=3", seed=7, max_trials=12)
        self.assertEqual((made["space"], made["objectives"], made["searcher"], made["lease_s"]), (SPACE, LOSS, "tpe:n_startup_trials=3", 600))
        best = None
        while True:
            status, asked = self.post("/line:ask", {"count": 2, "worker": "w"})
            self.assertEqual(status, 200, asked)
            if not asked["trials"]:
                break
            for trial in asked["trials"]:
                value = (trial["config"]["x"] - 2) ** 2
                status, told = self.post(f"/line/trials/{trial['number']}:tell", {"values": [value]})
                self.assertEqual((status, told["state"], told["values"]), (200, "complete", [value]))
                best = min(best, (value, trial["number"])) if best else (value, trial["number"])
        self.assertTrue(asked["done"])
        self.assertEqual(asked["reason"], "all 12 trials were given out")
        study = self.viewer.get("/api/v1/studies/line")
        self.assertEqual((study["trials_total"], study["trials_by_state"]["complete"]), (12, 12))
        self.assertEqual((study["best"][0]["values"][0], study["best"][0]["number"]), best)
        rows = self.viewer.get("/api/v1/studies/line/trials?order=values.0&page_size=5&filter=state=complete")
        self.assertEqual((rows["total"], len(rows["rows"]), rows["next_page_token"]), (12, 5, "5"))
        self.assertIn("line", [row["name"] for row in self.viewer.get("/api/v1/studies")["rows"]])
        self.assertEqual(self.operator.ask("DELETE", "/api/v1/studies/line?request_id=d1").status, 200)
        self.assertEqual(self.operator.ask("DELETE", "/api/v1/studies/line?request_id=d1").status, 200)
        self.assertEqual(self.operator.ask("DELETE", "/api/v1/studies/line").status, 404)

    def test_repeated_requests_do_nothing_twice(self):
        first = self.post("", {"name": "twice", "space": SPACE, "objectives": LOSS, "request_id": "c"})
        self.assertEqual(self.post("", {"name": "twice", "space": SPACE, "objectives": LOSS, "request_id": "c"}), first)
        self.assertEqual(self.post("", {"name": "twice", "space": SPACE, "objectives": LOSS})[0], 400)
        asked = self.post("/twice:ask", {"count": 2, "request_id": "a"})
        self.assertEqual(self.post("/twice:ask", {"count": 2, "request_id": "a"}), asked)
        told = self.post("/twice/trials/0:tell", {"values": [1], "request_id": "t"})
        self.assertEqual(self.post("/twice/trials/0:tell", {"values": [1], "request_id": "t"}), told)
        self.assertEqual(self.post("/twice/trials/0:tell", {"values": [2]})[0], 400)
        self.assertEqual(self.viewer.get("/api/v1/studies/twice")["trials_total"], 2)

    def test_failures_prunings_and_reports(self):
        self.create("rungs", searcher="random", scheduler="asha:grace_period=1,max_t=9,reduction_factor=3")
        self.post("/rungs:ask", {"count": 6})
        self.assertEqual(self.post("/rungs/trials/0:tell", {"values": [None]})[1]["state"], "fail")  # null stands for NaN.
        self.assertEqual(self.post("/rungs/trials/1:tell", {"state": "fail", "reason": "no memory"})[1]["reason"], "no memory")
        for number in (2, 3, 4):
            self.assertFalse(self.post(f"/rungs/trials/{number}:report", {"step": 1, "value": -number})[1]["should_stop"])
        status, verdict = self.post("/rungs/trials/5:report", {"step": 1, "value": 100})
        self.assertEqual((status, verdict["should_stop"], verdict["decision"]), (200, True, "prune"))
        self.assertEqual(self.post("/rungs/trials/5:tell", {"state": "pruned"})[1]["values"], [100])
        self.assertGreater(self.post("/rungs/trials/2:report", {})[1]["lease_ends_ms"], 0)

    def test_what_is_wrong_is_named(self):
        self.create("wrong")
        for path, body, words in (("", {"name": "a/b", "space": SPACE, "objectives": LOSS}, "study.name"), ("", {"name": "x", "objectives": LOSS}, "space: it is missing"),
                                  ("", {"name": "x", "space": {"lr": {"uniform": [3, 1]}}, "objectives": LOSS}, "lr"), ("", {"name": "x", "space": [], "objectives": LOSS}, "space: expected an object"),
                                  ("", {"name": "x", "space": SPACE, "objectives": LOSS, "searcher": "tpf"}, "did you mean tpe?"), ("", {"nam": "x"}, "did you mean name?"),
                                  ("", {"name": "x", "space": SPACE, "objectives": [{"metric": "loss"}]}, "objectives: expected a list"),
                                  ("/wrong:ask", {"count": 101}, "1 to 100"), ("/wrong:ask", {"count": "one"}, "count: expected a whole number"),
                                  ("/wrong/trials/x:tell", {"values": [1]}, "number"), ("/wrong/trials/0:tell", {"values": "1"}, "values: expected a list of numbers"),
                                  ("/wrong/trials/0:report", {"step": 1}, "value: it is missing")):
            status, problem = self.post(path, body)
            with self.subTest(path=path, body=body):
                self.assertEqual(status, 400, problem)
                self.assertIn(words, problem["detail"])
        for path in ("/nothing:ask", "/wrong/trials/7:tell"):
            self.assertEqual(self.post(path, {"values": [1]} if "tell" in path else {})[0], 404)
        self.assertEqual(self.post("/wrong:ask", {}, self.viewer)[0], 403)

    def test_two_clients_at_once_over_a_killed_head(self):
        self.create("shared", searcher="tpe:n_startup_trials=4", seed=3)
        told, wrong, mutex = {}, [], threading.Lock()
        killed = threading.Event()

        def work(name):
            """As a worker does: it repeats what was not answered, with the same request id."""
            client = Client(self.port, self.operator.headers)

            def ask(path, body):
                while True:
                    try:
                        answer = client.ask("POST", "/api/v1/studies" + path, body)
                    except OSError:
                        killed.wait(30)
                        continue
                    if answer.status != 503:
                        return answer.status, json.loads(answer.text)

            for turn in range(30):
                status, asked = ask("/shared:ask", {"request_id": f"{name}-a{turn}", "worker": name})
                trial = asked["trials"][0]
                value = (trial["config"]["x"] - 2) ** 2
                status, done = ask(f"/shared/trials/{trial['number']}:tell", {"request_id": f"{name}-t{turn}", "values": [value]})
                with mutex:
                    if status != 200 or trial["number"] in told:
                        wrong.append((status, trial["number"], done))
                    told[trial["number"]] = value
                    count = len(told)
                if count == 20:
                    os.kill(self.pids[0], 9)
                    type(self).start()
                    killed.set()

        workers = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(wrong, [])
        self.assertTrue(killed.is_set())
        rows = self.viewer.get("/api/v1/studies/shared/trials")["rows"]
        self.assertEqual({row["number"]: row["values"][0] for row in rows}, told)
        self.assertEqual(sorted(told), list(range(60)))
        self.assertEqual({row["state"] for row in rows}, {"complete"})

    def test_the_command_line(self):
        self.volador("study", "create", "lines", "--space=" + json.dumps(SPACE), "--objective=loss:min", "--searcher=random", "--lease=90s")
        asked = json.loads(self.volador("study", "ask", "lines", "--count=2", "--worker=me", "--json"))
        self.assertEqual([trial["number"] for trial in asked["trials"]], [0, 1])
        self.assertIn("0 complete", self.volador("study", "tell", "lines", "0", "0.25"))
        self.assertEqual(json.loads(self.volador("study", "tell", "lines", "1", "nan", "--json"))["state"], "fail")
        self.assertIn("continue", self.volador("study", "report", "lines", "--request-id=r", str(json.loads(self.volador("study", "ask", "lines", "--json"))["trials"][0]["number"]), "1", "0.5"))
        shown = json.loads(self.volador("study", "show", "lines", "--json"))
        self.assertEqual((shown["trials_total"], shown["best"][0]["values"], shown["lease_s"]), (3, [0.25], 90))
        text = self.volador("study", "show", "lines")
        self.assertIn("best 0  0.25", text)
        self.assertIn("loss was nan", text)
        self.assertIn("lines", self.volador("study", "list"))
        self.assertIn("deleted", self.volador("study", "delete", "lines"))
        gone = subprocess.run([BIN / "volador", "study", "show", "lines"], env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(gone.returncode, 6)
        self.assertIn('there is no study "lines"', gone.stderr)
        values = self.volador("__complete", "study", "create", "--searcher=")
        self.assertIn("cmaes", values)

    @unittest.skipUnless(FOUND, "Python's grpcio is missing; scripts/setup_grpcio.sh installs it")
    def test_grpc_and_http_are_one(self):
        (authority,) = pathlib.Path(self.home).glob("**/head/authority.pem")
        status = json.loads(self.volador("status", "--json"))
        tls = grpc.ssl_channel_credentials(root_certificates=authority.read_bytes())

        def service(role):
            channel = grpc.secure_channel(status["address"], grpc.composite_channel_credentials(tls, grpc.access_token_call_credentials(self.tokens[role])))
            self.addCleanup(channel.close)
            found = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel)).FindServiceByName("volador.v1.Studies")

            def call(rpc, /, **fields):
                method = found.FindMethodByName(rpc)
                make = channel.unary_unary(f"/volador.v1.Studies/{rpc}", request_serializer=lambda one: one.SerializeToString(),
                                           response_deserializer=message_factory.GetMessageClass(method.output_type).FromString)
                return make(message_factory.GetMessageClass(method.input_type)(**fields), timeout=20)

            return found, call

        def code_of(call):
            with self.assertRaises(grpc.RpcError) as raised:
                call()
            return raised.exception.code()

        found, call = service("operator")
        call("CreateStudy", name="both", space_json=json.dumps(SPACE), objectives=LOSS, searcher="random", request_id="c")
        first = call("Ask", study="both", request_id="a", worker="grpc").trials[0]
        self.assertEqual(call("Ask", study="both", request_id="a", worker="grpc").trials[0].config_json, first.config_json)
        self.assertEqual(self.post("/both:ask", {"request_id": "a", "worker": "grpc"})[1]["trials"][0]["config"], json.loads(first.config_json))
        second = self.post("/both:ask")[1]["trials"][0]
        self.assertEqual(second["number"], 1)
        self.assertEqual(call("Tell", study="both", number=1, values=[0.5]).state, "complete")
        self.assertEqual(call("Tell", study="both", number=0, values=[float("nan")]).state, "fail")
        self.assertEqual(call("Report", study="both", number=0).decision, "finish")
        _, look = service("viewer")
        self.assertEqual([trial.number for trial in look("ListStudyTrials", study="both", state="complete").trials], [1])
        self.assertEqual(look("GetStudy", study="both").best[0].values[0], 0.5)
        self.assertIn("both", [study.name for study in look("ListStudies").studies])
        reads = {"GetStudy", "ListStudies", "ListStudyTrials"}
        for method in found.methods:  # Roles, of every method that there is.
            if method.name not in reads:
                self.assertEqual(code_of(lambda: look(method.name)), grpc.StatusCode.PERMISSION_DENIED, method.name)
        self.assertEqual(code_of(lambda: call("Ask", study="moon")), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(code_of(lambda: call("Ask", study="both", count=1000)), grpc.StatusCode.INVALID_ARGUMENT)
        call("DeleteStudy", study="both")
        self.assertEqual(self.viewer.ask("GET", "/api/v1/studies/both").status, 404)


if __name__ == "__main__":
    if not (BIN / "volador").exists():
        sys.exit(77)
    unittest.main(warnings="ignore")
