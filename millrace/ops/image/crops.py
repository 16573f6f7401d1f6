"""Crops of boxes in images, resized to one size, and their gradients.

A box is (y1, x1, y2, x2), in parts of the image's height and width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, like
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape

__all__: list[str] = []

_IMAGE_TYPES = "T: {uint8, uint16, int8, int16, int32, int64, float16, float32, float64}"


def _crop_shape(c: ShapeContext) -> TensorShape:
    image = c.shape("image").with_rank(4)
    boxes = c.shape("boxes").with_rank(2)
    boxes[1].assert_is_compatible_with(4)
    count = boxes[0].merge_with(c.shape("box_ind").with_rank(1)[0])
    size = c.value_as_shape("crop_size").with_rank(2)
    return TensorShape([count, size[0], size[1], image[3]])


def _sampled(low: Any, high: Any, size: int, count: int) -> Any:
    """[boxes, count] positions between two edges of each box, in pixels."""
    if count > 1:
        step = (high - low) * (size - 1) / (count - 1)
        return low[:, None] * (size - 1) + jnp.arange(count, dtype=np.float32) * step[:, None]
    return 0.5 * (low + high)[:, None] * (size - 1)


def _crops(
    image: Any, boxes: Any, box_ind: Any, sizes: tuple[int, int], method: bytes, outside: float
) -> Any:
    """The crops; differentiable by the image and, if bilinear, by the boxes."""
    height, width = image.shape[1:3]
    image = image.astype(np.float32)
    y = _sampled(boxes[:, 0], boxes[:, 2], height, sizes[0])
    x = _sampled(boxes[:, 1], boxes[:, 3], width, sizes[1])
    # XLA may fuse the multiplication and the addition above, so that an edge comes out a hair
    # outside of the image where TensorFlow's rounding puts it exactly on the edge.
    slack = np.float32(1e-5)
    inside_y = (y >= -slack) & (y <= height - 1 + slack)
    inside_x = (x >= -slack) & (x <= width - 1 + slack)
    inside = inside_y[:, :, None] & inside_x[:, None, :]
    which = box_ind[:, None, None]

    def pixels(rows: Any, columns: Any) -> Any:
        rows = jnp.clip(rows, 0, height - 1).astype(np.int32)[:, :, None]
        columns = jnp.clip(columns, 0, width - 1).astype(np.int32)[:, None, :]
        return image[which, rows, columns]

    if method == b"nearest":
        # C's roundf: halves go away from zero, also those that come out a hair smaller.
        half_y, half_x = (0.5 + np.spacing(np.float32(size)) for size in (height, width))
        crops = pixels(jnp.floor(y + half_y), jnp.floor(x + half_x))
    else:
        top, left = jnp.floor(y), jnp.floor(x)
        bottom, right = jnp.ceil(y), jnp.ceil(x)
        down = (y - jax.lax.stop_gradient(top))[:, :, None, None]
        along = (x - jax.lax.stop_gradient(left))[:, None, :, None]
        above = pixels(top, left)
        above = above + (pixels(top, right) - above) * along
        below = pixels(bottom, left)
        below = below + (pixels(bottom, right) - below) * along
        crops = above + (below - above) * down
    return jnp.where(inside[..., None], crops, np.float32(outside))


def _check_indices(box_ind: Any, batch: int, check: Any) -> None:
    box_ind = box_ind if isinstance(box_ind, jax.Array) else np.asarray(box_ind)
    check(
        (box_ind >= 0) & (box_ind < batch),
        "box_index has values outside [0, batch_size)",
    )


@op(
    "CropAndResize(image: T, boxes: float32, box_ind: int32, crop_size: int32) -> "
    f'crops: float32 where {_IMAGE_TYPES}; method: {{"bilinear", "nearest"}} = "bilinear"; '
    "extrapolation_value: float = 0.0",
    shape=_crop_shape,
    static=("crop_size",),
)
def CropAndResize(
    image: Any,
    boxes: Any,
    box_ind: Any,
    crop_size: Any,
    *,
    method: bytes,
    extrapolation_value: float,
    check: Any,
) -> Any:
    """Crops of boxes, each resized to one size."""
    sizes = (int(crop_size[0]), int(crop_size[1]))
    if min(sizes) <= 0:
        raise ValueError("crop dimensions must be positive")
    _check_indices(box_ind, image.shape[0], check)
    image, boxes, box_ind = (jnp.asarray(value) for value in (image, boxes, box_ind))
    return _crops(image, boxes, box_ind, sizes, method, extrapolation_value)


@op(
    "CropAndResizeGradImage(grads: float32, boxes: float32, box_ind: int32, image_size: int32) "
    "-> output: T where T: {float32, float16, float64}; "
    'method: {"bilinear", "nearest"} = "bilinear"',
    shape=lambda c: c.value_as_shape("image_size"),
    gradient=NO_GRADIENT,
    static=("image_size",),
)
def CropAndResizeGradImage(
    grads: Any, boxes: Any, box_ind: Any, image_size: Any, *, T: Any, method: bytes
) -> Any:
    """The gradient of CropAndResize by the image."""
    grads, boxes, box_ind = (jnp.asarray(value) for value in (grads, boxes, box_ind))
    sizes = grads.shape[1:3]

    def forward(image: Any) -> Any:
        return _crops(image, boxes, box_ind, sizes, method, 0.0)

    blank = jnp.zeros(tuple(int(size) for size in image_size), np.float32)
    (result,) = jax.vjp(forward, blank)[1](grads)
    return result.astype(T.as_numpy_dtype)


@op(
    "CropAndResizeGradBoxes(grads: float32, image: T, boxes: float32, box_ind: int32) -> "
    f'output: float32 where {_IMAGE_TYPES}; method: {{"bilinear"}} = "bilinear"',
    shape=like("boxes"),
    gradient=NO_GRADIENT,
)
def CropAndResizeGradBoxes(
    grads: Any, image: Any, boxes: Any, box_ind: Any, *, method: bytes
) -> Any:
    """The gradient of CropAndResize by the boxes."""
    grads, image, boxes, box_ind = (jnp.asarray(value) for value in (grads, image, boxes, box_ind))

    def forward(moved: Any) -> Any:
        return _crops(image, moved, box_ind, grads.shape[1:3], method, 0.0)

    (result,) = jax.vjp(forward, boxes)[1](grads)
    return result


@CropAndResize.gradient
def _(op: Operation, grad: Tensor) -> Any:
    image, boxes, box_ind = op.inputs[0], op.inputs[1], op.inputs[2]
    image_grad = None
    if image.dtype.base_dtype in (dtypes.float16, dtypes.float32, dtypes.float64):
        known = image.shape.is_fully_defined()
        size = image.shape.as_list() if known else array_shape.shape(image)
        image_grad = CropAndResizeGradImage(
            grad, boxes, box_ind, size, T=image.dtype.base_dtype, method=op.attrs["method"]
        )
    return image_grad, CropAndResizeGradBoxes(grad, image, boxes, box_ind), None, None


def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: Any = None,
) -> Tensor:
    """Crops of boxes, each resized to one size.

    Args:
      image: [batch, height, width, depth].
      boxes: [N, 4]; may reach outside the image, and be upside down to flip it.
      box_ind: [N]: which image each box is of.
      crop_size: (height, width) of every crop.
      method: "bilinear" or "nearest".
      extrapolation_value: What is outside the image.
      name: The operation's name.
      box_indices: The newer name of `box_ind`.
    """
    which = box_ind if box_indices is None else box_indices
    return CropAndResize(
        image,
        boxes,
        which,
        crop_size,
        method=method,
        extrapolation_value=float(extrapolation_value),
        name=name,
    )
