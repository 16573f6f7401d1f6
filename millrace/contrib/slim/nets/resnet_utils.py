"""What residual networks share: blocks, strides that stop at an output stride, padding."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import add_arg_scope, arg_scope
from millrace.contrib.layers import utils


class Block(namedtuple("Block", ["scope", "unit_fn", "args"])):
    """A part of a network: its scope, the function of a unit, arguments of each unit."""


def subsample(inputs: Any, factor: int, scope: Any = None) -> Any:
    """Every `factor`-th pixel."""
    if factor == 1:
        return inputs
    return layers.max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


def conv2d_same(
    inputs: Any, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: Any = None
) -> Any:
    """A strided convolution whose padding does not depend on the size of the image."""
    if stride == 1:
        return layers.conv2d(
            inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME", scope=scope
        )
    total = kernel_size + (kernel_size - 1) * (rate - 1) - 1
    begin = total // 2
    inputs = tf.pad(inputs, [[0, 0], [begin, total - begin], [begin, total - begin], [0, 0]])
    return layers.conv2d(
        inputs, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID", scope=scope
    )


@add_arg_scope
def stack_blocks_dense(
    net: Any, blocks: Any, output_stride: int | None = None, outputs_collections: Any = None
) -> Any:
    """All units of all blocks; past `output_stride` strides become dilations.

    Raises:
      ValueError: The output stride cannot be reached.
    """
    current, rate = 1, 1
    for block in blocks:
        with tf.variable_scope(block.scope, "block", [net]) as sc:
            for i, unit in enumerate(block.args):
                if output_stride is not None and current > output_stride:
                    raise ValueError("The target output_stride cannot be reached.")
                with tf.variable_scope(f"unit_{i + 1}", values=[net]):
                    if output_stride is not None and current == output_stride:
                        net = block.unit_fn(net, rate=rate, **{**unit, "stride": 1})
                        rate *= unit.get("stride", 1)
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        current *= unit.get("stride", 1)
            net = utils.collect_named_outputs(outputs_collections, sc.name, net)
    if output_stride is not None and current != output_stride:
        raise ValueError("The target output_stride cannot be reached.")
    return net


def resnet_arg_scope(
    weight_decay: float = 0.0001,
    batch_norm_decay: float = 0.997,
    batch_norm_epsilon: float = 1e-5,
    batch_norm_scale: bool = True,
    activation_fn: Any = tf.nn.relu,
    use_batch_norm: bool = True,
) -> Any:
    """Defaults of a residual network's layers."""
    batch_norm_params = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "scale": batch_norm_scale,
        "updates_collections": tf.GraphKeys.UPDATE_OPS,
    }
    with (
        arg_scope(
            [layers.conv2d],
            weights_regularizer=layers.l2_regularizer(weight_decay),
            weights_initializer=layers.variance_scaling_initializer(),
            activation_fn=activation_fn,
            normalizer_fn=layers.batch_norm if use_batch_norm else None,
            normalizer_params=batch_norm_params,
        ),
        arg_scope([layers.batch_norm], **batch_norm_params),
        arg_scope([layers.max_pool2d], padding="SAME") as scope,
    ):
        return scope
