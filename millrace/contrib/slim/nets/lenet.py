"""LeNet, for images of 28 × 28 pixels (LeCun et al., 1998)."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import arg_scope


def lenet(
    images: Any,
    num_classes: int | None = 10,
    is_training: Any = False,
    dropout_keep_prob: float = 0.5,
    prediction_fn: Any = layers.softmax,
    scope: str = "LeNet",
) -> tuple[Any, dict[str, Any]]:
    """(logits, end points by name)."""
    end_points: dict[str, Any] = {}
    with tf.variable_scope(scope, "LeNet", [images]):
        net = end_points["conv1"] = layers.conv2d(images, 32, [5, 5], scope="conv1")
        net = end_points["pool1"] = layers.max_pool2d(net, [2, 2], 2, scope="pool1")
        net = end_points["conv2"] = layers.conv2d(net, 64, [5, 5], scope="conv2")
        net = end_points["pool2"] = layers.max_pool2d(net, [2, 2], 2, scope="pool2")
        net = layers.flatten(net)
        end_points["Flatten"] = net
        net = end_points["fc3"] = layers.fully_connected(net, 1024, scope="fc3")
        if not num_classes:
            return net, end_points
        net = end_points["dropout3"] = layers.dropout(
            net, dropout_keep_prob, is_training=is_training, scope="dropout3"
        )
        logits = end_points["Logits"] = layers.fully_connected(
            net, num_classes, activation_fn=None, scope="fc4"
        )
    end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


lenet.default_image_size = 28  # type: ignore[attr-defined]


def lenet_arg_scope(weight_decay: float = 0.0) -> Any:
    """Defaults of LeNet's layers."""
    with arg_scope(
        [layers.conv2d, layers.fully_connected],
        weights_regularizer=layers.l2_regularizer(float(weight_decay)),
        weights_initializer=tf.truncated_normal_initializer(stddev=0.1),
        activation_fn=tf.nn.relu,
    ) as scope:
        return scope
