"""two_ranks.py FILE RANK: one of two processes. Trains with the façade and with a plain loop of DistributedDataParallel; prints what to compare."""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import torch.distributed as dist

from volador.compat.determined import pytorch
from volador.compat.determined.core import _train

RECORDS, SIZE, BATCHES, SEED = 44, 4, 9, 5


def records():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(RECORDS, 6, generator=generator), torch.randn(RECORDS, 1, generator=generator)


def build():
    torch.manual_seed(SEED)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(build())
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9))
        self.seen = context.wrap_reducer(lambda values: len(values), name="seen", for_training=False)

    def build_training_data_loader(self):
        return pytorch.DataLoader(torch.utils.data.TensorDataset(*records()), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self):  # Three batches: two for rank 0, one for rank 1.
        x, y = records()
        return pytorch.DataLoader(torch.utils.data.TensorDataset(x[:12], y[:12]), batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss, "rank": self.context.distributed.rank}

    def evaluate_batch(self, batch):
        self.seen.update(1)
        return {"error": torch.nn.functional.mse_loss(self.model(batch[0]), batch[1]), "share": float(self.context.distributed.rank)}


def facade(storage, aggregation):
    told = []
    _train.listener = lambda kind, steps, values: told.append((kind, steps, values))
    torch.manual_seed(SEED)
    with pytorch.init(hparams={"global_batch_size": 2 * SIZE}, aggregation_frequency=aggregation) as context:
        context._core.checkpoint._storage = storage
        trial = Trial(context)
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(BATCHES), reporting_period=pytorch.Batch(3))
        exchanged = {
            "gather": context.distributed.gather(context.distributed.rank),
            "allgather_local": context.distributed.allgather_local(context.distributed.rank * 10),
            "broadcast": context.distributed.broadcast(f"from {context.distributed.rank}"),
        }
        with context._core.checkpoint.store_path({"steps_completed": 1, f"rank{context.distributed.rank}": 1}, shard=True) as (folder, uuid):
            (folder / f"shard{context.distributed.rank}").write_text("x")
        exchanged["shards"] = sorted(path.name for path in folder.iterdir())
        exchanged["metadata"] = context._core.checkpoint.get_metadata(uuid)
    return trial, [(kind, steps, {name: float(each) for name, each in values.items()}) for kind, steps, values in told if kind != "checkpoint"], exchanged


def plain(rank, aggregation):
    x, y = records()
    rng, order = np.random.RandomState(SEED), []
    while len(order) < 2 * BATCHES:
        epoch = list(range(RECORDS))
        rng.shuffle(epoch)
        order += [epoch[start : start + SIZE] for start in range(0, RECORDS, SIZE)]
    model = torch.nn.parallel.DistributedDataParallel(build())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for batch in range(BATCHES):
        chosen = order[2 * batch + rank]
        loss = torch.nn.functional.mse_loss(model(x[chosen]), y[chosen])
        loss.backward()
        losses.append(loss.item())
        if (batch + 1) % aggregation == 0:
            for parameter in model.parameters():
                parameter.grad /= aggregation
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        errors = [torch.nn.functional.mse_loss(model(x[start : start + 4]), y[start : start + 4]).item() for start in (0, 4, 8)]
    return model, losses, errors


def main():
    file, rank = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    result = {}
    for aggregation in (1, 3):
        box = [tempfile.mkdtemp() if rank == 0 else None]
        dist.broadcast_object_list(box)
        trial, told, exchanged = facade(pathlib.Path(box[0]), aggregation)
        model, losses, errors = plain(rank, aggregation)
        everyone = [None, None]
        dist.all_gather_object(everyone, losses)
        difference = max(float((a - b).abs().max()) for a, b in zip(trial.model.parameters(), model.parameters()))
        result[aggregation] = {"told": told, "exchanged": exchanged, "losses": everyone, "errors": errors, "difference": difference}
    wrapped = isinstance(trial.model, torch.nn.parallel.DistributedDataParallel)
    print(json.dumps({"results": result, "wrapped": wrapped}))
    dist.destroy_process_group()


main()
