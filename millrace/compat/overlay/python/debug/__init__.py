"""What programs take from TensorFlow's python.debug that has no public name."""

from typing import Any, NoReturn

import numpy as np


class _Unavailable:
    """A part of TensorFlow's debugger that Millrace does not have, and says so when it is used."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        _refuse(type(self).__name__)


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"tfdbg's {name} is not in Millrace: a step is compiled as a whole, and its inner tensors "
        "exist only if they are fetched. Fetch them with the step, or use tf.print, "
        "tf.debugging.check_numerics or tf.add_check_numerics_ops()"
    )


class LocalCLIDebugWrapperSession(_Unavailable):
    """Runs steps under the debugger in the terminal."""


class LocalCLIDebugHook(_Unavailable):
    """The same, for a MonitoredSession."""


class TensorBoardDebugWrapperSession(_Unavailable):
    """Runs steps under TensorBoard's debugger."""


class TensorBoardDebugHook(_Unavailable):
    """The same, for a MonitoredSession."""


class GrpcDebugWrapperSession(_Unavailable):
    """Sends tensors of a step to a debugger elsewhere."""


class GrpcDebugHook(_Unavailable):
    """The same, for a MonitoredSession."""


class DumpingDebugWrapperSession(_Unavailable):
    """Writes tensors of a step to files."""


class DumpingDebugHook(_Unavailable):
    """The same, for a MonitoredSession."""


class DebugDumpDir(_Unavailable):
    """Reads these files."""


def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Whether an array holds a number that is not finite."""
    array = np.asarray(tensor)
    return bool(array.dtype.kind in "fc" and not np.all(np.isfinite(array)))


def watch_graph(*args: Any, **keywords: Any) -> None:
    """Refuses.

    Raises:
      NotImplementedError: Always.
    """
    _refuse("watch_graph")
