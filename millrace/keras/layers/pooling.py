"""Pools of one, two and three dimensions, and pools over everything."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.input_spec import InputSpec
from millrace.keras.layers.arguments import (
    conv_output_length,
    normalize_data_format,
    normalize_padding,
    normalize_tuple,
    tf_data_format,
)


class Pooling(Layer):
    """A pool over `rank` axes; `kind` is ``MAX`` or ``AVG``."""

    rank = 0
    kind = ""

    def __init__(
        self,
        pool_size: Any,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if strides is None:
            strides = pool_size
        self.pool_size = normalize_tuple(pool_size, self.rank, "pool_size")
        self.strides = normalize_tuple(strides, self.rank, "strides")
        self.padding = normalize_padding(padding)
        self.data_format = normalize_data_format(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:
        """The pool; one over time is that of an image of width 1."""
        if self.rank == 1:
            axis = 2 if self.data_format == "channels_last" else 3
            return tf.squeeze(self._pool(tf.expand_dims(inputs, axis), one_dimension=True), axis)
        return self._pool(inputs)

    def _pool(self, inputs: Any, one_dimension: bool = False) -> Any:
        size, strides = self.pool_size, self.strides
        if one_dimension:
            size, strides = (*size, 1), (*strides, 1)
        if self.data_format == "channels_last":
            size, strides = (1, *size, 1), (1, *strides, 1)
        else:
            size, strides = (1, 1, *size), (1, 1, *strides)
        functions: dict[Any, Any] = {
            ("MAX", 4): tf.nn.max_pool,
            ("AVG", 4): tf.nn.avg_pool,
            ("MAX", 5): tf.nn.max_pool3d,
            ("AVG", 5): tf.nn.avg_pool3d,
        }
        rank = len(size)
        return functions[self.kind, rank](
            inputs,
            ksize=list(size),
            strides=list(strides),
            padding=self.padding.upper(),
            data_format=tf_data_format(self.data_format, rank),
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output."""
        sizes = tf.TensorShape(input_shape).as_list()
        last = self.data_format == "channels_last"
        space = sizes[1:-1] if last else sizes[2:]
        new = [
            conv_output_length(length, size, self.padding, stride)
            for length, size, stride in zip(space, self.pool_size, self.strides, strict=True)
        ]
        if last:
            return tf.TensorShape([sizes[0], *new, sizes[-1]])
        return tf.TensorShape([sizes[0], sizes[1], *new])

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = {
            "pool_size": self.pool_size,
            "padding": self.padding,
            "strides": self.strides,
            "data_format": self.data_format,
        }
        return {**super().get_config(), **config}


class _Pooling1D(Pooling):
    rank = 1

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = "channels_last",
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


class _Pooling2D(Pooling):
    rank = 2

    def __init__(
        self,
        pool_size: Any = (2, 2),
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


class _Pooling3D(Pooling):
    rank = 3

    def __init__(
        self,
        pool_size: Any = (2, 2, 2),
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


class MaxPooling1D(_Pooling1D):
    """The largest of some time steps."""

    kind = "MAX"


class AveragePooling1D(_Pooling1D):
    """The mean of some time steps."""

    kind = "AVG"


class MaxPooling2D(_Pooling2D):
    """The largest of some pixels."""

    kind = "MAX"


class AveragePooling2D(_Pooling2D):
    """The mean of some pixels."""

    kind = "AVG"


class MaxPooling3D(_Pooling3D):
    """The largest of some voxels."""

    kind = "MAX"


class AveragePooling3D(_Pooling3D):
    """The mean of some voxels."""

    kind = "AVG"


class _GlobalPooling(Layer):
    """A reduction over all axes but batch and channels."""

    rank = 0
    reduction = "mean"

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = normalize_data_format(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:
        """The reduction."""
        first = 1 if self.data_format == "channels_last" else 2
        axes = list(range(first, first + self.rank))
        reduce = tf.reduce_max if self.reduction == "max" else tf.reduce_mean
        return reduce(inputs, axis=axes if len(axes) > 1 else axes[0])

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[batch, channels]."""
        sizes = tf.TensorShape(input_shape).as_list()
        channels = sizes[-1] if self.data_format == "channels_last" else sizes[1]
        return tf.TensorShape([sizes[0], channels])

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "data_format": self.data_format}


class GlobalAveragePooling1D(_GlobalPooling):
    """The mean over time, of what is not masked."""

    rank = 1

    def __init__(self, data_format: str = "channels_last", **kwargs: Any) -> None:
        super().__init__(data_format, **kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """The mean."""
        axis = 1 if self.data_format == "channels_last" else 2
        if mask is None:
            return tf.reduce_mean(inputs, axis=axis)
        weights = tf.expand_dims(tf.cast(mask, inputs.dtype), 2 if axis == 1 else 1)
        return tf.reduce_sum(inputs * weights, axis=axis) / tf.reduce_sum(weights, axis=axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """None: there is no time any more."""
        return None


class GlobalMaxPooling1D(_GlobalPooling):
    """The largest over time."""

    rank = 1
    reduction = "max"


class GlobalAveragePooling2D(_GlobalPooling):
    """The mean over an image."""

    rank = 2


class GlobalMaxPooling2D(_GlobalPooling):
    """The largest of an image."""

    rank = 2
    reduction = "max"


class GlobalAveragePooling3D(_GlobalPooling):
    """The mean over a volume."""

    rank = 3


class GlobalMaxPooling3D(_GlobalPooling):
    """The largest of a volume."""

    rank = 3
    reduction = "max"


MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
GlobalMaxPool1D, GlobalAvgPool1D = GlobalMaxPooling1D, GlobalAveragePooling1D
GlobalMaxPool2D, GlobalAvgPool2D = GlobalMaxPooling2D, GlobalAveragePooling2D
GlobalMaxPool3D, GlobalAvgPool3D = GlobalMaxPooling3D, GlobalAveragePooling3D
