"""MobileNet v1: separable convolutions all the way (Howard et al., 2017)."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import arg_scope
from millrace.contrib.slim.nets.inception_blocks import reduced_kernel

#: (filters, stride) of each separable convolution after the first full one of 32.
_SEPARABLE = [
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1),
    (512, 1), (512, 1), (1024, 2), (1024, 1),
]  # fmt: skip


def mobilenet_v1_base(
    inputs: Any,
    final_endpoint: str = "Conv2d_13_pointwise",
    min_depth: int = 8,
    depth_multiplier: float = 1.0,
    output_stride: int | None = None,
    scope: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """(features, end points), up to `final_endpoint`.

    Raises:
      ValueError: There is no such end point, or a number is not allowed.
    """
    if depth_multiplier <= 0:
        raise ValueError("depth_multiplier is not greater than zero.")
    if output_stride is not None and output_stride not in (8, 16, 32):
        raise ValueError("Only allowed output_stride values are 8, 16, 32.")

    def deep(filters: int) -> int:
        return max(int(filters * depth_multiplier), min_depth)

    end_points: dict[str, Any] = {}
    with (
        tf.variable_scope(scope, "MobilenetV1", [inputs]),
        arg_scope([layers.conv2d, layers.separable_conv2d], padding="SAME"),
    ):
        net = layers.conv2d(
            inputs, deep(32), [3, 3], stride=2, normalizer_fn=layers.batch_norm, scope="Conv2d_0"
        )
        end_points["Conv2d_0"] = net
        if final_endpoint == "Conv2d_0":
            return net, end_points
        current, rate = 2, 1
        for number, (filters, stride) in enumerate(_SEPARABLE, 1):
            layer_rate = 1
            if output_stride is not None and current == output_stride:
                layer_rate, layer_stride = rate, 1
                rate *= stride
            else:
                layer_stride = stride
                current *= stride
            name = f"Conv2d_{number}_depthwise"
            net = layers.separable_conv2d(
                net, None, [3, 3], depth_multiplier=1, stride=layer_stride, rate=layer_rate,
                normalizer_fn=layers.batch_norm, scope=name,
            )  # fmt: skip
            end_points[name] = net
            if name == final_endpoint:
                return net, end_points
            name = f"Conv2d_{number}_pointwise"
            net = layers.conv2d(
                net, deep(filters), [1, 1], stride=1, normalizer_fn=layers.batch_norm, scope=name
            )
            end_points[name] = net
            if name == final_endpoint:
                return net, end_points
    raise ValueError(f"Unknown final endpoint {final_endpoint}")


def mobilenet_v1(
    inputs: Any,
    num_classes: int | None = 1000,
    dropout_keep_prob: float = 0.999,
    is_training: Any = True,
    min_depth: int = 8,
    depth_multiplier: float = 1.0,
    prediction_fn: Any = layers.softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "MobilenetV1",
    global_pool: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """(logits, end points by name), for images of 224 × 224 pixels."""
    if inputs.shape.ndims != 4:
        raise ValueError(f"Invalid input tensor rank, expected 4, was: {inputs.shape.ndims}")
    with (
        tf.variable_scope(scope, "MobilenetV1", [inputs], reuse=reuse) as sc,
        arg_scope([layers.batch_norm, layers.dropout], is_training=is_training),
    ):
        net, end_points = mobilenet_v1_base(
            inputs, scope=sc, min_depth=min_depth, depth_multiplier=depth_multiplier
        )
        with tf.variable_scope("Logits"):
            if global_pool:
                net = tf.reduce_mean(net, [1, 2], keepdims=True, name="global_pool")
            else:
                net = layers.avg_pool2d(
                    net, reduced_kernel(net, [7, 7]), padding="VALID", scope="AvgPool_1a"
                )
            end_points["AvgPool_1a"] = net
            if not num_classes:
                return net, end_points
            net = layers.dropout(net, keep_prob=dropout_keep_prob, scope="Dropout_1b")
            logits = layers.conv2d(
                net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
                scope="Conv2d_1c_1x1",
            )  # fmt: skip
            if spatial_squeeze:
                logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
        end_points["Logits"] = logits
        if prediction_fn:
            end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


mobilenet_v1.default_image_size = 224  # type: ignore[attr-defined]


def mobilenet_v1_arg_scope(
    is_training: Any = True,
    weight_decay: float = 0.00004,
    stddev: float = 0.09,
    regularize_depthwise: bool = False,
    batch_norm_decay: float = 0.9997,
    batch_norm_epsilon: float = 0.001,
) -> Any:
    """Defaults of MobileNet's layers."""
    batch_norm_params = {
        "center": True,
        "scale": True,
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
    }
    if is_training is not None:
        batch_norm_params["is_training"] = is_training
    regularizer = layers.l2_regularizer(weight_decay)
    with (
        arg_scope(
            [layers.conv2d, layers.separable_conv2d],
            weights_initializer=tf.truncated_normal_initializer(stddev=stddev),
            activation_fn=tf.nn.relu6,
            normalizer_fn=layers.batch_norm,
        ),
        arg_scope([layers.batch_norm], **batch_norm_params),
        arg_scope([layers.conv2d], weights_regularizer=regularizer),
        arg_scope(
            [layers.separable_conv2d],
            weights_regularizer=regularizer if regularize_depthwise else None,
        ) as scope,
    ):
        return scope
