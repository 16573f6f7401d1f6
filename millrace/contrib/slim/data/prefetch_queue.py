"""A queue that keeps batches ready."""

from __future__ import annotations

from typing import Any

import millrace as tf


class _Prefetched:
    """A queue of batches in the structure that they were given in."""

    def __init__(self, queue: Any, keys: list[str] | None) -> None:
        self._queue = queue
        self._keys = keys

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def dequeue(self, name: str | None = None) -> Any:
        """The next batch."""
        values = self._queue.dequeue(name=name)
        if self._keys is None:
            return values
        flat = values if isinstance(values, list | tuple) else [values]
        return dict(zip(self._keys, flat, strict=True))


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """A queue that a thread keeps full of `tensors`; ``.dequeue()`` gives the next ones."""
    keys = sorted(tensors) if isinstance(tensors, dict) else None
    flat = [tensors[key] for key in keys] if keys is not None else tensors
    flat = list(flat) if isinstance(flat, list | tuple) else [flat]
    with tf.name_scope(name, "prefetch_queue", flat) as scope:
        flat = [tf.convert_to_tensor(t) for t in flat]
        queue_type = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        queue = queue_type(
            capacity=capacity,
            dtypes=[t.dtype.base_dtype for t in flat],
            shapes=[t.shape for t in flat]
            if dynamic_pad or all(t.shape.is_fully_defined() for t in flat)
            else None,
            shared_name=shared_name,
            name=scope,
        )
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(flat)] * num_threads))
        tf.summary.scalar(
            f"fraction_of_{capacity}_full", tf.to_float(queue.size()) * (1.0 / capacity)
        )
        return _Prefetched(queue, keys)
