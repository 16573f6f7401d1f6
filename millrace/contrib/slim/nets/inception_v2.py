"""Inception v2: batch normalization's own network (Ioffe and Szegedy, 2015)."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import arg_scope
from millrace.contrib.slim.nets import inception_blocks
from millrace.contrib.slim.nets.inception_blocks import (
    inception_arg_scope as inception_v2_arg_scope,
)

__all__ = ["inception_v2", "inception_v2_arg_scope", "inception_v2_base"]


def _mixed(
    b0: int, b1: tuple[int, int], b2: tuple[int, int], b3: int, pool: str = "avg"
) -> list[Any]:
    pool_scope = "AvgPool_0a_3x3" if pool == "avg" else "MaxPool_0a_3x3"
    return [
        [(b0, 1, "Conv2d_0a_1x1")],
        [(b1[0], 1, "Conv2d_0a_1x1"), (b1[1], 3, "Conv2d_0b_3x3")],
        [(b2[0], 1, "Conv2d_0a_1x1"), (b2[1], 3, "Conv2d_0b_3x3"), (b2[1], 3, "Conv2d_0c_3x3")],
        [(pool, pool_scope), (b3, 1, "Conv2d_0b_1x1")],
    ]


def _strided(b0: tuple[int, int], b1: tuple[int, int]) -> list[Any]:
    return [
        [(b0[0], 1, "Conv2d_0a_1x1"), (b0[1], 3, "Conv2d_1a_3x3", 2)],
        [(b1[0], 1, "Conv2d_0a_1x1"), (b1[1], 3, "Conv2d_0b_3x3"), (b1[1], 3, "Conv2d_1a_3x3", 2)],
        [("max", "MaxPool_1a_3x3", 2)],
    ]


_BLOCKS: list[tuple[str, list[Any]]] = [
    ("Mixed_3b", _mixed(64, (64, 64), (64, 96), 32)),
    ("Mixed_3c", _mixed(64, (64, 96), (64, 96), 64)),
    ("Mixed_4a", _strided((128, 160), (64, 96))),
    ("Mixed_4b", _mixed(224, (64, 96), (96, 128), 128)),
    ("Mixed_4c", _mixed(192, (96, 128), (96, 128), 128)),
    ("Mixed_4d", _mixed(160, (128, 160), (128, 160), 96)),
    ("Mixed_4e", _mixed(96, (128, 192), (160, 192), 96)),
    ("Mixed_5a", _strided((128, 192), (192, 256))),
    ("Mixed_5b", _mixed(352, (192, 320), (160, 224), 128)),
    ("Mixed_5c", _mixed(352, (192, 320), (192, 224), 128, pool="max")),
]


def inception_v2_base(
    inputs: Any,
    final_endpoint: str = "Mixed_5c",
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

    def deep(filters: int) -> int:
        return inception_blocks.depth(filters, min_depth, depth_multiplier)

    def stem(x: Any, name: str) -> Any:
        channels = min(int(deep(64) / 3), 8)
        return layers.separable_conv2d(
            x, deep(64), [7, 7], depth_multiplier=channels, stride=2, padding="SAME",
            weights_initializer=tf.truncated_normal_initializer(stddev=1.0), scope=name,
        )  # fmt: skip

    first: list[tuple[str, Any]] = [
        ("Conv2d_1a_7x7", stem),
        ("MaxPool_2a_3x3", lambda x, s: layers.max_pool2d(x, [3, 3], scope=s, stride=2)),
        ("Conv2d_2b_1x1", lambda x, s: layers.conv2d(x, deep(64), [1, 1], scope=s)),
        ("Conv2d_2c_3x3", lambda x, s: layers.conv2d(x, deep(192), [3, 3], scope=s)),
        ("MaxPool_3a_3x3", lambda x, s: layers.max_pool2d(x, [3, 3], scope=s, stride=2)),
    ]
    end_points: dict[str, Any] = {}
    with (
        tf.variable_scope(scope, "InceptionV2", [inputs]),
        arg_scope([layers.conv2d, layers.max_pool2d, layers.avg_pool2d], stride=1, padding="SAME"),
    ):
        net = inputs
        for name, make in first:
            net = end_points[name] = make(net, name)
            if name == final_endpoint:
                return net, end_points
        for name, branches in _BLOCKS:
            net = inception_blocks.mixed(net, name, branches, min_depth, depth_multiplier)
            end_points[name] = net
            if name == final_endpoint:
                return net, end_points
    raise ValueError(f"Unknown final endpoint {final_endpoint}")


def inception_v2(
    inputs: Any,
    num_classes: int | None = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.8,
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    prediction_fn: Any = layers.softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV2",
    global_pool: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """(logits, end points by name), for images of 224 × 224 pixels."""
    with (
        tf.variable_scope(scope, "InceptionV2", [inputs], reuse=reuse) as sc,
        arg_scope([layers.batch_norm, layers.dropout], is_training=is_training),
    ):
        net, end_points = inception_v2_base(
            inputs, scope=sc, min_depth=min_depth, depth_multiplier=depth_multiplier
        )
        if not num_classes:
            return net, end_points
        return inception_blocks.logits_of(
            net, num_classes, is_training, dropout_keep_prob, prediction_fn, spatial_squeeze,
            end_points, 7, ("1b", "1c"), global_pool, "AvgPool_1a_{}x{}",
        ), end_points  # fmt: skip


inception_v2.default_image_size = 224  # type: ignore[attr-defined]
