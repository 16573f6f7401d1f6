"""Images cropped, padded, flipped and turned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import pad as array_pad
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.control_flow import control_flow
from millrace.ops.image import resize as image_resize
from millrace.ops.image.checks import (
    as_batch,
    at_least_three_dimensional,
    checked,
    dimensions,
    is_tensor,
    require,
)
from millrace.ops.math import arithmetic, comparison, elementwise
from millrace.ops.random import random

__all__: list[str] = []


# -- Flips and turns -------------------------------------------------------------------------------


def _by_rank(image: Tensor, single: Callable[[], Any], batch: Callable[[], Any]) -> Any:
    """What to do with one image or a batch, decided now if the rank is known."""
    rank = image.shape.ndims
    if rank is None:
        return control_flow.cond(comparison.equal(array_shape.rank(image), 3), single, batch)
    if rank not in (3, 4):
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    return single() if rank == 3 else batch()


def _with_shape_of(image: Tensor, result: Tensor) -> Tensor:
    result.set_shape([None, None, None] if image.shape.ndims is None else image.shape)
    return result


def _flip(image: Any, axis: int, scope: str) -> Tensor:
    with name_scope(None, scope, [image]):
        tensor = checked(convert_to_tensor(image, name="image"))
        return _by_rank(
            tensor,
            lambda: _with_shape_of(tensor, array_layout.reverse(tensor, [axis])),
            lambda: array_layout.reverse(tensor, [axis + 1]),
        )


def flip_left_right(image: Any) -> Tensor:
    """The image, or every image of a batch, mirrored left to right."""
    return _flip(image, 1, "flip_left_right")


def flip_up_down(image: Any) -> Tensor:
    """The image, or every image of a batch, mirrored top to bottom."""
    return _flip(image, 0, "flip_up_down")


def _random_flip(image: Any, axis: int, seed: int | None, scope_name: str) -> Tensor:
    with name_scope(None, scope_name, [image]) as scope:
        tensor: Any = checked(convert_to_tensor(image, name="image"))

        def single() -> Tensor:
            drawn = random.random_uniform([], 0, 1.0, seed=seed)
            flipped = control_flow.cond(
                comparison.less(drawn, 0.5),
                lambda: array_layout.reverse(tensor, [axis]),
                lambda: tensor,
                name=scope,
            )
            return _with_shape_of(tensor, flipped)

        def batch() -> Tensor:
            sizes: Any = array_shape.shape(tensor)
            drawn = random.random_uniform([sizes[0]], 0, 1.0, seed=seed)
            choice = elementwise.round(array_shape.reshape(drawn, [sizes[0], 1, 1, 1]))
            choice = cast.cast(choice, tensor.dtype)
            flipped = array_layout.reverse(tensor, [axis + 1])
            result: Tensor = choice * flipped + (1 - choice) * tensor
            return result

        return _by_rank(tensor, single, batch)


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """The image mirrored left to right, or not, at random; each of a batch by itself."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """The image mirrored top to bottom, or not, at random; each of a batch by itself."""
    return _random_flip(image, 0, seed, "random_flip_up_down")


def transpose(image: Any, name: str | None = None) -> Tensor:
    """The image with rows and columns exchanged."""
    with name_scope(name, "transpose", [image]):
        tensor = checked(convert_to_tensor(image, name="image"))
        return _by_rank(
            tensor,
            lambda: array_layout.transpose(tensor, [1, 0, 2], name=name),
            lambda: array_layout.transpose(tensor, [0, 2, 1, 3], name=name),
        )


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """The image turned counter-clockwise by 90 degrees, `k` times."""
    with name_scope(name, "rot90", [image, k]) as scope:
        tensor = checked(convert_to_tensor(image, name="image"))
        turns = convert_to_tensor(k, dtypes.int32, name="k")
        turns.shape.assert_has_rank(0)
        turns = arithmetic.mod(turns, 4)
        return _by_rank(
            tensor,
            lambda: _turned(tensor, turns, 0, scope),
            lambda: _turned(tensor, turns, 1, scope),
        )


def _turned(image: Tensor, turns: Tensor, row: int, scope: str) -> Tensor:
    """The image, whose rows are dimension `row`, turned."""
    column = row + 1
    order = [*range(row), column, row, column + 1]

    def once() -> Tensor:
        return array_layout.transpose(array_layout.reverse(image, [column]), order)

    def twice() -> Tensor:
        return array_layout.reverse(image, [row, column])

    def thrice() -> Tensor:
        return array_layout.reverse(array_layout.transpose(image, order), [column])

    choices = [
        (comparison.equal(turns, times), turn)
        for times, turn in ((1, once), (2, twice), (3, thrice))
    ]
    result = control_flow.case(choices, default=lambda: image, exclusive=True, name=scope)
    if row == 0:
        depth = image.shape[2] if image.shape.ndims is not None else None
        result.set_shape([None, None, depth])
    else:
        known = result.shape.with_rank(4)
        result.set_shape([known[0], None, None, known[3]])
    return result


# -- Crops and paddings --------------------------------------------------------------------------


def central_crop(image: Any, central_fraction: Any) -> Tensor:
    """The middle of the image, with a fraction of its height and width.

    Raises:
      ValueError: The fraction is not within (0, 1], or the rank is neither 3 nor 4.
    """
    with name_scope(None, "central_crop", [image]):
        tensor = convert_to_tensor(image, name="image")
        fraction: Any = central_fraction
        if is_tensor(central_fraction):
            value = constant_value(central_fraction)
            fraction = None if value is None else float(value)
        if fraction is not None:
            if not 0.0 < fraction <= 1.0:
                raise ValueError("central_fraction must be within (0, 1]")
            if fraction == 1.0:
                return tensor
        else:
            valid = comparison.logical_or(central_fraction > 0.0, central_fraction <= 1.0)
            tensor = control_flow.with_dependencies(
                require(valid, "central_fraction must be within (0, 1]"), tensor
            )
        checked(tensor)
        rank = tensor.shape.ndims
        if rank not in (3, 4):
            raise ValueError(
                f"`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = {rank}."
            )
        first = rank - 3
        sizes, begins, known = [], [], []
        for axis in (first, first + 1):
            size = tensor.shape.as_list()[axis]
            if size is not None and fraction is not None:
                begin: Any = int((float(size) - float(size) * fraction) / 2)
                known.append(size - begin * 2)
            else:
                shape: Any = array_shape.shape(tensor)
                size = shape[axis] if size is None else size
                wide = cast.cast(size, dtypes.float64)
                part = wide * cast.cast(central_fraction, dtypes.float64)
                begin = cast.cast((wide - part) / 2, dtypes.int32)
                known.append(None)
            begins.append(begin)
            sizes.append(size - begin * 2)
        cropped = array_slicing.slice(
            tensor,
            array_join.stack([*([0] * first), *begins, 0]),
            array_join.stack([*([-1] * first), *sizes, -1]),
        )
        cropped.set_shape([*tensor.shape.as_list()[:first], *known, tensor.shape.as_list()[-1]])
        return cropped


def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """The image with zeros around it.

    Args:
      image: One image or a batch.
      offset_height: Rows of zeros on top.
      offset_width: Columns of zeros on the left.
      target_height: Height of the result.
      target_width: Width of the result.

    Raises:
      ValueError: The image does not fit, or an offset is negative.
    """
    with name_scope(None, "pad_to_bounding_box", [image]):
        batch, was_batch = as_batch(convert_to_tensor(image, name="image"))
        count, height, width, depth = dimensions(batch, 4)
        below = target_height - offset_height - height
        beside = target_width - offset_width - width
        conditions = [
            *at_least_three_dimensional(batch),
            *require(offset_height >= 0, "offset_height must be >= 0"),
            *require(offset_width >= 0, "offset_width must be >= 0"),
            *require(beside >= 0, "width must be <= target - offset"),
            *require(below >= 0, "height must be <= target - offset"),
        ]
        batch = control_flow.with_dependencies(conditions, batch)
        paddings = array_shape.reshape(
            array_join.stack([0, 0, offset_height, below, offset_width, beside, 0, 0]), [4, 2]
        )
        padded = array_pad.pad(batch, paddings)
        padded.set_shape(_known([count, target_height, target_width, depth]))
        return padded if was_batch else array_shape.squeeze(padded, axis=[0])


def _known(sizes: list[Any]) -> TensorShape:
    return TensorShape([None if is_tensor(size) else size for size in sizes])


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """A part of the image.

    Args:
      image: One image or a batch.
      offset_height: First row of the part.
      offset_width: First column of the part.
      target_height: Height of the part.
      target_width: Width of the part.

    Raises:
      ValueError: The part is not within the image.
    """
    with name_scope(None, "crop_to_bounding_box", [image]):
        batch, was_batch = as_batch(convert_to_tensor(image, name="image"))
        conditions = at_least_three_dimensional(batch)
        count, height, width, depth = dimensions(batch, 4)
        conditions += [
            *require(offset_width >= 0, "offset_width must be >= 0."),
            *require(offset_height >= 0, "offset_height must be >= 0."),
            *require(target_width > 0, "target_width must be > 0."),
            *require(target_height > 0, "target_height must be > 0."),
            *require(width >= target_width + offset_width, "width must be >= target + offset."),
            *require(height >= target_height + offset_height, "height must be >= target + offset."),
        ]
        batch = control_flow.with_dependencies(conditions, batch)
        sizes: Any = array_shape.shape(batch)
        cropped = array_slicing.slice(
            batch,
            array_join.stack([0, offset_height, offset_width, 0]),
            array_join.stack([sizes[0], target_height, target_width, sizes[3]]),
        )
        cropped.set_shape(_known([count, target_height, target_width, depth]))
        return cropped if was_batch else array_shape.squeeze(cropped, axis=[0])


def _largest(x: Any, y: Any) -> Any:
    return arithmetic.maximum(x, y) if is_tensor(x) or is_tensor(y) else max(x, y)


def _smallest(x: Any, y: Any) -> Any:
    return arithmetic.minimum(x, y) if is_tensor(x) or is_tensor(y) else min(x, y)


def _equal(x: Any, y: Any) -> Any:
    return comparison.equal(x, y) if is_tensor(x) or is_tensor(y) else x == y


def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """The image with another size: its middle, or with zeros around it.

    Raises:
      ValueError: A target is not positive, or the rank is neither 3 nor 4.
    """
    with name_scope(None, "resize_image_with_crop_or_pad", [image]):
        batch, was_batch = as_batch(convert_to_tensor(image, name="image"))
        conditions = [
            *at_least_three_dimensional(batch),
            *require(target_width > 0, "target_width must be > 0."),
            *require(target_height > 0, "target_height must be > 0."),
        ]
        batch = control_flow.with_dependencies(conditions, batch)
        if is_tensor(target_height):
            target_height = control_flow.with_dependencies(conditions, target_height)
        if is_tensor(target_width):
            target_width = control_flow.with_dependencies(conditions, target_width)
        _, height, width, _ = dimensions(batch, 4)
        wider, higher = target_width - width, target_height - height
        cropped = crop_to_bounding_box(
            batch,
            _largest(-higher // 2, 0),
            _largest(-wider // 2, 0),
            _smallest(target_height, height),
            _smallest(target_width, width),
        )
        resized = pad_to_bounding_box(
            cropped,
            _largest(higher // 2, 0),
            _largest(wider // 2, 0),
            target_height,
            target_width,
        )
        _, resized_height, resized_width, _ = dimensions(resized, 4)
        conditions = [
            *require(_equal(resized_height, target_height), "resized height is not correct."),
            *require(_equal(resized_width, target_width), "resized width is not correct."),
        ]
        resized = control_flow.with_dependencies(conditions, resized)
        return resized if was_batch else array_shape.squeeze(resized, axis=[0])


def resize_image_with_pad(
    image: Any,
    target_height: Any,
    target_width: Any,
    method: Any = image_resize.ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Tensor:
    """The image scaled to fit into another size, with zeros around it.

    Raises:
      ValueError: A target is not positive, or the rank is neither 3 nor 4.
    """
    with name_scope(None, "resize_image_with_pad", [image]):
        batch, was_batch = as_batch(convert_to_tensor(image, name="image"))
        conditions = [
            *at_least_three_dimensional(batch),
            *require(target_width > 0, "target_width must be > 0."),
            *require(target_height > 0, "target_height must be > 0."),
        ]
        batch = control_flow.with_dependencies(conditions, batch)
        _, height, width, _ = dimensions(batch, 4)

        def real(value: Any) -> Any:
            return cast.cast(value, dtypes.float32)

        def whole(value: Any) -> Any:
            return cast.cast(elementwise.floor(value), dtypes.int32)

        real_height, real_width = real(height), real(width)
        real_target_height, real_target_width = real(target_height), real(target_width)
        ratio = _largest(real_width / real_target_width, real_height / real_target_height)
        new_height, new_width = real_height / ratio, real_width / ratio
        sizes = [whole(new_height), whole(new_width)]
        above = _largest(0, whole((real_target_height - new_height) / 2))
        left = _largest(0, whole((real_target_width - new_width) / 2))
        resized = image_resize.resize_images(batch, sizes, method, align_corners=align_corners)
        padded = pad_to_bounding_box(resized, above, left, target_height, target_width)
        return padded if was_batch else array_shape.squeeze(padded, axis=[0])
