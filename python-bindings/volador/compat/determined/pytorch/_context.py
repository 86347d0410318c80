"""What a PyTorchTrial gets: its hyperparameters, its ranks, and the wrapping of models and optimizers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import core, errors
from volador.compat.determined._trial_context import TrialContext
from volador.compat.determined.pytorch._data import to_device
from volador.compat.determined.pytorch._experimental import PyTorchExperimentalContext
from volador.compat.determined.pytorch._lr_scheduler import LRScheduler
from volador.compat.determined.pytorch._reducer import ReducerContext

if TYPE_CHECKING:
    from collections.abc import Callable


class TransparentDataParallel(torch.nn.parallel.DistributedDataParallel):  # type: ignore[misc, unused-ignore]
    """Gives attributes of the model inside, so that a trial can use them with one process and with several."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)


def _full_precision(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output.float() if output.dtype in (torch.float16, torch.bfloat16) else output
    if isinstance(output, dict):
        return {key: _full_precision(each) for key, each in output.items()}
    if isinstance(output, (list, tuple)):
        parts = [_full_precision(each) for each in output]
        return parts if isinstance(output, list) else type(output)(*parts) if hasattr(output, "_fields") else tuple(parts)
    return output


def _autocast_forward(forward: Callable[..., Any], device_type: str, *args: Any, **kwargs: Any) -> Any:
    with torch.autocast(device_type, enabled=device_type == "cuda"):
        output = forward(*args, **kwargs)
    return _full_precision(output)


class TorchContext(TrialContext, ReducerContext):
    """What trials of PyTorch and of DeepSpeed get: a device, reducers, a profiler and TensorBoard."""

    def __init__(self, core_context: core.Context, **options: Any) -> None:
        TrialContext.__init__(self, core_context, **options)
        ReducerContext.__init__(self, core_context.distributed.allgather)
        self.device: torch.device = self._init_device()
        self._to_device_warned_types: set[type] = set()
        self.models: list[Any] = []
        self.profiler: Any = None

    def _init_device(self) -> torch.device:
        if not torch.cuda.is_available() or torch.cuda.device_count() == 0:
            return torch.device("cpu")
        device = torch.device("cuda", self.distributed.local_rank % torch.cuda.device_count())  # A worker may see its own only.
        torch.cuda.set_device(device)
        return device

    def to_device(self, data: Any) -> Any:
        """See pytorch.to_device(); one warning for each type in this trial."""
        return to_device(data, self.device, self._to_device_warned_types)

    def set_profiler(self, *args: Any, **kwargs: Any) -> None:
        """Arguments of torch.profiler.profile; it is stepped after each batch and writes to the TensorBoard folder."""
        handler = torch.profiler.tensorboard_trace_handler(str(self.get_tensorboard_path()))
        self.profiler = torch.profiler.profile(*args, on_trace_ready=handler, **kwargs)

    def get_tensorboard_writer(self) -> Any:
        """A torch.utils.tensorboard.SummaryWriter; the trainer's own metrics go to it as well. ImportError: tensorboard is not installed."""
        if self._tbd_writer is None:
            try:
                from torch.utils.tensorboard import SummaryWriter  # type: ignore[import-not-found, unused-ignore]
            except ImportError as error:
                raise ImportError(f"get_tensorboard_writer: {error}; install it with: pip install tensorboard") from error
            self._tbd_writer = SummaryWriter(str(self.get_tensorboard_path()))  # type: ignore[no-untyped-call, unused-ignore]
        return self._tbd_writer


class PyTorchTrialContext(TorchContext):
    """Made by pytorch.init(). Wrap models first, then optimizers, then schedulers.

    managed_training=False: models stay on their device and nothing is aggregated, as for a checkpoint that is loaded for inference."""

    def __init__(self, core_context: core.Context, *, aggregation_frequency: int = 1, managed_training: bool = True, **options: Any) -> None:
        super().__init__(core_context, **options)
        self._managed_training = managed_training
        self._aggregation_frequency = aggregation_frequency
        self._average_aggregated_gradients_default = True
        self.optimizers: list[Any] = []
        self.lr_schedulers: list[LRScheduler] = []
        self.experimental: PyTorchExperimentalContext = PyTorchExperimentalContext(self)
        self._averages: dict[Any, bool] = {}
        self._scaler: Any = None

    # Wrapping.

    def wrap_model(self, model: Any) -> Any:
        """Moves a model to the device, and shares its gradients where there are several processes."""
        if self._managed_training:
            model = model.to(self.device)
            if self.distributed.size > 1 and any(parameter.requires_grad for parameter in model.parameters()):
                model = TransparentDataParallel(model, device_ids=[self.device] if self.device.type == "cuda" else None)
        if self.experimental._auto_amp:
            model = self.autocast_forward_pass(model)
        self.models.append(model)
        return model

    def autocast_forward_pass(self, to_wrap: Any) -> Any:
        """Runs the model's forward pass in mixed precision on a GPU; outputs are float32 again. Returns the model."""
        to_wrap.forward = functools.partial(_autocast_forward, to_wrap.forward, self.device.type)
        return to_wrap

    def wrap_optimizer(
        self,
        optimizer: Any,
        backward_passes_per_step: int = 1,
        fp16_compression: bool | None = None,
        average_aggregated_gradients: bool | None = None,
    ) -> Any:
        """Registers an optimizer of wrapped models.

        backward_passes_per_step: calls of backward() before a step; gradients add up. average_aggregated_gradients: whether gradients of
        aggregation_frequency batches are divided by it; default: optimizations.average_aggregated_gradients, else True. fp16_compression: ignored."""
        if backward_passes_per_step < 1:
            raise errors.InvalidExperimentException(f"wrap_optimizer: backward_passes_per_step: expected at least 1, got {backward_passes_per_step}")
        average = self._average_aggregated_gradients_default if average_aggregated_gradients is None else average_aggregated_gradients
        self._averages[optimizer] = average
        self.optimizers.append(optimizer)
        return optimizer

    def wrap_lr_scheduler(self, lr_scheduler: Any, step_mode: LRScheduler.StepMode, frequency: int = 1) -> Any:
        """Registers a scheduler of a wrapped optimizer and returns it as it is. See LRScheduler for the modes."""
        if isinstance(lr_scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) and step_mode is not LRScheduler.StepMode.MANUAL_STEP:
            raise errors.InvalidExperimentException(
                f"wrap_lr_scheduler: ReduceLROnPlateau needs a metric at each step, so {step_mode.name} cannot step it; use MANUAL_STEP, "
                "and call its step(metrics[…]) in a callback's on_validation_end()"
            )
        optimizer = getattr(lr_scheduler, "optimizer", None)
        if optimizer is not None and not any(optimizer is each for each in self.optimizers):
            raise errors.InvalidExperimentException("wrap_lr_scheduler: the scheduler's optimizer is not wrapped; make it with the result of wrap_optimizer()")
        self.lr_schedulers.append(LRScheduler(lr_scheduler, step_mode, frequency))
        return lr_scheduler

    def wrap_scaler(self, scaler: Any) -> Any:
        """Registers a torch.amp.GradScaler, so that checkpoints keep it. The trial scales losses, unscales and updates; see also use_amp()."""
        if self._scaler is not None:
            raise errors.InvalidExperimentException("wrap_scaler: a scaler was wrapped before; call wrap_scaler() or experimental.use_amp() once")
        if self.models:
            raise errors.InvalidExperimentException("wrap_scaler: a model was wrapped before; call wrap_scaler() before wrap_model()")
        self._scaler = scaler
        return scaler

    def configure_apex_amp(self, *args: Any, **kwargs: Any) -> Any:
        raise errors.InvalidExperimentException("configure_apex_amp: Apex is not supported; use context.experimental.use_amp(), PyTorch's own mixed precision")

    # The work of a batch.

    def _should_communicate_and_update(self) -> bool:
        if not self._managed_training or self._aggregation_frequency == 1:
            return True
        return (self.current_train_batch() + 1) % self._aggregation_frequency == 0

    def backward(self, loss: Any, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """loss.backward(); with use_amp() of the scaled loss. Processes exchange gradients in batches that step the optimizers only."""
        if self._scaler is not None and self.experimental._auto_amp:
            loss = self._scaler.scale(loss)
        loss.backward(gradient=gradient, retain_graph=retain_graph, create_graph=create_graph)

    def step_optimizer(
        self, optimizer: Any, clip_grads: Callable[[Any], Any] | None = None, auto_zero_grads: bool = True, scaler: Any = None
    ) -> None:
        """Steps the optimizer; in each aggregation_frequency-th batch only.

        clip_grads: called with the parameters before. auto_zero_grads: clears the gradients after; needed where batches are aggregated.
        scaler: the wrapped one, without use_amp()."""
        if self._aggregation_frequency > 1:
            if not auto_zero_grads:
                raise errors.InvalidExperimentException(
                    f"step_optimizer: auto_zero_grads=False with aggregation_frequency {self._aggregation_frequency}; gradients of a step must be cleared after it"
                )
            if not self._should_communicate_and_update():
                return
            if self._managed_training and self._averages[optimizer]:
                for parameter in _parameters(optimizer):
                    if parameter.grad is not None:
                        parameter.grad.div_(float(self._aggregation_frequency))
        automatic = self.experimental._auto_amp
        if clip_grads is not None:
            if automatic and self._scaler is not None:
                self._scaler.unscale_(optimizer)
            clip_grads(_parameters(optimizer))
        if scaler is None and automatic:
            scaler = self._scaler
        if scaler is not None:
            scaler.step(optimizer)
        else:
            optimizer.step()
        if auto_zero_grads:
            optimizer.zero_grad()


def _parameters(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group.get("params", [])]
