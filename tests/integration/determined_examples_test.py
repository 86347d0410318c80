"""The examples in examples/determined: each trains here, by python -m volador.determined, and in a cluster with two workers, to a metric that a training
that does not work misses.

Environment: VOLADOR_BIN, the folder of the programs; PYTHONPATH with the package, PyTorch and PyYAML. Exit code 77: they are not there.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
    from volador.compat.determined.experimental import client
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from experiment_server_test import Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "determined"
SECONDS = 240

# The metric that each configuration reaches at its end; the first untrained model is far from it.
REACHED = {
    "mnist_pytorch": ("accuracy", 0.7, 1.0),
    "cifar10_pytorch": ("validation_accuracy", 0.9, 1.0),
    "gan_mnist_pytorch": ("distance", 0.0, 0.15),
    "core_api": ("validation_loss", 0.0, 0.02),
}


class Here(unittest.TestCase):
    """In one process, without a cluster."""

    def train(self, config, *options):
        """What it printed."""
        with tempfile.TemporaryDirectory() as output:
            done = subprocess.run(
                [sys.executable, "-m", "volador.determined", config, "--output", output, *options],
                env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False, timeout=SECONDS,
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def reaches(self, folder, config="const.yaml"):
        metric, least, most = REACHED[folder]
        said = self.train(EXAMPLES / folder / config)
        values = [float(value) for value in re.findall(rf"^batch \d+  validation  .*?\b{metric} (\S+)", said, re.MULTILINE)]
        self.assertTrue(values, said)
        self.assertTrue(least <= values[-1] <= most, said)

    def test_mnist(self):
        self.reaches("mnist_pytorch")

    def test_cifar10(self):
        self.reaches("cifar10_pytorch")

    def test_gan(self):
        self.reaches("gan_mnist_pytorch")

    def test_core_api_step_by_step(self):
        said = self.train(EXAMPLES / "core_api" / "start.yaml")
        self.assertLess(float(re.findall(r"loss (\S+)", said)[-1]), 0.02, said)
        for config in ("metrics.yaml", "checkpoints.yaml", "const.yaml"):
            self.reaches("core_api", config)


class InACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        os.environ.update(VOLADOR_ADDRESS=cls.cluster.head_address(), VOLADOR_TOKEN=cls.cluster.token)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def train(self, folder, config):
        """The completed experiment."""
        created = json.loads(self.cluster.must("experiment", "create", EXAMPLES / folder / config, EXAMPLES / folder, "--json"))
        experiment = client.get_experiment(created["experiment"]["id"])
        wait_until(f"experiment {experiment.id} has ended", lambda: experiment.reload().state.value in ("COMPLETED", "ERROR", "CANCELED"), SECONDS)
        said = [line for trial in experiment.get_trials() for line in trial.logs()]
        self.assertEqual(experiment.state.value, "COMPLETED", "\n".join([experiment.reason, *said[-60:]]))
        return experiment

    def reaches(self, folder, config):
        """The trials and the last validation of each; the best one has reached the metric."""
        metric, least, most = REACHED[folder]
        trials = self.train(folder, config).get_trials()
        last = [[report.metrics for report in trial.iter_metrics("validation")][-1] for trial in trials]
        self.assertTrue(any(least <= metrics[metric] <= most for metrics in last), last)
        return trials, last

    def test_pytorch_trials(self):
        for folder in ("mnist_pytorch", "cifar10_pytorch", "gan_mnist_pytorch"):
            with self.subTest(folder):
                trials, _ = self.reaches(folder, "const.yaml")
                self.assertEqual(len(trials), 1)

    def test_a_distributed_trial(self):
        self.reaches("mnist_pytorch", "distributed.yaml")

    def test_core_api_step_by_step(self):
        self.assertEqual([trial.state.value for trial in self.train("core_api", "start.yaml").get_trials()], ["COMPLETED"])
        for config in ("metrics.yaml", "checkpoints.yaml", "const.yaml"):
            with self.subTest(config):
                self.reaches("core_api", config)
        _, (last,) = self.reaches("core_api", "distributed.yaml")
        self.assertEqual(last["processes"], 2)

    def test_core_api_search(self):
        trials, _ = self.reaches("core_api", "adaptive.yaml")
        self.assertEqual(len(trials), 6)
        self.assertEqual({trial.state.value for trial in trials}, {"COMPLETED"})
        self.assertLess(min(trial.steps_completed for trial in trials), 100)  # Some were stopped early.

    def test_a_search_of_classes(self):
        trials, _ = self.reaches("gan_mnist_pytorch", "adaptive.yaml")
        self.assertEqual(len(trials), 6)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
