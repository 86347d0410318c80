"""Determined's DeepSpeed API: DeepSpeedTrial, its context and Trainer. DeepSpeed itself is imported where a trial begins."""

from volador.compat.determined.pytorch.deepspeed._context import DeepSpeedTrialContext, overwrite_deepspeed_config
from volador.compat.determined.pytorch.deepspeed._mpu import ModelParallelUnit, make_data_parallel_mpu, make_deepspeed_mpu
from volador.compat.determined.pytorch.deepspeed._trainer import Trainer, init
from volador.compat.determined.pytorch.deepspeed._trial import DeepSpeedTrial

__all__ = [
    "DeepSpeedTrial",
    "DeepSpeedTrialContext",
    "ModelParallelUnit",
    "Trainer",
    "init",
    "make_data_parallel_mpu",
    "make_deepspeed_mpu",
    "overwrite_deepspeed_config",
]
