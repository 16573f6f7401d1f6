"""Event files as resources: what a FileWriter with a session puts into the graph.

The file is in the task in which the ops are placed, and lasts until it is closed or its container
is cleared; writers of one shared name write into one file.
"""

from __future__ import annotations

from typing import Any

from millrace.core.resource_handle import handle_of
from millrace.data.event_file import EventFile
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import none, scalars
from millrace.ops.data_flow import shared_state

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
