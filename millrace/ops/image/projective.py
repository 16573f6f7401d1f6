"""Projective transforms of images: eight numbers per image say where each pixel comes from."""

from __future__ import annotations

from typing import Any

from millrace.core.tensor_shape import TensorShape
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill, join, shape
from millrace.ops.linalg import matrix_factorization

__all__: list[str] = []


def _shapes(c: ShapeContext) -> TensorShape:
    images = c.shape("images")
    size = c.value("output_shape")
    height, width = (None, None) if size is None else (int(size[0]), int(size[1]))
    if images.ndims is None:
        return TensorShape([None, height, width, None])
    return TensorShape([images[0], height, width, images[3]])


@op(
    "ImageProjectiveTransformV2(images: dtype, transforms: float32, output_shape: int32) -> "
    "transformed_images: dtype where dtype: {uint8, int32, int64, float16, float32, float64}; "
    "interpolation: string",
    shape=_shapes,
    static=("output_shape",),
)
def ImageProjectiveTransformV2(
    images: Any, transforms: Any, output_shape: Any, *, interpolation: Any, xp: Any
) -> Any:
    """Each output pixel (x, y) is the input's at ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k).

    There k is c0 x + c1 y + 1. What lies outside of the input is 0.
    """
    images = xp.asarray(images)
    height, width = int(output_shape[0]), int(output_shape[1])
    count, rows, columns = images.shape[:3]
    y, x = xp.meshgrid(
        xp.arange(height, dtype=xp.float32), xp.arange(width, dtype=xp.float32), indexing="ij"
    )
    t = xp.broadcast_to(transforms, (count, 8))[:, :, None, None]
    k = t[:, 6] * x + t[:, 7] * y + 1
    there = k != 0
    k = xp.where(there, k, xp.ones_like(k))
    from_x = (t[:, 0] * x + t[:, 1] * y + t[:, 2]) / k
    from_y = (t[:, 3] * x + t[:, 4] * y + t[:, 5]) / k
    batch = xp.arange(count)[:, None, None]

    def pixels(row: Any, column: Any) -> Any:
        inside = there & (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        row = xp.clip(row, 0, rows - 1).astype(xp.int32)
        column = xp.clip(column, 0, columns - 1).astype(xp.int32)
        found = images[batch, row, column]
        return xp.where(inside[..., None], found, xp.zeros_like(found))

    if interpolation == b"NEAREST":
        return pixels(_rounded(from_y, xp), _rounded(from_x, xp))
    if interpolation != b"BILINEAR":
        raise ValueError("Invalid interpolation, must be NEAREST or BILINEAR")
    top, left = xp.floor(from_y), xp.floor(from_x)
    kind = xp.float64 if images.dtype == xp.float64 else xp.float32
    right_part = (from_x - left)[..., None].astype(kind)
    lower_part = (from_y - top)[..., None].astype(kind)
    upper = pixels(top, left) * (1 - right_part) + pixels(top, left + 1) * right_part
    lower = pixels(top + 1, left) * (1 - right_part) + pixels(top + 1, left + 1) * right_part
    return (upper * (1 - lower_part) + lower * lower_part).astype(images.dtype)


def _rounded(value: Any, xp: Any) -> Any:
    """To the nearest whole number, halves away from zero."""
    return xp.where(value < 0, xp.ceil(value - 0.5), xp.floor(value + 0.5))


@ImageProjectiveTransformV2.gradient
def _(forward: Operation, grad: Tensor) -> list[Any]:
    images, transforms = forward.inputs[0], forward.inputs[1]
    inverse = matrices_to_flat_transforms(
        matrix_factorization.matrix_inverse(flat_transforms_to_matrices(transforms))
    )
    back = ImageProjectiveTransformV2(
        grad,
        inverse,
        shape.shape(images)[1:3],
        interpolation=forward.get_attr("interpolation"),
    )
    return [back, None, None]


def flat_transforms_to_matrices(transforms: Any) -> Tensor:
    """``[n, 8]`` as ``[n, 3, 3]``, with 1 in the corner."""
    flat = shape.reshape(transforms, [-1, 8])
    ones = fill.ones([shape.shape(flat)[0], 1])
    return shape.reshape(join.concat([flat, ones], axis=1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> Tensor:
    """``[n, 3, 3]`` as ``[n, 8]``: divided by the last corner."""
    flat = shape.reshape(transform_matrices, [-1, 9])
    return (flat / flat[:, 8:9])[:, :8]
