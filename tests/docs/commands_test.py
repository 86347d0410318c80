"""Runs commands of docs/deployment.md as they stand there, and reads its scripts, units and manifests.

Environment: VOLADOR_BIN, the folder of the programs. Exit code 77 where the binary is not there.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin")).resolve()
DEPLOY = ROOT / "docs" / "deploy"


def block_of(heading):
    """The first block of commands below the heading."""
    page = (ROOT / "docs" / "deployment.md").read_text()
    return re.search(rf"^## {heading}$.*?^```\n(.*?)^```$", page, re.S | re.M)[1]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Commands(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="vc-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("VOLADOR_")}
        self.environment = {**kept, "HOME": self.home, "VOLADOR_HOME": self.home, "PATH": f"{BIN}:{kept['PATH']}"}

    def run_lines(self, text):
        return subprocess.run(["bash", "-ec", text], cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=100, check=False,
                              stdin=subprocess.DEVNULL)

    def test_several_nodes_run_on_one_machine(self):
        self.addCleanup(self.run_lines, "volador stop --all --yes")
        port = str(free_port())
        text = block_of("Several nodes on one machine").replace("6380", port).replace("--head", f"--head --port={port}")
        ran = self.run_lines(text)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for name in "abc":
            self.assertRegex(ran.stdout, rf"(?m)^{name} .*alive")
        self.assertIn("zone=b", ran.stdout)
        self.assertIn("stopped", ran.stdout)

    def test_the_guide_of_jobs_runs(self):
        self.addCleanup(self.run_lines, "volador stop --all --yes")
        page = (ROOT / "docs" / "guides" / "jobs.md").read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.S | re.M)
        yaml = re.search(r"^```yaml\n(.*?)^```$", page, re.S | re.M)[1]
        text = "".join(blocks).replace("--head", "--head --port=0 --no-dashboard")
        text = text.replace("18080", str(free_port())).replace("18081", str(free_port()))
        text += f"cat > job.yaml <<'END'\n{yaml}END\nvolador job submit --file=job.yaml --name=from-yaml --follow\n"
        ran = self.run_lines(text)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertGreaterEqual(ran.stdout.count("gpus 0"), 2)
        self.assertIn("starts now", ran.stdout)
        self.assertIn("no node has any cpus free", ran.stdout)
        self.assertIn("a page of the job", ran.stdout)

    def test_the_guide_of_the_queue_runs(self):
        self.addCleanup(self.run_lines, "volador stop --all --yes")
        page = (ROOT / "docs" / "guides" / "queue.md").read_text()
        text = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.S | re.M))
        ran = self.run_lines(text.replace("--head", "--head --port=0 --no-dashboard"))
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("may hold gpus 1 and holds gpus 1", ran.stdout)
        self.assertRegex(ran.stdout, r"preemptions +1")

    def test_the_guide_of_notifications_runs(self):
        self.addCleanup(self.run_lines, "volador stop --all --yes")
        page = (ROOT / "docs" / "guides" / "notifications.md").read_text()
        text = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.S | re.M))
        ran = self.run_lines("export no_proxy='*'\n" + text.replace("--head", "--head --port=0 --no-dashboard").replace("8123", str(free_port())))
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("of-the-project failed: on node", ran.stdout)
        self.assertIn("by-name failed: on node", ran.stdout)
        self.assertIn('password: "***"', ran.stdout)

    def test_the_guide_of_users_runs(self):
        self.addCleanup(self.run_lines, "volador stop --all --yes")
        page = (ROOT / "docs" / "guides" / "users.md").read_text()
        text = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.S | re.M))
        ran = self.run_lines(text.replace("--head", "--head --port=0 --no-dashboard"))
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("user kim, with token", ran.stdout)
        self.assertIn("member of vision", ran.stdout)

    def test_flags_of_scripts_units_and_manifests_exist(self):
        started = self.run_lines("volador start --help").stdout
        texts = {path: path.read_text() for path in DEPLOY.rglob("*") if path.is_file()}
        flags = {flag for text in texts.values() for start in re.findall(r"volador start (?:[^\n]|\\\n)*|args: \[start.*", text)
                 for flag in re.findall(r"--[a-z][a-z-]*", start)}
        self.assertLessEqual({"--head", "--block", "--address", "--token-file"}, flags)
        for flag in flags - {"--json"}:
            self.assertIn(flag + " ", started)

    def test_the_script_of_slurm_is_read_by_bash(self):
        ran = self.run_lines(f"bash -n {DEPLOY / 'slurm' / 'volador.sbatch'}")
        self.assertEqual(ran.returncode, 0, ran.stderr)


if __name__ == "__main__":
    if not (BIN / "volador").exists():
        sys.exit(77)
    unittest.main()
