"""`tf.contrib.summary`: ops that write into an event file themselves, where a step is recorded.

A writer is a resource of the task on which it is placed. Which writer is the default, and whether
summaries are recorded, belongs to the thread that builds the graph.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import millrace as tf
from millrace.ops.io import summary_writers as ops

__all__ = [
    "SummaryWriter", "all_summary_ops", "always_record_summaries", "audio", "create_file_writer",
    "create_summary_file_writer", "eval_dir", "flush", "generic", "graph", "histogram", "image",
    "import_event", "initialize", "never_record_summaries", "record_summaries_every_n_global_steps",
    "scalar", "should_record_summaries", "summary_writer_initializer_op",
]  # fmt: skip

_WRITTEN = "_SUMMARY_V2"
_INITIALIZERS = "_SUMMARY_WRITER_V2"


class _State(threading.local):
    writer: Any = None
    #: A bool, or a scalar tensor.
    recording: Any = False


_state = _State()


class SummaryWriter:
    """An event file that ops write into."""

    def __init__(self, resource: Any, init_op: Any) -> None:
        """Takes the resource, and the op that opens the file."""
        self._resource = resource
        self._init_op = init_op

    def init(self) -> Any:
        """The op that opens the file."""
        return self._init_op

    def set_as_default(self) -> None:
        """Lets summaries that are built from now on go here."""
        _state.writer = self

    @contextlib.contextmanager
    def as_default(self) -> Iterator[SummaryWriter]:
        """Lets summaries that are built inside go here."""
        before, _state.writer = _state.writer, self
        try:
            yield self
        finally:
            _state.writer = before

    def flush(self) -> Any:
        """An op that brings to the disk what was written."""
        return flush(self)

    def close(self) -> Any:
        """An op that closes the file."""
        return ops.CloseSummaryWriter.operation(self._resource)


def create_file_writer(
    logdir: Any,
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
) -> SummaryWriter:
    """A writer of an event file in a folder.

    Args:
      logdir: The folder. None for a writer that nobody writes into.
      max_queue: How many events wait at most; 10 if None.
      flush_millis: How long they wait at most; two minutes if None.
      filename_suffix: The end of the file's name.
      name: What writers of one file share; the folder if None.
    """
    if logdir is None:
        return _NoWriter(None, None)
    with tf.device("cpu:0"):
        shared = name or f"logdir:{logdir}"
        resource = ops.SummaryWriter(shared_name=shared)
        opened = ops.CreateSummaryFileWriter.operation(
            resource,
            logdir,
            10 if max_queue is None else max_queue,
            2 * 60 * 1000 if flush_millis is None else flush_millis,
            ".v2" if filename_suffix is None else filename_suffix,
        )
    tf.add_to_collection(_INITIALIZERS, opened)
    return SummaryWriter(resource, opened)


create_summary_file_writer = create_file_writer


class _NoWriter(SummaryWriter):
    """Summaries go nowhere."""

    def set_as_default(self) -> None:
        """No writer is the default."""
        _state.writer = None

    @contextlib.contextmanager
    def as_default(self) -> Iterator[SummaryWriter]:
        """No writer is the default inside."""
        before, _state.writer = _state.writer, None
        try:
            yield self
        finally:
            _state.writer = before

    def init(self) -> Any:
        """Nothing to open."""
        return tf.no_op()

    close = flush = init


@contextlib.contextmanager
def _recording(value: Any) -> Iterator[None]:
    before, _state.recording = _state.recording, value
    try:
        yield
    finally:
        _state.recording = before


def always_record_summaries() -> Any:
    """A context whose summaries are recorded."""
    return _recording(True)


def never_record_summaries() -> Any:
    """A context whose summaries are not recorded."""
    return _recording(False)


def record_summaries_every_n_global_steps(n: int, global_step: Any = None) -> Any:
    """A context whose summaries are recorded in every n-th step.

    Args:
      n: How often.
      global_step: The step; the graph's if None.
    """
    step = tf.train.get_or_create_global_step() if global_step is None else global_step
    with tf.device("cpu:0"):
        value = step if isinstance(step, tf.Tensor) else step.value()
        return _recording(tf.equal(value % n, 0))


def should_record_summaries() -> Any:
    """Whether summaries are recorded here: a bool, or a scalar tensor."""
    return _state.recording


def all_summary_ops() -> list[Any]:
    """The ops that write summaries, of the graph."""
    return tf.get_collection(_WRITTEN)


def summary_writer_initializer_op() -> list[Any]:
    """The ops that open the files, of the graph."""
    return tf.get_collection(_INITIALIZERS)


def initialize(graph: Any = None, session: Any = None) -> None:
    """Opens the files of the graph, and writes a graph if one is given.

    Args:
      graph: The graph to write.
      session: The session; the default one if None.

    Raises:
      ValueError: There is no session.
    """
    if _state.writer is None:
        return
    session = session or tf.get_default_session()
    if session is None:
        raise ValueError("session must be passed if no default session exists")
    session.run(summary_writer_initializer_op())
    if graph is not None:
        message = graph.as_graph_def(add_shapes=True).SerializeToString()
        session.run(ops.WriteGraphSummary.operation(_state.writer._resource, 0, message))


def _written(write: Callable[[Any, Any, str], Any], name: str, family: Any, step: Any) -> Any:
    """Adds a writing op to the graph, where a writer is the default and steps are recorded."""
    writer = _state.writer
    if writer is None or _state.recording is False:
        return tf.no_op()
    label = f"{family}/{name}" if family else name
    with tf.name_scope(label) as scope, tf.device("cpu:0"):
        at = tf.train.get_or_create_global_step() if step is None else step
        at = tf.cast(at, tf.int64)

        def record() -> Any:
            made = write(writer._resource, at, scope.rstrip("/"))
            with tf.control_dependencies([made]):
                return tf.constant(True)

        if _state.recording is True:
            done = record()
        else:
            done = tf.cond(_state.recording, record, lambda: tf.constant(False))
        tf.add_to_collection(_WRITTEN, done.op)
        return done.op


def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Writes a number.

    Args:
      name: Its name.
      tensor: A scalar.
      family: What comes before the name.
      step: The step; the global step if None. So in all that follow.
    """
    return _written(
        lambda writer, at, tag: ops.WriteScalarSummary.operation(writer, at, tag, tensor),
        name, family, step,
    )  # fmt: skip


def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Writes the distribution of a tensor's values."""
    return _written(
        lambda writer, at, tag: ops.WriteHistogramSummary.operation(writer, at, tag, tensor),
        name, family, step,
    )  # fmt: skip


def image(
    name: str, tensor: Any, bad_color: Any = None, max_images: int = 3, family: str | None = None,
    step: Any = None,
) -> Any:  # fmt: skip
    """Writes a few images of a batch."""
    color = tf.constant([255, 0, 0, 255], tf.uint8) if bad_color is None else bad_color
    return _written(
        lambda writer, at, tag: ops.WriteImageSummary.operation(
            writer, at, tag, tensor, color, max_images=max_images
        ),
        name, family, step,
    )  # fmt: skip


def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int, family: str | None = None,
    step: Any = None,
) -> Any:  # fmt: skip
    """Writes a few sounds of a batch."""
    return _written(
        lambda writer, at, tag: ops.WriteAudioSummary.operation(
            writer, at, tag, tensor, sample_rate, max_outputs=max_outputs
        ),
        name, family, step,
    )  # fmt: skip


def generic(
    name: str, tensor: Any, metadata: Any = None, family: str | None = None, step: Any = None
) -> Any:
    """Writes a tensor, with what a plugin of TensorBoard needs to know."""
    about = b"" if metadata is None else metadata
    about = about.SerializeToString() if hasattr(about, "SerializeToString") else about
    return _written(
        lambda writer, at, tag: ops.WriteSummary.operation(writer, at, tensor, tag, about),
        name, family, step,
    )  # fmt: skip


def graph(param: Any, step: Any = None, name: str | None = None) -> Any:
    """Writes a graph, which is given as a serialised GraphDef in a tensor."""
    if _state.writer is None:
        return tf.no_op()
    at = tf.train.get_or_create_global_step() if step is None else step
    return ops.WriteGraphSummary.operation(_state.writer._resource, tf.cast(at, tf.int64), param)


def import_event(tensor: Any, name: str | None = None) -> Any:
    """Writes a serialised Event."""
    return ops.ImportEvent.operation(_state.writer._resource, tensor)


def flush(writer: Any = None, name: str | None = None) -> Any:
    """An op that brings to the disk what was written."""
    writer = writer or _state.writer
    if writer is None:
        return tf.no_op()
    return ops.FlushSummaryWriter.operation(getattr(writer, "_resource", writer))


def eval_dir(model_dir: str, name: str | None = None) -> str:
    """The folder of an evaluation's summaries."""
    return f"{model_dir}/eval{'_' + name if name else ''}"
