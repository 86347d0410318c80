"""Ray Train's scripts by `import ray`."""

import os
import tempfile

import pytest

torch = pytest.importorskip("torch")

from volador.compat import _alias  # noqa: E402

_alias.install()

import ray.train  # noqa: E402
import ray.train.torch  # noqa: E402


def train_loop(config):
    """As the tutorials of Ray Train are written."""
    model = ray.train.torch.prepare_model(torch.nn.Linear(2, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    x = torch.randn(64, 2)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x @ torch.tensor([[1.0], [2.0]])), batch_size=16, shuffle=True)
    loader = ray.train.torch.prepare_data_loader(loader)
    begin = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            begin = torch.load(os.path.join(folder, "model.pt"))["epoch"] + 1
    for epoch in range(begin, config["epochs"]):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        for features, labels in loader:
            loss = torch.nn.functional.mse_loss(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if config.get("fails_at") == epoch and begin == 0:
            raise ValueError("once")
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if ray.train.get_context().get_world_rank() == 0:
                torch.save({"epoch": epoch}, os.path.join(folder, "model.pt"))
                checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"loss": loss.item(), "epoch": epoch, "begin": begin}, checkpoint=checkpoint)


def test_trainer_with_its_configurations(tmp_path):
    trainer = ray.train.torch.TorchTrainer(
        train_loop,
        train_loop_config={"lr": 0.05, "epochs": 4},
        scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=False),
        run_config=ray.train.RunConfig(
            name="linear",
            storage_path=str(tmp_path),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="epoch"),
        ),
    )
    result = trainer.fit()
    assert result.metrics["epoch"] == 3 and result.error is None
    with result.checkpoint.as_directory() as folder:
        assert torch.load(os.path.join(folder, "model.pt")) == {"epoch": 3}
    assert [metrics["epoch"] for _, metrics in result.best_checkpoints] == [2, 3]
    assert result.get_best_checkpoint("epoch", "min").path == result.best_checkpoints[0][0].path
    assert result.path.startswith(str(tmp_path / "linear"))


def test_an_exception_counts_as_a_failure(tmp_path):
    def run(max_failures):
        return ray.train.torch.TorchTrainer(
            train_loop,
            train_loop_config={"lr": 0.05, "epochs": 4, "fails_at": 2},
            scaling_config=ray.train.ScalingConfig(num_workers=2),
            run_config=ray.train.RunConfig(storage_path=str(tmp_path), failure_config=ray.train.FailureConfig(max_failures=max_failures)),
        ).fit()

    assert run(2).metrics["begin"] == 2
    with pytest.raises(ValueError, match="once"):
        run(0)


def test_workers_with_gpus(tmp_path):
    def where():
        ray.train.report({"gpus": ray.get_runtime_context().get_accelerator_ids()["GPU"]})

    scaling = ray.train.ScalingConfig(num_workers=2, use_gpu=True)
    result = ray.train.torch.TorchTrainer(
        where, scaling_config=scaling, torch_config=ray.train.torch.TorchConfig(backend="gloo"), run_config=ray.train.RunConfig(storage_path=str(tmp_path))
    ).fit()
    assert len(result.metrics["gpus"]) == 1


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="datasets of Ray Data are not there"):
        ray.train.torch.TorchTrainer(train_loop, datasets={"train": [1]})
    with pytest.raises(ValueError, match='use_gpu is True, but resources_per_worker has "GPU": 0'):
        ray.train.torch.TorchTrainer(train_loop, scaling_config=ray.train.ScalingConfig(use_gpu=True, resources_per_worker={"GPU": 0}))
