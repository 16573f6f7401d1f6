"""Convolutions and poolings on NumPy, at any shape and without a compiler.

A convolution is one matrix product: the windows of the data side by side, times the filters. An
axis that a window covers whole is part of the channels, and so is no axis any more (sentences whose
words are rows, say). Poolings go over the positions of a window, each a slice of the padded data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from millrace.ops.nn.windows import Window

__all__: list[str] = []

#: So many numbers of windows are laid side by side at once: they should stay in the cache.
_COLUMNS = 1 << 19
#: Types that BLAS multiplies; others are computed as float32.
_MULTIPLIED = ("float32", "float64", "int32")

Pads = list[tuple[int, int]]


def _pads(lengths: Sequence[int], windows: Sequence[Window]) -> Pads:
    return [w.pads(length) for w, length in zip(windows, lengths, strict=True)]


def _padded(x: Any, pads: Pads, fill: Any) -> Any:
    """`x` with `fill` around it; a negative pad takes away."""
    if not any(low or high for low, high in pads):
        return x
    shape = [n + low + high for n, (low, high) in zip(x.shape, pads, strict=True)]
    result = np.full(shape, fill, x.dtype)
    into, of = [], []
    for n, (low, high) in zip(x.shape, pads, strict=True):
        into.append(slice(max(low, 0), max(low, 0) + n + min(low, 0) + min(high, 0)))
        of.append(slice(max(-low, 0), n + min(high, 0)))
    result[tuple(into)] = x[tuple(of)]
    return result


class _Convolution:
    """A convolution's geometry, channels last and in groups, with covered axes made channels."""

    def __init__(
        self, shape: Sequence[int], filter_shape: Sequence[int], windows: Sequence[Window]
    ) -> None:
        self.full_filter_shape = tuple(filter_shape)
        self.batch, self.channels, self.outputs = shape[0], shape[-1], filter_shape[-1]
        self.groups = max(shape[-1] // max(filter_shape[-2], 1), 1)
        self.lengths = list(shape[1:-1])
        self.windows = list(windows)
        # From the last axis on: what is merged must lie side by side.
        while self.groups == 1 and len(self.windows) > 1 and self._is_covered(-1):
            self.channels *= self.lengths.pop()
            self.windows.pop()
        self.counts = [
            w.output_size(n) or 0 for w, n in zip(self.windows, self.lengths, strict=True)
        ]
        self.pads = _pads(self.lengths, self.windows)
        self.data_shape = (self.batch, *self.lengths, self.channels)
        self.filter_shape = (
            *(w.size for w in self.windows),
            self.channels // self.groups,
            self.outputs,
        )
        self.result_shape = (self.batch, *self.counts, self.outputs)
        self.positions = math.prod(w.size for w in self.windows)
        each = max(1, math.prod(self.counts) * self.positions * self.channels)
        self._images = max(1, _COLUMNS // each)

    def _is_covered(self, axis: int) -> bool:
        w, length = self.windows[axis], self.lengths[axis]
        return w.size == length and w.dilation == 1 and w.pads(length) == (0, 0)

    @property
    def _is_product(self) -> bool:
        """Whether each window is one position, and each position a window."""
        return all(w.size == w.stride == 1 for w in self.windows) and not any(map(any, self.pads))

    def columns(self, x: Any) -> Iterator[tuple[slice, Any]]:
        """(images, their windows as rows ``[positions of windows, *window, channels]``)."""
        if self._is_product:
            yield slice(0, self.batch), x.reshape(-1, self.channels)
            return
        padded = np.ascontiguousarray(_padded(x, [(0, 0), *self.pads, (0, 0)], 0))
        steps = padded.strides
        strides = (
            steps[0],
            *(s * w.stride for s, w in zip(steps[1:-1], self.windows, strict=True)),
            *(s * w.dilation for s, w in zip(steps[1:-1], self.windows, strict=True)),
            steps[-1],
        )
        sizes = [w.size for w in self.windows]
        for start in range(0, self.batch, self._images):
            images = slice(start, min(start + self._images, self.batch))
            part = padded[images]
            shape = (len(part), *self.counts, *sizes, self.channels)
            seen = np.lib.stride_tricks.as_strided(part, shape, strides, writeable=False)
            rows = len(part) * math.prod(self.counts)
            yield images, seen.reshape(rows, self.positions * self.channels)

    def scattered(self, images: int, columns: Any, padded: Any) -> None:
        """Adds windows, as `columns` gives them, to where they were taken from."""
        sizes = [w.size for w in self.windows]
        rows = columns.reshape(images, *self.counts, *sizes, self.channels)
        rank = len(self.windows)
        for position in itertools.product(*map(range, sizes)):
            where = tuple(
                slice(p * w.dilation, p * w.dilation + (n - 1) * w.stride + 1, w.stride)
                for p, w, n in zip(position, self.windows, self.counts, strict=True)
            )
            padded[(slice(None), *where)] += rows[(slice(None),) * (rank + 1) + position]


def _computed(*arrays: Any) -> tuple[Any, ...]:
    kind = arrays[0].dtype
    if kind.name in _MULTIPLIED:
        return arrays
    return tuple(a.astype(np.float32) for a in arrays)


def _channels_last(x: Any, channels_first: bool) -> Any:
    return np.moveaxis(x, 1, -1) if channels_first else x


def _as_given(x: Any, channels_first: bool, dtype: Any) -> Any:
    x = x.astype(dtype, copy=False)
    return np.ascontiguousarray(np.moveaxis(x, -1, 1)) if channels_first else x


def _in_groups(function: Any, groups: int, *arrays: tuple[Any, int]) -> Any:
    """A function of arrays that are split along an axis each; its results joined at the last."""
    parts = [np.split(array, groups, axis) for array, axis in arrays]
    return np.concatenate([function(*each) for each in zip(*parts, strict=True)], -1)


def convolve(x: Any, filters: Any, windows: Sequence[Window], channels_first: bool) -> Any:
    """As `convolution_kernels.convolve`."""
    kind = x.dtype
    x, filters = _computed(_channels_last(x, channels_first), filters)

    def of_group(x: Any, filters: Any) -> Any:
        form = _Convolution(x.shape, filters.shape, windows)
        product = np.empty((*form.result_shape[:-1], form.outputs), x.dtype)
        matrix = filters.reshape(-1, form.outputs)
        for images, columns in form.columns(x.reshape(form.data_shape)):
            out = product[images].reshape(-1, form.outputs)
            np.matmul(columns, matrix, out=out)
        full = [w.output_size(n) or 0 for w, n in zip(windows, x.shape[1:-1], strict=True)]
        return product.reshape(x.shape[0], *full, form.outputs)

    groups = max(x.shape[-1] // max(filters.shape[-2], 1), 1)
    if groups == 1:
        found = of_group(x, filters)
    else:
        found = _in_groups(of_group, groups, (x, -1), (filters, -1))
    return _as_given(found, channels_first, kind)


def gradient_by_input(
    input_shape: Sequence[int],
    filters: Any,
    grad: Any,
    windows: Sequence[Window],
    channels_first: bool,
) -> Any:
    """As `convolution_kernels.gradient_by_input`."""
    kind = grad.dtype
    grad, filters = _computed(_channels_last(grad, channels_first), filters)
    batch, *rest = input_shape
    lengths, channels = (rest[1:], rest[0]) if channels_first else (rest[:-1], rest[-1])
    groups = max(channels // max(filters.shape[-2], 1), 1)

    def of_group(filters: Any, grad: Any) -> Any:
        shape = (batch, *lengths, channels // groups)
        form = _Convolution(shape, filters.shape, windows)
        matrix = filters.reshape(-1, form.outputs).T
        grad = np.ascontiguousarray(grad).reshape(form.result_shape)
        if form._is_product:
            return (grad.reshape(-1, form.outputs) @ matrix).reshape(shape)
        outer = [n + low + high for n, (low, high) in zip(form.lengths, form.pads, strict=True)]
        padded = np.zeros((batch, *outer, form.channels), grad.dtype)
        for start in range(0, batch, form._images):
            images = slice(start, min(start + form._images, batch))
            columns = grad[images].reshape(-1, form.outputs) @ matrix
            form.scattered(images.stop - start, columns, padded[images])
        inside = tuple(
            slice(low, low + n) for n, (low, _) in zip(form.lengths, form.pads, strict=True)
        )
        return np.ascontiguousarray(padded[(slice(None), *inside)]).reshape(shape)

    if groups == 1:
        found = of_group(filters, grad)
    else:
        found = _in_groups(of_group, groups, (filters, -1), (grad, -1))
    return _as_given(found, channels_first, kind)


def gradient_by_filter(
    x: Any,
    filter_shape: Sequence[int],
    grad: Any,
    windows: Sequence[Window],
    channels_first: bool,
) -> Any:
    """As `convolution_kernels.gradient_by_filter`."""
    kind = grad.dtype
    x, grad = _computed(_channels_last(x, channels_first), _channels_last(grad, channels_first))
    *sizes, depth, outputs = filter_shape
    groups = max(x.shape[-1] // max(depth, 1), 1)

    def of_group(x: Any, grad: Any) -> Any:
        shape = (*sizes, depth, outputs // groups)
        form = _Convolution(x.shape, shape, windows)
        grad = np.ascontiguousarray(grad).reshape(form.result_shape)
        total = np.zeros((math.prod(shape[:-1]), shape[-1]), grad.dtype)
        for images, columns in form.columns(np.ascontiguousarray(x).reshape(form.data_shape)):
            total += columns.T @ grad[images].reshape(-1, form.outputs)
        return total.reshape(shape)

    if groups == 1:
        found = of_group(x, grad)
    else:
        found = _in_groups(of_group, groups, (x, -1), (grad, -1))
    return found.astype(kind, copy=False)


# -- Pooling -----------------------------------------------------------------------------


class _Pooling:
    """Windows over every axis of an array, each of their positions as a slice of it."""

    def __init__(self, shape: Sequence[int], windows: Sequence[Window]) -> None:
        self.shape = tuple(shape)
        self.counts = tuple(w.output_size(n) or 0 for w, n in zip(windows, shape, strict=True))
        self.pads = _pads(shape, windows)
        self.slices = [
            tuple(
                slice(p, p + (n - 1) * w.stride + 1 if n else p, w.stride)
                for p, w, n in zip(position, windows, self.counts, strict=True)
            )
            for position in itertools.product(*(range(w.size) for w in windows))
        ]

    def padded(self, x: Any, fill: Any) -> Any:
        return _padded(x, self.pads, fill)

    def zeros(self, dtype: Any) -> Any:
        shape = [n + low + high for n, (low, high) in zip(self.shape, self.pads, strict=True)]
        return np.zeros(shape, dtype)

    def inside(self, padded: Any) -> Any:
        where = (slice(low, low + n) for n, (low, _) in zip(self.shape, self.pads, strict=True))
        return np.ascontiguousarray(padded[tuple(where)])


def max_pool(x: Any, windows: Sequence[Window], least: Any) -> Any:
    """The largest element of each window; `least` is what padding counts as."""
    form = _Pooling(x.shape, windows)
    padded = form.padded(x, least)
    result = np.array(padded[form.slices[0]])
    for where in form.slices[1:]:
        np.maximum(result, padded[where], out=result)
    return result


def max_pool_gradient(x: Any, maxima: Any, grad: Any, windows: Sequence[Window], least: Any) -> Any:
    """Passes the gradient of each window to its first maximum."""
    form = _Pooling(x.shape, windows)
    padded, result = form.padded(x, least), form.zeros(grad.dtype)
    is_free = np.ones(maxima.shape, bool)
    zero = grad.dtype.type(0)
    for where in form.slices[:-1]:
        wins = (padded[where] == maxima) & is_free
        result[where] += np.where(wins, grad, zero)
        is_free &= ~wins
    # As on XLA the last place gets what nobody else has won: NaNs equal nothing.
    result[form.slices[-1]] += np.where(is_free, grad, zero)
    return form.inside(result)


def average_pool(x: Any, windows: Sequence[Window], element_counts: Any) -> Any:
    """The mean of the elements of each window."""
    form = _Pooling(x.shape, windows)
    padded = form.padded(x, 0)
    total = np.array(padded[form.slices[0]])
    for where in form.slices[1:]:
        total += padded[where]
    return total / element_counts


def average_pool_gradient(
    shape: Sequence[int], grad: Any, windows: Sequence[Window], element_counts: Any
) -> Any:
    """Gives every element of a window an equal part of the window's gradient."""
    form = _Pooling(shape, windows)
    parts, result = grad / element_counts, form.zeros(grad.dtype)
    for where in form.slices:
        result[where] += parts
    return form.inside(result)
