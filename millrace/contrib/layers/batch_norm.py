"""`tf.contrib.layers.batch_norm`: by `tf.layers`' class, fused, or with weights and debiasing."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib.framework import add_arg_scope, model_variable
from millrace.contrib.layers import utils
from millrace.contrib.layers.model_variables import collect, variable_getter
from millrace.layers import normalization as core_layers
from millrace.training.optimizers.moving_averages import assign_moving_average


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Any = None,
    param_initializers: dict[str, Any] | None = None,
    param_regularizers: dict[str, Any] | None = None,
    updates_collections: Any = tf.GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: dict[str, Any] | None = None,
    renorm_decay: float = 0.99,
    adjustment: Any = None,
) -> Any:
    """Batch normalization; the averages move by `1 − decay` of the way.

    Args:
      inputs: Of rank 2 or more.
      decay: How much of the averages stays.
      center: Whether there is a ``beta``.
      scale: Whether there is a ``gamma``.
      epsilon: Added to the variance.
      activation_fn: Applied to the result.
      param_initializers: Initializers of beta, gamma, moving_mean, moving_variance.
      param_regularizers: Regularizers of beta and gamma.
      updates_collections: Where the operations go that move the averages; None moves them
        before the output.
      is_training: Whether the batch's moments are used, and move the averages.
      reuse: Whether the variables are those of an earlier call.
      variables_collections: Collections of all variables, or of each by name.
      outputs_collections: Collections of the output.
      trainable: Whether beta and gamma are trained.
      batch_weights: Weights of the examples in the moments.
      fused: Whether the fused op is used where it can be; None means yes.
      data_format: ``NHWC`` or ``NCHW``.
      zero_debias_moving_mean: Whether the mean makes up for its beginning at zero.
      scope: The variable scope, ``BatchNorm`` by default.
      renorm: Whether it is batch renormalization.
      renorm_clipping: ``rmax``, ``rmin``, ``dmax``.
      renorm_decay: How much of the averages of renormalization stays.
      adjustment: A function of the shape that gives a scale and an offset for training.

    Raises:
      ValueError: The layout is another, or arguments exclude one another.
    """
    if batch_weights is not None and (fused or renorm or adjustment is not None):
        raise ValueError(
            "batch_weights cannot be combined with fused, renorm or adjustment in batch_norm."
        )
    if renorm and zero_debias_moving_mean:
        raise ValueError("renorm is not supported with zero_debias_moving_mean=True.")
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    simple = batch_weights is None and not renorm and adjustment is None
    if fused is not False and simple and rank in (2, 4):
        with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
            parameters = _Parameters(
                inputs, data_format, center, scale, param_initializers, param_regularizers,
                variables_collections, trainable,
            )  # fmt: skip
            outputs = _fused(
                inputs, parameters, decay, epsilon, is_training, updates_collections, data_format,
                zero_debias_moving_mean,
            )  # fmt: skip
            if activation_fn is not None:
                outputs = activation_fn(outputs)
            return utils.collect_named_outputs(outputs_collections, sc.name, outputs)
    with tf.variable_scope(
        scope, "BatchNorm", [inputs], reuse=reuse, custom_getter=variable_getter()
    ) as sc:
        by_core = (
            batch_weights is None
            and updates_collections is tf.GraphKeys.UPDATE_OPS
            and not zero_debias_moving_mean
        )
        if by_core:
            outputs = _core(
                inputs, sc, decay, center, scale, epsilon, param_initializers,
                param_regularizers, is_training, variables_collections, trainable, fused,
                data_format, renorm, renorm_clipping, renorm_decay, adjustment, reuse,
            )  # fmt: skip
        else:
            if renorm or adjustment is not None:
                raise ValueError(
                    "renorm and adjustment are only supported with the default updates_collections."
                )
            parameters = _Parameters(
                inputs, data_format, center, scale, param_initializers, param_regularizers,
                variables_collections, trainable,
            )  # fmt: skip
            outputs = _weighted(
                inputs, parameters, decay, epsilon, is_training, updates_collections, data_format,
                batch_weights, zero_debias_moving_mean,
            )  # fmt: skip
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return utils.collect_named_outputs(outputs_collections, sc.name, outputs)


def _core(
    inputs: Any, sc: Any, decay: Any, center: bool, scale: bool, epsilon: float,
    initializers: Any, regularizers: Any, is_training: Any, variables_collections: Any,
    trainable: bool, fused: Any, data_format: str, renorm: bool, renorm_clipping: Any,
    renorm_decay: float, adjustment: Any, reuse: Any,
) -> Any:  # fmt: skip
    initializers, regularizers = initializers or {}, regularizers or {}
    layer = core_layers.BatchNormalization(
        axis=1 if data_format == "NCHW" else -1,
        momentum=decay,
        epsilon=epsilon,
        center=center,
        scale=scale,
        beta_initializer=initializers.get("beta", tf.zeros_initializer()),
        gamma_initializer=initializers.get("gamma", tf.ones_initializer()),
        moving_mean_initializer=initializers.get("moving_mean", tf.zeros_initializer()),
        moving_variance_initializer=initializers.get("moving_variance", tf.ones_initializer()),
        beta_regularizer=regularizers.get("beta"),
        gamma_regularizer=regularizers.get("gamma"),
        trainable=trainable,
        renorm=renorm,
        renorm_clipping=renorm_clipping,
        renorm_momentum=renorm_decay,
        adjustment=adjustment,
        name=sc.name,
        _scope=sc,
        _reuse=reuse,
        fused=fused,
    )
    outputs = layer.apply(inputs, training=is_training)
    for name in ("moving_mean", "moving_variance", "beta", "gamma"):
        variable = getattr(layer, name)
        if variable is not None:
            collect(variable, variables_collections, name)
    return outputs


class _Parameters:
    """Beta, gamma and the averages, as model variables of the current scope."""

    def __init__(
        self, inputs: Any, data_format: str, center: bool, scale: bool, initializers: Any,
        regularizers: Any, variables_collections: Any, trainable: bool,
    ) -> None:  # fmt: skip
        initializers, regularizers = initializers or {}, regularizers or {}
        sizes = inputs.shape.as_list()
        self.channels = sizes[1 if data_format == "NCHW" else -1]
        if self.channels is None:
            raise ValueError(f"Inputs {inputs.name} has undefined `C` dimension {inputs.shape}.")
        self.kind = tf.float32 if inputs.dtype == tf.float16 else inputs.dtype.base_dtype

        def make(name: str, default: Any, trained: bool) -> Any:
            return model_variable(
                name,
                shape=[self.channels],
                dtype=self.kind,
                initializer=initializers.get(name, default),
                regularizer=regularizers.get(name) if trained else None,
                collections=utils.get_variable_collections(variables_collections, name),
                trainable=trained and trainable,
            )

        self.beta = make("beta", tf.zeros_initializer(), True) if center else None
        self.gamma = make("gamma", tf.ones_initializer(), True) if scale else None
        # The averages are never cut into parts.
        scope = tf.get_variable_scope()
        partitioner = scope.partitioner
        scope.set_partitioner(None)
        try:
            self.moving_mean = make("moving_mean", tf.zeros_initializer(), False)
            self.moving_variance = make("moving_variance", tf.ones_initializer(), False)
        finally:
            scope.set_partitioner(partitioner)

    def constant(self, value: float) -> Any:
        """A vector of one value."""
        return tf.constant(value, dtype=self.kind, shape=[self.channels])


def _fused(
    inputs: Any, parameters: _Parameters, decay: Any, epsilon: float, is_training: Any,
    updates_collections: Any, data_format: str, zero_debias: bool,
) -> Any:  # fmt: skip
    original = inputs.shape
    if original.ndims == 2:
        wide = [-1, 1, 1, parameters.channels]
        if data_format == "NCHW":
            wide = [-1, parameters.channels, 1, 1]
        shape = tf.shape(inputs)
        inputs = tf.reshape(inputs, wide)
    beta = parameters.constant(0.0) if parameters.beta is None else parameters.beta
    gamma = parameters.constant(1.0) if parameters.gamma is None else parameters.gamma

    def in_training() -> Any:
        return tf.nn.fused_batch_norm(inputs, gamma, beta, epsilon=epsilon, data_format=data_format)

    def in_inference() -> Any:
        return tf.nn.fused_batch_norm(
            inputs,
            gamma,
            beta,
            mean=parameters.moving_mean,
            variance=parameters.moving_variance,
            epsilon=epsilon,
            is_training=False,
            data_format=data_format,
        )

    outputs, mean, variance = utils.smart_cond(is_training, in_training, in_inference)
    outputs = _with_updates(
        outputs, mean, variance, parameters, decay, is_training, updates_collections, zero_debias
    )
    outputs.set_shape(inputs.shape)
    if original.ndims == 2:
        outputs = tf.reshape(outputs, shape)
    outputs.set_shape(original)
    return outputs


def _weighted(
    inputs: Any, parameters: _Parameters, decay: Any, epsilon: float, is_training: Any,
    updates_collections: Any, data_format: str, batch_weights: Any, zero_debias: bool,
) -> Any:  # fmt: skip
    rank = inputs.shape.ndims
    channel_axis = 1 if data_format == "NCHW" else rank - 1
    axes = [axis for axis in range(rank) if axis != channel_axis]
    wide = [1] * rank
    wide[channel_axis] = parameters.channels

    def moments() -> Any:
        if batch_weights is None:
            return tf.nn.moments(inputs, axes)
        weights = tf.convert_to_tensor(batch_weights)
        weights = tf.reshape(weights, [-1] + [1] * (rank - 1))
        return tf.nn.weighted_moments(inputs, axes, weights)

    known = utils.constant_value(is_training)
    if known is False:
        mean, variance = parameters.moving_mean, parameters.moving_variance
    else:
        batch_mean, batch_variance = moments()
        mean, variance = utils.smart_cond(
            is_training,
            lambda: (batch_mean, batch_variance),
            lambda: (
                tf.identity(parameters.moving_mean),
                tf.identity(parameters.moving_variance),
            ),
        )

    def broadcast(value: Any) -> Any:
        if value is None or data_format != "NCHW":
            return value
        return tf.reshape(value, wide)

    outputs = tf.nn.batch_normalization(
        inputs,
        broadcast(mean),
        broadcast(variance),
        broadcast(parameters.beta),
        broadcast(parameters.gamma),
        epsilon,
    )
    outputs = _with_updates(
        outputs, mean, variance, parameters, decay, is_training, updates_collections, zero_debias
    )
    outputs.set_shape(inputs.shape)
    return outputs


def _with_updates(
    outputs: Any, mean: Any, variance: Any, parameters: _Parameters, decay: Any,
    is_training: Any, updates_collections: Any, zero_debias: bool,
) -> Any:  # fmt: skip
    """Moves the averages: before the outputs, or by operations in the collections."""
    if utils.constant_value(is_training) is False:
        return outputs

    averages = [
        (parameters.moving_mean, mean, zero_debias),
        (parameters.moving_variance, variance, False),
    ]

    def moved() -> list[Any]:
        return [
            assign_moving_average(average, value, decay, zero_debias=debias)
            for average, value, debias in averages
        ]

    if updates_collections is None:

        def forced() -> Any:
            with tf.control_dependencies(moved()):
                return tf.identity(outputs)

        return utils.smart_cond(is_training, forced, lambda: tf.identity(outputs))
    updates = utils.smart_cond(
        is_training,
        lambda: (
            [tf.identity(update) for update in moved()]
            if utils.constant_value(is_training) is None
            else moved()
        ),
        lambda: [tf.identity(average) for average, _, _ in averages],
    )
    for update in updates:
        tf.add_to_collections(updates_collections, update)
    return outputs
