import os
import time

import numpy
import pytest

import volador
from volador import exceptions


@volador.task
def square(x):
    return x * x


@volador.task
def add(a, b=0):
    return a + b


class Refused(Exception):
    def __init__(self, code, text):  # Cannot be made from its args alone.
        super().__init__(text)
        self.code = code


def test_results_come_in_the_order_of_the_futures():
    assert volador.get([square.remote(i) for i in range(200)]) == [i * i for i in range(200)]


def test_a_task_is_a_plain_function_here():
    assert square(3) == 9
    assert square.__name__ == "square"


def test_keyword_arguments_and_every_kind_of_value():
    @volador.task
    def echo(*args, **kwargs):
        return args, kwargs

    args = (None, True, -1, 2**70, 1.5, "é", b"\0", (1, 2), [3], {4: 5}, {6}, range(3), complex(1, 2))
    assert echo.remote(*args, key="value").result() == (args, {"key": "value"})


def test_what_is_defined_in_a_function_travels_with_what_it_captures():
    factor = 7

    class Local:
        def __init__(self, value):
            self.value = value

    @volador.task
    def scale(local):
        return local.value * factor

    assert scale.remote(Local(6)).result() == 42


def test_an_exception_keeps_its_type_and_has_the_remote_traceback_as_cause():
    @volador.task
    def fails():
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost") as caught:
        fails.remote().result()
    assert isinstance(caught.value.__cause__, exceptions.RemoteTraceback)
    assert "in fails" in str(caught.value.__cause__)
    assert "_host.py" not in str(caught.value.__cause__)


def test_an_exception_that_cannot_be_pickled_becomes_a_task_error_with_its_text():
    @volador.task
    def refuses():
        raise Refused(3, "not today")

    with pytest.raises(exceptions.TaskError, match="Refused: not today"):
        refuses.remote().result()


def test_an_exception_is_retried_where_the_options_say_so(tmp_path):
    def tries(path, error, until):
        with open(path, "a") as file:
            file.write("x")
        if os.path.getsize(path) < until:
            raise error("again")
        return os.path.getsize(path)

    task = volador.task(tries)
    assert task.options(retry_exceptions=True, max_retries=5).remote(tmp_path / "a", ValueError, 3).result() == 3
    assert task.options(retry_exceptions=[ValueError], max_retries=5).remote(tmp_path / "b", ValueError, 3).result() == 3
    with pytest.raises(KeyError):
        task.options(retry_exceptions=[ValueError], max_retries=5).remote(tmp_path / "c", KeyError, 3).result()
    assert os.path.getsize(tmp_path / "c") == 1
    with pytest.raises(ValueError, match="again"):  # The type survives the last retry.
        task.options(retry_exceptions=True, max_retries=1).remote(tmp_path / "d", ValueError, 9).result()
    assert os.path.getsize(tmp_path / "d") == 2


def test_a_task_whose_process_dies_runs_again(tmp_path):
    @volador.task
    def dies_once(path):
        if not path.exists():
            path.touch()
            os._exit(3)
        return "lives"

    assert dies_once.remote(tmp_path / "died").result(timeout=30) == "lives"
    with pytest.raises(exceptions.VoladorError):
        dies_once.options(max_retries=0).remote(tmp_path / "again").result(timeout=30)


def test_futures_and_references_among_the_arguments_arrive_as_values():
    ref = volador.put(numpy.arange(5))
    first = square.remote(3)
    assert add.remote(first, b=square.remote(4)).result() == 25
    assert add.remote(ref, b=1).result().tolist() == [1, 2, 3, 4, 5]
    chain = square.remote(1)
    for _ in range(20):
        chain = add.remote(chain, 1)
    assert chain.result() == 21


def test_the_exception_of_an_argument_is_the_exception_of_the_task():
    @volador.task
    def fails():
        raise ZeroDivisionError("first")

    with pytest.raises(ZeroDivisionError, match="first"):
        add.remote(fails.remote(), 1).result()


def test_tasks_start_tasks():
    @volador.task
    def fibonacci(n):
        if n < 2:
            return n
        return sum(volador.get([fibonacci.remote(n - 1), fibonacci.remote(n - 2)]))

    assert fibonacci.remote(6).result(timeout=60) == 8


def test_what_can_never_run_is_refused():
    with pytest.raises(exceptions.InfeasibleError, match="1000"):
        square.options(num_cpus=1000).remote(1).result(timeout=10)


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(exceptions.InvalidArgumentError, match="did you mean num_cpus"):
        square.options(num_cpu=1)


def test_what_cannot_be_pickled_is_refused_by_the_caller():
    import threading

    with pytest.raises(TypeError, match="lock"):
        square.remote(threading.Lock())


def test_a_timeout_says_that_the_task_goes_on():
    @volador.task
    def sleeps():
        time.sleep(0.3)
        return "awake"

    future = sleeps.remote()
    with pytest.raises(exceptions.GetTimeoutError, match="goes on"):
        future.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        volador.get([future], timeout=0.01)
    assert future.result() == "awake"


def test_a_running_task_sees_its_cancellation(tmp_path):
    @volador.task
    def waits(path):
        path.touch()
        while not volador.cancel_requested():
            time.sleep(0.005)
        return "never read"

    future = waits.remote(tmp_path / "runs")
    while not (tmp_path / "runs").exists():
        time.sleep(0.005)
    future.cancel()
    with pytest.raises(exceptions.CancelledError):
        future.result(timeout=10)


def test_gpus_are_visible_to_the_task_alone():
    @volador.task(num_gpus=1)
    def devices():
        return os.environ["CUDA_VISIBLE_DEVICES"], volador.get_runtime_context()["gpus"]

    visible, gpus = devices.remote().result()
    assert visible == ",".join(map(str, gpus))
    assert len(gpus) == 1

    @volador.task
    def none():
        return os.environ["CUDA_VISIBLE_DEVICES"]

    assert none.remote().result() == ""


def openblas_threads():
    """Threads of numpy's OpenBLAS, by the library's own account."""
    import ctypes

    with open("/proc/self/maps") as maps:
        path = next(line.split(maxsplit=5)[5].strip() for line in maps if "openblas" in line)
    library = ctypes.CDLL(path)
    return next(getattr(library, name)() for name in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_", "openblas_get_num_threads") if hasattr(library, name))


def test_libraries_have_as_many_threads_as_the_task_has_cpus():
    def threads():
        return os.environ["OMP_NUM_THREADS"], openblas_threads()

    task = volador.task(threads)
    assert task.options(num_cpus=1).remote().result() == ("1", 1)
    wanted = min(2, os.cpu_count())  # OpenBLAS takes no more than the machine has.
    assert task.options(num_cpus=2).remote().result() == ("2", wanted)


def test_random_numbers_differ_between_processes():
    @volador.task(num_cpus=2)
    def draw():
        time.sleep(0.1)
        return os.getpid(), numpy.random.random(), __import__("random").random()

    drawn = {}
    for pid, a, b in volador.get([draw.remote() for _ in range(4)]):
        drawn.setdefault(pid, (a, b))
    assert len({a for a, _ in drawn.values()}) == len(drawn)
    assert len({b for _, b in drawn.values()}) == len(drawn)


def test_wait_splits_by_readiness():
    @volador.task(num_cpus=0.1)
    def sleeps(seconds):
        time.sleep(seconds)
        return seconds

    futures = [sleeps.remote(seconds) for seconds in (5.0, 0.0, 0.0)]
    ready, pending = volador.wait(futures, num_returns=2, timeout=20)
    assert [future.result() for future in ready] == [0.0, 0.0]
    assert pending == [futures[0]]
    pending[0].cancel(force=True)
    with pytest.raises(ValueError, match="num_returns is 4"):
        volador.wait(futures, num_returns=4)
    done = [future.result() for future in volador.as_completed([sleeps.remote(0.2), sleeps.remote(0.0)])]
    assert sorted(done) == [0.0, 0.2]


def test_callbacks_and_standard_futures():
    import concurrent.futures

    futures = [square.remote(i).future() for i in range(10)]
    assert sorted(future.result() for future in concurrent.futures.as_completed(futures)) == [i * i for i in range(10)]


def test_await_in_a_loop():
    import asyncio

    async def main():
        return await asyncio.gather(*[square.remote(i) for i in range(100)])

    assert asyncio.run(main()) == [i * i for i in range(100)]
