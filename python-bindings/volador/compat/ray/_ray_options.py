"""Ray's options as Volador's."""

from __future__ import annotations

from typing import Any

from volador.exceptions import InvalidArgumentError

# Change where or how well something runs, never its result.
_WITHOUT_EFFECT = {"max_calls", "max_pending_calls", "accelerator_type", "enable_task_events", "_metadata", "allow_out_of_order_execution"}


def num_returns_of(given: dict[str, Any]) -> int:
    """The number of references that a task gives."""
    value = given.get("num_returns")
    if value is None:
        return 1
    if not isinstance(value, int) or value < 0:
        raise InvalidArgumentError(f"num_returns is {value!r}; expected a number; a generator is a method of an actor")
    return value


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """Options of a task or an actor."""
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name in _WITHOUT_EFFECT or name == "num_returns" or value is None:
            continue
        if name == "runtime_env":
            extra = set(value) - {"env_vars"}
            if extra:
                raise InvalidArgumentError(f"runtime_env: {', '.join(sorted(extra))} is not there; expected env_vars only")
            made["env"] = dict(value.get("env_vars", {}))
        elif name == "scheduling_strategy":
            made.update(_strategy(value))
        elif name == "label_selector":
            made["labels"] = value
        elif name == "placement_group":
            made["placement_group"] = None if value == "default" else value
        elif name == "placement_group_bundle_index":
            made["bundle"] = value
        else:
            made[name] = value
    return made


def _strategy(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        if value in ("DEFAULT", "SPREAD"):
            return {}
        raise InvalidArgumentError(f'scheduling_strategy is {value!r}; expected "DEFAULT", "SPREAD" or an object of ray.util.scheduling_strategies')
    return dict(value.volador_options())
