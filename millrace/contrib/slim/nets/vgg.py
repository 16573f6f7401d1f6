"""VGG networks A, 16 and 19 (Simonyan and Zisserman, 2014), fully convolutional."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import arg_scope
from millrace.contrib.layers import utils


def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """Defaults of VGG's layers."""
    with (
        arg_scope(
            [layers.conv2d, layers.fully_connected],
            activation_fn=tf.nn.relu,
            weights_regularizer=layers.l2_regularizer(weight_decay),
            biases_initializer=tf.zeros_initializer(),
        ),
        arg_scope([layers.conv2d], padding="SAME") as scope,
    ):
        return scope


def _vgg(
    inputs: Any, blocks: list[tuple[int, int]], num_classes: Any, is_training: Any, keep: float,
    spatial_squeeze: bool, scope: str, default: str, fc_conv_padding: str, global_pool: bool,
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    with tf.variable_scope(scope, default, [inputs]) as sc:
        collection = f"{sc.original_name_scope}_end_points"
        with arg_scope(
            [layers.conv2d, layers.fully_connected, layers.max_pool2d],
            outputs_collections=collection,
        ):
            net = inputs
            for number, (count, filters) in enumerate(blocks, 1):
                net = layers.repeat(
                    net, count, layers.conv2d, filters, [3, 3], scope=f"conv{number}"
                )
                net = layers.max_pool2d(net, [2, 2], scope=f"pool{number}")
            net = layers.conv2d(net, 4096, [7, 7], padding=fc_conv_padding, scope="fc6")
            net = layers.dropout(net, keep, is_training=is_training, scope="dropout6")
            net = layers.conv2d(net, 4096, [1, 1], scope="fc7")
            end_points = utils.convert_collection_to_dict(collection)
            if global_pool:
                net = tf.reduce_mean(net, [1, 2], keepdims=True, name="global_pool")
                end_points["global_pool"] = net
            if num_classes:
                net = layers.dropout(net, keep, is_training=is_training, scope="dropout7")
                net = layers.conv2d(
                    net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="fc8"
                )
                if spatial_squeeze:
                    net = tf.squeeze(net, [1, 2], name="fc8/squeezed")
                end_points[f"{sc.name}/fc8"] = net
            return net, end_points


def _network(name: str, blocks: list[tuple[int, int]]) -> Any:
    def vgg(
        inputs: Any,
        num_classes: int | None = 1000,
        is_training: Any = True,
        dropout_keep_prob: float = 0.5,
        spatial_squeeze: bool = True,
        scope: str = name,
        fc_conv_padding: str = "VALID",
        global_pool: bool = False,
    ) -> tuple[Any, dict[str, Any]]:
        """(logits, end points by name), for images of 224 × 224 pixels."""
        return _vgg(
            inputs, blocks, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope,
            name, fc_conv_padding, global_pool,
        )  # fmt: skip

    vgg.__name__ = vgg.__qualname__ = name
    vgg.default_image_size = 224  # type: ignore[attr-defined]
    return vgg


vgg_a = _network("vgg_a", [(1, 64), (1, 128), (2, 256), (2, 512), (2, 512)])
vgg_16 = _network("vgg_16", [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)])
vgg_19 = _network("vgg_19", [(2, 64), (2, 128), (4, 256), (4, 512), (4, 512)])
vgg_d, vgg_e = vgg_16, vgg_19
