"""Actors: objects of Python classes in processes of their own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from volador import _code, _core, _future, _host, _html, _options, _runtime, _values
from volador.exceptions import InvalidArgumentError, VoladorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S")


_NO_METHODS = ("__", "_repr_", "_ipython_")  # Prefixes of names that Python and IPython look for in every object.


class BoundMethod(Generic[P, R]):
    """A method of a handle."""

    __slots__ = ("_handle", "_name", "_timeout")

    def __init__(self, handle: ActorHandle, name: str, timeout: float | None = None) -> None:
        self._handle = handle
        self._name = name
        self._timeout = timeout

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> _future.Future[R]:
        """Starts the call and returns at once. Calls of this process on one actor run in their order.

        A generator gives a Stream in place of a Future."""
        handle = self._handle
        arguments, futures = _future.split_arguments(args, kwargs)
        if handle._methods is not None and handle._methods.get(self._name):
            return cast("_future.Future[R]", self.stream(*args, **kwargs))
        core = _core.call(handle._core, self._name, _values.pack(arguments), futures, self._timeout)
        return _future.Future(core, f"{handle._class_name}.{self._name}")

    def stream(self, *args: P.args, **kwargs: P.kwargs) -> _future.Stream[Any]:
        """Calls a generator: its items arrive while it runs. Waits for futures among the arguments."""
        arguments, futures = _future.split_arguments(args, kwargs)
        core = _core.stream(self._handle._core, self._name, _values.pack(arguments), futures, self._timeout)
        return _future.Stream(core, f"{self._handle._class_name}.{self._name}")

    def options(self, *, timeout: float | None = None) -> BoundMethod[P, R]:
        """timeout: in seconds; the call then ends with GetTimeoutError, and the method sees its cancellation."""
        return BoundMethod(self._handle, self._name, timeout)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self._name} is a method of an actor in another process: call handle.{self._name}.remote(…)")


class Method(Generic[S, P, R]):
    """What @volador.method makes: on a handle a BoundMethod with the types of the method, inside the class the method."""

    def __init__(self, function: Callable[Concatenate[S, P], R], concurrency_group: str | None) -> None:
        self._function = function
        self._concurrency_group = concurrency_group

    @overload
    def __get__(self, instance: None, owner: type[S]) -> Method[S, P, R]: ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> BoundMethod[P, R]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._function.__get__(instance, owner)


@overload
def method(function: Callable[Concatenate[S, P], R], /) -> Method[S, P, R]: ...
@overload
def method(*, concurrency_group: str | None = None) -> Callable[[Callable[Concatenate[S, P], R]], Method[S, P, R]]: ...
def method(function: Any = None, /, *, concurrency_group: str | None = None) -> Any:
    """Marks a method of an actor, so that type checkers know handle.method.remote(…). Methods without it can be called
    as well. concurrency_group: its threads, apart from other methods' (see the option concurrency_groups)."""

    def mark(given: Any) -> Any:
        given.__volador_concurrency_group__ = concurrency_group
        return given

    return mark if function is None else mark(function)


class ActorHandle:
    """Handle on an actor: handle.method.remote(…). Can be passed to other actors and tasks. An actor that is not
    detached ends soon after its last handle is gone."""

    __slots__ = ("__weakref__", "_class_name", "_core", "_methods")

    _core: Any
    _class_name: str
    _methods: dict[str, bool] | None  # Name, and whether it is a generator.

    def __init__(self, core: Any, class_name: str, methods: dict[str, bool] | None) -> None:
        object.__setattr__(self, "_core", core)
        object.__setattr__(self, "_class_name", class_name)
        object.__setattr__(self, "_methods", methods)  # None: unknown, found by name.

    def __getattr__(self, name: str) -> BoundMethod[..., Any]:
        if name.startswith(_NO_METHODS) and name != "__volador_ready__":
            raise AttributeError(name)
        if self._methods is not None and name not in self._methods and name != "__volador_ready__":
            import difflib

            near = difflib.get_close_matches(name, self._methods, 1)
            raise AttributeError(
                f"{self._class_name} has no method {name}" + (f"; did you mean {near[0]}?" if near else f"; it has {', '.join(sorted(self._methods)) or 'none'}")
            )
        return BoundMethod(self, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and bool(self._core == other._core)

    def __hash__(self) -> int:
        return hash(self._core)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_handle, (_values.refer(self._core, 1), self._class_name, self._methods)

    def __repr__(self) -> str:
        return f"<volador actor {self._class_name} {self._core.id[:8]}>"

    def _repr_html_(self) -> str:
        try:
            status = actor_status(self)
        except VoladorError as error:  # The head is away, or has forgotten it.
            return _html.page(_html.Page(f"Actor {self._class_name} {self._core.id[:8]}", "unknown", lines=[str(error)]))
        facts = [
            f"name {status['name']}" if status["name"] else "",
            f"node {status['node']}" if status["node"] else "",
            f"process {status['pid']}" if status["pid"] else "",
            _html.counted(status["restarts"], "restart") if status["restarts"] else "",
        ]
        lines = [str(status["death"] or status["reason"] or "")]
        return _html.page(_html.Page(f"Actor {self._class_name} {self._core.id[:8]}", str(status["state"]), facts, lines=lines))


def _restore_handle(index: int, class_name: str, methods: dict[str, bool] | None) -> ActorHandle:
    return ActorHandle(_values.referred(index, 1), class_name, methods)


class ActorClass(Generic[P, T]):
    """A class whose remote() makes an actor of it."""

    def __init__(self, kind: Callable[P, T], options: _options.ActorOptions) -> None:
        self._kind = cast("type[Any]", kind)
        self._options = options
        self._code = _code.Portable(self._kind)
        self._methods: dict[str, bool] | None = None
        self._groups: dict[str, list[str]] = {}  # Methods by concurrency group.
        self.__name__: str = self._kind.__name__
        self.__doc__ = self._kind.__doc__

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Spawns an actor and returns its handle, once the head has accepted it; the constructor runs elsewhere.

        Raises InfeasibleError, InvalidArgumentError (a name in use), UnavailableError."""
        _runtime.ensure()
        name = self._kind.__qualname__.rsplit("<locals>.", 1)[-1]
        if self._methods is None:
            self._methods = _host.methods_of(self._kind)
            self._groups = {}
            for key in self._methods:
                group = getattr(getattr(self._kind, key), "__volador_concurrency_group__", None)
                if group is not None:
                    self._groups.setdefault(group, []).append(key)
        saves = {"save_checkpoint", "load_checkpoint"} <= self._methods.keys()
        arguments, futures = _future.split_arguments(args, kwargs)
        if futures:  # A constructor's arguments travel with the request: their values must be there.
            arguments, _ = _future.split_arguments(
                tuple(_value(value) for value in args), {key: _value(value) for key, value in kwargs.items()}
            )
        core = _core.spawn(self._options.core(name, self._groups, saves), self._code.packed(), _values.pack(arguments))
        return cast("T", ActorHandle(core, name, self._methods))

    def options(self, **options: Any) -> ActorClass[P, T]:
        """The same class with other options; see volador.Actor."""
        return self._with(self._options.but(options))

    def _with(self, options: _options.ActorOptions) -> Self:
        made = type(self)(cast("Callable[P, T]", self._kind), options)
        made._code, made._methods, made._groups = self._code, self._methods, self._groups
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.__name__} is an actor class: {self.__name__}.remote(…) makes an actor")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._kind, self._options)

    def __repr__(self) -> str:
        return f"<volador.ActorClass {self.__name__}>"


def _value(argument: Any) -> Any:
    return argument.result() if isinstance(argument, _future.Future) else argument


class Actor:
    """Base of classes whose objects live in processes of their own:

        class Counter(volador.Actor):
            def __init__(self, start: int) -> None: ...
            @volador.method
            def add(self, amount: int) -> int: ...

        counter = Counter.remote(10)
        counter.add.remote(5).result()

    Options, by Counter.options(…): num_cpus, num_gpus, memory (bytes), resources; name, namespace, get_if_exists,
    lifetime="detached"; max_restarts (-1 without limit), max_task_retries, max_concurrency, concurrency_groups;
    checkpoint_every (seconds or calls; the class has save_checkpoint(directory) and load_checkpoint(directory)); node,
    prefer_node, labels, priority; env; isolation="shared": many small actors in one process; start_timeout (s)."""

    @classmethod
    def remote(cls: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Spawns an actor; see ActorClass.remote."""
        return _class_of(cast("type[Any]", cls)).remote(*args, **kwargs)  # type: ignore[no-any-return]

    @classmethod
    def options(cls: Callable[P, T], **options: Any) -> ActorClass[P, T]:
        """This class with options."""
        return ActorClass(cls, _options.ActorOptions.of(options))


def _class_of(kind: type[Any]) -> ActorClass[Any, Any]:
    made = kind.__dict__.get("__volador_class__")
    if made is None:
        made = ActorClass(kind, _options.ActorOptions())
        kind.__volador_class__ = made
    return cast("ActorClass[Any, Any]", made)


def kill(actor: Any, *, no_restart: bool = True, grace: float = 0.0) -> None:
    """Ends an actor. no_restart=False: it restarts, if its max_restarts allows it. grace: seconds for what runs."""
    if not isinstance(actor, ActorHandle):
        raise TypeError(f"kill: expected a handle, got {type(actor).__name__}; a task or call is ended by volador.cancel()")
    actor._core.kill(no_restart, grace)


def get_actor(name: str, namespace: str | None = None) -> Any:
    """Handle on the living actor of this name; it does not keep the actor alive. Raises NotFoundError (a ValueError)."""
    _runtime.ensure()
    core, class_name = _core.find_actor(name, namespace or "")
    return ActorHandle(core, class_name or name, None)


def wait_ready(actor: Any, timeout: float | None = None) -> None:
    """Returns when the constructor has returned; raises what it raised, ActorDiedError, GetTimeoutError."""
    actor.__volador_ready__.remote().result(timeout)


def actor_status(actor: Any) -> dict[str, Any]:
    """State of an actor as the head knows it: "state" (pending, starting, alive, restarting, dead), "node", "pid",
    "restarts", "class_name", "name", "namespace", "reason" (why it waits), "death" (why it ended)."""
    return dict(actor._core.status())


def remote(given: Any = None, /, **options: Any) -> Any:
    """@volador.remote on a function is @volador.task; on a class it makes an ActorClass."""
    from volador import _task

    def make(what: Any) -> Any:
        if inspect.isclass(what):
            return ActorClass(what, _options.ActorOptions.of(options))
        if callable(what):
            return _task.Task(what, _options.TaskOptions.of(options))
        raise InvalidArgumentError(f"remote: expected a function or a class, got {type(what).__name__}")

    return make if given is None else make(given)

