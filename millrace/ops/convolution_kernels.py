"""How convolutions are put to XLA. What is faster was measured, not guessed: see
``docs/decisions/0003-convolution-lowering.md`` and ``benchmarks/convolution_lowering.py``.

All functions take arrays and `Window`s, keep the dtype of their inputs, and know nothing of
nodes and attributes. Filters are ``[*window, in_channels / groups, out_channels]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.ops.windows import Window
from millrace.ops.xla import jax, jnp, lax

__all__: list[str] = []

#: The longest sum (images x positions) that one convolution of a filter gradient should take:
#: the CPU's contraction slows to a third beyond a few thousand terms.
FILTER_GRADIENT_TERMS = 4096
#: Into how many convolutions a filter gradient is split at most: each takes 0.1 s to compile.
FILTER_GRADIENT_PARTS = 8


def dimension_numbers(rank: int, channels_first: bool) -> lax.ConvDimensionNumbers:
    """Which axes are batch, channels and space, for a tensor with `rank` axes."""
    spatial = tuple(range(rank - 2))
    filter_spec = (rank - 1, rank - 2, *spatial)
    if channels_first:
        data = tuple(range(rank))
    else:
        data = (0, rank - 1, *range(1, rank - 1))
    return lax.ConvDimensionNumbers(data, filter_spec, data)


def _lengths(shape: Sequence[int], channels_first: bool) -> Sequence[int]:
    return shape[2:] if channels_first else shape[1:-1]


def _template(shape: Sequence[int], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(tuple(shape), dtype)  # type: ignore[no-untyped-call]


def _materialized(*arrays: Any) -> tuple[Any, ...]:
    """Keeps XLA from fusing what makes these arrays with what uses them.

    A transposition by itself is a fast copy; fused with anything it is a slow loop.
    """
    return lax.optimization_barrier(arrays)  # type: ignore[no-untyped-call]


def convolve(x: Any, filters: Any, windows: Sequence[Window], channels_first: bool) -> Any:
    """The convolution itself (in the sense of neural networks: a correlation)."""
    channels = x.shape[1 if channels_first else -1]
    lengths = _lengths(x.shape, channels_first)
    return lax.conv_general_dilated(
        x,
        filters,
        window_strides=[w.stride for w in windows],
        padding=[w.pads(length) for w, length in zip(windows, lengths, strict=True)],
        rhs_dilation=[w.dilation for w in windows],
        dimension_numbers=dimension_numbers(x.ndim, channels_first),
        feature_group_count=max(channels // max(filters.shape[-2], 1), 1),
    )


def gradient_by_input(
    input_shape: Sequence[int],
    filters: Any,
    grad: Any,
    windows: Sequence[Window],
    channels_first: bool,
) -> Any:
    """What a convolution passes back to its input: the transposed convolution."""
    if len(windows) > 2 and any(w.stride > 1 for w in windows):
        return _transposed_with_zeros(input_shape, filters, grad, windows, channels_first)
    template = _template(input_shape, grad.dtype)
    transpose = jax.linear_transpose(
        lambda x: convolve(x, filters, windows, channels_first), template
    )
    return transpose(grad)[0]


def _transposed_with_zeros(
    input_shape: Sequence[int],
    filters: Any,
    grad: Any,
    windows: Sequence[Window],
    channels_first: bool,
) -> Any:
    """Puts the zeros between the gradients before the convolution.

    In three dimensions XLA's CPU code for dilated input is a plain loop; with the zeros in
    place (the barrier keeps XLA from taking them out again) it is a contraction.
    """
    if filters.shape[-2] != input_shape[1 if channels_first else -1]:
        raise NotImplementedError("Grouped convolution in three dimensions with strides")
    pads = []
    outputs = _lengths(grad.shape, channels_first)
    for w, length, count in zip(
        windows, _lengths(input_shape, channels_first), outputs, strict=True
    ):
        before = w.reach - 1 - w.pads(length)[0]
        stretched = (count - 1) * w.stride + 1
        pads.append((before, length + w.reach - 1 - stretched - before, w.stride - 1))
    outer = [(0, 0, 0)]
    layout = [*outer, *outer, *pads] if channels_first else [*outer, *pads, *outer]
    zero = jnp.zeros((), grad.dtype)
    (stretched_grad,) = _materialized(lax.pad(grad, zero, layout))
    flipped = jnp.flip(filters, tuple(range(len(windows))))
    return convolve(
        stretched_grad,
        jnp.swapaxes(flipped, -1, -2),
        [Window(w.size, dilation=w.dilation) for w in windows],
        channels_first,
    )


def gradient_by_filter(
    x: Any,
    filter_shape: Sequence[int],
    grad: Any,
    windows: Sequence[Window],
    channels_first: bool,
) -> Any:
    """What a convolution passes back to its filters: a sum over the batch, taken in parts."""
    batch = x.shape[0]
    if batch == 0:
        return jnp.zeros(tuple(filter_shape), grad.dtype)
    if filter_shape[-2] != x.shape[1 if channels_first else -1]:
        template = _template(filter_shape, grad.dtype)
        return jax.linear_transpose(
            lambda filters: convolve(x, filters, windows, channels_first), template
        )(grad)[0]
    if channels_first:
        x, grad = jnp.moveaxis(x, 1, -1), jnp.moveaxis(grad, 1, -1)
    images = batch
    if jax.default_backend() == "cpu":
        terms = grad.size // max(grad.shape[-1], 1)
        wanted = -(-terms // FILTER_GRADIENT_TERMS)
        images = -(-batch // max(min(wanted, FILTER_GRADIENT_PARTS), 1))
    parts, rest = divmod(batch, images)
    if parts > 1:
        # What precedes must not be computed anew for each part.
        x, grad = _materialized(x, grad)
    total = _filter_gradient_parts(x, grad, parts, images, windows)
    if rest:
        total = total + _filter_gradient_parts(x[-rest:], grad[-rest:], 1, rest, windows)
    rank = total.ndim
    # [in, *window, out] to [*window, in, out].
    return jnp.transpose(total, (*range(1, rank - 1), 0, rank - 1))


def _filter_gradient_parts(
    x: Any, grad: Any, parts: int, images: int, windows: Sequence[Window]
) -> Any:
    """The sum of a convolution a part, ``[in, *window, out]``; data have channels last.

    The channels of the data play the batch, its images the channels, and the gradients are the
    filters. The layout is the one that XLA's convolutions want, so that it adds no transposition
    of its own.
    """
    lengths, counts = x.shape[1:-1], grad.shape[1:-1]
    rank = x.ndim
    space = tuple(range(2, rank))
    count = parts * images
    data = jnp.reshape(x[:count], (parts, images, *x.shape[1:]))
    data = jnp.transpose(data, (0, rank, *space, 1))
    filters = jnp.reshape(grad[:count], (parts, images, *grad.shape[1:]))
    filters = jnp.transpose(filters, (0, *space, 1, rank))
    if parts > 1:
        data, filters = _materialized(data, filters)
    pads = []
    for w, length, number in zip(windows, lengths, counts, strict=True):
        before = w.pads(length)[0]
        reach = (w.size - 1) * w.dilation + (number - 1) * w.stride + 1
        pads.append((before, reach - length - before))
    total: Any = None
    for part in range(parts):
        piece = lax.conv_general_dilated(
            data[part],
            filters[part],
            window_strides=[w.dilation for w in windows],
            padding=pads,
            rhs_dilation=[w.stride for w in windows],
            dimension_numbers=dimension_numbers(rank, False),
        )
        total = piece if total is None else total + piece
    return total


# -- Depthwise ---------------------------------------------------------------------------
#
# Each channel has filters of its own. XLA's grouped convolutions are slow on CPUs (30 ms
# where this takes 1 ms); a sum of shifted products fuses into one loop. Channels last.


def _shifted(
    x: Any, windows: Sequence[Window], padding: Any, counts: Sequence[int]
) -> list[tuple[tuple[int, int], Any]]:
    """For each position in the window the slice of `x` that it meets, channels last."""
    zero = jnp.zeros((), x.dtype)
    padded = lax.pad(x, zero, [(0, 0, 0), *((a, b, 0) for a, b in padding), (0, 0, 0)])
    rows, columns = windows
    slices = []
    for i in range(rows.size):
        for j in range(columns.size):
            start = (0, i * rows.dilation, j * columns.dilation, 0)
            last = (
                padded.shape[0],
                start[1] + (counts[0] - 1) * rows.stride + 1,
                start[2] + (counts[1] - 1) * columns.stride + 1,
                padded.shape[3],
            )
            strides = (1, rows.stride, columns.stride, 1)
            slices.append(((i, j), lax.slice(padded, start, last, strides)))
    return slices


def depthwise(x: Any, filters: Any, windows: Sequence[Window]) -> Any:
    """Depthwise convolution: ``[..., channels]`` to ``[..., channels * multiplier]``."""
    batch, *lengths, channels = x.shape
    counts = [_count(w, length) for w, length in zip(windows, lengths, strict=True)]
    pads = [w.pads(length) for w, length in zip(windows, lengths, strict=True)]
    total: Any = None
    for (i, j), piece in _shifted(x, windows, pads, counts):
        product = piece[..., None] * filters[i, j]
        total = product if total is None else total + product
    return jnp.reshape(total, (batch, *counts, channels * filters.shape[3]))


def _count(window: Window, length: int) -> int:
    count = window.output_size(length)
    assert count is not None
    return count


def depthwise_gradient_by_input(
    input_shape: Sequence[int], filters: Any, grad: Any, windows: Sequence[Window]
) -> Any:
    """What a depthwise convolution passes back to its input."""
    batch, *lengths, channels = input_shape
    multiplier = filters.shape[3]
    pads, counts = [], grad.shape[1:3]
    for w, length, count in zip(windows, lengths, counts, strict=True):
        before = w.reach - 1 - w.pads(length)[0]
        stretched = (count - 1) * w.stride + 1
        pads.append((before, length + w.reach - 1 - stretched - before))
    zeros_between = [(0, 0, w.stride - 1) for w in windows]
    grad = lax.pad(grad, jnp.zeros((), grad.dtype), [(0, 0, 0), *zeros_between, (0, 0, 0)])
    unit = [Window(w.size, dilation=w.dilation) for w in windows]
    flipped = jnp.flip(filters, (0, 1))
    total: Any = None
    for (i, j), piece in _shifted(grad, unit, pads, lengths):
        pieces = jnp.reshape(piece, (batch, *lengths, channels, multiplier))
        product = jnp.sum(pieces * flipped[i, j], axis=-1)
        total = product if total is None else total + product
    return total


def depthwise_gradient_by_filter(
    x: Any, filter_shape: Sequence[int], grad: Any, windows: Sequence[Window]
) -> Any:
    """What a depthwise convolution passes back to its filters."""
    channels, multiplier = filter_shape[2:]
    lengths, counts = x.shape[1:3], grad.shape[1:3]
    pads = [w.pads(length) for w, length in zip(windows, lengths, strict=True)]
    grads = jnp.reshape(grad, (*grad.shape[:3], channels, multiplier))
    sums = [
        jnp.sum(piece[..., None] * grads, axis=(0, 1, 2))
        for _, piece in _shifted(x, windows, pads, counts)
    ]
    return jnp.reshape(jnp.stack(sums), tuple(filter_shape))
