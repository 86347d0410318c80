"""A program reads environment and volador.yaml as the commands do, and says so where it has a cluster of its own.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from single_machine import BIN, Home  # noqa: E402

PRIVATE = "volador: no cluster runs here: this program has a private one"


class ProgramSettings(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def program(self, **more):
        return self.home.run(BIN / "hello_actor", cwd=self.home.path, **more)

    def settings(self, text):
        (self.home.path / "volador.yaml").write_text(text)

    def test_a_private_cluster_says_so_in_one_line(self):
        ran = self.program()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        said = [line for line in ran.stderr.splitlines() if line.startswith("volador: ")]
        self.assertEqual(len(said), 1, ran.stderr)
        self.assertIn(PRIVATE, said[0])

    def test_one_that_was_asked_for_says_nothing(self):
        self.assertNotIn(PRIVATE, self.program(VOLADOR_ADDRESS="local").stderr)
        self.settings("address: local\n")
        ran = self.program()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn(PRIVATE, ran.stderr)

    def test_the_file_says_which_cluster(self):
        for name in ("heron", "crane"):  # The one started last is the default.
            started = self.home.run(BIN / "volador", "start", "--head", f"--cluster={name}", "--port=0", "--num-cpus=1", "--no-dashboard")
            self.assertEqual(started.returncode, 0, started.stderr)
        self.assertIn("cluster crane", self.program().stdout)
        self.settings("cluster: heron\n")
        self.assertIn("cluster heron", self.program().stdout)
        access = json.loads((self.home.path / "volador/clusters/heron/access.json").read_text())
        (self.home.path / "token").write_text(access["token"] + "\n")
        self.settings(f"address: {access['address']}\ntoken_file: token\n")
        self.assertIn("cluster heron", self.program().stdout)
        ran = self.program(VOLADOR_CLUSTER="crane")
        self.assertIn("belongs to another cluster", ran.stderr, "the token is the other cluster's: the environment goes before the file")
        elsewhere = self.home.path / "elsewhere.yaml"
        elsewhere.write_text("cluster: crane\n")
        self.assertIn("cluster crane", self.program(VOLADOR_CONFIG=str(elsewhere)).stdout)

    def test_what_is_wrong_in_the_file_is_named(self):
        self.settings("port: 6380\nadress: local\n")
        ran = self.program()
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("volador.yaml:2:1", ran.stderr)
        self.assertIn("address", ran.stderr)
        self.settings("cluster: nowhere\n")
        self.assertIn("nowhere", self.program().stderr)
        ran = self.program(VOLADOR_CONFIG="/nowhere/volador.yaml")
        self.assertIn("/nowhere/volador.yaml", ran.stderr)

    def test_a_private_cluster_offers_what_the_file_says(self):
        self.settings("address: local\nnum_cpus: 3\n")
        self.assertIn("cpus 3,", self.program().stdout)


if __name__ == "__main__":
    unittest.main()
