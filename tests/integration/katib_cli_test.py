"""Katib's resources by the command line, on one machine with two workers: the real programs.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from experiment_server_test import Cluster  # noqa: E402
from katib_test import PRINTS, experiment  # noqa: E402
from single_machine import wait_until  # noqa: E402

# Prints its parameter from a file of the code folder, which the image had in /opt/mnist.
JOB = """
        apiVersion: batch/v1
        kind: Job
        spec:
          backoffLimit: 0
          template:
            spec:
              containers:
                - name: pytorch
                  workingDir: /opt/mnist
                  command: ["bash", "/opt/mnist/train.sh", "${trialParameters.rate}"]
                  args: [%s]
"""


class KatibCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        self.folder = self.cluster.home.path / "katib" / self.id().rsplit(".", 1)[1]
        self.folder.mkdir(parents=True)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def volador(self, *arguments, code=0):
        done = self.cluster.run(*arguments)
        self.assertEqual(done.returncode, code, f"volador {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done

    def status_of(self, kind, name):
        return json.loads(self.volador("get", kind, name, "-o", "json").stdout).get("status", {})

    def wait_condition(self, kind, name, *types):
        def has_ended():
            conditions = self.status_of(kind, name).get("conditions", [])
            return [one for one in conditions if one["type"] in types and one["status"] == "True"]

        return wait_until(f"{kind} {name} is {types}", has_ended)

    def test_an_experiment_is_applied_followed_and_deleted(self):
        code = self.folder / "code"
        code.mkdir()
        (code / "train.sh").write_text(PRINTS.replace("$lr", "$1") + "\n")
        file = self.file("tune.yaml", experiment("tune", "", most=3, spec=JOB))
        self.assertIn("created (server dry run)", self.volador("apply", "-f", file, "--dry-run=server").stdout)
        self.assertEqual(self.volador("apply", "-f", file, "--code", code).stdout, "experiment.kubeflow.org/tune created\n")
        self.assertEqual(self.volador("apply", "-f", file).stdout, "experiment.kubeflow.org/tune unchanged\n")
        self.wait_condition("experiment", "tune", "Succeeded", "Failed")
        title, row = self.volador("get", "experiment").stdout.splitlines()
        self.assertEqual(title.split(), ["NAME", "TYPE", "STATUS", "AGE"])
        self.assertEqual(row.split()[:3], ["tune", "Succeeded", "True"])
        shown = self.volador("describe", "experiment", "tune").stdout
        for part in ("Name:         tune\n", "API Version:  kubeflow.org/v1beta1\n", "  Current Optimal Trial:\n", "  Trials Succeeded:  3\n",
                     "Experiment has succeeded because max trial count has reached"):
            self.assertIn(part, shown)
        names = self.volador("get", "trial", "-l", "katib.kubeflow.org/experiment=tune", "-o", "name").stdout.split()
        self.assertEqual(len(names), 3)
        self.assertIn("epoch 2: Train-accuracy=0.75", self.volador("logs", names[0]).stdout)
        self.assertEqual(self.volador("delete", "-f", file).stdout, 'experiment.kubeflow.org "tune" deleted\n')
        self.volador("get", "experiment", "tune", code=6)

    def test_jobs_of_a_file_run_and_a_bad_file_changes_nothing(self):
        jobs = """
apiVersion: batch/v1
kind: Job
metadata: {name: hello}
spec: {template: {spec: {containers: [{name: main, image: busybox, command: [echo, hello]}]}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: ranks}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: {containers: [{name: pytorch, command: [bash, -c, 'echo master $RANK of $WORLD_SIZE']}]}}}
    Worker: {replicas: 1, template: {spec: {containers: [{name: pytorch, command: [bash, -c, 'echo worker $PET_NODE_RANK']}]}}}
"""
        bad = self.file("bad.yaml", jobs + "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: Bad}\nspec: {}\n")
        refused = self.volador("apply", "-f", bad, code=3).stderr
        self.assertIn('metadata.name: expected at most 63 lower-case letters, digits and "-"', refused)
        self.assertEqual(self.volador("get", "all").stdout, "")
        done = self.volador("apply", "-f", self.file("jobs.yaml", jobs))
        self.assertEqual(done.stdout, "job.batch/hello created\npytorchjob.kubeflow.org/ranks created\n")
        self.assertIn("images are not used", done.stderr)
        self.wait_condition("job", "hello", "Complete")
        self.wait_condition("pytorchjob", "ranks", "Succeeded")
        self.assertEqual(self.volador("logs", "job/hello").stdout, "hello\n")
        ranks = self.volador("logs", "pytorchjob/ranks").stdout
        self.assertIn("master 0 of 2", ranks)
        self.assertIn("worker 1", ranks)


if __name__ == "__main__":
    unittest.main()
