"""Errors of Volador. Each names the thing, the value, the rule and the next step."""

from __future__ import annotations

__all__ = [
    "ActorDiedError",
    "CancelledError",
    "GetTimeoutError",
    "InfeasibleError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "ObjectLostError",
    "PermissionDeniedError",
    "RemoteTraceback",
    "StoreFullError",
    "TaskError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnknownOutcomeError",
    "VoladorError",
]


class VoladorError(Exception):
    """Base of all errors of the runtime. An exception of a task or method is raised with its own type instead."""

    code = "kInternal"


class InvalidArgumentError(VoladorError, ValueError):
    """An argument, option or variable is wrong."""

    code = "kInvalidArgument"


class NotFoundError(VoladorError, ValueError):
    """What was named does not exist."""

    code = "kNotFound"


class InfeasibleError(VoladorError):
    """No node of the cluster could ever have the resources of the request."""

    code = "kInfeasible"


class UnavailableError(VoladorError, ConnectionError):
    """The cluster or the actor is not reachable now, and nothing was done: try again."""

    code = "kUnavailable"


class UnknownOutcomeError(VoladorError):
    """The call was running when its actor died or its connection was lost: it may have had its effect."""

    code = "kUnknownOutcome"


class CancelledError(VoladorError):
    """The call or task was cancelled."""

    code = "kCancelled"


class UnauthenticatedError(VoladorError, PermissionError):
    """The cluster does not know the token, or the token does not know the cluster."""

    code = "kUnauthenticated"


class PermissionDeniedError(VoladorError, PermissionError):
    """The role of the token does not permit the request."""

    code = "kPermissionDenied"


class InternalError(VoladorError, RuntimeError):
    """A defect of Volador."""

    code = "kInternal"


class ActorDiedError(VoladorError):
    """The actor has ended for good; the message has the cause."""

    code = "kActorDied"


class TaskError(VoladorError):
    """Code of an actor or task raised an exception that could not be sent as it was; the message has its text."""

    code = "kApplication"


class GetTimeoutError(VoladorError, TimeoutError):
    """The timeout passed first. What was waited for goes on."""

    code = "kTimeout"


class ObjectLostError(VoladorError):
    """The object was lost with its node, was freed, or had no reference left."""

    code = "kObjectLost"


class StoreFullError(VoladorError, MemoryError):
    """The object store has no room; the message names the largest holders."""

    code = "kStoreFull"


class RemoteTraceback(Exception):
    """Cause of an exception that came from another process: its traceback there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'

    def __reduce__(self) -> tuple[type[RemoteTraceback], tuple[str]]:
        return RemoteTraceback, (self.text,)


# By the numbers of ErrorCode (runtime/result.h).
_BY_CODE: dict[int, type[VoladorError]] = {
    1: InvalidArgumentError,
    2: NotFoundError,
    3: InfeasibleError,
    4: UnavailableError,
    5: UnknownOutcomeError,
    6: CancelledError,
    7: UnauthenticatedError,
    8: PermissionDeniedError,
    9: InternalError,
    10: ActorDiedError,
    11: TaskError,
    12: GetTimeoutError,
    13: ObjectLostError,
    14: StoreFullError,
}


def from_code(code: int, message: str) -> BaseException:
    """Called by the extension."""
    if code == 11:
        from volador import _values

        raised = _values.exception_in(message)
        if raised is not None:
            return raised
    return _BY_CODE.get(code, InternalError)(message)
