"""Jobs by HTTP against a real head and its worker: jobs_test.py [Class.test …].

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there.
"""

import json
import time

import contract_test
from set_up import main

SLEEP = {"command": ["sleep", "600"]}


class Jobs(contract_test.Cluster):
    def post(self, path, body=None, who=None):
        answer = (who or self.operator).ask("POST", "/api/v1/jobs" + path, body or {})
        return answer.status, json.loads(answer.text)

    def submit(self, **spec):
        status, reply = self.post("", {"spec": spec})
        self.assertEqual(status, 200, reply)
        return reply["job"]

    def job(self, job, who=None):
        return (who or self.viewer).get(f"/api/v1/jobs/{job}")

    def wait(self, job, *states):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = self.job(job)
            if found["state"] in states:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{job} is {found['state']} ({found['reason']}), not one of {states}")

    def test_a_job_from_its_submission_to_its_end(self):
        made = self.submit(name="greeting", command=["bash", "-c", "echo $WORD; exit $CODE"], env={"WORD": "hello", "CODE": "0"}, memory_bytes=1 << 26)
        self.assertEqual((made["spec"]["env"], made["spec"]["nodes"], made["spec"]["priority"]), ({"WORD": "hello", "CODE": "0"}, 1, "normal"))
        ended = self.wait(made["id"], "succeeded", "failed")
        self.assertEqual((ended["state"], ended["exit_code"], len(ended["ranks"])), ("succeeded", 0, 1))
        rank = ended["ranks"][0]
        self.assertEqual((rank["rank"], rank["state"], rank["node"] != ""), (0, "ended", True))
        lines = self.viewer.get(f"/api/v1/logs/lines?id={rank['actor']}")["lines"]
        self.assertIn("hello", [line["text"] for line in lines])
        self.assertEqual(self.job("greeting")["id"], made["id"])
        failed = self.wait(self.submit(command=["bash", "-c", "exit 3"])["id"], "failed")
        self.assertEqual(failed["exit_code"], 3)
        self.assertIn("exited with code 3", failed["reason"])
        self.assertIn("job.exit_code", json.dumps(failed["why"]))

    def test_lists_filter_order_and_limit_rows(self):
        ids = [self.submit(name=f"listed-{i}", command=["true"])["id"] for i in range(3)]
        for job in ids:
            self.wait(job, "succeeded")
        rows = self.viewer.get("/api/v1/jobs?filter=listed-&fields=id,spec.name,state&page_size=2")
        self.assertEqual((rows["total"], rows["next_page_token"]), (3, "2"))
        self.assertEqual([row["id"] for row in rows["rows"]], ids[:0:-1])
        rows = self.viewer.get("/api/v1/jobs?filter=listed-&order=submitted_ms")["rows"]
        self.assertCountEqual([row["id"] for row in rows], ids)
        times = [row["submitted_ms"] for row in rows]  # Two may be equal.
        self.assertEqual(times, sorted(times))
        problem = json.loads(self.viewer.ask("GET", "/api/v1/jobs?order=submited_ms").text)
        self.assertIn("did you mean submitted_ms?", problem["detail"])

    def test_jobs_are_stopped_extended_reordered_and_deleted(self):
        running = self.submit(**SLEEP, cpus=2, duration_s=3600)["id"]
        self.wait(running, "running")
        self.assertEqual(self.post(f"/{running}:extend", {"duration_s": 7200})[1]["job"]["spec"]["duration_s"], 7200)
        waiting = self.submit(**SLEEP, cpus=2)
        self.assertEqual(waiting["state"], "queued")
        self.wait_for(lambda: "start" in self.job(waiting["id"]))  # The forecast is up to a second old.
        waiting = self.job(waiting["id"])
        self.assertFalse(waiting["start"]["now"], waiting)
        self.assertGreater(waiting["start"]["latest_ms"], waiting["submitted_ms"])
        self.assertIsInstance(waiting["why"], list)
        self.assertEqual(self.post(f"/{waiting['id']}:priority", {"priority": "urgent"})[1]["job"]["spec"]["priority"], "urgent")
        first = self.post(f"/{waiting['id']}:stop", {"request_id": "s"})
        self.assertEqual((first[0], first[1]["job"]["state"]), (200, "stopped"))
        self.assertEqual(self.post(f"/{waiting['id']}:stop", {"request_id": "s"}), first)
        self.assertEqual(self.post(f"/{running}:stop")[0], 200)
        stopped = self.wait(running, "stopped")
        self.assertIn("stopped with token", stopped["reason"])
        self.assertEqual(self.operator.ask("DELETE", f"/api/v1/jobs/{running}").status, 200)
        self.assertEqual(self.operator.ask("GET", f"/api/v1/jobs/{running}").status, 404)

    def test_the_queue_is_shown_and_changed_by_operators_only(self):
        before = self.viewer.get("/api/v1/job_queue")
        self.assertEqual([row["pool"]["name"] for row in before["pools"]], ["default"])
        self.assertEqual(len(before["pools"][0]["nodes"]), 1)
        settings = {"projects": [{"name": "vision", "weight": 2, "limits": {"gpus": 1}}], "version": before["settings"]["version"]}
        body = {"settings": settings, "request_id": "q1"}
        self.assertEqual(self.viewer.ask("POST", "/api/v1/job_queue", body).status, 403)
        made = self.operator.ask("POST", "/api/v1/job_queue", body)
        self.assertEqual(made.status, 200, made.text)
        after = self.viewer.get("/api/v1/job_queue")
        self.assertEqual(after["settings"]["projects"][0]["limits"], {"gpus": 1})
        self.assertEqual(after["settings"]["version"], before["settings"]["version"] + 1)
        self.assertEqual([row["project"]["name"] for row in after["projects"] if row["project"]["weight"] == 2], ["vision"])
        stale = self.operator.ask("POST", "/api/v1/job_queue", {"settings": {**settings, "version": 1000}})
        self.assertEqual(stale.status, 400)
        self.assertIn("the settings are at version", json.loads(stale.text)["detail"])

    def test_a_dry_run_predicts_the_start_and_submits_nothing(self):
        total = self.viewer.get("/api/v1/jobs")["total"]
        status, reply = self.post("", {"spec": SLEEP, "dry_run": True})
        self.assertEqual((status, reply["job"]["id"]), (200, ""))
        self.assertIn("start", reply["job"])
        for dry_run in (True, False):
            status, problem = self.post("", {"spec": {**SLEEP, "cpus": 1000}, "dry_run": dry_run})
            self.assertEqual((status, problem["code"]), (409, "kInfeasible"))
            self.assertIn("1000 CPUs", problem["detail"])
        self.assertEqual(self.viewer.get("/api/v1/jobs")["total"], total)

    def test_a_repeated_request_submits_one_job(self):
        first = self.post("", {"spec": {"command": ["true"], "name": "once"}, "request_id": "o"})
        self.assertEqual(self.post("", {"spec": {"command": ["true"], "name": "once"}, "request_id": "o"}), first)
        self.assertEqual(self.viewer.get("/api/v1/jobs?filter=spec.name=once")["total"], 1)

    def test_what_is_wrong_is_named(self):
        for body, words in (({}, "spec: it is missing"), ({"spec": "sleep"}, "spec: expected an object"), ({"spec": {}}, "command"),
                            ({"spec": {"comand": ["true"]}}, 'spec: there is no member "comand"; did you mean command?'),
                            ({"spec": {"command": "true"}}, "spec.command: expected a list of texts"),
                            ({"spec": {**SLEEP, "gpus": "two"}}, "spec.gpus: expected a number"),
                            ({"spec": {**SLEEP, "env": {"A": 1}}}, "spec.env: expected an object of texts"),
                            ({"spec": {**SLEEP, "nodes": 1 << 40}}, "spec.nodes: expected a whole number below 2^31"),
                            ({"spec": {**SLEEP, "nodes": -1}}, "nodes: expected 1 to"), ({"spec": {**SLEEP, "cpus": None}}, "cpus"),
                            ({"spec": {**SLEEP, "mode": "torchrum"}}, "torchrum"), ({"spec": {**SLEEP, "priority": "high"}}, "high")):
            status, problem = self.post("", body)
            with self.subTest(body=body):
                self.assertEqual(status, 400, problem)
                self.assertIn(words, problem["detail"])
        self.assertEqual(self.post("/job-999999:stop")[0], 404)
        self.assertEqual(self.viewer.ask("GET", "/api/v1/jobs/job-999999").status, 404)
        self.assertEqual(self.post("", {"spec": SLEEP}, self.viewer)[0], 403)


if __name__ == "__main__":
    main()
