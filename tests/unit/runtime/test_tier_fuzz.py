"""Random graphs with shapes that change from run to run give the same on both tiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import tiers

#: From a matrix of unknown height and width 6 to another of the same form.
_STEPS: list[Callable[[Any, Any], Any]] = [
    lambda x, w: tf.matmul(x, w),
    lambda x, w: tf.nn.softmax(x),
    lambda x, w: tf.tanh(x) * tf.sigmoid(x),
    lambda x, w: x - tf.reduce_mean(x, 0, keepdims=True),
    lambda x, w: tf.concat([x[1:], x[:1]], 0),
    lambda x, w: tf.gather(x, tf.range(tf.shape(x)[0] - 1, -1, -1)),
    lambda x, w: tf.cumsum(x) / tf.cast(tf.shape(x)[0], tf.float32),
    lambda x, w: tf.where(x > 0, x, tf.exp(tf.minimum(x, 0.0)) - 1.0),
    lambda x, w: tf.nn.relu(tf.nn.conv1d(x[None], tf.stack([w, w]), 1, "SAME"))[0],
    lambda x, w: tf.nn.max_pool(x[None, :, :, None], [1, 2, 1, 1], [1] * 4, "SAME")[0, :, :, 0],
    lambda x, w: (
        x
        + tf.gather(
            tf.unsorted_segment_sum(x, tf.range(tf.shape(x)[0]) % 3, 3),
            tf.range(tf.shape(x)[0]) % 3,
        )
    ),
]


def _losses(seed: int) -> list[float]:
    random = np.random.RandomState(seed)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 6])
        w = tf.Variable(random.randn(6, 6).astype(np.float32) * 0.3)
        value: Any = x
        for choice in random.randint(0, len(_STEPS), 5):
            value = _STEPS[choice](value, w)
        loss = tf.reduce_mean(tf.square(value)) + tf.reduce_sum(tf.square(tf.matmul(w, w))) * 0.01
        optimizer = [tf.train.AdamOptimizer, tf.train.AdagradOptimizer][seed % 2]
        train = optimizer(0.05).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            found = []
            for height in (4, 7, 4, 9, 5):
                feed = {x: random.randn(height, 6)}
                found.append(float(sess.run([loss, train], feed)[0]))
            return found


@pytest.mark.parametrize("seed", range(6))
def test_training_goes_the_same_way_on_both_tiers(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for mode in ("now", "never", "background"):
        monkeypatch.setenv("MILLRACE_COMPILE", mode)
        found[mode] = _losses(seed)
    assert tiers.COMPILER.wait(60)
    np.testing.assert_allclose(found["never"], found["now"], rtol=2e-4)
    np.testing.assert_allclose(found["background"], found["now"], rtol=2e-4)
