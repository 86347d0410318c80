import asyncio
import gc
import os
import threading
import time

import pytest

import volador
from volador import exceptions


class Counter(volador.Actor):
    def __init__(self, start=0):
        self.value = start

    @volador.method
    def add(self, amount):
        self.value += amount
        return self.value

    def fail(self, error):
        raise error

    def pid(self):
        return os.getpid()

    def die(self):
        os._exit(9)

    def leave(self):
        volador.exit_actor()


def wait_until(condition, timeout=20):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def test_calls_run_in_their_order_in_another_process():
    counter = Counter.remote(10)
    futures = [counter.add.remote(1) for _ in range(500)]
    assert volador.get(futures) == list(range(11, 511))
    assert counter.pid.remote().result() != os.getpid()


def test_an_exception_ends_the_call_and_not_the_actor():
    counter = Counter.remote()
    with pytest.raises(LookupError, match="here"):
        counter.fail.remote(LookupError("here")).result()
    assert counter.add.remote(1).result() == 1


def test_the_decorator_makes_any_class_an_actor():
    @volador.remote
    class Plain:
        def __init__(self, a, *, b):
            self.sum = a + b

        def get(self):
            return self.sum

    assert Plain.remote(1, b=2).get.remote().result() == 3
    with pytest.raises(TypeError, match=r"Plain\.remote"):
        Plain(1, b=2)


def test_an_unknown_method_is_refused_here():
    counter = Counter.remote()
    with pytest.raises(AttributeError, match="has no method ad; did you mean add"):
        counter.ad.remote(1)
    with pytest.raises(TypeError, match=r"add\.remote"):
        counter.add(1)


def test_a_wrong_argument_raises_a_type_error_with_its_traceback():
    with pytest.raises(TypeError, match="argument"):
        Counter.remote().add.remote().result()


def test_a_constructor_that_raises_ends_the_actor_with_its_reason():
    class Broken(volador.Actor):
        def __init__(self):
            raise RuntimeError("no such device")

        def go(self):
            pass

    broken = Broken.remote()
    with pytest.raises(exceptions.ActorDiedError, match="no such device"):
        volador.wait_ready(broken, timeout=20)
    with pytest.raises(exceptions.ActorDiedError, match="no such device"):
        broken.go.remote().result(timeout=20)


def test_a_name_finds_the_actor_from_anywhere():
    counter = Counter.options(name="hits").remote(5)
    assert volador.get_actor("hits") == counter
    assert volador.get_actor("hits").add.remote(1).result() == 6

    @volador.task
    def elsewhere():
        return volador.get_actor("hits").add.remote(1).result()

    assert elsewhere.remote().result() == 7
    with pytest.raises(exceptions.InvalidArgumentError, match="hits"):
        Counter.options(name="hits").remote()
    assert Counter.options(name="hits", get_if_exists=True).remote().add.remote(1).result() == 8
    volador.kill(counter)
    with pytest.raises(ValueError, match="hits"):
        wait_until(lambda: not volador.get_actor("hits"))


def test_handles_travel_and_keep_the_actor():
    class Keeper(volador.Actor):
        def keep(self, handles):
            self.handle = handles[0]

        def add(self, amount):
            return self.handle.add.remote(amount).result()

        def give(self):
            return self.handle

    keeper = Keeper.remote()
    counter = Counter.remote(1)
    keeper.keep.remote([counter]).result()
    del counter
    gc.collect()
    assert keeper.add.remote(2).result() == 3
    assert keeper.give.remote().result().add.remote(1).result() == 4


def test_an_actor_ends_with_its_last_handle():
    counter = Counter.remote()
    pid = counter.pid.remote().result()
    del counter
    gc.collect()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_dead_actor_says_how_it_died():
    counter = Counter.remote()
    with pytest.raises(exceptions.VoladorError):
        counter.die.remote().result(timeout=20)
    with pytest.raises(exceptions.ActorDiedError, match="9"):
        counter.add.remote(1).result(timeout=20)


def test_an_actor_restarts_and_retries_its_calls():
    counter = Counter.options(max_restarts=3, max_task_retries=3).remote(100)
    first = counter.pid.remote().result()
    os.kill(first, 9)
    assert counter.add.remote(1).result(timeout=20) == 101  # A new object.
    assert counter.pid.remote().result() != first
    assert volador.actor_status(counter)["restarts"] == 1


def test_an_actor_restarts_from_its_checkpoint():
    class Saved(volador.Actor):
        def __init__(self):
            self.value = 0

        def add(self, amount):
            self.value += amount
            return self.value, os.getpid()

        def save_checkpoint(self, directory):
            with open(os.path.join(directory, "value"), "w") as file:
                file.write(str(self.value))

        def load_checkpoint(self, directory):
            with open(os.path.join(directory, "value")) as file:
                self.value = int(file.read())

    saved = Saved.options(max_restarts=1, max_task_retries=1, checkpoint_every=1).remote()
    value, pid = saved.add.remote(5).result()
    os.kill(pid, 9)
    assert saved.add.remote(2).result(timeout=20)[0] == 7
    with pytest.raises(exceptions.InvalidArgumentError, match="save_checkpoint"):
        Counter.options(checkpoint_every=1).remote()


def test_exit_actor_ends_the_actor():
    counter = Counter.remote()
    with pytest.raises(exceptions.ActorDiedError):
        counter.leave.remote().result(timeout=20)
    with pytest.raises(exceptions.ActorDiedError):
        counter.add.remote(1).result(timeout=20)


def test_calls_wait_for_their_futures_and_keep_their_order(tmp_path):
    @volador.task
    def after(path, value):
        while not path.exists():
            time.sleep(0.005)
        return value

    counter = Counter.remote()
    futures = [counter.add.remote(after.remote(tmp_path / "go", 10)), counter.add.remote(1), counter.add.remote(2)]
    assert volador.wait(futures, timeout=0.05)[0] == []
    (tmp_path / "go").touch()
    assert volador.get(futures) == [10, 11, 13]
    assert counter.add.remote(counter.add.remote(1)).result() == 28


def test_methods_run_at_the_same_time_where_the_options_say_so():
    class Meeting(volador.Actor):
        def __init__(self):
            self.barrier = threading.Barrier(2)

        def meet(self):
            self.barrier.wait(10)
            return "met"

    meeting = Meeting.options(max_concurrency=2).remote()
    assert volador.get([meeting.meet.remote(), meeting.meet.remote()]) == ["met", "met"]


def test_a_concurrency_group_has_threads_of_its_own():
    class Store(volador.Actor):
        def __init__(self):
            self.event = threading.Event()

        def wait(self):
            return self.event.wait(10)

        @volador.method(concurrency_group="control")
        def release(self):
            self.event.set()

    store = Store.options(concurrency_groups={"control": 1}).remote()
    waits = store.wait.remote()
    store.release.remote().result(timeout=5)
    assert waits.result() is True
    with pytest.raises(exceptions.InvalidArgumentError, match="control"):
        Store.remote()


def test_coroutines_of_an_actor_run_together():
    class Async(volador.Actor):
        def __init__(self):
            self.event = None
            self.calls = 0

        async def wait(self):
            self.event = self.event or asyncio.Event()
            self.calls += 1
            await self.event.wait()
            return self.calls

        async def release(self):
            self.event = self.event or asyncio.Event()
            self.event.set()

        async def fail(self):
            raise KeyError("async")

        def plain(self):
            return asyncio.get_running_loop() is not None

        async def leave(self):
            volador.exit_actor()

    actor = Async.remote()
    waiting = [actor.wait.remote() for _ in range(100)]
    actor.release.remote().result(timeout=10)
    assert volador.get(waiting, timeout=10) == [100] * 100
    assert actor.plain.remote().result() is True
    with pytest.raises(KeyError, match="async"):
        actor.fail.remote().result()

    with pytest.raises(exceptions.ActorDiedError):
        actor.leave.remote().result(timeout=20)
    with pytest.raises(exceptions.ActorDiedError):
        wait_until(lambda: not actor.plain.remote().result(timeout=20))

    @volador.remote
    class Caller:
        async def call(self, other, n):
            return sum(await asyncio.gather(*[other.add.remote(1) for _ in range(n)]))

    assert Caller.remote().call.remote(Counter.remote(), 10).result() == 55


def test_a_call_with_a_timeout_is_cancelled():
    class Sleeper(volador.Actor):
        def sleep(self):
            while not volador.cancel_requested():
                time.sleep(0.005)
            self.cancelled = True

        def was_cancelled(self):
            return self.cancelled

    sleeper = Sleeper.remote()
    volador.wait_ready(sleeper)
    with pytest.raises(TimeoutError):
        sleeper.sleep.options(timeout=1).remote().result()  # By then it runs.
    assert sleeper.was_cancelled.remote().result(timeout=10) is True


def test_the_context_names_the_actor():
    class Who(volador.Actor):
        def context(self):
            return volador.get_runtime_context()

    context = Who.options(name="who", num_cpus=0.5, num_gpus=0.5, env={"GREETING": "hello"}).remote().context.remote().result()
    assert context["name"] == "who"
    assert context["class_name"] == "Who"
    assert context["resources"] == {"cpus": 0.5, "gpus": 0.5}
    assert len(context["gpus"]) == 1


def test_the_environment_of_an_actor():
    class Environment(volador.Actor):
        def get(self, name):
            return os.environ.get(name)

    assert Environment.options(env={"GREETING": "hello"}).remote().get.remote("GREETING").result() == "hello"
    assert Environment.remote().get.remote("GREETING").result() is None
    assert Environment.remote().get.remote("VOLADOR_PYTHON_PATH").result() is None


def test_many_small_actors_share_a_process():
    class Small(volador.Actor):
        def __init__(self, number):
            self.number = number

        def get(self):
            return self.number, os.getpid()

    actors = [Small.options(isolation="shared").remote(i) for i in range(50)]
    answers = volador.get([actor.get.remote() for actor in actors])
    assert [number for number, _ in answers] == list(range(50))
    assert len({pid for _, pid in answers}) == 1


def test_actors_compute_in_parallel_and_sum_up():
    workers = [Counter.remote() for _ in range(4)]
    futures = [worker.add.remote(i) for i in range(100) for worker in workers]
    assert sum(volador.get(futures[-4:])) == 4 * sum(range(100))


class Reader(volador.Actor):
    def __init__(self):
        self.closed = False

    def rows(self, count):
        try:
            yield from range(count)
        finally:
            self.closed = True

    def fails(self, count):
        yield from range(count)
        raise OSError("the file ended")

    def was_closed(self):
        return self.closed


def test_a_generator_streams_its_items():
    reader = Reader.remote()
    assert list(reader.rows.remote(30_000)) == list(range(30_000))
    got = []
    with pytest.raises(OSError, match="the file ended"):
        for item in reader.fails.remote(3):
            got.append(item)
    assert got == [0, 1, 2]

    async def read():
        return [item async for item in reader.rows.remote(10)]

    assert asyncio.run(read()) == list(range(10))


def test_a_stream_that_is_not_read_to_its_end_ends_the_generator():
    reader = Reader.remote()
    stream = reader.rows.remote(10_000_000)
    assert next(stream) == 0
    stream.close()
    assert reader.was_closed.remote().result(timeout=20) is True


def test_placement_groups():
    group = volador.placement_group([{"num_cpus": 1}, {"num_cpus": 1, "num_gpus": 1}], "PACK", name="pair")
    assert group.wait(10)
    assert volador.get_placement_group("pair") == group
    worker = Counter.options(placement_group=group, bundle=1, num_gpus=1).remote(1)

    @volador.task
    def inside(given):
        return given == volador.get_placement_group("pair")

    assert inside.options(placement_group=group, bundle=0).remote(group).result(timeout=10) is True
    assert worker.add.remote(1).result() == 2
    group.remove()
    with pytest.raises(exceptions.ActorDiedError):
        wait_until(lambda: worker.add.remote(1).result(timeout=10) < 0)
    with pytest.raises(exceptions.InvalidArgumentError, match="STRICT_SPREAD"):
        volador.placement_group([{"num_cpus": 1}], "ANY")
    with pytest.raises(exceptions.InfeasibleError):
        volador.placement_group([{"num_cpus": 1000}])
