import gc
import os
import time

import numpy
import pytest

import volador
from volador import exceptions


@volador.task
def total(array):
    return float(array.sum())


def test_a_value_comes_back_equal():
    for value in (None, 1, "text", {"a": [1, 2]}, b"x" * 300_000, numpy.arange(10)):
        got = volador.put(value).get()
        assert (got == value).all() if isinstance(value, numpy.ndarray) else got == value


def test_a_large_array_is_read_in_place():
    array = numpy.random.default_rng(1).random(2_000_000)
    ref = volador.put(array)
    a, b = ref.get(), ref.get()
    assert (a == array).all()
    assert a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
    assert total.remote(ref).result() == float(array.sum())


def test_views_outlive_the_reference():
    array = volador.put(numpy.full(500_000, 3.0)).get()
    gc.collect()
    for _ in range(5):
        volador.put(numpy.zeros(500_000))
    assert (array == 3.0).all()


def test_large_arguments_and_results_travel_as_objects():
    @volador.task
    def double(array, *, add):
        return array * 2 + add

    array = numpy.arange(1_000_000, dtype=numpy.float32)
    assert (double.remote(array, add=numpy.ones(1_000_000, dtype=numpy.float32)).result() == array * 2 + 1).all()


def test_references_inside_values_stay_references():
    inner = volador.put(numpy.arange(100_000))

    @volador.task
    def read(box):
        assert isinstance(box["ref"], volador.Ref)
        return int(box["ref"].get().sum())

    assert read.remote({"ref": inner}).result() == sum(range(100_000))
    outer = volador.put({"ref": inner})
    del inner
    gc.collect()
    assert int(outer.get()["ref"].get().sum()) == sum(range(100_000))


def test_a_future_inside_a_value_arrives_as_a_reference():
    @volador.task
    def make():
        return "made"

    @volador.task
    def read(box):
        return box[0].get()

    assert read.remote([make.remote()]).result() == "made"


def test_a_freed_object_is_lost():
    ref = volador.put(numpy.zeros(100_000))
    ref.free()
    deadline = time.monotonic() + 10
    with pytest.raises(exceptions.ObjectLostError):
        while time.monotonic() < deadline:  # The store frees it as soon as it has read the request.
            ref.get(timeout=10)


def test_references_cannot_leave_the_cluster():
    import pickle

    with pytest.raises(TypeError, match="outside of Volador"):
        pickle.dumps(volador.put(1))
    with pytest.raises(TypeError, match="pass it on as it is"):
        volador.put(volador.put(1))
    with pytest.raises(TypeError, match="expected a Future"):
        volador.get(3)


def test_objects_leave_neither_memory_nor_descriptors():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    volador.get([volador.put(numpy.zeros(20_000)) for _ in range(200)])
    before = descriptors()
    for _ in range(20):
        refs = [volador.put(numpy.zeros(20_000)) for _ in range(200)]
        volador.get(refs)
    del refs
    gc.collect()
    assert descriptors() <= before + 4
