"""From what a caller feeds to arrays of the right type and shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from millrace.client.tensor_handle import TensorHandle
from millrace.core.convert import feed_to_ndarray
from millrace.graph.tensor import Tensor


class FeedConverter:
    """Checks and converts values fed for one tensor.

    Attributes:
      tensor: The tensor.
      dtype: An array of this very type needs no conversion; None if every value needs one.
      fits: A shape that was found to fit: most values have that of the one before.
    """

    __slots__ = ("_sizes", "dtype", "fits", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        dtype = tensor.dtype.base_dtype
        self.dtype = None if dtype.name == "string" else np.dtype(dtype.as_numpy_dtype)
        self._sizes = tensor.shape.sizes
        self.fits: tuple[int, ...] | None = None

    def __call__(self, value: Any) -> np.ndarray:
        """`value` as an array for this tensor.

        Raises:
          TypeError: A tensor was given, or a number that the type cannot hold.
          ValueError: The shape does not fit.
        """
        # NumPy has None for its default type.
        if type(value) is np.ndarray and self.dtype is not None and value.dtype == self.dtype:
            array = value
        else:
            array = self._convert(value)
        shape, sizes = array.shape, self._sizes
        if sizes is not None and shape != sizes:
            fits = len(shape) == len(sizes)
            for want, have in zip(sizes, shape, strict=False):
                fits = fits and (want is None or want == have)
            if not fits:
                raise ValueError(
                    f"Cannot feed value of shape {shape} for Tensor {self.tensor.name}, which has "
                    f"shape {self.tensor.shape}"
                )
        self.fits = shape
        return array

    def _convert(self, value: Any) -> np.ndarray:
        if isinstance(value, TensorHandle):
            value = value.eval()
        if isinstance(value, Tensor):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed values "
                "include Python scalars, strings, lists, numpy ndarrays, or TensorHandles. For "
                f"reference, the tensor object was {value!s} which was passed to the feed with "
                f"key {self.tensor!s}."
            )
        try:
            return feed_to_ndarray(value, self.tensor.dtype.base_dtype)
        except ValueError as error:
            raise ValueError(
                f"Cannot convert the value fed for Tensor {self.tensor.name} to "
                f"{self.tensor.dtype.base_dtype.name}: {error}"
            ) from None


def converted(converters: Sequence[FeedConverter], values: Iterable[Any]) -> list[np.ndarray]:
    """The values as arrays, each by its converter; as many of one as of the other."""
    arrays = []
    for converter, value in zip(converters, values, strict=True):
        if (
            type(value) is np.ndarray
            and value.dtype is converter.dtype
            and value.shape == converter.fits
        ):
            arrays.append(value)
        else:
            arrays.append(converter(value))
    return arrays
