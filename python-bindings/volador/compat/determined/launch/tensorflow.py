"""python3 -m determined.launch.tensorflow [--] (--trial module:Class | PROGRAM…)

Runs the program once on each node of the trial; on several, TF_CONFIG lists them for tf.distribute.MultiWorkerMirroredStrategy."""

from __future__ import annotations

import json
import os

from volador.compat.determined.launch import _command

USAGE = "python3 -m determined.launch.tensorflow [--] (--trial module:Class | PROGRAM…)"


def environment_of(nodes: _command.Nodes) -> dict[str, str]:
    if len(nodes.addresses) == 1:
        return {}
    workers = [f"[{address}]:{nodes.port}" if ":" in address else f"{address}:{nodes.port}" for address in nodes.addresses]
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": nodes.rank}})}


def launch(arguments: list[str]) -> int:
    options, program = _command.split(arguments, USAGE)
    if options:
        raise _command.LaunchError(f"determined.launch.tensorflow: it takes no options, got {' '.join(options)}; usage: {USAGE}")
    nodes = _command.nodes_of_trial("determined.launch.tensorflow")
    return _command.run(_command.wrapped(str(nodes.rank), program), {**os.environ, **environment_of(nodes)})


if __name__ == "__main__":
    _command.main(launch)
