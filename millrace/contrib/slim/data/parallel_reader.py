"""Several readers at once, into one queue."""

from __future__ import annotations

from typing import Any

import millrace as tf


class ParallelReader:
    """Reads records with several readers; `common_queue` holds what they read."""

    def __init__(
        self,
        reader_class: Any,
        common_queue: Any,
        num_readers: int = 4,
        reader_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if len(common_queue.dtypes) != 2:
            raise TypeError("common_queue.dtypes must be [tf.string, tf.string]")
        for kind in common_queue.dtypes:
            if not kind.is_compatible_with(tf.string):
                raise TypeError("common_queue.dtypes must be [tf.string, tf.string]")
        self._readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        self._common_queue = common_queue

    @property
    def num_readers(self) -> int:
        """How many readers there are."""
        return len(self._readers)

    @property
    def common_queue(self) -> Any:
        """The queue of what was read."""
        return self._common_queue

    def read(self, queue: Any, name: str | None = None) -> Any:
        """The next (key, value); a queue runner fills the common queue from the files' queue."""
        self._configure_readers_by(queue)
        return self._common_queue.dequeue(name=name)

    def read_up_to(self, queue: Any, num_records: int, name: str | None = None) -> Any:
        """Up to so many (key, value)."""
        self._configure_readers_by(queue)
        return self._common_queue.dequeue_up_to(num_records, name)

    def _configure_readers_by(self, queue: Any) -> None:
        enqueue_ops = [self._common_queue.enqueue(reader.read(queue)) for reader in self._readers]
        tf.train.add_queue_runner(
            tf.train.QueueRunner(
                self._common_queue,
                enqueue_ops,
                queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError),
            )
        )


def get_data_files(data_sources: Any) -> list[str]:
    """Files of one pattern or several.

    Raises:
      ValueError: There are none.
    """
    if isinstance(data_sources, list | tuple):
        files: list[str] = [f for source in data_sources for f in get_data_files(source)]
    elif any(mark in data_sources for mark in "*?["):
        files = list(tf.gfile.Glob(data_sources))
    else:
        files = [data_sources]
    if not files:
        raise ValueError(f"No data files found in {data_sources}")
    return files


def parallel_read(
    data_sources: Any,
    reader_class: Any,
    num_epochs: int | None = None,
    num_readers: int = 4,
    reader_kwargs: dict[str, Any] | None = None,
    shuffle: bool = True,
    dtypes: Any = None,
    capacity: int = 256,
    min_after_dequeue: int = 128,
    seed: int | None = None,
    scope: str | None = None,
) -> Any:
    """(key, value) of records that several readers read from the files."""
    files = get_data_files(data_sources)
    with tf.name_scope(scope, "parallel_read"):
        names = tf.train.string_input_producer(
            files, num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames"
        )
        kinds = dtypes or [tf.string, tf.string]
        if shuffle:
            queue: Any = tf.RandomShuffleQueue(
                capacity=capacity,
                min_after_dequeue=min_after_dequeue,
                dtypes=kinds,
                seed=seed,
                name="common_queue",
            )
        else:
            queue = tf.FIFOQueue(capacity=capacity, dtypes=kinds, name="common_queue")
        tf.summary.scalar(
            f"{queue.name}/fraction_of_{capacity}_full",
            tf.to_float(queue.size()) * (1.0 / capacity),
        )
        return ParallelReader(
            reader_class, queue, num_readers=num_readers, reader_kwargs=reader_kwargs
        ).read(names)


def single_pass_read(
    data_sources: Any,
    reader_class: Any,
    reader_kwargs: dict[str, Any] | None = None,
    scope: str | None = None,
) -> Any:
    """(key, value) of every record once, in order."""
    files = get_data_files(data_sources)
    with tf.name_scope(scope, "single_pass_read"):
        names = tf.train.string_input_producer(
            files, num_epochs=1, shuffle=False, capacity=1, name="filenames"
        )
        return reader_class(**(reader_kwargs or {})).read(names)
