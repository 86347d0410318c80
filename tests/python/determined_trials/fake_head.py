"""The head of a cluster as a trial's process sees it: answers the calls of one run and keeps them."""

import json
import signal
import sys
import threading

from volador import exceptions


class FakeHead:
    """lengths: what the search asks for, one after the other. best: of the experiment, before. away: calls that fail first."""

    def __init__(self, lengths, best=None, away=0):
        self.lengths = list(lengths)
        self.best = best
        self.away = away
        self.calls = []  # (operation, request), without the long polls.
        self.preempt = threading.Event()
        self.superseded = False
        self.preempt_after = None  # (operation, count): the trial should end when so many of them were called, and hears it before it goes on.
        self.sigterm_after = None  # Likewise: it gets the signal.
        self.polls = 0
        self._heard = None
        self._lock = threading.Lock()

    def call(self, operation, text):
        operation, request = operation.removeprefix("Experiments/"), json.loads(text)
        if operation == "WaitPreemption":
            assert request == {"trial": 7, "run": 2, "wait_ms": 20000}
            self.polls += 1
            return json.dumps({"preempt": self.preempt.wait(0.02)})
        with self._lock:
            if self.away > 0:
                self.away -= 1
                raise exceptions.UnavailableError("the head is away")
            if self.superseded:
                raise exceptions.CancelledError("run 2 of trial 7 is not the newest one")
            reply = getattr(self, f"_{operation}", lambda request: {})(request)
            if operation != "GetExperiment":
                assert operation in ("DeleteCheckpoints",) or (request.pop("trial"), request.pop("run")) == (7, 2)
            self.calls.append((operation, request))
            if self.preempt_after == (operation, len(self.of(operation))):
                self.preempt.set()
                self._heard.wait()
            if self.sigterm_after == (operation, len(self.of(operation))):
                signal.raise_signal(signal.SIGTERM)
            return json.dumps(reply)

    def wait_for_preemption(self, heard):
        """heard: the event of the process that it should end."""
        self._heard = heard

    def of(self, operation):
        return [request for name, request in self.calls if name == operation]

    def names(self):
        return [name for name, _ in self.calls]

    def _GetTrialOperation(self, request):
        return {"length": str(self.lengths[0]), "no_more": False} if self.lengths else {"length": "0", "no_more": True}

    def _CompleteTrialOperation(self, request):
        assert request["length"] == self.lengths.pop(0)
        self.best = min(request["metric"], self.best if self.best is not None else request["metric"])
        return {}

    def _GetExperiment(self, request):
        assert request == {"id": 3}
        return {} if self.best is None else {"best_metric": self.best}


def cluster_environment(folder):
    """The variables of run 2 of trial 7."""
    return {
        "VOLADOR_ADDRESS": "head:1",
        "VOLADOR_TOKEN": "secret",
        "VOLADOR_TRIAL": "7",
        "VOLADOR_TRIAL_RUN": "2",
        "VOLADOR_INFO_DIR": str(folder),
        "DET_TRIAL_ID": "7",
        **json.loads((folder / "environment").read_text()),
    }


def write_info(folder, config, hparams, latest, storage, steps, addresses=("10.0.0.1", "10.0.0.2"), rank=1, slots=(0, 1)):
    """The files of `volador experiment run-trial`, and in `environment` the variables that say the same."""
    folder.mkdir(exist_ok=True)
    cluster = {
        "master_url": "https://head:1",
        "cluster_id": "c1",
        "agent_id": "node-1",
        "slot_ids": list(slots),
        "task_id": "3.abc",
        "allocation_id": "3.abc.2",
        "session_token": "secret",
        "task_type": "TRIAL",
        "latest_checkpoint": latest,
    }
    trial = {"trial_id": 7, "experiment_id": 3, "trial_seed": 11, "hparams": hparams, "config": config, "steps_completed": steps, "trial_run_id": 2}
    files = {
        "cluster.json": cluster,
        "trial.json": {**trial, "debug": False, "inter_node_network_interface": None},
        "rendezvous.json": {"container_addrs": addresses, "container_rank": rank, "container_slot_counts": [len(slots)] * len(addresses)},
        "resources.json": {"gpu_uuids": ["GPU-1"]},
        "storage.json": storage,
        "environment": {
            "DET_TASK_TYPE": "TRIAL",
            "DET_TASK_ID": "3.abc",
            "DET_ALLOCATION_ID": "3.abc.2",
            "DET_MASTER": "https://head:1",
            "DET_CLUSTER_ID": "c1",
            "DET_AGENT_ID": "node-1",
            "DET_SLOT_IDS": json.dumps(slots),
            "DET_SESSION_TOKEN": "secret",
            "DET_EXPERIMENT_ID": "3",
            "DET_TRIAL_SEED": "11",
            "DET_HPARAMS": json.dumps(hparams),
            "DET_EXPERIMENT_CONFIG": json.dumps(config),
            "DET_STEPS_COMPLETED": str(steps),
            "DET_LATEST_CHECKPOINT": latest or "",
        },
    }
    for name, values in files.items():
        (folder / name).write_text(json.dumps(values))


def join_trial(monkeypatch, head, folder, modules):
    """From now on this process is the trial that write_info() described in the folder, and talks to `head`. Forgets these modules of its code."""
    from volador.compat.determined import _session

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name, value in cluster_environment(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(_session, "_connect", lambda address, token: head)
    leave_cluster()
    for name in modules:
        sys.modules.pop(name, None)


def leave_cluster():
    from volador.compat.determined import _info, _session
    from volador.compat.determined.core import _preempt

    _session._sessions.clear()
    _info.set_cluster_info(None)
    _preempt._requested.clear()


def metrics_of(head, group):
    """Metrics that a trial reported, by its batches."""
    return {request["batches"]: json.loads(request["metrics"]) for request in head.of("ReportMetrics") if request["group"] == group}
