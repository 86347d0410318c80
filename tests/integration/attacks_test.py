"""A head under attack at its port serves those who show a token, and is as before when the attack ends.

The head may open 1,024 descriptors at most, fewer than the connections of the attack; all come from one address, as do the others'.
Environment: VOLADOR_BIN, the folder of the programs.
"""

import json
import pathlib
import resource
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from single_machine import BIN, Home, wait_until  # noqa: E402

SECONDS = 8
CONNECTIONS = 20_000


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))


class Attacks(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)
        started = self.home.run(BIN / "volador", "start", "--head", "--cluster=heron", "--port=0", "--num-cpus=2", limits=few_descriptors)
        self.assertEqual(started.returncode, 0, started.stdout + started.stderr)
        folder = self.home.path / "volador/clusters/heron"
        self.port = json.loads((folder / "access.json").read_text())["address"].rsplit(":", 1)[1]
        self.head = int((folder / "head/head.pid").read_text().split()[0])

    def check_service(self):
        """A new peer that shows a token, and a program that runs an actor."""
        status = self.home.run(BIN / "volador", "status", "--timeout=60s")
        self.assertEqual(status.returncode, 0, status.stdout + status.stderr)
        program = self.home.run(BIN / "hello_actor")
        self.assertEqual(program.returncode, 0, program.stdout + program.stderr)
        self.assertIn("cluster heron", program.stdout)

    def descriptors(self):
        return len(list(pathlib.Path(f"/proc/{self.head}/fd").iterdir()))

    def attack(self, name):
        before = self.descriptors()
        output = self.home.path / "attack"
        attacker = self.home.start(BIN / "attack_bench", "attack", name, self.port, SECONDS, CONNECTIONS, output=output)
        wait_until("the attack is under way", lambda: "attacking" in output.read_text())
        self.check_service()
        self.assertEqual(attacker.wait(timeout=120), 0, output.read_text())
        counted = dict(zip(*[iter(output.read_text().split("\n")[1].split())] * 2))
        self.check_service()
        wait_until("the head has closed the connections of the attack", lambda: self.descriptors() <= before + 8)
        return {key: int(value) for key, value in counted.items()}

    def test_silent_connections(self):
        counted = self.attack("silent")
        self.assertGreater(counted["connections"], 1_500)
        self.assertGreater(counted["ended"], 0)

    def test_garbage(self):
        counted = self.attack("garbage")
        self.assertGreater(counted["ended"], 0)

    def test_handshakes(self):
        self.assertGreater(self.attack("handshakes")["connections"], 0)

    def test_resets(self):
        counted = self.attack("resets")
        self.assertGreater(counted["ended"], 0)
        # Each connection ends after a bounded number of bytes: the limit, and what a tick and the sockets' buffers hold.
        self.assertLess(counted["bytes"], counted["connections"] * (16 << 20))


if __name__ == "__main__":
    unittest.main()
