"""Times of the parts of a batch."""

import time

import pytest

from volador.compat.determined import _profiler, core


def batches():
    for index in range(6):
        time.sleep(0.002)
        yield index, "batch"


def test_parts_within_parts_count_once_and_only_in_the_window():
    waited = []
    timings = _profiler.Timings(_profiler.Profiling(2, 4, True), 8, lambda: waited.append(1))
    seen = []
    for index, _ in timings.batches(batches()):
        seen.append(index)
        with timings.part("train_batch"):
            time.sleep(0.001)
            with timings.part("to_device"):
                time.sleep(0.003)
    assert seen == list(range(6))
    times = timings.take()
    assert set(times) == {"dataloader_next", "train_batch", "to_device", "samples_per_second"}
    assert times["dataloader_next"] >= 0.002 and times["to_device"] >= 0.003 and times["train_batch"] >= 0.001
    assert times["samples_per_second"] == pytest.approx(8 / (times["dataloader_next"] + times["train_batch"] + times["to_device"]))
    assert len(waited) == 3 * 4  # Both ends of both parts.
    assert timings.take() == {}


def test_a_part_that_fails_counts_and_the_next_begins_anew():
    timings = _profiler.Timings(_profiler.Profiling(), None, None)
    with pytest.raises(ArithmeticError):
        for _ in timings.batches(batches()):
            with timings.part("train_batch"):
                raise ArithmeticError
    with timings.part("reduce_metrics"):
        pass
    assert set(timings.take()) == {"dataloader_next", "train_batch", "reduce_metrics"}


def test_the_configuration_says_what_is_measured():
    assert _profiler.profiling_of({}) is None and _profiler.profiling_of({"profiling": {"enabled": False, "begin_on_batch": 3}}) is None
    assert _profiler.profiling_of({"profiling": {"enabled": True}}) == _profiler.Profiling(0, None, True)
    given = {"enabled": True, "begin_on_batch": 3, "end_after_batch": 7, "sync_timings": False}
    assert _profiler.profiling_of({"profiling": given}) == _profiler.Profiling(3, 7, False)


def test_the_core_api_has_a_profiler(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with core.init(checkpoint_storage=str(tmp_path)) as context:
        context.profiler.on(sampling_interval=0.5, samples_per_report=5)
        context.profiler.off()
        with pytest.raises(ValueError, match="sampling_interval: expected a number above 0, got 0"):
            context.profiler.on(sampling_interval=0)
