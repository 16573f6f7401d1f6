"""Boxes in images: crops of them, overlaps suppressed, boxes drawn, and boxes at random.

A box is (y1, x1, y2, x2), in parts of the image's height and width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, like, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops import array_shape, philox
from millrace.ops.xla import jax, jnp

__all__: list[str] = []

# -- Crops of boxes, resized --------------------------------------------------------------------

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
        # C's roundf: halves go away from zero.
        crops = pixels(jnp.floor(y + 0.5), jnp.floor(x + 0.5))
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


# -- Suppression of overlapping boxes --------------------------------------------------------------


def _overlaps(boxes: Any, chosen: int) -> Any:
    """Intersection over union of one box with all."""
    low = np.minimum(boxes[:, :2], boxes[:, 2:])
    high = np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = np.prod(high - low, axis=1)
    sides = np.minimum(high, high[chosen]) - np.maximum(low, low[chosen])
    common = np.prod(np.maximum(sides, 0), axis=1)
    union = areas + areas[chosen] - common
    empty = (areas <= 0) | (areas[chosen] <= 0)
    return np.where(empty, 0, common / np.where(empty, 1, union))


def _suppressed(
    boxes: Any,
    scores: Any,
    limit: int,
    threshold: float,
    least: float,
    sigma: float = 0.0,
    overlaps: Any = None,
) -> tuple[list[int], list[float]]:
    """(chosen boxes, their scores), best first; later boxes that overlap too much are dropped."""
    if not 0 <= threshold <= 1 and overlaps is None:
        raise ValueError("iou_threshold must be in [0, 1]")
    if scores.ndim != 1 or len(scores) != len(boxes):
        raise ValueError(f"scores has incompatible shape {list(scores.shape)}")
    current = scores.astype(np.float64)
    left = current > least
    chosen: list[int] = []
    values: list[float] = []
    while left.any() and len(chosen) < limit:
        best = int(np.flatnonzero(left)[np.argmax(current[left])])
        chosen.append(best)
        values.append(float(current[best]))
        left[best] = False
        shared = _overlaps(boxes, best) if overlaps is None else overlaps[:, best]
        if sigma > 0:
            current = np.where(
                left, current * np.exp(-0.5 * shared * shared / np.float64(sigma)), current
            )
            left &= current > least
        else:
            left &= shared <= threshold
    return chosen, values


def _boxes_shape(c: ShapeContext) -> TensorShape:
    boxes = c.shape("boxes").with_rank(2)
    scores = c.shape("scores").with_rank(1)
    boxes[0].merge_with(scores[0])
    boxes[1].assert_is_compatible_with(4)
    return TensorShape([None])


_NMS_TYPES = "T: {float16, float32} = float32; T_threshold: {float16, float32} = float32"


def _check_boxes(boxes: Any) -> Any:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes must have 4 columns, got shape {list(boxes.shape)}")
    return boxes.astype(np.float32)


@op(
    "NonMaxSuppression(boxes: float32, scores: float32, max_output_size: int32) -> "
    "selected_indices: int32 where iou_threshold: float = 0.5",
    shape=_boxes_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def NonMaxSuppression(
    boxes: Any, scores: Any, max_output_size: Any, *, iou_threshold: float
) -> Any:
    """The best boxes that do not overlap."""
    boxes = _check_boxes(boxes)
    return _suppressed(boxes, scores, int(max_output_size), iou_threshold, -np.inf)[0]


@op(
    "NonMaxSuppressionV2(boxes: T, scores: T, max_output_size: int32, "
    f"iou_threshold: T_threshold) -> selected_indices: int32 where {_NMS_TYPES}",
    shape=_boxes_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def NonMaxSuppressionV2(boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any) -> Any:
    """The best boxes that do not overlap."""
    boxes = _check_boxes(boxes)
    return _suppressed(boxes, scores, int(max_output_size), float(iou_threshold), -np.inf)[0]


@op(
    "NonMaxSuppressionV3(boxes: T, scores: T, max_output_size: int32, "
    "iou_threshold: T_threshold, score_threshold: T_threshold) -> selected_indices: int32 "
    f"where {_NMS_TYPES}",
    shape=_boxes_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def NonMaxSuppressionV3(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any, score_threshold: Any
) -> Any:
    """The best boxes above a score that do not overlap."""
    boxes, limit = _check_boxes(boxes), int(max_output_size)
    return _suppressed(boxes, scores, limit, float(iou_threshold), float(score_threshold))[0]


def _padded_shape(c: ShapeContext) -> list[TensorShape]:
    shape = _boxes_shape(c)
    limit = c.value("max_output_size")
    if c.attr("pad_to_max_output_size") and limit is not None:
        shape = TensorShape([int(limit)])
    return [shape] * (c.output_count - 1) + [TensorShape([])]


def _pad(values: list[Any], count: int, padded: bool) -> list[Any]:
    return values + [0] * (count - len(values)) if padded else values


@op(
    "NonMaxSuppressionV4(boxes: T, scores: T, max_output_size: int32, "
    "iou_threshold: T_threshold, score_threshold: T_threshold) -> "
    f"(selected_indices: int32, valid_outputs: int32) where {_NMS_TYPES}; "
    "pad_to_max_output_size: bool = false",
    shape=_padded_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def NonMaxSuppressionV4(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any,
    score_threshold: Any,
    *,
    pad_to_max_output_size: bool,
) -> Any:
    """The best boxes above a score that do not overlap, filled up with zeros if wanted."""
    boxes, limit = _check_boxes(boxes), int(max_output_size)
    chosen, _ = _suppressed(boxes, scores, limit, float(iou_threshold), float(score_threshold))
    return _pad(chosen, limit, pad_to_max_output_size), len(chosen)


@op(
    "NonMaxSuppressionV5(boxes: T, scores: T, max_output_size: int32, iou_threshold: T, "
    "score_threshold: T, soft_nms_sigma: T) -> "
    "(selected_indices: int32, selected_scores: T, valid_outputs: int32) where "
    "T: {float16, float32} = float32; pad_to_max_output_size: bool = false",
    shape=_padded_shape,
    gradient=NO_GRADIENT,
    host=True,
)
def NonMaxSuppressionV5(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any,
    score_threshold: Any,
    soft_nms_sigma: Any,
    *,
    pad_to_max_output_size: bool,
) -> Any:
    """As V4; with a sigma, overlaps lower scores instead of dropping boxes."""
    boxes, limit = _check_boxes(boxes), int(max_output_size)
    chosen, values = _suppressed(
        boxes,
        scores,
        limit,
        float(iou_threshold),
        float(score_threshold),
        float(soft_nms_sigma),
    )
    padded = pad_to_max_output_size
    return _pad(chosen, limit, padded), _pad(values, limit, padded), len(chosen)


@op(
    "NonMaxSuppressionWithOverlaps(overlaps: float32, scores: float32, max_output_size: int32, "
    "overlap_threshold: float32, score_threshold: float32) -> selected_indices: int32",
    shape=lambda c: TensorShape([None]),
    gradient=NO_GRADIENT,
    host=True,
)
def NonMaxSuppressionWithOverlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any,
    score_threshold: Any,
) -> Any:
    """The best boxes, given how much each two overlap."""
    if overlaps.ndim != 2 or overlaps.shape[0] != overlaps.shape[1]:
        raise ValueError(f"overlaps must be square, got shape {list(overlaps.shape)}")
    return _suppressed(
        overlaps,
        scores,
        int(max_output_size),
        float(overlap_threshold),
        float(score_threshold),
        overlaps=overlaps,
    )[0]


def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Indices of the best boxes, none of which overlaps a better one too much."""
    with name_scope(name, "non_max_suppression"):
        threshold = convert_to_tensor(iou_threshold, name="iou_threshold")
        least = convert_to_tensor(score_threshold, name="score_threshold")
        return NonMaxSuppressionV3(boxes, scores, max_output_size, threshold, least)


def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, with the scores; with a sigma, overlaps lower them."""
    with name_scope(name, "non_max_suppression_with_scores"):
        threshold = convert_to_tensor(iou_threshold, name="iou_threshold")
        least = convert_to_tensor(score_threshold, name="score_threshold")
        sigma = convert_to_tensor(soft_nms_sigma, name="soft_nms_sigma")
        indices, values, _ = NonMaxSuppressionV5(
            boxes, scores, max_output_size, threshold, least, sigma
        )
        return indices, values


def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, filled up with zeros if wanted, and how many are valid."""
    with name_scope(name, "non_max_suppression_padded"):
        threshold = convert_to_tensor(iou_threshold, name="iou_threshold")
        least = convert_to_tensor(score_threshold, name="score_threshold")
        return NonMaxSuppressionV4(
            boxes,
            scores,
            max_output_size,
            threshold,
            least,
            pad_to_max_output_size=pad_to_max_output_size,
        )


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Indices of the best boxes, given a matrix of how much each two overlap."""
    with name_scope(name, "non_max_suppression_overlaps"):
        threshold = convert_to_tensor(overlap_threshold, name="overlap_threshold")
        return NonMaxSuppressionWithOverlaps(
            overlaps, scores, max_output_size, threshold, score_threshold
        )


# -- Drawing ---------------------------------------------------------------------------------------

#: TensorFlow's: yellow, blue, red, lime, purple, olive, maroon, navy, aqua, fuchsia.
_COLORS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ],
    np.float32,
)


def _drawn(images: Any, boxes: Any, colors: Any) -> Any:
    _, height, width, depth = images.shape
    result = images.copy()
    if depth == 1:
        colors = np.ones_like(colors)
    for image, its_boxes in zip(result, boxes, strict=True):
        for i, box in enumerate(its_boxes):
            color = colors[i % len(colors)][:depth]
            top, left, bottom, right = (
                int(edge) for edge in box * np.array([height - 1, width - 1] * 2, np.float32)
            )
            if top > bottom or left > right:
                continue
            if top >= height or bottom < 0 or left >= width or right < 0:
                continue
            rows = slice(max(top, 0), min(bottom, height - 1) + 1)
            columns = slice(max(left, 0), min(right, width - 1) + 1)
            if top >= 0:
                image[top, columns] = color
            if bottom < height:
                image[bottom, columns] = color
            if left >= 0:
                image[rows, left] = color
            if right < width:
                image[rows, right] = color
    return result


@op(
    "DrawBoundingBoxes(images: T, boxes: float32) -> output: T where "
    "T: {float32, float16} = float32",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def DrawBoundingBoxes(images: Any, boxes: Any) -> Any:
    """Images with boxes drawn into them."""
    return _drawn(images, boxes, _COLORS)


@op(
    "DrawBoundingBoxesV2(images: T, boxes: float32, colors: float32) -> output: T where "
    "T: {float32, float16} = float32",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def DrawBoundingBoxesV2(images: Any, boxes: Any, colors: Any) -> Any:
    """Images with boxes drawn into them, in given colours."""
    if not colors.size:
        return _drawn(images, boxes, _COLORS)
    depth = images.shape[-1]
    if colors.shape[1] < depth:
        raise ValueError(
            f"colors must have equal or more channels than the image provided: "
            f"{colors.shape[1]} vs. {depth}"
        )
    return _drawn(images, boxes, colors)


def draw_bounding_boxes(
    images: Any, boxes: Any, name: str | None = None, colors: Any = None
) -> Tensor:
    """Images with boxes drawn into them.

    Args:
      images: [batch, height, width, depth], in [0, 1].
      boxes: [batch, boxes, 4].
      name: The operation's name.
      colors: [colours, depth], taken in turn.
    """
    if colors is None:
        return DrawBoundingBoxes(images, boxes, name=name)
    return DrawBoundingBoxesV2(images, boxes, colors, name=name)


# -- Random boxes ----------------------------------------------------------------------------------


class _Draws:
    """Single words of a node's stream, in order, as TensorFlow's kernel draws them."""

    def __init__(self, generator: philox.Generator, count: int) -> None:
        with np.errstate(over="ignore"):
            blocks = philox.blocks(generator, np.arange(-(-count // 4), dtype=np.uint64))
        self._words = iter(np.stack(blocks, axis=1).reshape(-1).tolist())

    def unit(self) -> np.float32:
        """A float in [0, 1)."""
        bits = np.uint32(next(self._words) & 0x7FFFFF | 0x3F800000)
        return bits.view(np.float32) - np.float32(1)

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        return int(next(self._words)) % bound


def _random_crop(
    height: int, width: int, areas: tuple[float, float], aspect: np.float32, draws: _Draws
) -> tuple[int, int, int, int] | None:
    """(top, left, height, width) of a crop with an area and an aspect ratio, if there is one."""
    f = np.float32
    least, most = (f(area) * f(width) * f(height) for area in areas)

    def rounded(value: Any) -> int:
        return int(np.rint(f(value)))

    rows = rounded(np.sqrt(least / aspect))
    limit = rounded(np.sqrt(most / aspect))
    if rounded(limit * aspect) > width:
        limit = int((width + 0.5 - 1e-7) / float(aspect))
        if rounded(limit * aspect) > width:
            limit -= 1
    limit = min(limit, height)
    rows = min(rows, limit)
    if rows < limit:
        rows += draws.below(limit - rows + 1)
    columns = rounded(rows * aspect)
    if columns * rows < least:
        rows += 1
        columns = rounded(rows * aspect)
    if columns * rows > most:
        rows -= 1
        columns = rounded(rows * aspect)
    if not (least <= columns * rows <= most and 0 < columns <= width and 0 < rows <= height):
        return None
    top = draws.below(height - rows) if rows < height else 0
    left = draws.below(width - columns) if columns < width else 0
    return top, left, rows, columns


def _covers(crop: tuple[int, int, int, int], objects: Any, least: float) -> bool:
    """Whether a crop holds enough of at least one object."""
    top, left, rows, columns = crop
    for y1, x1, y2, x2 in objects:
        area = float((y2 - y1) * (x2 - x1))
        if area < 1:
            continue
        high = min(y2, top + rows) - max(y1, top)
        wide = min(x2, left + columns) - max(x1, left)
        if max(high, 0) * max(wide, 0) / area >= least:
            return True
    return False


def _sample_box(
    image_size: Any,
    bounding_boxes: Any,
    least: float,
    aspects: list[float],
    areas: list[float],
    attempts: int,
    whole_if_none: bool,
    words: Any,
) -> Any:
    if image_size.shape != (3,):
        raise ValueError(f"image_size must contain 3 elements; got {list(image_size.shape)}")
    height, width = int(image_size[0]), int(image_size[1])
    if min(height, width) <= 0:
        raise ValueError(f"image height and width must be positive, got {height} and {width}")
    if bounding_boxes.ndim != 3 or bounding_boxes.shape[-1] != 4:
        raise ValueError(
            "input boxes must be 3-dimensional [batch, num_boxes, coords], got "
            f"{list(bounding_boxes.shape)}"
        )
    boxes = bounding_boxes.reshape(-1, 4)
    if ((boxes < 0) | (boxes > 1)).any():
        raise ValueError("All bounding box coordinates must be in [0.0, 1.0]")
    objects = (boxes * np.array([height, width] * 2, np.float32)).astype(np.int64).tolist()
    if not objects:
        if not whole_if_none:
            raise ValueError(
                "No bounding boxes provided as input. One must enable "
                "use_image_if_no_bounding_boxes if you wish to not provide any bounding boxes."
            )
        objects = [[0, 0, height, width]]
    draws = _Draws(philox.generator_from_words(words, attempts), 4 * attempts)
    low, high = np.float32(aspects[0]), np.float32(aspects[1])
    crop = (0, 0, height, width)
    for _ in range(attempts):
        aspect = draws.unit() * (high - low) + low
        found = _random_crop(height, width, (areas[0], areas[1]), aspect, draws)
        if found is not None and _covers(found, objects, least):
            crop = found
            break
    top, left, rows, columns = crop
    box = [top / height, left / width, (top + rows) / height, (left + columns) / width]
    return (
        np.array([top, left, 0], image_size.dtype),
        np.array([rows, columns, -1], image_size.dtype),
        np.array(box, np.float32).reshape(1, 1, 4),
    )


def _box_shapes(c: ShapeContext) -> list[TensorShape]:
    c.shape("image_size").assert_is_compatible_with([3])
    c.shape("bounding_boxes").assert_has_rank(3)
    return [TensorShape([3]), TensorShape([3]), TensorShape([1, 1, 4])]


_BOX_OUT = "(begin: T, size: T, bboxes: float32) where T: {uint8, int8, int16, int32, int64}; "
_BOX_OPTIONS = (
    "aspect_ratio_range: list(float) = [0.75, 1.3300000429153442]; "
    "area_range: list(float) = [0.05000000074505806, 1.0]; max_attempts: int = 100; "
    "use_image_if_no_bounding_boxes: bool = false"
)


def _words_of(node: Any, ctx: Any) -> list[Any]:
    counter = ctx.random_counters([node])[0]
    seeds = node.attrs["seed"], node.attrs["seed2"]
    return [np.asarray(word, np.uint32) for word in philox.key_words(node.name, *seeds, counter)]


@op(
    f"SampleDistortedBoundingBoxV2(image_size: T, bounding_boxes: float32, "
    f"min_object_covered: float32) -> {_BOX_OUT}seed: int = 0; seed2: int = 0; {_BOX_OPTIONS}",
    shape=_box_shapes,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def SampleDistortedBoundingBoxV2(
    image_size: Any,
    bounding_boxes: Any,
    min_object_covered: Any,
    *,
    aspect_ratio_range: list[float],
    area_range: list[float],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
    node: Any,
    ctx: Any,
) -> Any:
    """A random part of an image that holds enough of an object."""
    return _sample_box(
        image_size,
        bounding_boxes,
        float(min_object_covered),
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
        _words_of(node, ctx),
    )


@op(
    f"SampleDistortedBoundingBox(image_size: T, bounding_boxes: float32) -> {_BOX_OUT}"
    "seed: int = 0; seed2: int = 0; min_object_covered: float = 0.10000000149011612; "
    f"{_BOX_OPTIONS}",
    shape=_box_shapes,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def SampleDistortedBoundingBox(
    image_size: Any,
    bounding_boxes: Any,
    *,
    min_object_covered: float,
    aspect_ratio_range: list[float],
    area_range: list[float],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
    node: Any,
    ctx: Any,
) -> Any:
    """As V2, with the least part of an object as an attribute."""
    return _sample_box(
        image_size,
        bounding_boxes,
        min_object_covered,
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
        _words_of(node, ctx),
    )


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> Any:
    """A random part of an image that holds enough of an object, for training on distorted images.

    Args:
      image_size: (height, width, channels).
      bounding_boxes: [batch, N, 4]: where objects are.
      seed: A seed of the op.
      seed2: A second seed.
      min_object_covered: How much of an object the part must hold.
      aspect_ratio_range: Least and greatest width / height.
      area_range: Least and greatest part of the image's area.
      max_attempts: After as many tries the whole image is returned.
      use_image_if_no_bounding_boxes: Whether no boxes mean one around all.
      name: The name scope.

    Returns:
      (begin, size) for `tf.slice`, and the part as a box [1, 1, 4].
    """
    with name_scope(name, "sample_distorted_bounding_box"):
        return SampleDistortedBoundingBoxV2(
            image_size,
            bounding_boxes,
            min_object_covered,
            seed=seed,
            seed2=seed2,
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            max_attempts=max_attempts,
            use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
            name=name,
        )
