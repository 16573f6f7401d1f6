"""Areas of contrib that only rename."""

from __future__ import annotations

import numpy as np

import millrace as tf


def test_a_staging_area_holds_a_value_between_steps() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        area = tf.contrib.staging.StagingArea([tf.float32])
        put, got = area.put([tf.constant([1.0, 2.0])]), area.get()
        sess.run(put)
        np.testing.assert_array_equal(sess.run(got)[0], [1.0, 2.0])


def test_stateless_numbers_follow_from_their_seed() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        drawn = tf.contrib.stateless.stateless_random_normal([3], seed=[1, 2])
        same = tf.random.stateless_normal([3], seed=[1, 2])
        a, b = sess.run([drawn, same])
        np.testing.assert_array_equal(a, b)
