"""Why a partition of a step failed, as the error that its master is told."""

from __future__ import annotations

from millrace.core import errors
from millrace.runtime.step import Step


def cause_of(error: BaseException, step: Step) -> errors.OpError:
    """Why a partition of a step failed: an op that was cancelled says only that it was."""
    found, cause = as_op_error(error), step.cancellation.error
    if isinstance(found, errors.CancelledError) and cause is not None:
        return cause if not isinstance(cause, errors.CancelledError) else found
    return found


def as_op_error(error: BaseException) -> errors.OpError:
    """An error as one of TensorFlow's."""
    if isinstance(error, errors.OpError):
        return error
    if isinstance(error, MemoryError):
        return errors.ResourceExhaustedError(None, None, f"OOM: {error or 'no memory is left'}")
    return errors.InternalError(None, None, f"{type(error).__name__}: {error}")
