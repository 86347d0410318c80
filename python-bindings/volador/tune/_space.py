"""Search spaces: constants, domains, and dictionaries and lists of them. Names and ranges are Ray Tune's."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Domain:
    """A set of values to draw from, by the runtime's name of its distribution (tune/space/space_json.h)."""

    kind: str
    values: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(map(repr, self.values))})"


def uniform(low: float, high: float) -> Domain:
    """A real in [low, high)."""
    return Domain("uniform", (low, high))


def quniform(low: float, high: float, q: float) -> Domain:
    """A multiple of q in [low, high]."""
    return Domain("quniform", (low, high, q))


def loguniform(low: float, high: float) -> Domain:
    """A real in [low, high), uniform in its logarithm."""
    return Domain("loguniform", (low, high))


def qloguniform(low: float, high: float, q: float) -> Domain:
    """A multiple of q in [low, high], uniform in its logarithm."""
    return Domain("qloguniform", (low, high, q))


def randn(mean: float = 0.0, sd: float = 1.0) -> Domain:
    """A normal value."""
    return Domain("randn", (mean, sd))


def qrandn(mean: float, sd: float, q: float) -> Domain:
    """A normal value, rounded to a multiple of q."""
    return Domain("qrandn", (mean, sd, q))


def randint(low: int, high: int) -> Domain:
    """An integer in [low, high)."""
    return Domain("randint", (low, high))


def qrandint(low: int, high: int, q: int) -> Domain:
    """A multiple of q in [low, high]."""
    return Domain("qrandint", (low, high, q))


def lograndint(low: int, high: int) -> Domain:
    """An integer in [low, high), uniform in its logarithm."""
    return Domain("lograndint", (low, high))


def qlograndint(low: int, high: int, q: int) -> Domain:
    """A multiple of q in [low, high], uniform in its logarithm."""
    return Domain("qlograndint", (low, high, q))


def choice(options: Iterable[Any]) -> Domain:
    """One of the options, which may be spaces themselves."""
    return Domain("choice", tuple(options))


def grid_search(options: Iterable[Any]) -> Domain:
    """Each option once for every sample; several grids are crossed."""
    return Domain("grid_search", tuple(options))


def domains_of(space: dict[str, Any]) -> dict[str, Any]:
    """The space without its constants; lists and grids are constants here."""
    found: dict[str, Any] = {}
    for name, value in space.items():
        if isinstance(value, dict) and (inner := domains_of(value)):
            found[name] = inner
        elif isinstance(value, Domain) and value.kind != "grid_search":
            found[name] = value
    return found


def constants_of(space: dict[str, Any]) -> dict[str, Any]:
    """The space without its domains, and without the dictionaries that have only these."""
    found: dict[str, Any] = {}
    for name, value in space.items():
        if isinstance(value, dict):
            if inner := constants_of(value):
                found[name] = inner
        elif not has_domain(value):
            found[name] = value
    return found


def has_domain(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_domain, value.values()))
    return isinstance(value, Domain) or (isinstance(value, (list, tuple)) and any(map(has_domain, value)))


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both; of a value that both have, the one of `above`."""
    if not below:
        return above
    result = {**below, **above}
    for name, value in below.items():
        if isinstance(value, dict) and isinstance(above.get(name), dict):
            result[name] = merged(value, above[name])
    return result


def to_json(space: dict[str, Any]) -> str:
    """The space as the runtime reads it. Raises TypeError, which names the path of what a configuration cannot hold."""
    return json.dumps(_node(space, ""))


def _node(value: Any, path: str) -> Any:
    if isinstance(value, Domain):
        return {value.kind: [_node(each, path) for each in value.values]}
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"space: {path or '/'}: the name {name!r} is a {type(name).__name__}; expected a string")
        return {name: _node(each, f"{path}.{name}" if path else name) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_node(each, f"{path}.{index}") for index, each in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    item = getattr(value, "item", None)  # A number of numpy or torch.
    if callable(item):
        return item()
    raise TypeError(
        f"space: {path}: a {type(value).__name__} is not a number, string, list or dictionary; give it to the trainable by tune.with_parameters(…)"
    )
