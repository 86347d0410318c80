"""Only their owner can read results and other files of Volador, for any umask, unless VOLADOR_RESULTS_MODE allows it.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import pathlib
import stat
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from single_machine import BIN, Home  # noqa: E402

# What the run writes, by the names of files; so that a test that looks at nothing does not pass.
EXPECTED = ["experiment_state.json", "journal.vlj", "params.json", "result.json", "progress.csv", "stdout", "stderr", "archive.vla",
            "checkpoint.json", "notes.txt"]


def modes(folder):
    """{relative path: mode} of every file and folder below that stays while they are listed, without links and sockets."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        try:
            info = path.lstat()
        except FileNotFoundError:  # The head's own, such as the marker of an experiment that is open.
            continue
        if stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode):
            found[path] = info.st_mode
    return found


class Permissions(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def run_trials(self, umask, **environment):
        ran = self.home.run(BIN / "permissions_trials", self.home.path / "results", umask=umask, **environment)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        results = pathlib.Path(ran.stdout.strip().splitlines()[-1])
        names = {path.name for path in results.rglob("*")}
        for name in EXPECTED:
            self.assertIn(name, names)
        self.assertTrue(any("tfevents" in name for name in names))
        return self.home.path / "results"

    def check(self, folder, others_may=0):
        for path, mode in modes(folder).items():
            allowed = 0o700 if stat.S_ISDIR(mode) else 0o600
            if others_may:
                allowed |= others_may | ((others_may & 0o044) >> 2 if stat.S_ISDIR(mode) else 0)
            self.assertEqual(stat.S_IMODE(mode) & ~allowed, 0, f"{path}: {stat.S_IMODE(mode):04o}")

    def test_results_are_private_with_the_usual_umask(self):
        self.check(self.run_trials(0o022))

    def test_results_are_private_without_a_umask(self):
        self.check(self.run_trials(0o000))

    def test_the_group_reads_them_where_the_variable_says_so(self):
        folder = self.run_trials(0o022, VOLADOR_RESULTS_MODE="0640")
        self.check(folder, others_may=0o040)
        for path, mode in modes(folder).items():
            self.assertTrue(mode & 0o040 or path.name == "archive.vla" or path.name.startswith("part_"), f"{path}: {stat.S_IMODE(mode):04o}")

    def test_another_text_in_the_variable_is_refused_before_anything_starts(self):
        ran = self.home.run(BIN / "permissions_trials", self.home.path / "results", VOLADOR_RESULTS_MODE="rw-r--r--")
        self.assertEqual(ran.returncode, 1)
        self.assertIn('VOLADOR_RESULTS_MODE: expected the mode of a file', ran.stderr)
        self.assertFalse((self.home.path / "results").exists())

    def test_files_of_head_and_worker_are_private(self):
        started = self.home.run(BIN / "volador", "start", "--head", "--port=0", "--num-cpus=2", umask=0)
        self.assertEqual(started.returncode, 0, started.stderr)
        self.addCleanup(self.home.run, BIN / "volador", "stop")
        self.check(self.run_trials(0o000))
        home = self.home.path / "volador"
        names = {path.name for path in home.rglob("*")}
        for name in ("head.log", "worker.log", "access.json", "journal.db"):
            self.assertIn(name, names)
        files = {path: mode for path, mode in modes(home).items() if not stat.S_ISDIR(mode)}
        for path, mode in files.items():
            if "scratch" not in path.parts:  # Written by user code; other users cannot enter the folder.
                self.assertEqual(stat.S_IMODE(mode) & 0o077, 0, f"{path}: {stat.S_IMODE(mode):04o}")
        for path, mode in modes(home).items():
            if stat.S_ISDIR(mode) and "scratch" not in path.parts:
                self.assertEqual(stat.S_IMODE(mode), 0o700, path)


if __name__ == "__main__":
    unittest.main()
