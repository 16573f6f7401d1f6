"""Residual networks, version 1: activation after the addition (He et al., 2015)."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib import layers
from millrace.contrib.framework import add_arg_scope, arg_scope
from millrace.contrib.layers import utils
from millrace.contrib.slim.nets import resnet_utils
from millrace.contrib.slim.nets.resnet_utils import resnet_arg_scope

__all__ = [
    "bottleneck",
    "resnet_arg_scope",
    "resnet_v1",
    "resnet_v1_50",
    "resnet_v1_101",
    "resnet_v1_152",
    "resnet_v1_200",
    "resnet_v1_block",
]


@add_arg_scope
def bottleneck(
    inputs: Any,
    depth: int,
    depth_bottleneck: int,
    stride: int,
    rate: int = 1,
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """A unit of three convolutions with a shortcut."""
    with tf.variable_scope(scope, "bottleneck_v1", [inputs]) as sc:
        depth_in = utils.last_dimension(inputs.shape, min_rank=4)
        if depth == depth_in:
            shortcut = resnet_utils.subsample(inputs, stride, "shortcut")
        else:
            shortcut = layers.conv2d(
                inputs, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut"
            )
        residual = layers.conv2d(inputs, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = resnet_utils.conv2d_same(
            residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2"
        )
        residual = layers.conv2d(
            residual, depth, [1, 1], stride=1, activation_fn=None, scope="conv3"
        )
        output = tf.nn.relu(shortcut + residual)
        return utils.collect_named_outputs(outputs_collections, sc.name, output)


def resnet_v1(
    inputs: Any,
    blocks: Any,
    num_classes: int | None = None,
    is_training: Any = True,
    global_pool: bool = True,
    output_stride: int | None = None,
    include_root_block: bool = True,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """(logits or features, end points by name)."""
    with tf.variable_scope(scope, "resnet_v1", [inputs], reuse=reuse) as sc:
        collection = f"{sc.original_name_scope}_end_points"
        with (
            arg_scope(
                [layers.conv2d, bottleneck, resnet_utils.stack_blocks_dense],
                outputs_collections=collection,
            ),
            arg_scope([layers.batch_norm], is_training=is_training),
        ):
            net = inputs
            if include_root_block:
                if output_stride is not None:
                    if output_stride % 4:
                        raise ValueError("The output_stride needs to be a multiple of 4.")
                    output_stride //= 4
                net = resnet_utils.conv2d_same(net, 64, 7, stride=2, scope="conv1")
                net = layers.max_pool2d(net, [3, 3], stride=2, scope="pool1")
            net = resnet_utils.stack_blocks_dense(net, blocks, output_stride)
            end_points = utils.convert_collection_to_dict(collection)
            if global_pool:
                net = tf.reduce_mean(net, [1, 2], name="pool5", keepdims=True)
                end_points["global_pool"] = net
            if num_classes:
                net = layers.conv2d(
                    net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None,
                    scope="logits",
                )  # fmt: skip
                end_points[f"{sc.name}/logits"] = net
                if spatial_squeeze:
                    net = tf.squeeze(net, [1, 2], name="SpatialSqueeze")
                    end_points[f"{sc.name}/spatial_squeeze"] = net
                end_points["predictions"] = layers.softmax(net, scope="predictions")
            return net, end_points


resnet_v1.default_image_size = 224  # type: ignore[attr-defined]


def resnet_v1_block(scope: str, base_depth: int, num_units: int, stride: int) -> Any:
    """A block whose last unit has the stride."""
    unit = {"depth": base_depth * 4, "depth_bottleneck": base_depth}
    return resnet_utils.Block(
        scope, bottleneck, [{**unit, "stride": 1}] * (num_units - 1) + [{**unit, "stride": stride}]
    )


def _network(name: str, units: tuple[int, int, int, int]) -> Any:
    def network(
        inputs: Any,
        num_classes: int | None = None,
        is_training: Any = True,
        global_pool: bool = True,
        output_stride: int | None = None,
        spatial_squeeze: bool = True,
        reuse: Any = None,
        scope: str = name,
    ) -> tuple[Any, dict[str, Any]]:
        """(logits or features, end points by name)."""
        blocks = [
            resnet_v1_block(f"block{i + 1}", 64 * 2**i, count, stride=2 if i < 3 else 1)
            for i, count in enumerate(units)
        ]
        return resnet_v1(
            inputs, blocks, num_classes, is_training, global_pool=global_pool,
            output_stride=output_stride, include_root_block=True,
            spatial_squeeze=spatial_squeeze, reuse=reuse, scope=scope,
        )  # fmt: skip

    network.__name__ = network.__qualname__ = name
    network.default_image_size = 224  # type: ignore[attr-defined]
    return network


resnet_v1_50 = _network("resnet_v1_50", (3, 4, 6, 3))
resnet_v1_101 = _network("resnet_v1_101", (3, 4, 23, 3))
resnet_v1_152 = _network("resnet_v1_152", (3, 8, 36, 3))
resnet_v1_200 = _network("resnet_v1_200", (3, 24, 36, 3))
