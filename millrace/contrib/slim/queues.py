"""`slim.queues`: queue runners for a block of code."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import millrace as tf


class NestedQueueRunnerError(Exception):
    """Queue runners were started inside a block that runs them."""


@contextlib.contextmanager
def QueueRunners(session: Any) -> Iterator[list[threading.Thread]]:
    """Runs the graph's queue runners while the block lasts."""
    coord = tf.train.Coordinator()
    if not tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
        yield []
        return
    threads = tf.train.start_queue_runners(session, coord=coord)
    try:
        yield threads
    finally:
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=120)
