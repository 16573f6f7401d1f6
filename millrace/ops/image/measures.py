"""Measures of images: variation, gradients, edges, similarity, and glimpses of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies, name_scope
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast, constant
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import pad as array_pad
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import assertion, control_flow
from millrace.ops.image.color import convert_image_dtype
from millrace.ops.math import arithmetic, comparison, elementwise, reduction
from millrace.ops.nn import activation, depthwise, pooling

__all__: list[str] = []


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """The sum of absolute differences of neighbouring pixels, for each image.

    Raises:
      ValueError: The rank is neither 3 nor 4.
    """
    with name_scope(name, "total_variation"):
        rank = images.shape.ndims
        if rank == 3:
            down = images[1:, :, :] - images[:-1, :, :]
            along = images[:, 1:, :] - images[:, :-1, :]
            axes = None
        elif rank == 4:
            down = images[:, 1:, :, :] - images[:, :-1, :, :]
            along = images[:, :, 1:, :] - images[:, :, :-1, :]
            axes = [1, 2, 3]
        else:
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        first: Any = reduction.reduce_sum(elementwise.abs(down), axis=axes)
        return first + reduction.reduce_sum(elementwise.abs(along), axis=axes)


def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """(dy, dx): the difference of each pixel to the one below, and to the one beside it.

    Raises:
      ValueError: The rank is not 4.
    """
    if image.shape.ndims != 4:
        raise ValueError(
            f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {image.shape}."
        )
    shape = array_shape.shape(image)
    batch, height, width, depth = array_join.unstack(shape)
    down = image[:, 1:, :, :] - image[:, :-1, :, :]
    along = image[:, :, 1:, :] - image[:, :, :-1, :]
    last_row = array_fill.zeros(array_join.stack([batch, 1, width, depth]), image.dtype)
    down = array_shape.reshape(array_join.concat([down, last_row], 1), shape)
    last_column = array_fill.zeros(array_join.stack([batch, height, 1, depth]), image.dtype)
    along = array_shape.reshape(array_join.concat([along, last_column], 2), shape)
    return down, along


def sobel_edges(image: Any) -> Tensor:
    """Sobel's estimate of (dy, dx), in a last dimension of size 2."""
    static = image.shape
    shape: Any = array_shape.shape(image)
    kernels = np.array([[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]])
    filters = constant.constant(np.transpose(kernels, (1, 2, 0))[:, :, None], image.dtype)
    filters = array_layout.tile(filters, [1, 1, shape[-1], 1], name="sobel_filters")
    padded = array_pad.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    edges = depthwise.depthwise_conv2d(padded, filters, [1, 1, 1, 1], "VALID")
    edges = array_shape.reshape(edges, array_join.concat([shape, [2]], 0))
    edges.set_shape(static.concatenate(TensorShape([2])))
    return edges


# -- Similarity ------------------------------------------------------------------------------------


def _compatible(a: Tensor, b: Tensor) -> tuple[Any, Any, list[Any]]:
    """(shape of a, shape of b, checks that the two are images of one size).

    Raises:
      ValueError: It is known that they are not.
    """
    first, second = a.shape.with_rank_at_least(3), b.shape.with_rank_at_least(3)
    if first.ndims is not None and second.ndims is not None:
        first[-3:].assert_is_compatible_with(second[-3:])
        for m, n in zip(first.as_list()[-4::-1], second.as_list()[-4::-1], strict=False):
            if None not in (m, n) and 1 not in (m, n) and m != n:
                raise ValueError(f"Two images are not compatible: {first} and {second}")
    shapes: Any = array_shape.shape_n([a, b])
    checks = [
        assertion.Assert(
            comparison.greater_equal(array_shape.size(shapes[0]), 3), shapes, summarize=10
        ),
        assertion.Assert(
            reduction.reduce_all(comparison.equal(shapes[0][-3:], shapes[1][-3:])),
            shapes,
            summarize=10,
        ),
    ]
    return shapes[0], shapes[1], checks


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """The peak signal-to-noise ratio of two images, in decibels, for each pair of a batch."""
    with name_scope(name, "PSNR", [a, b]):
        peak = convert_image_dtype(cast.cast(max_val, a.dtype), dtypes.float32)
        first = convert_image_dtype(a, dtypes.float32)
        second = convert_image_dtype(b, dtypes.float32)
        error = reduction.reduce_mean(arithmetic.squared_difference(first, second), [-3, -2, -1])
        log_peak: Any = elementwise.log(peak)
        ratio = arithmetic.subtract(
            20 * log_peak / elementwise.log(10.0),
            np.float32(10 / np.log(10)) * elementwise.log(error),
            name="psnr",
        )
        _, _, checks = _compatible(first, second)
        with control_dependencies(checks):
            return array_identity.identity(ratio)


def _gaussian(size: int, sigma: float, channels: int | None, images: Tensor) -> Tensor:
    """A Gaussian filter for every channel."""
    places = np.arange(size, dtype=np.float64) - (size - 1) / 2
    line = np.exp(-0.5 * places**2 / sigma**2)
    window = np.outer(line, line)
    kernel = constant.constant(
        (window / window.sum()).astype(np.float32)[:, :, None, None], images.dtype
    )
    sizes: Any = array_shape.shape(images)
    count = sizes[-1] if channels is None else channels
    return array_layout.tile(kernel, [1, 1, count, 1])


def _ssim_per_channel(
    a: Any,
    b: Any,
    max_val: Any,
    filter_size: int,
    filter_sigma: float,
    k1: float,
    k2: float,
    index_map: bool = False,
) -> tuple[Any, Any]:
    """(similarity, contrast and structure alone) of each channel."""
    shapes: Any = array_shape.shape_n([a, b])
    checks = [
        assertion.Assert(
            reduction.reduce_all(comparison.greater_equal(shape[-3:-1], filter_size)),
            [shape, filter_size],
            summarize=8,
        )
        for shape in shapes
    ]
    with control_dependencies(checks):
        a = array_identity.identity(a)
    channels = None if a.shape.ndims is None else a.shape.as_list()[-1]
    kernel = _gaussian(filter_size, filter_sigma, channels, a)

    def blurred(x: Any) -> Any:
        shape: Any = array_shape.shape(x)
        flat = array_shape.reshape(x, array_join.concat([[-1], shape[-3:]], 0))
        y = depthwise.depthwise_conv2d(flat, kernel, strides=[1, 1, 1, 1], padding="VALID")
        sizes: Any = array_shape.shape(y)
        return array_shape.reshape(y, array_join.concat([shape[:-3], sizes[1:]], 0))

    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    mean_a, mean_b = blurred(a), blurred(b)
    product = mean_a * mean_b * 2.0
    squares = elementwise.square(mean_a) + elementwise.square(mean_b)
    luminance = (product + c1) / (squares + c1)
    both = blurred(a * b) * 2.0
    each = blurred(elementwise.square(a) + elementwise.square(b))
    structure = (both - product + c2) / (each - squares + c2)
    if index_map:
        return luminance * structure, structure
    return (
        reduction.reduce_mean(luminance * structure, [-3, -2]),
        reduction.reduce_mean(structure, [-3, -2]),
    )


def _prepared(img1: Any, img2: Any, max_val: Any) -> tuple[Any, Any, Any, Any, Any]:
    first = convert_to_tensor(img1, name="img1")
    second = convert_to_tensor(img2, name="img2")
    shape1, shape2, checks = _compatible(first, second)
    with control_dependencies(checks):
        first = array_identity.identity(first)
    peak = convert_image_dtype(cast.cast(max_val, first.dtype), dtypes.float32)
    return (
        convert_image_dtype(first, dtypes.float32),
        convert_image_dtype(second, dtypes.float32),
        peak,
        shape1,
        shape2,
    )


def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """The structural similarity of two images (Wang et al., 2004), for each pair of a batch."""
    with name_scope(None, "SSIM", [img1, img2]):
        first, second, peak, _, _ = _prepared(img1, img2, max_val)
        similarity, _ = _ssim_per_channel(
            first, second, peak, filter_size, filter_sigma, k1, k2, return_index_map
        )
        return reduction.reduce_mean(similarity, [-1])


def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Any = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """The structural similarity of two images over several scales (Wang et al., 2003)."""
    with name_scope(None, "MS-SSIM", [img1, img2]):
        first, second, peak, shape1, shape2 = _prepared(img1, img2, max_val)
        images = [first, second]
        heads = [shape1[:-3], shape2[:-3]]
        tails: list[Any] = [shape1[-3:], shape2[-3:]]
        structures: list[Any] = []
        similarity: Any = None
        for k in range(len(power_factors)):
            with name_scope(None, f"Scale{k}", images):
                if k:
                    images, tails = _halved(images, heads, tails)
                similarity, structure = _ssim_per_channel(
                    images[0], images[1], peak, filter_size, filter_sigma, k1, k2
                )
                structures.append(activation.relu(structure))
        structures[-1] = activation.relu(similarity)
        stacked = array_join.stack(structures, axis=-1)
        product = reduction.reduce_prod(arithmetic.pow(stacked, power_factors), [-1])
        return reduction.reduce_mean(product, [-1])


def _halved(images: list[Any], heads: list[Any], tails: list[Any]) -> tuple[list[Any], list[Any]]:
    """Images of half the size; an odd row or column is repeated first."""
    flat = [
        array_shape.reshape(x, array_join.concat([[-1], tail], 0))
        for x, tail in zip(images, tails, strict=True)
    ]
    remainder = tails[0] % constant.constant([2, 2, 1], dtypes.int32)
    uneven = reduction.reduce_any(comparison.not_equal(remainder, 0))

    def even() -> list[Any]:
        padding = array_shape.expand_dims(remainder, -1)
        padding = array_pad.pad(padding, [[1, 0], [1, 0]])
        return [array_pad.pad(x, padding, mode="SYMMETRIC") for x in flat]

    padded = control_flow.cond(uneven, even, lambda: flat)
    window = [1, 2, 2, 1]
    smaller = [pooling.avg_pool(x, ksize=window, strides=window, padding="VALID") for x in padded]
    new_shapes: Any = array_shape.shape_n(smaller)
    tails = [shape[1:] for shape in new_shapes]
    return [
        array_shape.reshape(x, array_join.concat([head, tail], 0))
        for x, head, tail in zip(smaller, heads, tails, strict=True)
    ], tails


# -- Glimpses --------------------------------------------------------------------------------------


def _glimpse_shape(c: ShapeContext) -> TensorShape:
    images = c.shape("input").with_rank(4)
    offsets = c.shape("offsets").with_rank(2)
    offsets[1].assert_is_compatible_with(2)
    size = c.value_as_shape("size").with_rank(2)
    return TensorShape([images[0].merge_with(offsets[0]), size[0], size[1], images[3]])


_GLIMPSE = (
    "(input: float32, size: int32, offsets: float32) -> glimpse: float32 where "
    "centered: bool = true; normalized: bool = true; uniform_noise: bool = true; "
    'noise: string = "uniform"'
)


def _glimpse(
    images: Any,
    size: Any,
    offsets: Any,
    centered: bool,
    normalized: bool,
    noise: bytes,
    key: Any,
) -> Any:
    _, height, width, _ = images.shape
    rows, columns = int(size[0]), int(size[1])
    images, offsets = jnp.asarray(images), jnp.asarray(offsets)
    extent = np.array([height, width], np.float32)
    corner = offsets * extent if normalized else offsets
    if centered:
        corner = corner / 2 + extent / 2
    corner = jnp.trunc(corner - np.array([rows, columns], np.float32) / 2).astype(np.int32)
    y = corner[:, :1] + np.arange(rows, dtype=np.int32)
    x = corner[:, 1:] + np.arange(columns, dtype=np.int32)
    inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
    which = np.arange(images.shape[0])[:, None, None]
    rows_taken = jnp.clip(y, 0, height - 1)[:, :, None]
    taken = images[which, rows_taken, jnp.clip(x, 0, width - 1)[:, None]]
    if noise == b"uniform":
        outside: Any = jax.random.uniform(key, taken.shape, np.float32)
    elif noise == b"gaussian":
        outside = jax.random.normal(key, taken.shape, np.float32)
    else:
        outside = np.float32(0)
    return jnp.where(inside[..., None], taken, outside)


@op(f"ExtractGlimpse{_GLIMPSE}", shape=_glimpse_shape, gradient=NO_GRADIENT, static=("size",))
def ExtractGlimpse(
    input: Any,
    size: Any,
    offsets: Any,
    *,
    centered: bool,
    normalized: bool,
    uniform_noise: bool,
    noise: bytes,
    rng: Any,
) -> Any:
    """Windows of images around points; noise where they reach outside."""
    kind = noise if noise != b"uniform" or uniform_noise else b"gaussian"
    return _glimpse(input, size, offsets, centered, normalized, kind, rng)


@op(f"ExtractGlimpseV2{_GLIMPSE}", shape=_glimpse_shape, gradient=NO_GRADIENT, static=("size",))
def ExtractGlimpseV2(
    input: Any,
    size: Any,
    offsets: Any,
    *,
    centered: bool,
    normalized: bool,
    uniform_noise: bool,
    noise: bytes,
    rng: Any,
) -> Any:
    """Windows of images around points; noise where they reach outside."""
    return _glimpse(input, size, offsets, centered, normalized, noise, rng)


def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """Windows of images around points.

    Args:
      input: [batch, height, width, channels].
      size: (height, width) of a window.
      offsets: [batch, 2]: (y, x) of the middle of each window.
      centered: Whether (0, 0) is the middle of the image.
      normalized: Whether offsets are in parts of the image's size.
      uniform_noise: Whether what is outside is uniform noise, else normal.
      name: The operation's name.
    """
    return ExtractGlimpse(
        input,
        size,
        offsets,
        centered=centered,
        normalized=normalized,
        uniform_noise=uniform_noise,
        name=name,
    )
