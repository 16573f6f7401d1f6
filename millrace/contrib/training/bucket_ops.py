"""Batches of examples of similar length, through queues."""

from __future__ import annotations

import itertools
from typing import Any

import millrace as tf


def bucket(
    tensors: Any,
    which_bucket: Any,
    batch_size: Any,
    num_buckets: int,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Any = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Sorts examples into queues by bucket; gives batches of one bucket each.

    Args:
      tensors: One example: a list or dictionary of tensors.
      which_bucket: The number of its bucket.
      batch_size: One size, or one for each bucket.
      num_buckets: How many buckets, at least two.
      num_threads: Threads that fill the queues.
      capacity: Batches that may wait.
      bucket_capacities: How many examples each bucket's queue holds.
      shapes: The shapes of the tensors, where they are not known.
      dynamic_pad: Whether examples of a batch are padded to the longest.
      allow_smaller_final_batch: Whether what is left at the end is a batch too.
      keep_input: Whether this example counts.
      shared_name: A name under which sessions share the queues.
      name: The name scope.

    Returns:
      (number of the bucket, batch).

    Raises:
      ValueError: There are fewer than two buckets, or not one size for each.
    """
    keys = sorted(tensors) if isinstance(tensors, dict) else None
    flat = [tensors[k] for k in keys] if keys is not None else list(tensors)
    sizes = list(batch_size) if isinstance(batch_size, list | tuple) else [batch_size] * num_buckets
    if num_buckets < 2:
        raise ValueError(f"num_buckets must be >= 2, found {num_buckets}")
    if len(sizes) != num_buckets:
        raise ValueError(f"If batch_size is a list it must have num_buckets elements: {sizes}")
    capacities = bucket_capacities or [capacity] * num_buckets
    if len(capacities) != num_buckets:
        raise ValueError("The list bucket_capacities must have exactly num_buckets elements.")
    with tf.name_scope(name, "bucket", flat):
        flat = [tf.convert_to_tensor(t) for t in flat]
        kinds = [t.dtype.base_dtype for t in flat]
        known = shapes if shapes is not None else [t.shape for t in flat]
        one_size = len(set(sizes)) == 1 and not allow_smaller_final_batch
        top = tf.PaddingFIFOQueue(
            capacity=capacity,
            dtypes=[tf.int32, *kinds],
            shapes=[
                tf.TensorShape([]),
                *(tf.TensorShape([sizes[0] if one_size else None]).concatenate(s) for s in known),
            ],
            shared_name=None if shared_name is None else f"{shared_name}_top",
            name="top_queue",
        )
        queue_type = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        queues = [
            queue_type(
                capacity=capacities[i],
                dtypes=kinds,
                shapes=known,
                shared_name=None if shared_name is None else f"{shared_name}_{i}",
                name=f"bucket_queue_{i}",
            )
            for i in range(num_buckets)
        ]
        enqueue = _enqueue_one(queues, which_bucket, flat, keep_input)
        tf.train.add_queue_runner(
            tf.train.QueueRunner(
                queues[0],
                [enqueue] * num_threads,
                close_op=tf.group(*[q.close() for q in queues]),
                cancel_op=tf.group(*[q.close(cancel_pending_enqueues=True) for q in queues]),
                queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError),
            )
        )
        _move_batches(queues, sizes, top, allow_smaller_final_batch)
        dequeued = top.dequeue()
    which, values = dequeued[0], list(dequeued[1:])
    if keys is not None:
        return which, dict(zip(keys, values, strict=True))
    return which, values


def _enqueue_one(queues: Any, which: Any, values: Any, keep: Any) -> Any:
    """An operation that puts the example into the queue of its bucket."""
    which = tf.cast(tf.convert_to_tensor(which), tf.int32)

    def into(queue: Any) -> Any:
        def put() -> Any:
            with tf.control_dependencies([queue.enqueue(values)]):
                return tf.constant(True)

        return put

    def choose(index: int) -> Any:
        if index == len(queues) - 1:
            return into(queues[index])()
        return tf.cond(tf.equal(which, index), into(queues[index]), lambda: choose(index + 1))

    if keep is True:
        return choose(0).op
    return tf.cond(tf.convert_to_tensor(keep), lambda: choose(0), lambda: tf.constant(False)).op


def _move_batches(queues: Any, sizes: Any, top: Any, smaller: bool) -> None:
    """Threads that move full batches from the buckets to the queue of batches."""
    for i, (queue, size) in enumerate(zip(queues, sizes, strict=True)):
        batch = queue.dequeue_up_to(size) if smaller else queue.dequeue_many(size)
        values = batch if isinstance(batch, list | tuple) else [batch]
        tf.train.add_queue_runner(
            tf.train.QueueRunner(
                top,
                [top.enqueue([tf.constant(i), *values])],
                queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError),
            )
        )


def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: Any,
    bucket_boundaries: Any,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Any = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """`bucket`, by length; returns (lengths, batch).

    Raises:
      ValueError: The boundaries are none, or do not rise.
    """
    boundaries = list(bucket_boundaries) if isinstance(bucket_boundaries, list | tuple) else []
    if not boundaries:
        raise ValueError("bucket_boundaries must not be empty")
    if any(a >= b for a, b in itertools.pairwise(boundaries)):
        raise ValueError(f"Buckets must be sorted in increasing order: {boundaries}")
    with tf.name_scope(name, "bucket_by_sequence_length", [input_length]):
        length = tf.cast(tf.convert_to_tensor(input_length), tf.int32)
        lows = tf.constant([-(2**31), *boundaries], tf.int32)
        highs = tf.constant([*boundaries, 2**31 - 1], tf.int32)
        inside = tf.logical_and(tf.less_equal(lows, length), tf.less(length, highs))
        which = tf.cast(tf.reduce_min(tf.where(inside)), tf.int32)
        keys = sorted(tensors) if isinstance(tensors, dict) else None
        flat = [tensors[k] for k in keys] if keys is not None else list(tensors)
        given = None if shapes is None else [tf.TensorShape([]), *shapes]
        _, batch = bucket(
            tensors=[length, *flat], which_bucket=which, batch_size=batch_size,
            num_buckets=len(boundaries) + 1, num_threads=num_threads, capacity=capacity,
            bucket_capacities=bucket_capacities, shapes=given, dynamic_pad=dynamic_pad,
            allow_smaller_final_batch=allow_smaller_final_batch, keep_input=keep_input,
            shared_name=shared_name,
        )  # fmt: skip
        lengths, values = batch[0], batch[1:]
        return lengths, values if keys is None else dict(zip(keys, values, strict=True))
