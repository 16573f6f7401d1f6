"""Initialisers: what they draw, and how they describe themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf


def drawn(initializer: Any, shape: list[int], **kwargs: Any) -> np.ndarray:
    with tf.Session() as session:
        return session.run(initializer(shape, **kwargs))


def test_constants_fill_their_shape() -> None:
    assert drawn(tf.zeros_initializer(), [2], dtype=tf.int64).dtype == np.int64
    assert drawn(tf.ones_initializer(), [2]).tolist() == [1, 1]
    assert drawn(tf.constant_initializer(3), [2, 1]).tolist() == [[3], [3]]
    assert drawn(tf.constant_initializer([1, 2, 3, 4]), [2, 2]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="Invalid type for initial value"):
        tf.constant_initializer(object())


@pytest.mark.parametrize(
    ("initializer", "stddev"),
    [
        (tf.random_uniform_initializer(-1.0, 1.0, seed=1), 1 / np.sqrt(3)),
        (tf.random_normal_initializer(0.0, 2.0, seed=1), 2.0),
        (tf.truncated_normal_initializer(0.0, 1.0, seed=1), 0.87962566),
        (tf.uniform_unit_scaling_initializer(seed=1), np.sqrt(1 / 100)),
        (tf.variance_scaling_initializer(seed=1), np.sqrt(1 / 100)),
        (tf.variance_scaling_initializer(2.0, "fan_out", "uniform", seed=1), np.sqrt(2 / 200)),
        (
            tf.variance_scaling_initializer(1.0, "fan_avg", "untruncated_normal", seed=1),
            np.sqrt(1 / 150),
        ),
        (tf.glorot_uniform_initializer(seed=1), np.sqrt(1 / 150)),
        (tf.glorot_normal_initializer(seed=1), np.sqrt(1 / 150)),
        (tf.initializers.he_normal(seed=1), np.sqrt(2 / 100)),
        (tf.initializers.he_uniform(seed=1), np.sqrt(2 / 100)),
        (tf.initializers.lecun_normal(seed=1), np.sqrt(1 / 100)),
        (tf.initializers.lecun_uniform(seed=1), np.sqrt(1 / 100)),
    ],
)
def test_random_ones_have_the_variance_that_they_promise(initializer: Any, stddev: float) -> None:
    values = drawn(initializer, [100, 200])
    assert abs(values.mean()) < 0.02 * stddev
    np.testing.assert_allclose(values.std(), stddev, rtol=0.02)
    assert values.dtype == np.float32


def test_fans_of_convolution_weights_count_the_receptive_field() -> None:
    values = drawn(tf.variance_scaling_initializer(seed=1), [3, 3, 20, 50])
    np.testing.assert_allclose(values.std(), np.sqrt(1 / 180), rtol=0.03)


@pytest.mark.parametrize("shape", [[8, 5], [5, 8], [2, 4, 5]])
def test_orthogonal_ones_are_orthogonal(shape: list[int]) -> None:
    matrix = drawn(tf.orthogonal_initializer(gain=2.0, seed=1), shape).reshape(-1, shape[-1])
    rows, columns = matrix.shape
    product = matrix @ matrix.T if rows < columns else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(min(rows, columns)), atol=1e-5)


def test_the_identity_knows_which_part_it_is_for() -> None:
    np.testing.assert_array_equal(drawn(tf.initializers.identity(2.0), [2, 3]), 2 * np.eye(2, 3))
    whole = tf.get_variable(
        "w",
        [4, 3],
        initializer=tf.initializers.identity(),
        partitioner=tf.fixed_size_partitioner(2),
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(whole.as_tensor()), np.eye(4, 3))
    with pytest.raises(ValueError, match="2D matrices"):
        tf.initializers.identity()([3])


def test_the_scale_of_a_part_is_that_of_the_whole() -> None:
    whole = tf.get_variable(
        "w",
        [1000, 40],
        initializer=tf.variance_scaling_initializer(seed=1),
        partitioner=tf.fixed_size_partitioner(2),
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = session.run(whole.as_tensor())
    np.testing.assert_allclose(values.std(), np.sqrt(1 / 1000), rtol=0.05)


def test_a_seed_repeats_and_no_seed_does_not() -> None:
    shape = [4]
    seeded = tf.random_normal_initializer(seed=3)
    np.testing.assert_array_equal(drawn(seeded, shape), drawn(seeded, shape))
    free = tf.random_normal_initializer()
    assert not np.array_equal(drawn(free, shape), drawn(free, shape))


def test_they_can_be_made_again_from_their_configuration() -> None:
    for made in (
        tf.zeros_initializer(),
        tf.constant_initializer(3.0),
        tf.random_uniform_initializer(-1, 1, seed=2),
        tf.truncated_normal_initializer(stddev=0.5),
        tf.variance_scaling_initializer(2.0, "fan_out", "uniform"),
        tf.glorot_uniform_initializer(seed=4),
        tf.orthogonal_initializer(gain=3.0),
        tf.initializers.identity(2.0),
    ):
        again = type(made).from_config(made.get_config())
        assert again.get_config() == made.get_config()


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        tf.variance_scaling_initializer(0.0)
    with pytest.raises(ValueError, match="Invalid `mode`"):
        tf.variance_scaling_initializer(mode="fan")
    with pytest.raises(ValueError, match="Invalid `distribution`"):
        tf.variance_scaling_initializer(distribution="round")
    with pytest.raises(ValueError, match="Expected floating point type"):
        tf.random_normal_initializer(dtype=tf.int32)
    with pytest.raises(ValueError, match="at least two-dimensional"):
        tf.orthogonal_initializer()([3])
