"""Ray's core names on Volador: `import volador.compat.ray as ray`.

The semantics are Volador's: references to results are futures; a placement group's ready() is one as well. Arguments that
Volador has no use for are accepted where leaving them out changes no result, and refused where it would."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import volador
from volador import _actor, _options, _task
from volador.compat.ray import exceptions, util
from volador.compat.ray._ray_options import num_returns_of, options_of

__version__ = "2.60.0"  # Whose names these are.

ObjectRef: tuple[type[volador.Future[Any]], type[volador.Ref[Any]]] = (volador.Future, volador.Ref)


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: int | None = None,
    resources: dict[str, float] | None = None,
    object_store_memory: int | None = None,
    namespace: str | None = None,
    ignore_reinit_error: bool = False,
    log_to_driver: bool = True,
    runtime_env: dict[str, Any] | None = None,
    **ignored: Any,
) -> volador.Context:
    """volador.init(). address "auto" is Volador's default. resources, runtime_env: refused, see the message."""
    if resources:
        raise ValueError("ray.init: custom resources of a private cluster are not there; start a head: volador start --head --resources=…")
    if runtime_env:
        raise ValueError("ray.init: runtime_env is not there; hosts use the interpreter, the modules and the working directory of this program")
    return volador.init(
        None if address in (None, "auto") else address,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        object_store_memory=object_store_memory,
        namespace=namespace,
        ignore_reinit_error=ignore_reinit_error,
        log_to_driver=log_to_driver,
    )


@volador.task(num_cpus=0)
def _part_of(value: Any, index: int) -> Any:
    return value[index]


class RemoteFunction(_task.Task[Any, Any]):
    """A function with Ray's options. num_returns: the parts of its result as references of their own."""

    def __init__(self, function: Any, options: _options.TaskOptions, num_returns: int = 1) -> None:
        super().__init__(function, options)
        self._num_returns = num_returns

    def options(self, **options: Any) -> RemoteFunction:
        count = num_returns_of(options) if "num_returns" in options else self._num_returns
        return self._shares_code(RemoteFunction(self._function, self._options.but(options_of(options)), count))

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        made = super().remote(*args, **kwargs)
        return made if self._num_returns == 1 else [_part_of.remote(made, index) for index in range(self._num_returns)] or None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"Remote functions cannot be called directly. Instead of running '{self._function.__name__}()', try '{self._function.__name__}.remote()'.")

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFunction, (self._function, self._options, self._num_returns)


class RemoteClass(_actor.ActorClass[Any, Any]):
    """A class with Ray's options."""

    def options(self, **options: Any) -> RemoteClass:
        return self._with(self._options.but(options_of(options)))


def remote(given: Any = None, /, **options: Any) -> Any:
    """@ray.remote and @ray.remote(num_cpus=…), on functions and classes."""

    def make(what: Any) -> Any:
        if inspect.isclass(what):
            return RemoteClass(what, _options.ActorOptions.of(options_of(options)))
        if callable(what):
            return RemoteFunction(what, _options.TaskOptions.of(options_of(options)), num_returns_of(options))
        raise TypeError("The @ray.remote decorator must be applied to either a function or a class.")

    return make if given is None else make(given)


def method(given: Any = None, /, *, concurrency_group: str | None = None, num_returns: Any = 1, **ignored: Any) -> Any:
    """@ray.method(concurrency_group=…)."""
    if num_returns not in (1, "streaming"):
        raise ValueError(f"ray.method: num_returns is {num_returns!r}; expected 1 or \"streaming\": return a tuple, and take its parts from the value")
    mark = volador.method(concurrency_group=concurrency_group)
    return mark if given is None else mark(given)


def get(what: Any, *, timeout: float | None = None) -> Any:
    return volador.get(what, timeout=timeout)


def put(value: Any) -> volador.Ref[Any]:
    return volador.put(value)


def wait(
    things: list[Any], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[Any], list[Any]]:
    return volador.wait(things, num_returns=num_returns, timeout=timeout)


def kill(actor: Any, *, no_restart: bool = True) -> None:
    volador.kill(actor, no_restart=no_restart)


def cancel(what: Any, *, force: bool = False, recursive: bool = True) -> None:
    volador.cancel(what, force=force)


def get_actor(name: str, namespace: str | None = None) -> Any:
    return volador.get_actor(name, namespace)


def is_initialized() -> bool:
    return volador.is_initialized()


def shutdown() -> None:
    volador.shutdown()


def cluster_resources() -> dict[str, float]:
    return _ray_names(volador.cluster_resources())


def available_resources() -> dict[str, float]:
    return _ray_names(volador.available_resources())


def get_gpu_ids() -> list[int]:
    return list(volador.get_runtime_context().get("gpus", []))


def _ray_names(resources: dict[str, float]) -> dict[str, float]:
    return {{"cpus": "CPU", "gpus": "GPU"}.get(name, name): amount for name, amount in resources.items()}


class _RuntimeContext:
    """ray.get_runtime_context()."""

    def __init__(self, context: dict[str, Any]) -> None:
        self._context = context

    def get_actor_id(self) -> str | None:
        return self._context.get("actor_id")

    def get_actor_name(self) -> str | None:
        return self._context.get("name") or None

    def get_node_id(self) -> str | None:
        return self._context.get("node_id")

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        return {"GPU": [str(index) for index in self._context.get("gpus", [])]}

    def get_assigned_resources(self) -> dict[str, float]:
        return _ray_names(self._context.get("resources", {}))

    @property
    def namespace(self) -> str:
        return str(self._context.get("namespace", ""))

    @property
    def was_current_actor_reconstructed(self) -> bool:
        return bool(self._context.get("restarts", 0))


def get_runtime_context() -> _RuntimeContext:
    return _RuntimeContext(volador.get_runtime_context())


class actor:
    """ray.actor.ActorHandle, ray.actor.exit_actor."""

    ActorHandle = volador.ActorHandle
    ActorClass = RemoteClass
    exit_actor: Callable[[], None] = staticmethod(volador.exit_actor)


__all__ = [
    "ObjectRef",
    "actor",
    "available_resources",
    "cancel",
    "cluster_resources",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "put",
    "remote",
    "shutdown",
    "util",
    "wait",
]
