"""What the launchers have in common: their arguments, the nodes of the trial, and a command that takes the place of the launcher."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from volador.compat.determined import _info

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PORT = 29400  # Where run-trial has not found a free one.
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1


class LaunchError(Exception):
    """A launcher cannot start; the message says what to do."""


@dataclasses.dataclass
class Nodes:
    """Of the trial, by their rank; `rank` is this one's."""

    addresses: list[str]
    slots: int  # Processes on each.
    rank: int
    chief: str
    port: int
    info: _info.ClusterInfo

    def hosts(self) -> list[str]:
        """For host files and ssh: addresses; the names that the job's ssh knows where nodes share a machine."""
        if len(self.addresses) == 1:
            return ["localhost"]
        return self.addresses if len(set(self.addresses)) == len(self.addresses) else [name_of(rank) for rank in range(len(self.addresses))]


def name_of(rank: int) -> str:
    """Of a node, for the job's ssh."""
    return f"server{rank + 1}"


def nodes_of_trial(module: str) -> Nodes:
    info = _info.get_cluster_info()
    if info is None or info._session is None:
        raise LaunchError(f"{module}: this process is not a trial of a cluster; use it as the entrypoint of an experiment, or start the program itself")
    addresses = info.container_addrs
    offset = int(os.environ.get("DET_UNIQUE_PORT_OFFSET") or min(info.slot_ids, default=0))
    return Nodes(
        addresses=addresses,
        slots=len(info.slot_ids) or info.container_slot_counts[info.container_rank],
        rank=info.container_rank,
        chief=os.environ.get("DET_CHIEF_IP") or addresses[0],
        port=int(os.environ.get("MASTER_PORT") or PORT + offset),
        info=info,
    )


def split(arguments: list[str], usage: str) -> tuple[list[str], list[str]]:
    """Options of the launched program's launcher, and the program: `[OPTION… --] (--trial module:Class | PROGRAM…)`."""
    options: list[str] = []
    if "--" in arguments:
        end = arguments.index("--")
        options, arguments = arguments[:end], arguments[end + 1 :]
    if arguments[:1] == ["--trial"] and len(arguments) == 2:
        return options, ["python3", "-m", "volador.determined", "--trial", arguments[1]]
    if not arguments or arguments[0].startswith("-"):
        raise LaunchError(f"expected a program or --trial module:Class, got {' '.join(arguments) or 'nothing'}; usage: {usage}")
    if arguments[0].endswith(".py") and not os.access(arguments[0], os.X_OK):
        arguments = ["python3", *arguments]
    return options, arguments


def wrapped(rank: str, program: list[str]) -> list[str]:
    """The program with its lines marked. rank: a number, or names of variables."""
    return ["python3", "-m", "determined.launch.wrap_rank", rank, "--", *program]


def needs(program: str, module: str, what: str) -> None:
    if shutil.which(program) is None:
        raise LaunchError(f"{module}: there is no program {program!r} on this node; install {what} in the environment of the trial, for example in startup-hook.sh")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(words: list[str], env: Mapping[str, str], **options: Any) -> subprocess.Popen[bytes]:
    """It gets the signals that this process gets, and ends with it."""
    process = subprocess.Popen(words, env=dict(env), preexec_fn=_die_with_parent, **options)

    def forward(number: int, frame: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    return process


def exit_code_of(returned: int) -> int:
    """As shells have it."""
    return returned if returned >= 0 else 128 - returned


def run(words: list[str], env: Mapping[str, str]) -> int:
    return exit_code_of(start(words, env).wait())


def main(launch: Callable[[list[str]], int]) -> None:
    try:
        sys.exit(launch(sys.argv[1:]))
    except LaunchError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(2)
