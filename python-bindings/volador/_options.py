"""Options of actors and tasks, checked where they are written."""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING, Any, TypeVar

from volador import _core
from volador.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from volador._placement import PlacementGroup

O = TypeVar("O", bound="_Options")


@dataclasses.dataclass(frozen=True)
class _Options:
    num_cpus: float | None = None
    num_gpus: float = 0
    memory: int = 0
    resources: dict[str, float] = dataclasses.field(default_factory=dict)
    name: str | None = None
    node: str | None = None  # Name of the node on which it must run.
    prefer_node: str | None = None  # Name of the node that is chosen while it has room.
    labels: dict[str, Any] = dataclasses.field(default_factory=dict)
    placement_group: PlacementGroup | None = None
    bundle: int = -1  # Of the group; -1: the first with room.

    @classmethod
    def of(cls: type[O], given: dict[str, Any]) -> O:
        _check_names(cls, given)
        return cls(**given)

    def but(self: O, given: dict[str, Any]) -> O:
        _check_names(type(self), given)
        return dataclasses.replace(self, **given)

    def label_rules(self) -> list[tuple[str, str, list[str]]]:
        """{"zone": "a"}, {"zone": ["a", "b"]}, {"zone": "!a"}, {"spot": True} (exists), {"spot": False} (absent)."""
        rules: list[tuple[str, str, list[str]]] = []
        for key, value in self.labels.items():
            if isinstance(value, bool):
                rules.append((key, "exists" if value else "absent", []))
            elif isinstance(value, str) and value.startswith("!"):
                rules.append((key, "not_in", [value[1:]]))
            elif isinstance(value, str):
                rules.append((key, "in", [value]))
            elif isinstance(value, (list, tuple, set)):
                rules.append((key, "in", [str(each) for each in value]))
            else:
                raise InvalidArgumentError(f"labels: {key} is {value!r}; expected a string, a list of strings, True (the label exists) or False")
        return rules

    def place(self) -> tuple[str, bool]:
        if self.node is not None and self.prefer_node is not None:
            raise InvalidArgumentError("node and prefer_node are both given; give one of them")
        return self.node or self.prefer_node or "", self.prefer_node is not None


def _check_names(kind: type[Any], given: dict[str, Any]) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            raise InvalidArgumentError(f"options: there is no {name}" + (f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"))


@dataclasses.dataclass(frozen=True)
class TaskOptions(_Options):
    max_retries: int = 3
    retry_exceptions: bool | tuple[type[BaseException], ...] | list[type[BaseException]] = False

    def __post_init__(self) -> None:
        if isinstance(self.retry_exceptions, list):
            object.__setattr__(self, "retry_exceptions", tuple(self.retry_exceptions))

    def core(self, name: str) -> Any:
        made = _core.TaskOptions()
        made.name = self.name or name
        made.max_retries = self.max_retries
        made.retry_exceptions = bool(self.retry_exceptions)
        made.set_resources(1.0 if self.num_cpus is None else float(self.num_cpus), float(self.num_gpus), int(self.memory), dict(self.resources))
        made.set_place(*self.place(), self.label_rules())
        if self.placement_group is not None:
            made.set_group(self.placement_group._core, self.bundle)
        return made


@dataclasses.dataclass(frozen=True)
class ActorOptions(_Options):
    namespace: str | None = None
    get_if_exists: bool = False
    lifetime: str | None = None  # "detached": outlives its creator.
    max_restarts: int = 0
    max_task_retries: int = 0
    max_concurrency: int = 1
    concurrency_groups: dict[str, int] = dataclasses.field(default_factory=dict)
    priority: int = 0
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    isolation: str = "process"
    start_timeout: float = 60.0
    checkpoint_every: float | int | None = None  # Seconds (float), or calls (int).
    wait_if_infeasible: bool = False

    def core(self, class_name: str, groups_of_methods: dict[str, list[str]], saves: bool) -> Any:
        if self.lifetime not in (None, "detached"):
            raise InvalidArgumentError(f'lifetime is {self.lifetime!r}; expected None or "detached"')
        if self.isolation not in ("process", "shared"):
            raise InvalidArgumentError(f'isolation is {self.isolation!r}; expected "process" or "shared"')
        if self.get_if_exists and not self.name:
            raise InvalidArgumentError("get_if_exists: the actor needs a name by which others find it; give name=…")
        for group in groups_of_methods:
            if group not in self.concurrency_groups:
                raise InvalidArgumentError(f"a method is in the concurrency group {group!r}, which the options do not have; give concurrency_groups={{{group!r}: threads}}")
        made = _core.SpawnOptions()
        made.class_name = class_name
        made.name = self.name or ""
        made.namespace = self.namespace or ""
        made.node, made.node_preferred = self.place()
        made.labels = self.label_rules()
        made.num_cpus = 0.0 if self.num_cpus is None else float(self.num_cpus)
        made.num_gpus = float(self.num_gpus)
        made.memory = int(self.memory)
        made.resources = dict(self.resources)
        made.env = {key: str(value) for key, value in self.env.items()}
        made.detached = self.lifetime == "detached"
        made.shared = self.isolation == "shared"
        made.wait_if_infeasible = self.wait_if_infeasible
        made.get_if_exists = self.get_if_exists
        made.max_restarts = self.max_restarts
        made.max_task_retries = self.max_task_retries
        made.max_concurrency = self.max_concurrency
        made.priority = self.priority
        made.start_timeout_s = float(self.start_timeout)
        if self.placement_group is not None:
            made.set_group(self.placement_group._core, self.bundle)
        made.concurrency_groups = [(group, threads, groups_of_methods.get(group, [])) for group, threads in self.concurrency_groups.items()]
        if self.checkpoint_every is not None and not saves:
            raise InvalidArgumentError(f"checkpoint_every: {class_name} has no save_checkpoint(directory) and load_checkpoint(directory)")
        if isinstance(self.checkpoint_every, int):
            made.checkpoint_calls = self.checkpoint_every
        elif self.checkpoint_every is not None:
            made.checkpoint_interval_s = float(self.checkpoint_every)
        elif saves and self.max_restarts != 0:
            made.checkpoint_interval_s = 1.0
        return made
