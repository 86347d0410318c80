"""What Determined raises. InvalidExperimentException derives from BaseException, so `except Exception` does not catch it."""

from __future__ import annotations

from typing import Any


class InvalidHP(Exception):
    """A trial raises it where its hyperparameters cannot be trained; the trial ends without a failure."""

    def __init__(self, msg: str = "...", *args: Any) -> None:
        super().__init__(msg, *args)


class EnterpriseOnlyError(Exception):
    """Not raised here."""


class InternalException(Exception):
    """A method was called in a state that does not allow it, such as step_optimizer() before the training has begun."""


class InvalidExperimentException(BaseException):
    """The trial or its configuration breaks a rule; the message names it."""


class InvalidDataTypeException(InvalidExperimentException):
    def __init__(self, typ: type, message: str) -> None:
        super().__init__(f"Invalid data type ({typ.__name__}): {message}.")


class InvalidConfigurationException(InvalidExperimentException):
    def __init__(self, config: dict[str, Any], message: str) -> None:
        super().__init__(f"Invalid configuration ({config}): {message}.")


class InvalidModelException(InvalidExperimentException):
    pass


class InvalidCheckpointException(Exception):
    def __init__(self, message: str = "Invalid checkpoint.") -> None:
        super().__init__(message)


class CheckpointNotFound(Exception):
    """There is no checkpoint of that id in the storage."""


class CheckpointStateException(Exception):
    pass


class WorkerError(Exception):
    pass


class WorkerFinishedGracefully(Exception):
    pass


class SkipWorkloadException(Exception):
    pass


class StopLoadingImplementation(Exception):
    pass


class NoDirectStorageAccess(Exception):
    pass


class ProxiedDownloadFailed(Exception):
    pass


class MultipleDownloadsFailed(Exception):
    pass
