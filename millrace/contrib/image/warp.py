"""Images warped by a flow per pixel, or by moving control points (polyharmonic splines)."""

from __future__ import annotations

from typing import Any

import millrace as tf

_EPSILON = 1e-10


def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> Any:
    """The pixel at (y, x) minus its flow, between four neighbours.

    Args:
      image: ``[n, rows, columns, channels]``.
      flow: ``[n, rows, columns, 2]``.
      name: A name for the operation.
    """
    with tf.name_scope(name):
        image, flow = tf.convert_to_tensor(image), tf.convert_to_tensor(flow)
        shape = tf.shape(image)
        count, rows, columns, channels = (shape[i] for i in range(4))
        grid_x, grid_y = tf.meshgrid(tf.range(columns), tf.range(rows))
        grid = tf.cast(tf.stack([grid_y, grid_x], axis=2), flow.dtype)
        places = tf.reshape(grid[None] - flow, [count, rows * columns, 2])
        flat = tf.reshape(image, [count, rows * columns, channels])
        made = tf.reshape(_between(flat, rows, columns, places), shape)
        made.set_shape(image.shape)
        return made


def _between(flat: Any, rows: Any, columns: Any, places: Any) -> Any:
    """Pixels of images ``[n, rows · columns, channels]`` at fractional places ``[n, p, 2]``."""

    def split(axis: int, size: Any) -> tuple[Any, Any]:
        last = tf.cast(size - 2, places.dtype)
        low = tf.minimum(tf.maximum(tf.floor(places[:, :, axis]), 0.0), last)
        part = tf.minimum(tf.maximum(places[:, :, axis] - low, 0.0), 1.0)
        return tf.cast(low, tf.int32), tf.cast(part, flat.dtype)[:, :, None]

    top, down = split(0, rows)
    left, right = split(1, columns)

    def pixels(y: Any, x: Any) -> Any:
        return tf.gather(flat, y * columns + x, batch_dims=1)

    upper = pixels(top, left) * (1 - right) + pixels(top, left + 1) * right
    lower = pixels(top + 1, left) * (1 - right) + pixels(top + 1, left + 1) * right
    return upper * (1 - down) + lower * down


def _phi(r: Any, order: int) -> Any:
    """The polyharmonic kernel of squared distances."""
    r = tf.maximum(r, _EPSILON)
    if order == 1:
        return tf.sqrt(r)
    if order == 2:
        return 0.5 * r * tf.log(r)
    if order == 4:
        return 0.5 * tf.square(r) * tf.log(r)
    if order % 2 == 0:
        return 0.5 * tf.pow(r, 0.5 * order) * tf.log(r)
    return tf.pow(r, 0.5 * order)


def _squared_distances(x: Any, y: Any) -> Any:
    square_x, square_y = tf.reduce_sum(x * x, 2, True), tf.reduce_sum(y * y, 2, True)
    return square_x - 2 * tf.matmul(x, y, adjoint_b=True) + tf.transpose(square_y, [0, 2, 1])


def interpolate_spline(
    train_points: Any,
    train_values: Any,
    query_points: Any,
    order: int,
    regularization_weight: float = 0.0,
    name: str = "interpolate_spline",
) -> Any:
    """The polyharmonic spline through points, at other points.

    Args:
      train_points: ``[b, n, d]``.
      train_values: ``[b, n, k]``.
      query_points: ``[b, m, d]``.
      order: Of the kernel.
      regularization_weight: How far the spline may pass by the points.
      name: A name for the operation.
    """
    with tf.name_scope(name):
        points = tf.convert_to_tensor(train_points)
        values = tf.convert_to_tensor(train_values)
        query = tf.convert_to_tensor(query_points)
        sizes: list[Any] = [*points.shape.as_list()[1:], values.shape.as_list()[2]]
        count, dims, outputs = sizes
        if None in sizes:
            raise ValueError("The number of points, their dimensions and outputs must be known.")
        kernel = _phi(_squared_distances(points, points), order)
        if regularization_weight > 0:
            kernel += regularization_weight * tf.eye(count, dtype=points.dtype)[None]
        ones = tf.ones_like(points[:, :, :1])
        linear = tf.concat([points, ones], 2)
        square = tf.zeros([tf.shape(points)[0], dims + 1, dims + 1], points.dtype)
        square += 1e-10 * tf.eye(dims + 1, dtype=points.dtype)[None]
        left = tf.concat([kernel, tf.transpose(linear, [0, 2, 1])], 1)
        whole = tf.concat([left, tf.concat([linear, square], 1)], 2)
        zeros = tf.zeros([tf.shape(points)[0], dims + 1, outputs], points.dtype)
        solved = tf.matrix_solve(whole, tf.concat([values, zeros], 1))
        weights, slopes = solved[:, :count], solved[:, count:]
        curved = tf.matmul(_phi(_squared_distances(query, points), order), weights)
        flat = tf.concat([query, tf.ones_like(query[:, :, :1])], 2)
        return curved + tf.matmul(flat, slopes)


def sparse_image_warp(
    image: Any,
    source_control_point_locations: Any,
    dest_control_point_locations: Any,
    interpolation_order: int = 2,
    regularization_weight: float = 0.0,
    num_boundary_points: int = 0,
    name: str = "sparse_image_warp",
) -> tuple[Any, Any]:
    """An image warped so that control points move from one place to another.

    Args:
      image: ``[n, rows, columns, channels]``.
      source_control_point_locations: ``[n, points, 2]``.
      dest_control_point_locations: ``[n, points, 2]``.
      interpolation_order: Of the spline.
      regularization_weight: How far the spline may pass by the points.
      num_boundary_points: Points of each edge that stay where they are.
      name: A name for the operation.

    Returns:
      The image, and the flow of each pixel.
    """
    with tf.name_scope(name):
        image = tf.convert_to_tensor(image)
        source = tf.cast(source_control_point_locations, tf.float32)
        target = tf.cast(dest_control_point_locations, tf.float32)
        count, rows, columns, _ = image.shape.as_list()
        flows = target - source
        if num_boundary_points > 0:
            steps = num_boundary_points
            edge = [
                point
                for i in range(steps)
                for point in (
                    (0, (columns - 1) * i / steps),
                    (rows - 1, (columns - 1) * (i + 1) / steps),
                    ((rows - 1) * (i + 1) / steps, 0),
                    ((rows - 1) * i / steps, columns - 1),
                )
            ]
            fixed = tf.tile(tf.constant([edge], tf.float32), [count, 1, 1])
            target = tf.concat([target, fixed], 1)
            flows = tf.concat([flows, tf.zeros_like(fixed)], 1)
        grid_x, grid_y = tf.meshgrid(tf.range(columns), tf.range(rows))
        grid = tf.cast(tf.reshape(tf.stack([grid_y, grid_x], 2), [1, -1, 2]), tf.float32)
        query = tf.tile(grid, [count, 1, 1])
        moved = interpolate_spline(target, flows, query, interpolation_order, regularization_weight)
        flow = tf.reshape(moved, [count, rows, columns, 2])
        return dense_image_warp(image, flow), flow
