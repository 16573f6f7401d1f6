"""`tf.FIFOQueue` and its kin: the Python side of queues.

A queue object is a handle tensor with the types, shapes and names of an element's components;
its methods add operations to the graph. Element by element semantics are in `protocol.queue`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes as dtypes_module
from millrace.core.dtypes import DType, as_dtype
from millrace.core.tensor_shape import Dimension, TensorShape, as_shape, unknown_shape
from millrace.graph import random_seed
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import device, init_scope, name_scope
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import gather as array_gather
from millrace.ops.array import join as array_join
from millrace.ops.data_flow import queue_kernels

__all__ = [
    "FIFOQueue",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
]


def as_type_list(types: Any) -> list[DType]:
    """One type, or a list of them, as a list."""
    return [as_dtype(t) for t in (types if isinstance(types, list | tuple) else [types])]


def as_shape_list(shapes: Any, unknown_sizes_allowed: bool = False) -> list[TensorShape] | None:
    """One shape, or a list of them, as a list; None for None.

    Raises:
      ValueError: A shape is not known as far as it must be.
      TypeError: It is something else.
    """
    if unknown_sizes_allowed and (
        not isinstance(shapes, Sequence)
        or not shapes
        or any(shape is None or isinstance(shape, int) for shape in shapes)
    ):
        raise ValueError("When providing partial shapes, a list of shapes must be provided.")
    if shapes is None:
        return None
    if isinstance(shapes, TensorShape):
        shapes = [shapes]
    if not isinstance(shapes, list | tuple):
        raise TypeError(
            "Shapes must be a TensorShape or a list or tuple of TensorShapes, got "
            f"{type(shapes)} instead."
        )
    if all(shape is None or isinstance(shape, int) for shape in shapes):
        # A single shape, written as its sizes.
        shapes = [shapes]
    found = [as_shape(shape) for shape in shapes]
    if not unknown_sizes_allowed and not all(shape.is_fully_defined() for shape in found):
        raise ValueError(f"All shapes must be fully defined: {found}")
    if any(shape.ndims is None for shape in found):
        raise ValueError(f"All shapes must have a defined rank: {found}")
    return found


def as_name_list(names: Any, types: Sequence[DType]) -> list[str] | None:
    """One name, or a list of them, as a list; None for None."""
    if names is None:
        return None
    found = list(names) if isinstance(names, list | tuple) else [names]
    if len(found) != len(types):
        raise ValueError(
            "List of names must have the same length as the list of dtypes, received "
            f"len(names)={len(found)},len(dtypes)={len(types)}"
        )
    return found


def values_in(values: Any) -> list[Any]:
    """The components of what is enqueued: of a dict, a list, or a single value."""
    if isinstance(values, dict):
        return list(values.values())
    return list(values) if isinstance(values, list | tuple) else [values]


def _common(x: TensorShape, y: TensorShape) -> TensorShape:
    """What two shapes have in common."""
    if x.ndims is None or y.ndims is None or x.ndims != y.ndims:
        return unknown_shape()
    pairs = zip(x.as_list(), y.as_list(), strict=True)
    return TensorShape([a if a == b else None for a, b in pairs])


class QueueBase:
    """A queue; its kinds are FIFOQueue, RandomShuffleQueue, PaddingFIFOQueue and PriorityQueue.

    Elements are tuples of tensors of fixed types and, if stated, fixed shapes.
    """

    def __init__(
        self,
        dtypes: list[DType],
        shapes: Sequence[Any] | None,
        names: list[str] | None,
        queue_ref: Tensor,
    ) -> None:
        """Makes a queue object for an existing handle.

        Args:
          dtypes: The types of an element's components.
          shapes: Their shapes, or None.
          names: Their names, or None. With names, elements are dicts.
          queue_ref: The handle.
        """
        self._dtypes = dtypes
        if shapes is not None and len(shapes) != len(dtypes):
            raise ValueError(
                f"Queue shapes must have the same length as dtypes, received "
                f"len(shapes)={len(shapes)}, len(dtypes)={len(dtypes)}"
            )
        if names is not None and len(names) != len(dtypes):
            raise ValueError(
                f"Queue names must have the same length as dtypes,received len(names)="
                f"{len(names)},len {len(dtypes)}"
            )
        self._shapes = (
            [TensorShape(s) for s in shapes]
            if shapes is not None
            else [unknown_shape() for _ in dtypes]
        )
        self._names = names
        self._queue_ref = queue_ref
        #: What the names of the queue's operations begin with.
        self._name = queue_ref.op.name.split("/")[-1]

    @staticmethod
    def from_list(index: Any, queues: list[QueueBase]) -> QueueBase:
        """The queue among `queues` that `index` selects when it is used.

        Raises:
          TypeError: Not a list of queues, or their types or names differ.
        """
        if (
            not queues
            or not isinstance(queues, list)
            or not all(isinstance(queue, QueueBase) for queue in queues)
        ):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if any(queue.dtypes != first.dtypes for queue in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(queue.names != first.names for queue in queues):
            raise TypeError("Queues do not have matching component names.")
        shapes = [
            functools.reduce(_common, each)
            for each in zip(*(queue.shapes for queue in queues), strict=True)
        ]
        selected = array_gather.gather(
            array_join.stack([queue.queue_ref for queue in queues]), index
        )
        return QueueBase(first.dtypes, shapes, first.names, selected)

    @property
    def queue_ref(self) -> Tensor:
        """The handle."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """The name of the operation that makes the queue."""
        return self._queue_ref.op.name

    @property
    def dtypes(self) -> list[DType]:
        """The types of an element's components."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """The shapes of an element's components."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """The names of an element's components, or None."""
        return self._names

    @property
    def _is_resource(self) -> bool:
        return self._queue_ref.dtype == dtypes_module.resource

    def _components(self, values: Any) -> list[Tensor]:
        if isinstance(values, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(values, key=str):
                raise ValueError(
                    "Keys in dictionary to enqueue do not match names of Queue.  Dictionary: "
                    f"{sorted(values)},Queue: {sorted(self._names)}"
                )
            values = [values[name] for name in self._names]
        elif self._names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        elif not isinstance(values, list | tuple):
            values = [values]
        return [
            convert_to_tensor(value, dtype=dtype, name=f"component_{i}")
            for i, (value, dtype) in enumerate(zip(values, self._dtypes, strict=False))
        ]

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that adds one element, as soon as there is room.

        It fails with CancelledError if the queue is closed, or is closed with
        `cancel_pending_enqueues` while it waits.

        Args:
          vals: A tensor, a list of them, or a dict if the queue has names.
          name: A name for the operation.
        """
        with name_scope(name, f"{self._name}_enqueue", values_in(vals)) as scope:
            tensors = self._components(vals)
            for tensor, shape in zip(tensors, self._shapes, strict=False):
                tensor.shape.assert_is_compatible_with(shape)
            build = (
                queue_kernels.QueueEnqueueV2 if self._is_resource else queue_kernels.QueueEnqueue
            )
            return build(self._queue_ref, tensors, name=scope)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that adds the rows of `vals` as elements, one by one as there is room."""
        with name_scope(name, f"{self._name}_EnqueueMany", values_in(vals)) as scope:
            tensors = self._components(vals)
            count = Dimension(None)
            for tensor, shape in zip(tensors, self._shapes, strict=False):
                rows = tensor.shape.with_rank_at_least(1)
                count = count.merge_with(rows[0])
                rows[1:].assert_is_compatible_with(shape)
            build = (
                queue_kernels.QueueEnqueueManyV2
                if self._is_resource
                else queue_kernels.QueueEnqueueMany
            )
            return build(self._queue_ref, tensors, name=scope)

    def _dequeued(self, tensors: list[Tensor], batch: list[Any]) -> Any:
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(TensorShape(batch).concatenate(shape) if batch else shape)
        if self._names:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    def dequeue(self, name: str | None = None) -> Any:
        """The components of one element, as soon as there is one.

        It fails with OutOfRangeError when the queue is closed and empty.

        Returns:
          A tensor, a list of them if there are several, or a dict if the queue has names.
        """
        build = queue_kernels.QueueDequeueV2 if self._is_resource else queue_kernels.QueueDequeue
        tensors = build(
            self._queue_ref, component_types=self._dtypes, name=name or f"{self._name}_Dequeue"
        )
        return self._dequeued(tensors, [])

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """The components of `n` elements, each stacked into one tensor.

        It fails with OutOfRangeError when the queue is closed and has fewer left.
        """
        build = (
            queue_kernels.QueueDequeueManyV2
            if self._is_resource
            else queue_kernels.QueueDequeueMany
        )
        tensors = build(
            self._queue_ref,
            n,
            component_types=self._dtypes,
            name=name or f"{self._name}_DequeueMany",
        )
        count = constant_value(tensors[0].op.inputs[1])
        return self._dequeued(tensors, [None if count is None else int(count)])

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """As `dequeue_many`, but a closed queue gives what it has left, if anything."""
        build = (
            queue_kernels.QueueDequeueUpToV2
            if self._is_resource
            else queue_kernels.QueueDequeueUpTo
        )
        tensors = build(
            self._queue_ref,
            n,
            component_types=self._dtypes,
            name=name or f"{self._name}_DequeueUpTo",
        )
        return self._dequeued(tensors, [None])

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An operation that closes the queue: nothing more can be added.

        Args:
          cancel_pending_enqueues: Whether enqueues that wait for room fail, rather than going
            first.
          name: A name for the operation.
        """
        build = queue_kernels.QueueCloseV2 if self._is_resource else queue_kernels.QueueClose
        return build(
            self._queue_ref,
            cancel_pending_enqueues=cancel_pending_enqueues,
            name=name or f"{self._name}_Close",
        )

    def is_closed(self, name: str | None = None) -> Tensor:
        """Whether the queue is closed."""
        build = queue_kernels.QueueIsClosedV2 if self._is_resource else queue_kernels.QueueIsClosed
        return build(self._queue_ref, name=name or f"{self._name}_Is_Closed")

    def size(self, name: str | None = None) -> Tensor:
        """How many elements the queue holds."""
        build = queue_kernels.QueueSizeV2 if self._is_resource else queue_kernels.QueueSize
        return build(self._queue_ref, name=name or f"{self._name}_Size")


class FIFOQueue(QueueBase):
    """A queue that gives elements out in the order in which they came."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        """Makes the queue.

        Args:
          capacity: How many elements it holds at most.
          dtypes: A list of the types of an element's components.
          shapes: A list of their shapes, fully defined; None for any, then only single elements
            can be dequeued.
          names: A list of their names; then elements are dicts.
          shared_name: Sessions share the queue under this name.
          name: A name for the operation.
        """
        types, stated = as_type_list(dtypes), as_shape_list(shapes)
        labels = as_name_list(names, types)
        # Not part of what is being built here: it must exist for every step.
        with init_scope(), device("CPU"):
            handle = queue_kernels.FIFOQueueV2(
                component_types=types,
                shapes=stated,
                capacity=capacity,
                shared_name=shared_name,
                name=name,
            )
        super().__init__(types, stated, labels, handle)


class RandomShuffleQueue(QueueBase):
    """A queue that gives elements out in random order."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        """Makes the queue; see `FIFOQueue`.

        Args:
          capacity: How many elements it holds at most.
          min_after_dequeue: How many a dequeue must leave to choose from, until it is closed.
          dtypes: The types of an element's components.
          shapes: Their shapes.
          names: Their names.
          seed: Makes the order repeat.
          shared_name: Sessions share the queue under this name.
          name: A name for the operation.
        """
        types, stated = as_type_list(dtypes), as_shape_list(shapes)
        labels = as_name_list(names, types)
        seed1, seed2 = random_seed.get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1, seed2 = 0, 0
        elif seed is None and shared_name is not None:
            # The op's own seed depends on its place in the graph, and those who share differ.
            digest = hashlib.md5(f"{seed1}{shared_name}".encode()).hexdigest()
            seed2 = int(digest[:8], 16) & 0x7FFFFFFF
        handle = queue_kernels.RandomShuffleQueueV2(
            component_types=types,
            shapes=stated,
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed1,
            seed2=seed2,
            shared_name=shared_name,
            name=name,
        )
        super().__init__(types, stated, labels, handle)


class PaddingFIFOQueue(QueueBase):
    """A FIFOQueue whose elements may differ in size: a batch is filled up with zeros."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        """Makes the queue; see `FIFOQueue`. `shapes` may have unknown sizes, but needs ranks."""
        types, stated = as_type_list(dtypes), as_shape_list(shapes, unknown_sizes_allowed=True)
        labels = as_name_list(names, types)
        assert stated is not None
        if len(types) != len(stated):
            raise ValueError(
                f"Shapes must be provided for all components, but received {len(types)} dtypes "
                f"and {len(stated)} shapes."
            )
        handle = queue_kernels.PaddingFIFOQueueV2(
            component_types=types,
            shapes=stated,
            capacity=capacity,
            shared_name=shared_name,
            name=name,
        )
        super().__init__(types, stated, labels, handle)


class PriorityQueue(QueueBase):
    """A queue that gives out the element with the lowest priority number first.

    An element's first component is its priority, int64; `types` and `shapes` are of the others.
    """

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        """Makes the queue; see `FIFOQueue`."""
        others, stated = as_type_list(types), as_shape_list(shapes)
        handle = queue_kernels.PriorityQueueV2(
            component_types=others,
            shapes=stated if stated is not None else [],
            capacity=capacity,
            shared_name=shared_name,
            name=name,
        )
        all_shapes = [TensorShape([]), *stated] if stated else stated
        super().__init__([dtypes_module.int64, *others], all_shapes, names, handle)
