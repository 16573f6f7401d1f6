"""Transposed convolutions: from the shape of a convolution's output to that of its input."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras.layers.arguments import (
    deconv_output_length,
    normalize_tuple,
    tf_data_format,
)
from millrace.keras.layers.convolutional import Conv, Conv2D, Conv3D


class _Transposed(Conv):
    """What both ranks share."""

    output_padding: Any = None

    def _set_output_padding(self, output_padding: Any) -> None:
        self.output_padding = None
        if output_padding is None:
            return
        self.output_padding = normalize_tuple(output_padding, self.rank, "output_padding")
        for stride, out in zip(self.strides, self.output_padding, strict=True):
            if out >= stride:
                raise ValueError(
                    f"Stride {self.strides} must be greater than output padding "
                    f"{self.output_padding}"
                )

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias."""
        shape = tf.TensorShape(input_shape)
        if shape.ndims != self.rank + 2:
            raise ValueError(
                f"Inputs should have rank {self.rank + 2}. Received input shape: {shape}"
            )
        channels = self._input_channels(shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*self.kernel_size, self.filters, channels),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self.bias = self._add_bias()
        self.built = True

    def _lengths(self, lengths: list[Any]) -> list[Any]:
        extra = self.output_padding or [None] * self.rank
        return [
            deconv_output_length(length, size, self.padding, out, stride)
            for length, size, out, stride in zip(
                lengths, self.kernel_size, extra, self.strides, strict=True
            )
        ]

    def call(self, inputs: Any) -> Any:
        """The convolution."""
        shape = tf.shape(inputs)
        last = self.data_format == "channels_last"
        first = 1 if last else 2
        static = inputs.shape.as_list()
        lengths = [
            static[i] if static[i] is not None else shape[i]
            for i in range(first, first + self.rank)
        ]
        new = self._lengths(lengths)
        output_shape = [shape[0], *new, self.filters] if last else [shape[0], self.filters, *new]
        transpose = tf.nn.conv2d_transpose if self.rank == 2 else tf.nn.conv3d_transpose
        strides = [1, *self.strides, 1] if last else [1, 1, *self.strides]
        outputs = transpose(
            inputs,
            self.kernel,
            output_shape=tf.stack(output_shape),
            strides=strides,
            padding=self.padding.upper(),
            data_format=tf_data_format(self.data_format, self.rank + 2),
        )
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._finish(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output."""
        sizes = tf.TensorShape(input_shape).as_list()
        if self.data_format == "channels_last":
            return tf.TensorShape([sizes[0], *self._lengths(sizes[1:-1]), self.filters])
        return tf.TensorShape([sizes[0], self.filters, *self._lengths(sizes[2:])])

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = super().get_config()
        del config["dilation_rate"]
        return {**config, "output_padding": self.output_padding}


class Conv2DTranspose(_Transposed, Conv2D):
    """Over images."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        Conv2D.__init__(self, filters, kernel_size, strides, padding, data_format, **kwargs)
        self._set_output_padding(output_padding)


class Conv3DTranspose(_Transposed, Conv3D):
    """Over volumes."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        Conv3D.__init__(self, filters, kernel_size, strides, padding, data_format, **kwargs)
        self._set_output_padding(output_padding)


Convolution2DTranspose, Convolution3DTranspose = Conv2DTranspose, Conv3DTranspose
Deconvolution2D, Deconvolution3D = Conv2DTranspose, Conv3DTranspose
