"""What a process does in parallel training."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volador.compat.determined import core


@dataclasses.dataclass
class ModelParallelUnit:
    """Place among the processes that have different data, and whether this process returns metrics and needs data."""

    data_parallel_rank: int
    data_parallel_world_size: int
    should_report_metrics: bool
    should_build_data_loader: bool


def make_data_parallel_mpu(dist_context: core.DistributedContext) -> ModelParallelUnit:
    """Each process has a whole model and data of its own."""
    return ModelParallelUnit(dist_context.rank, dist_context.size, should_report_metrics=True, should_build_data_loader=True)


def make_deepspeed_mpu(topology: Any) -> ModelParallelUnit:
    """Of the grid of a PipelineEngine: the first and the last stage read data."""
    stage, stages = topology.get_pipe_parallel_rank(), topology.get_pipe_parallel_world_size()
    return ModelParallelUnit(
        data_parallel_rank=topology.get_data_parallel_rank(),
        data_parallel_world_size=topology.get_data_parallel_world_size(),
        should_report_metrics=True,
        should_build_data_loader=topology.get_slice_parallel_rank() == 0 and stage in (0, stages - 1),
    )
