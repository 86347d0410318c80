"""ray.util."""

from volador._future import as_completed
from volador.compat.ray.util import placement_group as _placement_group
from volador.compat.ray.util import queue, scheduling_strategies
from volador.compat.ray.util.actor_pool import ActorPool

placement_group = _placement_group.placement_group
get_placement_group = _placement_group.get_placement_group
remove_placement_group = _placement_group.remove_placement_group

__all__ = ["ActorPool", "as_completed", "get_placement_group", "placement_group", "queue", "remove_placement_group", "scheduling_strategies"]
