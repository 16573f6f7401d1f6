"""The exceptions that a step can raise, with TensorFlow's names and status codes.

    Exception
    └── OpError                       .message .error_code .op .node_def
        ├── CancelledError            1   the step, queue or session was cancelled or closed
        ├── UnknownError              2   an error without a better class
        ├── InvalidArgumentError      3   an op got a value or shape it cannot take
        ├── DeadlineExceededError     4   timeout_in_ms ran out
        ├── NotFoundError             5   no such file, device, container, resource
        ├── AlreadyExistsError        6   ... and the opposite
        ├── PermissionDeniedError     7   the caller may not do that
        ├── ResourceExhaustedError    8   memory, disk, quota
        ├── FailedPreconditionError   9   e.g. a variable that is not initialised
        ├── AbortedError             10   a peer restarted or gave up            (recoverable)
        ├── OutOfRangeError          11   end of input
        ├── UnimplementedError       12   no kernel for this op here
        ├── InternalError            13   an invariant of the runtime was broken
        ├── UnavailableError         14   a peer cannot be reached now           (recoverable)
        ├── DataLossError            15   a file or message is corrupt
        └── UnauthenticatedError     16   the caller did not say who it is
    TypeError
    └── OperatorNotAllowedInGraphError    e.g. `if tensor:` while a graph is built
    ValueError
    └── InaccessibleTensorError           a tensor used outside the graph it belongs to

Invariants: codes are gRPC's and TensorFlow's; every error can be pickled and rebuilt from
(code, message), which is all that crosses the wire; `RECOVERABLE` is the only place that says
after which errors a session rebuilds itself.
"""

from __future__ import annotations

import traceback
from typing import Any

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class InaccessibleTensorError(ValueError):
    """A tensor was used outside the graph that it belongs to."""


class OperatorNotAllowedInGraphError(TypeError):
    """A Python operator was used on a tensor that has no value while the graph is built."""


class OpError(Exception):
    """The base class of all errors of a step.

    Attributes:
        experimental_payloads: Extra details by name, if the raiser gave any.
    """

    experimental_payloads: dict[Any, Any]

    def __init__(
        self, node_def: Any, op: Any, message: str, error_code: int, *args: dict[Any, Any] | None
    ) -> None:
        """Makes an error.

        Args:
            node_def: The NodeDef of the op that failed, or None.
            op: The Operation that failed, or None (ops that the runtime adds have none).
            message: What went wrong.
            error_code: One of the codes of this module.
            *args: At most one: a dict for `experimental_payloads`.
        """
        super().__init__()
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code
        self.experimental_payloads = (args[0] if args else None) or {}

    @property
    def message(self) -> str:
        """What went wrong, without the place where the op was built."""
        return self._message

    @property
    def op(self) -> Any:
        """The Operation that failed, or None."""
        return self._op

    @property
    def error_code(self) -> int:
        """The status code."""
        return self._error_code

    @property
    def node_def(self) -> Any:
        """The NodeDef of the op that failed, or None."""
        if self._node_def is None and self._op is not None:
            return self._op.node_def
        return self._node_def

    def __str__(self) -> str:
        if self._op is None:
            return self._message
        lines = _creation_lines(self._op)
        parts = [f"{self._message}\n\nOriginal stack trace for {self._op.name!r}:\n", *lines]
        # A gradient op was made for a forward op; say where that one was written.
        original = getattr(self._op, "_original_op", None)
        while original is not None:
            parts.append(
                f"\n...which was originally created as op {original.name!r}, defined at:\n"
            )
            previous, lines = lines, _creation_lines(original)
            parts.extend(_without_common_start(lines, previous))
            original = getattr(original, "_original_op", None)
        return "".join(parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the op: it leads to the whole graph, and means nothing in another process.
        payloads = (self.experimental_payloads,) if self.experimental_payloads else ()
        if type(self) is OpError:
            return OpError, (self._node_def, None, self._message, self._error_code, *payloads)
        return type(self), (self._node_def, None, self._message, *payloads)


def _creation_lines(op: Any) -> list[str]:
    return traceback.format_list(getattr(op, "traceback", None) or [])


def _without_common_start(lines: list[str], previous: list[str]) -> list[str]:
    """Replaces frames shared with the previous traceback by one line that counts them."""
    common = 0
    while common < min(len(lines), len(previous)) and lines[common] == previous[common]:
        common += 1
    if common < 3:
        return lines
    elided = f"[elided {common - 2} identical lines from previous traceback]\n"
    return [lines[0], elided, *lines[common - 1 :]]


class CancelledError(OpError):
    """The step was cancelled: its session or queue closed, or another part of it failed."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, CANCELLED, *args)


class UnknownError(OpError):
    """An error that no other class describes."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, UNKNOWN, *args)


class InvalidArgumentError(OpError):
    """An op received a value, shape or type that it cannot take."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, INVALID_ARGUMENT, *args)


class DeadlineExceededError(OpError):
    """The step did not finish in the time it was given."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, DEADLINE_EXCEEDED, *args)


class NotFoundError(OpError):
    """Something that was named (a file, a device, a resource) does not exist."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, NOT_FOUND, *args)


class AlreadyExistsError(OpError):
    """Something that was to be made exists already."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, ALREADY_EXISTS, *args)


class PermissionDeniedError(OpError):
    """The caller is known and may not do what it asked for."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, PERMISSION_DENIED, *args)


class ResourceExhaustedError(OpError):
    """Memory, disk space or a quota ran out."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, RESOURCE_EXHAUSTED, *args)


class FailedPreconditionError(OpError):
    """The system is not in the state that the op needs, e.g. a variable is not initialised."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, FAILED_PRECONDITION, *args)


class AbortedError(OpError):
    """The step was given up, e.g. because a task restarted; another try may succeed."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, ABORTED, *args)


class OutOfRangeError(OpError):
    """The input ended: a reader at the end of its file, a closed and empty queue."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, OUT_OF_RANGE, *args)


class UnimplementedError(OpError):
    """There is no implementation of the op for these arguments here."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, UNIMPLEMENTED, *args)


class InternalError(OpError):
    """Something that the runtime relies on did not hold."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, INTERNAL, *args)


class UnavailableError(OpError):
    """A task cannot be reached now; another try may succeed."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, UNAVAILABLE, *args)


class DataLossError(OpError):
    """A file or a message is truncated or corrupt."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, DATA_LOSS, *args)


class UnauthenticatedError(OpError):
    """The caller gave no valid credentials."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, UNAUTHENTICATED, *args)


# Errors after which a monitored session builds itself again and goes on.
RECOVERABLE: tuple[type[OpError], ...] = (AbortedError, UnavailableError)

_CLASS_BY_CODE: dict[int, Any] = {
    CANCELLED: CancelledError,
    UNKNOWN: UnknownError,
    INVALID_ARGUMENT: InvalidArgumentError,
    DEADLINE_EXCEEDED: DeadlineExceededError,
    NOT_FOUND: NotFoundError,
    ALREADY_EXISTS: AlreadyExistsError,
    PERMISSION_DENIED: PermissionDeniedError,
    RESOURCE_EXHAUSTED: ResourceExhaustedError,
    FAILED_PRECONDITION: FailedPreconditionError,
    ABORTED: AbortedError,
    OUT_OF_RANGE: OutOfRangeError,
    UNIMPLEMENTED: UnimplementedError,
    INTERNAL: InternalError,
    UNAVAILABLE: UnavailableError,
    DATA_LOSS: DataLossError,
    UNAUTHENTICATED: UnauthenticatedError,
}
_CODE_BY_CLASS: dict[Any, int] = {cls: code for code, cls in _CLASS_BY_CODE.items()}


def exception_type_from_error_code(error_code: int) -> Any:
    """Returns the class of a code; raises KeyError for OK and for numbers that are no code."""
    return _CLASS_BY_CODE[error_code]


def error_code_from_exception_type(cls: Any) -> int:
    """Returns the code of a class or of the nearest of its bases; UNKNOWN if there is none."""
    for base in cls.__mro__:
        code = _CODE_BY_CLASS.get(base)
        if code is not None:
            return code
    return UNKNOWN


def error_from_code(error_code: int, message: str, node_def: Any = None, op: Any = None) -> OpError:
    """Makes the error for a status that arrived from elsewhere.

    A code that this version does not know becomes an UnknownError which says so.
    """
    cls = _CLASS_BY_CODE.get(error_code)
    if cls is None:
        return UnknownError(node_def, op, f"{message} (status code {error_code})")
    error: OpError = cls(node_def, op, message)
    return error
