"""optuna.samplers: names and options of the searchers that they are."""

from __future__ import annotations

from typing import Any

from volador.exceptions import InvalidArgumentError

__all__ = ["CmaEsSampler", "GPSampler", "NSGAIISampler", "QMCSampler", "RandomSampler", "TPESampler"]


class _Sampler(str):
    seed: int | None = None


def _sampler(kind: str, seed: int | None, options: dict[str, Any], unknown: dict[str, Any], name: str) -> _Sampler:
    given = [key for key, value in unknown.items() if value is not None]
    if given:
        raise InvalidArgumentError(f"{name}: {', '.join(given)} is not there; leave it out, or use volador.tune with its own options")
    text = ",".join(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items() if value is not None)
    made = _Sampler(f"{kind}:{text}" if text else kind)
    made.seed = seed
    return made


def TPESampler(
    *,
    seed: int | None = None,
    n_startup_trials: int | None = None,
    n_ei_candidates: int | None = None,
    multivariate: bool | None = None,
    group: bool | None = None,
    constant_liar: bool | None = None,
    warn_independent_sampling: bool = True,
    **unknown: Any,
) -> _Sampler:
    options = {
        "n_startup_trials": n_startup_trials,
        "n_ei_candidates": n_ei_candidates,
        "multivariate": multivariate,
        "group": group,
        "constant_liar": constant_liar,
    }
    return _sampler("tpe", seed, options, unknown, "TPESampler")


def RandomSampler(seed: int | None = None) -> _Sampler:
    return _sampler("random", seed, {}, {}, "RandomSampler")


def CmaEsSampler(*, seed: int | None = None, sigma0: float | None = None, popsize: int | None = None, warn_independent_sampling: bool = True, **unknown: Any) -> _Sampler:
    return _sampler("cmaes", seed, {"sigma": sigma0, "population": popsize}, unknown, "CmaEsSampler")


def GPSampler(*, seed: int | None = None, n_startup_trials: int | None = None, deterministic_objective: bool = False, **unknown: Any) -> _Sampler:
    return _sampler("gp", seed, {"n_startup_trials": n_startup_trials}, unknown, "GPSampler")


def NSGAIISampler(*, seed: int | None = None, population_size: int | None = None, **unknown: Any) -> _Sampler:
    return _sampler("nsga2", seed, {"population_size": population_size}, unknown, "NSGAIISampler")


def QMCSampler(*, seed: int | None = None, qmc_type: str = "sobol", scramble: bool = False, **_: Any) -> _Sampler:
    return _sampler("sobol", seed, {}, {}, "QMCSampler")
