"""Event files, which TensorBoard reads: Event messages in TFRecord framing.

Writing is done in the caller's thread, under a lock; it reaches the disk with `flush`, when
enough has gathered, every so many seconds, and at `close`.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time

from tensorboard.compat.proto import event_pb2

from millrace.data.tfrecord import TFRecordWriter
from millrace.platform import gfile

#: Names a file in which each folder of event files is noted: so a launcher finds them.
FOLDERS_NOTED_IN = "MILLRACE_EVENT_FOLDERS"
#: What that file is called beside a job's logs.
FOLDERS_FILE = "event-folders.txt"

_serials = itertools.count()


class EventFile:
    """A new event file in a folder, which is made if need be.

    Args:
      logdir: The folder.
      max_queue: Events that may be held back before they are flushed.
      flush_secs: Seconds after which they are flushed at the latest.
      suffix: Added to the file's name.
    """

    def __init__(
        self, logdir: str, max_queue: int = 10, flush_secs: float = 120, suffix: str = ""
    ) -> None:
        self._logdir = logdir
        self._suffix = suffix
        self._max_queue = max_queue
        self._flush_secs = flush_secs
        self._lock = threading.Lock()
        self._writer: TFRecordWriter | None = None
        self._pending = 0
        self._flushed_at = time.monotonic()
        if not gfile.Exists(logdir):
            gfile.MakeDirs(logdir)
        self._open()

    def _open(self) -> None:
        name = (
            f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}."
            f"{os.getpid()}.{next(_serials)}{self._suffix}"
        )
        self._writer = TFRecordWriter(os.path.join(self._logdir, name))
        first = event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2")
        self._writer.write(first.SerializeToString())
        self._writer.flush()
        if notes := os.environ.get(FOLDERS_NOTED_IN):
            local = "://" not in self._logdir
            with open(notes, "a") as file:
                print(os.path.abspath(self._logdir) if local else self._logdir, file=file)

    def add(self, event: bytes) -> None:
        """Writes an Event message; dropped when the file is closed."""
        with self._lock:
            if self._writer is None:
                return
            self._writer.write(event)
            self._pending += 1
            now = time.monotonic()
            if self._pending >= self._max_queue or now - self._flushed_at >= self._flush_secs:
                self._flush(now)

    def _flush(self, now: float) -> None:
        if self._writer is not None:
            self._writer.flush()
            self._pending, self._flushed_at = 0, now

    def flush(self) -> None:
        """Brings everything to the disk."""
        with self._lock:
            self._flush(time.monotonic())

    def close(self) -> None:
        """Flushes and closes the file."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def reopen(self) -> None:
        """Goes on in a new file after `close`."""
        with self._lock:
            if self._writer is None:
                self._open()
