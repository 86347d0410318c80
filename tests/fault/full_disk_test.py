"""The head is killed while the disk below it, its node and the program's standard error is full; there is room again; the head comes back."""

import os
import pathlib
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cluster as clusters  # noqa: E402
import faults  # noqa: E402
import machines  # noqa: E402
import work as works  # noqa: E402


class FullDisk(unittest.TestCase):
    def test_every_call_ends_after_the_head_was_killed_on_a_full_disk(self):
        cluster = clusters.Cluster(print)
        self.addCleanup(cluster.close)
        cluster.start("sqlite", None)
        work = works.Work(cluster, "counters", random.Random(1))
        work.machine = cluster.head
        work.output = cluster.head.home / "program.txt"
        work.start()
        self.addCleanup(work.kill)

        ballast = cluster.head.home / "ballast"
        faults.fill(ballast)
        # Calls end as before, but what actors print finds no room any more.
        begin = work.ended()
        size = [-1, 0.0]

        def output_is_stuck():
            faults.fill(ballast)  # The head gives room back: it shortens its journal.
            if work.output.stat().st_size != size[0]:
                size[:] = work.output.stat().st_size, time.monotonic()
            return time.monotonic() - size[1] > 1.5 and work.ended() > begin + 200

        machines.wait_until("the program's output meets the full disk", output_is_stuck, 120, work.said)
        os.kill(cluster.head_pid(), signal.SIGKILL)
        machines.wait_until("the killed head is gone", lambda: not cluster.head_pid(), 10)
        # Leases end after 3.5 s: the actors are parked, so that no call ends any more.
        counted = [-1, 0.0]

        def calls_wait():
            if work.ended() != counted[0]:
                counted[:] = work.ended(), time.monotonic()
            return time.monotonic() - counted[1] > 1

        machines.wait_until("calls wait for the leases", calls_wait, 30, work.said)
        ballast.unlink()
        cluster.start_head()
        machines.wait_until("calls end again", lambda: work.ended() > counted[0] + 200, works.BOUND_SECONDS, cluster.describe)
        print(work.finish())
        self.assertEqual(cluster.stop(), [])


if __name__ == "__main__":
    machines.main()
