"""Exchange between the processes of a trial without torch.distributed: real processes and sockets."""

import json
import os
import socket
import subprocess
import sys
import textwrap

import pytest
from volador.compat.determined.core import _exchange

PROGRAM = textwrap.dedent("""
    import json, os, sys
    from determined import core
    rank, machines, each = (int(word) for word in sys.argv[1:4])
    context = core.DistributedContext(rank=rank, size=machines * each, local_rank=rank % each, local_size=each, cross_rank=rank // each, cross_size=machines, chief_ip="127.0.0.1")
    for round in range(3):
        seen = [context.allgather(rank + round), context.gather({"rank": rank}), context.broadcast(f"from {rank}"), context.allgather_local(rank), context.broadcast_local(rank), context.gather_local("x" * 100_000) is not None]
    assert "torch" not in sys.modules
    print(json.dumps(seen))
    context.close()
""")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(rank, machines, each, **more):
    shims = os.path.join(os.path.dirname(_exchange.__file__), "..", "..", "shims")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), shims]), "VOLADOR_TOKEN": "t1-secret", "VOLADOR_TRIAL": str(os.getpid()), "VOLADOR_TRIAL_RUN": "1", **more}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(rank), str(machines), str(each)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    return out


@pytest.mark.parametrize(("machines", "each"), [(1, 3), (2, 2), (3, 1)])
def test_all_processes_see_the_same(machines, each):
    size = machines * each
    port = str(free_port())
    processes = [start(rank, machines, each, MASTER_PORT=port) for rank in reversed(range(size))]
    outcomes = [ended(process).strip() for process in reversed(processes)]
    for rank, text in enumerate(outcomes):
        everyone, gathered, sent, local, local_sent, is_local_chief = json.loads(text)
        first = rank // each * each
        assert everyone == [other + 2 for other in range(size)]
        assert gathered == ([{"rank": other} for other in range(size)] if rank == 0 else None)
        assert sent == "from 0"
        assert local == list(range(first, first + each))
        assert local_sent == first
        assert is_local_chief == (rank == first)


def test_a_process_with_another_token_is_not_let_in():
    name = f"\0volador-test-{os.getpid()}"
    with pytest.raises(RuntimeError, match=r"ranks \[1\] have not come"):
        stranger = subprocess.Popen(
            [sys.executable, "-c", "import sys; from volador.compat.determined.core._exchange import Star; Star(sys.argv[1].replace('@', chr(0)), 1, 2, b'wrong', 1.0)", name.replace("\0", "@")],
            stderr=subprocess.PIPE,
        )
        try:
            _exchange.Star(name, 0, 2, b"right", 3.0)
        finally:
            assert b"does not answer" in stranger.communicate(timeout=30)[1]


def test_a_process_that_ends_is_noticed():
    name = f"\0volador-test-end-{os.getpid()}"
    peer = subprocess.Popen([sys.executable, "-c", "import sys; from volador.compat.determined.core._exchange import Star; Star(sys.argv[1].replace('@', chr(0)), 1, 2, b'k')", name.replace("\0", "@")])
    star = _exchange.Star(name, 0, 2, b"k")
    peer.wait(30)
    with pytest.raises(RuntimeError, match="rank 1 has ended"):
        star.gather(1)
    star.close()
    with pytest.raises(RuntimeError, match="it is closed"):
        star.gather(1)


def test_outside_of_a_cluster_it_says_what_is_missing(monkeypatch):
    from volador.compat.determined import core

    monkeypatch.delenv("VOLADOR_TOKEN", raising=False)
    with pytest.raises(RuntimeError, match="2 processes need torch.distributed here"):
        core.DistributedContext(rank=0, size=2, local_rank=0, local_size=2, cross_rank=0, cross_size=1)


def test_tf_config_names_the_place(monkeypatch):
    from volador.compat.determined import core

    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["10.0.0.1:29400"]}, "task": {"type": "worker", "index": 0}}')
    context = core.DistributedContext.from_tf_config()
    assert (context.rank, context.size, context.get_num_agents()) == (0, 1, 1)
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["10.0.0.1:29400"]}, "task": {"type": "evaluator", "index": 0}}')
    with pytest.raises(RuntimeError, match="is the task evaluator"):
        core.DistributedContext.from_tf_config()
