"""Queues that threads of the client fill from arrays in memory.

`enqueue_columns` builds the queue and its runner. A `RowFeed` says which rows come next; epochs
are counted per thread, as in TensorFlow.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import millrace as tf

#: Columns for some row numbers: what one enqueue gets.
Columns = Callable[[list[int]], list[Any]]


class RowFeed:
    """Feeds of one thread: the next rows of all columns, epoch after epoch."""

    def __init__(
        self,
        placeholders: Sequence[Any],
        columns: Columns,
        num_rows: int,
        enqueue_size: int,
        random_start: bool = False,
        seed: int | None = None,
        num_epochs: int | None = None,
    ) -> None:
        """Makes the feeds.

        Args:
          placeholders: What is fed, one for each column.
          columns: Gives the columns for row numbers.
          num_rows: How many rows there are.
          enqueue_size: How many are enqueued at a time.
          random_start: Whether to begin anywhere.
          seed: Of the random start.
          num_epochs: How often all rows come; None for ever.
        """
        self._placeholders = placeholders
        self._columns = columns
        self._num_rows = num_rows
        self._enqueue_size = enqueue_size
        self._num_epochs = num_epochs
        self._next = random.Random(seed).randrange(num_rows) if random_start else 0
        #: How many rows are still to come; None for ever.
        self._left = None if num_epochs is None else num_epochs * num_rows

    def __call__(self) -> dict[Any, Any]:
        """The feed of the next enqueue.

        Raises:
          tf.errors.OutOfRangeError: All epochs are over.
        """
        size = self._enqueue_size
        if self._left is not None:
            if self._left == 0:
                raise tf.errors.OutOfRangeError(
                    None, None, f"Already emitted {self._num_epochs} epochs."
                )
            size = min(size, self._left)
            self._left -= size
        rows = [(self._next + i) % self._num_rows for i in range(size)]
        self._next = (rows[-1] + 1) % self._num_rows
        return dict(zip(self._placeholders, self._columns(rows), strict=True))


class FeedingQueueRunner(tf.train.QueueRunner):
    """A queue runner each of whose threads feeds what it enqueues."""

    def __init__(self, queue: Any, enqueue_ops: Sequence[Any], feed_fns: Sequence[Any]) -> None:
        """Takes as many feed functions as operations."""
        super().__init__(
            queue,
            enqueue_ops,
            queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError),
        )
        self._feed_fns = dict(zip(enqueue_ops, feed_fns, strict=True))

    def _enqueuing(self, session: Any, enqueue_op: Any) -> tuple[Callable[[], Any], Any]:
        feed = self._feed_fns[enqueue_op]
        return lambda: session.run(enqueue_op, feed_dict=feed()), None

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Cannot be stored: what it feeds is in this process only."""
        raise NotImplementedError(f"{type(self).__name__} does not support serialization to proto.")


def enqueue_columns(
    columns: Columns,
    num_rows: int,
    dtypes: Sequence[Any],
    shapes: Sequence[Any],
    capacity: int,
    shuffle: bool = False,
    min_after_dequeue: float | None = None,
    num_threads: int = 1,
    seed: int | None = None,
    name: str = "enqueue_input",
    enqueue_size: int = 1,
    num_epochs: int | None = None,
) -> Any:
    """A queue of rows, filled by a queue runner of the default graph.

    Args:
      columns: Gives the columns for row numbers.
      num_rows: How many rows there are.
      dtypes: The columns' types.
      shapes: The shapes of their elements.
      capacity: How many rows the queue holds.
      shuffle: Whether rows leave it in random order.
      min_after_dequeue: How many rows stay behind to be mixed; a quarter of `capacity` by default.
      num_threads: How many threads fill it.
      seed: Of the order.
      name: A scope.
      enqueue_size: How many rows are enqueued at a time.
      num_epochs: How often each thread enqueues all rows; None for ever.
    """
    _warn_of_threads(shuffle, num_threads, num_epochs)
    with tf.name_scope(name):
        if shuffle:
            kept = int(capacity / 4 if min_after_dequeue is None else min_after_dequeue)
            queue: Any = tf.RandomShuffleQueue(capacity, kept, dtypes, shapes, seed=seed)
        else:
            kept = 0
            queue = tf.FIFOQueue(capacity, dtypes, shapes)
        enqueue_ops, feeds = [], []
        for thread in range(num_threads):
            placeholders = [tf.placeholder(dtype) for dtype in dtypes]
            enqueue_ops.append(queue.enqueue_many(placeholders))
            thread_seed = None if seed is None else (thread + 1) * seed
            feeds.append(
                RowFeed(
                    placeholders, columns, num_rows, enqueue_size, shuffle, thread_seed, num_epochs
                )
            )
        tf.train.add_queue_runner(FeedingQueueRunner(queue, enqueue_ops, feeds))
        room = capacity - kept
        full = tf.cast(tf.maximum(0, queue.size() - kept), tf.float32) * (1.0 / room)
        tf.summary.scalar(f"queue/{queue.name}fraction_over_{kept}_of_{room}_full", full)
    return queue


def _warn_of_threads(shuffle: bool, num_threads: int, num_epochs: int | None) -> None:
    if num_threads <= 1:
        return
    if num_epochs is not None:
        tf.logging.warning(
            "enqueue_data was called with num_epochs and num_threads > 1. num_epochs is applied "
            "per thread, so this will produce more epochs than you probably intend. If you want to "
            "limit epochs, use one thread."
        )
    if shuffle and num_epochs is not None:
        tf.logging.warning(
            "enqueue_data was called with shuffle=True, num_threads > 1, and num_epochs. This will "
            "create multiple threads, all reading the array/dataframe in order adding to the same "
            "shuffling queue; the results will likely not be sufficiently shuffled."
        )
    if not shuffle:
        tf.logging.warning(
            "enqueue_data was called with shuffle=False and num_threads > 1. This will create "
            "multiple threads, all reading the array/dataframe in order. If you want examples read "
            "in order, use one thread; if you want multiple threads, enable shuffling."
        )


def check_shuffle(shuffle: Any) -> None:
    """Input functions have no default for `shuffle`.

    Raises:
      ValueError: It is no bool.
    """
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it "
            f"as True for training); got {shuffle}"
        )


def dequeue_batch(queue: Any, batch_size: int, num_epochs: int | None) -> list[Any]:
    """A batch of all columns; the last one of limited epochs may be smaller."""
    take = queue.dequeue_many if num_epochs is None else queue.dequeue_up_to
    return list(take(batch_size))


def array_columns(arrays: Mapping[str, Any]) -> Columns:
    """Row numbers, then the rows of each array."""
    return lambda rows: [rows, *(array[rows] for array in arrays.values())]
