"""ray.util.placement_group."""

from __future__ import annotations

from typing import Any

import volador
from volador import _placement


class PlacementGroup(_placement.PlacementGroup):
    """With Ray's ready()."""

    def ready(self) -> volador.Future[bool]:
        """A future that ends once all bundles are reserved."""
        return _wait_for.options(num_cpus=0).remote(self)

    def wait(self, timeout_seconds: float | None = 30) -> bool:
        return super().wait(timeout_seconds)


@volador.task
def _wait_for(group: PlacementGroup) -> bool:
    return group.wait(None)


def placement_group(
    bundles: list[dict[str, float]], strategy: str = "PACK", name: str = "", lifetime: str | None = None, **ignored: Any
) -> PlacementGroup:
    """Bundles have Ray's names: CPU, GPU, memory, custom ones."""
    named = [{{"CPU": "num_cpus", "GPU": "num_gpus"}.get(key, key): value for key, value in bundle.items()} for bundle in bundles]
    return PlacementGroup(_placement.placement_group(named, strategy, name=name, lifetime=lifetime)._core)


def get_placement_group(name: str) -> PlacementGroup:
    return PlacementGroup(_placement.get_placement_group(name)._core)


def remove_placement_group(group: _placement.PlacementGroup) -> None:
    group.remove()
