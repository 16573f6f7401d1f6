"""Barrier: assembles elements whose components are computed apart. See `protocol.barrier`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.constant_value import constant_value
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none, scalars, unknown
from millrace.graph.tensor import Tensor
from millrace.ops.data_flow import shared_state
from millrace.ops.data_flow.queues import as_shape_list, as_type_list
from millrace.ops.data_flow.shared_state import Guarded, shape_text, type_text
from millrace.protocol import barrier as protocol
from millrace.protocol.queue import Dequeue

__all__: list[str] = []


class _SharedBarrier(Guarded[protocol.BarrierState]):
    """A barrier of a task."""

    def __init__(
        self, state: protocol.BarrierState, types: list[DType], shapes: list[TensorShape]
    ) -> None:
        super().__init__(state)
        self.types = types
        self.shapes = shapes

    def insert_many(self, component: int, keys: Any, values: Any, node: Any) -> None:
        """One component of several elements."""
        if not 0 <= component < len(self.types):
            raise ValueError(
                f"The component ID is out of range {component} > num_components (= "
                f"{len(self.types)})"
            )
        wanted = self.types[component]
        found = node.inputs[2].dtype.base_dtype
        if found != wanted:
            raise ValueError(
                f"Signature mismatch, have: string_ref, string, {type_text(found)}-> expected: "
                f"string_ref, string, {type_text(wanted)}->"
            )
        if keys.ndim != 1 or values.ndim == 0 or len(values) != len(keys):
            raise ValueError(
                f"Expected a row of values for each key, got keys of shape "
                f"{shape_text(keys.shape)} and values of shape {shape_text(values.shape)}"
            )
        shape = self.shapes[component] if self.shapes else unknown_shape()
        if not shape.is_compatible_with(TensorShape(values.shape[1:])):
            raise ValueError(
                f"Shape mismatch in tuple component {component}. Expected "
                f"{shape_text(shape.as_list())}, got {shape_text(values.shape[1:])}"
            )
        rows = [np.array(row, values.dtype) for row in values]
        self.tell(lambda state: state.insert_many(component, keys.tolist(), rows))

    def take_many(self, ctx: Any, count: int, allow_small_batch: bool) -> Any:
        """(indices, keys, components), or a Future of that."""
        if count < 0:
            raise ValueError(f"BarrierTakeMany requested {count} < 0 elements")
        if not count:
            return self._stacked([])
        return self.submit(
            Dequeue(count, allow_small_batch),
            ctx,
            f"{count} complete elements in Barrier '{self.state.name}'",
            self._stacked,
        )

    def _stacked(self, elements: list[Any]) -> Any:
        indices = np.array([element[0] for element in elements], np.int64)
        keys = np.empty(len(elements), object)
        keys[:] = [element[1] for element in elements]
        columns: list[Any] = []
        for i, dtype in enumerate(self.types):
            kind = object if dtype == dtypes.string else dtype.as_numpy_dtype
            if elements:
                columns.append(np.stack([element[2 + i] for element in elements]))
                continue
            known = self.shapes[i].sizes if self.shapes else None
            columns.append(np.empty((0, *(size or 0 for size in known or ())), kind))
        return indices, keys, columns


def _pair(c: ShapeContext) -> TensorShape:
    return TensorShape([2])


@op(
    "Barrier() -> handle: ref(string) where component_types: list(type) >= 1; "
    'shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = ""; '
    'shared_name: string = ""',
    shape=_pair,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def BarrierOp(*, component_types: Any, shapes: Any, ctx: Any, node: Any) -> Any:
    """Makes a barrier."""

    def make_handle() -> Any:
        handle = shared_state.name_of(ctx, node)

        def create() -> _SharedBarrier:
            state = protocol.BarrierState(handle.name, len(component_types))
            return _SharedBarrier(state, component_types, shapes)

        shared_state.make(_SharedBarrier, ctx, handle, create)
        return shared_state.give_out(handle, node)

    return shared_state.once(ctx, node, make_handle)


@op(
    "BarrierInsertMany(handle: ref(string), keys: string, values: T) where T: type; "
    "component_index: int",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
)
def BarrierInsertMany(
    handle: Any, keys: Any, values: Any, *, component_index: int, ctx: Any, node: Any
) -> None:
    """Adds one component of several elements."""
    barrier = shared_state.find(_SharedBarrier, ctx, handle)
    barrier.insert_many(component_index, keys, values, node)


@op(
    "BarrierTakeMany(handle: ref(string), num_elements: int32) -> (indices: int64, "
    "keys: string, values: [component_types]) where component_types: list(type) >= 1; "
    "allow_small_batch: bool = false; wait_for_incomplete: bool = false; timeout_ms: int = -1",
    shape=unknown,
    gradient=NO_GRADIENT,
    blocking=True,
)
def BarrierTakeMany(
    handle: Any, num_elements: Any, *, allow_small_batch: bool, timeout_ms: int, ctx: Any
) -> Any:
    """Takes complete elements."""
    if timeout_ms != -1:
        raise ValueError("Timeout not supported yet.")
    barrier = shared_state.find(_SharedBarrier, ctx, handle)
    return barrier.take_many(ctx, int(num_elements), allow_small_batch)


@op(
    "BarrierClose(handle: ref(string)) where cancel_pending_enqueues: bool = false",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
)
def BarrierClose(handle: Any, *, cancel_pending_enqueues: bool, ctx: Any) -> None:
    """Closes a barrier."""
    barrier = shared_state.find(_SharedBarrier, ctx, handle)
    barrier.tell(lambda state: state.close(cancel_pending_enqueues))


@op(
    "BarrierReadySize(handle: ref(string)) -> size: int32",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def BarrierReadySize(handle: Any, *, ctx: Any) -> Any:
    """How many elements are complete."""
    return shared_state.find(_SharedBarrier, ctx, handle).ask(lambda state: state.ready_size)


@op(
    "BarrierIncompleteSize(handle: ref(string)) -> size: int32",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def BarrierIncompleteSize(handle: Any, *, ctx: Any) -> Any:
    """How many elements lack components."""
    return shared_state.find(_SharedBarrier, ctx, handle).ask(lambda state: state.incomplete_size)


#: What `Barrier.take_many` returns.
TakenElements: Any = namedtuple(  # type: ignore[name-match]
    "BarrierTakeMany", ["indices", "keys", "values"]
)


class Barrier:
    """Elements of several components that arrive apart, under a key."""

    def __init__(
        self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier"
    ) -> None:
        """Makes a barrier.

        Args:
          types: The types of an element's components.
          shapes: Their shapes, fully defined and not empty, or None.
          shared_name: Sessions share the barrier under this name.
          name: A name for the operation.
        """
        self._types = as_type_list(types)
        stated = as_shape_list(shapes)
        for i, shape in enumerate(stated or ()):
            if shape.num_elements() == 0:
                raise ValueError(
                    f"Empty tensors are not supported, but received shape '{shape}' at index {i}"
                )
        self._shapes = stated if stated is not None else [unknown_shape() for _ in self._types]
        self._barrier_ref = BarrierOp(
            component_types=self._types, shapes=self._shapes, shared_name=shared_name, name=name
        )
        self._name = self._barrier_ref.op.name.split("/")[-1]

    @property
    def barrier_ref(self) -> Tensor:
        """The handle."""
        return self._barrier_ref

    @property
    def name(self) -> str:
        """The name of the operation that makes the barrier."""
        return self._barrier_ref.op.name

    def insert_many(
        self, component_index: int, keys: Any, values: Any, name: str | None = None
    ) -> Operation:
        """An operation that gives one component of the elements with the given keys."""
        return BarrierInsertMany(
            self._barrier_ref,
            keys,
            values,
            component_index=component_index,
            name=name or f"{self._name}_BarrierInsertMany",
        )

    def take_many(
        self,
        num_elements: Any,
        allow_small_batch: bool = False,
        timeout: int | None = None,
        name: str | None = None,
    ) -> Any:
        """(indices, keys, values) of complete elements, as soon as there are `num_elements`.

        Args:
          num_elements: How many.
          allow_small_batch: Whether the rest of a closed barrier will do.
          timeout: Not supported, as in TensorFlow.
          name: A name for the operation.
        """
        taken = BarrierTakeMany(
            self._barrier_ref,
            num_elements,
            component_types=self._types,
            allow_small_batch=allow_small_batch,
            timeout_ms=timeout,
            name=name or f"{self._name}_BarrierTakeMany",
        )
        indices, keys, values = taken
        known = None if allow_small_batch else constant_value(indices.op.inputs[1])
        batch = TensorShape([None if known is None else int(known)])
        indices.set_shape(batch)
        keys.set_shape(batch)
        for tensor, shape in zip(values, self._shapes, strict=True):
            tensor.set_shape(batch.concatenate(shape))
        return TakenElements(indices, keys, values)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An operation that closes the barrier to new keys.

        Args:
          cancel_pending_enqueues: Whether incomplete elements are dropped, rather than still
            being completed.
          name: A name for the operation.
        """
        return BarrierClose(
            self._barrier_ref,
            cancel_pending_enqueues=cancel_pending_enqueues,
            name=name or f"{self._name}_BarrierClose",
        )

    def ready_size(self, name: str | None = None) -> Tensor:
        """How many elements are complete."""
        return BarrierReadySize(self._barrier_ref, name=name or f"{self._name}_BarrierReadySize")

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """How many elements lack components."""
        return BarrierIncompleteSize(
            self._barrier_ref, name=name or f"{self._name}_BarrierIncompleteSize"
        )
