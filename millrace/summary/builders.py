"""The functions of `tf.summary`: nodes that make Summary messages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from google.protobuf import json_format
from tensorboard.compat.proto import summary_pb2

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import add_to_collections, get_collection, name_scope
from millrace.graph.keys import GraphKeys
from millrace.graph.tensor import Tensor
from millrace.ops.array import identity as array_identity
from millrace.ops.io import summaries
from millrace.platform import logging

_UNWANTED = re.compile(r"[^-/\w\.]")


def _clean(name: str) -> str:
    """A name in which everything that a node's name may not have is an underscore."""
    cleaned = _UNWANTED.sub("_", name).lstrip("/")
    if cleaned != name:
        logging.info("Summary name %s is illegal; using %s instead.", name, cleaned)
    return cleaned


@contextlib.contextmanager
def _scope(
    name: str, family: str | None, default_name: str | None = None, values: Any = None
) -> Iterator[tuple[str, str]]:
    """A name scope for a summary: (tag, scope)."""
    name = _clean(name)
    scope_name = f"{_clean(family)}/{name}" if family else name
    with name_scope(scope_name, default_name, values) as scope:
        tag = scope.rstrip("/")
        if family:
            tag = f"{_clean(family)}/{tag}"
        yield tag, scope


def _collect(value: Tensor, collections: Any) -> Tensor:
    add_to_collections([GraphKeys.SUMMARIES] if collections is None else collections, value)
    return value


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary with one number.

    Args:
      name: The node's name, and the tag in TensorBoard.
      tensor: A scalar.
      collections: Where to add it; SUMMARIES when None.
      family: A prefix that groups tags in TensorBoard.
    """
    with _scope(name, family, values=[tensor]) as (tag, scope):
        return _collect(summaries.ScalarSummary(tag, tensor, name=scope), collections)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary with the distribution of a tensor's values."""
    with _scope(name, family, "HistogramSummary", [values]) as (tag, scope):
        return _collect(summaries.HistogramSummary(tag, values, name=scope), collections)


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Tensor:
    """A summary with the first images of a batch [batch, height, width, 1, 3 or 4]."""
    with _scope(name, family, values=[tensor]) as (tag, scope):
        return _collect(
            summaries.ImageSummary(
                tag,
                tensor,
                max_images=max_outputs,
                bad_color=np.array([255, 0, 0, 255], np.uint8),
                name=scope,
            ),
            collections,
        )


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Tensor:
    """A summary with the first sounds of a batch [batch, frames(, channels)]."""
    with _scope(name, family, values=[tensor]) as (tag, scope):
        rate = convert_to_tensor(sample_rate, dtypes.float32, name="sample_rate")
        return _collect(
            summaries.AudioSummaryV2(tag, tensor, rate, max_outputs=max_outputs, name=scope),
            collections,
        )


def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: str | None = None,
    collections: Any = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """A summary with a whole tensor, for a plugin of TensorBoard."""
    metadata = summary_pb2.SummaryMetadata()
    if summary_metadata is not None:
        metadata.CopyFrom(summary_metadata)
    if summary_description is not None:
        metadata.summary_description = summary_description
    if display_name is not None:
        metadata.display_name = display_name
    with _scope(name, family, values=[tensor]) as (tag, scope):
        return _collect(
            summaries.TensorSummaryV2(tag, tensor, metadata.SerializeToString(), name=scope),
            collections,
        )


def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """A summary with text (Markdown)."""
    tensor = convert_to_tensor(tensor)
    if tensor.dtype.base_dtype != dtypes.string:
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    metadata = summary_pb2.SummaryMetadata()
    metadata.plugin_data.plugin_name = "text"
    return tensor_summary(name, tensor, collections=collections, summary_metadata=metadata)


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """One summary with the values of several."""
    inputs = [convert_to_tensor(value, dtypes.string) for value in inputs]
    with name_scope(name, "Merge", inputs):
        merged: Tensor = summaries.MergeSummary(inputs, name=name)
        if collections is not None:
            add_to_collections(collections, merged)
        return merged


def merge_all(
    key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None
) -> Tensor | None:
    """All summaries of the graph as one, or None when there are none."""
    found = get_collection(key, scope=scope)
    return merge(found, name=name) if found else None


def get_summary_description(node_def: Any) -> Any:
    """The description that a TensorSummary node carries (as JSON), as a message.

    Raises:
      ValueError: The node is of another type.
    """
    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    text = node_def.attr["description"].s.decode()
    return json_format.Parse(text, summary_pb2.SummaryDescription())


# -- The names of TensorFlow 0.x: the tag comes first and may be a tensor ---------------------


def scalar_summary(
    tags: Any, values: Any, collections: Any = None, name: str | None = None
) -> Tensor:
    """The old form of `scalar`."""
    with name_scope(name, "ScalarSummary", [tags, values]) as scope:
        return _collect(summaries.ScalarSummary(tags, values, name=scope), collections)


def histogram_summary(
    tag: Any, values: Any, collections: Any = None, name: str | None = None
) -> Tensor:
    """The old form of `histogram`."""
    with name_scope(name, "HistogramSummary", [tag, values]) as scope:
        return _collect(summaries.HistogramSummary(tag, values, name=scope), collections)


def image_summary(
    tag: Any, tensor: Any, max_images: int = 3, collections: Any = None, name: str | None = None
) -> Tensor:
    """The old form of `image`."""
    with name_scope(name, "ImageSummary", [tag, tensor]) as scope:
        return _collect(
            summaries.ImageSummary(
                tag,
                tensor,
                max_images=max_images,
                bad_color=np.array([255, 0, 0, 255], np.uint8),
                name=scope,
            ),
            collections,
        )


def audio_summary(
    tag: Any,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Any = None,
    name: str | None = None,
) -> Tensor:
    """The old form of `audio`."""
    with name_scope(name, "AudioSummary", [tag, tensor]) as scope:
        rate = array_identity.identity(convert_to_tensor(sample_rate, dtypes.float32))
        return _collect(
            summaries.AudioSummaryV2(tag, tensor, rate, max_outputs=max_outputs, name=scope),
            collections,
        )


merge_summary = merge
merge_all_summaries = merge_all
