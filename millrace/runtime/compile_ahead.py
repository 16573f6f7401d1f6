"""Compiling a stage before the values that it waits for arrive, or are asked for.

A parameter server's update waits for gradients, and those for the worker's own compiler. What the
update is compiled for is known by then: the shapes of its variables, and those that the master has
noted of what is sent (`_ReceiveTensors`). So tasks compile at the same time, not one after the
other. What is not known, or turns out to be otherwise, is compiled when it is run.

A worker compiles its gradient before it asks for the variables: what it would ask for first would
be old when the compiler is done, by all the steps that others have made meanwhile.

Every worker registers an update of its own, and all are the same: who finds that another stage
has compiled the very same program uses that one. It is the same for these shapes only, so that a
program that was compiled ahead is never traced a second time (`OtherShapes`).
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import numpy as np

from millrace.compiler import budget, private
from millrace.compiler.xla import jax
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.passes.node import Edge, Node
from millrace.passes.transfer import RECEIVE

#: The shape and type of an array (`jax.ShapeDtypeStruct`), which JAX does not type.
Form: TypeAlias = Any
#: A function that `jax.jit` has made; JAX has no public class for it.
Jitted: TypeAlias = Any


def received(edge: Edge) -> Form | None:
    """The shape and type of a value from another task; None if they are not known."""
    if edge.node.definition is not RECEIVE:
        return None
    shapes = edge.node.attrs["shapes"]
    return _form(shapes[edge.index], edge.dtype) if edge.index < len(shapes) else None


def given(value: object) -> Form | None:
    """The shape and type of a value that is there; None if it is no array of numbers."""
    if type(value) is not np.ndarray or value.dtype.hasobject:
        return None
    return jax.ShapeDtypeStruct(value.shape, value.dtype)  # type: ignore[no-untyped-call]


def held(variable: Node) -> Form | None:
    """The shape and type of a variable; None if they are not known."""
    shape, dtype = variable.attrs.get("shape"), variable.attrs.get("dtype")
    return None if shape is None or dtype is None else _form(shape, dtype)


def _form(shape: TensorShape, dtype: DType) -> Form | None:
    name = dtype.base_dtype.name
    if not shape.is_fully_defined() or name in ("string", "resource", "variant"):
        return None
    kind = np.dtype(dtype.base_dtype.as_numpy_dtype)
    return jax.ShapeDtypeStruct(tuple(shape.as_list()), kind)  # type: ignore[no-untyped-call]


class OtherShapes(Exception):
    """Ends the tracing of a program that is called with other shapes than it was compiled for."""


class Programs:
    """Programs that were compiled ahead, by what they do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: weakref.WeakValueDictionary[Hashable, Jitted] = weakref.WeakValueDictionary()
        #: Those that some thread compiles now; set when it is done.
        self._in_work: dict[Hashable, threading.Event] = {}

    def compile(
        self,
        program: Jitted,
        forms: tuple[Form, ...],
        notes: Callable[[Form], Hashable | None],
    ) -> Jitted:
        """A compiled program that does what `program` does for arguments of these forms.

        Args:
          program: A jitted function.
          forms: The shapes and types of its arguments.
          notes: What else, told by its result, must be the same for one to stand for another;
            None if none can.

        Returns:
          `program`, or another that was compiled before.
        """
        lowered = program.lower(*forms)
        said, used = notes(lowered.out_info), private.arguments_used(lowered)
        if said is None or used is None:
            budget.compile(lowered, program.__name__)
            return program
        text = hashlib.sha256(lowered.as_text().encode()).digest()
        key = (text, used, str(lowered.in_tree), said)
        while True:
            with self._lock:
                other = self._found.get(key)
                if other is not None:
                    return other
                awaited = self._in_work.get(key)
                if awaited is None:
                    done = self._in_work[key] = threading.Event()
                    break
            awaited.wait()
        try:
            budget.compile(lowered, program.__name__)
            with self._lock:
                self._found[key] = program
            return program
        finally:
            with self._lock:
                del self._in_work[key]
            done.set()


#: Of this process: a ps has a partition for each worker.
PROGRAMS = Programs()
