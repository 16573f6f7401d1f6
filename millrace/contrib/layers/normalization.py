"""Layer, instance and group normalization, and others without averages."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib.framework import add_arg_scope, model_variable
from millrace.contrib.layers import utils


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Any:
    """Normalizes each example over its axes from `begin_norm_axis` on (Ba et al., 2016).

    Raises:
      ValueError: The rank or the parameters' shape is not known, or an axis does not exist.
    """
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        shape, rank = inputs.shape, inputs.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        kind = inputs.dtype.base_dtype
        if begin_norm_axis < 0:
            begin_norm_axis += rank
        if begin_params_axis >= rank or begin_norm_axis >= rank:
            raise ValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({begin_norm_axis}) "
                f"must be < rank(inputs) ({rank})"
            )
        params_shape = shape[begin_params_axis:]
        if not params_shape.is_fully_defined():
            raise ValueError(
                f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully "
                f"defined: {shape}"
            )
        beta = gamma = None
        if center:
            beta = _parameter(
                "beta", params_shape, kind, tf.zeros_initializer(), variables_collections, trainable
            )
        if scale:
            gamma = _parameter(
                "gamma", params_shape, kind, tf.ones_initializer(), variables_collections, trainable
            )
        axes = list(range(begin_norm_axis, rank))
        mean, variance = tf.nn.moments(inputs, axes, keep_dims=True)
        outputs = tf.nn.batch_normalization(
            inputs,
            mean,
            variance,
            offset=beta,
            scale=gamma,
            variance_epsilon=1e-3 if kind == tf.float16 else 1e-12,
        )
        outputs.set_shape(shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


def _parameter(
    name: str, shape: Any, kind: Any, initializer: Any, collections: Any, trainable: bool
) -> Any:
    return model_variable(
        name,
        shape=shape,
        dtype=kind,
        initializer=initializer,
        collections=utils.get_variable_collections(collections, name),
        trainable=trainable,
    )


@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: dict[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """Normalizes each channel of each image by itself (Ulyanov et al., 2016)."""
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if rank is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    given = param_initializers or {}
    with tf.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        kind = inputs.dtype.base_dtype
        channel_axis = 1 if data_format == "NCHW" else rank - 1
        channels = inputs.shape.as_list()[channel_axis]
        if channels is None:
            raise ValueError(f"Inputs {inputs.name} has undefined channels dimension.")
        axes = [i for i in range(rank) if i not in (0, channel_axis)]
        wide = [1] * rank
        wide[channel_axis] = channels
        beta = gamma = None
        if center:
            beta = _parameter(
                "beta", [channels], kind, given.get("beta", tf.zeros_initializer()),
                variables_collections, trainable,
            )  # fmt: skip
            if data_format == "NCHW":
                beta = tf.reshape(beta, wide)
        if scale:
            gamma = _parameter(
                "gamma", [channels], kind, given.get("gamma", tf.ones_initializer()),
                variables_collections, trainable,
            )  # fmt: skip
            if data_format == "NCHW":
                gamma = tf.reshape(gamma, wide)
        mean, variance = tf.nn.moments(inputs, axes, keep_dims=True)
        outputs = tf.nn.batch_normalization(
            inputs, mean, variance, beta, gamma, epsilon, name="instancenorm"
        )
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def group_norm(
    inputs: Any,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Any = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: dict[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    mean_close_to_zero: bool = False,
) -> Any:
    """Normalizes groups of channels of each example (Wu and He, 2018).

    Raises:
      ValueError: An axis does not exist, or the channels do not divide into the groups.
    """
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if rank is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    channels_axis = channels_axis % rank
    axes = sorted(axis % rank for axis in reduction_axes)
    if channels_axis in axes:
        raise ValueError("reduction_axes must not contain channels_axis.")
    sizes = inputs.shape.as_list()
    channels = sizes[channels_axis]
    if channels is None:
        raise ValueError(f"Inputs {inputs.name} has undefined channel dimension.")
    if groups > channels or channels % groups:
        raise ValueError(f"Invalid groups {groups} for {channels} channels.")
    given = param_initializers or {}
    with tf.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as sc:
        kind = inputs.dtype.base_dtype
        shape = tf.shape(inputs)
        whole = [shape[i] if size is None else size for i, size in enumerate(sizes)]
        grouped = [
            *whole[:channels_axis], groups, channels // groups, *whole[channels_axis + 1 :]
        ]  # fmt: skip
        wide = [1] * (rank + 1)
        wide[channels_axis], wide[channels_axis + 1] = groups, channels // groups
        moments_axes = [axis + 1 if axis > channels_axis else axis for axis in axes]
        moments_axes.append(channels_axis + 1)
        beta = gamma = None
        if center:
            beta = tf.reshape(
                _parameter(
                    "beta", [channels], kind, given.get("beta", tf.zeros_initializer()),
                    variables_collections, trainable,
                ), wide,
            )  # fmt: skip
        if scale:
            gamma = tf.reshape(
                _parameter(
                    "gamma", [channels], kind, given.get("gamma", tf.ones_initializer()),
                    variables_collections, trainable,
                ), wide,
            )  # fmt: skip
        values = tf.reshape(inputs, grouped)
        mean, variance = tf.nn.moments(values, sorted(moments_axes), keep_dims=True)
        outputs = tf.nn.batch_normalization(
            values, mean, variance, beta, gamma, epsilon, name="groupnorm"
        )
        outputs = tf.reshape(outputs, shape)
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Any:
    """Vectors along an axis get length 1.

    Raises:
      ValueError: The axis does not exist.
    """
    with tf.variable_scope(scope, "UnitNorm", [inputs]):
        rank = inputs.shape.ndims
        if not rank:
            raise ValueError("The input rank must be known.")
        if dim < 0 or dim >= rank:
            raise ValueError("dim must be positive but smaller than the input rank.")
        lengths = tf.sqrt(epsilon + tf.reduce_sum(tf.square(inputs), dim, keepdims=True))
        return tf.divide(inputs, lengths)
