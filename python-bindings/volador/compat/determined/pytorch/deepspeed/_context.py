"""What a DeepSpeedTrial gets."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from volador.compat.determined import core, errors, util
from volador.compat.determined.pytorch._context import TorchContext
from volador.compat.determined.pytorch.deepspeed._mpu import ModelParallelUnit, make_data_parallel_mpu, make_deepspeed_mpu

_logger = logging.getLogger("determined.pytorch.deepspeed")


def overwrite_deepspeed_config(base_ds_config: str | dict[str, Any], source_ds_dict: dict[str, Any]) -> dict[str, Any]:
    """A configuration for deepspeed.initialize(): base_ds_config, a dictionary or the path of a JSON file, in which values of source_ds_dict win.

    ValueError: the file has a key twice."""
    if isinstance(base_ds_config, str):
        with open(base_ds_config, encoding="utf-8") as file:
            base_ds_config = json.load(file, object_pairs_hook=_unique)
    if not isinstance(base_ds_config, dict):
        raise TypeError(f"overwrite_deepspeed_config: expected a dictionary or the path of a JSON file with one, got a {type(base_ds_config).__name__}")
    return util.merge_dicts(base_ds_config, source_ds_dict)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"overwrite_deepspeed_config: the file has {', '.join(twice)} twice; remove one of them")
    return values


class DeepSpeedTrialContext(TorchContext):
    """Made by pytorch.deepspeed.init(), or by the launcher. Wrap the engines that deepspeed.initialize() returns."""

    _INIT = "pytorch.deepspeed.init()"
    _TRIAL = "DeepSpeedTrial"

    def __init__(self, core_context: core.Context, **options: Any) -> None:
        super().__init__(core_context, **options)
        self._mpu = make_data_parallel_mpu(self.distributed)
        self._mpu_is_set = False
        self._pipeline = False
        self._micro_batch_size: int | None = None
        self._micro_batches: int | None = None
        self._data_repro_checks_disabled = False
        self._manual_grad_accumulation = False
        optimizations = (self._exp_conf or {}).get("optimizations") or {}
        for key, default in (("aggregation_frequency", 1), ("mixed_precision", "O0")):
            if optimizations.get(key, default) != default:
                raise errors.InvalidExperimentException(f"optimizations.{key}: a DeepSpeedTrial takes it from the configuration of DeepSpeed; remove it here")

    def wrap_model_engine(self, model: Any) -> Any:
        """Registers an engine. The first one decides the size and number of micro-batches, and with a PipelineEngine which processes need data."""
        if not self.models:
            self._micro_batch_size = int(model.train_micro_batch_size_per_gpu())
            self._micro_batches = int(model.gradient_accumulation_steps())
        elif int(model.train_micro_batch_size_per_gpu()) != self._micro_batch_size:
            _logger.warning("engine %d has micro-batches of another size than the first one, which counts", len(self.models) + 1)
        deepspeed = sys.modules.get("deepspeed")
        if deepspeed is not None and isinstance(model, deepspeed.PipelineEngine):
            self._pipeline = True
            if not self.models:
                self._mpu = make_deepspeed_mpu(model.mpu)
        self.models.append(model)
        return model

    def set_mpu(self, mpu: ModelParallelUnit) -> None:
        """For model parallelism that DeepSpeed does not have; once, after the engines were wrapped."""
        if not self.models:
            raise errors.InvalidExperimentException("set_mpu: no engine was wrapped; call wrap_model_engine() before")
        if self._mpu_is_set:
            raise errors.InvalidExperimentException("set_mpu: it was called before; call it once")
        self._mpu_is_set = True
        self._mpu = mpu

    wrap_mpu = set_mpu

    @property
    def use_pipeline_parallel(self) -> bool:
        return self._pipeline

    @property
    def train_micro_batch_size_per_gpu(self) -> int:
        if self._micro_batch_size is None:
            raise errors.InvalidExperimentException("train_micro_batch_size_per_gpu: no engine was wrapped; call wrap_model_engine() before")
        return self._micro_batch_size

    @property
    def num_micro_batches_per_slot(self) -> int:
        if self._micro_batches is None:
            raise errors.InvalidExperimentException("num_micro_batches_per_slot: no engine was wrapped; call wrap_model_engine() before")
        return self._micro_batches

    def disable_auto_grad_accumulation(self) -> None:
        """train_batch() is called once for a batch, and takes all of its micro-batches itself; with a PipelineEngine it always is."""
        self._manual_grad_accumulation = True

    def disable_dataset_reproducibility_checks(self) -> None:
        """Loaders may be any torch.utils.data.DataLoader; order, sharing among ranks and continuation are the trial's."""
        self._data_repro_checks_disabled = True

    def _calls_per_batch(self) -> int:
        return 1 if self._pipeline or self._manual_grad_accumulation else self.num_micro_batches_per_slot
