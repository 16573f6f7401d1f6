"""Where a FileWriter with a session sends its events: to an event file behind ops of the graph."""

from __future__ import annotations

from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies, device, name_scope
from millrace.ops.array import constant
from millrace.ops.io import summary_writers

#: What TensorFlow adds to the names of such files.
_SUFFIX = ".v2"


class SessionEvents:
    """An event file in the task of a session; the same calls as `data.event_file.EventFile`.

    Adds its nodes to the default graph, under the names that TensorFlow gives them. Writers of one
    folder in one task share a file.

    Args:
      session: Runs them.
      logdir: The folder, as the session's task sees it.
      max_queue: Events that may be held back before they are flushed.
      flush_secs: Seconds after which they are flushed at the latest.
      suffix: Added to the file's name.
    """

    def __init__(
        self, session: Any, logdir: str, max_queue: int, flush_secs: float, suffix: str | None
    ) -> None:
        self._session = session
        with name_scope("filewriter"):
            ending: Any = suffix
            with device("cpu:0"):
                if suffix is None:
                    ending = constant.constant(_SUFFIX, name="Const")
                writer = summary_writers.SummaryWriter(
                    shared_name=f"logdir:{logdir}".encode(), name="SummaryWriter"
                )

                def opened() -> Any:
                    return summary_writers.CreateSummaryFileWriter.operation(
                        writer,
                        logdir,
                        max_queue,
                        int(flush_secs * 1000),
                        ending,
                        name="CreateSummaryFileWriter",
                    )

                def flushed() -> Any:
                    return summary_writers.FlushSummaryWriter.operation(
                        writer, name="FlushSummaryWriter"
                    )

                opened()
                unused = convert_to_tensor("unused", dtypes.string, name="Const")
                self._event = constant.placeholder_with_default(unused, [])
                self._add = summary_writers.ImportEvent.operation(
                    writer, self._event, name="ImportEvent"
                )
                flushed()
                self._open = opened()
                self._flush = flushed()
                with control_dependencies([flushed()]):
                    self._close = summary_writers.CloseSummaryWriter.operation(
                        writer, name="CloseSummaryWriter"
                    )
        self._session.run(self._open)

    def add(self, event: bytes) -> None:
        """Writes an Event message."""
        self._session.run(self._add, {self._event: event})

    def flush(self) -> None:
        """Brings everything to the disk."""
        self._session.run(self._flush)

    def close(self) -> None:
        """Flushes and closes the file."""
        self._session.run(self._close)

    def reopen(self) -> None:
        """Goes on in a new file after `close`."""
        self._session.run(self._open)
