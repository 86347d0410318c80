"""Types of KatibClient.tune()."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class TrainerResources:
    """A trial is a PyTorchJob: so many nodes, with so many processes on each."""

    num_workers: int = 1
    num_procs_per_worker: int = 1
    resources_per_worker: Mapping[str, str | float] | None = None
