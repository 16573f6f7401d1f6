"""The op types of queues: they make, fill, empty, close and measure one.

Every op type has an old form, whose handle is a reference to strings, and a new one (V2), whose
handle is a resource. What a queue does is in `protocol.queue`; here are its checks of types and
shapes, and the way from tensors to elements and back.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.dtypes import DType
from millrace.core.philox_words import philox_words
from millrace.core.resource_handle import handle_of
from millrace.core.tensor_shape import TensorShape, scalar
from millrace.graph.define import Op, op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none, scalars, unknown
from millrace.ops.data_flow import shared_state
from millrace.ops.data_flow.accumulators import IF_PRESENT, TOKEN, describe_round
from millrace.ops.data_flow.handle_forms import both_forms
from millrace.ops.data_flow.shared_state import Guarded, shape_text, tell_all, type_text
from millrace.protocol import queue as protocol
from millrace.protocol.queue import QueueState


class Queue(Guarded[QueueState]):
    """A queue of a task.

    Attributes:
      types: The types of an element's components.
      shapes: Their shapes; None when elements may have any.
      details: Whatever else two nodes of one shared name must agree on, by name.
    """

    def __init__(
        self,
        state: QueueState,
        types: list[DType],
        shapes: list[TensorShape] | None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(state)
        self.types = types
        self.shapes = shapes
        self.details = details or {}
        self.kind = state.kind
        self.name = state.name
        self._numpy_types = [_numpy_type(dtype) for dtype in types]
        self._sizes = None if shapes is None else [shape.as_list() for shape in shapes]
        self._pads = isinstance(state, protocol.PaddingFifoQueueState)

    def enqueue(self, ctx: Any, components: list[Any]) -> Any:
        """Adds one element; no outputs, or a Future of them."""
        if self._sizes is not None:
            for i, (value, sizes) in enumerate(zip(components, self._sizes, strict=True)):
                self._check_shape(i, value.shape, sizes)
        element = tuple(value[()] if value.ndim == 0 else _own(value) for value in components)
        return self._submit(ctx, protocol.Enqueue([element]), "room in", _no_outputs)

    def enqueue_many(self, ctx: Any, components: list[Any]) -> Any:
        """Adds the rows of the components; no outputs, or a Future of them."""
        columns: list[list[Any]] = []
        for i, value in enumerate(components):
            if value.ndim == 0:
                raise ValueError(
                    f"Shape mismatch in tuple component {i}. Expected a row for each element, "
                    "got []"
                )
            count = components[0].shape[0]
            if self._sizes is not None:
                self._check_shape(i, value.shape, [count, *self._sizes[i]])
            elif value.shape[0] != count:
                raise ValueError(
                    "All input tensors must have the same size in the 0th dimension. Component "
                    f"{i} has {value.shape[0]}, and should have {count}"
                )
            columns.append(list(value) if value.ndim == 1 else [row.copy() for row in value])
        if not columns[0]:
            return []
        elements = zip(*columns, strict=True)
        return self._submit(ctx, protocol.Enqueue(elements), "room in", _no_outputs)

    def _check_shape(self, i: int, found: tuple[int, ...], wanted: list[int | None]) -> None:
        if list(found) == wanted or (
            len(found) == len(wanted)
            and all(b is None or a == b for a, b in zip(found, wanted, strict=True))
        ):
            return
        raise ValueError(
            f"Shape mismatch in tuple component {i}. Expected {shape_text(wanted)}, got "
            f"{shape_text(found)}"
        )

    def dequeue(self, ctx: Any, why: Callable[[], str] = str) -> Any:
        """Takes one element: its components, or a Future of them.

        Args:
          ctx: The step.
          why: What an element comes of, for a step that waits long for one.
        """
        return self.submit(
            protocol.Dequeue(1),
            ctx,
            lambda: f"an element in {self.kind} '{self.name}'{why() or self._starved()}",
            self._arrays,
        )

    def _arrays(self, elements: list[protocol.Element]) -> list[Any]:
        """The components of the first element."""
        return [
            value if isinstance(value, np.ndarray) else np.array(value, kind)
            for value, kind in zip(elements[0], self._numpy_types, strict=True)
        ]

    def dequeue_many(self, ctx: Any, count: int, allow_small_batch: bool) -> Any:
        """Takes `count` elements: their components stacked, or a Future of that."""
        if count < 0:
            which = "UpTo" if allow_small_batch else "Many"
            raise ValueError(f"Dequeue{which}Op requested {count} < 0 elements")
        if self.shapes is None:
            raise ValueError(
                f"{self.kind}'s DequeueMany and DequeueUpTo require the components to have "
                "specified shapes."
            )
        if not count:
            return self._stacked([])
        return self.submit(
            protocol.Dequeue(count, allow_small_batch),
            ctx,
            lambda: f"{count} elements in {self.kind} '{self.name}'{self._starved()}",
            self._stacked,
        )

    def _starved(self) -> str:
        """Why there is nothing in a queue that nobody has ever added to, for who waits long."""
        if self.state.was_fed:
            return ""
        return (
            ", to which nothing was ever added: nobody has started its queue runners. Check that "
            "the program calls tf.train.start_queue_runners(sess) or trains in a MonitoredSession"
        )

    def dequeue_present(self, count: int) -> Any:
        """Takes up to `count` elements of those that are there: their components stacked."""
        with self.lock:
            taken, settled = self.state.take_present(count)
        tell_all(settled)
        return self._stacked(taken)

    def _stacked(self, elements: list[protocol.Element]) -> list[Any]:
        assert self.shapes is not None
        result = []
        for i, (dtype, shape) in enumerate(zip(self.types, self.shapes, strict=True)):
            values = [element[i] for element in elements]
            if self._pads and not shape.is_fully_defined():
                result.append(_padded(values, dtype, shape.as_list()))
                continue
            sizes: Any = tuple(shape.as_list())
            batch = np.empty((len(values), *sizes), _numpy_type(dtype))
            if sizes:
                for row, value in zip(batch, values, strict=True):
                    row[...] = value
            else:
                batch[:] = values
            result.append(batch)
        return result

    def _submit(self, ctx: Any, attempt: Any, words: str, convert: Callable[[Any], Any]) -> Any:
        return self.submit(attempt, ctx, f"{words} {self.kind} '{self.name}'", convert)

    def close_queue(self, ctx: Any, cancel_pending_enqueues: bool) -> Any:
        """Closes it, after the enqueues that wait or by cancelling them."""
        if cancel_pending_enqueues:
            self.tell(lambda state: state.close_and_cancel())
            return []
        return self._submit(ctx, protocol.Close(), "the enqueues before closing", _no_outputs)

    def check_components(self, node: Any, types: list[DType], enqueues: bool) -> None:
        """Holds the types of a node's components against the queue's.

        Raises:
          ValueError: They differ.
        """
        found = [dtype.base_dtype for dtype in types]
        if found == self.types:
            return
        handle = [type_text(node.inputs[0].dtype)]
        if not enqueues:
            handle += [type_text(edge.dtype) for edge in node.inputs[1:]]

        def signature(components: list[DType]) -> str:
            texts = [type_text(dtype) for dtype in components]
            left = handle + texts if enqueues else handle
            return f"{', '.join(left)}->{', '.join([] if enqueues else texts)}"

        raise ValueError(
            f"Signature mismatch, have: {signature(found)} expected: {signature(self.types)}"
        )


def _no_outputs(value: Any) -> list[Any]:
    return []


def _own(array: Any) -> Any:
    return shared_state.kept(array)


def _numpy_type(dtype: DType) -> Any:
    return object if dtype == dtypes.string else dtype.as_numpy_dtype


def _padded(values: list[Any], dtype: DType, stated: list[int | None]) -> Any:
    sizes = tuple(
        max((np.shape(value)[i] for value in values), default=0) if size is None else size
        for i, size in enumerate(stated)
    )
    batch = np.zeros((len(values), *sizes), _numpy_type(dtype))
    if dtype == dtypes.string:
        batch[...] = b""
    for row, value in zip(batch, values, strict=True):
        row[tuple(slice(size) for size in value.shape)] = value
    return batch


# -- Making queues -----------------------------------------------------------------------


def _make_queue(
    ctx: Any,
    node: Any,
    state: Callable[[str, int], QueueState],
    types: list[DType],
    shapes: list[TensorShape],
    details: dict[str, Any] | None = None,
) -> Any:
    stated = shapes if shapes or not types else None
    capacity = node.attrs["capacity"]

    def make_handle() -> Any:
        handle = shared_state.name_of(ctx, node)
        queue = shared_state.make(
            Queue,
            ctx,
            handle,
            lambda: Queue(state(handle.name, capacity), types, stated, details),
        )
        _check_agrees(queue, node, capacity, types, stated, details or {})
        return shared_state.give_out(handle, node)

    return shared_state.once(ctx, node, make_handle)


def _check_agrees(
    queue: Queue,
    node: Any,
    capacity: int,
    types: list[DType],
    shapes: list[TensorShape] | None,
    details: dict[str, Any],
) -> None:
    """Two nodes that share a queue must mean the same queue."""
    if node.type.removesuffix("V2") != queue.kind:
        raise ValueError(f"Expected {queue.kind}, found {node.type}")
    wanted = capacity if capacity >= 0 else 2**31 - 1
    shared = f"Shared queue '{queue.name}' has"
    if wanted != queue.state.capacity:
        raise ValueError(
            f"{shared} capacity {queue.state.capacity} but requested capacity was {wanted}"
        )
    if types != queue.types:
        has, asked = (", ".join(type_text(t) for t in each) for each in (queue.types, types))
        raise ValueError(
            f"{shared} component types {has} but requested component types were {asked}"
        )
    if [s.as_list() for s in shapes or ()] != [s.as_list() for s in queue.shapes or ()]:
        has, asked = (
            "[" + ",".join(shape_text(s.as_list()) for s in each or ()) + "]"
            for each in (queue.shapes, shapes)
        )
        raise ValueError(
            f"{shared} component shapes {has} but requested component shapes were {asked}"
        )
    for name, value in details.items():
        if value != queue.details[name]:
            if name == "seeds":
                raise ValueError(
                    f"{shared} random seeds {queue.details[name]} but requested seeds are {value}."
                )
            raise ValueError(
                f"{shared} {name} {queue.details[name]} but requested {name} was {value}."
            )


def _handle_shape(c: ShapeContext) -> TensorShape:
    return TensorShape([2]) if c.op.outputs[0].dtype._is_ref_dtype else scalar()


def _maker(name: str, attributes: str, kernel: Callable[..., Any]) -> Op:
    """Both forms of an op type that makes a queue; returns the new one."""
    for version, kind in (("", "ref(string)"), ("V2", "resource")):
        definition = op(
            f"{name}{version}() -> handle: {kind} where {attributes}; capacity: int = -1; "
            + ("min_after_dequeue: int = 0; seed: int = 0; seed2: int = 0; "
               if name == "RandomShuffleQueue" else "")
            + 'container: string = ""; shared_name: string = ""',
            shape=_handle_shape,
            gradient=NO_GRADIENT,
            host=True,
            stateful=True,
        )(kernel)  # fmt: skip
    return definition


_COMPONENTS = "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []"


def _fifo_queue(*, component_types: Any, shapes: Any, ctx: Any, node: Any) -> Any:
    return _make_queue(ctx, node, protocol.FifoQueueState, component_types, shapes)


def _padding_fifo_queue(*, component_types: Any, shapes: Any, ctx: Any, node: Any) -> Any:
    return _make_queue(ctx, node, protocol.PaddingFifoQueueState, component_types, shapes)


def _priority_queue(*, component_types: Any, shapes: Any, ctx: Any, node: Any) -> Any:
    # The priority comes first, unasked.
    types = [dtypes.int64, *component_types]
    stated = [scalar(), *shapes] if shapes else []
    return _make_queue(ctx, node, protocol.PriorityQueueState, types, stated)


def _random_shuffle_queue(
    *,
    component_types: Any,
    shapes: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int,
    seed2: int,
    ctx: Any,
    node: Any,
) -> Any:
    if min_after_dequeue < 0:
        raise ValueError(f"min_after_dequeue {min_after_dequeue} must be >= 0")
    if 0 <= capacity <= min_after_dequeue:
        raise ValueError(f"min_after_dequeue {min_after_dequeue} must be < capacity {capacity}")

    def state(name: str, size: int) -> QueueState:
        # Without seeds every queue shuffles in its own way; with seeds, in TensorFlow's.
        seeds = (seed, seed2) if seed or seed2 else (random.getrandbits(64), random.getrandbits(64))
        words = philox_words(*seeds)
        return protocol.RandomShuffleQueueState(
            name, size, min_after_dequeue, lambda n: next(words) % n
        )

    details = {"min_after_dequeue": min_after_dequeue, "seeds": (seed, seed2)}
    return _make_queue(ctx, node, state, component_types, shapes, details)


FIFOQueueV2 = _maker("FIFOQueue", _COMPONENTS, _fifo_queue)
PaddingFIFOQueueV2 = _maker("PaddingFIFOQueue", _COMPONENTS, _padding_fifo_queue)
PriorityQueueV2 = _maker(
    "PriorityQueue",
    "component_types: list(type) >= 0 = []; shapes: list(shape) >= 0",
    _priority_queue,
)
RandomShuffleQueueV2 = _maker("RandomShuffleQueue", _COMPONENTS, _random_shuffle_queue)


# -- Using queues ------------------------------------------------------------------------


def find_for(node: Any, handle: Any, ctx: Any, enqueues: bool) -> Queue:
    """The queue that a node puts elements into, or takes them from.

    Raises:
      ValueError: It has other components than the node; or the node has a timeout.
      NotFoundError: There is none.
    """
    if node.attrs["timeout_ms"] != -1:
        raise ValueError("Timeout not supported yet.")
    queue = shared_state.find(Queue, ctx, handle)
    types = node.attrs["Tcomponents" if enqueues else "component_types"]
    queue.check_components(node, types, enqueues)
    return queue


def _enqueue(
    handle: Any, components: list[Any], *, Tcomponents: Any, timeout_ms: int, ctx: Any, node: Any
) -> Any:
    return find_for(node, handle, ctx, True).enqueue(ctx, components)


def _enqueue_many(
    handle: Any, components: list[Any], *, Tcomponents: Any, timeout_ms: int, ctx: Any, node: Any
) -> Any:
    return find_for(node, handle, ctx, True).enqueue_many(ctx, components)


def what_comes(node: Any, ctx: Any) -> str:
    """What the elements come of that a node takes, for a step that waits long for one."""
    return describe_round(ctx.resources) if node.attrs.get(TOKEN) else ""


def _dequeue(handle: Any, *, component_types: Any, timeout_ms: int, ctx: Any, node: Any) -> Any:
    queue = find_for(node, handle, ctx, False)
    return queue.dequeue(ctx, functools.partial(what_comes, node, ctx))


def _dequeue_many(
    handle: Any, n: Any, *, component_types: Any, timeout_ms: int, ctx: Any, node: Any
) -> Any:
    queue = find_for(node, handle, ctx, False)
    return queue.dequeue_many(ctx, _count(n), allow_small_batch=False)


def _dequeue_up_to(
    handle: Any, n: Any, *, component_types: Any, timeout_ms: int, ctx: Any, node: Any
) -> Any:
    queue = find_for(node, handle, ctx, False)
    if node.attrs.get(IF_PRESENT):
        return queue.dequeue_present(_count(n))
    return queue.dequeue_many(ctx, _count(n), allow_small_batch=True)


def _count(n: Any) -> int:
    if n.size != 1:
        raise errors.InvalidArgumentError(
            None, None, f"n must be a scalar, but has shape {shape_text(n.shape)}"
        )
    return int(n.reshape(()))


def _close(handle: Any, *, cancel_pending_enqueues: bool, ctx: Any) -> Any:
    return shared_state.find(Queue, ctx, handle).close_queue(ctx, cancel_pending_enqueues)


def _is_closed(handle: Any, *, ctx: Any) -> Any:
    return shared_state.find(Queue, ctx, handle).ask(lambda state: state.is_closed)


def _size(handle: Any, *, ctx: Any) -> Any:
    return shared_state.find(Queue, ctx, handle).ask(len)


_ENQUEUES = " where Tcomponents: list(type) >= 1; timeout_ms: int = -1"
_DEQUEUES = (
    " -> components: [component_types] where component_types: list(type) >= 1; timeout_ms: int = -1"
)

QueueEnqueue, QueueEnqueueV2 = both_forms(
    "QueueEnqueue",
    "handle: HANDLE, components: [Tcomponents]",
    _ENQUEUES,
    _enqueue,
    none,
    blocking=True,
)
QueueEnqueueMany, QueueEnqueueManyV2 = both_forms(
    "QueueEnqueueMany",
    "handle: HANDLE, components: [Tcomponents]",
    _ENQUEUES,
    _enqueue_many,
    none,
    blocking=True,
)
QueueDequeue, QueueDequeueV2 = both_forms(
    "QueueDequeue", "handle: HANDLE", _DEQUEUES, _dequeue, unknown, blocking=True
)
QueueDequeueMany, QueueDequeueManyV2 = both_forms(
    "QueueDequeueMany", "handle: HANDLE, n: int32", _DEQUEUES, _dequeue_many, unknown, blocking=True
)
QueueDequeueUpTo, QueueDequeueUpToV2 = both_forms(
    "QueueDequeueUpTo",
    "handle: HANDLE, n: int32",
    _DEQUEUES,
    _dequeue_up_to,
    unknown,
    blocking=True,
)
QueueClose, QueueCloseV2 = both_forms(
    "QueueClose",
    "handle: HANDLE",
    " where cancel_pending_enqueues: bool = false",
    _close,
    none,
    blocking=True,
)
QueueIsClosed, QueueIsClosedV2 = both_forms(
    "QueueIsClosed", "handle: HANDLE", " -> is_closed: bool", _is_closed, scalars
)
QueueSize, QueueSizeV2 = both_forms(
    "QueueSize", "handle: HANDLE", " -> size: int32", _size, scalars
)


@op(
    "FakeQueue(resource: resource) -> handle: ref(string)",
    shape=_handle_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def FakeQueue(resource: Any, *, node: Any) -> Any:
    """The old form of a queue's handle, for old readers."""
    return shared_state.give_out(handle_of(resource), node)
