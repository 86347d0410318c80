"""python3 -m determined.launch.torch_distributed [TORCHRUN_OPTION… --] (--trial module:Class | PROGRAM…)

Runs torchrun on each node of the trial, with a process a slot."""

from __future__ import annotations

import os

from volador.compat.determined.launch import _command

USAGE = "python3 -m determined.launch.torch_distributed [TORCHRUN_OPTION… --] (--trial module:Class | PROGRAM…)"


def command_of(nodes: _command.Nodes, options: list[str], program: list[str]) -> list[str]:
    marked = _command.wrapped("RANK", program)
    return [
        "python3",
        "-m",
        "torch.distributed.run",
        *("--nnodes", str(len(nodes.addresses))),
        *("--nproc_per_node", str(nodes.slots)),
        *("--node_rank", str(nodes.rank)),
        *("--max_restarts", "0"),
        *("--master_addr", "localhost" if len(nodes.addresses) == 1 else nodes.chief),
        *("--master_port", str(nodes.port)),
        *options,
        "--module",
        *marked[2:],
    ]


def launch(arguments: list[str]) -> int:
    options, program = _command.split(arguments, USAGE)
    nodes = _command.nodes_of_trial("determined.launch.torch_distributed")
    env = {**os.environ, "USE_TORCH_DISTRIBUTED": "True", "DET_CHIEF_IP": nodes.chief}
    return _command.run(command_of(nodes, options, program), env)


if __name__ == "__main__":
    _command.main(launch)
