"""From what a caller feeds to arrays of the right type and shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.client.tensor_handle import TensorHandle
from millrace.core.convert import feed_to_ndarray
from millrace.graph.tensor import Tensor


class FeedConverter:
    """Checks and converts values fed for one tensor."""

    __slots__ = ("_dtype", "_is_string", "_sizes", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._is_string = tensor.dtype.base_dtype.name == "string"
        self._dtype = np.dtype(
            object if self._is_string else tensor.dtype.base_dtype.as_numpy_dtype
        )
        self._sizes = tensor.shape.sizes

    def __call__(self, value: Any) -> np.ndarray:
        """`value` as an array for this tensor.

        Raises:
          TypeError: A tensor was given, or a number that the type cannot hold.
          ValueError: The shape does not fit.
        """
        if type(value) is np.ndarray and value.dtype == self._dtype and not self._is_string:
            array = value
        else:
            array = self._convert(value)
        sizes = self._sizes
        if sizes is not None and array.shape != sizes:
            shape = array.shape
            if len(shape) != len(sizes) or any(
                want is not None and want != have for want, have in zip(sizes, shape, strict=True)
            ):
                raise ValueError(
                    f"Cannot feed value of shape {shape} for Tensor {self.tensor.name}, which has "
                    f"shape {self.tensor.shape}"
                )
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
