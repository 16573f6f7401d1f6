"""Tensors that stay in a session between steps: `tf.get_session_handle` and its relatives.

A handle is a string that names the value in the session's store: ``node;number;device``.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_graph, name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import none, scalars, unknown
from millrace.graph.tensor import Tensor
from millrace.ops.array import constant

__all__ = ["delete_session_tensor", "get_session_handle", "get_session_tensor"]

_numbers = itertools.count()


def _text(handle: Any) -> str:
    value = handle.item() if isinstance(handle, np.ndarray) else handle
    return value.decode() if isinstance(value, bytes) else str(value)


@op(
    "GetSessionHandle(value: T) -> handle: string",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def GetSessionHandle(value: Any, *, ctx: Any, node: Any) -> Any:
    """Keeps a value in the session and gives its handle."""
    handle = f"{node.name};{next(_numbers)};{node.device}"
    ctx.session.tensors[handle] = np.array(value)
    return handle.encode()


@op(
    "GetSessionTensor(handle: string) -> value: dtype where dtype: type",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def GetSessionTensor(handle: Any, *, dtype: Any, ctx: Any) -> Any:
    """The value behind a handle."""
    name = _text(handle)
    value = ctx.session.tensors.get(name)
    if value is None:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The tensor with handle '{name}' is not in the session store: it was deleted, or "
            "belongs to another session.",
        )
    if dtypes.as_dtype(value.dtype) != dtype:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The tensor with handle '{name}' has type {dtypes.as_dtype(value.dtype).name}, "
            f"but {dtype.name} was asked for.",
        )
    return value


@op(
    "DeleteSessionTensor(handle: string)",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def DeleteSessionTensor(handle: Any, *, ctx: Any) -> None:
    """Forgets the value behind a handle."""
    name = _text(handle)
    if ctx.session.tensors.pop(name, None) is None:
        raise errors.NotFoundError(
            None, None, f"Failed to delete the session tensor with handle '{name}'."
        )


def get_session_handle(data: Any, name: str | None = None) -> Tensor:
    """Keeps the value of a tensor in the session.

    Args:
      data: The tensor.
      name: Name of the operation.

    Returns:
      A tensor; fetching it gives a TensorHandle, which later steps can be fed with.

    Raises:
      TypeError: `data` is not a tensor.
    """
    if not isinstance(data, Tensor):
        raise TypeError("`data` must be of type Tensor.")
    return GetSessionHandle(convert_to_tensor(data), name=name)


def _holder(handle: Any) -> Any:
    """The scope for operations about a handle: on the device that it says."""
    device = _text(getattr(handle, "handle", handle)).rpartition(";")[2]
    return get_default_graph().device(device or None)


def get_session_tensor(handle: Any, dtype: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """A tensor that reads what a session keeps.

    Args:
      handle: The handle (``TensorHandle.handle``).
      dtype: The type of the value.
      name: Name of the operation.

    Returns:
      A placeholder to be fed with the handle, and the tensor.
    """
    with name_scope(name, "GetSessionTensor", []), _holder(handle):
        holder = constant.placeholder(dtypes.string)
        return holder, GetSessionTensor(holder, dtype=dtypes.as_dtype(dtype))


def delete_session_tensor(handle: Any, name: str | None = None) -> tuple[Tensor, Operation]:
    """An operation that makes the session forget a value.

    Args:
      handle: The handle (``TensorHandle.handle``).
      name: Name of the operation.

    Returns:
      A placeholder to be fed with the handle, and the operation.
    """
    with name_scope(name, "DeleteSessionTensor", []), _holder(handle):
        holder = constant.placeholder(dtypes.string)
        return holder, DeleteSessionTensor.operation(holder)
