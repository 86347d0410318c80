"""A program that starts while the head of its cluster is away waits for it, and says so where it does not come back.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from single_machine import BIN, Home, wait_until  # noqa: E402


class HeadAway(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)
        self.start_head()

    def start_head(self):
        started = self.home.run(BIN / "volador", "start", "--head", "--cluster=heron", "--port=0", "--num-cpus=2", "--no-dashboard")
        self.assertEqual(started.returncode, 0, started.stdout + started.stderr)

    def kill_head(self):
        pid = int((self.home.path / "volador/clusters/heron/head/head.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        wait_until("the head has ended", lambda: pid not in self.home.pids())

    def test_it_joins_once_the_head_is_back(self):
        self.kill_head()
        output = self.home.path / "output"
        program = self.home.start(BIN / "hello_actor", output=output, VOLADOR_HEAD_WAIT="120s")
        wait_until("the program says that it waits", lambda: "waiting up to 120 s for the head of cluster \"heron\"" in output.read_text())
        self.assertIsNone(program.poll())
        self.start_head()
        self.assertEqual(program.wait(timeout=120), 0, output.read_text())
        self.assertIn("cluster heron", output.read_text())

    def test_it_ends_with_an_error_after_the_stated_time(self):
        self.kill_head()
        ran = self.home.run(BIN / "hello_actor", VOLADOR_HEAD_WAIT="1s")
        self.assertNotEqual(ran.returncode, 0)
        self.assertRegex(ran.stderr, r'the head of cluster "heron" at \S+ did not answer within 1 s')
        self.assertIn("volador start --head --cluster=heron", ran.stderr)
        self.assertIn("VOLADOR_ADDRESS=local", ran.stderr)
        self.assertNotIn("cluster private", ran.stdout + ran.stderr)

    def test_a_wrong_time_is_refused(self):
        ran = self.home.run(BIN / "hello_actor", VOLADOR_HEAD_WAIT="soon")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("VOLADOR_HEAD_WAIT", ran.stderr)

    def test_a_cluster_that_was_stopped_is_not_waited_for(self):
        stopped = self.home.run(BIN / "volador", "stop")
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        ran = self.home.run(BIN / "hello_actor")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("cluster private", ran.stdout)


if __name__ == "__main__":
    unittest.main()
