"""Event files as resources: what a FileWriter with a session puts into the graph.

The file is in the task in which the ops are placed, and lasts until it is closed or its container
is cleared; writers of one shared name write into one file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from millrace.core.config import Event
from millrace.core.resource_handle import handle_of
from millrace.data.event_file import EventFile
from millrace.graph.define import Op, op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import none, scalars
from millrace.ops.data_flow import shared_state
from millrace.ops.io import summaries

__all__: list[str] = []


@op(
    'SummaryWriter() -> writer: resource where shared_name: string = ""; container: string = ""',
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def SummaryWriter(*, ctx: Any, node: Any) -> Any:
    """The handle of an event file, which CreateSummaryFileWriter opens."""
    handle = shared_state.name_of(ctx, node, use_node_name=True)
    return shared_state.give_out(handle, node)


@op(
    "CreateSummaryFileWriter(writer: resource, logdir: string, max_queue: int32, "
    "flush_millis: int32, filename_suffix: string)",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def CreateSummaryFileWriter(
    writer: Any, logdir: Any, max_queue: Any, flush_millis: Any, filename_suffix: Any, *, ctx: Any
) -> None:
    """Opens an event file, unless the writer has one."""
    shared_state.make(
        EventFile,
        ctx,
        handle_of(writer),
        lambda: EventFile(
            logdir.item().decode(),
            int(max_queue),
            int(flush_millis) / 1000,
            filename_suffix.item().decode(),
        ),
    )


@op(
    "ImportEvent(writer: resource, event: string)",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def ImportEvent(writer: Any, event: Any, *, ctx: Any) -> None:
    """Writes an Event message."""
    shared_state.find(EventFile, ctx, writer).add(event.item())


@op(
    "FlushSummaryWriter(writer: resource)",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def FlushSummaryWriter(writer: Any, *, ctx: Any) -> None:
    """Brings to the disk what was written."""
    shared_state.find(EventFile, ctx, writer).flush()


@op(
    "CloseSummaryWriter(writer: resource)",
    shape=none,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def CloseSummaryWriter(writer: Any, *, ctx: Any) -> None:
    """Closes the event file; the writer may be given a new one."""
    found = ctx.resources.remove(EventFile, handle_of(writer))
    if found is not None:
        found.close()


def _write(ctx: Any, writer: Any, step: Any, summary: bytes) -> None:
    event = Event(step=int(step), wall_time=time.time())
    event.summary.ParseFromString(summary)
    shared_state.find(EventFile, ctx, writer).add(event.SerializeToString())


def _writing(signature: str) -> Callable[[Callable[..., Any]], Op]:
    return op(signature, shape=none, gradient=NO_GRADIENT, host=True, stateful=True)


@_writing("WriteScalarSummary(writer: resource, step: int64, tag: string, value: T) where T: real")
def WriteScalarSummary(writer: Any, step: Any, tag: Any, value: Any, *, ctx: Any) -> None:
    """Writes a number."""
    _write(ctx, writer, step, summaries.ScalarSummary.kernel(tag, value).item())


@_writing(
    "WriteHistogramSummary(writer: resource, step: int64, tag: string, values: T) where "
    "T: real = float32"
)
def WriteHistogramSummary(writer: Any, step: Any, tag: Any, values: Any, *, ctx: Any) -> None:
    """Writes the distribution of values."""
    _write(ctx, writer, step, summaries.HistogramSummary.kernel(tag, values).item())


@_writing(
    "WriteImageSummary(writer: resource, step: int64, tag: string, tensor: T, bad_color: uint8) "
    "where max_images: int >= 1 = 3; T: {uint8, float16, float32} = float32"
)
def WriteImageSummary(
    writer: Any, step: Any, tag: Any, tensor: Any, bad_color: Any, *, max_images: int, ctx: Any
) -> None:
    """Writes a few images of a batch."""
    made = summaries.ImageSummary.kernel(tag, tensor, max_images=max_images, bad_color=bad_color)
    _write(ctx, writer, step, made.item())


@_writing(
    "WriteAudioSummary(writer: resource, step: int64, tag: string, tensor: float32, "
    "sample_rate: float32) where max_outputs: int >= 1 = 3"
)
def WriteAudioSummary(
    writer: Any, step: Any, tag: Any, tensor: Any, sample_rate: Any, *, max_outputs: int, ctx: Any
) -> None:
    """Writes a few sounds of a batch."""
    made = summaries.AudioSummaryV2.kernel(tag, tensor, sample_rate, max_outputs=max_outputs)
    _write(ctx, writer, step, made.item())


@_writing(
    "WriteSummary(writer: resource, step: int64, tensor: T, tag: string, summary_metadata: string)"
)
def WriteSummary(
    writer: Any, step: Any, tensor: Any, tag: Any, summary_metadata: Any, *, ctx: Any
) -> None:
    """Writes a tensor, with what a plugin of TensorBoard needs to know."""
    made = summaries.TensorSummaryV2.kernel(tag, tensor, summary_metadata)
    _write(ctx, writer, step, made.item())


@_writing("WriteRawProtoSummary(writer: resource, step: int64, tensor: string)")
def WriteRawProtoSummary(writer: Any, step: Any, tensor: Any, *, ctx: Any) -> None:
    """Writes Summary messages as they are."""
    for message in tensor.reshape(-1):
        _write(ctx, writer, step, message)


@_writing("WriteGraphSummary(writer: resource, step: int64, tensor: string)")
def WriteGraphSummary(writer: Any, step: Any, tensor: Any, *, ctx: Any) -> None:
    """Writes a GraphDef message."""
    event = Event(step=int(step), wall_time=time.time(), graph_def=tensor.item())
    shared_state.find(EventFile, ctx, writer).add(event.SerializeToString())
