"""Images rotated, moved and transformed; regions of equal pixels; matching of two sets."""

from __future__ import annotations

from typing import Any

import numpy as np

import millrace as tf
from millrace.ops.image.projective import (
    ImageProjectiveTransformV2,
    flat_transforms_to_matrices,
    matrices_to_flat_transforms,
)

__all__ = ["flat_transforms_to_matrices", "matrices_to_flat_transforms"]

_IMAGE_TYPES = (tf.uint8, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64)


def rotate(
    images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None
) -> Any:
    """Images turned counterclockwise by angles in radians, around their middle.

    Args:
      images: ``[n, rows, columns, channels]``, or without the first, or the first and the last.
      angles: One angle, or one per image.
      interpolation: "NEAREST" or "BILINEAR".
      name: A name for the operation.
    """
    with tf.name_scope(name or "rotate"):
        images = tf.convert_to_tensor(images)
        shape = tf.shape(images)
        rows, columns = _rows_and_columns(images, shape)
        transforms = angles_to_projective_transforms(
            angles, tf.cast(rows, tf.float32), tf.cast(columns, tf.float32)
        )
        return transform(images, transforms, interpolation)


def translate(
    images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None
) -> Any:
    """Images moved by [dx, dy], one pair or one per image.

    Args:
      images: As of `rotate`.
      translations: ``[2]`` or ``[n, 2]``.
      interpolation: "NEAREST" or "BILINEAR".
      name: A name for the operation.
    """
    with tf.name_scope(name or "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


def _rows_and_columns(images: Any, shape: Any) -> tuple[Any, Any]:
    if images.shape.ndims is None:
        raise TypeError("images must have known rank")
    if images.shape.ndims not in (2, 3, 4):
        raise TypeError("Images should have rank between 2 and 4.")
    return (shape[0], shape[1]) if images.shape.ndims < 4 else (shape[1], shape[2])


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> Any:
    """The transforms ``[n, 8]`` that turn images around their middle.

    Args:
      angles: One angle, or one per image.
      image_height: The number of rows.
      image_width: The number of columns.
      name: A name for the operation.
    """
    with tf.name_scope(name or "angles_to_projective_transforms"):
        angle = tf.convert_to_tensor(angles, dtype=tf.float32)
        if angle.shape.ndims == 0:
            angle = angle[None]
        elif angle.shape.ndims != 1:
            raise TypeError("Angles should have rank 0 or 1.")
        sine, cosine = tf.sin(angle), tf.cos(angle)
        x, y = image_width - 1, image_height - 1
        zero = tf.zeros_like(angle)
        columns = [
            cosine, -sine, (x - (cosine * x - sine * y)) / 2.0,
            sine, cosine, (y - (sine * x + cosine * y)) / 2.0,
            zero, zero,
        ]  # fmt: skip
        return tf.stack(columns, axis=1)


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Any:
    """The transforms ``[n, 8]`` that move images by [dx, dy].

    Args:
      translations: ``[2]`` or ``[n, 2]``.
      name: A name for the operation.
    """
    with tf.name_scope(name or "translations_to_projective_transforms"):
        moves = tf.convert_to_tensor(translations, dtype=tf.float32)
        if moves.shape.ndims is None:
            raise TypeError("translation_or_translations rank must be statically known")
        if moves.shape.ndims == 1:
            moves = moves[None]
        elif moves.shape.ndims != 2:
            raise TypeError("Translations should have rank 1 or 2.")
        one, zero = tf.ones_like(moves[:, 0]), tf.zeros_like(moves[:, 0])
        columns = [one, zero, -moves[:, 0], zero, one, -moves[:, 1], zero, zero]
        return tf.stack(columns, axis=1)


def transform(
    images: Any,
    transforms: Any,
    interpolation: str = "NEAREST",
    output_shape: Any = None,
    name: str | None = None,
) -> Any:
    """Images whose pixels come from where projective transforms say.

    Args:
      images: As of `rotate`.
      transforms: ``[8]`` or ``[n, 8]``: output coordinates to those of the input.
      interpolation: "NEAREST" or "BILINEAR".
      output_shape: The rows and columns of the output; the input's if None.
      name: A name for the operation.
    """
    with tf.name_scope(name or "transform"):
        images = tf.convert_to_tensor(images, name="images")
        if images.dtype.base_dtype not in _IMAGE_TYPES:
            raise TypeError(f"Invalid dtype {images.dtype}.")
        rank = images.shape.ndims
        _rows_and_columns(images, tf.shape(images))
        batch = images[None] if rank == 3 else images[None, :, :, None] if rank == 2 else images
        flat = tf.convert_to_tensor(transforms, dtype=tf.float32, name="transforms")
        if flat.shape.ndims == 1:
            flat = flat[None]
        elif flat.shape.ndims != 2:
            raise TypeError("Transforms should have rank 1 or 2.")
        known = batch.shape.as_list()[1:3]
        if output_shape is None:
            output_shape = known if None not in known else tf.shape(batch)[1:3]
        made = ImageProjectiveTransformV2(
            batch, flat, output_shape, interpolation=interpolation.upper()
        )
        return made[0] if rank == 3 else made[0, :, :, 0] if rank == 2 else made


def compose_transforms(*transforms: Any, **kwargs: Any) -> Any:
    """One transform that does all, the first first.

    Args:
      *transforms: ``[n, 8]`` each.
      **kwargs: ``name``.
    """
    assert transforms, "transforms cannot be empty"
    with tf.name_scope(kwargs.get("name") or "compose_transforms"):
        composed = flat_transforms_to_matrices(transforms[0])
        for each in transforms[1:]:
            composed = tf.matmul(composed, flat_transforms_to_matrices(each))
        return matrices_to_flat_transforms(composed)


def connected_components(images: Any) -> Any:
    """The number of the region of equal neighbours of each pixel; 0 where a pixel is False or 0.

    Args:
      images: ``[n, rows, columns]`` or ``[rows, columns]``.
    """
    images = tf.convert_to_tensor(images)
    if images.shape.ndims not in (2, 3):
        raise TypeError("images should have rank 2 (HW) or 3 (NHW)")
    batch = images if images.shape.ndims == 3 else images[None]
    found = tf.py_func(_regions, [batch], tf.int64, stateful=False)
    found.set_shape(batch.shape)
    return found if images.shape.ndims == 3 else found[0]


def _regions(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers regions in the order of their first pixels, over all images."""
    labels = np.zeros(images.shape, np.int64)
    empty = np.zeros([], images.dtype) if images.dtype != object else b""
    last = 0
    for n, image in enumerate(images):
        for start in zip(*np.nonzero(image != empty), strict=True):
            if labels[(n, *start)]:
                continue
            last += 1
            pending = [start]
            labels[(n, *start)] = last
            while pending:
                y, x = pending.pop()
                for place in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                    inside = 0 <= place[0] < image.shape[0] and 0 <= place[1] < image.shape[1]
                    if inside and not labels[(n, *place)] and image[place] == image[start]:
                        labels[(n, *place)] = last
                        pending.append(place)
    return labels


def bipartite_match(
    distance_mat: Any, num_valid_rows: Any, top_k: int = -1, name: str = "bipartite_match"
) -> tuple[Any, Any]:
    """Pairs rows with columns, the nearest first; -1 for those without a partner.

    Args:
      distance_mat: ``[rows, columns]``.
      num_valid_rows: How many rows take part.
      top_k: How many pairs at most; -1 for all.
      name: A name for the operation.

    Returns:
      The column of each row, and the row of each column.
    """
    with tf.name_scope(name):
        distances = tf.convert_to_tensor(distance_mat, tf.float32)
        columns, rows = tf.py_func(
            lambda d, n: _greedy_match(d, int(np.ravel(n)[0]), top_k),
            [distances, num_valid_rows],
            [tf.int32, tf.int32],
            stateful=False,
        )
        columns.set_shape([distances.shape[0]])
        rows.set_shape([distances.shape[1]])
        return columns, rows


def _greedy_match(distances: Any, valid: int, top_k: int) -> tuple[Any, Any]:
    count, width = distances.shape
    of_row, of_column = np.full(count, -1, np.int32), np.full(width, -1, np.int32)
    limit = min(valid, width) if top_k <= 0 else min(valid, width, top_k)
    order = np.argsort(distances[:valid], axis=None, kind="stable")
    made = 0
    for place in order:
        row, column = divmod(int(place), width)
        if made < limit and of_row[row] < 0 and of_column[column] < 0:
            of_row[row], of_column[column] = column, row
            made += 1
    return of_row, of_column
