"""How poolings are put to XLA (those of NumPy arrays: `host_windows`). Chosen by measurement: see
``docs/decisions/0003-convolution-lowering.md`` and ``benchmarks/convolution_lowering.py``.

Windows are given for every axis of the array, so that the order of the axes does not matter.
Among equal maxima of a window the first, in the order of the axes, gets the gradient.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp, lax
from millrace.ops.nn import host_windows
from millrace.ops.nn.windows import Window

__all__: list[str] = []

#: Windows with more elements than this are not unrolled: the program would grow too large.
_MOST_SLICES = 64


def _least(dtype: Any) -> Any:
    if jnp.issubdtype(dtype, jnp.integer):
        return np.asarray(jnp.iinfo(dtype).min, dtype)
    return np.asarray(-np.inf, dtype)


def _pads(shape: Sequence[int], windows: Sequence[Window]) -> list[tuple[int, int]]:
    return [w.pads(length) for w, length in zip(windows, shape, strict=True)]


def output_shape(shape: Sequence[int], windows: Sequence[Window]) -> tuple[int, ...]:
    """How many windows fit along each axis; ValueError where not a single one does."""
    return tuple(w.output_size(n) or 0 for w, n in zip(windows, shape, strict=True))


def _are_tiles(shape: Sequence[int], windows: Sequence[Window]) -> bool:
    """Whether the windows lie side by side on the array itself."""
    fits = all(w.size == w.stride for w in windows)
    return fits and all(pad == (0, 0) for pad in _pads(shape, windows))


def _along_each_axis(x: Any, init: Any, combine: Any, windows: Sequence[Window]) -> Any:
    """A window's maximum or sum, one axis after the other.

    k + k steps instead of k * k: 3 ms instead of 7 for windows of 3 x 3.
    """
    for axis, w in enumerate(windows):
        if w.size == 1 and w.stride == 1:
            continue
        sizes, strides, pads = [1] * x.ndim, [1] * x.ndim, [(0, 0)] * x.ndim
        sizes[axis], strides[axis], pads[axis] = w.size, w.stride, w.pads(x.shape[axis])
        x = lax.reduce_window(x, init, combine, sizes, strides, pads)
    return x


class _Grid:
    """An array cut into steps of the stride, so that no slice of it has a stride.

    Axis ``a`` becomes two: ``[steps, stride]``. Padded with `fill` (or cropped) so that every
    window lies inside.
    """

    def __init__(self, x: Any, windows: Sequence[Window], fill: Any) -> None:
        self.windows = windows
        self.shape = x.shape
        self.counts = output_shape(x.shape, windows)
        #: How many windows may cover one position.
        self.overlaps = [-(-w.size // w.stride) for w in windows]
        self.steps = [n + t - 1 for n, t in zip(self.counts, self.overlaps, strict=True)]
        self.before = [pad[0] for pad in _pads(x.shape, windows)]
        layout = [
            (low, step * w.stride - length - low, 0)
            for low, step, w, length in zip(self.before, self.steps, windows, x.shape, strict=True)
        ]
        if any(low or high for low, high, _ in layout):
            # Without the barrier XLA pads again for each of the slices.
            x = lax.optimization_barrier(lax.pad(x, fill, layout))  # type: ignore[no-untyped-call]
        pairs = zip(self.steps, windows, strict=True)
        self.cells = jnp.reshape(x, tuple(n for step, w in pairs for n in (step, w.stride)))

    def offsets(self) -> list[tuple[int, ...]]:
        """All positions in a window, in the order of the axes."""
        return list(itertools.product(*(range(w.size) for w in self.windows)))

    def slice(self, offset: Sequence[int]) -> Any:
        """The elements that stand at `offset` in their windows."""
        index: list[Any] = []
        for i, w, count in zip(offset, self.windows, self.counts, strict=True):
            step = i // w.stride
            index.extend((slice(step, step + count), i % w.stride))
        return self.cells[tuple(index)]

    def first_maximum(self, maxima: Any) -> Any:
        """The number of the first offset at which each window has its maximum."""
        offsets = self.offsets()
        place = jnp.full(maxima.shape, len(offsets) - 1, jnp.int32)
        for number in range(len(offsets) - 2, -1, -1):
            place = jnp.where(self.slice(offsets[number]) == maxima, np.int32(number), place)
        return place

    def scatter(self, place: Any, grad: Any) -> Any:
        """Each window's gradient at its `place`, zeros elsewhere, overlaps added up."""
        zero = np.zeros((), grad.dtype)
        strides = [w.stride for w in self.windows]
        if all(t == 1 for t in self.overlaps):
            own = jnp.asarray(self._numbers())
            spread = tuple(v for _ in strides for v in (slice(None), None))
            cells = jnp.where(place[spread] == own, grad[spread], zero)
        else:
            place, grad = lax.optimization_barrier((place, grad))  # type: ignore[no-untyped-call]
            parts = [
                self._covering(place, grad, phase)
                for phase in itertools.product(*(range(s) for s in strides))
            ]
            rank = len(strides)
            stacked = jnp.reshape(jnp.stack(parts), (*strides, *self.steps))
            order = [n for axis in range(rank) for n in (rank + axis, axis)]
            cells = jnp.transpose(stacked, order)
        whole = tuple(step * s for step, s in zip(self.steps, strides, strict=True))
        layout = [
            (-low, length + low - size, 0)
            for low, length, size in zip(self.before, self.shape, whole, strict=True)
        ]
        return lax.pad(jnp.reshape(cells, whole), zero, layout)

    def _numbers(self) -> np.ndarray:
        """The number of the offset at each position of one step, -1 between the windows."""
        strides = [w.stride for w in self.windows]
        numbers = np.full(strides, -1, np.int32)
        inside = tuple(slice(0, w.size) for w in self.windows)
        numbers[inside] = np.arange(math.prod(w.size for w in self.windows)).reshape(
            [w.size for w in self.windows]
        )
        return numbers.reshape([n for stride in strides for n in (1, stride)])

    def _covering(self, place: Any, grad: Any, phase: Sequence[int]) -> Any:
        """The gradients that reach the positions of one phase: a sum over the windows on it."""
        zero = np.zeros((), grad.dtype)
        total: Any = None
        for back in itertools.product(*(range(t) for t in self.overlaps)):
            offset = [r + w.stride * t for r, t, w in zip(phase, back, self.windows, strict=True)]
            if any(i >= w.size for i, w in zip(offset, self.windows, strict=True)):
                continue
            number = 0
            for i, w in zip(offset, self.windows, strict=True):
                number = number * w.size + i
            layout = [(t, most - 1 - t, 0) for t, most in zip(back, self.overlaps, strict=True)]
            part = lax.pad(jnp.where(place == np.int32(number), grad, zero), zero, layout)
            total = part if total is None else total + part
        return total if total is not None else jnp.zeros(tuple(self.steps), grad.dtype)


def _is_small(windows: Sequence[Window]) -> bool:
    return math.prod(w.size for w in windows) <= _MOST_SLICES


def max_pool(x: Any, windows: Sequence[Window]) -> Any:
    """The largest element of each window."""
    output_shape(x.shape, windows)
    if isinstance(x, np.ndarray):
        return host_windows.max_pool(x, windows, _least(x.dtype))
    if _are_tiles(x.shape, windows) and _is_small(windows):
        grid = _Grid(x, windows, _least(x.dtype))
        first, *others = (grid.slice(offset) for offset in grid.offsets())
        for other in others:
            first = jnp.maximum(first, other)
        return first
    return _along_each_axis(x, _least(x.dtype), lax.max, windows)


def max_pool_gradient(x: Any, maxima: Any, grad: Any, windows: Sequence[Window]) -> Any:
    """Passes the gradient of each window to its first maximum."""
    if isinstance(x, np.ndarray):
        return host_windows.max_pool_gradient(x, maxima, grad, windows, _least(x.dtype))
    if not _is_small(windows):
        sizes, strides = [w.size for w in windows], [w.stride for w in windows]
        pads = _pads(x.shape, windows)
        _, pull_back = jax.vjp(
            lambda v: lax.reduce_window(v, _least(x.dtype), lax.max, sizes, strides, pads), x
        )
        return pull_back(grad)[0]
    grid = _Grid(x, windows, _least(x.dtype))
    return grid.scatter(grid.first_maximum(maxima), grad)


def max_pool_gradient_gradient(x: Any, maxima: Any, grad: Any, windows: Sequence[Window]) -> Any:
    """Takes from `grad`, in the shape of `x`, the element at each window's first maximum."""
    x, maxima, grad = jnp.asarray(x), jnp.asarray(maxima), jnp.asarray(grad)
    place = _Grid(x, windows, _least(x.dtype)).first_maximum(maxima)
    source = _Grid(grad, windows, np.zeros((), grad.dtype))
    result = jnp.zeros(maxima.shape, grad.dtype)
    for number, offset in enumerate(source.offsets()):
        result = jnp.where(place == np.int32(number), source.slice(offset), result)
    return result


def max_pool_positions(x: Any, maxima: Any, windows: Sequence[Window], with_batch: bool) -> Any:
    """Where in the flattened array (or image) each window's first maximum stands, as int64."""
    place = _Grid(x, windows, _least(x.dtype)).first_maximum(maxima)
    positions = jnp.zeros(maxima.shape, jnp.int64)
    before = [pad[0] for pad in _pads(x.shape, windows)]
    offsets, rest = [], place
    for w in reversed(windows):
        offsets.append(rest % w.size)
        rest = rest // w.size
    for axis, (w, offset) in enumerate(zip(windows, reversed(offsets), strict=True)):
        start = lax.broadcasted_iota(jnp.int64, maxima.shape, axis) * w.stride - before[axis]
        own = start + offset
        if axis == 0 and not with_batch:
            continue
        positions = positions * x.shape[axis] + own
    return positions


# -- Averages ----------------------------------------------------------------------------


def _element_counts(shape: Sequence[int], windows: Sequence[Window], dtype: Any) -> np.ndarray:
    """How many elements of the array each window holds; padding does not count."""
    total = np.ones([1] * len(shape))
    for axis, (w, length) in enumerate(zip(windows, shape, strict=True)):
        start = np.arange(w.output_size(length) or 0) * w.stride - w.pads(length)[0]
        inside = np.minimum(start + w.size, length) - np.maximum(start, 0)
        total = total * inside.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return total.astype(dtype)


def _window_sums(x: Any, windows: Sequence[Window]) -> Any:
    return _along_each_axis(x, np.zeros((), x.dtype), lax.add, windows)


def average_pool(x: Any, windows: Sequence[Window]) -> Any:
    """The mean of the elements of each window."""
    output_shape(x.shape, windows)
    counts = _element_counts(x.shape, windows, x.dtype)
    if isinstance(x, np.ndarray):
        return host_windows.average_pool(x, windows, counts)
    if _are_tiles(x.shape, windows) and _is_small(windows):
        grid = _Grid(x, windows, np.zeros((), x.dtype))
        first, *others = (grid.slice(offset) for offset in grid.offsets())
        for other in others:
            first = first + other
        return first / counts
    return _window_sums(x, windows) / counts


def average_pool_gradient(shape: Sequence[int], grad: Any, windows: Sequence[Window]) -> Any:
    """Gives every element of a window an equal part of the window's gradient."""
    shape = tuple(shape)
    if grad.shape != output_shape(shape, windows):
        raise ValueError(
            f"The gradient has shape {grad.shape}, but pooling {shape} gives "
            f"{output_shape(shape, windows)}"
        )
    counts = _element_counts(shape, windows, grad.dtype)
    if isinstance(grad, np.ndarray):
        return host_windows.average_pool_gradient(shape, grad, windows, counts)
    parts = grad / counts
    if _are_tiles(shape, windows):
        spread = tuple(v for _ in shape for v in (slice(None), None))
        cells = tuple(
            n for count, w in zip(grad.shape, windows, strict=True) for n in (count, w.size)
        )
        whole = tuple(count * w.size for count, w in zip(grad.shape, windows, strict=True))
        tiled = jnp.reshape(jnp.broadcast_to(parts[spread], cells), whole)
        layout = [(0, length - size, 0) for length, size in zip(shape, whole, strict=True)]
        return lax.pad(tiled, np.zeros((), grad.dtype), layout)
    template = jax.ShapeDtypeStruct(shape, grad.dtype)  # type: ignore[no-untyped-call]
    return jax.linear_transpose(lambda x: _window_sums(x, windows), template)(parts)[0]
