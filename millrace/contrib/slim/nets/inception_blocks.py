"""Inception networks from tables: each mixed block is a list of branches.

A branch is a list of steps after each other. A step is ``(filters, size, scope, stride,
padding)`` for a convolution, ``("max" | "avg", scope, stride, padding)`` for a pool, or a list of
convolutions that run side by side and are joined. Sizes are one number or (height, width).
"""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import arg_scope


def mixed(net: Any, name: str, branches: list[Any], min_depth: int, multiplier: float) -> Any:
    """The branches of a block, joined along the channels."""
    with tf.variable_scope(name):
        joined = []
        for number, steps in enumerate(branches):
            with tf.variable_scope(f"Branch_{number}"):
                branch = net
                for step in steps:
                    branch = _step(branch, step, min_depth, multiplier)
                joined.append(branch)
        return tf.concat(axis=3, values=joined)


def depth(filters: int, min_depth: int, multiplier: float) -> int:
    """How many filters a thinner network has."""
    return max(int(filters * multiplier), min_depth)


def _step(net: Any, step: Any, min_depth: int, multiplier: float) -> Any:
    if isinstance(step, list):
        return tf.concat(axis=3, values=[_step(net, s, min_depth, multiplier) for s in step])
    if step[0] in ("max", "avg"):
        pool = layers.max_pool2d if step[0] == "max" else layers.avg_pool2d
        _, scope, *rest = step
        options = dict(zip(("stride", "padding"), rest, strict=False))
        return pool(net, [3, 3], scope=scope, **options)
    filters, size, scope, *rest = step
    options = dict(zip(("stride", "padding"), rest, strict=False))
    size = [size, size] if isinstance(size, int) else list(size)
    return layers.conv2d(net, depth(filters, min_depth, multiplier), size, scope=scope, **options)


def reduced_kernel(net: Any, kernel_size: list[int]) -> list[int]:
    """The kernel, no larger than the image where its size is known."""
    shape = net.shape.as_list()
    if shape[1] is None or shape[2] is None:
        return kernel_size
    return [min(shape[1], kernel_size[0]), min(shape[2], kernel_size[1])]


def inception_arg_scope(
    weight_decay: float = 0.00004,
    use_batch_norm: bool = True,
    batch_norm_decay: float = 0.9997,
    batch_norm_epsilon: float = 0.001,
    activation_fn: Any = tf.nn.relu,
    batch_norm_updates_collections: Any = tf.GraphKeys.UPDATE_OPS,
    batch_norm_scale: bool = False,
) -> Any:
    """Defaults of an Inception network's layers."""
    normalizer_params = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "updates_collections": batch_norm_updates_collections,
        "fused": None,
        "scale": batch_norm_scale,
    }
    with (
        arg_scope(
            [layers.conv2d, layers.fully_connected],
            weights_regularizer=layers.l2_regularizer(weight_decay),
        ),
        arg_scope(
            [layers.conv2d],
            weights_initializer=layers.variance_scaling_initializer(),
            activation_fn=activation_fn,
            normalizer_fn=layers.batch_norm if use_batch_norm else None,
            normalizer_params=normalizer_params if use_batch_norm else {},
        ) as scope,
    ):
        return scope


def logits_of(
    net: Any, num_classes: int, is_training: Any, keep: float, prediction_fn: Any,
    spatial_squeeze: bool, end_points: dict[str, Any], window: int, letters: tuple[str, str],
    global_pool: bool, mean_name: str,
) -> Any:  # fmt: skip
    """The last layers: a pool, dropout and a convolution of size 1."""
    with tf.variable_scope("Logits"):
        if global_pool:
            net = tf.reduce_mean(net, [1, 2], keepdims=True, name="global_pool")
        else:
            size = reduced_kernel(net, [window, window])
            net = layers.avg_pool2d(
                net, size, stride=1, padding="VALID", scope=mean_name.format(*size)
            )
        end_points["PreLogits"] = net
        net = layers.dropout(
            net, keep_prob=keep, is_training=is_training, scope=f"Dropout_{letters[0]}"
        )
        logits = layers.conv2d(
            net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
            scope=f"Conv2d_{letters[1]}_1x1",
        )  # fmt: skip
        if spatial_squeeze:
            logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
    end_points["Logits"] = logits
    end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits
