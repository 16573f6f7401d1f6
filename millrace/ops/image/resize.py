"""Resizing images: nearest neighbour, bilinear, bicubic, area, with gradients.

A resize is linear and works on rows and columns by themselves: what one output row takes from the
input rows is a matrix that depends on the sizes only. Forward, nearest and bilinear gather the one
or two rows that count; the others, and all gradients, multiply by the matrix.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.constant_value import constant_value_as_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, like
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import shape as array_shape
from millrace.ops.image import checks as image_checks
from millrace.ops.math import arithmetic, elementwise

__all__: list[str] = []


class ResizeMethod:
    """How `resize_images` interpolates."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


# -- What an output row takes from the input rows ------------------------------------------------


def _scale(size: int, new_size: int, align_corners: bool) -> np.float32:
    if align_corners and new_size > 1:
        return np.float32(size - 1) / np.float32(new_size - 1)
    return np.float32(size) / np.float32(new_size)


def _places(size: int, new_size: int, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Where each output row lies among the input rows, in single precision as in TensorFlow."""
    scale = _scale(size, new_size, align_corners)
    index = np.arange(new_size, dtype=np.float32)
    if half_pixel_centers:
        return (index + np.float32(0.5)) * scale - np.float32(0.5)
    return index * scale


@functools.lru_cache(256)
def _nearest(size: int, new_size: int, align_corners: bool, half_pixel_centers: bool) -> Any:
    """The input row of each output row."""
    scale = _scale(size, new_size, align_corners)
    index = np.arange(new_size, dtype=np.float32)
    place = (index + np.float32(0.5)) * scale if half_pixel_centers else index * scale
    # C's roundf: halves go away from zero.
    row = np.floor(place + np.float32(0.5)) if align_corners else np.floor(place)
    return np.clip(row, 0, size - 1).astype(np.int32)


@functools.lru_cache(256)
def _linear(size: int, new_size: int, align_corners: bool, half_pixel_centers: bool) -> Any:
    """(lower row, upper row, share of the upper) of each output row."""
    place = _places(size, new_size, align_corners, half_pixel_centers)
    floor = np.floor(place)
    lower = np.maximum(floor, 0).astype(np.int32)
    upper = np.minimum(np.ceil(place), size - 1).astype(np.int32)
    return np.minimum(lower, size - 1), np.maximum(upper, 0), (place - floor).astype(np.float32)


def _matrix(size: int, rows: Any, weights: Any) -> Any:
    """[new size, size] from the input rows [new size, taps] and their weights."""
    matrix = np.zeros((len(rows), size), np.float32)
    np.add.at(matrix, (np.arange(len(rows))[:, None], rows), weights)
    return matrix


@functools.lru_cache(128)
def nearest_matrix(size: int, new_size: int, align_corners: bool, half_pixel: bool) -> Any:
    """The matrix of nearest neighbours."""
    rows = _nearest(size, new_size, align_corners, half_pixel)[:, None]
    return _matrix(size, rows, np.ones(rows.shape, np.float32))


@functools.lru_cache(128)
def linear_matrix(size: int, new_size: int, align_corners: bool, half_pixel: bool) -> Any:
    """The matrix of linear interpolation."""
    lower, upper, share = _linear(size, new_size, align_corners, half_pixel)
    return _matrix(size, np.stack([lower, upper], 1), np.stack([1 - share, share], 1))


#: TensorFlow looks the cubic kernel up in a table with this many steps between two pixels.
_CUBIC_STEPS = 1024


@functools.lru_cache(128)
def cubic_matrix(size: int, new_size: int, align_corners: bool, half_pixel: bool) -> Any:
    """The matrix of cubic interpolation.

    With half-pixel centers Keys' kernel (a = -0.5), without weight outside the image; else
    a = -0.75, with edge pixels repeated.
    """
    place = _places(size, new_size, align_corners, half_pixel)
    floor = np.floor(place)
    step = np.rint((place - floor) * np.float32(_CUBIC_STEPS))
    a = -0.5 if half_pixel else -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    left, right = step / _CUBIC_STEPS, 1 - step / _CUBIC_STEPS
    weights = np.stack([far(left + 1), near(left), near(right), far(right + 1)], 1)
    rows = floor.astype(np.int64)[:, None] + np.arange(-1, 3)
    inside = np.clip(rows, 0, size - 1)
    weights = weights.astype(np.float32)
    if half_pixel:
        weights = np.where(inside == rows, weights, np.float32(0))
        weights = weights / weights.sum(axis=1, keepdims=True)
    return _matrix(size, inside, weights)


@functools.lru_cache(128)
def area_matrix(size: int, new_size: int, align_corners: bool) -> Any:
    """The matrix of averages over areas."""
    scale = _scale(size, new_size, align_corners)
    matrix = np.zeros((new_size, size), np.float32)
    for i in range(new_size):
        begin = np.float32(i) * scale
        end = np.float32(i + 1) * scale
        for row in range(int(np.floor(begin)), int(np.ceil(end))):
            covered = min(np.float32(row + 1), end) - max(np.float32(row), begin)
            matrix[i, min(max(row, 0), size - 1)] += covered / scale
    return matrix


def _apply(images: Any, rows: Any, columns: Any) -> Any:
    """[batch, height, width, depth] multiplied by a matrix for rows and one for columns."""
    precision = lax.Precision.HIGHEST
    images = jnp.einsum("yh,bhwd->bywd", rows, images, precision=precision)
    return jnp.einsum("xw,bywd->byxd", columns, images, precision=precision)


# -- Op types ------------------------------------------------------------------------------------


def _resize_shape(c: ShapeContext) -> TensorShape:
    images = c.shape("images").with_rank(4)
    c.shape("size").assert_is_compatible_with([2])
    size = c.value_as_shape("size").with_rank(2)
    return TensorShape([images[0], size[0], size[1], images[3]])


def _new_size(images: Any, size: Any) -> tuple[int, int, int, int]:
    """(height, width, new height, new width).

    Raises:
      ValueError: The image is empty, or the size is not two positive numbers.
    """
    if np.ndim(images) != 4:
        raise ValueError(f"input must be 4-dimensional, got shape {list(np.shape(images))}")
    if np.shape(size) != (2,):
        raise ValueError(f"shape_t must be 1-dimensional with 2 elements: {np.shape(size)}")
    height, width = np.shape(images)[1:3]
    new_height, new_width = int(size[0]), int(size[1])
    if new_height <= 0 or new_width <= 0:
        raise ValueError("output dimensions must be positive")
    if height <= 0 or width <= 0:
        raise ValueError("input image must be of non-zero size")
    return height, width, new_height, new_width


_T = "{int8, uint8, int16, uint16, int32, int64, float16, float32, float64, bfloat16}"
_OPTIONS = "align_corners: bool = false; half_pixel_centers: bool = false"
_BAD_OPTIONS = "If half_pixel_centers is True, align_corners must be False."


def _check_options(align_corners: bool, half_pixel_centers: bool) -> None:
    if align_corners and half_pixel_centers:
        raise ValueError(_BAD_OPTIONS)


@op(
    f"ResizeBilinear(images: T, size: int32) -> resized_images: float32 where T: {_T}; {_OPTIONS}",
    shape=_resize_shape,
    static=("size",),
)
def ResizeBilinear(images: Any, size: Any, *, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Images of another size, interpolated linearly between four pixels."""
    _check_options(align_corners, half_pixel_centers)
    height, width, new_height, new_width = _new_size(images, size)
    images = jnp.asarray(images).astype(np.float32)
    if (height, width) == (new_height, new_width):
        return images
    left, right, share = _linear(width, new_width, align_corners, half_pixel_centers)
    first, second = images[:, :, left], images[:, :, right]
    images = first + (second - first) * share[:, None]
    top, bottom, share = _linear(height, new_height, align_corners, half_pixel_centers)
    first, second = images[:, top], images[:, bottom]
    return first + (second - first) * share[:, None, None]


@op(
    "ResizeBilinearGrad(grads: float32, original_image: T) -> output: T where "
    f"T: {{float32, bfloat16, float16, float64}}; {_OPTIONS}",
    shape=like("original_image"),
    gradient=NO_GRADIENT,
)
def ResizeBilinearGrad(
    grads: Any, original_image: Any, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """The gradient of ResizeBilinear."""
    return _resized_back(linear_matrix, grads, original_image, align_corners, half_pixel_centers)


def _resized_back(
    matrix: Any, grads: Any, original: Any, align_corners: bool, half_pixel_centers: bool
) -> Any:
    _check_options(align_corners, half_pixel_centers)
    (height, width), (new_height, new_width) = original.shape[1:3], grads.shape[1:3]
    rows = matrix(height, new_height, align_corners, half_pixel_centers).T
    columns = matrix(width, new_width, align_corners, half_pixel_centers).T
    return _apply(jnp.asarray(grads), rows, columns).astype(original.dtype)


@ResizeBilinear.gradient
def _(op: Operation, grad: Tensor) -> Any:
    image = op.inputs[0]
    if not image.dtype.is_floating:
        return None, None
    return ResizeBilinearGrad(grad, image, **_options(op)), None


def _options(op: Operation) -> dict[str, bool]:
    return {name: op.attrs[name] for name in ("align_corners", "half_pixel_centers")}


@op(
    f"ResizeNearestNeighbor(images: T, size: int32) -> resized_images: T where T: {_T}; {_OPTIONS}",
    shape=_resize_shape,
    static=("size",),
)
def ResizeNearestNeighbor(
    images: Any, size: Any, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """Images of another size, each pixel that of the nearest one."""
    _check_options(align_corners, half_pixel_centers)
    height, width, new_height, new_width = _new_size(images, size)
    rows = _nearest(height, new_height, align_corners, half_pixel_centers)
    columns = _nearest(width, new_width, align_corners, half_pixel_centers)
    return jnp.asarray(images)[:, rows][:, :, columns]


def _nearest_grad_shape(c: ShapeContext) -> TensorShape:
    grads = c.shape("grads").with_rank(4)
    size = c.value_as_shape("size").with_rank(2)
    return TensorShape([grads[0], size[0], size[1], grads[3]])


@op(
    "ResizeNearestNeighborGrad(grads: T, size: int32) -> output: T where "
    f"T: {{uint8, int8, int32, float16, float32, float64, bfloat16}}; {_OPTIONS}",
    shape=_nearest_grad_shape,
    gradient=NO_GRADIENT,
    static=("size",),
)
def ResizeNearestNeighborGrad(
    grads: Any, size: Any, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """The gradient of ResizeNearestNeighbor: sums over the pixels that one became."""
    _check_options(align_corners, half_pixel_centers)
    new_height, new_width = grads.shape[1:3]
    height, width = int(size[0]), int(size[1])
    grads = jnp.asarray(grads)
    rows = nearest_matrix(height, new_height, align_corners, half_pixel_centers).T
    columns = nearest_matrix(width, new_width, align_corners, half_pixel_centers).T
    return _apply(grads, rows.astype(grads.dtype), columns.astype(grads.dtype))


@ResizeNearestNeighbor.gradient
def _(op: Operation, grad: Tensor) -> Any:
    image = op.inputs[0]
    known = image.shape[1:3] if image.shape.ndims is not None else None
    size: Any
    if known is not None and known.is_fully_defined():
        size = known
    else:
        shape: Any = array_shape.shape(image)
        size = shape[1:3]
    return ResizeNearestNeighborGrad(grad, size, **_options(op)), None


@op(
    f"ResizeBicubic(images: T, size: int32) -> resized_images: float32 where T: {_T}; {_OPTIONS}",
    shape=_resize_shape,
    static=("size",),
)
def ResizeBicubic(images: Any, size: Any, *, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Images of another size, interpolated by cubics through sixteen pixels."""
    _check_options(align_corners, half_pixel_centers)
    height, width, new_height, new_width = _new_size(images, size)
    images = jnp.asarray(images).astype(np.float32)
    rows = cubic_matrix(height, new_height, align_corners, half_pixel_centers)
    columns = cubic_matrix(width, new_width, align_corners, half_pixel_centers)
    return _apply(images, rows, columns)


@op(
    "ResizeBicubicGrad(grads: float32, original_image: T) -> output: T where "
    f"T: {{float32, float64}}; {_OPTIONS}",
    shape=like("original_image"),
    gradient=NO_GRADIENT,
)
def ResizeBicubicGrad(
    grads: Any, original_image: Any, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """The gradient of ResizeBicubic."""
    return _resized_back(cubic_matrix, grads, original_image, align_corners, half_pixel_centers)


@ResizeBicubic.gradient
def _(op: Operation, grad: Tensor) -> Any:
    image = op.inputs[0]
    if image.dtype.base_dtype not in (dtypes.float32, dtypes.float64):
        return None, None
    return ResizeBicubicGrad(grad, image, **_options(op)), None


@op(
    f"ResizeArea(images: T, size: int32) -> resized_images: float32 where T: {_T}; "
    "align_corners: bool = false",
    shape=_resize_shape,
    gradient=JAX_GRADIENT,
    static=("size",),
)
def ResizeArea(images: Any, size: Any, *, align_corners: bool) -> Any:
    """Images of another size, each pixel the average over its area."""
    height, width, new_height, new_width = _new_size(images, size)
    images = jnp.asarray(images).astype(np.float32)
    rows = area_matrix(height, new_height, align_corners)
    columns = area_matrix(width, new_width, align_corners)
    return _apply(images, rows, columns)


# -- Public functions ------------------------------------------------------------------------------


def resize_bilinear(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images of another size, interpolated linearly."""
    return ResizeBilinear(
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )


def resize_nearest_neighbor(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images of another size, each pixel that of the nearest one."""
    return ResizeNearestNeighbor(
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )


def resize_bicubic(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images of another size, interpolated by cubics."""
    return ResizeBicubic(
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )


def resize_area(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Tensor:
    """Images of another size, each pixel the average over its area."""
    return ResizeArea(images, size, align_corners=align_corners, name=name)


_METHODS = {
    ResizeMethod.BILINEAR: resize_bilinear,
    "bilinear": resize_bilinear,
    ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
    "nearest": resize_nearest_neighbor,
    ResizeMethod.BICUBIC: resize_bicubic,
    "bicubic": resize_bicubic,
    ResizeMethod.AREA: resize_area,
    "area": resize_area,
}


def resize_images(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """An image, or a batch of images, of another size.

    Args:
      images: [batch, height, width, channels] or [height, width, channels].
      size: (new height, new width).
      method: One of `ResizeMethod`.
      align_corners: Whether the centers of corner pixels stay at the corners.
      preserve_aspect_ratio: Whether to fit into `size` without distortion.
      name: The name scope.

    Raises:
      ValueError: The rank or the size is wrong, or the method is unknown.
    """
    with name_scope(name, "resize", [images, size]):
        tensor = convert_to_tensor(images, name="images")
        rank = tensor.shape.ndims
        if rank is None:
            raise ValueError("'images' contains no shape.")
        if rank not in (3, 4):
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        batch = tensor if rank == 4 else array_shape.expand_dims(tensor, 0)
        try:
            wanted: Any = convert_to_tensor(size, dtypes.int32, name="size")
        except (TypeError, ValueError):
            raise ValueError("'size' must be a 1-D int32 Tensor") from None
        if not wanted.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        if preserve_aspect_ratio:
            wanted = _fitting(batch, wanted)
        known = constant_value_as_shape(wanted).with_rank(2).as_list()
        if method not in _METHODS:
            raise ValueError(f"Resize method is not implemented: {method}")
        _, height, width, _ = batch.shape.as_list()
        if None not in known and [height, width] == known:
            return batch if rank == 4 else array_shape.squeeze(batch, axis=[0])
        resized: Tensor = _METHODS[method](batch, wanted, align_corners=align_corners)
        resized.set_shape([None, known[0], known[1], None])
        return resized if rank == 4 else array_shape.squeeze(resized, axis=[0])


def _fitting(batch: Tensor, size: Any) -> Tensor:
    """The largest size within `size` that has the image's proportions."""
    _, height, width, _ = image_checks.dimensions(batch, 4)

    def real(value: Any) -> Any:
        return cast.cast(value, dtypes.float32)

    factor = arithmetic.minimum(real(size[0]) / real(height), real(size[1]) / real(width))
    scaled = [
        cast.cast(elementwise.round(factor * real(current)), dtypes.int32)
        for current in (height, width)
    ]
    return convert_to_tensor(scaled, dtypes.int32, name="size")
