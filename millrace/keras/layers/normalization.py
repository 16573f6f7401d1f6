"""Batch normalization: fused, by hand, renormalized, in virtual batches.

Training uses the moments of the batch and moves the averages towards them; the operations that
do so are the layer's updates. Inference uses the averages.
"""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras import constraints, initializers, regularizers
from millrace.keras.engine import state
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.input_spec import InputSpec
from millrace.keras.engine.naming import constant_value, smart_cond
from millrace.ops.state.variable_changes import assign, assign_sub


class BatchNormalization(Layer):
    """``gamma·(x − mean)/√(variance + epsilon) + beta``, with the moments of each channel."""

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: dict[str, Any] | None = None,
        renorm_momentum: float = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, trainable=trainable, **kwargs)
        if isinstance(axis, list | tuple):
            self.axis: Any = list(axis)
        elif isinstance(axis, int):
            self.axis = axis
        else:
            raise TypeError(f"axis must be int or list, type given: {type(axis)}")
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = initializers.get(beta_initializer)
        self.gamma_initializer = initializers.get(gamma_initializer)
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)
        self.beta_regularizer = regularizers.get(beta_regularizer)
        self.gamma_regularizer = regularizers.get(gamma_regularizer)
        self.beta_constraint = constraints.get(beta_constraint)
        self.gamma_constraint = constraints.get(gamma_constraint)
        self.renorm = renorm
        self.virtual_batch_size = virtual_batch_size
        self.adjustment = adjustment
        self.supports_masking = True
        self.fused = True if fused is None else fused
        if renorm:
            clipping = renorm_clipping or {}
            unknown = set(clipping) - {"rmax", "rmin", "dmax"}
            if unknown:
                raise ValueError(
                    f"renorm_clipping {clipping} contains keys not in rmax, rmin, dmax"
                )
            self.renorm_clipping = clipping
            self.renorm_momentum = renorm_momentum

    # -- Variables ----------------------------------------------------------------------------

    def build(self, input_shape: Any) -> None:
        """Makes gamma, beta and the averages.

        Raises:
          ValueError: The rank or the size of an axis is not known, or an axis does not exist.
        """
        shape = tf.TensorShape(input_shape)
        if shape.ndims is None:
            raise ValueError("Input has undefined rank:", shape)
        rank = shape.ndims
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        for i, axis in enumerate(axes):
            if not -rank <= axis < rank:
                raise ValueError(f"Invalid axis: {axis}")
            axes[i] = axis % rank
        if len(axes) != len(set(axes)):
            raise ValueError(f"Duplicate axis: {axes}")
        self.axis = axes
        self._check_virtual_batches()
        self.fused = bool(self.fused) and rank == 4 and self._fused_can_be_used()
        sizes = {axis: shape.as_list()[axis] for axis in axes}
        if None in sizes.values():
            raise ValueError("Input has undefined `axis` dimension. Input shape: ", shape)
        self.input_spec = InputSpec(ndim=rank, axes=sizes)
        if len(sizes) == 1 and self.virtual_batch_size is None:
            param_shape = [next(iter(sizes.values()))]
        else:
            param_shape = [sizes.get(i, 1) for i in range(rank)]
            if self.virtual_batch_size is not None:
                param_shape.insert(1, 1)
                self.axis = [axis + 1 for axis in self.axis]
        self._param_shape = param_shape
        self._make_variables(param_shape)
        self.built = True

    def _check_virtual_batches(self) -> None:
        if self.virtual_batch_size is None:
            return
        if self.virtual_batch_size <= 0:
            raise ValueError(
                "virtual_batch_size must be a positive integer that divides the true batch size "
                "of the input Tensor"
            )
        if 0 in self.axis:
            raise ValueError(
                "When using virtual_batch_size, the batch dimension must be 0 and thus axis "
                "cannot include 0"
            )
        if self.adjustment is not None:
            raise ValueError("When using virtual_batch_size, adjustment cannot be specified")

    def _fused_can_be_used(self) -> bool:
        return (
            not self.renorm
            and self.axis in ([1], [3])
            and self.virtual_batch_size is None
            and self.adjustment is None
        )

    @property
    def _param_dtype(self) -> Any:
        if self.dtype in ("float16", "bfloat16"):
            return tf.float32
        return self.dtype or state.floatx()

    def _make_variables(self, shape: Any) -> None:
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                name="gamma",
                shape=shape,
                dtype=self._param_dtype,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
                trainable=True,
            )
        if self.center:
            self.beta = self.add_weight(
                name="beta",
                shape=shape,
                dtype=self._param_dtype,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
                trainable=True,
            )
        # The averages are never cut into parts.
        scope = getattr(self, "_scope", None)
        partitioner = None if scope is None else scope.partitioner
        if scope is not None:
            scope.set_partitioner(None)
        try:
            self.moving_mean = self._average("moving_mean", self.moving_mean_initializer)
            self.moving_variance = self._average(
                "moving_variance", self.moving_variance_initializer
            )
            if self.renorm:
                self._make_renorm_variables()
        finally:
            if scope is not None:
                scope.set_partitioner(partitioner)

    def _average(self, name: str, initializer: Any) -> Any:
        return self.add_weight(
            name=name,
            shape=self._param_shape,
            dtype=self._param_dtype,
            initializer=initializer,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.MEAN,
            trainable=False,
        )

    def _make_renorm_variables(self) -> None:
        def root(initializer: Any) -> Any:
            return lambda shape, dtype=None, **_: tf.sqrt(initializer(shape, dtype=dtype))

        with tf.colocate_with(self.moving_variance):
            self.moving_stddev = self._average(
                "moving_stddev", root(self.moving_variance_initializer)
            )
        with tf.colocate_with(self.moving_mean):
            self.renorm_mean = self._average("renorm_mean", self.moving_mean_initializer)
        with tf.colocate_with(self.moving_stddev):
            self.renorm_stddev = self._average(
                "renorm_stddev", root(self.moving_variance_initializer)
            )

    # -- The computation -----------------------------------------------------------------------

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The normalized inputs."""
        training = self._training(training)
        original_shape = None
        if self.virtual_batch_size is not None:
            original_shape = tf.concat([[-1], tf.shape(inputs)[1:]], axis=0)
            inputs = tf.reshape(
                inputs,
                tf.concat([[self.virtual_batch_size, -1], tf.shape(inputs)[1:]], axis=0),
            )
        if self.fused:
            return self._fused(inputs, training)
        outputs = self._by_hand(inputs, training)
        if original_shape is not None:
            outputs = tf.reshape(outputs, original_shape)
        return outputs

    def _training(self, training: Any) -> Any:
        if training is None:
            training = state.learning_phase()
        return training

    def _fused(self, inputs: Any, training: Any) -> Any:
        beta = self.beta if self.center else tf.constant(
            0.0, dtype=self._param_dtype, shape=self._param_shape
        )  # fmt: skip
        gamma = self.gamma if self.scale else tf.constant(
            1.0, dtype=self._param_dtype, shape=self._param_shape
        )  # fmt: skip
        layout = "NCHW" if self.axis == [1] else "NHWC"

        def in_training() -> Any:
            return tf.nn.fused_batch_norm(
                inputs, gamma, beta, epsilon=self.epsilon, data_format=layout
            )

        def in_inference() -> Any:
            return tf.nn.fused_batch_norm(
                inputs,
                gamma,
                beta,
                mean=self.moving_mean,
                variance=self.moving_variance,
                epsilon=self.epsilon,
                is_training=False,
                data_format=layout,
            )

        output, mean, variance = smart_cond(training, in_training, in_inference)
        known = constant_value(training)
        if known is False:
            return output
        if known is None:
            momentum = smart_cond(
                training, lambda: tf.constant(self.momentum), lambda: tf.constant(1.0)
            )
        else:
            momentum = tf.convert_to_tensor(self.momentum)
        self.add_update(lambda: self._move_average(self.moving_mean, mean, momentum), inputs=True)
        self.add_update(
            lambda: self._move_average(self.moving_variance, variance, momentum), inputs=True
        )
        return output

    def _move_average(self, variable: Any, value: Any, momentum: Any) -> Any:
        with (
            tf.name_scope("AssignMovingAvg", values=[variable, value]) as scope,
            tf.colocate_with(variable),
        ):
            kind = variable.dtype.base_dtype
            decay = tf.convert_to_tensor(1.0 - momentum, name="decay")
            if decay.dtype.base_dtype != kind:
                decay = tf.cast(decay, kind)
            delta = (variable - tf.cast(value, kind)) * decay
            return assign_sub(variable, delta, name=scope)

    def _by_hand(self, inputs: Any, training: Any) -> Any:
        kind = inputs.dtype.base_dtype
        if kind in (tf.float16, tf.bfloat16):
            # The variance of 16-bit values overflows soon.
            inputs = tf.cast(inputs, tf.float32)
        shape = inputs.shape
        rank = shape.ndims
        axes = [i for i in range(rank) if i not in self.axis]
        if self.virtual_batch_size is not None:
            del axes[1]
        wide = [1] * rank
        wide[self.axis[0]] = shape.as_list()[self.axis[0]]

        def broadcast(value: Any) -> Any:
            if value is None or value.shape.ndims == rank or axes == list(range(rank - 1)):
                return value
            return tf.reshape(value, wide)

        scale, offset = broadcast(self.gamma), broadcast(self.beta)
        known = constant_value(training)
        if known is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            scale, offset = self._adjusted(inputs, training, scale, offset)
            keep = self.virtual_batch_size is not None or len(self.axis) > 1
            mean, variance = tf.nn.moments(inputs, axes, keep_dims=keep)
            batch_mean, batch_variance = mean, variance
            mean = smart_cond(
                training, lambda: batch_mean, lambda: tf.convert_to_tensor(self.moving_mean)
            )
            variance = smart_cond(
                training, lambda: batch_variance, lambda: tf.convert_to_tensor(self.moving_variance)
            )
            new_mean, new_variance = mean, variance
            if self.virtual_batch_size is not None:
                new_mean = tf.reduce_mean(mean, axis=1, keepdims=True)
                new_variance = tf.reduce_mean(variance, axis=1, keepdims=True)
            if self.renorm:
                r, d, new_mean, new_variance = self._renormalize(new_mean, new_variance, training)
                r = broadcast(tf.stop_gradient(r, name="renorm_r"))
                d = broadcast(tf.stop_gradient(d, name="renorm_d"))
                scale, offset = _composed(r, d, scale, offset)
            self._update_averages(new_mean, new_variance, training)
        outputs = tf.nn.batch_normalization(
            inputs,
            broadcast(tf.cast(mean, inputs.dtype)),
            broadcast(tf.cast(variance, inputs.dtype)),
            None if offset is None else tf.cast(offset, inputs.dtype),
            None if scale is None else tf.cast(scale, inputs.dtype),
            self.epsilon,
        )
        outputs = tf.cast(outputs, kind)
        outputs.set_shape(shape)
        return outputs

    def _adjusted(self, inputs: Any, training: Any, scale: Any, offset: Any) -> tuple[Any, Any]:
        if not self.adjustment:
            return scale, offset
        by, to = self.adjustment(tf.shape(inputs))
        by = smart_cond(training, lambda: by, lambda: tf.ones_like(by))
        to = smart_cond(training, lambda: to, lambda: tf.zeros_like(to))
        return _composed(by, to, scale, offset)

    def _renormalize(self, mean: Any, variance: Any, training: Any) -> tuple[Any, Any, Any, Any]:
        """The corrections r and d of batch renormalization (Ioffe, 2017), and the moments."""
        stddev = tf.sqrt(variance + self.epsilon)
        known_mean = self.renorm_mean
        known_stddev = tf.maximum(self.renorm_stddev, tf.sqrt(tf.constant(self.epsilon)))
        r = stddev / known_stddev
        d = (mean - known_mean) / known_stddev
        # The corrections are those of the averages before this step moves them.
        with tf.control_dependencies([r, d]):
            mean, stddev = tf.identity(mean), tf.identity(stddev)
        if self.renorm_clipping.get("rmin") is not None:
            r = tf.maximum(r, self.renorm_clipping["rmin"])
        if self.renorm_clipping.get("rmax") is not None:
            r = tf.minimum(r, self.renorm_clipping["rmax"])
        if self.renorm_clipping.get("dmax") is not None:
            limit = self.renorm_clipping["dmax"]
            d = tf.minimum(tf.maximum(d, -limit), limit)
        clipped_r, clipped_d = r, d
        r = smart_cond(training, lambda: clipped_r, lambda: tf.ones_like(clipped_r))
        d = smart_cond(training, lambda: clipped_d, lambda: tf.zeros_like(clipped_d))

        def moved(variable: Any, value: Any) -> Any:
            value = tf.identity(value)
            return smart_cond(
                training,
                lambda: tf.identity(self._move_average(variable, value, self.renorm_momentum)),
                lambda: tf.identity(variable),
            )

        updates = [moved(self.renorm_mean, mean), moved(self.renorm_stddev, stddev)]
        with tf.control_dependencies(updates):
            return r, d, tf.identity(mean), tf.identity(variance)

    def _update_averages(self, mean: Any, variance: Any, training: Any) -> None:
        def of_mean() -> Any:
            return smart_cond(
                training,
                lambda: self._move_average(self.moving_mean, mean, self.momentum),
                lambda: tf.identity(self.moving_mean),
            )

        def moved_variance() -> Any:
            if not self.renorm:
                return self._move_average(self.moving_variance, variance, self.momentum)
            stddev = self._move_average(
                self.moving_stddev, tf.sqrt(variance + self.epsilon), self.momentum
            )
            with tf.name_scope("AssignNewValue") as scope, tf.colocate_with(self.moving_variance):
                squared = tf.nn.relu(stddev * stddev - self.epsilon)
                return assign(self.moving_variance, squared, name=scope)

        def of_variance() -> Any:
            return smart_cond(training, moved_variance, lambda: tf.identity(self.moving_variance))

        self.add_update(of_mean, inputs=True)
        self.add_update(of_variance, inputs=True)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The input's."""
        return tf.TensorShape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = {
            "axis": self.axis,
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "center": self.center,
            "scale": self.scale,
            "beta_initializer": initializers.serialize(self.beta_initializer),
            "gamma_initializer": initializers.serialize(self.gamma_initializer),
            "moving_mean_initializer": initializers.serialize(self.moving_mean_initializer),
            "moving_variance_initializer": initializers.serialize(self.moving_variance_initializer),
            "beta_regularizer": regularizers.serialize(self.beta_regularizer),
            "gamma_regularizer": regularizers.serialize(self.gamma_regularizer),
            "beta_constraint": constraints.serialize(self.beta_constraint),
            "gamma_constraint": constraints.serialize(self.gamma_constraint),
        }
        if self.renorm:
            config["renorm"] = True
            config["renorm_clipping"] = self.renorm_clipping
            config["renorm_momentum"] = self.renorm_momentum
        if self.virtual_batch_size is not None:
            config["virtual_batch_size"] = self.virtual_batch_size
        return {**super().get_config(), **config}


def _composed(scale: Any, offset: Any, then_scale: Any, then_offset: Any) -> tuple[Any, Any]:
    """One scale and offset that do what two after each other do."""
    if then_scale is not None:
        scale, offset = scale * then_scale, offset * then_scale
    if then_offset is not None:
        offset = offset + then_offset
    return scale, offset
