"""TrainJobs: functions and commands on one or several nodes.

    from volador.kubeflow.trainer import CustomTrainer, TrainerClient

    client = TrainerClient()
    name = client.train(trainer=CustomTrainer(func=train, func_args={"lr": 0.1}, num_nodes=2))
    for line in client.get_job_logs(name, follow=True):
        print(line)
    print(client.wait_for_job_status(name).status)
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from volador import exceptions, jobs
from volador.katib import _resources
from volador.katib._client import resources_of
from volador.katib._program import program_of

_VERSION = "trainer.kubeflow.org/v1alpha1"
STATUSES = ("Created", "Running", "Complete", "Failed")


@dataclasses.dataclass
class CustomTrainer:
    """A function, whose source is sent: it imports in its body what it uses. func_args are its arguments."""

    func: Callable[..., Any]
    func_args: Mapping[str, Any] | None = None
    packages_to_install: Sequence[str] | None = None
    pip_index_urls: Sequence[str] = ("https://pypi.org/simple",)
    num_nodes: int | None = None
    resources_per_node: Mapping[str, Any] | None = None
    env: Mapping[str, str] | None = None
    image: str | None = None


@dataclasses.dataclass
class CustomTrainerContainer:
    """A command of your own. The image is accepted and not used: commands run in the environment of the nodes."""

    image: str
    num_nodes: int | None = None
    resources_per_node: Mapping[str, Any] | None = None
    env: Mapping[str, str] | None = None
    command: Sequence[str] | None = None


@dataclasses.dataclass
class Runtime:
    """How the processes of a TrainJob find each other."""

    name: str


@dataclasses.dataclass
class Step:
    name: str  # "node-0".
    status: str | None
    pod_name: str  # The node of the cluster.


@dataclasses.dataclass
class TrainJob:
    name: str
    runtime: Runtime
    steps: list[Step]
    num_nodes: int
    creation_timestamp: datetime.datetime | None
    status: str


@dataclasses.dataclass
class TrainJobTemplate:
    """What each trial of OptimizerClient.optimize() runs."""

    trainer: CustomTrainer
    runtime: Runtime | str | None = None


_RUNTIMES = ("torch-distributed", "plain")


class TrainerClient:
    """TrainJobs of the cluster that volador.init() without arguments connects to. Methods raise RuntimeError where the cluster refuses a call, and
    TimeoutError where it does not answer. backend_config is accepted as Kubeflow's SDK has it; its namespace is used."""

    def __init__(self, backend_config: Any = None) -> None:
        self.namespace: str = str(getattr(backend_config, "namespace", None) or "default")

    def list_runtimes(self) -> list[Runtime]:
        return [Runtime(name) for name in _RUNTIMES]

    def get_runtime(self, name: str) -> Runtime:
        if name not in _RUNTIMES:
            raise RuntimeError(f"there is no runtime {name!r}; there are {', '.join(_RUNTIMES)}")
        return Runtime(name)

    def train(
        self,
        runtime: Runtime | str | None = None,
        initializer: Any = None,
        trainer: CustomTrainer | CustomTrainerContainer | None = None,
        options: Sequence[Any] | None = None,
    ) -> str:
        """Creates a TrainJob and returns its name.

        Raises ValueError: there is no trainer, or an initializer or options, which do not exist here."""
        if trainer is None:
            raise ValueError("trainer: expected CustomTrainer or CustomTrainerContainer")
        if initializer is not None or options:
            raise ValueError(f"{'options' if options else 'initializer'}: not supported; the function of the trainer can load data and models")
        name = generated_name()
        resource = {
            "apiVersion": _VERSION,
            "kind": "TrainJob",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": train_job_spec(trainer, runtime),
        }
        _resources.apply(f"the TrainJob {name} is not created", resource, self.namespace, create_only=True)
        return name

    def list_jobs(self, runtime: Runtime | str | None = None) -> list[TrainJob]:
        found, _ = _resources.rows("the TrainJobs cannot be listed", "TrainJob", self.namespace)
        made = [_train_job(row) for row in found]
        return [job for job in made if runtime is None or job.runtime.name == _runtime_name(runtime)]

    def get_job(self, name: str) -> TrainJob:
        found, _ = _resources.row(f"the TrainJob {name} cannot be read", "TrainJob", self.namespace, name)
        return _train_job(found)

    def get_job_logs(self, name: str, step: str = "node-0", follow: bool = False) -> Iterator[str]:
        """The lines of a node's output; `follow`: until it ends."""
        what = f"the output of the TrainJob {name} cannot be read"
        rank = step.removeprefix("node-")
        if not rank.isdigit():
            raise ValueError(f'step: expected "node-0" or another node, got {step!r}')
        if follow:
            _resources.wait(what, "TrainJob", self.namespace, name, lambda row, _: bool(row.get("job")), float("1e9"))
        found, _ = _resources.row(what, "TrainJob", self.namespace, name)
        return lines_of(str(found.get("job") or ""), int(rank), follow)

    def wait_for_job_status(
        self, name: str, status: Collection[str] = frozenset({"Complete"}), timeout: float = 600, polling_interval: float = 2
    ) -> TrainJob:
        """Waits for one of these statuses: Created, Running, Complete, Failed.

        Raises RuntimeError: it has failed, and that is not expected; TimeoutError: after `timeout` seconds."""
        check_statuses(status)

        def is_done(row: dict[str, Any], _: dict[str, Any]) -> bool:
            now = _train_job(row).status
            if now == "Failed" and now not in status:
                raise RuntimeError(f"the TrainJob {name} has failed; get_job_logs() has its output")
            return now in status or (now in ("Running", "Complete") and "Created" in status)

        what = f"the TrainJob {name} is not {' or '.join(sorted(status))}"
        return _train_job(_resources.wait(what, "TrainJob", self.namespace, name, is_done, timeout))

    def delete_job(self, name: str) -> None:
        """Deletes it, and stops it if it runs."""
        _resources.delete(f"the TrainJob {name} is not deleted", "TrainJob", self.namespace, name)


def generated_name() -> str:
    """As Kubeflow's SDK makes them: a letter, and 11 others."""
    choice = random.SystemRandom().choices
    return choice(string.ascii_lowercase)[0] + "".join(choice("0123456789abcdef", k=11))


def check_statuses(status: Collection[str]) -> None:
    unknown = sorted(set(status) - set(STATUSES))
    if unknown or not status:
        raise ValueError(f"status: expected some of {', '.join(STATUSES)}, got {unknown[0] if unknown else 'none'!r}")


def train_job_spec(
    trainer: CustomTrainer | CustomTrainerContainer, runtime: Runtime | str | None, searched: Mapping[str, str] | None = None, literals: Sequence[str] = ()
) -> dict[str, Any]:
    """The spec of a TrainJob. searched: texts in the place of arguments."""
    part: dict[str, Any] = {"numNodes": trainer.num_nodes or 1}
    name = _runtime_name(runtime)
    if isinstance(trainer, CustomTrainer):
        given = None if trainer.func_args is None and not searched else {**(trainer.func_args or {}), **dict.fromkeys(searched or {})}
        command = program_of(
            trainer.func,
            given,
            searched or {},
            literals=literals,
            by_name=None,
            packages=trainer.packages_to_install,
            indexes=trainer.pip_index_urls,
        )
        part["command"] = command
    elif trainer.command:
        part["command"] = list(trainer.command)
    if trainer.image:
        part["image"] = trainer.image
    if trainer.env:
        part["env"] = [{"name": str(key), "value": str(value)} for key, value in trainer.env.items()]
    amounts = resources_of(trainer.resources_per_node)
    if amounts:
        part["resourcesPerNode"] = amounts
    return {"runtimeRef": {"name": name}, "trainer": part}


def lines_of(job: str, rank: int, follow: bool) -> Iterator[str]:
    """The output of a job's rank; nothing where it has not started."""
    if not job:
        return
    try:
        found = jobs.get(job)
        for line in found.follow(rank=rank) if follow else found.logs(rank=rank):
            yield line.text
    except exceptions.NotFoundError:
        return


def _runtime_name(runtime: Runtime | str | None) -> str:
    return _RUNTIMES[0] if runtime is None else runtime if isinstance(runtime, str) else runtime.name


def _train_job(row: Mapping[str, Any]) -> TrainJob:
    resource = _resources.object_of(row)
    spec = resource.get("spec", {})
    count = int(spec.get("trainer", {}).get("numNodes") or 1)
    status = status_of(resource, bool(row.get("job")))
    steps = [Step(f"node-{rank}", status, "") for rank in range(count)]
    return TrainJob(
        name=str(resource["metadata"]["name"]),
        runtime=Runtime(str(spec.get("runtimeRef", {}).get("name", ""))),
        steps=steps,
        num_nodes=count,
        creation_timestamp=time_of(resource["metadata"].get("creationTimestamp")),
        status=status,
    )


def status_of(resource: Mapping[str, Any], started: bool = False) -> str:
    for kind, status in (("Complete", "Complete"), ("Succeeded", "Complete"), ("Failed", "Failed"), ("Running", "Running")):
        if _resources.has_condition(resource, kind):
            return status
    active = resource.get("status", {}).get("active")
    return "Running" if active or (started and active is None and resource.get("status", {}).get("startTime")) else "Created"


def time_of(text: Any) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None


__all__ = ["CustomTrainer", "CustomTrainerContainer", "Runtime", "Step", "TrainJob", "TrainJobTemplate", "TrainerClient"]
