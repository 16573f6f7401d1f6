"""Keras's names for convolutions, pools, padding and normalisation: thin, on `tf.nn`.

All work with ``channels_last`` inside; ``channels_first`` is transposed on the way in and out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import millrace as tf
from millrace.keras.engine import state


def _channels_last(function: Callable[[Any], Any], x: Any, data_format: str | None) -> Any:
    """Calls a function of channels-last images with images of either format."""
    data_format = data_format or state.image_data_format()
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"Unknown data_format: {data_format}")
    if data_format == "channels_last":
        return function(x)
    rank = x.shape.ndims
    back = [0, rank - 1, *range(1, rank - 1)]
    return tf.transpose(function(tf.transpose(x, [0, *range(2, rank), 1])), back)


def _padding(padding: str) -> str:
    if padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding: {padding}")
    return padding.upper()


def conv1d(
    x: Any, kernel: Any, strides: int = 1, padding: str = "valid", data_format: str | None = None,
    dilation_rate: int = 1,
) -> Any:  # fmt: skip
    """A convolution over time; ``causal`` sees no later steps."""
    if padding == "causal":
        left = dilation_rate * (kernel.shape.as_list()[0] - 1)
        x = _channels_last(lambda v: temporal_padding(v, (left, 0)), x, data_format)
        padding = "valid"
    return _convolution(x, kernel, (strides,), padding, data_format, (dilation_rate,))


def conv2d(
    x: Any, kernel: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str | None = None, dilation_rate: Any = (1, 1),
) -> Any:  # fmt: skip
    """A convolution over images."""
    return _convolution(x, kernel, strides, padding, data_format, dilation_rate)


def conv3d(
    x: Any, kernel: Any, strides: Any = (1, 1, 1), padding: str = "valid",
    data_format: str | None = None, dilation_rate: Any = (1, 1, 1),
) -> Any:  # fmt: skip
    """A convolution over volumes."""
    return _convolution(x, kernel, strides, padding, data_format, dilation_rate)


def _convolution(
    x: Any, kernel: Any, strides: Any, padding: str, data_format: str | None, dilation: Any
) -> Any:
    def run(value: Any) -> Any:
        return tf.nn.convolution(
            value, kernel, _padding(padding), strides=tuple(strides), dilation_rate=tuple(dilation)
        )

    return _channels_last(run, x, data_format)


def conv2d_transpose(
    x: Any, kernel: Any, output_shape: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str | None = None, dilation_rate: Any = (1, 1),
) -> Any:  # fmt: skip
    """The transposed convolution, to `output_shape` (given in `data_format`)."""
    shape = tf.convert_to_tensor(
        [tf.shape(x)[0] if each is None else each for each in output_shape]
        if isinstance(output_shape, tuple | list)
        else output_shape
    )
    if (data_format or state.image_data_format()) == "channels_first":
        shape = tf.gather(shape, [0, 2, 3, 1])
    if tuple(dilation_rate) != (1, 1):
        raise NotImplementedError("conv2d_transpose with a dilation_rate is not there")
    return _channels_last(
        lambda v: tf.nn.conv2d_transpose(
            v, kernel, shape, strides=(1, *strides, 1), padding=_padding(padding)
        ),
        x,
        data_format,
    )


def depthwise_conv2d(
    x: Any, depthwise_kernel: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str | None = None, dilation_rate: Any = (1, 1),
) -> Any:  # fmt: skip
    """A convolution of each channel by itself."""
    return _channels_last(
        lambda v: tf.nn.depthwise_conv2d(
            v, depthwise_kernel, (1, *strides, 1), _padding(padding), rate=tuple(dilation_rate)
        ),
        x,
        data_format,
    )


def separable_conv2d(
    x: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = (1, 1),
    padding: str = "valid", data_format: str | None = None, dilation_rate: Any = (1, 1),
) -> Any:  # fmt: skip
    """A depthwise convolution, then one of width 1 over the channels."""
    return _channels_last(
        lambda v: tf.nn.separable_conv2d(
            v, depthwise_kernel, pointwise_kernel, (1, *strides, 1), _padding(padding),
            rate=tuple(dilation_rate),
        ),
        x,
        data_format,
    )  # fmt: skip


def pool2d(
    x: Any, pool_size: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str | None = None, pool_mode: str = "max",
) -> Any:  # fmt: skip
    """A pool over images."""
    return _pool(x, pool_size, strides, padding, data_format, pool_mode)


def pool3d(
    x: Any, pool_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
    data_format: str | None = None, pool_mode: str = "max",
) -> Any:  # fmt: skip
    """A pool over volumes."""
    return _pool(x, pool_size, strides, padding, data_format, pool_mode)


def _pool(x: Any, size: Any, strides: Any, padding: str, data_format: str | None, mode: str) -> Any:
    if mode not in ("max", "avg"):
        raise ValueError(f"Invalid pooling mode: {mode}")

    def run(value: Any) -> Any:
        return tf.nn.pool(
            value, tuple(size), mode.upper(), _padding(padding), strides=tuple(strides)
        )

    return _channels_last(run, x, data_format)


def local_conv1d(
    inputs: Any, kernel: Any, kernel_size: Any, strides: Any, data_format: str | None = None
) -> Any:
    """A convolution whose kernel differs from place to place: ``[places, window, filters]``."""
    return _local(inputs, kernel, tuple(kernel_size), tuple(strides), data_format)


def local_conv2d(
    inputs: Any, kernel: Any, kernel_size: Any, strides: Any, output_shape: Any,
    data_format: str | None = None,
) -> Any:  # fmt: skip
    """A convolution over images whose kernel differs from place to place."""
    return _local(inputs, kernel, tuple(kernel_size), tuple(strides), data_format, output_shape)


def _local(
    inputs: Any, kernel: Any, size: Any, strides: Any, data_format: str | None, places: Any = None
) -> Any:
    def run(value: Any) -> Any:
        flat = value if len(size) == 2 else tf.expand_dims(value, 2)
        window = (*size, 1)[:2]
        patches = tf.image.extract_image_patches(
            flat, [1, *window, 1], [1, *(*strides, 1)[:2], 1], [1, 1, 1, 1], "VALID"
        )
        static: list[Any] = patches.shape.as_list()
        rows = tf.reshape(patches, [-1, static[1] * static[2], static[3]])
        made = tf.einsum("bpw,pwf->bpf", rows, kernel)
        if len(size) == 1:
            return made
        shape = tuple(places) if places is not None else (static[1], static[2])
        return tf.reshape(made, [-1, *shape, kernel.shape.as_list()[-1]])

    return _channels_last(run, inputs, data_format)


def temporal_padding(x: Any, padding: Any = (1, 1)) -> Any:
    """Zeros before and behind the time axis of ``[batch, time, features]``."""
    return tf.pad(x, [[0, 0], list(padding), [0, 0]])


def spatial_2d_padding(
    x: Any, padding: Any = ((1, 1), (1, 1)), data_format: str | None = None
) -> Any:
    """Zeros around images."""
    return _channels_last(
        lambda v: tf.pad(v, [[0, 0], *map(list, padding), [0, 0]]), x, data_format
    )


def spatial_3d_padding(
    x: Any, padding: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None
) -> Any:
    """Zeros around volumes."""
    return _channels_last(
        lambda v: tf.pad(v, [[0, 0], *map(list, padding), [0, 0]]), x, data_format
    )


def resize_images(
    x: Any, height_factor: int, width_factor: int, data_format: str,
    interpolation: str = "nearest",
) -> Any:  # fmt: skip
    """Images larger by whole factors."""
    methods: dict[str, Any] = {
        "nearest": tf.image.resize_nearest_neighbor,
        "bilinear": tf.image.resize_bilinear,
    }
    if interpolation not in methods:
        raise ValueError('interpolation should be one of "nearest" or "bilinear".')

    def run(value: Any) -> Any:
        static = value.shape.as_list()[1:3]
        size = tf.shape(value)[1:3] * tf.constant([height_factor, width_factor])
        made = methods[interpolation](value, size)
        factors = (height_factor, width_factor)
        dims = [n * f if n is not None else None for n, f in zip(static, factors, strict=True)]
        made.set_shape([None, *dims, None])
        return made

    return _channels_last(run, x, data_format)


def resize_volumes(
    x: Any, depth_factor: int, height_factor: int, width_factor: int, data_format: str
) -> Any:
    """Volumes larger by whole factors: each element is repeated."""

    def run(value: Any) -> Any:
        for axis, factor in enumerate((depth_factor, height_factor, width_factor), start=1):
            value = tf.repeat(value, factor, axis=axis)
        return value

    return _channels_last(run, x, data_format)


def batch_normalization(
    x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1, epsilon: float = 1e-3
) -> Any:
    """``(x − mean) / sqrt(var + epsilon) · gamma + beta``."""
    return tf.nn.batch_normalization(x, mean, var, beta, gamma, epsilon)


def normalize_batch_in_training(
    x: Any, gamma: Any, beta: Any, reduction_axes: Any, epsilon: float = 1e-3
) -> tuple[Any, Any, Any]:
    """The batch normalised by its own moments, and these moments."""
    mean, var = tf.nn.moments(x, list(reduction_axes))
    rank = x.shape.ndims

    def spread(value: Any) -> Any:
        if value is None:
            return None
        shape = tf.shape(x)
        dims = [1 if axis in reduction_axes else shape[axis] for axis in range(rank)]
        return tf.reshape(value, tf.stack(dims))

    made = tf.nn.batch_normalization(
        x, spread(mean), spread(var), spread(beta), spread(gamma), epsilon
    )
    return made, mean, var
