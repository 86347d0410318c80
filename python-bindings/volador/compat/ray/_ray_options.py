"""Ray's options as Volador's."""

from __future__ import annotations

from typing import Any

from volador.exceptions import InvalidArgumentError

# Change where or how well something runs, never its result.
_WITHOUT_EFFECT = {"max_calls", "max_pending_calls", "accelerator_type", "enable_task_events", "_metadata", "num_returns", "allow_out_of_order_execution"}


def task_options(given: dict[str, Any]) -> dict[str, Any]:
    return _common(given, {})


def actor_options(given: dict[str, Any]) -> dict[str, Any]:
    return _common(given, {})


def _common(given: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        if name == "num_returns" and value not in (None, 1, "streaming", "dynamic"):
            raise InvalidArgumentError(f"num_returns is {value!r}; expected 1: return a tuple, and take its parts from the value")
        if name in _WITHOUT_EFFECT or value is None:
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
