"""Writers of what TensorBoard reads: summaries, graphs and run metadata, as events.

A writer puts them into an event file of this process, or of the task of a session.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2, summary_pb2

from millrace.core import errors
from millrace.core.config import GraphDef, MetaGraphDef
from millrace.data.event_file import EventFile
from millrace.data.tfrecord import RecordReader
from millrace.graph import meta_graph
from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph
from millrace.summary.session_events import SessionEvents


class FileWriter:
    """Writes summaries, graphs and run metadata for TensorBoard."""

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        """Makes the folder and a new event file in it.

        Args:
          logdir: The folder.
          graph: A graph to write at once.
          max_queue: Events that may be held back before they are flushed.
          flush_secs: Seconds after which they are flushed at the latest.
          graph_def: A GraphDef to write at once (deprecated).
          filename_suffix: Added to the file's name.
          session: Writes through ops of the default graph, in the session's task, where the
            folder is then; else this process writes.
        """
        self._logdir = os.fspath(logdir)
        self._lock = threading.Lock()
        self._closed = False
        #: Tags whose metadata were written: once is enough.
        self._seen_tags: set[str] = set()
        self._events: EventFile | SessionEvents
        if session is None:
            self._events = EventFile(self._logdir, max_queue, flush_secs, filename_suffix or "")
        else:
            self._events = SessionEvents(
                session, self._logdir, max_queue, flush_secs, filename_suffix
            )
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
            message = graph.as_graph_def(add_shapes=True) if isinstance(graph, Graph) else graph_def
            self.add_meta_graph(meta_graph.create_meta_graph_def(graph_def=message or graph))

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def get_logdir(self) -> str:
        """The folder."""
        return str(self._logdir)

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        """Writes a summary, given as a message or as what a summary op returns.

        Raises:
          TypeError: It is neither.
        """
        if isinstance(summary, bytes):
            summary = summary_pb2.Summary.FromString(summary)
        elif not isinstance(summary, summary_pb2.Summary):
            raise TypeError(
                f"summary must be a Summary message or the bytes of one, saw type: {type(summary)}"
            )
        written = summary_pb2.Summary()
        written.CopyFrom(summary)
        for value in written.value:
            if value.HasField("metadata"):
                if value.tag in self._seen_tags:
                    value.ClearField("metadata")
                else:
                    self._seen_tags.add(value.tag)
        self._add(event_pb2.Event(summary=written), global_step)

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Writes a SessionLog message."""
        self._add(event_pb2.Event(session_log=session_log), global_step)

    def add_graph(self, graph: Any, global_step: int | None = None, graph_def: Any = None) -> None:
        """Writes a graph, for TensorBoard's graph page.

        Raises:
          TypeError: What was given is no graph.
        """
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        if isinstance(graph, Graph):
            message = graph.as_graph_def(add_shapes=True)
        elif isinstance(graph, GraphDef):
            message = graph
        elif isinstance(graph_def, GraphDef):
            message = graph_def
        else:
            raise TypeError(
                "The passed graph must be an instance of `Graph` or the deprecated `GraphDef`, "
                f"got {type(graph)}"
            )
        self._add(event_pb2.Event(graph_def=message.SerializeToString()), global_step)

    def add_meta_graph(self, meta_graph_def: Any, global_step: int | None = None) -> None:
        """Writes a MetaGraphDef.

        Raises:
          TypeError: What was given is none.
        """
        if not isinstance(meta_graph_def, MetaGraphDef):
            raise TypeError(
                f"meta_graph_def must be type MetaGraphDef, saw type: {type(meta_graph_def)}"
            )
        self._add(event_pb2.Event(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: int | None = None) -> None:
        """Writes what a traced step told, under a tag that is used once."""
        if tag in self._seen_tags:
            raise ValueError("The provided tag was already used for this event type")
        self._seen_tags.add(tag)
        event = event_pb2.Event()
        event.tagged_run_metadata.tag = tag
        event.tagged_run_metadata.run_metadata = run_metadata.SerializeToString()
        self._add(event, global_step)

    def add_event(self, event: Any) -> None:
        """Writes an Event message as it is."""
        with self._lock:
            if self._closed:
                warnings.warn(
                    "Attempting to use a closed FileWriter. The operation will be a noop unless "
                    "the FileWriter is explicitly reopened.",
                    stacklevel=3,
                )
                return
            self._events.add(event.SerializeToString())

    def _add(self, event: Any, global_step: int | None) -> None:
        event.wall_time = time.time()
        if global_step is not None:
            event.step = int(global_step)
        self.add_event(event)

    def flush(self) -> None:
        """Brings everything to the disk."""
        with self._lock:
            if not self._closed:
                self._events.flush()

    def close(self) -> None:
        """Flushes and closes the file; later events are dropped until `reopen`."""
        with self._lock:
            if not self._closed:
                self._events.close()
                self._closed = True

    def reopen(self) -> None:
        """Goes on in a new file after `close`."""
        with self._lock:
            if self._closed:
                self._events.reopen()
                self._closed = False


class FileWriterCache:
    """One FileWriter a folder, for all who ask."""

    _lock = threading.RLock()
    _writers: dict[str, FileWriter] = {}  # noqa: RUF012 - shared on purpose

    @staticmethod
    def get(logdir: Any) -> FileWriter:
        """The writer for a folder; when missing it is made, and the default graph written."""
        with FileWriterCache._lock:
            key = os.fspath(logdir)
            if key not in FileWriterCache._writers:
                FileWriterCache._writers[key] = FileWriter(key, graph=get_default_graph())
            return FileWriterCache._writers[key]

    @staticmethod
    def clear() -> None:
        """Closes all writers and forgets them."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._writers.values():
                writer.close()
            FileWriterCache._writers = {}


def summary_iterator(path: Any) -> Iterator[Any]:
    """The Event messages of an event file.

    Raises:
      DataLossError: While iterating, at a place where the file is damaged.
    """
    with RecordReader(path) as records:
        while True:
            offset = records.offset
            record = records.read()
            if record is None:
                return
            try:
                event = event_pb2.Event.FromString(record)
            except DecodeError as error:
                raise errors.DataLossError(
                    None, None, f"record at {offset} in file '{path}' is no event: {error}"
                ) from None
            yield event
