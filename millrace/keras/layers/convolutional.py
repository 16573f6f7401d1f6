"""Convolutions of one, two and three dimensions, separable and depthwise ones."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras import activations, constraints, initializers, regularizers
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.input_spec import InputSpec
from millrace.keras.layers.arguments import (
    conv_output_length,
    normalize_data_format,
    normalize_padding,
    normalize_tuple,
    tf_data_format,
)


class Conv(Layer):
    """A convolution over `rank` axes: ``activation(inputs ∗ kernel + bias)``."""

    def __init__(
        self,
        rank: int,
        filters: int | None,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            trainable=trainable,
            name=name,
            activity_regularizer=regularizers.get(activity_regularizer),
            **kwargs,
        )
        self.rank = rank
        self.filters = None if filters is None else int(filters)
        self.kernel_size = normalize_tuple(kernel_size, rank, "kernel_size")
        self.strides = normalize_tuple(strides, rank, "strides")
        self.padding = normalize_padding(padding)
        if self.padding == "causal" and rank != 1:
            raise ValueError(
                "Causal padding is only supported for `Conv1D` and ``SeparableConv1D`."
            )
        self.data_format = normalize_data_format(data_format)
        self.dilation_rate = normalize_tuple(dilation_rate, rank, "dilation_rate")
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.input_spec = InputSpec(ndim=rank + 2)

    @property
    def _channel_axis(self) -> int:
        return 1 if self.data_format == "channels_first" else -1

    def _input_channels(self, input_shape: Any) -> int:
        channels = tf.TensorShape(input_shape).as_list()[self._channel_axis]
        if channels is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={self._channel_axis: channels})
        return int(channels)

    def _add_bias(self) -> Any:
        if not self.use_bias:
            return None
        return self.add_weight(
            name="bias",
            shape=(self.filters,),
            initializer=self.bias_initializer,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
            trainable=True,
            dtype=self.dtype,
        )

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias."""
        channels = self._input_channels(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*self.kernel_size, channels, self.filters),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self.bias = self._add_bias()
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The convolution."""
        return self._finish(self._convolve(self._padded(inputs)))

    def _padded(self, inputs: Any) -> Any:
        if self.padding != "causal":
            return inputs
        left = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        if self.data_format == "channels_last":
            return tf.pad(inputs, [[0, 0], [left, 0], [0, 0]])
        return tf.pad(inputs, [[0, 0], [0, 0], [left, 0]])

    @property
    def _op_padding(self) -> str:
        return "VALID" if self.padding == "causal" else self.padding.upper()

    def _convolve(self, inputs: Any) -> Any:
        layout = tf_data_format(self.data_format, self.rank + 2)
        if any(rate > 1 for rate in self.dilation_rate):
            return tf.nn.convolution(
                inputs,
                self.kernel,
                padding=self._op_padding,
                strides=self.strides,
                dilation_rate=self.dilation_rate,
                data_format=layout,
            )
        if self.rank == 1:
            return tf.nn.conv1d(
                inputs,
                self.kernel,
                stride=self.strides[0],
                padding=self._op_padding,
                data_format=layout,
            )
        strides = _whole(self.strides, self.data_format)
        convolve = tf.nn.conv2d if self.rank == 2 else tf.nn.conv3d
        return convolve(
            inputs, self.kernel, strides=strides, padding=self._op_padding, data_format=layout
        )

    def _finish(self, outputs: Any) -> Any:
        """Adds the bias and applies the activation."""
        if self.use_bias:
            if self.data_format == "channels_last":
                outputs = tf.nn.bias_add(outputs, self.bias, data_format="NHWC")
            elif self.rank == 2:
                outputs = tf.nn.bias_add(outputs, self.bias, data_format="NCHW")
            else:
                outputs = outputs + tf.reshape(self.bias, [1, self.filters] + [1] * self.rank)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output."""
        sizes = tf.TensorShape(input_shape).as_list()
        space = sizes[1:-1] if self.data_format == "channels_last" else sizes[2:]
        new = [
            conv_output_length(*each)
            for each in zip(
                space,
                self.kernel_size,
                [self.padding] * self.rank,
                self.strides,
                self.dilation_rate,
                strict=True,
            )
        ]
        if self.data_format == "channels_last":
            return tf.TensorShape([sizes[0], *new, self.filters])
        return tf.TensorShape([sizes[0], self.filters, *new])

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = {
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "strides": self.strides,
            "padding": self.padding,
            "data_format": self.data_format,
            "dilation_rate": self.dilation_rate,
            "activation": activations.serialize(self.activation),
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


class Conv1D(Conv):
    """Over time: [batch, time, channels]."""

    def __init__(
        self,
        filters: int | None,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = "channels_last",
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            1, filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
            use_bias, **kwargs,
        )  # fmt: skip


class Conv2D(Conv):
    """Over images: [batch, height, width, channels]."""

    def __init__(
        self,
        filters: int | None,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            2, filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
            use_bias, **kwargs,
        )  # fmt: skip


class Conv3D(Conv):
    """Over volumes: [batch, depth, height, width, channels]."""

    def __init__(
        self,
        filters: int | None,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1, 1),
        activation: Any = None,
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            3, filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
            use_bias, **kwargs,
        )  # fmt: skip


class SeparableConv(Conv):
    """A convolution of each channel, then one of size 1 across channels."""

    def __init__(
        self,
        rank: int,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            rank, filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
            use_bias, bias_initializer=bias_initializer, bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer, bias_constraint=bias_constraint, **kwargs,
        )  # fmt: skip
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.pointwise_initializer = initializers.get(pointwise_initializer)
        self.depthwise_regularizer = regularizers.get(depthwise_regularizer)
        self.pointwise_regularizer = regularizers.get(pointwise_regularizer)
        self.depthwise_constraint = constraints.get(depthwise_constraint)
        self.pointwise_constraint = constraints.get(pointwise_constraint)

    def build(self, input_shape: Any) -> None:
        """Makes both kernels and the bias."""
        channels = self._input_channels(input_shape)
        self.depthwise_kernel = self.add_weight(
            name="depthwise_kernel",
            shape=(*self.kernel_size, channels, self.depth_multiplier),
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self.pointwise_kernel = self.add_weight(
            name="pointwise_kernel",
            shape=(*[1] * self.rank, self.depth_multiplier * channels, self.filters),
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self.bias = self._add_bias()
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = super().get_config()
        for name in ("kernel_initializer", "kernel_regularizer", "kernel_constraint"):
            del config[name]
        for which in ("depthwise", "pointwise"):
            config[f"{which}_initializer"] = initializers.serialize(
                getattr(self, f"{which}_initializer")
            )
            config[f"{which}_regularizer"] = regularizers.serialize(
                getattr(self, f"{which}_regularizer")
            )
            config[f"{which}_constraint"] = constraints.serialize(
                getattr(self, f"{which}_constraint")
            )
        return {**config, "depth_multiplier": self.depth_multiplier}


class SeparableConv1D(SeparableConv):
    """Over time; worked out as an image of height 1."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            1, filters, kernel_size, strides, padding, data_format, dilation_rate,
            depth_multiplier, **kwargs,
        )  # fmt: skip

    def call(self, inputs: Any) -> Any:
        """The convolution."""
        inputs = self._padded(inputs)
        last = self.data_format == "channels_last"
        axis = 1 if last else 2
        strides = _whole(self.strides * 2, self.data_format)
        outputs = tf.nn.separable_conv2d(
            tf.expand_dims(inputs, axis),
            tf.expand_dims(self.depthwise_kernel, 0),
            tf.expand_dims(self.pointwise_kernel, 0),
            strides=strides,
            padding=self._op_padding,
            rate=(1, *self.dilation_rate),
            data_format=tf_data_format(self.data_format, 4),
        )
        if self.use_bias:
            outputs = tf.nn.bias_add(
                outputs, self.bias, data_format=tf_data_format(self.data_format, 4)
            )
        outputs = tf.squeeze(outputs, [axis])
        return outputs if self.activation is None else self.activation(outputs)


class SeparableConv2D(SeparableConv):
    """Over images."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        depth_multiplier: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            2, filters, kernel_size, strides, padding, data_format, dilation_rate,
            depth_multiplier, **kwargs,
        )  # fmt: skip

    def call(self, inputs: Any) -> Any:
        """The convolution."""
        outputs = tf.nn.separable_conv2d(
            inputs,
            self.depthwise_kernel,
            self.pointwise_kernel,
            strides=_whole(self.strides, self.data_format),
            padding=self.padding.upper(),
            rate=self.dilation_rate,
            data_format=tf_data_format(self.data_format, 4),
        )
        return self._finish(outputs)


class DepthwiseConv2D(Conv2D):
    """A convolution of each channel by itself."""

    def __init__(
        self,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        dilation_rate: Any = (1, 1),
        **kwargs: Any,
    ) -> None:
        super().__init__(
            None, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias,
            bias_regularizer=bias_regularizer, activity_regularizer=activity_regularizer,
            bias_constraint=bias_constraint, bias_initializer=bias_initializer, **kwargs,
        )  # fmt: skip
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.depthwise_regularizer = regularizers.get(depthwise_regularizer)
        self.depthwise_constraint = constraints.get(depthwise_constraint)

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias."""
        channels = self._input_channels(input_shape)
        self.depthwise_kernel = self.add_weight(
            name="depthwise_kernel",
            shape=(*self.kernel_size, channels, self.depth_multiplier),
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )
        self.filters = channels * self.depth_multiplier
        self.bias = self._add_bias()
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The convolution."""
        with tf.name_scope("depthwise"):
            outputs = tf.nn.depthwise_conv2d(
                inputs,
                self.depthwise_kernel,
                strides=_whole(self.strides, self.data_format),
                padding=self.padding.upper(),
                rate=self.dilation_rate,
                data_format=tf_data_format(self.data_format, 4),
            )
        return self._finish(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output."""
        if self.filters is None:
            sizes: list[Any] = tf.TensorShape(input_shape).as_list()
            self.filters = sizes[self._channel_axis] * self.depth_multiplier
        return super().compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = super().get_config()
        for name in ("filters", "kernel_initializer", "kernel_regularizer", "kernel_constraint"):
            del config[name]
        config["depth_multiplier"] = self.depth_multiplier
        config["depthwise_initializer"] = initializers.serialize(self.depthwise_initializer)
        config["depthwise_regularizer"] = regularizers.serialize(self.depthwise_regularizer)
        config["depthwise_constraint"] = constraints.serialize(self.depthwise_constraint)
        return config


def _whole(strides: tuple[int, ...], data_format: str) -> list[int]:
    """Strides over all axes, batch and channels among them."""
    if data_format == "channels_last":
        return [1, *strides, 1]
    return [1, 1, *strides]


Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
SeparableConvolution1D, SeparableConvolution2D = SeparableConv1D, SeparableConv2D
