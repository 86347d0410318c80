"""Programs in the shape of Ray's documentation and tests."""

import asyncio
import time

import pytest

import volador.compat.ray as ray
from volador.compat.ray.util.queue import Empty, Full, Queue
from volador.compat.ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy


@ray.remote
def square(x):
    return x * x


@ray.remote
class Counter:
    def __init__(self, start=0):
        self.i = start

    def get(self):
        return self.i

    def incr(self, value=1):
        self.i += value
        return self.i


def test_tasks_and_objects():
    assert ray.get([square.remote(i) for i in range(4)]) == [0, 1, 4, 9]
    assert ray.get(square.remote(ray.put(3))) == 9
    assert ray.get(square.options(num_cpus=2, max_calls=1, max_retries=0).remote(square.remote(2))) == 16
    with pytest.raises(TypeError, match="cannot be called directly"):
        square(2)
    ready, not_ready = ray.wait([square.remote(1), square.remote(2)], num_returns=2, timeout=10)
    assert len(ready) == 2 and not not_ready


def test_actors():
    c = Counter.remote()
    for _ in range(10):
        c.incr.remote(1)
    assert ray.get(c.get.remote()) == 10
    named = Counter.options(name="named", lifetime="detached", max_concurrency=1).remote(5)
    assert ray.get(ray.get_actor("named").incr.remote()) == 6
    ray.kill(named)
    with pytest.raises(ValueError, match="nothing"):
        ray.get_actor("nothing")


def test_decorators_with_options():
    @ray.remote(num_cpus=1, num_gpus=1, runtime_env={"env_vars": {"A": "1"}})
    class Gpu:
        def ids(self):
            import os

            return ray.get_gpu_ids(), os.environ["A"]

    ids, variable = ray.get(Gpu.remote().ids.remote())
    assert len(ids) == 1 and variable == "1"
    with pytest.raises(ValueError, match="pip"):
        ray.remote(runtime_env={"pip": ["x"]})(Counter._kind)
    with pytest.raises(ValueError, match="num_returns is 'streaming'"):
        square.options(num_returns="streaming")


def test_parts_of_a_result_are_references():
    @ray.remote(num_returns=2)
    def pair(x):
        return x, [x + 1]

    first, second = pair.remote(1)
    assert ray.get([first, square.remote(first), second]) == [1, 1, [2]]
    assert ray.get(pair.options(num_returns=1).remote(1)) == (1, [2])


def test_exceptions():
    @ray.remote
    def fail():
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        ray.get(fail.remote())

    @ray.remote
    def slow():
        time.sleep(5)

    reference = slow.remote()
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(reference, timeout=0.01)
    ray.cancel(reference, force=True)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(reference)


def test_placement_groups_and_strategies(cluster):
    group = ray.util.placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK")
    assert ray.get(group.ready(), timeout=20) is True
    inside = Counter.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, 1)).remote(3)
    assert ray.get(inside.get.remote()) == 3
    ray.util.remove_placement_group(group)
    node = ray.get(ray.remote(lambda: ray.get_runtime_context()._context["node"]).remote())
    assert ray.get(square.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(3)) == 9


def test_actor_pool():
    @ray.remote
    class Doubler:
        def double(self, v):
            time.sleep(0.01 * (v % 3))
            return 2 * v

    pool = ray.util.ActorPool([Doubler.remote() for _ in range(3)])
    assert list(pool.map(lambda a, v: a.double.remote(v), range(12))) == [2 * i for i in range(12)]
    assert sorted(pool.map_unordered(lambda a, v: a.double.remote(v), range(12))) == [2 * i for i in range(12)]
    pool.submit(lambda a, v: a.double.remote(v), 21)
    assert pool.has_next() and pool.get_next() == 42
    assert not pool.has_next()
    with pytest.raises(StopIteration):
        pool.get_next()
    actor = pool.pop_idle()
    with pytest.raises(ValueError):
        pool.push(pool._idle[0])
    pool.push(actor)


def test_queues():
    q = Queue(maxsize=2)
    q.put(1)
    q.put_nowait(2)
    assert q.full() and len(q) == 2
    with pytest.raises(Full):
        q.put(3, timeout=0.05)
    with pytest.raises(Full):
        q.put_nowait(3)

    @ray.remote
    def take(queue):
        return [queue.get(), queue.get()]

    assert ray.get(take.remote(q)) == [1, 2]
    with pytest.raises(Empty):
        q.get(block=False)
    with pytest.raises(Empty):
        q.get(timeout=0.05)

    async def both():
        await asyncio.gather(q.put_async("a"), q.put_async("b"))
        return [await q.get_async(), await q.get_async()]

    assert sorted(asyncio.run(both())) == ["a", "b"]
    q.shutdown()


def test_async_actors_and_awaited_references():
    @ray.remote
    class Async:
        async def double(self, x):
            await asyncio.sleep(0.001)
            return 2 * x

    async def main():
        actor = Async.remote()
        return await asyncio.gather(*[actor.double.remote(i) for i in range(50)])

    assert asyncio.run(main()) == [2 * i for i in range(50)]


def test_streaming_methods():
    @ray.remote
    class Source:
        @ray.method(num_returns="streaming")
        def items(self, n):
            yield from range(n)

    assert list(Source.remote().items.remote(5)) == [0, 1, 2, 3, 4]


def test_resources_have_rays_names():
    assert ray.cluster_resources()["CPU"] == 4
    assert ray.is_initialized()
