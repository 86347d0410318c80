"""Ray's names of errors. An exception of a task keeps its own type, which `except ray.exceptions.RayTaskError` does not catch."""

from volador.exceptions import (
    ActorDiedError,
    CancelledError,
    GetTimeoutError,
    InfeasibleError,
    ObjectLostError,
    StoreFullError,
    TaskError,
    UnavailableError,
    UnknownOutcomeError,
    VoladorError,
)

RayError = VoladorError
RayTaskError = TaskError
RayActorError: tuple[type[VoladorError], ...] = (ActorDiedError, UnavailableError, UnknownOutcomeError)
ActorUnavailableError = UnavailableError
ActorUnschedulableError = InfeasibleError
TaskUnschedulableError = InfeasibleError
TaskCancelledError = CancelledError
WorkerCrashedError = UnknownOutcomeError
ObjectStoreFullError = StoreFullError
OutOfMemoryError = ActorDiedError

__all__ = [
    "ActorDiedError",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "GetTimeoutError",
    "ObjectLostError",
    "ObjectStoreFullError",
    "OutOfMemoryError",
    "RayActorError",
    "RayError",
    "RayTaskError",
    "TaskCancelledError",
    "TaskUnschedulableError",
    "WorkerCrashedError",
]
