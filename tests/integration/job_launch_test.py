"""Jobs on two nodes whose launchers start processes on the other node: ssh inside a job, OpenMPI, MPICH, torch, DeepSpeed.

Two workers on one machine. Environment: VOLADOR_BIN, the folder of the programs. A launcher that is not installed is skipped.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import machines  # noqa: E402
from jobs_test import Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402

SUM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size, sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int mine = rank + 1;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  FILE* data = fopen("data.txt", "r");  /* of the code folder */
  printf("%d/%d %d %s %s\n", rank, size, sum, data ? "data" : "no data", getenv("VOLADOR_JOB_NODE"));
  fflush(stdout);
  MPI_Finalize();
  return argc > 1 ? atoi(argv[1]) : 0;
}
"""

TORCH = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(f"{dist.get_rank()}/{dist.get_world_size()} {total.item():g} {os.environ['VOLADOR_JOB_NODE']}", flush=True)
dist.destroy_process_group()
"""

# What the runner of DeepSpeed does: it reads the host file, asks each host by ssh, and starts its launcher by pdsh.
DEEPSPEED = """#!/bin/bash
file=${1#--hostfile=}
hosts=$(sed -n 's/^\\([^ ]*\\) slots=.*/\\1/p' $file | paste -sd,)
first=${hosts%%,*}
ssh -o PasswordAuthentication=no $first hostname > /dev/null || exit 9
PDSH_RCMD_TYPE=ssh pdsh -S -f 1024 -w $hosts "export A=b; cd $PWD; echo node %n of $hosts, \\$A, \\$VOLADOR_JOB_NODE, $2"
"""


def installed(*programs):
    return all(shutil.which(program) for program in programs)


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch.distributed"], capture_output=True, check=False).returncode == 0


class TwoNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def follow(self, mode, *words, options=("--no-code",), code=0):
        ran = self.cluster.run("job", "submit", "--follow", "--nodes=2", f"--mode={mode}", *options, "--", *words)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return [line.removeprefix("[0] ").removeprefix("[1] ") for line in ran.stdout.splitlines()]

    # Only the first node has a command.
    def shell(self, script, **options):
        return self.follow("mpi", "bash", "-c", ": mpirun; " + script, **options)


class Remote(TwoNodes):
    """ssh inside a job."""

    def test_ssh_runs_commands_on_the_nodes_of_the_job(self):
        lines = self.shell("ssh server2 'echo $VOLADOR_JOB_RANK on $VOLADOR_JOB_NODE; exit 7'; echo code $?; echo word | rsh -l me server2 cat; "
                           "ssh -x -o A=b user@server1 'echo $VOLADOR_JOB_RANK'; ssh server2 'kill -9 $$'; echo code $?; echo $VOLADOR_JOB_NODE")
        here, there = ("west", "east") if lines[-1] == "west" else ("east", "west")
        self.assertEqual(lines, [f"1 on {there}", "code 7", "word", "0", "code 137", here])

    def test_what_ssh_cannot_do_is_refused(self):
        path = "PATH=${PATH%%:*}:/nothing; "
        lines = self.shell("exec 2>&1; " + path + "ssh server9 true; echo $?; ssh -V; echo $?; ssh server2; echo $?")
        self.assertRegex(lines[0], r"^ssh: server9 is no node of this job; its nodes are server1 \((west|east), 127.0.0.1\), server2")
        self.assertEqual([lines[1], lines[3], lines[5]], ["255"] * 3)
        self.assertIn("-V runs no command", lines[2])
        self.assertIn("expected a command for server2", lines[4])

    def test_much_output_and_many_commands_at_a_time(self):
        lines = self.shell("ssh server2 'head -c 100M /dev/zero' | wc -c; head -c 20M /dev/zero | ssh server2 wc -c; "
                           "for i in $(seq 64); do ssh -n server2 echo $i & done | sort -n | paste -sd+ | bc; wait; "
                           "(yes | ssh server2 cat) | head -c 1000000 | wc -c")
        self.assertEqual(lines, [str(100 << 20), str(20 << 20), str(64 * 65 // 2), "1000000"])

    def test_a_signal_ends_the_command_and_so_does_the_end_of_ssh(self):
        self.shell("ssh server2 'trap \"echo got; exit 3\" TERM; touch /tmp/$VOLADOR_JOB_ID.up; while :; do sleep 0.1; done' & "
                   "until [ -e /tmp/$VOLADOR_JOB_ID.up ]; do sleep 0.05; done; rm /tmp/$VOLADOR_JOB_ID.up; kill $!; wait $!; exit $?", code=3)
        lines = self.shell("ssh server2 'echo $$ > /tmp/$VOLADOR_JOB_ID.pid; exec sleep 1000' & "
                           "until [ -s /tmp/$VOLADOR_JOB_ID.pid ]; do sleep 0.05; done; pid=$(cat /tmp/$VOLADOR_JOB_ID.pid); "
                           "rm /tmp/$VOLADOR_JOB_ID.pid; kill -9 $!; while kill -0 $pid; do sleep 0.05; done; echo ended")
        self.assertIn("ended", lines)

    def test_commands_end_with_the_job(self):
        self.shell("ssh server2 'setsid sleep 5432.5 & exec sleep 5432.5' & sleep 0.3; exit 0")

        def left():
            return [pid for pid in self.cluster.home.pids()
                    if b"5432.5" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() and os.path.exists(f"/proc/{pid}")]

        wait_until("nothing is left", lambda: not left())

    def test_a_command_waits_for_the_setup_of_its_node(self):
        lines = self.shell("ssh server2 cat made", options=("--no-code", "--setup=sleep $VOLADOR_JOB_RANK; echo $VOLADOR_JOB_RANK > made"))
        self.assertEqual(lines, ["1"])

    def test_a_node_that_is_lost_ends_its_commands(self):
        job = self.cluster.submit("--no-code", "--nodes=2", "--mode=mpi", "--", "bash", "-c",
                                  ": mpirun; trap '' TERM; ssh server2 'echo up $PPID; exec sleep 1000'; echo code $?")
        logs = wait_until("it runs", lambda: text if "up" in (text := self.cluster.run("job", "logs", job).stdout) else "")
        host = int(logs.split("up ")[1].split()[0])
        os.kill(host, signal.SIGKILL)
        self.cluster.wait_state(job, "failed", "queued", "succeeded")
        ended = self.cluster.run("job", "logs", job).stdout
        self.assertIn("code 255", ended)
        self.assertIn("server2 (node ", ended)

    @unittest.skipUnless(shutil.which("bwrap"), "bubblewrap is not installed")
    def test_isolated_commands_have_names_and_the_same_directory(self):
        lines = self.shell("hostname; ssh server2 'hostname; pwd; grep -c server2 /etc/hosts; touch /etc/x || echo no'", options=("--no-code", "--isolated"))
        job = lines[0].removesuffix("-0")
        self.assertEqual([line for line in lines if not line.startswith("touch")], [f"{job}-0", f"{job}-1", "/run/volador/job/code", "1", "no"])


class Launchers(TwoNodes):
    """Real launchers, and programs in the code folder."""

    def build(self, compiler):
        code = self.cluster.work / compiler
        code.mkdir(exist_ok=True)
        (code / "data.txt").write_text("data\n")
        source = self.cluster.home.path / "sum.c"
        source.write_text(SUM)
        subprocess.run([compiler, source, "-o", code / "sum"], check=True)
        return f"--code={code}"

    def sums(self, lines, size):
        found = sorted(line for line in lines if f"/{size} " in line)
        total = size * (size + 1) // 2
        self.assertEqual([line.rsplit(" ", 1)[0] for line in found], [f"{i}/{size} {total} data" for i in range(size)], lines)
        return found

    @unittest.skipUnless(installed("mpirun.openmpi", "mpicc.openmpi"), "OpenMPI is not installed")
    def test_openmpi_runs_on_both_nodes(self):
        code = self.build("mpicc.openmpi")
        for mode in ("mpi", "horovod"):
            found = self.sums(self.follow(mode, "./sum", options=(code,)), 2)
            self.assertEqual(sorted(line.rsplit(" ", 1)[1] for line in found), ["east", "west"])
            self.follow(mode, "./sum", "3", options=(code,), code=3)

    @unittest.skipUnless(installed("mpirun.openmpi", "mpicc.openmpi", "bwrap"), "OpenMPI or bubblewrap is not installed")
    def test_openmpi_runs_isolated_with_two_processes_a_node(self):
        found = self.sums(self.follow("mpi", "bash", "-c", "mpirun --oversubscribe --allow-run-as-root -np 4 -map-by ppr:2:node ./sum",
                                      options=(self.build("mpicc.openmpi"), "--isolated")), 4)
        self.assertEqual(sorted(line.rsplit(" ", 1)[1] for line in found), ["east", "east", "west", "west"])

    @unittest.skipUnless(installed("mpiexec.mpich", "mpicc.mpich"), "MPICH is not installed")
    def test_mpich_runs_on_both_nodes(self):
        for isolated in [[], ["--isolated"]] if installed("bwrap") else [[]]:
            with self.subTest(isolated):
                # MPICH 4.0 with UCX sometimes does not return from MPI_Finalize; the sums are what counts.
                script = "timeout 20 env -u HYDRA_IFACE mpiexec.mpich -np 4 ./sum; exit 0"
                self.sums(self.shell(script, options=(self.build("mpicc.mpich"), *isolated)), 4)

    @unittest.skipUnless(installed("pdsh"), "pdsh is not installed")
    def test_the_calls_of_deepspeed_reach_both_nodes(self):
        code = self.cluster.work / "deepspeed"
        code.mkdir(exist_ok=True)
        (code / "deepspeed").write_text(DEEPSPEED)
        (code / "deepspeed").chmod(0o755)
        lines = sorted(self.follow("deepspeed", "./deepspeed", "train.py", options=(f"--code={code}",)))
        self.assertRegex(lines[0], "^server1: node 0 of server1,server2, b, (east|west), train.py$")
        self.assertRegex(lines[1], "^server2: node 1 of server1,server2, b, (east|west), train.py$")

    @unittest.skipUnless(has_torch(), "torch is not installed")
    def test_torch_and_torchrun_join_the_processes_of_both_nodes(self):
        code = self.cluster.work / "torch"
        code.mkdir(exist_ok=True)
        (code / "train.py").write_text(TORCH)
        pass_on = [f"--env={name}={os.environ[name]}" for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ]
        for mode in ("torch", "torchrun"):
            lines = self.follow(mode, sys.executable if sys.executable.endswith(("python", "python3")) else shutil.which("python3"), "train.py",
                                options=(f"--code={code}", "--env=OMP_NUM_THREADS=1", "--gpus=0", *pass_on))
            self.assertEqual(sorted(line.rsplit(" ", 1)[0] for line in lines if "/2 3" in line), ["0/2 3", "1/2 3"], lines)


@unittest.skipUnless(machines.can_make_namespaces(), "network namespaces cannot be made here (needs root)")
class TwoMachines(machines.LanTest):
    """Two machines with addresses of their own: connections between the processes of a launcher."""

    machine_count = 2

    def follow(self, *arguments):
        return self.head.volador("job", "submit", "--follow", "--nodes=2", *arguments, check=False, timeout=100)

    @unittest.skipUnless(installed("mpirun.openmpi", "mpicc.openmpi", "bwrap"), "OpenMPI or bubblewrap is not installed")
    def test_openmpi_connects_two_machines(self):
        code = self.lan.directory / "code"
        code.mkdir()
        (code / "data.txt").write_text("data\n")
        (self.lan.directory / "sum.c").write_text(SUM)
        subprocess.run(["mpicc.openmpi", self.lan.directory / "sum.c", "-o", code / "sum"], check=True)
        ran = self.follow(f"--code={code}", "--isolated", "--mode=mpi", "--", "bash", "-c",
                          "mpirun --oversubscribe --allow-run-as-root -np 4 -map-by ppr:2:node ./sum")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(sorted(line for line in ran.stdout.splitlines() if "/4" in line),
                         [f"[0] {i}/4 10 data m{i // 2 + 1}" for i in range(4)])
        # The link to the code folder, without a sandbox.
        ran = self.follow(f"--code={code}", "--mode=horovod", "--", "./sum")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(sorted(line for line in ran.stdout.splitlines() if "/2" in line), ["[0] 0/2 3 data m1", "[0] 1/2 3 data m2"])

    @unittest.skipUnless(shutil.which("bwrap"), "bubblewrap is not installed")
    def test_names_and_addresses_lead_to_the_nodes(self):
        there = self.lan.machines[1].address
        ran = self.follow("--no-code", "--isolated", "--mode=mpi", "--", "bash", "-c",
                          f": mpirun; getent hosts server2; ssh {there} 'echo $VOLADOR_JOB_NODE; getent hosts server1'; echo $PWD > x; ssh server2 echo $PWD")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        lines = [line.removeprefix("[0] ").split() for line in ran.stdout.splitlines()]
        self.assertEqual(lines[0][:2], [there, "server2"])
        self.assertEqual(lines[1], ["m2"])
        self.assertEqual(lines[2][:2], [self.head.address, "server1"])


if __name__ == "__main__":
    unittest.main()
