"""``tf.summary``: summaries, and the event files that TensorBoard shows. Re-exports only."""

from millrace.core.config import (
    Event,
    SessionLog,
    Summary,
    SummaryDescription,
    TaggedRunMetadata,
)
from millrace.summary.builders import (
    audio,
    get_summary_description,
    histogram,
    image,
    merge,
    merge_all,
    scalar,
    tensor_summary,
    text,
)
from millrace.summary.writer import FileWriter, FileWriterCache

__all__ = [
    "Event",
    "FileWriter",
    "FileWriterCache",
    "SessionLog",
    "Summary",
    "SummaryDescription",
    "TaggedRunMetadata",
    "audio",
    "get_summary_description",
    "histogram",
    "image",
    "merge",
    "merge_all",
    "scalar",
    "tensor_summary",
    "text",
]
