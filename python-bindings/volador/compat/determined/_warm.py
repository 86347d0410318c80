"""The warm process of an experiment on a node: it has imported what the trials import, and forks each of them.

`volador experiment run-trial` starts it and stays beside its trial (cli/warm_trial.cc). The processes:

    worker ── job's process ── run-trial: passes signals on, ends with the trial's exit code
      └── warm process ── keeper ── trial: environment, folder, streams and control groups of run-trial
                             └── what the trial has left: ends with the trial

run-trial dies: its keeper ends the trial. The warm process dies: its keepers and trials do too. It ends when unused for some time, when memory is short,
and with the worker. No user's code runs in it. It has no threads when it forks, and has not initialised CUDA."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import itertools
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import types
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from volador import _core
from volador.compat.determined import _warm_code

if TYPE_CHECKING:
    from collections.abc import Callable

LISTENER = 3
IDLE_S = 60.0
_TURN_S = 2.0
_PATIENCE_S = 10.0  # Until a request has arrived as a whole.
_MEMORY_LEAST = 0.1  # Part of the machine's memory that must be available.
_READY, _COLD, _ENDED = b"R", b"C", b"E"
_REQUEST_MAX = 16 << 20
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_FACADE = ("volador.compat.determined", "volador.compat.determined._launch", "determined")
_PYTORCH = ("volador.compat.determined.pytorch", "volador.compat.determined.pytorch._trainer")
_MARK = "volador.compat.determined._warm.fork"  # In sys.modules: what follows was imported after the fork.
_libc = ctypes.CDLL(None, use_errno=True)


class Request:
    """A trial to start: words after "python3", and what its process has."""

    def __init__(self, fields: bytes, streams: list[int], peer: int) -> None:
        first, *rest = fields.removesuffix(b"\0").split(b"\0")
        count = int(first)
        self.words = [os.fsdecode(word) for word in rest[:count]]
        self.folder = os.fsdecode(rest[count])
        self.umask = int(rest[count + 1])
        self.variables = dict(pair.split(b"=", 1) for pair in rest[count + 2 :])
        self.streams = streams
        self.peer = peer  # The process of run-trial.

    @property
    def is_script(self) -> bool:
        return self.words[0] != "-m"

    @property
    def code(self) -> str:
        """The folder that comes first in sys.path."""
        if not self.is_script:
            return os.path.realpath(self.folder)
        return os.path.dirname(os.path.realpath(os.path.join(self.folder, self.words[0])))


class Closed(Exception):
    """The other side has ended, or says what it should not."""


def receive(connection: socket.socket) -> Request:
    peer, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user != os.geteuid():
        raise Closed
    connection.settimeout(_PATIENCE_S)
    text, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    try:
        size = int.from_bytes(text[:8], "little")
        while len(text) >= 8 and len(text) - 8 < size <= _REQUEST_MAX:
            piece = connection.recv(1 << 16)
            if not piece:
                break
            text += piece
        if len(streams) != 3 or len(text) != 8 + size:
            raise Closed
        return Request(text[8:], streams, peer)
    except BaseException:
        for descriptor in streams:
            os.close(descriptor)
        raise


# What a process of the node has, which a child of another one must be given.


def _die_with(parent: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _control_groups(pid: int | str) -> list[str]:
    """Folders of the worker's control groups in which the process is."""
    mounts = []
    for line in _read("/proc/self/mountinfo").splitlines():
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            mounts.append((fields.split(" ")[3], fields.split(" ")[4], set(options.split(" ")[-1].split(",")) if kind == "cgroup" else {""}))
    folders = []
    for line in _read(f"/proc/{pid}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if "/volador-" not in path:
            continue
        for root, point, controllers in mounts:
            if controllers.issuperset(names.split(",")) and (root == "/" or path.startswith(root + "/")):
                folders.append(point + (path if root == "/" else path[len(root) :]))
                break
    return folders


def _enter_group(folder: str) -> None:
    with open(os.path.join(folder, "cgroup.procs"), "w") as file:
        file.write(str(os.getpid()))


def leave_job() -> None:
    """Moves this process from the groups of the job that started it to its own beside them, which end with the worker's."""
    for folder in _control_groups("self"):
        place = os.path.join(os.path.dirname(folder), f"warm-{os.getpid()}")
        os.makedirs(place, exist_ok=True)
        _enter_group(place)


def become_like(peer: int) -> None:
    """Limits, priority, CPUs and control groups of the other process. OSError, ValueError: not allowed."""
    for number in range(16):
        try:
            wanted = resource.prlimit(peer, number)
        except ValueError:  # This kernel has fewer.
            break
        if resource.getrlimit(number) != wanted:
            resource.setrlimit(number, wanted)
    if (nice := os.getpriority(os.PRIO_PROCESS, peer)) != os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    os.sched_setaffinity(0, os.sched_getaffinity(peer))
    if (score := _read(f"/proc/{peer}/oom_score_adj")) != _read("/proc/self/oom_score_adj"):
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(score)
    for folder in _control_groups(peer):
        _enter_group(folder)


def _children() -> list[int]:
    return [int(word) for word in _read(f"/proc/self/task/{os.getpid()}/children").split()]


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


# The trial.


def _become_trial(request: Request, said: bytes) -> None:
    for target, descriptor in enumerate(request.streams):
        os.dup2(descriptor, target)
    for descriptor in request.streams:
        os.close(descriptor)
    os.chdir(request.folder)
    os.umask(request.umask)
    os.environb.clear()
    os.environb.update(request.variables)
    if said:
        os.write(2, said)
    sys.path.insert(0, request.code)
    importlib.invalidate_caches()
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if processes := sys.modules.get("multiprocessing.process"):
        vars(processes)["ORIGINAL_DIR"] = os.getcwd()
        processes.current_process().authkey = os.urandom(32)


def _run_script(words: list[str]) -> None:
    """As `python3 FILE ARGUMENT…`."""
    from importlib.machinery import SourceFileLoader

    sys.argv, sys.orig_argv = list(words), ["python3", *words]
    module = types.ModuleType("__main__")
    path = os.path.join(os.getcwd(), words[0])
    vars(module).update(__file__=path, __builtins__=__builtins__, __cached__=None, __annotations__={})
    module.__loader__ = SourceFileLoader("__main__", path)
    sys.modules["__main__"] = module
    try:
        with open(words[0], "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    _shown(lambda: exec(compile(source, path, "exec", dont_inherit=True), vars(module)))


def _run_module(words: list[str]) -> None:
    """As `python3 -m MODULE ARGUMENT…`."""
    import runpy

    sys.argv, sys.orig_argv = ["-m", *words[1:]], ["python3", "-m", *words]
    sys.modules["__main__"] = types.ModuleType("__main__")
    vars(sys.modules["__main__"])["__builtins__"] = __builtins__
    _shown(lambda: runpy._run_module_as_main(words[0]))  # type: ignore[attr-defined]


def _shown(run: Callable[[], object]) -> None:
    """Runs what a new Python would run first. An exception is shown as it would show it, without the frames of this module."""
    try:
        run()
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        sys.excepthook(type(error), error, trace)
        raise SystemExit(128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1) from None


def _code_of(ended: SystemExit) -> int:
    """What a new Python would exit with."""
    if ended.code is None or isinstance(ended.code, int):
        return (ended.code or 0) & 0xFF
    sys.stderr.write(f"{ended.code}\n")
    return 1


def _mark_modules() -> set[str]:
    """In the warm process: marks the end of sys.modules and returns the names in it. Those of a trial follow the mark."""
    sys.modules.pop(_MARK, None)
    sys.modules[_MARK] = types.ModuleType(_MARK)
    return set(sys.modules)


def _imported(before: set[str]) -> list[str]:
    """In a trial: names of modules that it has imported itself. Others are not touched: counting a reference copies a page that is shared until then."""
    return [name for name in list(itertools.takewhile(_MARK.__ne__, reversed(sys.modules))) if name not in before]


def _leave(code: int, before: set[str]) -> NoReturn:
    """Ends the process as Python does, without the destruction of what was imported before the fork, which takes 0.5 s with PyTorch: it writes to pages
    that are shared until then."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if not _flush(sys.stdout):
        code = 120
    _flush(sys.stderr)
    if threading.active_count() == 1:  # Others would miss what they use.
        sys.last_type = sys.last_value = sys.last_traceback = None
        own = [sys.modules.pop(name, None) for name in ("__main__", *_imported(before))]
        left = [weakref.ref(module) for module in own if isinstance(module, types.ModuleType)]
        del own
        gc.collect()
        for module in [known for known in (reference() for reference in left) if known is not None]:
            vars(module).clear()
        gc.collect()
    for file in gc.get_objects():
        if isinstance(file, (io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)):
            _flush(file)
    _libc.fflush(None)
    os._exit(code)


def _tell(learned: str, before: set[str], own: set[str], trial: int) -> None:
    """The imports of a package bring most of its parts: the others follow after the next trial. A write is atomic up to PIPE_BUF."""
    if os.getpid() != trial:
        return
    new = {name for name in _imported(before) if getattr(sys.modules.get(name), "__spec__", None) is not None}
    text = ""
    for name in _warm_code.wanted((name for name in new if name.rpartition(".")[0] not in new), own):
        if len(text) + len(name) < select.PIPE_BUF and name.isascii():
            text += name + "\n"
    try:
        if text:
            pipe = os.open(learned, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(pipe, text.encode())
            os.close(pipe)
    except OSError:
        pass  # The warm process ends, or has much to read.


def _flush(file: Any) -> bool:
    try:
        if file is not None and not file.closed and file.writable():
            file.flush()
    except Exception:
        return False
    return True


def run_trial(request: Request, before: set[str], said: bytes, learned: str) -> NoReturn:
    """In the process of the trial. before: see _mark_modules(). learned: path of the pipe in which it names what it has imported besides."""
    atexit.register(_tell, learned, before, _warm_code.own_names(request.code), os.getpid())
    code = 0
    try:
        _become_trial(request, said)
        if request.is_script:
            _run_script(request.words)
        else:
            _run_module(request.words[1:])
    except SystemExit as ended:
        code = _code_of(ended)
    _leave(code, before)


# The keeper.


def _end_all() -> None:
    """Ends what is left of the trial. Processes whose parents end become children of this one."""
    while children := _children():
        for pid in children:
            try:
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.waitpid(-1, 0)


def _keep(connection: socket.socket, trial: int) -> NoReturn:
    """Until the trial or run-trial has ended."""
    ended = os.pidfd_open(trial)
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    waiting.register(ended, select.POLLIN)
    code = None
    while code is None:
        ready = {descriptor for descriptor, _ in waiting.poll()}
        if ended in ready:
            # The trial stays a zombie until its group is ended, so that no signal meets another one.
            os.waitid(os.P_PID, trial, os.WEXITED | os.WNOWAIT)
            _kill_group(trial, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(trial, 0)[1])
        elif connection.fileno() in ready:
            signals = connection.recv(64)
            if not signals:
                _kill_group(trial, signal.SIGKILL)
                break
            for number in signals:
                _kill_group(trial, number)
    _end_all()
    if code is not None:
        connection.sendall(_ENDED + bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def _kill_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        os.kill(leader, number)


def start_trial(connection: socket.socket, request: Request, server: int) -> bool:
    """In the keeper. True: this process is the trial; otherwise it does not return."""
    try:
        _die_with(server)
        os.setsid()
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            become_like(request.peer)
        except (OSError, ValueError):
            connection.sendall(_COLD)
            os._exit(0)
        connection.sendall(_READY)
        connection.settimeout(None)
        if not connection.recv(1):
            os._exit(0)  # run-trial has ended.
        keeper = os.getpid()
        trial = os.fork()
        if trial == 0:
            os.setpgid(0, 0)
            _die_with(keeper)
            connection.close()
            return True
        for descriptor in request.streams:
            os.close(descriptor)
        _keep(connection, trial)
    except OSError:
        pass  # run-trial has ended meanwhile.
    _end_all()
    os._exit(1)


# The warm process.


class Server:
    def __init__(self, listener: socket.socket, worker: int, name: str) -> None:
        self._listener = listener
        self._worker = os.pidfd_open(worker)
        self._name = name  # Path of the socket and of the pid file, without their endings.
        self._keepers: set[int] = set()
        self._imported: set[str] = set()
        self._before: set[str] = set()
        self._learned = -1  # What trials have imported besides.
        self._spoiled = False  # No process can be forked any more.
        self._said = b""  # What the imports have printed.

    def begin(self) -> None:
        """Names this process for the worker, which would end it otherwise."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._name}.pipe")  # From one that was killed.
        ticks = _read("/proc/self/stat").rpartition(")")[2].split()[19]
        with open(f"{self._name}.new", "w") as file:
            file.write(f"{os.getpid()} {ticks} {_read('/proc/sys/kernel/random/boot_id').strip()}\n")
        os.rename(f"{self._name}.new", f"{self._name}.pid")
        leave_job()
        os.mkfifo(f"{self._name}.pipe", 0o600)
        self._learned = os.open(f"{self._name}.pipe", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> Callable[[], NoReturn] | None:
        """In the process of a trial: what it runs. In the warm process: None, when it is to end."""
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        waiting.register(self._worker, select.POLLIN)
        waiting.register(self._learned, select.POLLIN)
        used = time.monotonic()
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll(_TURN_S * 1000)}
            self._reap()
            if self._worker in ready:
                return None  # With it the keepers and trials.
            if self._listener.fileno() in ready:
                run = self._accept()
                if run is not None:
                    return run
            if self._learned in ready:
                self._import_all(os.read(self._learned, 1 << 16).decode().split())
            if self._keepers or ready:
                used = time.monotonic()
            elif time.monotonic() - used > IDLE_S:
                return None
            if _memory_is_short():
                self._drain()
                return None

    def close(self) -> None:
        """Removes the files, unless another warm process has taken the place."""
        with open(os.path.join(os.path.dirname(self._name), "lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _read_or_empty(f"{self._name}.pid").startswith(f"{os.getpid()} "):
                for ending in ("sock", "pipe", "pid"):
                    os.unlink(f"{self._name}.{ending}")

    def _reap(self) -> None:
        while self._keepers:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._keepers.discard(pid)

    def _drain(self) -> None:
        self._listener.close()
        while self._keepers:
            pid, _ = os.waitpid(-1, 0)
            self._keepers.discard(pid)

    def _accept(self) -> Callable[[], NoReturn] | None:
        connection, _ = self._listener.accept()
        with connection:
            try:
                request = receive(connection)
            except (Closed, OSError, ValueError):
                return None
            server = os.getpid()
            try:
                self._prepare(request)
                if next(reversed(sys.modules)) != _MARK:
                    self._before = _mark_modules()
                keeper = os.fork()
            except (_warm_code.Unfit, OSError):
                connection.send(_COLD)
                keeper = -1
            if keeper == 0:
                self._listener.close()
                os.close(self._worker)
                os.close(self._learned)
                start_trial(connection, request, server)
                before, said, learned = self._before, self._said, f"{self._name}.pipe"
                return lambda: run_trial(request, before, said, learned)
        if keeper > 0:
            self._keepers.add(keeper)
        for descriptor in request.streams:
            os.close(descriptor)
        return None

    def _prepare(self, request: Request) -> None:
        """Imports what the code does. Unfit: the trial needs a new process."""
        loaded = {name.partition(".")[0] for name in sys.modules}
        names = [*_FACADE, *_warm_code.look(request.code, loaded), *(() if request.is_script else _PYTORCH)]
        self._import_all(names)
        now = {name.partition(".")[0] for name in sys.modules}
        if now != loaded:
            _warm_code.look(request.code, now)  # With the modules that these have brought.
        if self._spoiled:
            raise _warm_code.Unfit("a module runs threads")

    def _import_all(self, names: list[str]) -> None:
        missing = [name for name in names if name not in self._imported]
        if not missing:
            return
        with tempfile.TemporaryFile() as output:
            kept = os.dup(1), os.dup(2)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            try:
                for name in missing:
                    _import(name)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                for target, descriptor in zip((1, 2), kept, strict=True):
                    os.dup2(descriptor, target)
                    os.close(descriptor)
            output.seek(0)
            self._said += output.read()
        self._imported.update(missing)
        gc.collect()
        gc.freeze()  # The trials share these objects instead of copying them when they collect garbage.
        self._spoiled = self._spoiled or not _can_fork()


def _import(name: str) -> None:
    """A module that cannot be imported is the trial's to complain about."""
    try:
        importlib.import_module(name)
    except Exception:
        for loaded in [each for each in sys.modules if each == name or each.startswith(name + ".")]:
            del sys.modules[loaded]


def _can_fork() -> bool:
    """Threads of a mathematical library end before a fork and start again when they are needed. Others would be missing in the child."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    torch = sys.modules.get("torch")
    return _threads() == 1 and (torch is None or not torch.cuda.is_initialized())


def _read_or_empty(path: str) -> str:
    try:
        return _read(path)
    except OSError:
        return ""


def _memory_is_short() -> bool:
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in _read("/proc/meminfo").splitlines()[:3]}
    return sizes["MemAvailable"] < _MEMORY_LEAST * sizes["MemTotal"]


def main() -> None:
    worker, name = int(sys.argv[1]), sys.argv[2]
    # The first entry is this program's folder; that of a trial takes its place.
    sys.path.remove("")
    server = Server(socket.socket(fileno=LISTENER), worker, name)
    server.begin()
    _core.prepare_calls_of_forks()
    trial = server.serve()
    if trial is not None:
        trial()
    server.close()
    os._exit(0)
