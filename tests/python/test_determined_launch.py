"""The commands determined.launch.*, as entrypoints of trials on one node and on two, which are two processes here."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import volador  # noqa: E402
from volador.compat.determined.launch import _command, deepspeed, horovod, tensorflow, torch_distributed, wrap_rank  # noqa: E402

TRIALS = pathlib.Path(__file__).parent / "determined_trials"
SHIMS = pathlib.Path(volador.__file__).parent / "compat" / "shims"
sys.path.insert(0, str(TRIALS))

from fake_head import cluster_environment, write_info  # noqa: E402

PROGRAM = """
import json, os, sys
import determined as det
from determined import core, pytorch
import torch.distributed as dist

dist.init_process_group("gloo")
with core.init(distributed=core.DistributedContext.from_torch_distributed()) as context:
    ranks = context.distributed.allgather(context.distributed.rank)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "USE_TORCH_DISTRIBUTED", "DET_CHIEF_IP")
print(json.dumps({"ranks": ranks, "arguments": sys.argv[1:], **{name: os.environ[name] for name in names}}))
dist.destroy_process_group()
"""


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def node_environment(folder, addresses, rank, slots, config=None, **variables):
    """The environment of a node's process of run 2 of trial 7."""
    folder.mkdir(parents=True, exist_ok=True)
    write_info(folder / "info", config or {"searcher": {"metric": "m", "max_length": {"batches": 1}}}, {}, None, {"type": "shared_fs", "host_path": str(folder)}, 0, addresses, rank, slots)
    inherited = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    path = ":".join(filter(None, [inherited.get("PYTHONPATH"), str(SHIMS)]))
    return {**inherited, **cluster_environment(folder / "info"), "PYTHONPATH": path, "VOLADOR_JOB_DIR": str(folder), **variables}


def run_nodes(tmp_path, module, addresses, slots, *arguments, **variables):
    """Output lines of each node."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"determined.launch.{module}", *arguments],
            cwd=tmp_path,
            env=node_environment(tmp_path / f"node{rank}", addresses, rank, slots, **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(len(addresses))
    ]
    outputs = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0] * len(started), outputs
    return [out.splitlines() for out, _ in outputs]


@pytest.mark.parametrize(("nodes", "slots"), [(1, [0, 1]), (2, [0])])
def test_torch_distributed_starts_a_process_a_slot(tmp_path, nodes, slots):
    (tmp_path / "train.py").write_text(PROGRAM)
    outputs = run_nodes(
        tmp_path, "torch_distributed", ["127.0.0.1"] * nodes, slots, "train.py", "--epochs", "2", MASTER_PORT=str(free_port()), DET_CHIEF_IP="127.0.0.1"
    )
    lines = [re.fullmatch(r"\[rank=(\d)\] (\{.*\})", line) for output in outputs for line in output if "{" in line]
    seen = {int(match[1]): json.loads(match[2]) for match in lines}
    assert sorted(seen) == [0, 1]
    for rank, values in seen.items():
        assert values["ranks"] == [0, 1] and values["arguments"] == ["--epochs", "2"]
        assert (values["RANK"], values["WORLD_SIZE"]) == (str(rank), "2")
        assert (values["GROUP_RANK"], values["LOCAL_RANK"]) == ((str(rank), "0") if nodes == 2 else ("0", str(rank)))
        assert values["MASTER_ADDR"] == ("localhost" if nodes == 1 else "127.0.0.1")
        assert (values["USE_TORCH_DISTRIBUTED"], values["DET_CHIEF_IP"]) == ("True", "127.0.0.1")


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["10.0.0.1", "10.0.0.2"], ["fd00::1", "10.0.0.2"]])
def test_tensorflow_lists_the_nodes(tmp_path, addresses):
    (tmp_path / "train.py").write_text("import os, sys; print(os.environ.get('TF_CONFIG'), sys.argv[1])\n")
    outputs = run_nodes(tmp_path, "tensorflow", addresses, [0, 1], "--", "python3", "train.py", "x")
    for rank, output in enumerate(outputs):
        shown = output[0].removeprefix(f"[rank={rank}] ").removesuffix(" x")
        if len(addresses) == 1:
            assert shown == "None"
        else:
            first = "[fd00::1]:29400" if ":" in addresses[0] else "10.0.0.1:29400"
            assert json.loads(shown) == {"cluster": {"worker": [first, "10.0.0.2:29400"]}, "task": {"type": "worker", "index": rank}}


def nodes_of(addresses, slots, config=None, interface=None):
    from volador.compat.determined import _info

    trial = _info.TrialInfo(7, 3, 1, {}, config or {}, inter_node_network_interface=interface)
    return _command.Nodes(addresses, slots, 0, addresses[0], 29400, _info.ClusterInfo(trial=trial))


TRAIN = ["python3", "train.py"]


def test_command_lines_are_determineds(monkeypatch):
    for name in ("DTRAIN_SSH_PORT", "HOROVOD_STARTUP_TIMEOUT_SECONDS", "HOROVOD_GLOO_TIMEOUT_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    two = nodes_of(["10.0.0.1", "10.0.0.2"], 4, {"optimizations": {"tensor_fusion_threshold": 64, "tensor_fusion_cycle_time": 5}}, "eth1")
    assert " ".join(torch_distributed.command_of(two, ["--rdzv_conf", "timeout=9"], TRAIN)) == (
        "python3 -m torch.distributed.run --nnodes 2 --nproc_per_node 4 --node_rank 0 --max_restarts 0 --master_addr 10.0.0.1 --master_port 29400 "
        "--rdzv_conf timeout=9 --module determined.launch.wrap_rank RANK -- python3 train.py"
    )
    marked = "python3 -m determined.launch.wrap_rank HOROVOD_RANK,OMPI_COMM_WORLD_RANK,PMI_RANK -- python3 train.py"
    assert " ".join(horovod.command_of(two, ["--no-stall-check"], TRAIN)) == (
        "horovodrun -np 8 -p 12350 -H 10.0.0.1:4,10.0.0.2:4 --start-timeout 1200 --gloo-timeout-seconds 240 --network-interface eth1 "
        f"--fusion-threshold-mb 64 --cycle-time-ms 5 --no-stall-check -- {marked}"
    )
    one = nodes_of(["10.0.0.1"], 2, {"optimizations": {"auto_tune_tensor_fusion": True}}, "eth1")
    assert " ".join(horovod.command_of(one, [], TRAIN)).startswith("horovodrun -np 2 -p 12350 -H localhost:2 --start-timeout 1200 --gloo-timeout-seconds 240 --autotune ")
    assert " ".join(deepspeed.command_of(two, "/hosts", [], TRAIN)) == (
        "deepspeed -H /hosts --master_addr 10.0.0.1 --no_python --no_local_rank -- python3 -m determined.launch.wrap_rank RANK -- python3 train.py"
    )
    assert deepspeed.hostfile_of(two) == "10.0.0.1 slots=4\n10.0.0.2 slots=4\n"


def test_arguments():
    assert _command.split(["--trial", "model_def:T"], "u") == ([], ["python3", "-m", "volador.determined", "--trial", "model_def:T"])
    assert _command.split(["--x", "1", "--", "./run", "--", "y"], "u") == (["--x", "1"], ["./run", "--", "y"])
    assert _command.split(["no_such.py", "a"], "u") == ([], ["python3", "no_such.py", "a"])
    for wrong in ([], ["--trial"], ["--x"]):
        with pytest.raises(_command.LaunchError, match="expected a program or --trial module:Class"):
            _command.split(wrong, "u")


LAUNCHER = """#!/bin/sh
printf '%s\\n' "$@" > arguments
env > environment
exit 3
"""
SSH = """#!/bin/sh
echo "$1" >> ssh_hosts
VOLADOR_JOB_DIR={job} exec sh -c "$2"
"""


@pytest.mark.parametrize(("module", "program", "flag"), [("horovod", "horovodrun", "USE_HOROVOD"), ("deepspeed", "deepspeed", "USE_DEEPSPEED")])
def test_the_first_node_launches_and_the_others_wait_for_it(tmp_path, module, program, flag):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in ((program, LAUNCHER), ("ssh", SSH.format(job=tmp_path / "node1"))):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    addresses = ["10.0.0.1", "10.0.0.2"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"determined.launch.{module}", "python3", "train.py"],
            cwd=tmp_path, env=node_environment(tmp_path / f"node{rank}", addresses, rank, [0, 1], PATH=path),
        )
        for rank in (1, 0)
    ]
    assert [process.wait(60) for process in started] == [3, 3]  # The launcher's, on all nodes.
    assert (tmp_path / "ssh_hosts").read_text() == "server2\n"
    environment = (tmp_path / "environment").read_text().splitlines()
    assert f"{flag}=1" in environment and "DET_CHIEF_IP=10.0.0.1" in environment
    if module == "deepspeed":
        assert "PDSH_SSH_ARGS=-o PasswordAuthentication=no -o StrictHostKeyChecking=no -p 12350 -2 -a -x %h" in environment
        hostfile = next(line.partition("=")[2] for line in environment if line.startswith("DET_DEEPSPEED_HOSTFILE_PATH="))
        assert pathlib.Path(hostfile).read_text() == "10.0.0.1 slots=2\n10.0.0.2 slots=2\n"
        passed = tmp_path / ".deepspeed_env"
        assert "DET_TRIAL_ID=7" in passed.read_text().splitlines() and passed.stat().st_mode & 0o777 == 0o600


def test_what_is_missing_is_named(tmp_path):
    def run(module, *arguments, env):
        done = subprocess.run([sys.executable, "-m", f"determined.launch.{module}", *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    env = node_environment(tmp_path / "node", ["10.0.0.1"], 0, [0])
    for module, program, what in (("horovod", "horovodrun", "Horovod"), ("deepspeed", "deepspeed", "DeepSpeed")):
        code, said = run(module, "python3", "train.py", env=env)
        assert code == 2 and said == (
            f"error: determined.launch.{module}: there is no program {program!r} on this node; install {what} in the environment of the trial, "
            "for example in startup-hook.sh\n"
        )
    (tmp_path / "alone.py").write_text("print('alone')\n")
    assert run("horovod", "--autohorovod", "alone.py", env=env) == (0, "")
    code, said = run("torch_distributed", "alone.py", env={name: value for name, value in env.items() if name != "VOLADOR_TRIAL"})
    assert code == 2 and "this process is not a trial of a cluster" in said


def test_lines_are_marked_with_the_rank(tmp_path, monkeypatch):
    program = "import sys, signal, os; print('one'); print('10%\\r20%', end='\\r'); print('é', file=sys.stderr, end=''); os.kill(os.getpid(), signal.SIGKILL)"
    env = node_environment(tmp_path, ["10.0.0.1"], 0, [0], SOME_RANK="4")
    command = [sys.executable, "-m", "determined.launch.wrap_rank", "NO_RANK,SOME_RANK", "--", sys.executable, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (128 + 9, "[rank=4] one\n[rank=4] 10%\n[rank=4] 20%\n", "[rank=4] é\n")
    assert wrap_rank.rank_of("12") == 12
    with pytest.raises(_command.LaunchError, match="none of the variables X,Y has a rank"):
        wrap_rank.rank_of("X,Y")
    assert tensorflow.environment_of(nodes_of(["a"], 1)) == {}


def test_scripts_find_the_names_of_determined(tmp_path):
    (tmp_path / "script.py").write_text(
        "import determined as det\nfrom determined import core, pytorch\nimport determined.pytorch.samplers\n"
        "import volador.compat.determined as facade\nassert det is facade and pytorch is facade.pytorch, det\nprint(det.get_cluster_info().trial.trial_id)\n"
    )
    (tmp_path / "optuna.py").write_text("real = True\n")
    with open(tmp_path / "script.py", "a") as file:
        file.write("import optuna\nassert optuna.real\n")
    env = node_environment(tmp_path, ["10.0.0.1"], 0, [0])
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "7\n", done.stderr
