"""What a trial's loaders return, as batches: shared among the ranks, without end, and from any batch on."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from volador.compat.determined import errors
from volador.compat.determined.keras._backend import keras

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ArrayLike = Union[np.ndarray, "list[np.ndarray]", "dict[str, np.ndarray]"]


class SequenceAdapter:
    """A keras.utils.Sequence and how it is read; context.configure_fit() says the same."""

    def __init__(self, sequence: Any, use_multiprocessing: bool = False, workers: int = 1, max_queue_size: int = 10) -> None:
        self.sequence = sequence
        self.use_multiprocessing = use_multiprocessing
        self.workers = workers
        self.max_queue_size = max_queue_size


InputData = Union[SequenceAdapter, "tuple[Any, ...]", Any]  # Any: a keras.utils.Sequence or PyDataset, or a tf.data.Dataset.


def _parts(data: Any) -> list[Any]:
    if isinstance(data, (list, tuple)):
        return [part for each in data for part in _parts(each)]
    return [part for each in data.values() for part in _parts(each)] if isinstance(data, dict) else [data]


def _map(function: Callable[[Any], Any], data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return type(data)([_map(function, each) for each in data])
    return {name: _map(function, each) for name, each in data.items()} if isinstance(data, dict) else function(data)


def records_of(batch: Any) -> int:
    """Length of the first array or tensor."""
    for part in _parts(batch):
        if part is not None:
            return int(part.shape[0])
    return 0


def unpack(batch: Any) -> tuple[Any, Any, Any]:
    """Inputs, targets and weights of records."""
    if isinstance(batch, (list, tuple)):
        if not 1 <= len(batch) <= 3:
            raise errors.InvalidExperimentException(f"a batch: expected (inputs, targets) or (inputs, targets, sample_weights), got {len(batch)} values")
        x, y, weight = (*batch, None, None)[:3]
        return x, y, weight
    return batch, None, None


class Arrays:
    """Batches of arrays in memory; shuffled by records, in an order for each epoch that the seed decides. The last batch may be smaller."""

    def __init__(self, method: str, data: tuple[Any, ...], size: int, seed: int | None) -> None:
        self._data = tuple(None if each is None else _map(lambda part: _array(method, part), each) for each in data)
        lengths = {len(part) for part in _parts(self._data) if part is not None}
        if len(lengths) != 1:
            raise errors.InvalidExperimentException(f"{method}: expected arrays of one length, got lengths {sorted(lengths)}; give each record its target")
        self._records = lengths.pop()
        self._size = size
        self._seed = seed
        self._epoch, self._order = -1, np.arange(self._records)
        self.workers, self.queue = 1, 0

    def __len__(self) -> int:
        return -(-self._records // self._size)

    def get(self, epoch: int, index: int) -> Any:
        if self._seed is not None and epoch != self._epoch:
            self._epoch, self._order = epoch, np.random.default_rng([self._seed, epoch]).permutation(self._records)
        chosen = self._order[index * self._size : (index + 1) * self._size]
        return _map(lambda part: None if part is None else part[chosen], self._data)

    def end_epoch(self) -> None:
        pass


def _array(method: str, part: Any) -> Any:
    if part is None:
        return None
    array = np.asarray(part)
    if array.ndim == 0 or array.dtype == object:
        raise errors.InvalidDataTypeException(
            type(part), f"{method}: expected arrays, a keras.utils.Sequence or a tf.data.Dataset; return (x, y), (x, y, sample_weights) or one of the two"
        )
    return array.astype(keras.backend.floatx()) if array.dtype == np.float64 else array  # As fit() does.


class Sequences:
    """Batches of a keras.utils.Sequence or PyDataset; their order is shuffled for each epoch."""

    def __init__(self, sequence: Any, seed: int | None, workers: int, queue: int) -> None:
        self._sequence = sequence
        self._seed = seed
        self._epoch, self._order = -1, np.arange(len(sequence))
        self.workers, self.queue = workers, queue

    def __len__(self) -> int:
        return len(self._sequence)

    def get(self, epoch: int, index: int) -> Any:
        if self._seed is not None and epoch != self._epoch:
            self._epoch, self._order = epoch, np.random.default_rng([self._seed, epoch]).permutation(len(self._order))
        return self._sequence[int(self._order[index])]

    def end_epoch(self) -> None:
        ended = getattr(self._sequence, "on_epoch_end", None)
        if ended is not None:
            ended()


class Indexed:
    """Batches rank, rank + size, … of one epoch after the other."""

    def __init__(self, source: Any, rank: int, size: int) -> None:
        self._source = source
        self._rank = rank
        self._size = size
        self.length: int | None = -(-len(source) // size)

    def endless(self, start: int) -> Iterator[Any]:
        """From the start-th batch of this rank on. on_epoch_end() of a sequence is called for epochs that are skipped, too."""
        source, whole = self._source, len(self._source)
        if whole == 0:
            raise RuntimeError("build_training_data_loader: there are no batches; check the data")
        pool = concurrent.futures.ThreadPoolExecutor(source.workers) if source.workers > 1 else None
        waiting: collections.deque[Any] = collections.deque()
        now = 0
        try:
            for number in itertools.count(start):
                epoch, index = divmod(number * self._size + self._rank, whole)
                if epoch != now:
                    while waiting:
                        yield waiting.popleft().result()
                    for _ in range(now, epoch):
                        source.end_epoch()
                    now = epoch
                if pool is None:
                    yield source.get(epoch, index)
                    continue
                waiting.append(pool.submit(source.get, epoch, index))
                if len(waiting) > max(source.queue, source.workers):
                    yield waiting.popleft().result()
        finally:
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)

    def once(self) -> Iterator[Any]:
        return (self._source.get(0, index) for index in range(self._rank, len(self._source), self._size))


class Iterable:
    """Batches of a tf.data.Dataset, or of anything that gives them in each pass. The trial shares them among the ranks."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self.length = _cardinality(data)

    def endless(self, start: int) -> Iterator[Any]:
        if hasattr(self._data, "repeat") and hasattr(self._data, "skip"):
            return iter(self._data.repeat().skip(start))
        return itertools.islice(self._passes(), start, None)

    def _passes(self) -> Iterator[Any]:
        while True:
            count = 0
            for batch in self._data:
                count += 1
                yield batch
            if count == 0:
                raise RuntimeError("build_training_data_loader: there are no batches; check the data")

    def once(self) -> Iterator[Any]:
        return iter(self._data)


def _cardinality(data: Any) -> int | None:
    if hasattr(data, "cardinality"):
        count = int(data.cardinality())
        return count if count > 0 else None
    try:
        return len(data)
    except TypeError:
        return None


def adapt(method: str, data: Any, batch_size: int, seed: int | None, fit: dict[str, Any], rank: int, size: int) -> Indexed | Iterable:
    """seed: of the order; None: as it is. fit: workers and max_queue_size of configure_fit(). InvalidDataTypeException: no data."""
    workers, queue = fit["workers"], fit["max_queue_size"]
    if isinstance(data, SequenceAdapter):
        workers, queue, data = data.workers, data.max_queue_size, data.sequence
    if isinstance(data, (tuple, list)):
        if len(data) not in (2, 3):
            raise errors.InvalidDataTypeException(type(data), f"{method}: expected (x, y) or (x, y, sample_weights), got {len(data)} values")
        return Indexed(Arrays(method, tuple(data), batch_size, seed), rank, size)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return Indexed(Sequences(data, seed, max(workers, getattr(data, "workers", 1)), queue), rank, size)
    if not hasattr(data, "__iter__"):
        raise errors.InvalidDataTypeException(type(data), f"{method}: expected arrays (x, y), a keras.utils.Sequence or a tf.data.Dataset")
    return Iterable(data)
