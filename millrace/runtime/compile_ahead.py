"""Compiling a stage before the values that it waits for arrive.

A parameter server's update waits for gradients, and those for the worker's own compiler. What the
update is compiled for is known by then: the shapes of its variables, and those that the master has
noted of what is sent (`_ReceiveTensors`). So tasks compile at the same time, not in turns. What is
not known, or turns out to be otherwise, is compiled when it is run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core.tensor_shape import TensorShape
from millrace.ops.xla import jax
from millrace.passes.node import Edge, Node
from millrace.passes.transfer import RECEIVE


def received(edge: Edge) -> Any:
    """The shape and type of a value from another task; None if they are not known."""
    if edge.node.definition is not RECEIVE:
        return None
    shapes = edge.node.attrs["shapes"]
    return _form(shapes[edge.index], edge.dtype) if edge.index < len(shapes) else None


def held(variable: Node) -> Any:
    """The shape and type of a variable; None if they are not known."""
    shape, dtype = variable.attrs.get("shape"), variable.attrs.get("dtype")
    return None if shape is None or dtype is None else _form(shape, dtype)


def _form(shape: TensorShape, dtype: Any) -> Any:
    name = dtype.base_dtype.name
    if not shape.is_fully_defined() or name in ("string", "resource", "variant"):
        return None
    kind = np.dtype(dtype.base_dtype.as_numpy_dtype)
    return jax.ShapeDtypeStruct(tuple(shape.as_list()), kind)  # type: ignore[no-untyped-call]
