"""cluster_ranks.py FILE RANK: one of two processes of a trial in a cluster. Prints what each called."""

import json
import os
import sys

import torch
import torch.distributed as dist
from fake_head import FakeHead

from volador.compat.determined import _info, _launch, _session, core
from volador.compat.determined.core import _preempt


def start(head):
    _session._connect = lambda address, token: head
    _session._sessions.clear()
    _info.set_cluster_info(None)
    _preempt._requested.clear()
    return head


def main():
    file, rank = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2", GROUP_RANK="0", GROUP_WORLD_SIZE="1")
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    result = {}
    head = start(FakeHead([8]))
    assert _launch.main(["--trial"]) == 0
    result["class"] = head.names()
    head = start(FakeHead([16]))
    if rank == 0:
        head.preempt_after = ("ReportMetrics", 1)
        head.wait_for_preemption(_preempt._requested)
    assert _launch.main(["--trial"]) == 0
    result["preempted"] = head.names()
    head = start(FakeHead([4]))
    with core.init(distributed=core.DistributedContext.from_torch_distributed()) as context:
        for operation in context.searcher.operations():
            with context.checkpoint.store_path({"steps_completed": operation.length}, shard=True) as (folder, _):
                (folder / f"shard{rank}").write_text("x")
            if rank == 0:
                operation.report_completed(1.0)
        result["files"] = sorted(path.name for path in folder.iterdir())
    result["core"], result["polls"] = head.names(), head.polls
    print(json.dumps(result))
    dist.destroy_process_group()


main()
