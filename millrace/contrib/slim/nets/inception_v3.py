"""Inception v3 (Szegedy et al., 2015), with its auxiliary head."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import arg_scope
from millrace.contrib.slim.nets import inception_blocks
from millrace.contrib.slim.nets.inception_blocks import (
    inception_arg_scope as inception_v3_arg_scope,
)

__all__ = ["inception_v3", "inception_v3_arg_scope", "inception_v3_base"]

_SIDE, _TALL = (1, 7), (7, 1)


def _mixed_5(five: tuple[str, str], pool: int) -> list[Any]:
    return [
        [(64, 1, "Conv2d_0a_1x1")],
        [(48, 1, five[0]), (64, 5, five[1])],
        [(64, 1, "Conv2d_0a_1x1"), (96, 3, "Conv2d_0b_3x3"), (96, 3, "Conv2d_0c_3x3")],
        [("avg", "AvgPool_0a_3x3"), (pool, 1, "Conv2d_0b_1x1")],
    ]


def _mixed_6(n: int) -> list[Any]:
    return [
        [(192, 1, "Conv2d_0a_1x1")],
        [(n, 1, "Conv2d_0a_1x1"), (n, _SIDE, "Conv2d_0b_1x7"), (192, _TALL, "Conv2d_0c_7x1")],
        [
            (n, 1, "Conv2d_0a_1x1"), (n, _TALL, "Conv2d_0b_7x1"), (n, _SIDE, "Conv2d_0c_1x7"),
            (n, _TALL, "Conv2d_0d_7x1"), (192, _SIDE, "Conv2d_0e_1x7"),
        ],
        [("avg", "AvgPool_0a_3x3"), (192, 1, "Conv2d_0b_1x1")],
    ]  # fmt: skip


def _mixed_7(second: str) -> list[Any]:
    return [
        [(320, 1, "Conv2d_0a_1x1")],
        [(384, 1, "Conv2d_0a_1x1"), [(384, (1, 3), "Conv2d_0b_1x3"), (384, (3, 1), second)]],
        [
            (448, 1, "Conv2d_0a_1x1"), (384, 3, "Conv2d_0b_3x3"),
            [(384, (1, 3), "Conv2d_0c_1x3"), (384, (3, 1), "Conv2d_0d_3x1")],
        ],
        [("avg", "AvgPool_0a_3x3"), (192, 1, "Conv2d_0b_1x1")],
    ]  # fmt: skip


#: Scopes are spelled as published checkpoints have them, oddities among them.
_BLOCKS: list[tuple[str, list[Any]]] = [
    ("Mixed_5b", _mixed_5(("Conv2d_0a_1x1", "Conv2d_0b_5x5"), 32)),
    ("Mixed_5c", _mixed_5(("Conv2d_0b_1x1", "Conv_1_0c_5x5"), 64)),
    ("Mixed_5d", _mixed_5(("Conv2d_0a_1x1", "Conv2d_0b_5x5"), 64)),
    (
        "Mixed_6a",
        [
            [(384, 3, "Conv2d_1a_1x1", 2, "VALID")],
            [
                (64, 1, "Conv2d_0a_1x1"), (96, 3, "Conv2d_0b_3x3"),
                (96, 3, "Conv2d_1a_1x1", 2, "VALID"),
            ],
            [("max", "MaxPool_1a_3x3", 2, "VALID")],
        ],
    ),
    ("Mixed_6b", _mixed_6(128)),
    ("Mixed_6c", _mixed_6(160)),
    ("Mixed_6d", _mixed_6(160)),
    ("Mixed_6e", _mixed_6(192)),
    (
        "Mixed_7a",
        [
            [(192, 1, "Conv2d_0a_1x1"), (320, 3, "Conv2d_1a_3x3", 2, "VALID")],
            [
                (192, 1, "Conv2d_0a_1x1"), (192, _SIDE, "Conv2d_0b_1x7"),
                (192, _TALL, "Conv2d_0c_7x1"), (192, 3, "Conv2d_1a_3x3", 2, "VALID"),
            ],
            [("max", "MaxPool_1a_3x3", 2, "VALID")],
        ],
    ),
    ("Mixed_7b", _mixed_7("Conv2d_0b_3x1")),
    ("Mixed_7c", _mixed_7("Conv2d_0c_3x1")),
]  # fmt: skip


def inception_v3_base(
    inputs: Any,
    final_endpoint: str = "Mixed_7c",
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    scope: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """(features, end points), up to `final_endpoint`.

    Raises:
      ValueError: There is no such end point, or the multiplier is not positive.
    """
    if depth_multiplier <= 0:
        raise ValueError("depth_multiplier is not greater than zero.")

    def conv(filters: int, size: int, stride: int = 1, padding: str = "VALID") -> Any:
        deep = inception_blocks.depth(filters, min_depth, depth_multiplier)
        return lambda x, s: layers.conv2d(
            x, deep, [size, size], stride=stride, padding=padding, scope=s
        )

    def pool(x: Any, s: str) -> Any:
        return layers.max_pool2d(x, [3, 3], stride=2, padding="VALID", scope=s)

    first: list[tuple[str, Any]] = [
        ("Conv2d_1a_3x3", conv(32, 3, 2)),
        ("Conv2d_2a_3x3", conv(32, 3)),
        ("Conv2d_2b_3x3", conv(64, 3, padding="SAME")),
        ("MaxPool_3a_3x3", pool),
        ("Conv2d_3b_1x1", conv(80, 1)),
        ("Conv2d_4a_3x3", conv(192, 3)),
        ("MaxPool_5a_3x3", pool),
    ]
    end_points: dict[str, Any] = {}
    with tf.variable_scope(scope, "InceptionV3", [inputs]):
        net = inputs
        for name, make in first:
            net = end_points[name] = make(net, name)
            if name == final_endpoint:
                return net, end_points
        with arg_scope(
            [layers.conv2d, layers.max_pool2d, layers.avg_pool2d], stride=1, padding="SAME"
        ):
            for name, branches in _BLOCKS:
                net = inception_blocks.mixed(net, name, branches, min_depth, depth_multiplier)
                end_points[name] = net
                if name == final_endpoint:
                    return net, end_points
    raise ValueError(f"Unknown final endpoint {final_endpoint}")


def inception_v3(
    inputs: Any,
    num_classes: int | None = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.8,
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    prediction_fn: Any = layers.softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    create_aux_logits: bool = True,
    scope: Any = "InceptionV3",
    global_pool: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """(logits, end points by name), for images of 299 × 299 pixels."""
    with (
        tf.variable_scope(scope, "InceptionV3", [inputs], reuse=reuse) as sc,
        arg_scope([layers.batch_norm, layers.dropout], is_training=is_training),
    ):
        net, end_points = inception_v3_base(
            inputs, scope=sc, min_depth=min_depth, depth_multiplier=depth_multiplier
        )
        if create_aux_logits and num_classes:
            end_points["AuxLogits"] = _aux_logits(
                end_points["Mixed_6e"], num_classes, min_depth, depth_multiplier, spatial_squeeze
            )
        if not num_classes:
            return net, end_points
        return inception_blocks.logits_of(
            net, num_classes, is_training, dropout_keep_prob, prediction_fn, spatial_squeeze,
            end_points, 8, ("1b", "1c"), global_pool, "AvgPool_1a_{}x{}",
        ), end_points  # fmt: skip


def _aux_logits(
    net: Any, num_classes: int, min_depth: int, multiplier: float, spatial_squeeze: bool
) -> Any:
    def normal(stddev: float) -> Any:
        return tf.truncated_normal_initializer(0.0, stddev)

    with (
        arg_scope([layers.conv2d, layers.max_pool2d, layers.avg_pool2d], stride=1, padding="SAME"),
        tf.variable_scope("AuxLogits"),
    ):
        net = layers.avg_pool2d(net, [5, 5], stride=3, padding="VALID", scope="AvgPool_1a_5x5")
        net = layers.conv2d(
            net, inception_blocks.depth(128, min_depth, multiplier), [1, 1], scope="Conv2d_1b_1x1"
        )
        size = inception_blocks.reduced_kernel(net, [5, 5])
        net = layers.conv2d(
            net, inception_blocks.depth(768, min_depth, multiplier), size,
            weights_initializer=normal(0.01), padding="VALID",
            scope=f"Conv2d_2a_{size[0]}x{size[1]}",
        )  # fmt: skip
        net = layers.conv2d(
            net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
            weights_initializer=normal(0.001), scope="Conv2d_2b_1x1",
        )  # fmt: skip
        return tf.squeeze(net, [1, 2], name="SpatialSqueeze") if spatial_squeeze else net


inception_v3.default_image_size = 299  # type: ignore[attr-defined]
