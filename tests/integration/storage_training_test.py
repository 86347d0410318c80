"""Training with a storage: states of C++ trainers, and checkpoints of Python's, in S3.

Environment: VOLADOR_BIN, the folder of the programs, and PYTHONPATH with the package and PyTorch. Exit code 77 where those or moto are not there.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import storages  # noqa: E402
from single_machine import BIN  # noqa: E402

TRAINING = """
import json, os, sys
from volador import exceptions, train
import torch

def loop(config):
    begin = 0
    if checkpoint := train.get_checkpoint():
        begin = torch.load(os.path.join(checkpoint.path, "inner", "state.pt"))["epoch"]
    for epoch in range(begin, config["epochs"]):
        with train.checkpoint_folder() as folder:
            os.mkdir(os.path.join(folder, "inner"))
            if train.get_context().rank == 0:
                torch.save({"epoch": epoch + 1}, os.path.join(folder, "inner", "state.pt"))
            train.report({"loss": 1.0 / (epoch + 1), "begin": begin}, checkpoint=folder)

def fit(epochs, **options):
    return train.TorchTrainer(loop, config={"epochs": epochs}, name="stored", num_workers=2, checkpoints_kept=2, **options).fit()

storage = sys.argv[1]
first = fit(4, storage=storage)
place, _, query = storage.partition("?")
address = f"{place}/{os.path.basename(first.path)}/checkpoints/{os.path.basename(first.checkpoint.path)}?{query}"
second = fit(6, storage=storage, resume_from=address)
nothing = fit(4, storage=storage, resume_from=address)
errors = {}
for name, options in {
    "absent": {"resume_from": address.replace("000004", "000009")},
    "bucket": {"storage": storage.replace("models", "nowhere")},
    "scheme": {"storage": "s4://models/x"},
}.items():
    try:
        fit(1, **options)
    except exceptions.VoladorError as error:
        errors[name] = str(error)
print(json.dumps({
    "first": first.path, "step": second.checkpoint.step, "begin": second.metrics["begin"], "second": second.path, "kept": nothing.checkpoint.path,
    "address": address, "errors": errors}))
"""


class Training(storages.WithMoto):
    @classmethod
    def setUpClass(cls):
        try:
            import torch  # noqa: F401
            import volador  # noqa: F401
        except ImportError as missing:
            print(f"skipped: {missing}")
            sys.exit(77)
        super().setUpClass()

    def endpoint(self):
        return f"?endpoint=http://127.0.0.1:{self.moto.port}"

    def test_the_state_of_a_trainer_is_saved_and_loaded(self):
        ran = self.home.run(BIN / "train_trainer", "--gtest_filter=TrainerState.IsSavedToAStorage*", VOLADOR_TEST_STORAGE=self.address("states"), **self.s3)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("[  PASSED  ] 1 test", ran.stdout)
        self.assertEqual([key.rsplit("/", 1)[1] for key in self.keys(self.id().rsplit(".", 1)[-1])], ["second.pt", "wide.pt"])

    def test_checkpoints_are_copied_and_another_machine_goes_on_from_one(self):
        script = self.home.path / "script.py"
        script.write_text(TRAINING)
        ran = self.home.run(sys.executable, script, f"s3://models/training{self.endpoint()}", **self.s3)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        told = json.loads(ran.stdout.strip().splitlines()[-1])
        self.assertEqual((told["begin"], told["step"]), (4, 6))
        self.assertEqual(told["kept"], told["address"])
        first = pathlib.Path(told["first"])
        self.volador("storage", "cp", f"s3://models/training/{first.name}{self.endpoint()}", self.home.path / "copy")
        here = {path.relative_to(first): path.read_bytes() for path in first.rglob("*") if path.is_file() and "requests" not in path.parts}
        there = {path.relative_to(self.home.path / "copy"): path.read_bytes() for path in (self.home.path / "copy").rglob("*") if path.is_file()}
        self.assertEqual(here, there)
        mark = json.loads(there[pathlib.Path("checkpoints/checkpoint_000004.json")])
        self.assertEqual((mark["step"], list(mark["files"])), (4, ["inner/state.pt"]))
        self.assertNotIn(pathlib.Path("checkpoints/checkpoint_000002.json"), there)
        self.assertRegex(told["errors"]["absent"], r"checkpoint_000009\?\S+: no complete checkpoint is there; volador storage ls 's3://models/training/\S+' lists what is")
        self.assertRegex(told["errors"]["bucket"], r'^storage: cannot list s3://nowhere/training/\S+: there is no bucket "nowhere"')
        self.assertIn("storage: s4://: unknown kind of storage; did you mean s3?", told["errors"]["scheme"])
        runs = sorted(path.name for path in (self.home.path / "volador_results").iterdir())
        self.assertEqual(len(runs), 3, runs)  # Those that were refused left nothing.


if __name__ == "__main__":
    unittest.main()
