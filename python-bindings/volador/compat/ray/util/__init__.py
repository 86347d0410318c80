"""ray.util."""

from volador._future import as_completed
from volador.compat.ray.util import queue, scheduling_strategies
from volador.compat.ray.util.actor_pool import ActorPool
from volador.compat.ray.util.placement_group import get_placement_group, placement_group, remove_placement_group

__all__ = ["ActorPool", "as_completed", "get_placement_group", "placement_group", "queue", "remove_placement_group", "scheduling_strategies"]
