"""Dense, Dropout, Flatten and other layers that networks of every kind use."""

from __future__ import annotations

import math
from typing import Any

import millrace as tf
from millrace.keras import activations, constraints, initializers, regularizers, serialization
from millrace.keras.engine import state
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.input_spec import InputSpec
from millrace.keras.engine.naming import smart_cond


class Dense(Layer):
    """``activation(inputs · kernel + bias)`` over the last axis."""

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=regularizers.get(activity_regularizer), **kwargs)
        self.units = int(units)
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.supports_masking = True
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias.

        Raises:
          ValueError: The size of the last axis is not known.
        """
        kind = tf.as_dtype(self.dtype or state.floatx())
        if not (kind.is_floating or kind.is_complex):
            raise TypeError(f"Unable to build `Dense` layer with non-floating point dtype {kind}")
        depth = tf.TensorShape(input_shape).as_list()[-1]
        if depth is None:
            raise ValueError(
                "The last dimension of the inputs to `Dense` should be defined. Found `None`."
            )
        self.input_spec = InputSpec(min_ndim=2, axes={-1: depth})
        self.kernel = self.add_weight(
            "kernel",
            shape=[depth, self.units],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            dtype=self.dtype,
            trainable=True,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                shape=[self.units],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                dtype=self.dtype,
                trainable=True,
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The product."""
        if isinstance(inputs, tf.SparseTensor):
            outputs = tf.sparse_tensor_dense_matmul(inputs, self.kernel)
        elif inputs.shape.ndims is not None and inputs.shape.ndims > 2:
            outputs = tf.tensordot(inputs, self.kernel, [[inputs.shape.ndims - 1], [0]])
            outputs.set_shape(self.compute_output_shape(inputs.shape))
        else:
            kind = tf.as_dtype(self.dtype or inputs.dtype)
            if inputs.dtype.base_dtype != kind.base_dtype:
                inputs = tf.cast(inputs, kind)
            outputs = tf.matmul(inputs, self.kernel)
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The input's with `units` last."""
        shape = tf.TensorShape(input_shape).with_rank_at_least(2)
        if shape.as_list()[-1] is None:
            raise ValueError(
                f"The innermost dimension of input_shape must be defined, but saw: {input_shape}"
            )
        return shape[:-1].concatenate(self.units)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = {
            "units": self.units,
            "activation": activations.serialize(self.activation) if self.activation else None,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": regularizers.serialize(self.activity_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "bias_constraint": constraints.serialize(self.bias_constraint),
        }
        return {**super().get_config(), **config}


class Dropout(Layer):
    """Sets a part of the inputs to 0 in training, and scales the others up."""

    def __init__(
        self, rate: Any, noise_shape: Any = None, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed
        self.supports_masking = True

    def _get_noise_shape(self, inputs: Any) -> Any:
        if self.noise_shape is None or isinstance(self.noise_shape, tf.Tensor):
            return self.noise_shape
        shape = tf.shape(inputs)
        return [shape[i] if size is None else size for i, size in enumerate(self.noise_shape)]

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, in training with a part dropped."""
        if training is None:
            training = state.learning_phase()

        def dropped() -> Any:
            return tf.nn.dropout(
                inputs,
                noise_shape=self._get_noise_shape(inputs),
                seed=self.seed,
                rate=self.rate,
            )

        return smart_cond(training, dropped, lambda: tf.identity(inputs))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The input's."""
        return tf.TensorShape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = {"rate": self.rate, "noise_shape": self.noise_shape, "seed": self.seed}
        return {**super().get_config(), **config}


class SpatialDropout1D(Dropout):
    """Drops whole channels of [batch, time, channels]."""

    def __init__(self, rate: Any, **kwargs: Any) -> None:
        super().__init__(rate, **kwargs)
        self.input_spec = InputSpec(ndim=3)

    def _get_noise_shape(self, inputs: Any) -> Any:
        shape = tf.shape(inputs)
        return (shape[0], 1, shape[2])


class SpatialDropout2D(Dropout):
    """Drops whole channels of images."""

    def __init__(self, rate: Any, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(rate, **kwargs)
        self.data_format = data_format or state.image_data_format()
        self.input_spec = InputSpec(ndim=4)

    def _get_noise_shape(self, inputs: Any) -> Any:
        shape = tf.shape(inputs)
        if self.data_format == "channels_first":
            return (shape[0], shape[1], 1, 1)
        return (shape[0], 1, 1, shape[3])


class Activation(Layer):
    """A function of the inputs."""

    def __init__(self, activation: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.activation = activations.get(activation)

    def call(self, inputs: Any) -> Any:
        """The function."""
        return self.activation(inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The input's."""
        return tf.TensorShape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "activation": activations.serialize(self.activation)}


class Flatten(Layer):
    """All axes but the first become one."""

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = _data_format(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:
        """The inputs in two dimensions."""
        rank = inputs.shape.ndims
        if self.data_format == "channels_first" and rank is not None and rank > 2:
            inputs = tf.transpose(inputs, [0, *range(2, rank), 1])
        if rank is not None and rank <= 1:
            return tf.expand_dims(inputs, axis=-1)
        sizes = inputs.shape.as_list()
        batch, rest = sizes[0], sizes[1:]
        if None not in rest:
            shape: Any = [-1 if batch is None else batch, math.prod(rest)]
        else:
            shape = (batch if batch is not None else tf.shape(inputs)[0], -1)
        outputs = tf.reshape(inputs, shape)
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[batch, product of the others]."""
        sizes = tf.TensorShape(input_shape).as_list()
        if not sizes:
            return tf.TensorShape([1])
        return tf.TensorShape([sizes[0], None if None in sizes[1:] else math.prod(sizes[1:])])

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "data_format": self.data_format}


class Reshape(Layer):
    """Another shape, without the batch; one size may be -1."""

    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The batch and the target."""
        sizes: list[Any] = tf.TensorShape(input_shape).as_list()
        target = list(self.target_shape)
        if -1 in target and None not in sizes[1:]:
            known = math.prod(size for size in target if size != -1)
            total = math.prod(sizes[1:])
            if known == 0 or total % known:
                raise ValueError(
                    f"total size of new array must be unchanged, input_shape = {sizes[1:]}, "
                    f"output_shape = {target}"
                )
            target[target.index(-1)] = total // known
        return tf.TensorShape([sizes[0], *(None if size == -1 else size for size in target)])

    def call(self, inputs: Any) -> Any:
        """The inputs, reshaped."""
        outputs = tf.reshape(inputs, (tf.shape(inputs)[0], *self.target_shape))
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return outputs

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "target_shape": self.target_shape}


class Permute(Layer):
    """Axes in another order; they count from 1, without the batch."""

    def __init__(self, dims: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(
                f"Invalid permutation `dims` for Permute Layer: {dims}. The set of indices in "
                "`dims` must be consecutive and start from 1."
            )
        self.input_spec = InputSpec(ndim=len(self.dims) + 1)

    def call(self, inputs: Any) -> Any:
        """The inputs, transposed."""
        return tf.transpose(inputs, perm=(0, *self.dims))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The sizes in their new order."""
        sizes = tf.TensorShape(input_shape).as_list()
        return tf.TensorShape([sizes[0], *(sizes[d] for d in self.dims)])

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "dims": self.dims}


class RepeatVector(Layer):
    """[batch, features] → [batch, n, features]."""

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n = n
        self.input_spec = InputSpec(ndim=2)

    def call(self, inputs: Any) -> Any:
        """The inputs, repeated."""
        return tf.tile(tf.expand_dims(inputs, 1), [1, self.n, 1])

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "n": self.n}


class Lambda(Layer):
    """A function as a layer."""

    def __init__(
        self,
        function: Any,
        output_shape: Any = None,
        mask: Any = None,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.function = function
        self.arguments = arguments or {}
        self._output_shape = output_shape
        self._mask = mask
        self.supports_masking = mask is not None

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        """The function, with `mask` and `training` if it takes them."""
        from_call = {"mask": mask, "training": training}
        names = self.function.__code__.co_varnames if hasattr(self.function, "__code__") else ()
        given = {name: value for name, value in from_call.items() if name in names}
        return self.function(inputs, **self.arguments, **given)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask that it was given, or the function of it."""
        return self._mask(inputs, mask) if callable(self._mask) else self._mask

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with; the function by its name."""
        config = {
            "function": serialization.get_registered_name(self.function),
            "arguments": self.arguments,
            "output_shape": self._output_shape,
        }
        return {**super().get_config(), **config}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Any:
        """The layer again; its function is looked up among the custom objects."""
        config = dict(config)
        if isinstance(config["function"], str):
            config["function"] = serialization.deserialize_keras_object(
                config["function"], None, custom_objects, "function in Lambda layer"
            )
        return cls(**config)


class Masking(Layer):
    """Masks time steps whose features all equal a value."""

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.mask_value = mask_value

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """True where a step counts."""
        return tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1)

    def call(self, inputs: Any) -> Any:
        """The inputs, with zeros where masked."""
        keep = tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        outputs = inputs * tf.cast(keep, inputs.dtype)
        outputs._keras_mask = tf.squeeze(keep, axis=-1)
        return outputs

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "mask_value": self.mask_value}


class ActivityRegularization(Layer):
    """The inputs, with a loss of their size."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=regularizers.L1L2(l1=l1, l2=l2), **kwargs)
        self.supports_masking = True
        self.l1 = l1
        self.l2 = l2

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "l1": self.l1, "l2": self.l2}


def _data_format(value: str | None) -> str:
    """The layout of images, checked.

    Raises:
      ValueError: It is neither channels_first nor channels_last.
    """
    chosen = (value or state.image_data_format()).lower()
    if chosen not in ("channels_first", "channels_last"):
        raise ValueError(
            'The `data_format` argument must be one of "channels_first", "channels_last". '
            f"Received: {value}"
        )
    return chosen
