"""python3 -m determined.launch.horovod [--autohorovod] [HOROVODRUN_OPTION… --] (--trial module:Class | PROGRAM…)

Runs horovodrun on the first node of the trial, for all its slots. --autohorovod: a trial with one slot runs the program itself."""

from __future__ import annotations

import os
from typing import Any

from volador.compat.determined.launch import _command, _remote

USAGE = "python3 -m determined.launch.horovod [--autohorovod] [HOROVODRUN_OPTION… --] (--trial module:Class | PROGRAM…)"
_SSH_PORT, _START_TIMEOUT_S, _GLOO_TIMEOUT_S = "12350", "1200", "240"
_AUTOTUNE_LOG = "/tmp/horovod_autotune_log.csv"


def command_of(nodes: _command.Nodes, options: list[str], program: list[str]) -> list[str]:
    several = len(nodes.addresses) > 1
    interface = nodes.info.trial._inter_node_network_interface
    environment = os.environ
    return [
        "horovodrun",
        *("-np", str(len(nodes.addresses) * nodes.slots)),
        *("-p", environment.get("DTRAIN_SSH_PORT") or _SSH_PORT),
        *("-H", ",".join(f"{host}:{nodes.slots}" for host in nodes.hosts())),
        *("--start-timeout", environment.get("HOROVOD_STARTUP_TIMEOUT_SECONDS") or _START_TIMEOUT_S),
        *("--gloo-timeout-seconds", environment.get("HOROVOD_GLOO_TIMEOUT_SECONDS") or _GLOO_TIMEOUT_S),
        *(("--network-interface", interface) if several and interface else ()),
        *_performance(nodes.info.trial._config.get("optimizations") or {}),
        *(("--verbose",) if nodes.info.trial._debug else ()),
        *options,
        "--",
        *_command.wrapped("HOROVOD_RANK,OMPI_COMM_WORLD_RANK,PMI_RANK", program),
    ]


def _performance(optimizations: dict[str, Any]) -> list[str]:
    """From the keys of the configuration that it has."""
    if optimizations.get("auto_tune_tensor_fusion"):
        return ["--autotune", "--autotune-log-file", _AUTOTUNE_LOG]
    words = []
    for key, option in (("tensor_fusion_threshold", "--fusion-threshold-mb"), ("tensor_fusion_cycle_time", "--cycle-time-ms")):
        if optimizations.get(key) is not None:
            words += [option, str(optimizations[key])]
    return words


def launch(arguments: list[str]) -> int:
    automatic = arguments[:1] == ["--autohorovod"]
    options, program = _command.split(arguments[1:] if automatic else arguments, USAGE)
    nodes = _command.nodes_of_trial("determined.launch.horovod")
    if automatic and len(nodes.addresses) * nodes.slots == 1:
        return _command.run(program, os.environ)
    if nodes.rank != 0:
        return _remote.wait_for_chief()
    _command.needs("horovodrun", "determined.launch.horovod", "Horovod")
    return _remote.run_on_chief(nodes, command_of(nodes, options, program), {**os.environ, "USE_HOROVOD": "1", "DET_CHIEF_IP": nodes.chief})


if __name__ == "__main__":
    _command.main(launch)
