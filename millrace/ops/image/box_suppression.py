"""Of boxes that overlap, the best: non-max suppression in all of its versions.

A box is (y1, x1, y2, x2); which of the corners comes first does not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor

__all__: list[str] = []


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
