"""Boxes in images: drawn, and chosen at random so that they cover enough of some objects.

A box is (y1, x1, y2, x2), in parts of the image's height and width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core.tensor_shape import TensorShape
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.random import philox

__all__: list[str] = []

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
