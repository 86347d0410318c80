"""Training from Python on one real GPU: python_train_check.py, with volador and torch importable. Prints a line for each check.

Accelerate and Lightning are tried where they are installed.
"""

import importlib.util
import os
import signal
import sys
import tempfile
import time
import traceback

import torch
import volador
from volador import train
from volador.train import torch as train_torch


def fit_zeros(config):
    """Six epochs on the worker's device; rank 1 ends once in epoch 3 if there is a file name for it."""
    torch.manual_seed(0)
    device = train_torch.get_device()
    model = train_torch.prepare_model(torch.nn.Linear(64, 64))
    plain = getattr(model, "module", model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    context, begin = train.get_context(), 0
    if checkpoint := train.get_checkpoint():
        saved = torch.load(os.path.join(checkpoint.path, "state.pt"), map_location=device)
        begin = saved["epoch"]
        plain.load_state_dict(saved["model"])
    data = torch.utils.data.TensorDataset(torch.ones(64, 64), torch.zeros(64, 64))
    loader = train_torch.prepare_data_loader(torch.utils.data.DataLoader(data, batch_size=8))
    for epoch in range(begin, 6):
        for x, y in loader:
            assert x.device == device
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if config.get("flag") and epoch == 3 and context.rank == 1 and not os.path.exists(config["flag"]):
            open(config["flag"], "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        with train.checkpoint_folder() as folder:
            if context.rank == 0:
                torch.save({"epoch": epoch + 1, "model": plain.state_dict()}, os.path.join(folder, "state.pt"))
            metrics = {"loss": loss.item(), "begin": begin, "device": str(device), "backend": torch.distributed.get_backend_config()}
            train.report(metrics, checkpoint=folder if context.rank == 0 else None)


def data_of_line():
    x = torch.randn(64, 4)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


def with_accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data_of_line(), batch_size=8))
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    train.report({"device": str(accelerator.device), "world": accelerator.num_processes})


def with_lightning():
    import lightning.pytorch as lightning

    class Line(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            x, y = batch
            return torch.nn.functional.mse_loss(self.layer(x), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_epochs=2, accelerator="gpu", devices=1, num_nodes=train.get_context().world_size, strategy="ddp",
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
    )
    trainer.fit(Line(), torch.utils.data.DataLoader(data_of_line(), batch_size=8))
    train.report({"device": str(trainer.strategy.root_device), "world": trainer.world_size})


def main():
    failed = 0

    def check(name, expected, function, **options):
        nonlocal failed
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as storage:
            config = {"flag": os.path.join(storage, "flag")} if name.endswith("killed") else {}
            try:
                metrics = train.TorchTrainer(function, config=config, storage=storage, **options).fit().metrics
                wrong = {key: metrics.get(key) for key, value in expected.items() if metrics.get(key) != value}
            except BaseException:
                traceback.print_exc()
                wrong = {"an": "exception"}
        failed += bool(wrong)
        print(f"{'FAILED ' + str(wrong) if wrong else 'ok'}: {name}, {time.monotonic() - began:.1f} s", flush=True)

    with volador.init("local", num_cpus=4, num_gpus=1):
        check("one worker with the GPU", {"device": "cuda:0", "backend": "cpu:gloo,cuda:nccl", "begin": 0}, fit_zeros, num_workers=1, num_gpus=1)
        check("two workers on the GPU", {"device": "cuda:0", "backend": "cpu:gloo,cuda:gloo", "begin": 0}, fit_zeros, num_workers=2, num_gpus=0.5)
        check("two workers, one of which is killed", {"device": "cuda:0", "begin": 3}, fit_zeros, num_workers=2, num_gpus=0.5)
        for library, function in (("accelerate", with_accelerate), ("lightning", with_lightning)):
            if importlib.util.find_spec(library) is not None:
                check(f"{library} on two workers", {"device": "cuda:0", "world": 2}, function, num_workers=2, num_gpus=0.5)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
