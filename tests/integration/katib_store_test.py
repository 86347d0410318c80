"""Katib's metric store, api.v1.beta1.DBManager, at the head's port: a client of Katib in Python, which needs a token and the cluster's authority.

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where they or grpcio (scripts/setup_grpcio.sh) are not there.
"""

import json
import os
import pathlib
import sys
import unittest

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin"))
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import pypi_folder  # noqa: E402

pypi_folder.require("grpcio", "Python's grpcio", BIN / "volador")
sys.path.insert(1, str(HERE))

import grpc  # noqa: E402

import katib_wire  # noqa: E402
from experiment_server_test import Cluster  # noqa: E402
from katib_test import early_stopping, experiment  # noqa: E402
from single_machine import wait_until  # noqa: E402


class Store:
    """A client of DBManager; the token is an operator's by default."""

    def __init__(self, cluster, token=None):
        authority = cluster.home.path / "volador/clusters/heron/head/authority.pem"
        tls = grpc.ssl_channel_credentials(root_certificates=authority.read_bytes())
        call = grpc.access_token_call_credentials(token or cluster.token)
        self.channel = grpc.secure_channel(cluster.head_address(), grpc.composite_channel_credentials(tls, call))
        self.calls = katib_wire.Stub(self.channel, "DBManager")

    def close(self):
        self.channel.close()

    def report(self, trial, *points):
        """Points are (time stamp, metric, value)."""
        request = katib_wire.message("ReportObservationLogRequest")(trial_name=trial)
        for time, metric, value in points:
            log = request.observation_log.metric_logs.add(time_stamp=time)
            log.metric.name, log.metric.value = metric, value
        self.calls.ReportObservationLog(request, timeout=60)

    def get(self, trial, metric="", start="", end=""):
        request = katib_wire.message("GetObservationLogRequest")(trial_name=trial, metric_name=metric, start_time=start, end_time=end)
        logs = self.calls.GetObservationLog(request, timeout=60).observation_log.metric_logs
        return [(log.time_stamp, log.metric.name, log.metric.value) for log in logs]

    def delete(self, trial):
        self.calls.DeleteObservationLog(katib_wire.message("DeleteObservationLogRequest")(trial_name=trial), timeout=60)


class MetricStore(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        self.store = Store(self.cluster)
        self.addCleanup(self.store.close)

    def trial(self, name, script, collector=None):
        """The only trial of a new experiment, once it runs: its name and its id."""
        extra = f"  metricsCollectorSpec: {{collector: {{kind: {collector}}}}}" if collector else ""
        self.cluster.post("/resources", {"yaml": experiment(name, script, parallel=1, most=1, extra=extra)}, version="/api/v1/katib")
        self.addCleanup(self.cluster.post, "/resources:delete", {"kind": "Experiment", "name": name}, version="/api/v1/katib")
        rows = lambda: self.cluster.get(f"/resources?kind=Trial&labels=katib.kubeflow.org/experiment={name}", version="/api/v1/katib")["rows"]
        states = lambda row: {one["type"] for one in row["object"]["status"]["conditions"]}
        (row,) = wait_until(f"the trial of {name} runs", lambda: [row for row in rows() if states(row) & {"Running", "Succeeded"}])
        return row["name"], row["trial"]

    def ended(self, name):
        """The trial of an experiment that has succeeded."""
        def has_ended():
            (row,) = self.cluster.get(f"/resources?kind=Experiment&name={name}", version="/api/v1/katib")["rows"]
            return "Succeeded" in {one["type"] for one in row["object"]["status"]["conditions"]}
        wait_until(f"{name} succeeds", has_ended)
        (row,) = self.cluster.get(f"/resources?kind=Trial&labels=katib.kubeflow.org/experiment={name}", version="/api/v1/katib")["rows"]
        return row["object"]

    def test_reports_are_filtered_by_metric_and_time(self):
        trial, _ = self.trial("filters", "sleep 600")
        points = [(f"2026-01-01T00:00:0{second}Z", metric, value) for second, value in ((1, "0.25"), (2, "0.5"), (3, "0.75"))
                  for metric in ("Train-accuracy", "Validation-accuracy")]
        self.store.report(trial, *points[:4])
        self.store.report(trial, *points[4:])
        self.assertEqual(self.store.get(trial), points)
        self.assertEqual(self.store.get(trial, "Train-accuracy"), points[::2])
        self.assertEqual(self.store.get(trial, "nothing"), [])
        # Both ends belong to the range; other zones and fractions are read.
        self.assertEqual(self.store.get(trial, start="2026-01-01T00:00:02Z"), points[2:])
        self.assertEqual(self.store.get(trial, end="2026-01-01T09:00:02.000+09:00"), points[:4])
        self.assertEqual(self.store.get(trial, "Validation-accuracy", "2026-01-01T00:00:01.5Z", "2026-01-01T00:00:02.5Z"), [points[3]])
        self.assertEqual(self.store.get(trial, start="0001-01-01T00:00:00Z"), points)

    def test_what_katib_reports_for_a_missing_metric_is_no_value(self):
        trial, _ = self.trial("missing", "sleep 600")
        self.store.report(trial, ("0001-01-01T00:00:00Z", "Validation-accuracy", "unavailable"), ("0001-01-01T00:00:00Z", "Train-accuracy", "0.5"))
        self.assertEqual(self.store.get(trial), [("0001-01-01T00:00:00Z", "Train-accuracy", "0.5")])

    def test_a_deletion_removes_the_log_and_keeps_the_result(self):
        _, id = self.trial("result", 'echo "Validation-accuracy=0.75"')
        trial = self.ended("result")["metadata"]["name"]
        curve = lambda group: self.cluster.get(f"/trials/{id}/metrics?group={group}").get("series", [])
        self.assertEqual([value for _, _, value in self.store.get(trial)], ["0.75"])
        self.assertEqual([row["values"] for row in curve("validation")], [[0.75]])
        self.store.delete(trial)
        self.assertEqual((self.store.get(trial), curve("observation")), ([], []))
        self.assertEqual([row["values"] for row in curve("validation")], [[0.75]])
        self.assertEqual(self.ended("result")["status"]["observation"]["metrics"][0]["latest"], "0.75")
        # What is reported afterwards is a log of its own, also after a restart of the head.
        self.store.report(trial, ("2026-01-01T00:00:01Z", "Validation-accuracy", "0.5"))
        self.cluster.kill(self.cluster.pid_of("head"))
        self.cluster.start_head()
        self.setUp()
        self.assertEqual(self.store.get(trial), [("2026-01-01T00:00:01Z", "Validation-accuracy", "0.5")])

    def test_a_trial_that_reports_by_this_api_has_its_result(self):
        released = self.cluster.home.path / "released"
        trial, _ = self.trial("pushes", f"while [ ! -e {released} ]; do read -t 0.05 < <(:) || true; done", collector="None")
        self.store.report(trial, *((f"2026-01-01T00:00:0{second}Z", "Validation-accuracy", value) for second, value in ((2, "0.5"), (1, "0.75"))))
        released.touch()
        metric = self.ended("pushes")["status"]["observation"]["metrics"][0]
        self.assertEqual([float(metric[key]) for key in ("min", "max", "latest")], [0.5, 0.75, 0.5])

    def run_two(self, name, collector):
        """Two trials: the second one reports values below the rule that the first one makes. Their states when one has reported and the other has ended."""
        folder = self.cluster.home.path / "notes" / name
        folder.mkdir(parents=True)
        extra = f"  metricsCollectorSpec: {{collector: {collector}}}\n" + early_stopping("medianstop", min_trials_required=1, start_step=2)
        script = f"while [ ! -e {folder}/$KATIB_TRIAL_NAME ]; do read -t 0.05 < <(:) || true; done"
        self.cluster.post("/resources", {"yaml": experiment(name, script, parallel=1, most=2, extra=extra)}, version="/api/v1/katib")
        self.addCleanup(self.cluster.post, "/resources:delete", {"kind": "Experiment", "name": name}, version="/api/v1/katib")
        rows = lambda: self.cluster.get(f"/resources?kind=Trial&labels=katib.kubeflow.org/experiment={name}", version="/api/v1/katib")["rows"]
        states = lambda row: {one["type"] for one in row["object"]["status"]["conditions"] if one["status"] == "True"}
        seen = set()

        def next_trial():
            (row,) = wait_until(f"a trial of {name} runs", lambda: [row for row in rows() if row["name"] not in seen and "Running" in states(row)])
            seen.add(row["name"])
            return row["name"]

        def report(trial, value):
            for second in range(3):
                self.store.report(trial, (f"2026-01-01T00:00:0{second}Z", "Validation-accuracy", value))

        first = next_trial()
        report(first, "0.9")
        (folder / first).touch()
        second = next_trial()
        report(second, "0.5")
        return folder / second, lambda: [states(row) for row in rows() if row["name"] == second][0], second

    def test_reported_metrics_stop_a_trial_early(self):
        for name, collector in (("pushed", "{kind: Push}"), ("custom", "{kind: Custom, customCollector: {name: own, image: example, command: ['true']}}")):
            _, states, trial = self.run_two(name, collector)
            wait_until(f"the second trial of {name} is stopped", lambda: "EarlyStopped" in states())
            (row,) = self.cluster.get(f"/resources?kind=Trial&name={trial}", version="/api/v1/katib")["rows"]
            self.assertEqual(float(row["object"]["status"]["observation"]["metrics"][0]["max"]), 0.5)

    def test_without_a_collector_no_trial_stops_early(self):
        release, states, _ = self.run_two("none", "{kind: None}")
        release.touch()
        wait_until("the second trial ends", lambda: "Succeeded" in states())

    def test_errors_are_those_of_grpc(self):
        trial, _ = self.trial("errors", "sleep 600")
        for call, code, says in ((lambda: self.store.get("absent"), grpc.StatusCode.NOT_FOUND, 'there is no trial "absent"'),
                                 (lambda: self.store.report("absent"), grpc.StatusCode.NOT_FOUND, 'there is no trial "absent"'),
                                 (lambda: self.store.delete("absent"), grpc.StatusCode.NOT_FOUND, 'there is no trial "absent"'),
                                 (lambda: self.store.get(trial, start="yesterday"), grpc.StatusCode.INVALID_ARGUMENT, 'got "yesterday"')):
            with self.assertRaises(grpc.RpcError) as raised:
                call()
            self.assertEqual(raised.exception.code(), code)
            self.assertIn(says, raised.exception.details())

    def test_a_viewer_reads_and_changes_nothing(self):
        trial, _ = self.trial("viewed", "sleep 600")
        self.store.report(trial, ("2026-01-01T00:00:01Z", "Validation-accuracy", "0.5"))
        viewer = Store(self.cluster, json.loads(self.cluster.must("token", "create", "--role=viewer", "--json"))["token"])
        self.addCleanup(viewer.close)
        self.assertEqual(len(viewer.get(trial)), 1)
        for call in (lambda: viewer.report(trial, ("2026-01-01T00:00:02Z", "Validation-accuracy", "0.6")), lambda: viewer.delete(trial)):
            with self.assertRaises(grpc.RpcError) as raised:
                call()
            self.assertEqual(raised.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
        self.assertEqual(len(self.store.get(trial)), 1)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
