"""python -m volador.determined: trains one trial of an experiment here."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.util
import logging
import os
import runpy
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any

from volador.compat import _alias
from volador.compat.determined import _config, _info, _trial, _trial_context, _units, util
from volador.compat.determined.core import _context, _preempt, _train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Listener = Callable[[str, int, dict[str, Any]], None]

USAGE = "python -m volador.determined [model_def:Class] config.yaml [--output DIR] [--checkpoint ID]"
TRIAL = "--trial"  # First of the arguments in a process of a cluster's trial; the class may follow.
DESCRIPTION = (
    "Trains one trial of a Determined experiment: in this process, in those of torchrun, or with resources.slots_per_trial above 1 on so many workers "
    "of a cluster, a private one by default, where it goes on after lost workers. Hyperparameters with a range take its middle (int, double, "
    "log) or first value (categorical). The entrypoint is module:Class, or `python3 SCRIPT.py …` for a Core API program. On SIGTERM the trial saves a "
    "checkpoint at the next report and ends; go on from it with --checkpoint. Exit codes: 0, 1 the trial failed, 2 the command or the configuration is wrong."
)


@dataclasses.dataclass
class Job:
    """What to run. script: the words of a Core API program; else trial_class. home: the program's folder."""

    document: _config.Document
    hparams: dict[str, Any]
    seed: int
    storage: str
    checkpoint: str | None
    home: str
    trial_class: str = ""
    script: list[str] | None = None


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code; what the trial raises is not caught."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments[:1] == [TRIAL]:
            _run_trial(arguments[1:])
        else:
            _run_here(arguments)
    except _config.ConfigError as error:
        if _rank() == 0:
            print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _run_here(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("python -m volador.determined", usage=USAGE, description=DESCRIPTION)
    parser.add_argument("names", nargs="+", metavar="model_def:Class or config.yaml", help="the trial class, default: the configuration's entrypoint; the configuration")
    parser.add_argument("--output", metavar="DIR", help="folder for checkpoints and event files; default: checkpoint_storage, else ~/.local/share/determined")
    parser.add_argument("--checkpoint", metavar="ID", help="where to go on: the id of a checkpoint in the output folder, or a checkpoint's folder with a /")
    given = parser.parse_args(arguments)
    job, notices = _prepare(given.names, given.output, given.checkpoint)
    for notice in notices:
        _say(f"notice: {notice}")
    slots = job.document.config.slots_per_trial()
    if slots > 1 and "WORLD_SIZE" not in os.environ:
        from volador.compat.determined import _workers

        _workers.run(job, slots, _run, _say)
    else:
        last: dict[str, Any] = {}
        _preempt.on_sigterm()
        try:
            _run(job, lambda kind, steps, values: last.update(values, steps=steps) if kind == "checkpoint" else None)
        finally:
            if last:
                _say(f"checkpoint: {last['path']} (batch {last['steps']})")


def _run_trial(arguments: list[str]) -> None:
    """As a process of a trial that the cluster runs: its class, or the one that is named. `volador experiment run-trial` has prepared the process."""
    info = _info.get_cluster_info()
    if info is None or info._session is None:
        raise _config.ConfigError(f"{TRIAL}: this process is not a trial of a cluster; create one with: volador experiment create config.yaml .")
    config = _config.ExperimentConfig(info.trial._config)
    trial_class = arguments[0] if arguments else os.environ.get("VOLADOR_TRIAL_CLASS") or str(config.get("entrypoint"))
    _preempt.on_sigterm()
    _alias.install(("determined",))
    document = _config.Document(config, "the experiment's configuration", {})
    job = Job(document, info.trial.hparams, info.trial.trial_seed, "", info.latest_checkpoint, home=os.getcwd(), trial_class=trial_class)
    with _listening(_print_report):
        _train_class(job)


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _say(text: str) -> None:
    if _rank() == 0:
        print(text, flush=True)


# Before anything runs.


def _prepare(names: list[str], output: str | None, checkpoint: str | None) -> tuple[Job, list[str]]:
    """Checks everything that can be checked without the program; and the notices to show."""
    if len(names) > 2:
        raise _config.ConfigError(f"the command: expected a trial class and a configuration, got {' '.join(names)}; usage: {USAGE}")
    document = _config.read(names[-1])
    config = document.config
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    _check_slots(document, names, processes)
    hparams, notices = _config.hparams_of(document)
    _check_lengths(document, hparams)
    searcher = config["searcher"]
    if searcher.get("name", "single") not in ("single", "custom"):
        notices.append(f"searcher.name: {searcher['name']}: one trial is trained here, without a search")
    seed = (config.get("reproducibility") or {}).get("experiment_seed")
    if seed is None:
        seed = 0 if processes > 1 else int(time.time())  # Processes need the same one.
        notices.append(f"reproducibility.experiment_seed: {seed}; set it to repeat this run")
    try:
        _context.object_store_of(config.get("checkpoint_storage"))
        storage = os.path.abspath(output) if output is not None else _context.storage_of(config.get("checkpoint_storage")) or _context.default_storage()
    except ValueError as error:
        raise document.error("checkpoint_storage", str(error).removeprefix("checkpoint_storage: ")) from None
    if checkpoint is not None and os.sep in checkpoint:
        checkpoint = os.path.abspath(checkpoint)
    job = Job(document, hparams, seed, storage, checkpoint, home=os.path.dirname(os.path.abspath(names[-1])))
    _find_program(job, names)
    return job, notices


def _check_slots(document: _config.Document, names: list[str], processes: int) -> None:
    slots = document.config.slots_per_trial()
    if slots > 1 and processes not in (1, slots):
        raise document.error(
            "resources.slots_per_trial",
            f"{slots} slots need as many processes, here are {processes}; start without torchrun, or with torchrun --nproc-per-node {slots} "
            f"-m volador.determined {' '.join(names)}",
        )


def _check_lengths(document: _config.Document, hparams: dict[str, Any]) -> None:
    size = hparams.get("global_batch_size")
    for key, length in (
        ("searcher.max_length", document.config["searcher"]["max_length"]),
        ("min_validation_period", document.config.get("min_validation_period")),
        ("min_checkpoint_period", document.config.get("min_checkpoint_period")),
    ):
        if isinstance(length, dict) and "records" in length and not (isinstance(size, int) and size > 0):
            raise document.error(key, "a length in records needs the hyperparameter global_batch_size; add it, or give the length in batches")


def _find_program(job: Job, names: list[str]) -> None:
    """The entrypoint's file: beside the configuration, else in the current folder, else an installed module."""
    document = job.document
    entrypoint = names[0] if len(names) == 2 else document.config.get("entrypoint")
    if entrypoint is None:
        raise document.error("entrypoint", f"missing; add entrypoint: module:Class, or name the class in the command: {USAGE}")
    words = shlex.split(entrypoint) if isinstance(entrypoint, str) else [str(word) for word in entrypoint]
    if len(words) > 1 and os.path.basename(words[0]) in ("python", "python3") and words[1].endswith(".py"):
        job.script, wanted, installed = words[1:], [words[1]], False
    elif len(words) == 1 and words[0].count(":") == 1 and all(words[0].split(":")):
        job.trial_class = words[0]
        module = words[0].partition(":")[0]
        path = module.replace(".", os.sep)
        wanted = [f"{path}.py", os.path.join(path, "__init__.py")]
        installed = importlib.util.find_spec(module.partition(".")[0]) is not None
    else:
        raise document.error(
            "entrypoint", f"expected module:Class or python3 SCRIPT.py …, got {entrypoint!r}; start other commands yourself, with torchrun if they launch processes"
        )
    length = document.config["searcher"]["max_length"]
    if job.script is None and not isinstance(length, dict):
        raise document.error("searcher.max_length", f"expected a unit, got the bare number {length}; write {{batches: {length}}}")
    places = [job.home, os.getcwd()]
    home = next((place for place in places for name in wanted if os.path.exists(os.path.join(place, name))), None)
    if home is None and not installed:
        where = " or ".join(dict.fromkeys(os.path.relpath(place) for place in places))
        text = f"there is no {wanted[0]} in {where}; put it beside the configuration, or start in its folder"
        raise document.error("entrypoint", text) if len(names) == 1 else _config.ConfigError(f"{names[0]}: {text}")
    job.home = home or job.home


# The run.


def _run(job: Job, listen: Listener) -> None:
    """In the program's folder, as on a cluster; prints reports and passes them on. Changes this process: its folder, the import path and the alias."""
    config = job.document.config
    _alias.install()
    _info.set_cluster_info(
        _info.ClusterInfo(
            trial=_info.TrialInfo(1, 1, job.seed, job.hparams, dict(config)),
            latest_checkpoint=job.checkpoint,
            slot_ids=list(range(max(config.slots_per_trial(), 1))),
            storage=job.storage,
            code=job.home,
        )
    )
    sys.path.insert(0, job.home)
    os.chdir(job.home)

    def tell(kind: str, steps: int, values: dict[str, Any]) -> None:
        _print_report(kind, steps, values)
        listen(kind, steps, values)

    with _listening(tell):
        if job.script is not None:
            sys.argv = job.script
            runpy.run_path(job.script[0], run_name="__main__")
        else:
            _train_class(job)


@contextlib.contextmanager
def _listening(tell: Listener) -> Iterator[None]:
    _train.listener = tell
    try:
        yield
    finally:
        _train.listener = None


def _print_report(kind: str, steps: int, values: dict[str, Any]) -> None:
    if kind == "checkpoint":
        _say(f"batch {steps}  checkpoint {values['uuid']}")
        return
    shown = "  ".join(f"{name} {value:.6g}" if util.is_numerical_scalar(value) else f"{name} {value}" for name, value in values.items())
    _say(f"batch {steps}  {kind}  {shown}")


_PACKAGES = ("torch", "tensorflow", "keras", "deepspeed")  # What trials import.


def _train_class(job: Job) -> None:
    config = job.document.config
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(name)s: %(message)s")

    def period(key: str) -> _units.TrainUnit:
        values = config.get(key)
        return _units.TrainUnit._from_values(**values, global_batch_size=job.hparams.get("global_batch_size")) if values else _units.never()

    _trial_context.set_random_seeds(job.seed)  # Before the user's module is imported.
    util.choose_keras_backend()
    try:
        trial_class = _trial.trial_class_of(job.trial_class)
    except _trial.NoSuchClass as error:
        raise job.document.error("entrypoint", str(error)) from None
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        raise _config.ConfigError(f"{job.trial_class}: {error.name} is not installed; install it with: pip install {error.name}") from error
    if not (isinstance(trial_class, type) and issubclass(trial_class, _trial.Trial) and trial_class._trainer is not None):
        raise job.document.error(
            "entrypoint",
            "expected a class that derives from determined.pytorch.PyTorchTrial, determined.pytorch.deepspeed.DeepSpeedTrial or "
            f"determined.keras.TFKerasTrial, got {job.trial_class}, which is {trial_class!r}; name the trial's class",
        )
    trainer = importlib.import_module(f"{__package__}.{trial_class._trainer}")
    fit = {
        "checkpoint_period": period("min_checkpoint_period"),
        "validation_period": period("min_validation_period"),
        "reporting_period": _units.Batch(config.scheduling_unit()),
        "checkpoint_policy": config.get("checkpoint_policy", "best"),
        "latest_checkpoint": job.checkpoint,
        "step_zero_validation": config.get("perform_initial_validation", False),
    }
    try:
        trainer.train(trial_class, job.hparams, dict(config), fit)
    except ModuleNotFoundError as error:
        if error.name != "deepspeed" or "DeepSpeedTrial" not in str(error):
            raise
        raise _config.ConfigError(str(error)) from None
