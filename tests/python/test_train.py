"""volador.train: PyTorch DDP on workers that are lost and come."""

import json
import os
import signal
import threading
import time

import pytest

torch = pytest.importorskip("torch")

import volador  # noqa: E402
from volador import train  # noqa: E402
from volador.train import torch as train_torch  # noqa: E402


def data():
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(96, 4, generator=generator)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


def fit_line(config):
    """Six epochs of linear regression; its faults happen once, as long as the file of that name is not there."""
    torch.manual_seed(1)
    model = train_torch.prepare_model(torch.nn.Linear(4, 1))
    plain = getattr(model, "module", model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = train_torch.prepare_data_loader(torch.utils.data.DataLoader(data(), batch_size=8))
    context, begin = train.get_context(), 0
    if checkpoint := train.get_checkpoint():
        saved = torch.load(os.path.join(checkpoint.path, "state.pt"))
        begin = saved["epoch"]
        plain.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    for epoch in range(begin, config.get("epochs", 6)):
        loader.set_epoch(epoch)
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for fault, rank, at, flag in config.get("faults", []):
            if rank == context.rank and at == epoch and not os.path.exists(flag):
                open(flag, "w").close()
                if fault == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                elif fault == "freeze":
                    os.kill(os.getpid(), signal.SIGSTOP)
                else:
                    raise ArithmeticError("the loss is wrong")
        metrics = {"loss": loss.item(), "epoch": epoch, "world": context.world_size, "begin": begin}
        with train.checkpoint_folder() as folder:
            if context.rank == 0:
                torch.save({"epoch": epoch + 1, "model": plain.state_dict(), "optimizer": optimizer.state_dict()}, os.path.join(folder, "state.pt"))
                metrics["weights"] = plain.weight.flatten().tolist()
                train.report(metrics, checkpoint=folder)
            else:
                train.report(metrics)


def plain_weights(world, epochs=6):
    """What fit_line computes with batches of 8 on `world` ranks, in one process."""
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = data().tensors
    for _ in range(epochs):
        for at in range(0, len(x), 8 * world):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x[at : at + 8 * world]), y[at : at + 8 * world]).backward()
            optimizer.step()
    return model.weight.flatten().tolist()


def trainer(tmp_path, config=None, **options):
    return train.TorchTrainer(fit_line, config=config or {}, storage=tmp_path / "results", **options)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_trains_as_one_process_does_with_the_whole_batch(tmp_path, world):
    result = trainer(tmp_path, num_workers=world).fit()
    assert result.metrics["world"] == world and result.failures == 0
    assert result.metrics["weights"] == pytest.approx(plain_weights(world), abs=1e-5)


def test_writes_results_and_keeps_checkpoints(tmp_path):
    result = trainer(tmp_path, num_workers=2, checkpoints_kept=2).fit()
    lines = [json.loads(line) for line in open(next((tmp_path / "results").glob("*/train-*/result.json")))]
    assert [line["epoch"] for line in lines] == list(range(6))
    assert [kept.step for kept, _ in result.best_checkpoints] == [5, 6]
    assert sorted(os.listdir(os.path.join(result.path, "checkpoints"))) == [
        "checkpoint_000005",
        "checkpoint_000005.json",
        "checkpoint_000006",
        "checkpoint_000006.json",
    ]
    assert torch.load(os.path.join(result.checkpoint.path, "state.pt"))["epoch"] == 6


def test_keeps_the_checkpoints_with_the_best_score(tmp_path):
    result = trainer(tmp_path, num_workers=1, checkpoints_kept=2, checkpoint_score="epoch", mode="min").fit()
    assert [kept.step for kept, _ in result.best_checkpoints] == [1, 6]  # The last one is always kept.


def test_goes_on_from_a_checkpoint_of_an_earlier_run(tmp_path):
    first = trainer(tmp_path, {"epochs": 4}, num_workers=2).fit()
    second = trainer(tmp_path, num_workers=2, resume_from=first.checkpoint).fit()
    assert second.metrics["begin"] == 4
    assert second.metrics["weights"] == pytest.approx(plain_weights(2), abs=1e-5)


def test_goes_on_after_the_loss_of_a_worker(tmp_path):
    faults = [("kill", 1, 3, str(tmp_path / "killed"))]
    result = trainer(tmp_path, {"faults": faults}, num_workers=2).fit()
    assert result.failures == 1 and result.metrics["begin"] == 3
    assert result.metrics["weights"] == pytest.approx(plain_weights(2), abs=1e-5)


def test_goes_on_after_the_loss_of_all_workers_one_by_one(tmp_path):
    faults = [("kill", rank, 1 + rank, str(tmp_path / f"killed_{rank}")) for rank in (0, 1, 2)]
    result = trainer(tmp_path, {"faults": faults}, num_workers=3).fit()
    assert result.failures == 3
    assert result.metrics["weights"] == pytest.approx(plain_weights(3), abs=1e-5)


def test_survivors_keep_their_processes(tmp_path):
    def pids(config):
        with open(config["file"], "a") as file:
            file.write(f"{train.get_context().rank} {os.getpid()}\n")
        train.report({})
        if train.get_context().rank == 1 and not os.path.exists(config["flag"]):
            open(config["flag"], "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        train.report({})

    config = {"file": str(tmp_path / "pids"), "flag": str(tmp_path / "flag")}
    train.TorchTrainer(pids, config=config, num_workers=2, storage=tmp_path).fit()
    started = [line.split() for line in open(config["file"])]
    of_rank_0 = {pid for rank, pid in started if rank == "0"}
    of_rank_1 = {pid for rank, pid in started if rank == "1"}
    assert len(of_rank_0) == 1 and len(of_rank_1) == 2


class Blocker:
    pass


def test_goes_on_with_fewer_workers_and_takes_more_in(tmp_path):
    def until_three_train(config):
        step = train.get_checkpoint().step if train.get_checkpoint() else 0
        while train.get_context().world_size < 3:
            with train.checkpoint_folder() as folder:
                train.report({"begin": step}, checkpoint=folder)
        train.report({"begin": step, "world": 3})

    blocker = volador.remote(num_cpus=2)(Blocker).remote()
    volador.wait_ready(blocker)

    def make_room():
        while len(list(tmp_path.glob("*/checkpoints/checkpoint_*"))) < 2:
            time.sleep(0.01)
        volador.kill(blocker)

    thread = threading.Thread(target=make_room)
    thread.start()
    result = train.TorchTrainer(until_three_train, num_workers=(2, 3), storage=tmp_path, checkpoints_kept=2).fit()
    thread.join()
    assert result.metrics["world"] == 3 and result.metrics["begin"] >= 2 and result.failures == 0


def test_ends_a_frozen_worker(tmp_path):
    faults = [("freeze", 0, 2, str(tmp_path / "frozen"))]
    result = trainer(tmp_path, {"faults": faults}, num_workers=2, hang_timeout=2).fit()
    assert result.failures >= 1 and result.metrics["begin"] == 2
    assert result.metrics["weights"] == pytest.approx(plain_weights(2), abs=1e-5)


def test_raises_the_exception_of_the_function(tmp_path):
    with pytest.raises(ArithmeticError, match="the loss is wrong") as caught:
        trainer(tmp_path, {"faults": [("raise", 1, 2, str(tmp_path / "raised"))]}, num_workers=2).fit()
    assert "in fit_line" in str(caught.value.__cause__)


def test_repeats_after_an_exception_if_it_is_asked_to(tmp_path):
    faults = [("raise", 1, 2, str(tmp_path / "raised"))]
    result = trainer(tmp_path, {"faults": faults}, num_workers=2, retry_user_errors=True).fit()
    assert result.failures == 1 and result.metrics["begin"] == 2


def test_fails_after_more_losses_than_allowed(tmp_path):
    faults = [("kill", 1, epoch, str(tmp_path / f"killed_{epoch}")) for epoch in (1, 3)]
    with pytest.raises(volador.exceptions.ActorDiedError, match="max_failures"):
        trainer(tmp_path, {"faults": faults}, num_workers=2, max_failures=1).fit()


def test_merges_the_files_of_all_workers(tmp_path):
    def save(config):
        rank = train.get_context().rank
        with train.checkpoint_folder() as folder:
            os.makedirs(os.path.join(folder, "shards"))
            with open(os.path.join(folder, "shards", f"{rank}.txt"), "w") as file:
                file.write(str(rank))
            train.report({}, checkpoint=folder)

    result = train.TorchTrainer(save, num_workers=3, storage=tmp_path).fit()
    folder = os.path.join(result.checkpoint.path, "shards")
    assert {name: open(os.path.join(folder, name)).read() for name in os.listdir(folder)} == {f"{rank}.txt": str(rank) for rank in range(3)}


def test_loader_gives_each_worker_its_share(tmp_path):
    def rows(config):
        dataset = torch.utils.data.TensorDataset(torch.arange(32))
        loader = train_torch.prepare_data_loader(torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True))
        rank = train.get_context().rank
        epochs = [[int(value) for (batch,) in loader for value in batch] for _ in range(2)]
        with train.checkpoint_folder() as folder:
            with open(os.path.join(folder, f"{rank}.json"), "w") as file:
                json.dump(epochs, file)
            train.report({"batches": len(loader)}, checkpoint=folder)

    result = train.TorchTrainer(rows, num_workers=2, storage=tmp_path).fit()
    first, second = (json.load(open(os.path.join(result.checkpoint.path, f"{rank}.json"))) for rank in (0, 1))
    assert result.metrics["batches"] == 4
    for epoch in (0, 1):
        assert sorted(first[epoch] + second[epoch]) == list(range(32))
    assert first[0] != first[1]


@pytest.mark.parametrize("kind", ["sampler", "batch_sampler"])
def test_loader_with_an_own_sampler_is_refused(tmp_path, kind):
    def split():
        rows = torch.utils.data.WeightedRandomSampler([1.0] * 8, 8)
        given = {"sampler": rows} if kind == "sampler" else {"batch_sampler": torch.utils.data.BatchSampler(rows, 2, False)}
        train_torch.prepare_data_loader(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(8)), **given))

    with pytest.raises(volador.exceptions.InvalidArgumentError, match="has a (WeightedRandomSampler|BatchSampler), which cannot be split between 2 workers"):
        train.TorchTrainer(split, num_workers=2, storage=tmp_path).fit()


def test_context_and_environment_of_a_worker(tmp_path):
    def where():
        context = train.get_context()
        assert os.environ["RANK"] == str(context.rank) and os.environ["WORLD_SIZE"] == "2" and os.environ["MINE"] == "5"
        assert torch.distributed.get_rank() == context.rank and torch.distributed.get_world_size() == 2
        assert context.local_rank == context.rank and context.node_rank == 0 and train.get_checkpoint() is None
        train.report({"rank": context.rank, "name": context.name, "text": "any"})

    result = train.TorchTrainer(where, num_workers=2, env={"MINE": "5"}, name="places", storage=tmp_path).fit()
    assert result.metrics == {"rank": 0, "name": "places", "text": "any"} and result.checkpoint is None


def test_a_function_that_reports_unequally_often_fails(tmp_path):
    def unequal():
        train.report({})
        if train.get_context().rank == 0:
            train.report({})

    with pytest.raises(volador.exceptions.UnavailableError, match="3 groups in a row failed.*rank 0 failed: RuntimeError.*rank 1 had returned"):
        train.TorchTrainer(unequal, num_workers=2, storage=tmp_path).fit()


def test_what_can_never_run_is_refused(tmp_path):
    with pytest.raises(volador.exceptions.InfeasibleError):
        trainer(tmp_path, num_workers=2, num_cpus=64).fit()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_workers": 0}, "num_workers is 0"),
        ({"num_workers": (3, 2)}, "num_workers is .3, 2."),
        ({"mode": "best"}, 'mode is \'best\'; expected "min" or "max"'),
        ({"backend": "mpi"}, "backend is 'mpi'; expected one of auto"),
        ({"backend": "nccl"}, "needs a whole GPU for each worker"),
        ({"checkpoints_kept": 0}, "checkpoints_kept is 0"),
        ({"max_failures": -2}, "max_failures is -2"),
        ({"hang_timeout": 0}, "hang_timeout is 0; expected seconds above 0"),
        ({"resume_from": "/nowhere"}, "resume_from names /nowhere, which is no folder"),
    ],
)
def test_options_are_checked(options, text):
    with pytest.raises(volador.exceptions.InvalidArgumentError, match=text):
        train.TorchTrainer(fit_line, **options)


def test_functions_of_workers_are_refused_elsewhere():
    with pytest.raises(RuntimeError, match="only inside the function that TorchTrainer runs"):
        train.report({})
    with pytest.raises(volador.exceptions.InvalidArgumentError, match="the function needs 2 arguments"):
        train.TorchTrainer(lambda a, b: None)


def test_leaves_nothing_behind(tmp_path):
    trainer(tmp_path, num_workers=2).fit()
    deadline = time.monotonic() + 10
    while volador.available_resources() != volador.cluster_resources() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert volador.available_resources() == volador.cluster_resources()


def test_goes_on_after_many_random_kills(tmp_path):
    import random

    random.seed(3)
    faults = [("kill", random.randrange(3), epoch, str(tmp_path / f"killed_{epoch}_{time_}")) for time_ in range(2) for epoch in range(10)]
    result = trainer(tmp_path, {"epochs": 10, "faults": faults}, num_workers=3).fit()
    assert result.failures == len(faults)
    assert result.metrics["weights"] == pytest.approx(plain_weights(3, 10), abs=1e-5)
