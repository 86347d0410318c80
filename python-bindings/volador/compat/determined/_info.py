"""What a program sees of the task that it runs in: None where it was started by hand."""

from __future__ import annotations

from typing import Any


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
    """The task. storage: folder for checkpoints; code: folder of the program; both are Volador's."""

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
    ) -> None:
        self.master_url = master_url
        self.cluster_id = cluster_id
        self.agent_id = agent_id
        self.slot_ids = slot_ids or []
        self.task_id = task_id
        self.allocation_id = allocation_id
        self.session_token = session_token
        self.task_type = task_type
        self.container_addrs = container_addrs or ["127.0.0.1"]
        self.container_slot_counts = container_slot_counts or [max(len(self.slot_ids), 1)]
        self.container_rank = container_rank
        self.gpu_uuids = gpu_uuids or []
        self.latest_checkpoint = latest_checkpoint
        self._trial = trial
        self._storage = storage
        self._code = code

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
    return _current


def set_cluster_info(info: ClusterInfo | None) -> None:
    """Called by a launcher before the program starts."""
    global _current
    _current = info
