"""Volador: actors, tasks and objects on a cluster of machines.

    import volador

    @volador.task
    def square(x: int) -> int:
        return x * x

    volador.init()
    print(volador.get([square.remote(i) for i in range(10)]))
"""

from __future__ import annotations

from volador import _core, exceptions
from volador._actor import Actor, ActorClass, ActorHandle, actor_status, get_actor, kill, method, remote, wait_ready
from volador._executor import Executor
from volador._future import Future, Ref, Stream, as_completed, cancel, get, put, wait
from volador._host import exit_actor
from volador._placement import PlacementGroup, get_placement_group, placement_group
from volador._runtime import (
    Context,
    available_resources,
    cluster_resources,
    get_runtime_context,
    init,
    is_initialized,
    shutdown,
)
from volador._task import Task, task

__version__: str = _core.version


def cancel_requested() -> bool:
    """Inside a call or task: whether it was cancelled, timed out, or lost its caller. Long code should ask and return."""
    return bool(_core.cancel_requested())


__all__ = [
    "Actor",
    "ActorClass",
    "ActorHandle",
    "Context",
    "Executor",
    "Future",
    "PlacementGroup",
    "Ref",
    "Stream",
    "Task",
    "actor_status",
    "as_completed",
    "available_resources",
    "cancel",
    "cancel_requested",
    "cluster_resources",
    "exceptions",
    "exit_actor",
    "get",
    "get_actor",
    "get_placement_group",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "placement_group",
    "put",
    "remote",
    "shutdown",
    "task",
    "wait",
    "wait_ready",
]
