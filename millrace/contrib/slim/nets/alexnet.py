"""AlexNet v2 (Krizhevsky, 2014), fully convolutional."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import arg_scope
from millrace.contrib.layers import utils


def alexnet_v2_arg_scope(weight_decay: float = 0.0005) -> Any:
    """Defaults of AlexNet's layers."""
    with (
        arg_scope(
            [layers.conv2d, layers.fully_connected],
            activation_fn=tf.nn.relu,
            biases_initializer=tf.constant_initializer(0.1),
            weights_regularizer=layers.l2_regularizer(weight_decay),
        ),
        arg_scope([layers.conv2d], padding="SAME"),
        arg_scope([layers.max_pool2d], padding="VALID") as scope,
    ):
        return scope


def alexnet_v2(
    inputs: Any,
    num_classes: int | None = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: str = "alexnet_v2",
    global_pool: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """(logits, end points by name), for images of 224 × 224 pixels."""
    with tf.variable_scope(scope, "alexnet_v2", [inputs]) as sc:
        collection = f"{sc.original_name_scope}_end_points"
        with arg_scope(
            [layers.conv2d, layers.fully_connected, layers.max_pool2d],
            outputs_collections=[collection],
        ):
            net = layers.conv2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
            net = layers.max_pool2d(net, [3, 3], 2, scope="pool1")
            net = layers.conv2d(net, 192, [5, 5], scope="conv2")
            net = layers.max_pool2d(net, [3, 3], 2, scope="pool2")
            net = layers.conv2d(net, 384, [3, 3], scope="conv3")
            net = layers.conv2d(net, 384, [3, 3], scope="conv4")
            net = layers.conv2d(net, 256, [3, 3], scope="conv5")
            net = layers.max_pool2d(net, [3, 3], 2, scope="pool5")
            with arg_scope(
                [layers.conv2d],
                weights_initializer=tf.truncated_normal_initializer(0.0, 0.005),
                biases_initializer=tf.constant_initializer(0.1),
            ):
                net = layers.conv2d(net, 4096, [5, 5], padding="VALID", scope="fc6")
                net = layers.dropout(
                    net, dropout_keep_prob, is_training=is_training, scope="dropout6"
                )
                net = layers.conv2d(net, 4096, [1, 1], scope="fc7")
                end_points = utils.convert_collection_to_dict(collection)
                if global_pool:
                    net = tf.reduce_mean(net, [1, 2], keepdims=True, name="global_pool")
                if num_classes:
                    net = layers.dropout(
                        net, dropout_keep_prob, is_training=is_training, scope="dropout7"
                    )
                    net = layers.conv2d(
                        net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
                        biases_initializer=tf.zeros_initializer(), scope="fc8",
                    )  # fmt: skip
                    if spatial_squeeze:
                        net = tf.squeeze(net, [1, 2], name="fc8/squeezed")
                    end_points[f"{sc.name}/fc8"] = net
        return net, end_points


alexnet_v2.default_image_size = 224  # type: ignore[attr-defined]
