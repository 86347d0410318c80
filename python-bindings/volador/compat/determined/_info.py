"""What a program sees of the task that it runs in: None where it was started by hand."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from volador.compat.determined import _session

if TYPE_CHECKING:
    from collections.abc import Mapping


class TrialInfo:
    """Identity, seed and hyperparameters of the trial."""

    def __init__(
        self,
        trial_id: int,
        experiment_id: int,
        trial_seed: int,
        hparams: dict[str, Any],
        config: dict[str, Any],
        steps_completed: int = 0,
        trial_run_id: int = 1,
        debug: bool = False,
        inter_node_network_interface: str | None = None,
    ) -> None:
        self.trial_id = trial_id
        self.experiment_id = experiment_id
        self.trial_seed = trial_seed
        self.hparams = hparams
        self._config = config
        self._steps_completed = steps_completed
        self._trial_run_id = trial_run_id
        self._debug = debug
        self._inter_node_network_interface = inter_node_network_interface


class ClusterInfo:
    """The task. storage: folder for checkpoints; code: folder of the program; checkpoint_storage: settings of the storage; session: to the head,
    for a trial of a cluster. These four are Volador's."""

    def __init__(
        self,
        *,
        trial: TrialInfo | None = None,
        latest_checkpoint: str | None = None,
        task_type: str = "TRIAL",
        task_id: str = "",
        allocation_id: str = "",
        master_url: str = "",
        cluster_id: str = "",
        agent_id: str = "",
        slot_ids: list[int] | None = None,
        container_addrs: list[str] | None = None,
        container_slot_counts: list[int] | None = None,
        container_rank: int = 0,
        gpu_uuids: list[str] | None = None,
        session_token: str = "",
        storage: str | None = None,
        code: str | None = None,
        checkpoint_storage: dict[str, Any] | None = None,
        session: _session.Session | None = None,
    ) -> None:
        self.master_url = master_url
        self.cluster_id = cluster_id
        self.agent_id = agent_id
        self.slot_ids: list[int] = slot_ids or []
        self.task_id = task_id
        self.allocation_id = allocation_id
        self.session_token = session_token
        self.task_type = task_type
        self.container_addrs: list[str] = container_addrs or ["127.0.0.1"]
        self.container_slot_counts: list[int] = container_slot_counts or [max(len(self.slot_ids), 1)]
        self.container_rank = container_rank
        self.gpu_uuids: list[str] = gpu_uuids or []
        self.latest_checkpoint = latest_checkpoint
        self._trial = trial
        self._storage = storage
        self._code = code
        self._checkpoint_storage = checkpoint_storage
        self._session = session

    @property
    def trial(self) -> TrialInfo:
        if self._trial is None:
            raise RuntimeError(f"ClusterInfo.trial: a task of type {self.task_type} has no trial; check task_type first")
        return self._trial

    @property
    def user_data(self) -> dict[str, Any]:
        """`data` of the experiment's configuration."""
        return dict(self.trial._config.get("data") or {})


_current: ClusterInfo | None = None


def get_cluster_info() -> ClusterInfo | None:
    """The task of this process; None where the program was started by hand."""
    global _current
    if _current is None:
        _current = _of_environment(os.environ)
    return _current


def set_cluster_info(info: ClusterInfo | None) -> None:
    """Called by a launcher before the program starts. None: the environment decides."""
    global _current
    _current = info


# What `volador experiment run-trial` leaves: files in the folder VOLADOR_INFO_DIR, and the variables that Determined has.


def _of_environment(environment: Mapping[str, str]) -> ClusterInfo | None:
    session = _session.of_environment()
    if session is None or "DET_TRIAL_ID" not in environment:
        return None
    folder = environment.get("VOLADOR_INFO_DIR", "")
    cluster, trial = _read(folder, "cluster.json"), _read(folder, "trial.json")
    rendezvous, resources = _read(folder, "rendezvous.json"), _read(folder, "resources.json")

    def variable(name: str, value: Any) -> Any:
        """Of what is not in a file."""
        return value if value is not None else environment.get(name, "")

    def data(name: str, value: Any, default: str) -> Any:
        return value if value is not None else json.loads(environment.get(name) or default)

    latest = cluster.get("latest_checkpoint") or environment.get("DET_LATEST_CHECKPOINT") or None
    return ClusterInfo(
        trial=TrialInfo(
            trial_id=session.trial,
            experiment_id=int(data("DET_EXPERIMENT_ID", trial.get("experiment_id"), "0")),
            trial_seed=int(data("DET_TRIAL_SEED", trial.get("trial_seed"), "0")),
            hparams=data("DET_HPARAMS", trial.get("hparams"), "{}"),
            config=data("DET_EXPERIMENT_CONFIG", trial.get("config"), "{}"),
            steps_completed=int(data("DET_STEPS_COMPLETED", trial.get("steps_completed"), "0")),
            trial_run_id=session.run,
            debug=bool(trial.get("debug", False)),
            inter_node_network_interface=trial.get("inter_node_network_interface") or environment.get("DET_INTER_NODE_NETWORK_INTERFACE") or None,
        ),
        latest_checkpoint=latest,
        task_type=variable("DET_TASK_TYPE", cluster.get("task_type")) or "TRIAL",
        task_id=variable("DET_TASK_ID", cluster.get("task_id")),
        allocation_id=variable("DET_ALLOCATION_ID", cluster.get("allocation_id")),
        master_url=variable("DET_MASTER", cluster.get("master_url")),
        cluster_id=variable("DET_CLUSTER_ID", cluster.get("cluster_id")),
        agent_id=variable("DET_AGENT_ID", cluster.get("agent_id")),
        slot_ids=data("DET_SLOT_IDS", cluster.get("slot_ids"), "[]"),
        container_addrs=rendezvous.get("container_addrs"),
        container_slot_counts=rendezvous.get("container_slot_counts"),
        container_rank=int(rendezvous.get("container_rank", 0)),
        gpu_uuids=resources.get("gpu_uuids"),
        session_token=variable("DET_SESSION_TOKEN", cluster.get("session_token")),
        code=environment.get("DET_WORKDIR") or os.getcwd(),
        checkpoint_storage=_read(folder, "storage.json") or None,
        session=session,
    )


def _read(folder: str, name: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            values = json.load(file)
    except FileNotFoundError:
        return {}
    return values if isinstance(values, dict) else {}
