"""Signals cut into frames: windows, short-time Fourier transforms, mel scales, cosine transforms.

All of it is made of other ops, as in TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.ops.array import gather, layout, pad, shape
from millrace.ops.array.cast import cast
from millrace.ops.array.fill import zeros
from millrace.ops.array.join import concat
from millrace.ops.linalg.contraction import tensordot
from millrace.ops.math import arithmetic, elementwise, fourier, segment
from millrace.ops.math.numeric import range as arange

Window = Callable[..., Any]


def _cosine_window(
    name: str | None, default: str, length: Any, periodic: Any, dtype: Any, a: float, b: float
) -> Any:
    with name_scope(name, default, [length, periodic]):
        length = convert_to_tensor(length, dtype=dtypes.int32)
        known = constant_value(length)
        if known is not None and int(known) == 1:
            return convert_to_tensor([1.0], dtype=dtype)
        is_periodic = cast(convert_to_tensor(periodic, dtype=dtypes.bool), dtypes.int32)
        even = 1 - length % 2
        count = cast(length + is_periodic * even - 1, dtype)
        steps = cast(arange(length), dtype)
        return a - b * elementwise.cos(2.0 * math.pi * steps / count)


def hann_window(
    window_length: Any, periodic: Any = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Any:
    """A Hann window of that many samples."""
    return _cosine_window(name, "hann_window", window_length, periodic, dtype, 0.5, 0.5)


def hamming_window(
    window_length: Any, periodic: Any = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Any:
    """A Hamming window of that many samples."""
    return _cosine_window(name, "hamming_window", window_length, periodic, dtype, 0.54, 0.46)


def frame(
    signal: Any,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Any:
    """Cuts a dimension into frames that may overlap.

    Args:
      signal: A tensor of known rank.
      frame_length: Samples per frame.
      frame_step: Samples from the start of a frame to that of the next.
      pad_end: Whether frames that the end cuts off are filled up; else they are left out.
      pad_value: What fills them up.
      axis: Which dimension.
      name: Name of the operation.

    Returns:
      The signal with two dimensions, frames and samples, in place of the one.
    """
    with name_scope(name, "frame", [signal]):
        signal = convert_to_tensor(signal)
        rank = signal.shape.ndims
        if rank is None:
            raise ValueError("frame needs a signal of known rank")
        axis = axis % rank
        length = shape.shape(signal)[axis]
        if pad_end:
            count = -(-length // frame_step)
            missing = arithmetic.maximum(0, frame_length + frame_step * (count - 1) - length)
            paddings = concat(
                [
                    zeros([axis, 2], dtypes.int32),
                    [[0, missing]],
                    zeros([rank - 1 - axis, 2], dtypes.int32),
                ],
                0,
            )
            signal = pad.pad(signal, paddings, constant_values=pad_value)
        else:
            count = arithmetic.maximum(0, 1 + (length - frame_length) // frame_step)
        starts = shape.expand_dims(arange(count) * frame_step, 1)
        return gather.gather(signal, starts + arange(frame_length), axis=axis)


def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Any:
    """Adds frames (the two last dimensions) up to the signal that they were cut from."""
    with name_scope(name, "overlap_and_add", [signal]):
        signal = convert_to_tensor(signal)
        sizes = shape.shape(signal)
        frames, length = sizes[-2], sizes[-1]
        total = (frames - 1) * frame_step + length
        places = shape.expand_dims(arange(frames) * frame_step, 1) + arange(length)
        flat = shape.reshape(signal, [-1, frames * length])
        added = segment.unsorted_segment_sum(
            layout.transpose(flat), shape.reshape(places, [-1]), total
        )
        return shape.reshape(layout.transpose(added), concat([sizes[:-2], [total]], 0))


def _enclosing_power_of_two(value: int) -> int:
    return 1 << max(0, math.ceil(math.log2(value)))


def stft(
    signals: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Any:
    """The short-time Fourier transform of real signals: ``[..., frames, fft_length // 2 + 1]``."""
    with name_scope(name, "stft", [signals]):
        signals = convert_to_tensor(signals)
        fft_length = fft_length or _enclosing_power_of_two(frame_length)
        frames = frame(signals, frame_length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            frames = frames * window_fn(frame_length, dtype=frames.dtype)
        return fourier.rfft(frames, [fft_length])


def inverse_stft(
    stfts: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Any:
    """The signals of short-time Fourier transforms."""
    with name_scope(name, "inverse_stft", [stfts]):
        stfts = convert_to_tensor(stfts)
        fft_length = fft_length or _enclosing_power_of_two(frame_length)
        frames = fourier.irfft(stfts, [fft_length])[..., :frame_length]
        missing = max(0, frame_length - fft_length)
        if missing:
            edges = [[0, 0]] * (frames.shape.ndims - 1) + [[0, missing]]
            frames = pad.pad(frames, edges)
        if window_fn is not None:
            frames = frames * window_fn(frame_length, dtype=frames.dtype)
        return overlap_and_add(frames, frame_step)


def _hertz_to_mel(hertz: Any) -> Any:
    return 1127.0 * np.log1p(hertz / 700.0)


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: float = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Any:
    """The matrix that turns a linear spectrogram into one on the mel scale.

    Raises:
      ValueError: An edge lies outside of what the sample rate allows, or they are out of order.
    """
    if num_mel_bins <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {num_mel_bins}")
    if lower_edge_hertz < 0.0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {lower_edge_hertz}")
    if lower_edge_hertz >= upper_edge_hertz:
        raise ValueError(
            f"lower_edge_hertz {lower_edge_hertz:.1f} >= upper_edge_hertz {upper_edge_hertz:.1f}"
        )
    if upper_edge_hertz > sample_rate / 2:
        raise ValueError(
            f"upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). "
            f"Got {upper_edge_hertz} for sample_rate: {sample_rate}"
        )
    # The lowest bin is left out: it is nothing but the mean.
    hertz = np.linspace(0.0, sample_rate / 2.0, num_spectrogram_bins)[1:]
    bins = _hertz_to_mel(hertz)[:, np.newaxis]
    edges = np.linspace(
        _hertz_to_mel(np.float64(lower_edge_hertz)),
        _hertz_to_mel(np.float64(upper_edge_hertz)),
        num_mel_bins + 2,
    )
    lower, center, upper = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - lower) / (center - lower), (upper - bins) / (upper - center)
    weights = np.maximum(0.0, np.minimum(rising, falling))
    return convert_to_tensor(np.pad(weights, [[1, 0], [0, 0]]), dtype=dtype, name=name)


def _cosines(size: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Row k, column n: ``cos(pi * k * (2 n + 1) / (2 size))``."""
    k, n = np.arange(size)[:, None], np.arange(size)[None, :]
    return np.cos(np.pi * k * (2 * n + 1) / (2.0 * size)).astype(dtype)


def dct(
    input: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """The discrete cosine transform of the last dimension, of type 2 or 3.

    Raises:
      ValueError: Another type, dimension or norm, or the dimension's size is not known.
    """
    if axis != -1:
        raise ValueError("axis must be -1. Got: %s" % axis)  # noqa: UP031 - as TensorFlow says it
    if type not in (2, 3):
        raise ValueError(f"Only Types II and III DCT are supported, not {type}.")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")
    with name_scope(name, "dct", [input]):
        input = convert_to_tensor(input)
        size = input.shape[-1].value
        if size is None:
            raise ValueError("dct needs to know the size of the last dimension")
        if n is not None:
            edges = [[0, 0]] * (input.shape.ndims - 1) + [[0, max(0, n - size)]]
            input = pad.pad(input[..., :n], edges)
            size = n
        matrix = 2.0 * _cosines(size, input.dtype.as_numpy_dtype)
        if norm == "ortho":
            matrix *= np.sqrt(0.5 / size)
            matrix[0] *= np.sqrt(0.5)
        elif type == 3:
            matrix[0] *= 0.5
        return tensordot(input, matrix.T if type == 2 else matrix, 1)


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Any:
    """Mel-frequency cepstral coefficients, of the logarithms of mel spectrograms."""
    with name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        spectrograms = convert_to_tensor(log_mel_spectrograms)
        size = spectrograms.shape[-1].value
        if size == 0:
            raise ValueError(f"num_mel_bins must be positive. Got: {spectrograms}")
        return dct(spectrograms, type=2) * (1.0 / math.sqrt(2.0 * size))


def idct(
    input: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """The inverse of `dct` of that type, up to a factor unless `norm` is ``ortho``."""
    if type not in (2, 3):
        raise ValueError(f"Only Types II and III DCT are supported, not {type}.")
    return dct(input, type=5 - type, n=n, axis=axis, norm=norm, name=name)
