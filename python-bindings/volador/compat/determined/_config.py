"""The experiment's configuration: YAML, checked with places, and one value for each hyperparameter."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from typing import Any

from volador.compat.determined.core._searcher import Unit

TOP_LEVEL = frozenset(
    "bind_mounts checkpoint_policy checkpoint_storage data debug description entrypoint environment hyperparameters integrations internal labels "
    "log_pattern_policies log_policies max_restarts min_checkpoint_period min_validation_period name optimizations pbs perform_initial_validation "
    "preemption_timeout profiling project records_per_epoch reproducibility resources retention_policy scheduling_unit searcher security slurm "
    "template workspace".split()
)
_UNITS = {"batches": Unit.BATCHES, "epochs": Unit.EPOCHS, "records": Unit.RECORDS}
_POLICIES = ("best", "all", "none")


class ConfigError(ValueError):
    """A configuration breaks a rule: the message has the place, the key, the value, the rule and what to do."""


class ExperimentConfig(dict[str, Any]):
    """A configuration with Determined's shorthands."""

    def debug_enabled(self) -> bool:
        return bool(self.get("debug", False))

    def scheduling_unit(self) -> int:
        return int(self.get("scheduling_unit", 100))

    def slots_per_trial(self) -> int:
        return int((self.get("resources") or {}).get("slots_per_trial", 1))

    def experiment_seed(self) -> int:
        return int((self.get("reproducibility") or {}).get("experiment_seed", 0))

    def get_data_config(self) -> dict[str, Any]:
        return self.get("data") or {}

    def get_records_per_epoch(self) -> int | None:
        records = self.get("records_per_epoch")
        return None if records is None else int(records)

    def get_min_validation_period(self) -> dict[str, Any]:
        return self.get("min_validation_period") or {}

    def get_min_checkpoint_period(self) -> dict[str, Any]:
        return self.get("min_checkpoint_period") or {}

    def get_optimizations_config(self) -> dict[str, Any]:
        return self.get("optimizations") or {}

    def get_checkpoint_storage(self) -> dict[str, Any]:
        return self.get("checkpoint_storage") or {}

    def get_searcher_metric(self) -> str:
        return str((self.get("searcher") or {})["metric"])

    def get_entrypoint(self) -> str | list[str]:
        entrypoint: str | list[str] = self["entrypoint"]
        return entrypoint


def length_of(length: Any) -> tuple[int, Unit | None]:
    """Of `{batches: 100}` or 100. ValueError: neither."""
    if isinstance(length, dict) and len(length) == 1:
        name, count = next(iter(length.items()))
        if name in _UNITS and _is_count(count):
            return count, _UNITS[name]
    if _is_count(length):
        return length, None
    raise ValueError('expected a whole number, or one of "batches", "epochs" and "records" with a whole number')


def searched_length(config: dict[str, Any]) -> tuple[int, Unit | None]:
    """Of searcher.max_length; where a search has none, of max_time and the unit that it names. 1 without either."""
    searcher = config.get("searcher") or {}
    if searcher.get("max_length") is not None:
        return length_of(searcher["max_length"])
    return int(searcher.get("max_time") or 1), _UNITS.get(str(searcher.get("unit") or searcher.get("time_metric")))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclasses.dataclass
class Document:
    """A configuration and where its keys are."""

    config: ExperimentConfig
    file: str
    lines: dict[tuple[str, ...], int]

    def error(self, key: str, rule: str) -> ConfigError:
        """rule: what was expected, what is there, what to do. The place is that of the key, or of the nearest one above it."""
        parts = tuple(key.split("."))
        while parts and parts not in self.lines:
            parts = parts[:-1]
        place = f"{self.file}:{self.lines.get(parts, 1)}" if self.lines else self.file
        return ConfigError(f"{place}: {key}: {rule}")


def read(file: str) -> Document:
    """Reads and checks a file. ConfigError: it cannot be read, or breaks a rule."""
    import yaml  # type: ignore[import-untyped, unused-ignore]

    # YAML 1.1 reads 1e-3 as a text; Determined's users mean a number.
    class Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
        pass

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789"))
    name = os.path.relpath(file)
    try:
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
        loader = Loader(text)
        try:
            node = loader.get_single_node()
            config = loader.construct_document(node) if node is not None else {}
        finally:
            loader.dispose()
    except OSError as error:
        raise ConfigError(f"{name}: the configuration cannot be read: {error.strerror}; name an existing YAML file") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(f"{name}:{mark.line + 1 if mark else 1}: this is not YAML: {error.problem}; check the indentation and the colons there") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: this is not YAML: {error}; write it as UTF-8 text") from None
    if not isinstance(config, dict):
        raise ConfigError(f"{name}:1: expected a mapping of keys such as name, hyperparameters and searcher, got a {type(config).__name__}; start with `name: …`")
    lines: dict[tuple[str, ...], int] = {}
    _note_lines(node, (), lines)
    document = Document(ExperimentConfig(config), name, lines)
    _check(document)
    return document


def _note_lines(node: Any, path: tuple[str, ...], lines: dict[tuple[str, ...], int], seen: set[int] | None = None) -> None:
    """Of the keys of mappings; what an alias of YAML repeats is noted at its first place."""
    import yaml

    seen = set() if seen is None else seen
    if isinstance(node, yaml.MappingNode) and id(node) not in seen:
        seen.add(id(node))
        for key, value in node.value:
            here = (*path, str(key.value))
            lines[here] = key.start_mark.line + 1
            _note_lines(value, here, lines, seen)


def _check(document: Document) -> None:
    config = document.config
    for key in config:
        if key not in TOP_LEVEL:
            close = difflib.get_close_matches(str(key), TOP_LEVEL, 1)
            hint = f"did you mean {close[0]}?" if close else f"the keys are {', '.join(sorted(TOP_LEVEL))}"
            raise document.error(str(key), f"there is no such key at the top level; {hint}")
    for key in ("hyperparameters", "searcher", "resources", "reproducibility", "optimizations", "data"):
        if config.get(key) is not None and not isinstance(config[key], dict):
            raise document.error(key, f"expected a mapping, got {config[key]!r}; write its keys indented below it")
    searcher = config.get("searcher")
    if not searcher:
        raise document.error("searcher", "missing; add searcher with name: single, metric and max_length")
    metric = searcher.get("metric")
    if not isinstance(metric, str) or not metric:
        raise document.error("searcher.metric", f"expected the name of a validation metric, got {metric!r}; name one that the trial's evaluate method returns")
    if not isinstance(searcher.get("smaller_is_better", True), bool):
        raise document.error("searcher.smaller_is_better", f"expected true or false, got {searcher['smaller_is_better']!r}; false where the metric is an accuracy")
    if "max_length" not in searcher:
        raise document.error("searcher.max_length", "missing; add for example max_length: {batches: 1000}")
    _check_length(document, "searcher.max_length", searcher["max_length"], at_least=1)
    for key in ("min_validation_period", "min_checkpoint_period"):
        if config.get(key) is not None:
            if not isinstance(config[key], dict):
                raise document.error(key, f"expected a unit, got {config[key]!r}; write {{batches: {config[key]}}} or {{epochs: 1}}")
            _check_length(document, key, config[key])
    _check_count(document, "scheduling_unit", config.get("scheduling_unit", 100), 1)
    _check_count(document, "records_per_epoch", config.get("records_per_epoch", 0), 0)
    _check_count(document, "max_restarts", config.get("max_restarts", 5), 0)
    policy = config.get("checkpoint_policy", "best")
    if policy not in _POLICIES:
        raise document.error("checkpoint_policy", f"expected best, all or none, got {policy!r}; best is the default")
    if not isinstance(config.get("perform_initial_validation", False), bool):
        raise document.error("perform_initial_validation", f"expected true or false, got {config['perform_initial_validation']!r}; true validates before the first batch")
    _check_count(document, "reproducibility.experiment_seed", (config.get("reproducibility") or {}).get("experiment_seed", 0), 0, 2**32 - 1)
    _check_count(document, "resources.slots_per_trial", (config.get("resources") or {}).get("slots_per_trial", 1), 0)
    optimizations = config.get("optimizations") or {}
    _check_count(document, "optimizations.aggregation_frequency", optimizations.get("aggregation_frequency", 1), 1)
    entrypoint = config.get("entrypoint")
    if entrypoint is not None and not isinstance(entrypoint, (str, list)):
        raise document.error("entrypoint", f"expected module:Class or a command, got {entrypoint!r}; for example model_def:MNistTrial")


def _check_length(document: Document, key: str, length: Any, at_least: int = 0) -> None:
    try:
        count, _ = length_of(length)
    except ValueError as error:
        raise document.error(key, f"{error}, got {length!r}; for example {{batches: 100}}") from None
    if count < at_least:
        raise document.error(key, f"expected at least {at_least}, got {count}; for example {{batches: 100}}")


def _check_count(document: Document, key: str, value: Any, at_least: int, at_most: int | None = None) -> None:
    if not _is_count(value) or value < at_least or (at_most is not None and value > at_most):
        limit = f"at least {at_least}" if at_most is None else f"{at_least} to {at_most}"
        raise document.error(key, f"expected a whole number, {limit}, got {value!r}; correct it or leave it out")


def hparams_of(document: Document) -> tuple[dict[str, Any], list[str]]:
    """One value for each hyperparameter, and a notice for each that has a range.

    Constants keep their value. A trial that no searcher started takes: int and double, the middle of minval and maxval (int rounded down); log, base
    to the power of the middle; categorical, the first of vals."""
    notices: list[str] = []
    values = {name: _value_of(document, f"hyperparameters.{name}", given, notices) for name, given in (document.config.get("hyperparameters") or {}).items()}
    return values, notices


def _value_of(document: Document, key: str, given: Any, notices: list[str]) -> Any:
    if not isinstance(given, dict):
        return given
    kind = given.get("type")
    if "type" not in given:
        return {name: _value_of(document, f"{key}.{name}", each, notices) for name, each in given.items()}
    if kind == "const":
        if "val" not in given:
            raise document.error(key, "type const without val; add val: …")
        return given["val"]
    if kind == "categorical":
        choices = given.get("vals")
        if not isinstance(choices, list) or not choices:
            raise document.error(f"{key}.vals", f"expected a list of at least one value, got {choices!r}; add vals: [first, second]")
        notices.append(f"{key}: {choices[0]!r}, the first of {choices!r}; write a constant to choose another")
        return choices[0]
    if kind in ("int", "double", "log"):
        low, high = given.get("minval"), given.get("maxval")
        for name, bound in (("minval", low), ("maxval", high)):
            if isinstance(bound, bool) or not isinstance(bound, int if kind == "int" else (int, float)):
                raise document.error(f"{key}.{name}", f"expected a{' whole' if kind == 'int' else ''} number, got {bound!r}; type {kind} needs minval and maxval")
        assert low is not None and high is not None
        if low >= high:
            raise document.error(key, f"expected minval below maxval, got {low!r} and {high!r}; exchange them")
        value: Any = (low + high) // 2 if kind == "int" else (low + high) / 2
        if kind == "log":
            base = given.get("base", 10)
            if isinstance(base, bool) or not isinstance(base, (int, float)) or base <= 0:
                raise document.error(f"{key}.base", f"expected a number above 0, got {base!r}; usually 10")
            value = base**value
        notices.append(f"{key}: {value:g}, the middle of {kind} {low:g} to {high:g}; write a constant to choose another")
        return value
    raise document.error(f"{key}.type", f"expected const, int, double, log or categorical, got {kind!r}; correct it, or rename the key if it is a nested hyperparameter")
