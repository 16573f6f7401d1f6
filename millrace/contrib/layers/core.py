"""Fully connected layers, dropout, bias, and layers made of other layers."""

from __future__ import annotations

import functools
from typing import Any

import millrace as tf
from millrace.contrib.framework import add_arg_scope, model_variable
from millrace.contrib.layers import initializers, utils
from millrace.contrib.layers.model_variables import KERNEL_AND_BIAS, collect, variable_getter
from millrace.layers import core as core_layers


def finish(
    outputs: Any,
    scope: Any,
    normalizer_fn: Any,
    normalizer_params: Any,
    activation_fn: Any,
    outputs_collections: Any,
) -> Any:
    """Normalizes, activates and collects what a layer computed."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return utils.collect_named_outputs(outputs_collections, scope.name, outputs)


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
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
    """``activation_fn(inputs · weights + biases)``, or normalized instead of a bias.

    Args:
      inputs: Of two dimensions or more; the last has a known size.
      num_outputs: How many units.
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
      scope: The variable scope, ``fully_connected`` by default.

    Raises:
      ValueError: `num_outputs` is no whole number, or the inputs have one dimension.
    """
    if not isinstance(num_outputs, int) and not hasattr(num_outputs, "__index__"):
        raise ValueError(f"num_outputs type should be one of int, long, got {type(num_outputs)}.")
    with tf.variable_scope(
        scope,
        "fully_connected",
        [inputs],
        reuse=reuse,
        custom_getter=variable_getter(KERNEL_AND_BIAS),
    ) as sc:
        inputs = tf.convert_to_tensor(inputs)
        layer = core_layers.Dense(
            units=int(num_outputs),
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
        if layer.bias is not None:
            collect(layer.bias, variables_collections, "biases")
        return finish(
            outputs, sc, normalizer_fn, normalizer_params, activation_fn, outputs_collections
        )


relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)
elu = functools.partial(fully_connected, activation_fn=tf.nn.elu)
linear = functools.partial(fully_connected, activation_fn=None)


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Any = None,
    initializer: Any = tf.zeros_initializer(),  # noqa: B008
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """Adds a bias to each channel."""
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with tf.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        channels = inputs.shape.as_list()[-1 if data_format == "NHWC" else 1]
        if channels is None:
            raise ValueError("`C` dimension must be known but is None")
        biases = model_variable(
            "biases",
            shape=[channels],
            dtype=inputs.dtype.base_dtype,
            initializer=initializer,
            regularizer=regularizer,
            collections=utils.get_variable_collections(variables_collections, "biases"),
            trainable=trainable,
        )
        outputs = tf.nn.bias_add(inputs, biases, data_format=data_format)
        return finish(outputs, sc, None, None, activation_fn, outputs_collections)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> Any:
    """Keeps each element with the probability `keep_prob`, scaled up; in training only."""
    with tf.variable_scope(scope, "Dropout", [inputs], custom_getter=variable_getter()) as sc:
        inputs = tf.convert_to_tensor(inputs)
        layer = core_layers.Dropout(
            rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=sc.name, _scope=sc
        )
        outputs = layer.apply(inputs, training=is_training)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> Any:
    """All axes but the first become one."""
    with tf.name_scope(scope, "Flatten", [inputs]) as sc:
        outputs = core_layers.flatten(tf.convert_to_tensor(inputs))
        return utils.collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """`tf.one_hot` of labels."""
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as sc:
        labels = tf.convert_to_tensor(labels)
        if labels.dtype == tf.int32:
            labels = tf.cast(labels, tf.int64)
        outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return utils.collect_named_outputs(outputs_collections, sc, outputs)


def _scope_name(layer: Any, default: str) -> str:
    if hasattr(layer, "__name__"):
        return str(layer.__name__)
    if hasattr(layer, "func") and hasattr(layer.func, "__name__"):
        return str(layer.func.__name__)
    return default


def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies a layer several times, each with variables of its own.

    With ``scope="conv3"`` the variables are in ``conv3/conv3_1``, ``conv3/conv3_2``, …
    """
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        if scope is None:
            scope = _scope_name(layer, "repeat")
        name = scope.name if isinstance(scope, tf.VariableScope) else scope
        outputs = inputs
        for i in range(repetitions):
            outputs = layer(outputs, *args, **{**kwargs, "scope": f"{name}_{i + 1}"})
        return outputs


def stack(inputs: Any, layer: Any, stack_args: Any, **kwargs: Any) -> Any:
    """Applies a layer several times, with other arguments each time.

    Raises:
      ValueError: `reuse` is given, which could mean several things.
    """
    scope = kwargs.pop("scope", None)
    if scope is not None and "reuse" in kwargs and kwargs["reuse"]:
        raise ValueError("Reuse in stack is not supported.")
    with tf.variable_scope(scope, "Stack", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        if scope is None:
            scope = _scope_name(layer, "stack")
        name = scope.name if isinstance(scope, tf.VariableScope) else scope
        outputs = inputs
        for i, arguments in enumerate(stack_args, 1):
            if not isinstance(arguments, list | tuple):
                arguments = [arguments]
            outputs = layer(outputs, *arguments, **{**kwargs, "scope": f"{name}_{i}"})
        return outputs


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Any:
    """Softmax over the last axis of tensors of any rank."""
    with tf.variable_scope(scope, "softmax", [logits]):
        depth = utils.last_dimension(logits.shape, min_rank=2)
        flat = tf.nn.softmax(tf.reshape(logits, [-1, depth]))
        predictions = tf.reshape(flat, tf.shape(logits))
        predictions.set_shape(logits.shape)
        return predictions


def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Any:
    """The largest of groups of channels (Goodfellow et al., 2013).

    Raises:
      ValueError: The channels do not divide into `num_units` groups.
    """
    with tf.variable_scope(scope, "MaxOut", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        sizes: list[Any] = inputs.shape.as_list()
        channels = sizes[axis]
        if channels % num_units:
            raise ValueError(
                f"number of features({channels}) is not a multiple of num_units({num_units})"
            )
        axis = axis % len(sizes)
        dynamic = tf.shape(inputs)
        whole = [dynamic[i] if size is None else size for i, size in enumerate(sizes)]
        grouped = [*whole[:axis], num_units, channels // num_units, *whole[axis + 1 :]]
        outputs = tf.reduce_max(tf.reshape(inputs, grouped), axis + 1)
        outputs.set_shape([*sizes[:axis], num_units, *sizes[axis + 1 :]])
        return outputs


def scale_gradient(inputs: Any, scale: Any) -> Any:
    """The inputs, whose gradient is multiplied by `scale`."""
    scaled = inputs * scale
    return scaled + tf.stop_gradient(inputs - scaled)


def legacy_fully_connected(
    x: Any,
    num_output_units: int,
    activation_fn: Any = None,
    weight_init: Any = initializers.xavier_initializer(),  # noqa: B008
    bias_init: Any = tf.zeros_initializer(),  # noqa: B008
    name: str | None = None,
    weight_collections: Any = (tf.GraphKeys.WEIGHTS,),
    bias_collections: Any = (tf.GraphKeys.BIASES,),
    output_collections: Any = (tf.GraphKeys.ACTIVATIONS,),
    trainable: bool = True,
    weight_regularizer: Any = None,
    bias_regularizer: Any = None,
) -> Any:
    """The fully connected layer of old: its variables are ``weights`` and ``bias``."""
    with tf.variable_scope(name, "fully_connected", [x]):
        x = tf.convert_to_tensor(x)
        depth = utils.last_dimension(x.shape, min_rank=2)
        kind = x.dtype.base_dtype
        every = {tf.GraphKeys.GLOBAL_VARIABLES}
        weights = tf.get_variable(
            "weights", [depth, num_output_units], kind, initializer=weight_init,
            collections=[*(set(weight_collections or ()) | every)],
            regularizer=weight_regularizer, trainable=trainable,
        )  # fmt: skip
        y = tf.matmul(tf.reshape(x, [-1, depth]), weights)
        if bias_init is not None:
            bias = tf.get_variable(
                "bias", [num_output_units], kind, initializer=bias_init,
                collections=[*(set(bias_collections or ()) | every)],
                regularizer=bias_regularizer, trainable=trainable,
            )  # fmt: skip
            y = tf.nn.bias_add(y, bias)
        if x.shape.ndims is not None and x.shape.ndims > 2:
            y = tf.reshape(y, tf.concat([tf.shape(x)[:-1], [num_output_units]], 0))
            y.set_shape(x.shape[:-1].concatenate(num_output_units))
        if activation_fn is not None:
            y = activation_fn(y)
        tf.add_to_collections(list(output_collections or ()), y)
        return y


legacy_linear = functools.partial(legacy_fully_connected, activation_fn=None)
legacy_relu = functools.partial(legacy_fully_connected, activation_fn=tf.nn.relu)
