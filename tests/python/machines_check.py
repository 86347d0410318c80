"""A Python program on a cluster of two machines (network namespaces): machines_check.py [Python.test …]. Exit code 77: not run."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integration"))
import machines  # noqa: E402


class Python(machines.LanTest):
    machine_count = 2

    def program(self, script):
        return self.head.command(sys.executable, "-c", textwrap.dedent(script))

    def environment(self):
        return self.head.environment(PYTHONPATH=os.environ["PYTHONPATH"])

    def run_program(self, script):
        done = subprocess.run(self.program(script), env=self.environment(), capture_output=True, text=True, timeout=90)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.split()

    def test_actors_tasks_and_objects_of_two_machines(self):
        said = self.run_program(
            """
            import numpy, volador
            volador.init()
            class There(volador.Actor):
                def __init__(self, array): self.array = array
                def total(self, other): return float(self.array.sum() + other.sum())
                def keep(self): return volador.put(self.array * 2)
                def node(self): return volador.get_runtime_context()["node"]
            array = numpy.arange(1_000_000, dtype=numpy.float64)
            actor = There.options(node="m2").remote(volador.put(array))
            print(actor.node.remote().result(), actor.total.remote(array).result() == 2 * array.sum())
            print((actor.keep.remote().result().get() == array * 2).all())
            @volador.task
            def node(): return volador.get_runtime_context()["node"]
            print(volador.get(node.options(node="m1").remote()), volador.get(node.options(node="m2").remote()))
            """
        )
        self.assertEqual(said, ["m2", "True", "True", "m1", "m2"])
        self.stop_all()

    def test_a_lost_machine_ends_no_program_whose_actors_may_restart(self):
        program = subprocess.Popen(
            self.program(
                """
                import sys, volador
                volador.init()
                class Count(volador.Actor):
                    def __init__(self): self.value = 0
                    def add(self): self.value += 1; return self.value, volador.get_runtime_context()["node"]
                    def save_checkpoint(self, directory): open(directory + "/value", "w").write(str(self.value))
                    def load_checkpoint(self, directory): self.value = int(open(directory + "/value").read())
                actor = Count.options(prefer_node="m2", max_restarts=1, max_task_retries=1, checkpoint_every=1).remote()
                print(*[actor.add.remote().result() for _ in range(3)][-1], flush=True)
                sys.stdin.readline()
                print(*actor.add.remote().result(timeout=60), flush=True)
                """
            ),
            env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "3 m2\n")
        self.lan.machines[1].signal_all(signal.SIGKILL)
        program.stdin.write("\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "4 m1\n")
        self.assertEqual(program.wait(30), 0)


if __name__ == "__main__":
    machines.main()
