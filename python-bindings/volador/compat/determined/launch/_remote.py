"""Launchers that the first node runs for all: they start processes on the other nodes by the ssh of the job (volador job-rsh).

The entrypoint of each other node only waits until the launcher has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from volador.compat.determined.launch import _command

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENDED = "launcher-ended"  # File in the job's folder of a node, with the launcher's exit code.
_LOOK_S = 0.2


def _file() -> str:
    return os.path.join(os.environ.get("VOLADOR_JOB_DIR", "."), f"{_ENDED}.{os.environ['VOLADOR_TRIAL_RUN']}")


def run_on_chief(nodes: _command.Nodes, words: list[str], env: Mapping[str, str]) -> int:
    """Runs the launcher and tells the other nodes when it has ended."""
    code = _command.run(words, env)
    name = f"{_ENDED}.{os.environ['VOLADOR_TRIAL_RUN']}"
    for host in map(_command.name_of, range(1, len(nodes.addresses))):
        # The file appears as a whole. A failure is seen by the job, which ends the other nodes.
        script = f'echo {code} > "$VOLADOR_JOB_DIR/.{name}" && mv "$VOLADOR_JOB_DIR/.{name}" "$VOLADOR_JOB_DIR/{name}"'
        told = subprocess.run(["ssh", host, script], stdin=subprocess.DEVNULL, check=False)
        if told.returncode != 0:
            print(f"error: node {host} could not be told that the launcher has ended", file=sys.stderr, flush=True)
            code = code or 1
    return code


def wait_for_chief() -> int:
    """Exit code of the launcher. The job ends this process if the first node fails."""
    while not os.path.exists(_file()):
        time.sleep(_LOOK_S)
    with open(_file()) as file:
        return int(file.read())
