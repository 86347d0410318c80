"""One of two processes that share gradients: prints its weights after a step, and what the step would be with all records in one process.

keras_ranks.py FILE RANK
"""

import json
import sys

import numpy as np
import torch
import torch.distributed as dist

import keras
from volador.compat.determined.keras import _backend


def model_of(optimizer):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile(optimizer, "mse")
    return model


def main():
    file, rank = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    random = np.random.RandomState(1)
    x, y = random.randn(8, 4).astype("float32"), random.randn(8, 2).astype("float32")
    plain = model_of(keras.optimizers.SGD(0.1))
    plain.train_on_batch(x, y)
    optimizer = keras.optimizers.SGD(0.1)
    _backend.average_gradients(optimizer)
    model = model_of(optimizer)
    before = [float(value.sum()) for value in model.get_weights()]
    model.train_on_batch(x[rank::2], y[rank::2])
    weights = [value.tolist() for value in model.get_weights()]
    sums = [float(value.sum()) for value in model.get_weights()]
    print(json.dumps({"weights": weights, "moved": sums != before, "mean": sums, "plain": [float(value.sum()) for value in plain.get_weights()]}))
    dist.destroy_process_group()


main()
