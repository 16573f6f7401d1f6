"""Inception v1, GoogLeNet (Szegedy et al., 2014), with batch normalization."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import arg_scope
from millrace.contrib.slim.nets import inception_blocks
from millrace.contrib.slim.nets.inception_blocks import (
    inception_arg_scope as inception_v1_arg_scope,
)

__all__ = ["inception_v1", "inception_v1_arg_scope", "inception_v1_base"]


def _mixed(b0: int, b1: tuple[int, int], b2: tuple[int, int], b3: int, odd: bool = False) -> Any:
    return [
        [(b0, 1, "Conv2d_0a_1x1")],
        [(b1[0], 1, "Conv2d_0a_1x1"), (b1[1], 3, "Conv2d_0b_3x3")],
        [(b2[0], 1, "Conv2d_0a_1x1"), (b2[1], 3, "Conv2d_0a_3x3" if odd else "Conv2d_0b_3x3")],
        [("max", "MaxPool_0a_3x3"), (b3, 1, "Conv2d_0b_1x1")],
    ]


#: Blocks and pools in order; one block's scope is spelled otherwise, as checkpoints have it.
_LAYERS: list[tuple[str, Any]] = [
    ("Mixed_3b", _mixed(64, (96, 128), (16, 32), 32)),
    ("Mixed_3c", _mixed(128, (128, 192), (32, 96), 64)),
    ("MaxPool_4a_3x3", [3, 3]),
    ("Mixed_4b", _mixed(192, (96, 208), (16, 48), 64)),
    ("Mixed_4c", _mixed(160, (112, 224), (24, 64), 64)),
    ("Mixed_4d", _mixed(128, (128, 256), (24, 64), 64)),
    ("Mixed_4e", _mixed(112, (144, 288), (32, 64), 64)),
    ("Mixed_4f", _mixed(256, (160, 320), (32, 128), 128)),
    ("MaxPool_5a_2x2", [2, 2]),
    ("Mixed_5b", _mixed(256, (160, 320), (32, 128), 128, odd=True)),
    ("Mixed_5c", _mixed(384, (192, 384), (48, 128), 128)),
]


def inception_v1_base(
    inputs: Any, final_endpoint: str = "Mixed_5c", scope: Any = "InceptionV1"
) -> tuple[Any, dict[str, Any]]:
    """(features, end points), up to `final_endpoint`.

    Raises:
      ValueError: There is no such end point.
    """
    end_points: dict[str, Any] = {}
    first: list[tuple[str, Any]] = [
        ("Conv2d_1a_7x7", lambda x, s: layers.conv2d(x, 64, [7, 7], stride=2, scope=s)),
        ("MaxPool_2a_3x3", lambda x, s: layers.max_pool2d(x, [3, 3], stride=2, scope=s)),
        ("Conv2d_2b_1x1", lambda x, s: layers.conv2d(x, 64, [1, 1], scope=s)),
        ("Conv2d_2c_3x3", lambda x, s: layers.conv2d(x, 192, [3, 3], scope=s)),
        ("MaxPool_3a_3x3", lambda x, s: layers.max_pool2d(x, [3, 3], stride=2, scope=s)),
    ]
    with (
        tf.variable_scope(scope, "InceptionV1", [inputs]),
        arg_scope(
            [layers.conv2d, layers.fully_connected],
            weights_initializer=tf.truncated_normal_initializer(0.0, 0.01),
        ),
        arg_scope([layers.conv2d, layers.max_pool2d], stride=1, padding="SAME"),
    ):
        net = inputs
        for name, make in first:
            net = end_points[name] = make(net, name)
            if name == final_endpoint:
                return net, end_points
        for name, what in _LAYERS:
            if name.startswith("MaxPool"):
                net = layers.max_pool2d(net, what, stride=2, scope=name)
            else:
                net = inception_blocks.mixed(net, name, what, 0, 1.0)
            end_points[name] = net
            if name == final_endpoint:
                return net, end_points
    raise ValueError(f"Unknown final endpoint {final_endpoint}")


def inception_v1(
    inputs: Any,
    num_classes: int | None = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.8,
    prediction_fn: Any = layers.softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV1",
    global_pool: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """(logits, end points by name), for images of 224 × 224 pixels."""
    with (
        tf.variable_scope(scope, "InceptionV1", [inputs], reuse=reuse) as sc,
        arg_scope([layers.batch_norm, layers.dropout], is_training=is_training),
    ):
        net, end_points = inception_v1_base(inputs, scope=sc)
        if not num_classes:
            return net, end_points
        return inception_blocks.logits_of(
            net, num_classes, is_training, dropout_keep_prob, prediction_fn, spatial_squeeze,
            end_points, 7, ("0b", "0c"), global_pool, "AvgPool_0a_7x7",
        ), end_points  # fmt: skip


inception_v1.default_image_size = 224  # type: ignore[attr-defined]
