"""ray.util.scheduling_strategies."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class PlacementGroupSchedulingStrategy:
    placement_group: Any
    placement_group_bundle_index: int = -1
    placement_group_capture_child_tasks: bool | None = None

    def volador_options(self) -> dict[str, Any]:
        return {"placement_group": self.placement_group, "bundle": self.placement_group_bundle_index}


@dataclasses.dataclass(frozen=True)
class NodeAffinitySchedulingStrategy:
    """node_id: the name of a node."""

    node_id: str
    soft: bool = False

    def volador_options(self) -> dict[str, Any]:
        return {"prefer_node": self.node_id} if self.soft else {"node": self.node_id}
