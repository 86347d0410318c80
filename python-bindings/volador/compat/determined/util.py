"""Functions of `determined.util` that programs call."""

from __future__ import annotations

import copy
import datetime
import enum
import importlib.util
import inspect
import json
import logging
import math
import numbers
import os
import pathlib
import shutil
import sys
import uuid
from typing import TYPE_CHECKING, Any

from volador.compat.determined import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FILE_BYTES_MAX = 4 << 20
TREE_BYTES_MAX = 64 << 20
TREE_FILES_MAX = 5000
TREE_VISITS_MAX = 50_000
_DATA_FOLDERS = frozenset({"__pycache__", "checkpoints", "data", "dataset", "datasets", "node_modules", "outputs", "tensorboard", "venv", "wandb"})
_DATA_SUFFIXES = frozenset(
    ".arrow .bin .bz2 .ckpt .gz .h5 .hdf5 .jpeg .jpg .mp4 .npy .npz .onnx .parquet .pickle .pkl .png .pt .pth .safetensors .tar .tfrecord .tgz .tif .wav .xz .zip .zst".split()
)


def is_overridden(full_method: Any, parent_class: type) -> bool:
    """Whether a bound method is not the one of parent_class."""
    function = getattr(full_method, "__func__", full_method)
    return callable(full_method) and function is not getattr(parent_class, getattr(full_method, "__name__", ""), None)


def is_installed(module: str) -> bool:
    """Whether a module is imported, or can be."""
    return module in sys.modules or importlib.util.find_spec(module) is not None


def choose_keras_backend() -> None:
    """PyTorch where Keras 3 would take TensorFlow, its default, which is not installed. Keras writes its default into keras.json, so that is no choice."""
    if "KERAS_BACKEND" in os.environ or "keras" in sys.modules or is_installed("tensorflow") or not is_installed("torch"):
        return
    try:
        file = pathlib.Path(os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")) / "keras.json"
        chosen = json.loads(file.read_text()).get("backend", "tensorflow")
    except (OSError, ValueError):
        chosen = "tensorflow"
    if chosen == "tensorflow":
        os.environ["KERAS_BACKEND"] = "torch"


def has_param(fn: Callable[..., Any], name: str, pos: int | None = None) -> bool:
    """Whether fn has a parameter of that name, or one at position pos; self counts as position 0 of a method."""
    names = inspect.getfullargspec(fn).args
    return name in names or (pos is not None and pos < len(names))


def get_member_func(obj: Any, func_name: str) -> Any:
    member = getattr(obj, func_name, None)
    return member if callable(member) else None


def merge_dicts(base_dict: dict[Any, Any], source_dict: dict[Any, Any]) -> dict[Any, Any]:
    """A new dictionary: values of source_dict win, dictionaries are merged."""
    merged = copy.deepcopy(base_dict)
    for key, value in source_dict.items():
        below = merged.get(key)
        merged[key] = merge_dicts(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def is_numerical_scalar(n: Any) -> bool:
    """Python numbers, numpy scalars and numeric arrays without dimensions."""
    np = _numpy()
    if np is None:
        return isinstance(n, (int, float))
    if isinstance(n, np.ndarray):
        return n.ndim == 0 and bool(np.issubdtype(n.dtype, np.number))
    return isinstance(n, (int, float, np.number))


def _numpy() -> Any:
    """The module; None where the program has not imported it, so that no value is numpy's. Its import takes longer than the rest of a small program."""
    return sys.modules.get("numpy")


def json_encode(obj: Any, indent: str | int | None = None, sort_keys: bool = False) -> str:
    """JSON with numpy values, dates, enums and ids; NaN and infinities are the strings "NaN", "Infinity" and "-Infinity"."""
    return json.dumps(_plain(obj), indent=indent, sort_keys=sort_keys)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        if math.isfinite(number):
            return number
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    np = _numpy()
    if np is not None and isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if np is not None and isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, uuid.UUID):
        return str(value)
    if hasattr(value, "__json__"):
        return value.__json__()
    raise TypeError(f"json_encode: expected numbers, texts, lists and dictionaries, got a {type(value).__name__}: {value!r}")


def make_metrics(num_inputs: int | None, batch_metrics: list[dict[str, Any]], weights: list[int] | None = None) -> dict[str, Any]:
    """{"batch_metrics", "avg_metrics"}: the mean of each metric over the batches that have a value; None where it is not a number.

    weights: how much each batch counts. ValueError: batches have different names."""
    import numpy as np

    names = list(batch_metrics[0]) if batch_metrics else []
    average: dict[str, float | None] = {}
    for index, batch in enumerate(batch_metrics):
        if batch.keys() != batch_metrics[0].keys():
            raise ValueError(f"train_batch: batch {index} of the report has the metrics {sorted(batch)}, expected {sorted(names)} as in the first")
    for name in names:
        present = [(batch[name], 1 if weights is None else weights[i]) for i, batch in enumerate(batch_metrics) if batch[name] is not None]
        try:
            values, counts = np.array([value for value, _ in present]), [count for _, count in present]
            if len(set(counts)) == 1:
                average[name] = np.mean(values).item()
            else:
                average[name] = np.average(values, axis=0, weights=counts).mean().item()
        except (TypeError, ValueError, ZeroDivisionError):
            average[name] = None
    metrics: dict[str, Any] = {"batch_metrics": batch_metrics, "avg_metrics": average}
    if num_inputs is not None:
        metrics["num_inputs"] = num_inputs
    return metrics


def calculate_batch_sizes(hparams: dict[str, Any], slots_per_trial: int, trialname: str) -> tuple[int, int]:
    """Batch size of a slot and of all slots. A size that does not divide is rounded down, with a warning."""
    slots = max(slots_per_trial, 1)
    size = hparams.get("global_batch_size")
    if not isinstance(size, int) or isinstance(size, bool):
        raise errors.InvalidExperimentException(
            f"hyperparameters.global_batch_size: {trialname} expects a positive integer, got {size!r}; set it to the records of all slots in a batch"
        )
    if size < slots:
        raise errors.InvalidExperimentException(
            f"hyperparameters.global_batch_size: expected at least one record for each of the {slots} slots, got {size}; raise it or use fewer slots"
        )
    per_slot = size // slots
    if per_slot * slots != size:
        logging.warning("global_batch_size is %d instead of %d: it is divided equally among %d slots", per_slot * slots, size, slots)
    return per_slot, per_slot * slots


def write_user_code(path: pathlib.Path, source: str | os.PathLike[str] = ".", exclude: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Copies the program's folder to path/code, so that the checkpoint can be loaded without it.

    The copy is bounded. Left out: files above 4 MiB, archives, arrays, images and weights (by suffix), hidden files and folders, folders named data,
    datasets, checkpoints and the like, links, virtual environments, the folders in exclude, and whatever is beyond 64 MiB, 5,000 files, or
    50,000 files and folders that were looked at."""
    code = path / "code"
    shutil.rmtree(code, ignore_errors=True)
    code.mkdir(parents=True)
    excluded = {os.path.realpath(each) for each in (*exclude, path)}
    base = os.path.realpath(source)
    count = total = visits = 0

    def cut(count: int, total: int, base: str) -> None:
        text = "code/ of the checkpoint ends at %d files, %d bytes: there is too much in %s; start in the folder of the program"
        logging.getLogger("determined").warning(text, count, total, base)

    for folder, folders, files in os.walk(base):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name.lower() not in _DATA_FOLDERS
            and os.path.join(folder, name) not in excluded
            and not os.path.islink(os.path.join(folder, name))
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        )
        visits += len(folders) + len(files)
        if visits > TREE_VISITS_MAX:
            return cut(count, total, base)
        for name in sorted(files):
            file = os.path.join(folder, name)
            if name.startswith(".") or os.path.splitext(name)[1].lower() in _DATA_SUFFIXES or not os.path.isfile(file) or os.path.islink(file):
                continue
            size = os.path.getsize(file)
            if size > FILE_BYTES_MAX:
                continue
            if count == TREE_FILES_MAX or total + size > TREE_BYTES_MAX:
                return cut(count, total, base)
            count, total = count + 1, total + size
            target = code / os.path.relpath(file, base)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
