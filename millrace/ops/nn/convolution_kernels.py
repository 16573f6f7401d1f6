"""How convolutions are put to XLA. What is faster was measured, not guessed: see
``docs/decisions/0003-convolution-lowering.md`` and ``benchmarks/convolution_lowering.py``.

All functions take arrays and `Window`s, keep the dtype of their inputs, and know nothing of
nodes and attributes. Filters are ``[*window, in_channels / groups, out_channels]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from millrace.compiler import onednn
from millrace.compiler.xla import jax, jnp, lax
from millrace.ops.nn.windows import Window

__all__: list[str] = []

#: The longest sum (images x positions) that one convolution of a filter gradient should take:
#: beyond a few thousand terms the CPU's contraction leaves the caches, and takes three times as
#: long.
FILTER_GRADIENT_TERMS = 2048
#: With so few output channels that convolution takes three to seven times as long as a product of
#: matrices for each position in the window (16 to 16 channels, 32 x 32, batch 128: 126 ms, 24 by
#: products, 30 in TensorFlow; 32 to 16: 183 and 33). With more it takes less (16 to 32: 18 and 23),
#: and with fewer (64 to 3: 106 and 469).
FEWEST_OUTPUTS, FEW_OUTPUTS = 8, 16
#: And then so many terms are best (24 ms; 29 with 2048).
PRODUCT_TERMS = 1024
#: Windows of more elements would take too long to compile.
MOST_PRODUCTS = 49
#: How many multiplications make a convolution worth two transpositions (`_worth_all_cores`).
WORTH_ALL_CORES = 2**27
#: And how many there must be for each number that is copied.
WORTH_A_COPY = 1024
#: Rows of an image as wide as this keep all cores busy by themselves.
WIDE_ENOUGH = 128


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
    if not channels_first:
        pads = [w.pads(length) for w, length in zip(windows, x.shape[1:-1], strict=True)]
        strides, dilations = [w.stride for w in windows], [w.dilation for w in windows]
        if onednn.takes(x, filters, pads, strides, dilations):
            return onednn.convolution(x, filters, pads, strides, dilations)
        if _worth_all_cores(x, filters, windows):
            return _with_batch_in_width(x, filters, pads, dilations)
    return _convolve_as_given(x, filters, windows, channels_first)


def _convolve_as_given(
    x: Any, filters: Any, windows: Sequence[Window], channels_first: bool
) -> Any:
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


# -- All cores ---------------------------------------------------------------------------
#
# XLA's CPU convolution (YNNPACK) shares out the positions of one row of one image, and the
# output channels, between the cores; rows and images follow each other. With a row of 14
# positions and 64 channels it runs on one core, whatever the batch. So the batch goes into the
# row: position w of image n is at w * batch + n, the next position of the same image is `batch`
# further, and a window with that dilation never sees another image. The sums are the same, in
# the same order.


def _is_shared_by_columns(x: Any, windows: Sequence[Window]) -> bool:
    """Whether the library described above gets convolutions like this one."""
    if jax.default_backend() != "cpu" or len(windows) != 2:
        return False
    return bool(x.dtype in (jnp.float32, jnp.float64))


def _worth_all_cores(x: Any, filters: Any, windows: Sequence[Window]) -> bool:
    """Whether `_with_batch_in_width` can do this convolution (channels last), and should.

    By shapes alone, so that a program is compiled the same way each time.
    """
    if not _is_shared_by_columns(x, windows):
        return False
    batch, _, width, channels = x.shape
    outputs = filters.shape[3]
    if filters.shape[2] != channels or any(w.stride != 1 for w in windows):
        return False
    # XLA makes a 1 x 1 convolution a matrix product, and gives few channels to another library.
    if all(w.size == 1 for w in windows) or max(channels, outputs) <= 16 or channels < 8:
        return False
    for_each = windows[0].size * windows[1].size * outputs
    enough = for_each >= WORTH_A_COPY and x.size * for_each >= WORTH_ALL_CORES
    return enough and batch > 1 and width < WIDE_ENOUGH


def _with_batch_in_width(
    x: Any, filters: Any, pads: Sequence[tuple[int, int]], dilations: Sequence[int]
) -> Any:
    """A convolution with steps of 1 and channels last, the whole batch as one wide image."""
    batch, height, width, channels = x.shape
    one = jnp.reshape(jnp.transpose(x, (1, 2, 0, 3)), (1, height, width * batch, channels))
    before, behind = pads[1]
    result = lax.conv_general_dilated(
        one,
        filters,
        window_strides=(1, 1),
        padding=(pads[0], (before * batch, behind * batch)),
        rhs_dilation=(dilations[0], dilations[1] * batch),
        dimension_numbers=dimension_numbers(4, False),
    )
    height, outputs = result.shape[1], result.shape[3]
    apart = jnp.reshape(result, (height, result.shape[2] // batch, batch, outputs))
    return jnp.transpose(apart, (2, 0, 1, 3))


# -- Gradients ---------------------------------------------------------------------------


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
    if not channels_first and filters.shape[-2] == input_shape[-1]:
        backwards = jnp.swapaxes(jnp.flip(filters, tuple(range(len(windows)))), -1, -2)
        pads, dilations = [], [w.dilation for w in windows]
        for w, length, count in zip(windows, input_shape[1:-1], grad.shape[1:-1], strict=True):
            before = w.reach - 1 - w.pads(length)[0]
            pads.append((before, length + w.reach - 1 - count - before))
        if all(w.stride == 1 for w in windows):
            if onednn.takes(grad, backwards, pads, (1, 1), dilations):
                return onednn.convolution(grad, backwards, pads, (1, 1), dilations)
            if _worth_all_cores(grad, backwards, windows):
                return _with_batch_in_width(grad, backwards, pads, dilations)
    template = _template(input_shape, grad.dtype)
    transpose = jax.linear_transpose(
        lambda x: _convolve_as_given(x, filters, windows, channels_first), template
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
            lambda filters: _convolve_as_given(x, filters, windows, channels_first), template
        )(grad)[0]
    if channels_first:
        x, grad = jnp.moveaxis(x, 1, -1), jnp.moveaxis(grad, 1, -1)
    images, of_images = batch, _filter_gradient
    if jax.default_backend() == "cpu":
        terms = FILTER_GRADIENT_TERMS
        if _is_sooner_by_products(grad, windows):
            terms, of_images = PRODUCT_TERMS, _filter_gradient_by_products
        positions = max(grad.size // max(batch * grad.shape[-1], 1), 1)
        images = min(max(terms // positions, 1), batch)
    parts, rest = divmod(batch, images)

    def of_part(part: Any, count: int) -> Any:
        start = part * images
        return of_images(
            lax.dynamic_slice_in_dim(x, start, count),
            lax.dynamic_slice_in_dim(grad, start, count),
            windows,
        )

    if parts == 1 and not rest:
        return of_images(x, grad, windows)
    # A loop, not a sum of `parts` terms: it compiles once, what it slices is in the cache, and
    # what comes before is not computed again in the transposition of each part.
    zeros = jnp.zeros(tuple(filter_shape), grad.dtype)
    total = lax.fori_loop(0, parts, lambda part, sum_: sum_ + of_part(part, images), zeros)
    return total + of_part(parts, rest) if rest else total


def _is_sooner_by_products(grad: Any, windows: Sequence[Window]) -> bool:
    """Whether the convolution of `_filter_gradient` would have too few output channels."""
    elements = math.prod(w.size for w in windows)
    is_few = FEWEST_OUTPUTS <= grad.shape[-1] <= FEW_OUTPUTS
    return len(windows) == 2 and is_few and elements <= MOST_PRODUCTS


def _filter_gradient_by_products(x: Any, grad: Any, windows: Sequence[Window]) -> Any:
    """As `_filter_gradient`: for each position in the window a product of matrices."""
    pads = [w.pads(length) for w, length in zip(windows, x.shape[1:-1], strict=True)]
    over = (((0, 1, 2), (0, 1, 2)), ((), ()))
    products = [
        lax.dot_general(piece, grad, over)
        for _, piece in _shifted(x, windows, pads, grad.shape[1:3])
    ]
    sizes = (*(w.size for w in windows), x.shape[-1], grad.shape[-1])
    return jnp.reshape(jnp.stack(products), sizes)


def _filter_gradient(x: Any, grad: Any, windows: Sequence[Window]) -> Any:
    """The gradient as one convolution, ``[*window, in, out]``; data have channels last.

    The images of the data play the channels, and the gradients are the filters. The channels
    play the batch, or stand inside the rows (see `_with_batch_in_width`), where all cores share
    them. The layouts are those that XLA's convolutions want: another one would be transposed
    first, or, inside of a loop, be computed by a plain loop.
    """
    lengths, counts = x.shape[1:-1], grad.shape[1:-1]
    images, channels, rank = x.shape[0], x.shape[-1], x.ndim
    pads = []
    for w, length, number in zip(windows, lengths, counts, strict=True):
        before = w.pads(length)[0]
        reach = (w.size - 1) * w.dilation + (number - 1) * w.stride + 1
        pads.append((before, reach - length - before))
    space = tuple(range(1, rank - 1))
    filters = jnp.transpose(grad, (*space, 0, rank - 1))
    strides, dilations = [w.dilation for w in windows], [w.stride for w in windows]
    if _is_shared_by_columns(x, windows) and strides[1] == 1 and channels >= 8:
        data = jnp.transpose(x, (*space, rank - 1, 0))
        data = jnp.reshape(data, (1, lengths[0], lengths[1] * channels, images))
        before, behind = pads[1]
        pads[1] = (before * channels, behind * channels)
        dilations[1] *= channels
    else:
        data = jnp.transpose(x, (rank - 1, *space, 0))
    if onednn.takes(data, filters, pads, strides, dilations):
        result = onednn.convolution(data, filters, pads, strides, dilations)
    else:
        result = lax.conv_general_dilated(
            data,
            filters,
            window_strides=strides,
            padding=pads,
            rhs_dilation=dilations,
            dimension_numbers=dimension_numbers(rank, False),
        )
    if data.shape[0] == 1:
        return jnp.reshape(result, (*(w.size for w in windows), channels, grad.shape[-1]))
    # [in, *window, out] to [*window, in, out].
    return jnp.transpose(result, (*range(1, rank - 1), 0, rank - 1))


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
