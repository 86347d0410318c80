"""Inside hosts: pdb on a terminal that comes and goes. Loaded at the first stop, since pdb takes time to import."""

from __future__ import annotations

import bdb
import contextlib
import itertools
import json
import os
import pdb
import select
import socket
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any

from volador import _core

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_KEPT = 1 << 15  # Characters of earlier output for one who attaches later.
_LOOKS = 0.5  # Seconds between looks at the cancellation of the call.
_numbers = itertools.count(1)


class Debugger(pdb.Pdb):
    """pdb whose terminal comes and goes."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(stdin=terminal, stdout=terminal, nosigint=True, readrc=False, skip=["volador", "volador.*"])  # type: ignore[arg-type]
        self.terminal = terminal

    def interaction(self, frame: FrameType | None, *rest: Any) -> None:
        if frame is not None:
            self.terminal.place(frame, frame.f_lineno, "at a breakpoint")
        super().interaction(frame, *rest)

    def show(self, error: BaseException, last: TracebackType) -> None:
        """Stops at an exception that was raised, in the frame of the last part of its traceback."""
        self.terminal.place(last.tb_frame, last.tb_lineno, f"after {type(error).__name__}")
        self.terminal.write(f"{type(error).__name__}: {error}\n")
        self.reset()
        with contextlib.suppress(bdb.BdbQuit):
            super().interaction(None, error.__traceback__)

    def do_continue(self, arg: str) -> Any:
        done = super().do_continue(arg)
        if not self.breaks:  # Nothing stops it any more.
            self.terminal.close("the call goes on")
        return done

    def do_quit(self, arg: str) -> Any:
        done = super().do_quit(arg)
        self.terminal.close("the call ends with bdb.BdbQuit")
        return done

    do_c = do_cont = do_continue
    do_q = do_exit = do_quit


class Terminal:
    """Standard input and output of a debugger: a Unix socket that only the user of this process can reach. While no client
    is connected, reading waits for one. Lines of JSON: {"write": text}, {"read": prompt}, {"end": why} to the client,
    {"line": text} from it."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.is_closed = False
        self._client: socket.socket | None = None
        self._received = b""
        self._line = ""  # Output without an end of line; the prompt, when a line is read.
        self._kept = ""
        self._place = self._how = ""
        self._is_said = False
        self._wait: int | None = None
        folder = os.path.join(str(_core.context()["scratch"]), "debug")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        name = f"{os.getpid()}-{next(_numbers)}"  # Several threads may come here at once.
        self._path = os.path.join(folder, name)
        self._listener = socket.socket(socket.AF_UNIX)
        at = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            self._listener.bind(f"/proc/self/fd/{at}/{name}")  # The path itself may be too long for an address.
        finally:
            os.close(at)
        self._listener.listen(1)
        client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_debug_client.py")
        self._name = name
        self._words = [sys.executable, "-I", "-S", "-X", "utf8", client, folder]

    def place(self, frame: FrameType, line: int, how: str) -> None:
        """Where the debugger stops next."""
        self._place, self._how, self._is_said = f"{frame.f_code.co_filename}:{line}", how, False
        if self._wait is not None:
            _core.debugger_moves(self._wait, self._place)

    # What pdb calls.

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        if lines:
            self._send_text("\n".join(lines) + "\n")
        return len(text)

    def flush(self) -> None:
        pass

    def readline(self) -> str:
        prompt, self._line = self._line, ""
        while True:
            if self._client is None and not self._connect():
                return "quit\n"
            self._send({"read": prompt})
            line = self._receive()
            if line is not None:
                self._kept = (self._kept + prompt + line)[-_KEPT:]
                return line

    def close(self, why: str) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._line:
            self._send_text(self._line)
        self._send({"end": why})
        self._drop()
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        if self._wait is not None:
            _core.debugger_ends(self._wait)

    # The client.

    def _send_text(self, text: str) -> None:
        self._kept = (self._kept + text)[-_KEPT:]
        self._send({"write": text})

    def _send(self, message: dict[str, str]) -> None:
        if self._client is not None:
            try:
                self._client.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                self._drop()

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client, self._received = None, b""

    def _connect(self) -> bool:
        """Waits for a client. False: the call was cancelled."""
        if self._wait is None:
            self._wait = _core.debugger_waits(self._place, threading.get_native_id(), self._name, self._words)
        if not self._is_said:
            self._is_said = True
            print(f"{_who()} waits {self._how} in {self._place}; attach with `volador debug {_name()}`", file=sys.stderr, flush=True)
        while not select.select([self._listener], [], [], _LOOKS)[0]:
            if _core.cancel_requested():
                return False
        self._accept()
        return True

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        uid = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[1]
        if uid != os.geteuid():
            client.close()
            return
        self._send({"end": "another `volador debug` has taken its place"})
        self._drop()
        self._client = client
        self._send({"write": self._kept})

    def _receive(self) -> str | None:
        """The next line. None: the client has detached, or another one is there."""
        while b"\n" not in self._received:
            if self._client is None:
                return None
            ready = select.select([self._client, self._listener], [], [], _LOOKS)[0]
            if not ready and _core.cancel_requested():
                return "quit\n"
            if self._listener in ready:
                self._accept()
                return None
            if ready:
                try:
                    some = self._client.recv(1 << 16)
                except OSError:
                    some = b""
                if not some:
                    self._drop()
                    return None
                self._received += some
        line, _, self._received = self._received.partition(b"\n")
        return str(json.loads(line)["line"]) + "\n"


def _who() -> str:
    context: dict[str, Any] = _core.context()
    if context["class_name"] == "volador::TaskRunner":
        return f"task {context['actor_id'][:8]}"
    return f"actor {context['name'] or context['class_name']} ({context['actor_id'][:8]})"


def _name() -> str:
    context: dict[str, Any] = _core.context()
    if not context["name"]:
        return str(context["actor_id"][:8])
    return str(context["name"] if context["namespace"] in ("", "default") else f"{context['namespace']}/{context['name']}")
