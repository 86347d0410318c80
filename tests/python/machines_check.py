"""A Python program on a cluster of two machines (network namespaces): machines_check.py [Python.test …]. Exit code 77: not run."""

import importlib.util
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integration"))
import machines  # noqa: E402


class Python(machines.LanTest):
    machine_count = 2

    def program(self, script):
        return self.head.command(sys.executable, "-c", textwrap.dedent(script))

    def environment(self):
        return self.head.environment(PYTHONPATH=os.environ["PYTHONPATH"], LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH", ""))

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

    def test_a_debugger_on_another_machine_is_attached_to(self):
        program = subprocess.Popen(
            self.program(
                """
                import sys, volador
                volador.init()
                class There(volador.Actor):
                    def double(self, value):
                        breakpoint()
                        return 2 * value
                actor = There.options(name="there", node="m2").remote()
                print(actor.double.remote(20).result(timeout=80), flush=True)
                sys.stdin.readline()
                """
            ),
            env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(lambda: program.poll() is not None or program.kill())
        for line in program.stderr:
            if "attach with `volador debug there`" in line:
                break
        master, slave = pty.openpty()
        debug = subprocess.Popen(self.head.command(machines.BIN / "volador", "debug", "there"), env=self.environment(), stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self.assertIn("(Pdb) ", self.text_until(master, "(Pdb) "))
        os.write(master, b"value = 4\n")
        self.text_until(master, "(Pdb) ")
        os.write(master, b"c\n")
        self.assertIn("the call goes on", self.text_until(master, "the call goes on"))
        self.assertEqual(debug.wait(30), 0)
        os.close(master)
        self.assertEqual(program.communicate("\n", timeout=60)[0].split(), ["8"])
        self.stop_all()

    def text_until(self, terminal, end):
        text = ""
        while end not in text:
            self.assertTrue(select.select([terminal], [], [], 60)[0], text)
            try:
                text += os.read(terminal, 65536).decode()
            except OSError:
                self.fail(f"the terminal was closed after {text!r}")
        return text

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

    def test_a_large_result_that_is_lost_with_its_machine_is_made_again(self):
        program = subprocess.Popen(
            self.program(
                """
                import sys, numpy, volador
                volador.init()
                @volador.task(num_cpus=0.5)
                def make(seed): return numpy.arange(50_000) + seed
                @volador.task(num_cpus=0.5)
                def total(array): return int(array.sum())
                made = make.options(prefer_node="m2").remote(1)
                volador.wait([made])
                print("made", flush=True)
                sys.stdin.readline()
                print(total.options(node="m1").remote(made).result(timeout=60) == sum(range(1, 50_001)), flush=True)
                """
            ),
            env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.addCleanup(lambda: program.poll() is not None or program.kill())
        self.assertEqual(program.stdout.readline(), "made\n")
        self.lan.machines[1].signal_all(signal.SIGKILL)
        said, _ = program.communicate("\n", timeout=80)
        self.assertEqual((said, program.returncode), ("True\n", 0))

    def test_modules_and_files_of_the_program_travel_with_it(self):
        # The program's folder is in mounts of its own, as on a machine of its own.
        folder = self.lan.directory / "program"
        folder.mkdir()
        script = f"""
            import ctypes, os, subprocess, sys
            folder = "{folder}"
            assert ctypes.CDLL(None).unshare(0x20000) == 0  # CLONE_NEWNS
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
            folder += "/project"  # It is not there on the nodes.
            os.makedirs(folder + "/models")
            open(folder + "/models/__init__.py", "w").write("def double(x): return 2 * x")
            open(folder + "/settings.txt", "w").write("width=8")
            open(folder + "/secret.bin", "w").write("x" * 1000)
            open(folder + "/.voladorignore", "w").write("*.bin\\nhidden.py")
            open(folder + "/hidden.py", "w").write("def work(): pass")
            sys.path[0] = folder
            os.chdir(folder)
            import models, volador
            from volador import tune
            class There(volador.Actor):
                def work(self, x): return models.double(x), open("settings.txt").read(), os.path.exists("secret.bin")
                def nested(self): return volador.task(models.double).options(node="m1").remote(21).result()
            @volador.task
            def there(x): return models.double(x), volador.get_runtime_context()["node"]
            def trial(config): tune.report({{"score": models.double(config["x"])}})
            volador.init()
            for node in ("m1", "m2"):
                actor = There.options(node=node).remote()
                print(*actor.work.remote(5).result(), *there.options(node=node).remote(4).result(), actor.nested.remote().result())
            print(tune.run(trial, space={{"x": tune.grid_search([1, 2, 3])}}, metric="score", storage_path=folder + "/r", progress="silent").best_result["score"])
            import hidden
            try: volador.task(hidden.work).options(node="m2").remote().result()
            except ModuleNotFoundError as error: print(str(error).partition(", with ")[0].replace(" ", "_"))
            """
        said = self.run_program(script)
        self.assertEqual(said, "10 width=8 False 8 m1 42 10 width=8 False 8 m2 42 6.0 No_module_named_'hidden'_on_node_m2".split())
        self.stop_all()

    TRAIN = """
        import ctypes, os, subprocess, sys, volador
        from volador import train

        def loop(config):
            import torch
            from volador.train import torch as train_torch
            torch.manual_seed(0)
            model = train_torch.prepare_model(torch.nn.Linear(3, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            context, begin = train.get_context(), 0
            if checkpoint := train.get_checkpoint():
                saved = torch.load(checkpoint.path + "/state.pt")
                begin = saved["epoch"]
                getattr(model, "module", model).load_state_dict(saved["model"])
            nodes = [None] * context.world_size
            torch.distributed.all_gather_object(nodes, volador.get_runtime_context()["node"])
            while config["waits"] and context.world_size == 1 and begin == 0:  # Until the second machine takes part.
                with train.checkpoint_folder() as folder:
                    torch.save({"epoch": 0, "model": model.state_dict()}, folder + "/state.pt")
                    train.report({}, checkpoint=folder)
            for epoch in range(begin, 6):
                x = torch.ones(2, 3) * (context.rank + 1)
                loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                with train.checkpoint_folder() as folder:
                    if context.rank == 0:
                        torch.save({"epoch": epoch + 1, "model": getattr(model, "module", model).state_dict()}, folder + "/state.pt")
                    metrics = {"epoch": epoch, "begin": begin, "nodes": "+".join(sorted(nodes))}
                    train.report(metrics, checkpoint=folder if context.rank == 0 else None)
                if epoch == 3 and begin == 0 and config["waits"]:
                    open(config["waits"], "w").close()
                    while True:
                        torch.distributed.barrier()

        def fit(storage, waits="", **options):
            volador.init()
            result = train.TorchTrainer(loop, config={"waits": waits}, storage=storage, hang_timeout=10, **options).fit()
            kept = os.listdir(result.checkpoint.path)
            print(result.metrics["epoch"], result.metrics["begin"], result.metrics["nodes"], result.failures, *kept, flush=True)
        """

    def training(self, script):
        return textwrap.dedent(self.TRAIN) + textwrap.dedent(script)

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "PyTorch is not there")
    def test_trains_on_two_machines_that_share_no_folder(self):
        # The program's folder is in mounts of its own, which no worker sees.
        storage = self.lan.directory / "results"
        storage.mkdir()
        said = self.run_program(self.training(f"""
            assert ctypes.CDLL(None).unshare(0x20000) == 0  # CLONE_NEWNS
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "{storage}"], check=True)
            fit("{storage}", num_workers=2, strategy="STRICT_SPREAD", start_timeout=20)
            resumed = train.Checkpoint("{storage}/resumed", 0)
            os.makedirs(resumed.path + "/large")
            open(resumed.path + "/large/file", "wb").write(os.urandom(3_000_000))
            import hashlib
            def read():
                path = train.get_checkpoint().path
                content = open(path + "/large/file", "rb").read()
                with train.checkpoint_folder() as folder:
                    open(folder + "/copy", "wb").write(content)
                    open(folder + "/empty", "w").close()
                    train.report({{"sum": hashlib.sha256(content).hexdigest()}}, checkpoint=folder if train.get_context().rank == 1 else None)
            result = train.TorchTrainer(read, num_workers=2, strategy="STRICT_SPREAD", storage="{storage}", resume_from=resumed).fit()
            there = hashlib.sha256(open(result.checkpoint.path + "/copy", "rb").read()).hexdigest()
            sent = hashlib.sha256(open(resumed.path + "/large/file", "rb").read()).hexdigest()
            print(there == sent == result.metrics["sum"], sorted(os.listdir(result.checkpoint.path)))
            """))
        self.assertEqual(said, ["5", "0", "m1+m2", "0", "state.pt", "True", "['copy',", "'empty']"])
        self.assertEqual(os.listdir(storage), [])
        self.stop_all()

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "PyTorch is not there")
    def test_training_goes_on_after_the_loss_of_a_machine(self):
        waits = self.lan.directory / "waits"
        program = subprocess.Popen(
            self.program(self.training(f'fit("{self.lan.directory}/results", "{waits}", num_workers=(1, 2), num_cpus=2)')),
            env=self.environment(), stdout=subprocess.PIPE, text=True,
        )
        self.addCleanup(program.kill)
        machines.wait_until("four epochs are done", waits.exists, 60)
        self.lan.machines[1].signal_all(signal.SIGKILL)
        epoch, begin, nodes, failures, *kept = program.stdout.readline().split()
        self.assertEqual((epoch, begin, nodes, kept), ("5", "4", "m1", ["state.pt"]))
        # Two: a replacement was sent to the machine before its loss was known.
        self.assertIn(failures, ("1", "2"))
        self.assertEqual(program.wait(30), 0)

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "PyTorch is not there")
    def test_a_user_stops_a_training_that_reports_all_the_time(self):
        program = subprocess.Popen(
            self.program(textwrap.dedent(f"""
                import volador
                from volador import train
                def spin():
                    while True:
                        train.report({{"loss": 1.0}})
                volador.init()
                try: train.TorchTrainer(spin, num_workers=1, storage="{self.lan.directory}/results").fit()
                except volador.exceptions.CancelledError as error: print(error, flush=True)
                """)),
            env=self.environment(), stdout=subprocess.PIPE, text=True,
        )
        self.addCleanup(program.kill)

        def running():
            listed = json.loads(self.head.volador("list", "experiments", "--json").stdout)
            rows = listed if isinstance(listed, list) else listed["experiments"]
            return next((row["name"] for row in rows if row["name"].startswith("spin_")), None)

        name = machines.wait_until("the run is listed", running, 60)
        machines.wait_until("it reports", lambda: list((self.lan.directory / "results").glob("*/train-*/result.json")), 60)
        self.head.volador("tune", "stop", name)
        self.assertEqual(program.stdout.readline(), "training spin: a user asked the run to stop\n")
        self.assertEqual(program.wait(30), 0)


if __name__ == "__main__":
    machines.main()
