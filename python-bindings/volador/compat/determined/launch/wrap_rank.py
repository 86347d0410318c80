"""python3 -m determined.launch.wrap_rank RANK [--] PROGRAM…

Runs a program and begins each line of its output with [rank=N]. RANK: a number, or names of environment variables, separated by commas, of which
the first that is set has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from typing import BinaryIO

from volador.compat.determined.launch import _command

USAGE = "python3 -m determined.launch.wrap_rank RANK [--] PROGRAM…"
_PIECE = 1 << 16
_ENDS = re.compile(rb"\r\n|[\r\n]")  # A progress bar ends its lines with a carriage return.


def rank_of(text: str) -> int:
    if text.isdigit():
        return int(text)
    for name in text.split(","):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    raise _command.LaunchError(f"determined.launch.wrap_rank: none of the variables {text} has a rank; name one that the launcher sets, or a number")


def copy_marked(source: BinaryIO, target: BinaryIO, mark: bytes) -> None:
    """Lines are written as a whole, so that those of several processes do not mix."""
    rest = b""
    while piece := os.read(source.fileno(), _PIECE):
        *lines, rest = _ENDS.split(rest + piece)
        text = b"".join(mark + line + b"\n" for line in lines)
        if text:
            target.write(text)
            target.flush()
    if rest:
        target.write(mark + rest + b"\n")
        target.flush()


def launch(arguments: list[str]) -> int:
    if len(arguments) > 1 and arguments[1] == "--":
        del arguments[1]
    if len(arguments) < 2:
        raise _command.LaunchError(f"determined.launch.wrap_rank: expected a rank and a program; usage: {USAGE}")
    mark = f"[rank={rank_of(arguments[0])}] ".encode()
    env = {"PYTHONUNBUFFERED": "1", **os.environ}
    try:
        process = _command.start(arguments[1:], env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise _command.LaunchError(f"determined.launch.wrap_rank: {arguments[1]} cannot be started: {error.strerror}; name a program in PATH") from None
    assert process.stdout is not None and process.stderr is not None
    copies = [
        threading.Thread(target=copy_marked, args=(source, target.buffer, mark))
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    ]
    for copy in copies:
        copy.start()
    code = process.wait()
    for copy in copies:
        copy.join()
    return _command.exit_code_of(code)


if __name__ == "__main__":
    _command.main(launch)
