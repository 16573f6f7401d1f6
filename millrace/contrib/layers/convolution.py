"""Convolutions and pools of `tf.contrib.layers`."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib.framework import add_arg_scope, model_variable
from millrace.contrib.layers import initializers, utils
from millrace.contrib.layers.core import finish
from millrace.contrib.layers.model_variables import KERNEL_AND_BIAS, collect, variable_getter
from millrace.layers import convolutional as core_layers
from millrace.layers import convolutional_variants as variants

_FORMATS = ("NHWC", "NCHW", "NWC", "NCW", "NDHWC", "NCDHW")


def _layout(data_format: str | None) -> str:
    if data_format not in (None, *_FORMATS):
        raise ValueError(f"Invalid data_format: {data_format!r}")
    return "channels_first" if data_format and data_format.startswith("NC") else "channels_last"


@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = initializers.xavier_initializer(),  # noqa: B008
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer(),  # noqa: B008
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    conv_dims: int | None = None,
) -> Any:
    """A convolution over one, two or three axes, as the rank of the inputs says.

    Args:
      inputs: Of rank 3, 4 or 5.
      num_outputs: How many filters.
      kernel_size: One size, or one for each axis.
      stride: One stride, or one for each axis.
      padding: ``SAME`` or ``VALID``.
      data_format: ``NHWC`` and the like, or ``NCHW`` and the like.
      rate: Dilation; not both it and the stride can be above 1.
      activation_fn: None for a linear layer.
      normalizer_fn: Used instead of biases.
      normalizer_params: Its arguments.
      weights_initializer: Initial weights.
      weights_regularizer: Loss of the weights.
      biases_initializer: Initial biases; None for no biases.
      biases_regularizer: Loss of the biases.
      reuse: Whether the variables are those of an earlier call.
      variables_collections: Collections of all variables, or of each by name.
      outputs_collections: Collections of the output.
      trainable: Whether the variables are trained.
      scope: The variable scope, ``Conv`` by default.
      conv_dims: The rank that the inputs must have, less two.

    Raises:
      ValueError: Rank or layout is another.
    """
    layout = _layout(data_format)
    with tf.variable_scope(
        scope, "Conv", [inputs], reuse=reuse, custom_getter=variable_getter(KERNEL_AND_BIAS)
    ) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
        classes = {3: core_layers.Conv1D, 4: core_layers.Conv2D, 5: core_layers.Conv3D}
        if rank not in classes:
            raise ValueError("Convolution not supported for input with rank", rank)
        layer: Any = classes[rank](
            filters=num_outputs,
            kernel_size=kernel_size,
            strides=stride,
            padding=padding,
            data_format=layout,
            dilation_rate=rate,
            activation=None,
            use_bias=not normalizer_fn and biases_initializer is not None,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            activity_regularizer=None,
            trainable=trainable,
            name=sc.name,
            dtype=inputs.dtype.base_dtype,
            _scope=sc,
            _reuse=reuse,
        )
        outputs = layer.apply(inputs)
        collect(layer.kernel, variables_collections, "weights")
        if layer.use_bias:
            collect(layer.bias, variables_collections, "biases")
        return finish(
            outputs, sc, normalizer_fn, normalizer_params, activation_fn, outputs_collections
        )


def _of_rank(dims: int, name: str, default: str | None) -> Any:
    @add_arg_scope
    def conv(
        inputs: Any,
        num_outputs: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: str = "SAME",
        data_format: str | None = default,
        rate: Any = 1,
        activation_fn: Any = tf.nn.relu,
        normalizer_fn: Any = None,
        normalizer_params: Any = None,
        weights_initializer: Any = initializers.xavier_initializer(),  # noqa: B008
        weights_regularizer: Any = None,
        biases_initializer: Any = tf.zeros_initializer(),  # noqa: B008
        biases_regularizer: Any = None,
        reuse: Any = None,
        variables_collections: Any = None,
        outputs_collections: Any = None,
        trainable: bool = True,
        scope: Any = None,
    ) -> Any:
        """`convolution`, whose inputs must have a certain rank."""
        return convolution(
            inputs, num_outputs, kernel_size, stride, padding, data_format, rate, activation_fn,
            normalizer_fn, normalizer_params, weights_initializer, weights_regularizer,
            biases_initializer, biases_regularizer, reuse, variables_collections,
            outputs_collections, trainable, scope, conv_dims=dims,
        )  # fmt: skip

    conv.__name__ = conv.__qualname__ = name
    return conv


convolution1d = conv1d = _of_rank(1, "convolution1d", None)
convolution2d = conv2d = _of_rank(2, "convolution2d", None)
convolution3d = conv3d = _of_rank(3, "convolution3d", None)


def _transposed(dims: int, name: str, layouts: tuple[str, str], scope_name: str) -> Any:
    @add_arg_scope
    def conv(
        inputs: Any,
        num_outputs: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: str = "SAME",
        data_format: str = layouts[0],
        activation_fn: Any = tf.nn.relu,
        normalizer_fn: Any = None,
        normalizer_params: Any = None,
        weights_initializer: Any = initializers.xavier_initializer(),  # noqa: B008
        weights_regularizer: Any = None,
        biases_initializer: Any = tf.zeros_initializer(),  # noqa: B008
        biases_regularizer: Any = None,
        reuse: Any = None,
        variables_collections: Any = None,
        outputs_collections: Any = None,
        trainable: bool = True,
        scope: Any = None,
    ) -> Any:
        """A transposed convolution."""
        if data_format not in layouts:
            raise ValueError(f"data_format has to be either {' or '.join(layouts)}.")
        with tf.variable_scope(
            scope,
            scope_name,
            [inputs],
            reuse=reuse,
            custom_getter=variable_getter(KERNEL_AND_BIAS),
        ) as sc:
            inputs = tf.convert_to_tensor(inputs)
            cls: Any = variants.Conv2DTranspose if dims == 2 else variants.Conv3DTranspose
            layer = cls(
                filters=num_outputs,
                kernel_size=kernel_size,
                strides=stride,
                padding=padding,
                data_format=_layout(data_format),
                activation=None,
                use_bias=not normalizer_fn and biases_initializer is not None,
                kernel_initializer=weights_initializer,
                bias_initializer=biases_initializer,
                kernel_regularizer=weights_regularizer,
                bias_regularizer=biases_regularizer,
                activity_regularizer=None,
                trainable=trainable,
                name=sc.name,
                dtype=inputs.dtype.base_dtype,
                _scope=sc,
                _reuse=reuse,
            )
            outputs = layer.apply(inputs)
            collect(layer.kernel, variables_collections, "weights")
            if layer.use_bias:
                collect(layer.bias, variables_collections, "biases")
            return finish(
                outputs, sc, normalizer_fn, normalizer_params, activation_fn, outputs_collections
            )

    conv.__name__ = conv.__qualname__ = name
    return conv


convolution2d_transpose = conv2d_transpose = _transposed(
    2, "convolution2d_transpose", ("NHWC", "NCHW"), "Conv2d_transpose"
)
convolution3d_transpose = conv3d_transpose = _transposed(
    3, "convolution3d_transpose", ("NDHWC", "NCDHW"), "Conv3d_transpose"
)


@add_arg_scope
def convolution2d_in_plane(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = initializers.xavier_initializer(),  # noqa: B008
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer(),  # noqa: B008
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """The same small convolution of every channel by itself."""
    with tf.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        kind = inputs.dtype.base_dtype
        height, width = utils.two_element_tuple(kernel_size)
        stride_h, stride_w = utils.two_element_tuple(stride)
        channels = utils.last_dimension(inputs.shape, min_rank=4)
        weights = model_variable(
            "weights",
            shape=[height, width, 1, 1],
            dtype=kind,
            initializer=weights_initializer,
            regularizer=weights_regularizer,
            collections=utils.get_variable_collections(variables_collections, "weights"),
            trainable=trainable,
        )
        outputs = tf.nn.depthwise_conv2d(
            inputs, tf.tile(weights, [1, 1, channels, 1]), [1, stride_h, stride_w, 1], padding
        )
        if not normalizer_fn and biases_initializer is not None:
            biases = model_variable(
                "biases",
                shape=[channels],
                dtype=kind,
                initializer=biases_initializer,
                regularizer=biases_regularizer,
                collections=utils.get_variable_collections(variables_collections, "biases"),
                trainable=trainable,
            )
            outputs = tf.nn.bias_add(outputs, biases)
        return finish(
            outputs, sc, normalizer_fn, normalizer_params, activation_fn, outputs_collections
        )


conv2d_in_plane = convolution2d_in_plane


@add_arg_scope
def separable_convolution2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = initializers.xavier_initializer(),  # noqa: B008
    pointwise_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = tf.zeros_initializer(),  # noqa: B008
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """A convolution of every channel, then across channels unless `num_outputs` is None."""
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    rename = {
        "bias": "biases",
        "depthwise_kernel": "depthwise_weights",
        "pointwise_kernel": "pointwise_weights",
    }
    with tf.variable_scope(
        scope, "SeparableConv2d", [inputs], reuse=reuse, custom_getter=variable_getter(rename)
    ) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if pointwise_initializer is None:
            pointwise_initializer = weights_initializer
        if num_outputs is not None:
            layer = variants.SeparableConv2D(
                filters=num_outputs,
                kernel_size=kernel_size,
                strides=stride,
                padding=padding,
                data_format=_layout(data_format),
                dilation_rate=utils.two_element_tuple(rate),
                activation=None,
                depth_multiplier=depth_multiplier,
                use_bias=not normalizer_fn and biases_initializer is not None,
                depthwise_initializer=weights_initializer,
                pointwise_initializer=pointwise_initializer,
                bias_initializer=biases_initializer,
                depthwise_regularizer=weights_regularizer,
                pointwise_regularizer=weights_regularizer,
                bias_regularizer=biases_regularizer,
                activity_regularizer=None,
                trainable=trainable,
                name=sc.name,
                dtype=inputs.dtype.base_dtype,
                _scope=sc,
                _reuse=reuse,
            )
            outputs = layer.apply(inputs)
            collect(layer.depthwise_kernel, variables_collections, "weights")
            collect(layer.pointwise_kernel, variables_collections, "weights")
            if layer.use_bias:
                collect(layer.bias, variables_collections, "biases")
        else:
            outputs = _depthwise(
                inputs, kernel_size, depth_multiplier, stride, padding, data_format, rate,
                weights_initializer, weights_regularizer,
                None if normalizer_fn else biases_initializer, biases_regularizer,
                variables_collections, trainable,
            )  # fmt: skip
        return finish(
            outputs, sc, normalizer_fn, normalizer_params, activation_fn, outputs_collections
        )


def _depthwise(
    inputs: Any, kernel_size: Any, depth_multiplier: int, stride: Any, padding: str,
    data_format: str, rate: Any, initializer: Any, regularizer: Any, biases_initializer: Any,
    biases_regularizer: Any, variables_collections: Any, trainable: bool,
) -> Any:  # fmt: skip
    kind = inputs.dtype.base_dtype
    height, width = utils.two_element_tuple(kernel_size)
    stride_h, stride_w = utils.two_element_tuple(stride)
    channels = utils.channel_dimension(inputs.shape, data_format, min_rank=4)
    weights = model_variable(
        "depthwise_weights",
        shape=[height, width, channels, depth_multiplier],
        dtype=kind,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=utils.get_variable_collections(variables_collections, "weights"),
    )
    first = data_format.startswith("NC")
    strides = [1, 1, stride_h, stride_w] if first else [1, stride_h, stride_w, 1]
    outputs = tf.nn.depthwise_conv2d(
        inputs,
        weights,
        strides,
        padding,
        rate=utils.two_element_tuple(rate),
        data_format=data_format,
    )
    if biases_initializer is not None:
        biases = model_variable(
            "biases",
            shape=[depth_multiplier * channels],
            dtype=kind,
            initializer=biases_initializer,
            regularizer=biases_regularizer,
            trainable=trainable,
            collections=utils.get_variable_collections(variables_collections, "biases"),
        )
        outputs = tf.nn.bias_add(outputs, biases, data_format=data_format)
    return outputs


separable_conv2d = separable_convolution2d
