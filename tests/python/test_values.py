"""Values that travel, made up by hypothesis. VOLADOR_EXAMPLES: values of each test."""

import collections
import copy
import dataclasses
import decimal
import enum
import gc
import math
import os
import pathlib
import sys
import uuid

import numpy
import pytest

import volador

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies  # noqa: E402
from hypothesis.extra import numpy as arrays  # noqa: E402

given_few = settings(max_examples=int(os.environ.get("VOLADOR_EXAMPLES", "100")), deadline=None, database=None)


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: object
    y: object


Pair = collections.namedtuple("Pair", "first second")

leaves = strategies.one_of(
    strategies.none(), strategies.booleans(), strategies.integers(), strategies.floats(), strategies.complex_numbers(), strategies.text(), strategies.binary(),
    strategies.binary(min_size=1, max_size=8).map(lambda piece: piece * 20_000), strategies.datetimes(), strategies.timedeltas(), strategies.timezones(),
    strategies.decimals(), strategies.fractions(), strategies.uuids(), strategies.sampled_from(Colour), strategies.builds(bytearray, strategies.binary()),
    strategies.builds(range, strategies.integers(-9, 9), strategies.integers(-9, 9)), strategies.builds(pathlib.PurePosixPath, strategies.text("abc/.")), strategies.just(Ellipsis))
keys = strategies.one_of(strategies.booleans(), strategies.integers(), strategies.text(), strategies.binary(), strategies.tuples(strategies.integers(), strategies.text()))
shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)
# In the byte order of the machine: NumPy's own pickling changes the other one of some arrays.
scalars = strategies.one_of(
    arrays.boolean_dtypes(), arrays.integer_dtypes(endianness="="), arrays.unsigned_integer_dtypes(endianness="="), arrays.floating_dtypes(endianness="="),
    arrays.complex_number_dtypes(endianness="="), arrays.byte_string_dtypes(), arrays.unicode_string_dtypes(endianness="="),
    arrays.datetime64_dtypes(endianness="="), arrays.timedelta64_dtypes(endianness="="))
dense = arrays.arrays(scalars | arrays.array_dtypes(scalars), shapes)


@strategies.composite
def views(draw):
    """Arrays that are not contiguous, among them such of more than 64 KiB."""
    array = numpy.tile(draw(arrays.arrays(scalars, shapes)), draw(strategies.sampled_from([1, 1, 20_000])))
    return draw(strategies.sampled_from([array, array.T, array[::-1] if array.ndim else array, array[..., ::2] if array.ndim else array, numpy.asfortranarray(array)]))


values = strategies.recursive(
    leaves | dense | views(),
    lambda inner: strategies.one_of(
        strategies.lists(inner, max_size=4), strategies.lists(inner, max_size=4).map(tuple), strategies.dictionaries(keys, inner, max_size=4),
        strategies.builds(Point, inner, inner), strategies.builds(Pair, inner, inner), strategies.lists(inner, max_size=3).map(collections.deque),
        strategies.frozensets(keys, max_size=4), strategies.sets(keys, max_size=4)),
    max_leaves=12)


def same(a, b):
    """Equal with the same types; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, Point):
        return same(a.x, b.x) and same(a.y, b.y)
    if isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and numpy.ascontiguousarray(a).tobytes() == numpy.ascontiguousarray(b).tobytes()
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b) or math.isnan(a) and math.isnan(b)
    if isinstance(a, decimal.Decimal):
        return str(a) == str(b)
    return a == b


@volador.task
def echo(*args, **kwargs):
    return args, kwargs


class Echo(volador.Actor):
    def __init__(self, value=None):
        self.value = value

    def get(self):
        return self.value

    def swap(self, value):
        self.value, value = value, self.value
        return value


@given_few
@given(values)
def test_a_value_that_is_put_comes_back(value):
    before = copy.deepcopy(value)
    ref = volador.put(value)
    assert same(ref.get(), before)
    assert same(ref.get(), before)
    assert same(value, before)


@given_few
@given(strategies.lists(values, max_size=3), strategies.dictionaries(strategies.from_regex("[a-z]{1,5}", fullmatch=True), values, max_size=3))
def test_arguments_and_results_of_tasks_come_back(args, kwargs):
    got_args, got_kwargs = echo.remote(*args, **kwargs).result(timeout=60)
    assert same(got_args, tuple(args)) and same(got_kwargs, kwargs)


@given_few
@given(values, values)
def test_an_actor_keeps_what_it_gets(actor, first, second):
    actor.swap.remote(first).result(timeout=60)
    assert same(actor.swap.remote(second).result(timeout=60), first)
    assert same(actor.get.remote().result(timeout=60), second)


@pytest.fixture(scope="module")
def actor():
    handle = Echo.remote()
    yield handle
    volador.kill(handle)


@given_few
@given(values, strategies.integers())
def test_functions_carry_what_they_enclose(value, number):
    @volador.task
    def enclosed(more):
        return value, number + more

    assert same(enclosed.remote(1).result(timeout=60), (value, number + 1))


@given_few
@given(values)
def test_exceptions_keep_their_arguments(value):
    @volador.task
    def fail():
        raise ValueError(value)

    with pytest.raises(ValueError) as caught:
        fail.remote().result(timeout=60)
    assert same(caught.value.args, (value,))


@given_few
@given(views())
def test_writing_to_an_array_that_was_read_leaves_the_object_as_it_is(array):
    ref = volador.put(array)
    got = ref.get()
    if got.flags.writeable and got.size:
        got.reshape(-1)[...] = got.dtype.type()
    assert same(ref.get(), array)


def resident_bytes():
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_hundred_thousand_objects_leave_nothing():
    value = ["some", {"value": 1}, uuid.uuid4()]
    references = [sys.getrefcount(each) for each in value]

    def rounds(count):
        for _ in range(count):
            refs = [volador.put(value) for _ in range(1_000)]
            assert len(volador.get(refs)) == 1_000
        del refs
        gc.collect()

    rounds(10)
    memory, descriptors = resident_bytes(), len(os.listdir("/proc/self/fd"))
    rounds(90)
    assert [sys.getrefcount(each) for each in value] == references
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2
    # 100 bytes of each object would be 9 MB.
    assert resident_bytes() - memory < 9_000_000
