import concurrent.futures
import multiprocessing
import os
import threading
import time

import pytest

import volador
from volador.util.multiprocessing import Pool


def square(x):
    return x * x


def fail(x):
    raise ValueError(f"no {x}")


def test_an_executor_runs_functions():
    with volador.Executor() as executor:
        assert list(executor.map(square, range(50))) == [x * x for x in range(50)]
        assert executor.submit(divmod, 7, 2).result() == (3, 1)
        with pytest.raises(ValueError, match="no 1"):
            executor.submit(fail, 1).result()
        with pytest.raises(TypeError):
            executor.submit(square, threading.Lock()).result()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(square, 1)


def test_an_executor_has_a_limit_and_cancels_what_waits(tmp_path):
    def wait(path):
        while not path.exists():
            time.sleep(0.005)

    executor = volador.Executor(max_workers=1)
    first, second = executor.submit(wait, tmp_path / "go"), executor.submit(wait, tmp_path / "go")
    assert second.cancel() and not first.cancel()
    third = executor.submit(square, 3)
    executor.shutdown(wait=False, cancel_futures=True)
    assert third.cancelled()
    (tmp_path / "go").touch()
    assert first.result(20) is None
    executor.shutdown()
    with pytest.raises(concurrent.futures.CancelledError):
        second.result()
    with pytest.raises(ValueError, match="max_workers is 0"):
        volador.Executor(max_workers=0)


def test_a_pool_is_multiprocessings():
    with Pool(2) as pool:
        assert pool.map(square, range(20)) == [x * x for x in range(20)]
        assert pool.map(square, []) == []
        assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
        assert pool.apply(divmod, (9, 4)) == (2, 1)
        assert list(pool.imap(square, range(7), chunksize=3)) == [x * x for x in range(7)]
        assert sorted(pool.imap_unordered(square, range(7), chunksize=2)) == [x * x for x in range(7)]
        got = []
        assert pool.map_async(square, [3], callback=got.append).get(20) == [9]
        assert got == [[9]]
        with pytest.raises(ValueError, match="no 3"):
            pool.map(fail, [3])
        with pytest.raises(ValueError, match="no 4"):
            list(pool.imap(fail, [4]))
        slow = pool.apply_async(time.sleep, (5,))
        with pytest.raises(multiprocessing.TimeoutError):
            slow.get(0.01)
        assert not slow.ready()


def test_a_pool_runs_its_initializer_and_ends():
    def remember(value):
        os.environ["REMEMBERED"] = value

    def recall(_):
        return os.environ["REMEMBERED"], os.getpid()

    pool = Pool(2, initializer=remember, initargs=("secret",))
    recalled = pool.map(recall, range(8), chunksize=1)
    assert {value for value, _ in recalled} == {"secret"}
    with pytest.raises(ValueError, match="still running"):
        pool.join()
    pool.close()
    with pytest.raises(ValueError, match="not running"):
        pool.map(square, [1])
    pool.join()
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for _, pid in recalled):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_worker_that_dies_fails_its_calls():
    with Pool(1) as pool, pytest.raises(volador.exceptions.VoladorError):
        pool.map(os._exit, [3])
