"""Padding, cropping and upsampling of sequences and images."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras.engine.base_layer import Layer
from millrace.keras.engine.input_spec import InputSpec
from millrace.keras.layers.arguments import normalize_data_format, normalize_tuple


def _pairs(value: Any, rank: int, name: str) -> list[tuple[int, int]]:
    """(before, after) for each axis, from a number, one number or one pair an axis.

    Raises:
      ValueError: It is none of these.
    """
    if isinstance(value, int):
        return [(value, value)] * rank
    values = list(value)
    if rank == 1 and len(values) == 2 and all(isinstance(v, int) for v in values):
        return [(values[0], values[1])]
    if len(values) != rank:
        raise ValueError(f"`{name}` should have {rank} elements. Found: {value}")
    return [(v, v) if isinstance(v, int) else (int(v[0]), int(v[1])) for v in values]


class _Spatial(Layer):
    rank = 2
    argument = ""

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = normalize_data_format(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _around(self, space: list[Any], outside: Any) -> list[Any]:
        if self.data_format == "channels_first":
            return [outside, outside, *space]
        return [outside, *space, outside]

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        config = super().get_config()
        if self.rank > 1:
            config["data_format"] = self.data_format
        return {**config, self.argument: getattr(self, self.argument)}


class _ZeroPadding(_Spatial):
    argument = "padding"

    def __init__(self, padding: Any = 1, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(data_format, **kwargs)
        self.padding = _pairs(padding, self.rank, "padding")

    def call(self, inputs: Any) -> Any:
        """The padded inputs."""
        return tf.pad(inputs, self._around([list(p) for p in self.padding], [0, 0]))


class ZeroPadding1D(_ZeroPadding):
    """Zeros before and after a sequence."""

    rank = 1

    def __init__(self, padding: Any = 1, **kwargs: Any) -> None:
        super().__init__(padding, "channels_last", **kwargs)


class ZeroPadding2D(_ZeroPadding):
    """Zeros around images."""


class ZeroPadding3D(_ZeroPadding):
    """Zeros around volumes."""

    rank = 3


class _Cropping(_Spatial):
    argument = "cropping"

    def __init__(self, cropping: Any = 0, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(data_format, **kwargs)
        self.cropping = _pairs(cropping, self.rank, "cropping")

    def call(self, inputs: Any) -> Any:
        """The cropped inputs."""
        cuts = [slice(before, -after if after else None) for before, after in self.cropping]
        return inputs[tuple(self._around(cuts, slice(None)))]


class Cropping1D(_Cropping):
    """Without the ends of a sequence."""

    rank = 1

    def __init__(self, cropping: Any = (1, 1), **kwargs: Any) -> None:
        super().__init__(cropping, "channels_last", **kwargs)


class Cropping2D(_Cropping):
    """Without the borders of images."""


class Cropping3D(_Cropping):
    """Without the borders of volumes."""

    rank = 3


class UpSampling1D(Layer):
    """Each time step `size` times."""

    def __init__(self, size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = int(size)
        self.input_spec = InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        """The repeated steps."""
        return _repeated(inputs, self.size, 1)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "size": self.size}


class UpSampling2D(_Spatial):
    """Larger images: each pixel repeated, or interpolated."""

    argument = "size"

    def __init__(
        self,
        size: Any = (2, 2),
        data_format: str | None = None,
        interpolation: str = "nearest",
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format, **kwargs)
        self.size = normalize_tuple(size, 2, "size")
        if interpolation not in ("nearest", "bilinear"):
            raise ValueError(
                '`interpolation` argument should be one of `"nearest"` or `"bilinear"`.'
            )
        self.interpolation = interpolation

    def call(self, inputs: Any) -> Any:
        """The larger images."""
        first = 1 if self.data_format == "channels_last" else 2
        if self.interpolation == "nearest":
            return _repeated(_repeated(inputs, self.size[0], first), self.size[1], first + 1)
        channels_first = first == 2
        images = tf.transpose(inputs, [0, 2, 3, 1]) if channels_first else inputs
        shape = tf.shape(images)
        larger = tf.image.resize_bilinear(
            images, [shape[1] * self.size[0], shape[2] * self.size[1]]
        )
        return tf.transpose(larger, [0, 3, 1, 2]) if channels_first else larger

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "interpolation": self.interpolation}


class UpSampling3D(_Spatial):
    """Larger volumes: each voxel repeated."""

    rank = 3
    argument = "size"

    def __init__(
        self, size: Any = (2, 2, 2), data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format, **kwargs)
        self.size = normalize_tuple(size, 3, "size")

    def call(self, inputs: Any) -> Any:
        """The larger volumes."""
        first = 1 if self.data_format == "channels_last" else 2
        for offset, count in enumerate(self.size):
            inputs = _repeated(inputs, count, first + offset)
        return inputs


def _repeated(values: Any, count: int, axis: int) -> Any:
    """Each slice along an axis `count` times."""
    static = values.shape.as_list()
    shape = tf.shape(values)
    sizes = [shape[i] if size is None else size for i, size in enumerate(static)]
    wide = tf.tile(
        tf.expand_dims(values, axis + 1),
        [count if i == axis + 1 else 1 for i in range(len(static) + 1)],
    )
    result = tf.reshape(wide, [s * count if i == axis else s for i, s in enumerate(sizes)])
    known = static[axis]
    static[axis] = None if known is None else known * count
    result.set_shape(static)
    return result
