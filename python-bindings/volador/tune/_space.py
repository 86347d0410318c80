"""Search spaces: constants, domains, and dictionaries and lists of them. Names and ranges are Ray Tune's."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from volador.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from volador.tune._functions import Functions


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


def sample_from(function: Callable[..., Any]) -> Domain:
    """The result of a function of the other parameters: sample_from(lambda config: 2 * config["width"]).

    The program that runs the trials calls it before a trial starts, and its result is part of the configuration. It gets the
    parameters that are resolved; where it reads another one of sample_from, it is called again once that is resolved. A
    function of two arguments gets a random.Random too, which depends on the seed of the run, the trial and the parameter."""
    from volador.tune._functions import arguments_of

    arguments_of(function)
    return Domain("sample_from", (function,))


def domains_of(space: dict[str, Any]) -> dict[str, Any]:
    """The space without its constants; lists, grids and functions are constants here."""
    found: dict[str, Any] = {}
    for name, value in space.items():
        if isinstance(value, dict) and (inner := domains_of(value)):
            found[name] = inner
        elif isinstance(value, Domain) and value.kind not in ("grid_search", "sample_from"):
            found[name] = value
    return found


def functions_of(space: dict[str, Any]) -> dict[str, Any]:
    """The functions of the space, in its dictionaries."""
    found: dict[str, Any] = {}
    for name, value in space.items():
        if isinstance(value, dict) and (inner := functions_of(value)):
            found[name] = inner
        elif isinstance(value, Domain) and value.kind == "sample_from":
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


def to_json(space: dict[str, Any], functions: Functions | None = None) -> str:
    """The space as the runtime reads it; its functions are added to `functions`, and None refuses them. Raises TypeError,
    which names the path of what a configuration cannot hold."""
    return json.dumps(_node(space, "", functions))


def value_to_json(value: Any, path: str) -> str:
    """A value of a configuration. Raises TypeError."""
    if has_domain(value):
        raise TypeError(f"space: {path}: the function of sample_from returned {value!r}; expected a value that is drawn from it")
    return json.dumps(_node(value, path, None))


def _node(value: Any, path: str, functions: Functions | None) -> Any:
    if isinstance(value, Domain) and value.kind == "sample_from":
        if functions is None:
            raise InvalidArgumentError(f"space: {path}: sample_from is a function of a program, and only values are possible here; give a value or a domain")
        return {value.kind: functions.add(path, value.values[0])}
    if isinstance(value, Domain):
        return {value.kind: [_node(each, path, functions) for each in value.values]}
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"space: {path or '/'}: the name {name!r} is a {type(name).__name__}; expected a string")
        return {name: _node(each, f"{path}.{name}" if path else name, functions) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_node(each, f"{path}.{index}", functions) for index, each in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    item = getattr(value, "item", None)  # A number of numpy or torch.
    if callable(item):
        return item()
    raise TypeError(
        f"space: {path}: a {type(value).__name__} is not a number, string, list or dictionary; give it to the trainable by tune.with_parameters(…)"
    )
