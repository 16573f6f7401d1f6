"""Pools of `tf.contrib.layers`, and the spatial softmax."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib.framework import add_arg_scope, model_variable
from millrace.contrib.layers import utils
from millrace.layers import pooling as core_layers


def _pool(name: str, scope_name: str, cls: Any, formats: tuple[str, str]) -> Any:
    @add_arg_scope
    def pool(
        inputs: Any,
        kernel_size: Any,
        stride: Any = 2,
        padding: str = "VALID",
        data_format: str = formats[0],
        outputs_collections: Any = None,
        scope: str | None = None,
    ) -> Any:
        """A pool over every window of `kernel_size`, `stride` apart."""
        if data_format not in formats:
            raise ValueError(f"data_format has to be either {' or '.join(formats)}.")
        with tf.name_scope(scope, scope_name, [inputs]) as sc:
            layer = cls(
                pool_size=kernel_size,
                strides=stride,
                padding=padding,
                data_format="channels_first" if data_format[1] == "C" else "channels_last",
                _scope=sc,
            )
            outputs = layer.apply(tf.convert_to_tensor(inputs))
            return utils.collect_named_outputs(outputs_collections, sc, outputs)

    pool.__name__ = pool.__qualname__ = name
    return pool


avg_pool2d = _pool("avg_pool2d", "AvgPool2D", core_layers.AveragePooling2D, ("NHWC", "NCHW"))
max_pool2d = _pool("max_pool2d", "MaxPool2D", core_layers.MaxPooling2D, ("NHWC", "NCHW"))
avg_pool3d = _pool("avg_pool3d", "AvgPool3D", core_layers.AveragePooling3D, ("NDHWC", "NCDHW"))
max_pool3d = _pool("max_pool3d", "MaxPool3D", core_layers.MaxPooling3D, ("NDHWC", "NCDHW"))


@add_arg_scope
def pool(
    inputs: Any,
    kernel_size: Any,
    pooling_type: str,
    padding: str = "VALID",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    stride: Any = 1,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """A pool over as many axes as the inputs have; `pooling_type` is ``MAX`` or ``AVG``."""
    label = {"AVG": "avg_pool", "MAX": "max_pool"}.get(pooling_type, "pool")
    with tf.name_scope(scope, label, [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError("Rank of inputs must be known")
        if rank < 3:
            raise ValueError("Rank of inputs must be >= 3")
        outputs = tf.nn.pool(
            input=inputs,
            window_shape=utils.n_positive_integers(rank - 2, kernel_size),
            pooling_type=pooling_type,
            padding=padding,
            data_format=data_format,
            dilation_rate=utils.n_positive_integers(rank - 2, dilation_rate),
            strides=utils.n_positive_integers(rank - 2, stride),
        )
        return utils.collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def spatial_softmax(
    features: Any,
    temperature: Any = None,
    name: str | None = None,
    variables_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
) -> Any:
    """The expected place of each channel's softmax, as (x, y) from −1 to 1."""
    with tf.variable_scope(name, "spatial_softmax"):
        shape = tf.shape(features)
        static = features.shape.as_list()
        if data_format == "NCHW":
            height, width, channels = shape[2], shape[3], static[1]
        else:
            height, width, channels = shape[1], shape[2], static[3]
        pos_x, pos_y = tf.meshgrid(
            tf.linspace(-1.0, 1.0, num=height), tf.linspace(-1.0, 1.0, num=width), indexing="ij"
        )
        pos_x, pos_y = tf.reshape(pos_x, [height * width]), tf.reshape(pos_y, [height * width])
        if temperature is None:
            temperature = model_variable(
                "temperature",
                shape=(),
                dtype=tf.float32,
                initializer=tf.ones_initializer(),
                collections=utils.get_variable_collections(variables_collections, "temperature"),
                trainable=trainable,
            )
        if data_format == "NCHW":
            flat = tf.reshape(features, [-1, height * width])
        else:
            flat = tf.reshape(tf.transpose(features, [0, 3, 1, 2]), [-1, height * width])
        attention = tf.nn.softmax(flat / temperature)
        expected_x = tf.reduce_sum(pos_x * attention, [1], keepdims=True)
        expected_y = tf.reduce_sum(pos_y * attention, [1], keepdims=True)
        return tf.reshape(tf.concat([expected_x, expected_y], 1), [-1, channels * 2])


def images_to_sequence(
    inputs: Any, data_format: str = "NHWC", outputs_collections: Any = None, scope: Any = None
) -> Any:
    """[batch, height, width, channels] → [width, batch·height, channels]."""
    with tf.name_scope(scope, "ImagesToSequence", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if data_format == "NCHW":
            inputs = tf.transpose(inputs, [0, 2, 3, 1])
        _, _, width, depth = inputs.shape.as_list()
        shape = tf.shape(inputs)
        batch = shape[0] * shape[1]
        outputs = tf.transpose(tf.reshape(inputs, [batch, shape[2], depth]), [1, 0, 2])
        outputs.set_shape([width, None, depth])
        return utils.collect_named_outputs(outputs_collections, sc, outputs)


def sequence_to_images(
    inputs: Any,
    height: int,
    output_data_format: str = "channels_last",
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """[width, batch·height, channels] → images of the given height."""
    with tf.name_scope(scope, "SequenceToImages", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        width, batches, depth = inputs.shape.as_list()
        batch = -1 if batches is None else batches // height
        outputs = tf.transpose(inputs, [1, 0, 2])
        outputs = tf.reshape(
            outputs, [batch, height, tf.shape(inputs)[0] if width is None else width, depth]
        )
        if output_data_format == "channels_first":
            outputs = tf.transpose(outputs, [0, 3, 1, 2])
        return utils.collect_named_outputs(outputs_collections, sc, outputs)
