"""Connection of this process to its cluster."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volador import _code, _core, _html
from volador.compat import _alias

if TYPE_CHECKING:
    from types import TracebackType

_lock = threading.Lock()
_context: Context | None = None
_process: int | None = None  # That made the connection: a forked child has none.

# Modules that a template imports for its hosts where the driver has imported them: slow to import, and safe to fork.
_PRELOADED = ("numpy", "pandas", "scipy", "torch", "pyarrow", "sklearn")
_PRELOADED_FOR_TRAINING = ("torch", "torch.nn.parallel.distributed", "torch._dynamo")  # The last: by the first optimizer.


class Context:
    """What init() returns. As a context manager it ends the connection."""

    def __init__(self, cluster: str, address: str, is_private: bool) -> None:
        self.cluster = cluster
        self.address = address
        self.is_private = is_private  # The cluster belongs to this process and ends with it.

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        shutdown()

    def __repr__(self) -> str:
        return f"<volador.Context {'private cluster' if self.is_private else f'cluster {self.cluster} at {self.address}'}>"

    def _repr_html_(self) -> str:
        title = f"Volador · {'Private cluster' if self.is_private else f'Cluster {self.cluster}'}"
        if self is not _context:
            return _html.page(_html.Page(title, "disconnected", facts=[self.address]))
        used = _core.used_resources()
        rows = []
        for name, total in cluster_resources().items():
            scale, unit = (2**30, " (GiB)") if name == "memory" else (1, "")
            taken = used.get(name, 0.0)
            rows.append(_html.Row([name + unit, *(round(amount / scale, 4) for amount in (total, taken, total - taken))]))
        nodes = _html.counted(_core.node_count(), "node")
        return _html.page(_html.Page(title, facts=[self.address, nodes], tables=[_html.Table(["resource", "total", "in use", "free"], rows)]))


def init(
    address: str | None = None,
    *,
    token: str | None = None,
    namespace: str | None = None,
    num_cpus: float | None = None,
    num_gpus: int | None = None,
    object_store_memory: int | None = None,
    log_to_driver: bool = True,
    ignore_reinit_error: bool = False,
    debug_post_mortem: bool | None = None,
) -> Context:
    """Connects this process to a cluster.

    address: host:port of a head; "local" for a private cluster of this process. Default: VOLADOR_ADDRESS, else the last
    cluster started on this machine, else where `volador login` signed in last, else a private one. token: default
    VOLADOR_TOKEN, else that of the sign-in at the address, else the file that `volador start --head` wrote. num_cpus, num_gpus, object_store_memory (bytes): of a private cluster. log_to_driver: prints what
    actors and tasks print. debug_post_mortem: a call or task with an exception waits for `volador debug`; default:
    VOLADOR_POST_MORTEM.

    Raises UnavailableError (no head; the message lists what was tried), UnauthenticatedError, InvalidArgumentError.
    Python's own functions call init() where the program did not."""
    global _context, _process
    with _lock:
        if _context is not None and _process == os.getpid():
            if ignore_reinit_error:
                return _context
            raise RuntimeError("volador.init() was called before in this process; call volador.shutdown() first, or pass ignore_reinit_error=True")
        if _core.is_inside_actor():
            raise RuntimeError("volador.init() was called inside an actor or task, which belongs to a cluster already: leave it out")
        if debug_post_mortem is None:
            debug_post_mortem = os.environ.get("VOLADOR_POST_MORTEM", "0") not in ("", "0")
        options = _core.InitOptions()
        options.address = address or ""
        options.token = token or ""
        options.namespace = namespace or ""
        options.num_cpus = None if num_cpus is None else float(num_cpus)
        options.num_gpus = num_gpus
        options.object_store_memory = object_store_memory
        options.log_to_driver = log_to_driver
        _context = Context(*_core.connect(options, _program_name(), _host_command(), _host_environment(debug_post_mortem)))
        _process = os.getpid()
        atexit.register(shutdown)
        return _context


def shutdown() -> None:
    """Ends the connection: actors that are not detached end, and so does a private cluster. Repeated: no effect."""
    global _context
    with _lock:
        if _context is None or _process != os.getpid():
            return
        _context = None
        _code.forget()
        atexit.unregister(shutdown)
        _core.shutdown()


def is_initialized() -> bool:
    """Whether this process belongs to a cluster; always true inside actors and tasks."""
    return (_context is not None and _process == os.getpid()) or _core.is_inside_actor()


def ensure() -> None:
    """init() with its defaults, unless this process belongs to a cluster."""
    if not is_initialized():
        init(ignore_reinit_error=True)


def cluster_resources() -> dict[str, float]:
    """Resources of the cluster: "cpus", "gpus", custom ones; "memory" in bytes."""
    ensure()
    return dict(_core.cluster_resources())


def available_resources() -> dict[str, float]:
    """Resources that are not in use."""
    total = cluster_resources()
    used = _core.used_resources()
    return {name: round(amount - used.get(name, 0.0), 4) for name, amount in total.items()}


def get_runtime_context() -> dict[str, Any]:
    """Where this code runs: "cluster"; inside an actor or task also "actor_id", "class_name", "name", "namespace",
    "restarts", "node", "node_id", "resources", "gpus" (indices) and "scratch", a folder that ends with the actor."""
    ensure()
    return dict(_core.context())


def _program_name() -> str:
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    return os.path.basename(file) if file else "python"


def _host_command() -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("host.py"))]


def _host_environment(post_mortem: bool) -> dict[str, str]:
    # The same in all programs of one environment, so that their hosts come from one template.
    path = [os.path.abspath(entry or os.curdir) for entry in sys.path]
    loaded = [name for name in _PRELOADED if name in sys.modules]
    if "volador.train" in sys.modules:
        loaded = list(dict.fromkeys([*loaded, *_PRELOADED_FOR_TRAINING]))
    variables = {"VOLADOR_PYTHON_PATH": os.pathsep.join(path), "VOLADOR_PYTHON_PRELOAD": ",".join(loaded)}
    if _alias.is_installed():
        variables["VOLADOR_PYTHON_COMPAT"] = "1"
    if post_mortem:
        variables["VOLADOR_POST_MORTEM"] = "1"
    return variables
