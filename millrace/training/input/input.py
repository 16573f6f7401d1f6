"""Input pipelines on queues: producers of file names, numbers and slices, and batching.

Each function makes a queue, the operations that fill it, and a QueueRunner for them, which
`start_queue_runners` starts. How full the queue is becomes a summary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import (
    add_to_collection,
    control_dependencies,
    get_default_graph,
    name_scope,
)
from millrace.graph.keys import GraphKeys
from millrace.graph.slices import IndexedSlices, SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import identity as array_identity
from millrace.ops.array import sets as array_sets
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import control_flow
from millrace.ops.control_flow.assertion import Assert
from millrace.ops.data_flow import queues
from millrace.ops.io import io, summaries
from millrace.ops.math import arithmetic, comparison, numeric
from millrace.ops.random import random
from millrace.ops.sparse import map as sparse_map
from millrace.ops.sparse import rows as sparse_rows
from millrace.ops.state import variable
from millrace.training.input import queue_runner

_Queue = queues.QueueBase


def match_filenames_once(pattern: Any, name: str | None = None) -> Any:
    """A local variable with the names of files that match a pattern when it is initialised."""
    with name_scope(name, "matching_filenames", [pattern]) as scope:
        return variable.Variable(
            io.matching_files(pattern),
            name=scope,
            trainable=False,
            validate_shape=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """`tensor`, which can be evaluated `num_epochs` times; then OutOfRangeError is raised.

    The count is a local variable: run ``tf.local_variables_initializer()``.

    Args:
      tensor: Any tensor.
      num_epochs: How often; None for any number of times.
      name: A name for the operations.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name, "limit_epochs", [tensor]) as scope:
        epochs = variable.Variable(
            convert_to_tensor(0, dtypes.int64),
            name="epochs",
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )
        counter = epochs.count_up_to(num_epochs)
        with control_dependencies([counter]):
            return array_identity.identity(tensor, name=scope)


def _summarize(name: str, value: Tensor) -> None:
    """A scalar summary of `value` in the current name scope."""
    with name_scope(name, values=[value]) as scope:
        summary = summaries.ScalarSummary(scope.rstrip("/"), value, name=scope)
    add_to_collection(GraphKeys.SUMMARIES, summary)


# -- Producers ---------------------------------------------------------------------------


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> queues.FIFOQueue:
    """A queue of the rows of a tensor, over and over.

    Args:
      input_tensor: The tensor.
      element_shape: The shape of a row, if its static shape does not say it.
      num_epochs: How often all rows are produced, before OutOfRangeError; None for ever.
      shuffle: Whether each epoch has an order of its own.
      seed: Makes the orders repeat.
      capacity: The queue's capacity.
      shared_name: Sessions share the queue under this name.
      summary_name: A name for the summary of how full the queue is; None for no summary.
      name: A name for the queue.
      cancel_op: Closes the queue when the coordinator stops.
    """
    with name_scope(name, "input_producer", [input_tensor]):
        tensor = convert_to_tensor(input_tensor, name="input_tensor")
        shape = tensor.shape[1:].merge_with(as_shape(element_shape))
        if not shape.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be "
                "specified"
            )
        if shuffle:
            tensor = random.random_shuffle(tensor, seed=seed)
        tensor = limit_epochs(tensor, num_epochs)
        queue = queues.FIFOQueue(
            capacity,
            [tensor.dtype.base_dtype],
            [shape],
            shared_name=shared_name,
            name=name or "fifo_queue",
        )
        enqueue = queue.enqueue_many([tensor])
        queue_runner.add_queue_runner(
            queue_runner.QueueRunner(queue, [enqueue], cancel_op=cancel_op)
        )
        if summary_name is not None:
            fullness = cast.cast(queue.size(), dtypes.float32) * (1.0 / capacity)
            _summarize(summary_name, fullness)
        return queue


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> queues.FIFOQueue:
    """A queue of strings (of file names, say); see `input_producer`.

    Raises:
      ValueError: `string_tensor` is an empty list.
    """
    empty = "string_input_producer requires a non-null input tensor"
    if not isinstance(string_tensor, Tensor) and not _has_entries(string_tensor):
        raise ValueError(empty)
    with name_scope(name, "input_producer", [string_tensor]) as scope:
        tensor = convert_to_tensor(string_tensor, dtype=dtypes.string)
        with control_dependencies(
            [Assert(comparison.greater(array_shape.size(tensor), 0), [empty])]
        ):
            tensor = array_identity.identity(tensor)
        return input_producer(
            tensor,
            [],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
            name=scope,
            summary_name=f"fraction_of_{capacity}_full",
            cancel_op=cancel_op,
        )


def _has_entries(value: Any) -> bool:
    # Variables have no length, and are no empty list.
    return not hasattr(value, "__len__") or len(value) > 0


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> queues.FIFOQueue:
    """A queue of the numbers from 0 to `limit - 1`; see `input_producer`."""
    with name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(
            numeric.range(limit),
            [],
            num_epochs,
            shuffle,
            seed,
            capacity,
            shared_name,
            f"fraction_of_{capacity}_full",
            scope,
        )


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """One row of each tensor in `tensor_list`, the same one of all; see `input_producer`."""
    with name_scope(name, "input_producer", list(tensor_list)):
        tensors = [_as_tensor(tensor) for tensor in tensor_list]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        queue = range_input_producer(
            array_shape.shape(tensors[0])[0],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
        )
        index = queue.dequeue()
        return [array_gather.gather(tensor, index) for tensor in tensors]


def _as_tensor(value: Any) -> Any:
    if isinstance(value, SparseTensor | IndexedSlices):
        return value
    return convert_to_tensor(value)


# -- SparseTensors on the way through a queue --------------------------------------------


class _SparseOnTheWay(NamedTuple):
    """How a SparseTensor went into a queue of dense tensors: where it was stored."""

    map_name: str
    dtype: dtypes.DType
    rank: int | None


def _either(condition: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """One of two results; decided now if the condition is a constant."""
    known = constant_value(condition)
    if known is not None:
        return true_fn() if known else false_fn()
    return control_flow.cond(condition, true_fn, false_fn)


def _put_aside(
    tensor: Any, enqueue_many: bool, keep_input: Tensor, earlier: _SparseOnTheWay | None
) -> tuple[Any, _SparseOnTheWay | None]:
    """A dense stand-in for a SparseTensor, and how to get it back; a dense tensor as it is."""
    if not isinstance(tensor, SparseTensor):
        return tensor, None
    map_name = (
        get_default_graph().unique_name("sparse_map") if earlier is None else earlier.map_name
    )
    if keep_input.shape.ndims == 1:
        kept_rows = array_gather.gather(keep_input, tensor.indices[:, 0])
        tensor = sparse_rows.sparse_retain(tensor, kept_rows)
        stored = sparse_map.add_many_sparse_to_tensors_map(tensor, map_name)
    elif enqueue_many:
        rows = array_shape.expand_dims(tensor.dense_shape[0], 0)
        nothing = convert_to_tensor(_NOTHING, dtypes.int64)
        stored = _either(
            keep_input,
            lambda: sparse_map.add_many_sparse_to_tensors_map(tensor, map_name),
            lambda: array_fill.fill(rows, nothing),
        )
        stored.set_shape([None])
    else:
        stored = _either(
            keep_input,
            lambda: sparse_map.add_sparse_to_tensors_map(tensor, map_name),
            lambda: convert_to_tensor(_NOTHING, dtypes.int64),
        )
    rank = tensor.dense_shape.shape.with_rank(1).as_list()[0]
    if rank is not None and enqueue_many:
        rank -= 1
    return array_shape.expand_dims(stored, -1), _SparseOnTheWay(map_name, tensor.dtype, rank)


#: Stands for a row that is not enqueued.
_NOTHING = -1


def _restore(dequeued: Any, ways: Sequence[_SparseOnTheWay | None]) -> Any:
    """What was dequeued, with SparseTensors in place of what stood for them."""
    if all(way is None for way in ways):
        return dequeued
    stored = list(dequeued) if isinstance(dequeued, list | tuple) else [dequeued]
    tensors: list[Any] = [
        tensor
        if way is None
        else sparse_map.take_many_sparse_from_tensors_map(
            array_shape.squeeze(tensor, [1]),
            way.dtype,
            way.map_name,
            None if way.rank is None else way.rank + 1,
        )
        for tensor, way in zip(stored, ways, strict=True)
    ]
    # Taking one takes all: nothing may stay behind in a map for ever.
    values = [t.values if isinstance(t, SparseTensor) else t for t in tensors]

    def after_all(tensor: Tensor) -> Tensor:
        return control_flow.with_dependencies(values, tensor)  # type: ignore[no-any-return]

    restored = [
        SparseTensor(after_all(t.indices), after_all(t.values), after_all(t.dense_shape))
        if isinstance(t, SparseTensor)
        else after_all(t)
        for t in tensors
    ]
    return restored if isinstance(dequeued, list | tuple) else tensors[0]


# -- Batches -----------------------------------------------------------------------------


def _as_list(tensors: Any) -> list[Any]:
    if isinstance(tensors, dict):
        return [tensors[key] for key in sorted(tensors, key=str)]
    return list(tensors)


def _as_given(given: Any, tensors: Any) -> Any:
    """The batch in the form in which the tensors were given: a dict, or a list."""
    if not isinstance(given, dict):
        return tensors
    values = [tensors] if len(given) == 1 else tensors
    return {key: values[i] for i, key in enumerate(sorted(given, key=str))}


def _check_keep_input(keep_input: Any, enqueue_many: bool) -> Tensor:
    tensor = convert_to_tensor(keep_input)
    rank = tensor.shape.ndims
    if rank is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if not enqueue_many and rank == 1:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if rank > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return tensor


def _types(lists: list[list[Tensor]]) -> list[dtypes.DType]:
    first = [tensor.dtype.base_dtype for tensor in lists[0]]
    for other in lists[1:]:
        found = [tensor.dtype.base_dtype for tensor in other]
        if found != first:
            names = (", ".join(t.name for t in types) for types in (first, found))
            raise TypeError(f"Expected types to be consistent: {' vs. '.join(names)}.")
    return first


def _shapes(lists: list[list[Tensor]], shapes: Any, enqueue_many: bool) -> Any:
    if shapes is not None:
        return shapes
    merged = []
    for i in range(len(lists[0])):
        shape = TensorShape(None)
        for tensors in lists:
            if tensors[i].shape.ndims is None:
                raise ValueError(f"Cannot infer Tensor's rank: {tensors[i]}")
            found = tensors[i].shape
            shape = shape.merge_with(found.with_rank_at_least(1)[1:] if enqueue_many else found)
        merged.append(shape)
    return merged


class _Batching:
    """What all the batching functions share: from tensors to a queue and out of it again.

    Args:
      given: What each of the enqueuing threads enqueues: lists or dicts of tensors.
      default_name: The name of the scope.
    """

    def __init__(
        self,
        given: Sequence[Any],
        default_name: str,
        batch_size: Any,
        keep_input: Any,
        enqueue_many: bool,
        shapes: Any,
        allow_smaller_final_batch: bool,
        name: str | None,
    ) -> None:
        self._given = given
        self._default_name = default_name
        self._batch_size = batch_size
        self._keep_input = keep_input
        self._enqueue_many = enqueue_many
        self._shapes = shapes
        self._allow_smaller = allow_smaller_final_batch
        self._name = name

    def build(
        self,
        make_queue: Callable[[list[dtypes.DType], Any], _Queue],
        threads: int,
        summary_name: str,
        fullness: Callable[[_Queue], Tensor],
    ) -> Any:
        """The batch.

        Args:
          make_queue: From types and shapes to the queue.
          threads: How many threads enqueue each of what was given.
          summary_name: A name for the summary of how full the queue is.
          fullness: How full it is.
        """
        given = [_as_list(tensors) for tensors in self._given]
        flat = [tensor for tensors in given for tensor in tensors]
        with name_scope(self._name, self._default_name, [*flat, self._keep_input]) as scope:
            lists = [[_as_tensor(tensor) for tensor in tensors] for tensors in given]
            if not all(lists):
                raise ValueError(f"Expected at least one tensor in {self._default_name}().")
            keep = _check_keep_input(self._keep_input, self._enqueue_many)
            stored, ways = self._put_aside_all(lists, keep)
            queue = make_queue(_types(stored), _shapes(stored, self._shapes, self._enqueue_many))
            operations = [self._enqueue(queue, tensors, keep) for tensors in stored]
            queue_runner.add_queue_runner(
                queue_runner.QueueRunner(queue, [e for e in operations for _ in range(threads)])
            )
            _summarize(summary_name, fullness(queue))
            dequeue = queue.dequeue_up_to if self._allow_smaller else queue.dequeue_many
            batch = _restore(dequeue(self._batch_size, name=scope), ways)
            return _as_given(self._given[0], batch)

    def _put_aside_all(
        self, lists: list[list[Any]], keep: Tensor
    ) -> tuple[list[list[Any]], list[_SparseOnTheWay | None]]:
        stored: list[list[Any]] = []
        ways: list[_SparseOnTheWay | None] = [None] * len(lists[0])
        for tensors in lists:
            pairs = [
                _put_aside(tensor, self._enqueue_many, keep, way)
                for tensor, way in zip(tensors, ways, strict=True)
            ]
            found = [way for _, way in pairs]
            if stored and [w is None for w in found] != [w is None for w in ways]:
                raise ValueError(f"Inconsistent SparseTensors list: {lists[0]} vs. {tensors}")
            ways = found if not stored else ways
            stored.append([tensor for tensor, _ in pairs])
        return stored, ways

    def _enqueue(self, queue: _Queue, tensors: list[Any], keep: Tensor) -> Any:
        enqueue = queue.enqueue_many if self._enqueue_many else queue.enqueue
        if keep.shape.ndims == 1:
            chosen = cast.cast(keep, dtypes.int32)
            return enqueue(
                [array_sets.dynamic_partition(t, chosen, num_partitions=2)[1] for t in tensors]
            )
        return _either(keep, lambda: enqueue(tensors), control_flow.no_op)


def _fraction_full(capacity: int) -> Callable[[_Queue], Tensor]:
    def fullness(queue: _Queue) -> Tensor:
        return cast.cast(queue.size(), dtypes.float32) * (1.0 / capacity)  # type: ignore[no-any-return]

    return fullness


def _batch_from(
    given: Sequence[Any],
    default_name: str,
    batch_size: Any,
    keep_input: Any,
    threads: int,
    capacity: int,
    enqueue_many: bool,
    shapes: Any,
    dynamic_pad: bool,
    allow_smaller_final_batch: bool,
    shared_name: str | None,
    name: str | None,
) -> Any:
    batching = _Batching(
        given, default_name, batch_size, keep_input, enqueue_many, shapes,
        allow_smaller_final_batch, name,
    )  # fmt: skip

    def make_queue(types: list[dtypes.DType], found: Any) -> _Queue:
        kind = queues.PaddingFIFOQueue if dynamic_pad else queues.FIFOQueue
        return kind(capacity, types, found, shared_name=shared_name)

    return batching.build(
        make_queue, threads, f"fraction_of_{capacity}_full", _fraction_full(capacity)
    )


def _shuffle_batch_from(
    given: Sequence[Any],
    default_name: str,
    batch_size: Any,
    keep_input: Any,
    threads: int,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None,
    enqueue_many: bool,
    shapes: Any,
    allow_smaller_final_batch: bool,
    shared_name: str | None,
    name: str | None,
) -> Any:
    if capacity <= min_after_dequeue:
        raise ValueError(
            f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}."
        )
    batching = _Batching(
        given, default_name, batch_size, keep_input, enqueue_many, shapes,
        allow_smaller_final_batch, name,
    )  # fmt: skip
    room = capacity - min_after_dequeue

    def make_queue(types: list[dtypes.DType], found: Any) -> _Queue:
        return queues.RandomShuffleQueue(
            capacity, min_after_dequeue, types, found, seed=seed, shared_name=shared_name
        )

    def fullness(queue: _Queue) -> Tensor:
        over = arithmetic.maximum(0, queue.size() - min_after_dequeue)
        return cast.cast(over, dtypes.float32) * (1.0 / room)  # type: ignore[no-any-return]

    return batching.build(
        make_queue, threads, f"fraction_over_{min_after_dequeue}_of_{room}_full", fullness
    )


def _check_same_keys(tensors_list: Sequence[Any]) -> None:
    if not tensors_list:
        raise ValueError("Expected at least one set of tensors")
    if isinstance(tensors_list[0], dict):
        keys = set(tensors_list[0])
        if any(set(tensors) != keys for tensors in tensors_list):
            raise ValueError("All dictionaries in tensors_list must have the same keys")


def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of what `tensors` give, step by step.

    Args:
      tensors: A list or dict of tensors: one element, or with `enqueue_many` a row for each.
      batch_size: How many elements a batch has.
      num_threads: How many threads evaluate `tensors`.
      capacity: How many elements are prepared.
      enqueue_many: Whether the rows of `tensors` are elements.
      shapes: Shapes of the elements, if their static shapes do not say them.
      dynamic_pad: Whether elements may differ in size: a batch is filled up with zeros.
      allow_smaller_final_batch: Whether the last elements make a smaller batch, rather than none.
      shared_name: Sessions share the queue under this name.
      name: A name for the operations.

    Returns:
      A list of tensors, a dict as `tensors` is, or a tensor if there is only one.

    Raises:
      ValueError: Shapes are not known and not given.
    """
    return _batch_from(
        [tensors], "batch", batch_size, True, num_threads, capacity, enqueue_many, shapes,
        dynamic_pad, allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_batch(
    tensors: Any,
    keep_input: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, of those elements for which `keep_input` holds."""
    return _batch_from(
        [tensors], "batch", batch_size, keep_input, num_threads, capacity, enqueue_many, shapes,
        dynamic_pad, allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, from several sources, each of which has a thread."""
    return maybe_batch_join(
        tensors_list, True, batch_size, capacity, enqueue_many, shapes, dynamic_pad,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_batch_join(
    tensors_list: Sequence[Any],
    keep_input: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch_join`, of those elements for which `keep_input` holds."""
    _check_same_keys(tensors_list)
    return _batch_from(
        tensors_list, "batch_join", batch_size, keep_input, 1, capacity, enqueue_many, shapes,
        dynamic_pad, allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, of elements in random order.

    Args:
      tensors: A list or dict of tensors.
      batch_size: How many elements a batch has.
      capacity: How many elements are prepared.
      min_after_dequeue: How many there must be to choose from, after a batch was taken.
      num_threads: How many threads evaluate `tensors`.
      seed: Makes the order repeat.
      enqueue_many: Whether the rows of `tensors` are elements.
      shapes: Shapes of the elements, if their static shapes do not say them.
      allow_smaller_final_batch: Whether the last elements make a smaller batch.
      shared_name: Sessions share the queue under this name.
      name: A name for the operations.
    """
    return maybe_shuffle_batch(
        tensors, batch_size, capacity, min_after_dequeue, True, num_threads, seed, enqueue_many,
        shapes, allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, of those elements for which `keep_input` holds."""
    return _shuffle_batch_from(
        [tensors], "shuffle_batch", batch_size, keep_input, num_threads, capacity,
        min_after_dequeue, seed, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
        name,
    )  # fmt: skip


def shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, from several sources, each of which has a thread."""
    return maybe_shuffle_batch_join(
        tensors_list, batch_size, capacity, min_after_dequeue, True, seed, enqueue_many, shapes,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch_join`, of those elements for which `keep_input` holds."""
    _check_same_keys(tensors_list)
    return _shuffle_batch_from(
        tensors_list, "shuffle_batch_join", batch_size, keep_input, 1, capacity,
        min_after_dequeue, seed, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
        name,
    )  # fmt: skip
