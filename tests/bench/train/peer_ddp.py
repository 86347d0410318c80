"""PyTorch's side of train_bench's figures: data-parallel training, start, optimizers and data loading in Python.

Prints one line of JSON; under torchrun rank 0 prints it. Modes:

  ddp        times of a step under torchrun, Gloo, one thread a rank:
             python -m torch.distributed.run --standalone --nproc-per-node=2 peer_ddp.py --model=mlp
  single     the same in one process without DDP
  start      time from the launcher's start to the end of the first step, under torchrun
  optimizer  times of AdamW's step alone, in one process: default, foreach and fused
  loader     DataLoader over tensors in memory: samples a second, and how long a training step waits for its batch

The launcher may set VOLADOR_BENCH_START_NS to CLOCK_MONOTONIC (C++: steady_clock) in nanoseconds when it starts the
program; mode start needs it. Models and batches are those of models.h: with equal seeds both sides compute on the same
numbers, so that the losses printed can be compared.
"""

import argparse
import json
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # libgomp reads it when torch is loaded.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

START_NS = int(os.environ.get("VOLADOR_BENCH_START_NS", 0))


def seconds_since_start():
    """Seconds since the launcher's start, or None where it was not told."""
    return (time.monotonic_ns() - START_NS) / 1e9 if START_NS else None


IMPORTED_S = seconds_since_start()

# ---- Models: layer by layer those of models.h, which describes them.


class Mlp(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        widths = [784, hidden, hidden, hidden, 10]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.hidden = list(self.layers)[:-1]  # Slicing a ModuleList makes a new one, too slow for each step.

    def forward(self, x):
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class SmallTensors(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(784 if i == 0 else 64, 64) for i in range(101))
        self.blocks = list(self.layers)[1:-1]

    def forward(self, x):
        x = self.layers[0](x)
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return self.layers[-1](x)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(64)
        self.linear1 = nn.Linear(64 * 7 * 7, 64)
        self.linear2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.linear2(F.relu(self.linear1(x.flatten(1))))


# Name: module, shape of an input without the batch, classes.
MODELS = {
    "mlp": (lambda: Mlp(1024), (784,), 10),
    "mlp_large": (lambda: Mlp(3344), (784,), 10),
    "small_tensors": (SmallTensors, (784,), 64),
    "cnn": (Cnn, (1, 28, 28), 10),
}


def make(name, batch, rank):
    """The model, equal on all ranks, and the one batch that this rank trains on."""
    build, shape, classes = MODELS[name]
    torch.manual_seed(0)
    model = build()
    torch.manual_seed(1 + rank)
    return model, torch.randn(batch, *shape), torch.randint(classes, (batch,))


def make_optimizer(name, parameters):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
    return torch.optim.AdamW(parameters, lr=1e-3)


# ---- Figures of one process.


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))]


def times_of(values_ms, name):
    return {
        f"{name}_ms": quantile(values_ms, 0.5),
        f"{name}_ms_p10": quantile(values_ms, 0.1),
        f"{name}_ms_p90": quantile(values_ms, 0.9),
    }


def measure(step, steps, warmup):
    """Milliseconds of each step, and the CPU milliseconds of a step over all threads of this process."""
    for _ in range(warmup):
        step()
    times = []
    if dist.is_initialized():
        dist.barrier()
    cpu = time.process_time()
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    return times, 1e3 * (time.process_time() - cpu) / steps


# ---- Training: modes ddp, single and start.


def over_ranks(value, op):
    tensor = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(tensor, op=op)
    return tensor.item()


def equal_on_all_ranks(model):
    """Whether each parameter has the bits that rank 0 has."""
    equal = True
    for parameter in model.parameters():
        reference = parameter.detach().clone()
        dist.broadcast(reference, 0)
        equal &= torch.equal(reference.view(torch.int32), parameter.detach().view(torch.int32))
    return over_ranks(float(equal), dist.ReduceOp.MIN) == 1


def train(options):
    distributed = options.mode != "single"
    if distributed:
        dist.init_process_group("gloo")
    rank, world = (dist.get_rank(), dist.get_world_size()) if distributed else (0, 1)
    group_s = seconds_since_start()
    model, features, targets = make(options.model, options.batch, rank)
    trained = model
    if distributed:
        trained = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=options.gradient_as_bucket_view)
    optimizer = make_optimizer(options.optimizer, trained.parameters())
    loss = None

    def step():
        nonlocal loss
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(features), targets)
        loss.backward()
        optimizer.step()

    step()
    first_step_s = seconds_since_start()
    if START_NS and distributed:
        first_step_s = over_ranks(first_step_s, dist.ReduceOp.MAX)
    parameters = list(model.parameters())
    result = {
        "mode": options.mode,
        "model": options.model,
        "parameters": sum(parameter.numel() for parameter in parameters),
        "tensors": len(parameters),
        "world": world,
        "batch": options.batch,
        "optimizer": options.optimizer,
        "gradient_as_bucket_view": options.gradient_as_bucket_view,
        "imported_s": IMPORTED_S,
        "group_s": group_s,
        "first_step_s": first_step_s,
    }
    equal = True
    if options.mode != "start":
        times, cpu_ms = measure(step, options.steps, max(0, options.warmup - 1))  # The first step is done.
        if distributed:
            cpu_ms = over_ranks(cpu_ms, dist.ReduceOp.SUM) / world
        result |= {"steps": len(times), **times_of(times, "step"), "cpu_ms": cpu_ms}
    if distributed:
        equal = equal_on_all_ranks(model)
        result["parameters_equal"] = equal
    result |= {"loss": loss.item(), "torch": torch.__version__}  # The loss of rank 0's batch, before the last update.
    if rank == 0:
        print(json.dumps(result), flush=True)
    if distributed:
        dist.destroy_process_group()
    if not equal:
        sys.exit("peer_ddp: the parameters differ between ranks; expected the same bits on all")


# ---- Mode optimizer.


def optimizer_steps(options):
    model, _, _ = make(options.model, options.batch, 0)
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    result = {"mode": "optimizer", "model": options.model, "tensors": len(parameters), "steps": options.steps}
    for name, how in (("default", {}), ("foreach", {"foreach": True}), ("fused", {"fused": True})):
        optimizer = torch.optim.AdamW(parameters, lr=1e-3, **how)
        times, cpu_ms = measure(optimizer.step, options.steps, options.warmup)
        result |= {**times_of(times, name), f"{name}_cpu_ms": cpu_ms}
    print(json.dumps(result | {"torch": torch.__version__}), flush=True)


# ---- Mode loader.


class Images(torch.utils.data.Dataset):
    """512 colour images of 224 x 224 in bytes; a sample is made float and normalised when it is read."""

    def __init__(self):
        self.images = torch.randint(256, (512, 3, 224, 224), dtype=torch.uint8)
        self.targets = torch.randint(1000, (512,))
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        self.deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index].to(torch.float32).div_(255).sub_(self.mean).div_(self.deviation)
        return image, self.targets[index]


def tensors(samples, *shape):
    return torch.utils.data.TensorDataset(torch.rand(samples, *shape), torch.randint(10, (samples,)))


DATA = {
    "digits": lambda: tensors(1797, 8, 8),
    "mnist": lambda: tensors(5000, 1, 28, 28),
    "images": Images,
}


def compute(milliseconds, matrix=torch.ones(128, 128), out=torch.empty(128, 128)):
    """Keeps this thread busy as a training step does: in kernels that run without Python's lock."""
    until = time.perf_counter() + milliseconds / 1e3
    while time.perf_counter() < until:
        torch.mm(matrix, matrix, out=out)


def epochs(loader, seconds, step_ms):
    """Reads whole epochs until the time is over. Returns the seconds taken, the batches and each batch's wait in ms."""
    waits = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        asked = time.perf_counter()
        for _ in loader:
            waits.append(1e3 * (time.perf_counter() - asked))
            compute(step_ms)
            asked = time.perf_counter()
    return time.perf_counter() - begin, len(waits), waits


def load(options):
    rows = []
    for name, make_data in DATA.items():
        torch.manual_seed(0)
        data = make_data()
        for workers in (0, 2):
            begin = time.perf_counter()
            loader = torch.utils.data.DataLoader(
                data,
                batch_size=options.batch,
                shuffle=True,
                drop_last=True,
                num_workers=workers,
                persistent_workers=workers > 0,
            )
            next(iter(loader))
            first_batch_ms = 1e3 * (time.perf_counter() - begin)
            epochs(loader, 0.001, 0)  # One epoch to warm up.
            taken, batches, _ = epochs(loader, options.seconds, 0)
            _, _, waits = epochs(loader, options.seconds, options.step_ms)
            rows.append(
                {
                    "data": name,
                    "workers": workers,
                    "samples_a_second": batches * options.batch / taken,
                    "wait_ms_mean": sum(waits) / len(waits),  # The first batch of each epoch included.
                    **times_of(waits, "wait"),
                    "first_batch_ms": first_batch_ms,  # The start of the workers included.
                }
            )
            del loader
    print(
        json.dumps(
            {
                "mode": "loader",
                "batch": options.batch,
                "step_ms": options.step_ms,
                "rows": rows,
                "torch": torch.__version__,
            }
        ),
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("ddp", "single", "start", "optimizer", "loader"), default="ddp")
    parser.add_argument("--model", choices=tuple(MODELS), default="mlp")
    parser.add_argument("--steps", type=int, default=200, help="steps measured")
    parser.add_argument("--warmup", type=int, default=20, help="steps before them; at least the first is run")
    parser.add_argument("--batch", type=int, default=32, help="samples a rank")
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd", help="sgd has momentum 0.9")
    parser.add_argument("--gradient-as-bucket-view", action="store_true")
    parser.add_argument("--seconds", type=float, default=2, help="mode loader: the least time of a measurement")
    parser.add_argument("--step-ms", type=float, default=5, help="mode loader: how long a step computes on a batch")
    options = parser.parse_args()
    if options.steps < 1 or options.batch < 1:
        parser.error("--steps and --batch: expected at least 1")
    if options.mode in ("ddp", "start") and "WORLD_SIZE" not in os.environ:
        parser.error(f"--mode={options.mode} runs under torchrun: python -m torch.distributed.run --standalone "
                     "--nproc-per-node=2 peer_ddp.py …")
    if options.mode == "start" and not START_NS:
        parser.error("--mode=start: VOLADOR_BENCH_START_NS is not set; the launcher sets it to CLOCK_MONOTONIC in ns")
    torch.set_num_threads(1)
    {"optimizer": optimizer_steps, "loader": load}.get(options.mode, train)(options)
    sys.stdout.flush()
    os._exit(0)  # PyTorch's threads sometimes abort an orderly exit.


if __name__ == "__main__":
    main()
