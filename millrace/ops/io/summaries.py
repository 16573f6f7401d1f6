"""Summary ops: tensors as Summary messages, for event files.

Host kernels: their results are strings. Images are written as PNG, sound as WAV.
"""

from __future__ import annotations

import functools
import io
import sys
import wave
from typing import Any

import numpy as np

from millrace.core.config import Summary
from millrace.core.tensor_proto import make_tensor_proto
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import scalars
from millrace.ops.strings.string_arrays import scalar_bytes
from millrace.platform import lazy_import

Image = lazy_import.module("PIL.Image")

__all__: list[str] = []


def _message(summary: Any) -> np.ndarray:
    result = np.empty((), object)
    result[()] = summary.SerializeToString()
    return result


@op(
    "ScalarSummary(tags: string, values: T) -> summary: string where T: real",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def ScalarSummary(tags: Any, values: Any) -> Any:
    """A value a tag."""
    if tags.shape != values.shape and not (tags.size == 1 and values.size == 1):
        raise ValueError(
            f"tags and values are not the same shape: {list(tags.shape)} != {list(values.shape)}"
        )
    summary = Summary()
    for tag, value in zip(tags.ravel(), values.ravel(), strict=True):
        summary.value.add(tag=tag.decode(), simple_value=float(value))
    return _message(summary)


@functools.cache
def _bucket_limits() -> np.ndarray:
    """Limits that grow by a tenth, on both sides of zero: those of TensorBoard's histograms."""
    positive = []
    limit = 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    biggest = sys.float_info.max
    return np.array([-biggest, *(-v for v in reversed(positive)), 0.0, *positive, biggest])


def fill_histogram(message: Any, values: np.ndarray) -> None:
    """Writes the distribution of `values` into a HistogramProto."""
    flat = np.asarray(values, np.float64).ravel()
    limits = _bucket_limits()
    biggest = sys.float_info.max
    message.min = float(flat.min()) if flat.size else biggest
    message.max = float(flat.max()) if flat.size else -biggest
    message.num = float(flat.size)
    message.sum = float(flat.sum())
    message.sum_squares = float(np.square(flat).sum())
    counts = np.bincount(np.searchsorted(limits, flat, side="right"), minlength=len(limits))
    i = 0
    while i < len(limits):
        # A run of empty buckets is one bucket.
        last = i
        if counts[i] == 0:
            while last + 1 < len(limits) and counts[last + 1] == 0:
                last += 1
        message.bucket_limit.append(limits[last])
        message.bucket.append(float(counts[i]))
        i = last + 1


@op(
    "HistogramSummary(tag: string, values: T) -> summary: string where T: real = float32",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def HistogramSummary(tag: Any, values: Any) -> Any:
    """The distribution of the values."""
    name = scalar_bytes(tag, "tags").decode()
    numbers = np.asarray(values, np.float64)
    if np.isnan(numbers).any():
        raise ValueError(f"Nan in summary histogram for: {name}")
    if np.isinf(numbers).any():
        raise ValueError(f"Infinity in summary histogram for: {name}")
    summary = Summary()
    fill_histogram(summary.value.add(tag=name).histo, numbers)
    return _message(summary)


def _as_pixels(image: np.ndarray, bad_color: np.ndarray) -> np.ndarray:
    """Floats scaled to bytes: to 0..255 if none is negative, else around 128."""
    if image.dtype == np.uint8:
        return image
    values = image.astype(np.float64 if image.dtype == np.float64 else np.float32)
    finite = np.isfinite(values).all(axis=-1)
    usable = values[finite]
    kind: Any = values.dtype.type
    low, high = (usable.min(), usable.max()) if usable.size else (kind(0), kind(0))
    # All in the type of the image: a rounding decides about the last bit.
    if low < 0:
        bound = max(abs(low), abs(high))
        scale, offset = (kind(127) / bound if bound else kind(0)), kind(128)
    else:
        scale, offset = (kind(255) / high if high else kind(0)), kind(0)
    pixels = np.where(np.isfinite(values), values, 0.0) * scale + offset
    pixels = np.clip(pixels, 0, 255).astype(np.uint8)
    pixels[~finite] = bad_color[: image.shape[-1]]
    return pixels


def _png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    plane = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    Image.fromarray(plane).save(stream, "PNG")
    return stream.getvalue()


@op(
    "ImageSummary(tag: string, tensor: T) -> summary: string where max_images: int >= 1 = 3; "
    "T: {uint8, float32, float16, float64} = float32; bad_color: tensor = uint8[255, 0, 0, 255]",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def ImageSummary(tag: Any, tensor: Any, *, max_images: int, bad_color: Any) -> Any:
    """Images of a batch, as PNG."""
    if tensor.ndim != 4 or tensor.shape[-1] not in (1, 3, 4):
        raise ValueError(f"Tensor must be 4-D with last dim 1, 3, or 4, not {list(tensor.shape)}")
    name = scalar_bytes(tag, "tags").decode()
    summary = Summary()
    count = min(max_images, tensor.shape[0])
    for i in range(count):
        full = f"{name}/image" if max_images == 1 else f"{name}/image/{i}"
        image = summary.value.add(tag=full).image
        image.height, image.width, image.colorspace = tensor.shape[1:]
        image.encoded_image_string = _png(_as_pixels(tensor[i], bad_color))
    return _message(summary)


def _wav(samples: np.ndarray, rate: float) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(samples.shape[-1])
        file.setsampwidth(2)
        file.setframerate(int(rate))
        wide = samples.astype(np.float32) * np.float32(32768)
        # Halves away from zero, as C rounds them.
        scaled = np.clip(np.trunc(wide + np.copysign(np.float32(0.5), wide)), -32768, 32767)
        file.writeframes(scaled.astype("<i2").tobytes())
    return stream.getvalue()


@op(
    "AudioSummaryV2(tag: string, tensor: float32, sample_rate: float32) -> summary: string "
    "where max_outputs: int >= 1 = 3",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def AudioSummaryV2(tag: Any, tensor: Any, sample_rate: Any, *, max_outputs: int) -> Any:
    """Sounds of a batch, as WAV."""
    return _sounds(tag, tensor, float(sample_rate), max_outputs)


@op(
    "AudioSummary(tag: string, tensor: float32) -> summary: string "
    "where sample_rate: float; max_outputs: int >= 1 = 3",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def AudioSummary(tag: Any, tensor: Any, *, sample_rate: float, max_outputs: int) -> Any:
    """Sounds of a batch at a rate that the graph knows, as WAV."""
    return _sounds(tag, tensor, sample_rate, max_outputs)


def _sounds(tag: Any, tensor: Any, sample_rate: float, max_outputs: int) -> Any:
    if tensor.ndim not in (2, 3):
        raise ValueError(f"Tensor must be 3-D or 2-D, got: {list(tensor.shape)}")
    sounds = tensor if tensor.ndim == 3 else tensor[..., None]
    name = scalar_bytes(tag, "tags").decode()
    summary = Summary()
    for i in range(min(max_outputs, sounds.shape[0])):
        full = f"{name}/audio" if max_outputs == 1 else f"{name}/audio/{i}"
        audio = summary.value.add(tag=full).audio
        audio.sample_rate = sample_rate
        audio.num_channels = sounds.shape[2]
        audio.length_frames = sounds.shape[1]
        audio.encoded_audio_string = _wav(sounds[i], sample_rate)
        audio.content_type = "audio/wav"
    return _message(summary)


@op(
    "TensorSummaryV2(tag: string, tensor: T, serialized_summary_metadata: string) "
    "-> summary: string",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorSummaryV2(tag: Any, tensor: Any, serialized_summary_metadata: Any) -> Any:
    """A whole tensor, for a plugin of TensorBoard."""
    summary = Summary()
    value = summary.value.add(tag=scalar_bytes(tag, "tag").decode())
    value.tensor.CopyFrom(make_tensor_proto(tensor))
    value.metadata.ParseFromString(serialized_summary_metadata[()])
    return _message(summary)


@op(
    "TensorSummary(tensor: T) -> summary: string "
    'where description: string = ""; labels: list(string) = []; display_name: string = ""',
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def TensorSummary(tensor: Any, *, node: Any) -> Any:
    """A whole tensor under the name of its node: the form of TensorFlow 0.12."""
    summary = Summary()
    summary.value.add(node_name=node.name).tensor.CopyFrom(make_tensor_proto(tensor))
    return _message(summary)


@op(
    "MergeSummary(inputs: N*string) -> summary: string",
    shape=scalars,
    gradient=NO_GRADIENT,
    host=True,
)
def MergeSummary(inputs: list[Any]) -> Any:
    """All values of several summaries in one."""
    summary = Summary()
    seen: set[str] = set()
    for array in inputs:
        for text in array.ravel():
            part = Summary.FromString(text)
            for value in part.value:
                if value.tag in seen and value.tag:
                    raise ValueError(f"Duplicate tag {value.tag} found in summary inputs")
                seen.add(value.tag)
            summary.value.extend(part.value)
    return _message(summary)
