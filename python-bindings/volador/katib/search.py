"""Search spaces of parameters, for KatibClient.tune()."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from volador.katib import models


def double(min: float, max: float, step: float | None = None, distribution: str | None = None) -> models.V1beta1ParameterSpec:
    """A real number from `min` to `max`. `distribution`: uniform (the default), logUniform, normal or logNormal."""
    return _between("double", min, max, step, distribution)


def int(min: builtins.int, max: builtins.int, step: builtins.int | None = None, distribution: str | None = None) -> models.V1beta1ParameterSpec:
    """An integer from `min` to `max`."""
    return _between("int", min, max, step, distribution)


def categorical(list: Sequence[Any]) -> models.V1beta1ParameterSpec:
    """One of these values, without an order."""
    return _one_of("categorical", list)


def discrete(list: Sequence[float]) -> models.V1beta1ParameterSpec:
    """One of these numbers."""
    return _one_of("discrete", list)


def _between(kind: str, least: float, greatest: float, step: float | None, distribution: str | None) -> models.V1beta1ParameterSpec:
    space = models.V1beta1FeasibleSpace(min=str(least), max=str(greatest), distribution=distribution)
    if step is not None:
        space.step = str(step)
    return models.V1beta1ParameterSpec(parameter_type=kind, feasible_space=space)


def _one_of(kind: str, values: Sequence[Any]) -> models.V1beta1ParameterSpec:
    return models.V1beta1ParameterSpec(parameter_type=kind, feasible_space=models.V1beta1FeasibleSpace(list=[str(value) for value in values]))
