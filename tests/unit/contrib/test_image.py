"""`tf.contrib.image`. The figures are TensorFlow 1.15.5's for the same images."""

from typing import Any

import numpy as np
import pytest

import millrace as tf


def _run(fetch: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetch)


def _images() -> Any:
    return tf.constant(np.random.RandomState(0).rand(2, 5, 6, 3).astype(np.float32))


def test_rotated_images_are_tensorflows() -> None:
    found = _run(tf.contrib.image.rotate(_images(), [0.3, 1.2]))
    assert np.allclose(
        found.ravel()[3:9], [0.4376, 0.8918, 0.9637, 0.3834, 0.7917, 0.5289], atol=1e-4
    )
    smooth = _run(tf.contrib.image.rotate(_images(), [0.3, 1.2], "BILINEAR"))
    assert np.allclose(smooth.ravel()[:4], [0.1914, 0.1789, 0.2219, 0.3064], atol=1e-4)


def test_moved_images_have_zeros_where_nothing_comes_from() -> None:
    images = _images()
    found = _run([images, tf.contrib.image.translate(images, [1.0, 2.0])])
    assert np.array_equal(found[1][:, 2:, 1:], found[0][:, :3, :5])
    assert not found[1][:, :2].any()
    assert not found[1][:, :, :1].any()


def test_a_gradient_goes_back_through_the_inverse_transform() -> None:
    images = _images()
    loss = tf.reduce_sum(tf.contrib.image.rotate(images, [0.3, 1.2], "BILINEAR") ** 2)
    found = _run(tf.gradients(loss, images)[0])
    assert np.allclose(found.ravel()[:4], [0.5693, 0.5746, 0.6478, 0.8471], atol=1e-4)


def test_a_spline_passes_through_its_points() -> None:
    points = tf.constant([[[0.0, 0], [1, 0], [0, 1], [1, 1.5]]])
    values = tf.constant([[[1.0], [2], [3], [0]]])
    query = tf.constant([[[0.5, 0.5], [0.2, 0.8]]])
    found = _run(tf.contrib.image.interpolate_spline(points, values, query, 2))
    assert np.allclose(found.ravel(), [1.9149, 2.5005], atol=1e-3)
    again = _run(tf.contrib.image.interpolate_spline(points, values, points, 2))
    assert np.allclose(again.ravel(), [1, 2, 3, 0], atol=1e-3)


def test_regions_of_equal_pixels_are_numbered() -> None:
    found = _run(tf.contrib.image.connected_components([[1, 1, 0], [0, 1, 2], [2, 0, 2]]))
    assert found.tolist() == [[1, 1, 0], [0, 1, 2], [3, 0, 2]]


def test_images_of_a_wrong_rank_are_refused() -> None:
    with pytest.raises(TypeError, match="rank between 2 and 4"):
        tf.contrib.image.rotate(tf.zeros([3]), 0.5)
