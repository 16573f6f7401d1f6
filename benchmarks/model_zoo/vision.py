"""Images."""

from __future__ import annotations

from typing import Any

import numpy as np

from model_zoo.model import Model, dense, endless


def resnet20(tf: Any, worker: str = "") -> Model:
    """He's network for 32 x 32 images: 20 layers, batch norm, momentum; a smaller last batch."""
    x = tf.placeholder(tf.float32, [None, 32, 32, 3])
    y_ = tf.placeholder(tf.int32, [None])

    def convolved(value: Any, width: int, stride: int, name: str) -> Any:
        with tf.variable_scope(name):
            filters = tf.get_variable("w", [3, 3, int(value.shape[-1]), width])
            gain = tf.get_variable("gain", [width], initializer=tf.ones_initializer())
            bias = tf.get_variable("bias", [width], initializer=tf.zeros_initializer())
        strides = [1, stride, stride, 1]
        found = tf.nn.conv2d(value, filters, strides=strides, padding="SAME")
        return tf.nn.fused_batch_norm(found, gain, bias, is_training=True)[0]

    value = tf.nn.relu(convolved(x, 16, 1, "first"))
    for i in range(9):
        width, stride = 16 << i // 3, 2 if i in (3, 6) else 1
        inner = tf.nn.relu(convolved(value, width, stride, f"a{i}"))
        inner = convolved(inner, width, 1, f"b{i}")
        if stride == 2:
            small = tf.nn.avg_pool(value, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
            value = tf.pad(small, [[0, 0], [0, 0], [0, 0], [width // 4, width // 4]])
        value = tf.nn.relu(inner + value)
    logits = dense(tf, tf.reduce_mean(value, [1, 2]), 10, "out")
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y_, logits=logits)
    loss = tf.reduce_mean(each)
    step = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        batch = 32 if random.randint(8) else 20
        return {
            x: random.rand(batch, 32, 32, 3).astype(np.float32),
            y_: random.randint(0, 10, batch),
        }

    return Model(step, loss, endless(make))
