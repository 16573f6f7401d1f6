"""`tf.layers`: pools."""

from __future__ import annotations

from typing import Any

from millrace.keras.layers import pooling as keras
from millrace.layers import base


class AveragePooling1D(keras.AveragePooling1D, base.Layer):
    """The mean of some time steps."""

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if strides is None:
            raise ValueError("Argument `strides` must not be None.")
        super().__init__(
            pool_size=pool_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            name=name,
            **kwargs,
        )


def average_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """A `AveragePooling1D` layer, applied to `inputs`."""
    layer = AveragePooling1D(
        pool_size=pool_size, strides=strides, padding=padding, data_format=data_format, name=name
    )
    return layer.apply(inputs)


class AveragePooling2D(keras.AveragePooling2D, base.Layer):
    """The mean of some pixels."""

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if strides is None:
            raise ValueError("Argument `strides` must not be None.")
        super().__init__(
            pool_size=pool_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            name=name,
            **kwargs,
        )


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """A `AveragePooling2D` layer, applied to `inputs`."""
    layer = AveragePooling2D(
        pool_size=pool_size, strides=strides, padding=padding, data_format=data_format, name=name
    )
    return layer.apply(inputs)


class AveragePooling3D(keras.AveragePooling3D, base.Layer):
    """The mean of some voxels."""

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if strides is None:
            raise ValueError("Argument `strides` must not be None.")
        super().__init__(
            pool_size=pool_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            name=name,
            **kwargs,
        )


def average_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """A `AveragePooling3D` layer, applied to `inputs`."""
    layer = AveragePooling3D(
        pool_size=pool_size, strides=strides, padding=padding, data_format=data_format, name=name
    )
    return layer.apply(inputs)


class MaxPooling1D(keras.MaxPooling1D, base.Layer):
    """The largest of some time steps."""

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if strides is None:
            raise ValueError("Argument `strides` must not be None.")
        super().__init__(
            pool_size=pool_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            name=name,
            **kwargs,
        )


def max_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """A `MaxPooling1D` layer, applied to `inputs`."""
    layer = MaxPooling1D(
        pool_size=pool_size, strides=strides, padding=padding, data_format=data_format, name=name
    )
    return layer.apply(inputs)


class MaxPooling2D(keras.MaxPooling2D, base.Layer):
    """The largest of some pixels."""

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if strides is None:
            raise ValueError("Argument `strides` must not be None.")
        super().__init__(
            pool_size=pool_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            name=name,
            **kwargs,
        )


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """A `MaxPooling2D` layer, applied to `inputs`."""
    layer = MaxPooling2D(
        pool_size=pool_size, strides=strides, padding=padding, data_format=data_format, name=name
    )
    return layer.apply(inputs)


class MaxPooling3D(keras.MaxPooling3D, base.Layer):
    """The largest of some voxels."""

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if strides is None:
            raise ValueError("Argument `strides` must not be None.")
        super().__init__(
            pool_size=pool_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            name=name,
            **kwargs,
        )


def max_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Any:
    """A `MaxPooling3D` layer, applied to `inputs`."""
    layer = MaxPooling3D(
        pool_size=pool_size, strides=strides, padding=padding, data_format=data_format, name=name
    )
    return layer.apply(inputs)


AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
avg_pool2d, max_pool2d = average_pooling2d, max_pooling2d
