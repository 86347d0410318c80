"""Placement groups: resources reserved together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from volador import _core, _runtime
from volador.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


class PlacementGroup:
    """A group; copies refer to the same one, and may be passed to actors. It ends with remove() or with its creator."""

    __slots__ = ("_core",)

    def __init__(self, core: Any) -> None:
        self._core = core

    @property
    def id(self) -> str:
        return str(self._core.id)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits up to `timeout` seconds; returns whether all bundles are reserved. NotFoundError once it was removed."""
        return bool(self._core.wait(timeout))

    def remove(self) -> None:
        """Ends the group's actors and returns its resources."""
        self._core.remove()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<volador.PlacementGroup {self.id[:8]}>"


def placement_group(
    bundles: Sequence[dict[str, float]],
    strategy: str = "PACK",
    *,
    name: str = "",
    lifetime: str | None = None,
    priority: int = 0,
    wait_if_infeasible: bool = False,
) -> PlacementGroup:
    """Reserves resources together: placement_group([{"num_cpus": 1, "num_gpus": 1}] * 2, "STRICT_SPREAD").

    bundles: each with num_cpus, num_gpus, memory (bytes) and custom resources by their names. strategy: PACK (few
    nodes), SPREAD (many), STRICT_PACK (one), STRICT_SPREAD (one each). lifetime="detached": outlives its creator.
    Returns once the head has accepted it; wait() waits for the reservation. Raises InfeasibleError, InvalidArgumentError."""
    if strategy not in STRATEGIES:
        raise InvalidArgumentError(f"placement_group: strategy is {strategy!r}; expected one of {', '.join(STRATEGIES)}")
    if lifetime not in (None, "detached"):
        raise InvalidArgumentError(f'placement_group: lifetime is {lifetime!r}; expected None or "detached"')
    _runtime.ensure()
    made = []
    for bundle in bundles:
        custom = dict(bundle)
        cpus, gpus = float(custom.pop("num_cpus", 0)), float(custom.pop("num_gpus", 0))
        made.append((cpus, gpus, int(custom.pop("memory", 0)), {key: float(value) for key, value in custom.items()}))
    return PlacementGroup(
        _core.placement_group(made, STRATEGIES.index(strategy), name, lifetime == "detached", priority, wait_if_infeasible)
    )


def get_placement_group(name: str) -> PlacementGroup:
    """The group of this name. Raises NotFoundError."""
    _runtime.ensure()
    return PlacementGroup(_core.find_placement_group(name))
