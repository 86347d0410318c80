"""Functions of sample_from in a space. The extension calls Functions.resolve (python-bindings/core/tune_custom.cc)."""

from __future__ import annotations

import inspect
import json
import random
from typing import TYPE_CHECKING, Any

from volador.exceptions import InvalidArgumentError
from volador.tune import _space

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Unresolved(KeyError):
    """A function has read a parameter that is not there, or not yet."""

    def __str__(self) -> str:
        return str(self.args[0])


class Resolved(dict[str, Any]):
    """The parameters that are resolved so far, by name or as attributes. Reading another one raises Unresolved."""

    def __init__(self, config: Mapping[str, Any], space: Any) -> None:
        inner = space if isinstance(space, dict) else {}
        super().__init__({name: Resolved(value, inner.get(name)) if isinstance(value, dict) else value for name, value in config.items()})
        self._waits_for = {name for name, value in inner.items() if isinstance(value, _space.Domain) and value.kind == "sample_from" and name not in config}

    def __missing__(self, name: str) -> Any:
        raise Unresolved(f"the configuration has no {name!r}; it has {', '.join(map(repr, self)) or 'nothing'}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        if name in self._waits_for:
            self.__missing__(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default


def arguments_of(function: Any) -> int:
    """How many of configuration and generator a function of sample_from takes. Raises InvalidArgumentError."""
    if not callable(function):
        raise InvalidArgumentError(f"sample_from: expected a function of the configuration, as sample_from(lambda config: 2 * config['width']), got {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # A function of an extension.
        return 1
    for count in (1, 2, 0):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return count
    raise InvalidArgumentError(f"sample_from: the function takes {signature}; expected (config), (config, random) or no arguments")


class Functions:
    """The functions of a space, by their number in its JSON. `note`: for an exception of a function."""

    name = "sample_from"
    hooks: set[str] = set()

    def __init__(self, space: Mapping[str, Any], note: str = "") -> None:
        self.space = dict(space)
        self.note = note
        self.functions: list[tuple[str, Callable[..., Any], int]] = []

    def __len__(self) -> int:
        return len(self.functions)

    def add(self, path: str, function: Callable[..., Any]) -> int:
        self.functions.append((path, function, arguments_of(function)))
        return len(self.functions) - 1

    def resolve(self, index: int, config: str, seed: int) -> tuple[str | None, str]:
        """The value as JSON; or None, and which parameter it waits for."""
        path, function, count = self.functions[index]
        arguments = (Resolved(json.loads(config), self.space), random.Random(seed))[:count]
        try:
            return _space.value_to_json(function(*arguments), path), ""
        except Unresolved as missing:
            return None, str(missing)
        except Exception as error:
            if hasattr(error, "add_note"):  # From Python 3.11 on.
                error.add_note(f"It was raised by the function of sample_from for the parameter {path}{self.note}.")
            raise
