"""A small network for CIFAR-10."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import arg_scope


def cifarnet(
    images: Any,
    num_classes: int | None = 10,
    is_training: Any = False,
    dropout_keep_prob: float = 0.5,
    prediction_fn: Any = layers.softmax,
    scope: str = "CifarNet",
) -> tuple[Any, dict[str, Any]]:
    """(logits, end points by name)."""
    ends: dict[str, Any] = {}
    with tf.variable_scope(scope, "CifarNet", [images]):
        net = ends["conv1"] = layers.conv2d(images, 64, [5, 5], scope="conv1")
        net = ends["pool1"] = layers.max_pool2d(net, [2, 2], 2, scope="pool1")
        net = tf.nn.lrn(net, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm1")
        net = ends["conv2"] = layers.conv2d(net, 64, [5, 5], scope="conv2")
        net = tf.nn.lrn(net, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm2")
        net = ends["pool2"] = layers.max_pool2d(net, [2, 2], 2, scope="pool2")
        net = ends["Flatten"] = layers.flatten(net)
        net = ends["fc3"] = layers.fully_connected(net, 384, scope="fc3")
        net = layers.dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout3")
        net = ends["fc4"] = layers.fully_connected(net, 192, scope="fc4")
        if not num_classes:
            return net, ends
        logits = ends["Logits"] = layers.fully_connected(
            net,
            num_classes,
            biases_initializer=tf.zeros_initializer(),
            weights_initializer=tf.truncated_normal_initializer(stddev=1 / 192.0),
            weights_regularizer=None,
            activation_fn=None,
            scope="logits",
        )
        ends["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, ends


cifarnet.default_image_size = 32  # type: ignore[attr-defined]


def cifarnet_arg_scope(weight_decay: float = 0.004) -> Any:
    """Defaults of the network's layers."""
    with (
        arg_scope(
            [layers.conv2d],
            weights_initializer=tf.truncated_normal_initializer(stddev=5e-2),
            activation_fn=tf.nn.relu,
        ),
        arg_scope(
            [layers.fully_connected],
            biases_initializer=tf.constant_initializer(0.1),
            weights_initializer=tf.truncated_normal_initializer(stddev=0.04),
            weights_regularizer=layers.l2_regularizer(weight_decay),
            activation_fn=tf.nn.relu,
        ) as scope,
    ):
        return scope
