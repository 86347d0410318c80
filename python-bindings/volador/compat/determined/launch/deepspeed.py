"""python3 -m determined.launch.deepspeed [DEEPSPEED_OPTION… --] (--trial module:Class | PROGRAM…)

Runs DeepSpeed's launcher on the first node of the trial, for all its slots."""

from __future__ import annotations

import os
import shlex

from volador.compat.determined.launch import _command, _remote

USAGE = "python3 -m determined.launch.deepspeed [DEEPSPEED_OPTION… --] (--trial module:Class | PROGRAM…)"
_SSH_PORT = "12350"
_PASSED = ("DET_", "VOLADOR_", "USE_DEEPSPEED", "PYTHONPATH", "PATH", "LD_LIBRARY_PATH")  # Beginnings of names of variables for all processes.
_ENVIRONMENT_FILE = ".deepspeed_env"  # DeepSpeed looks for it in the current folder.


def command_of(nodes: _command.Nodes, hostfile: str, options: list[str], program: list[str]) -> list[str]:
    return [
        "deepspeed",
        *("-H", hostfile),
        *("--master_addr", nodes.chief),
        "--no_python",
        "--no_local_rank",
        *options,
        "--",
        *_command.wrapped("RANK", program),
    ]


def hostfile_of(nodes: _command.Nodes) -> str:
    return "".join(f"{host} slots={nodes.slots}\n" for host in nodes.hosts())


def _write(path: str, text: str) -> None:
    """For this user only: variables have secrets."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def launch(arguments: list[str]) -> int:
    options, program = _command.split(arguments, USAGE)
    nodes = _command.nodes_of_trial("determined.launch.deepspeed")
    if nodes.rank != 0:
        return _remote.wait_for_chief()
    _command.needs("deepspeed", "determined.launch.deepspeed", "DeepSpeed")
    hostfile = os.environ.get("DET_DEEPSPEED_HOSTFILE_PATH") or os.path.join(os.environ.get("VOLADOR_INFO_DIR") or ".", "deepspeed_hostfile")
    port = os.environ.get("DTRAIN_SSH_PORT") or _SSH_PORT
    env = {
        **os.environ,
        "USE_DEEPSPEED": "1",
        "DET_CHIEF_IP": nodes.chief,
        "DET_DEEPSPEED_HOSTFILE_PATH": hostfile,
        "PDSH_SSH_ARGS": f"-o PasswordAuthentication=no -o StrictHostKeyChecking=no -p {port} -2 -a -x %h",
    }
    _write(hostfile, hostfile_of(nodes))
    if len(nodes.addresses) > 1:
        _write(_ENVIRONMENT_FILE, "".join(f"{name}={shlex.quote(value)}\n" for name, value in env.items() if name.startswith(_PASSED) and "\n" not in value))
    return _remote.run_on_chief(nodes, command_of(nodes, hostfile, options, program), env)


if __name__ == "__main__":
    _command.main(launch)
