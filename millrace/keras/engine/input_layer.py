"""`Input`: a placeholder that begins a functional model."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras.engine import state
from millrace.keras.engine.base_layer import Layer


class InputLayer(Layer):
    """Holds the placeholder, or a tensor that stands for it."""

    def __init__(
        self,
        input_shape: Any = None,
        batch_size: int | None = None,
        dtype: Any = None,
        input_tensor: Any = None,
        sparse: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if name is None:
            name = f"input_{state.get_uid('input')}"
        if "batch_input_shape" in kwargs:
            batch_size, *rest = kwargs.pop("batch_input_shape")
            input_shape = tuple(rest)
        if input_tensor is not None:
            dtype = input_tensor.dtype.base_dtype
        super().__init__(dtype=dtype or state.floatx(), name=name)
        self.built = True
        self.sparse = sparse
        self.is_placeholder = input_tensor is None
        if input_tensor is None:
            if isinstance(input_shape, tf.TensorShape):
                input_shape = tuple(input_shape.as_list())
            self._batch_input_shape = (batch_size, *tuple(input_shape))
            if sparse:
                input_tensor = tf.sparse_placeholder(
                    tf.as_dtype(self.dtype), self._batch_input_shape, name=name
                )
            else:
                input_tensor = tf.placeholder(self.dtype, self._batch_input_shape, name=name)
        else:
            self._batch_input_shape = tuple(input_tensor.shape.as_list())
        self._connect([], input_tensor, (), {})

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {
            "batch_input_shape": self._batch_input_shape,
            "dtype": self.dtype,
            "sparse": self.sparse,
            "name": self.name,
        }


def Input(
    shape: Any = None,
    batch_size: int | None = None,
    name: str | None = None,
    dtype: Any = None,
    sparse: bool = False,
    tensor: Any = None,
    **kwargs: Any,
) -> Any:
    """A tensor that begins a functional model.

    Args:
      shape: Its shape, without the batch.
      batch_size: The size of the batch, if it is fixed.
      name: The name of the layer and of the placeholder.
      dtype: Its type.
      sparse: Whether it is a sparse placeholder.
      tensor: A tensor to use instead of a placeholder.
      **kwargs: `batch_shape`: the shape with the batch.

    Raises:
      ValueError: There is neither a shape nor a tensor.
    """
    batch_shape = kwargs.pop("batch_shape", None)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments: {sorted(kwargs)}")
    if shape is not None and batch_shape is not None:
        raise ValueError("Only provide the `shape` OR `batch_shape` argument to Input, not both.")
    if batch_shape is not None:
        batch_size, *shape = batch_shape
    if shape is None and tensor is None:
        raise ValueError(
            "Please provide to Input either a `shape` or a `tensor` argument. Note that `shape` "
            "does not include the batch dimension."
        )
    layer = InputLayer(
        input_shape=shape,
        batch_size=batch_size,
        name=name,
        dtype=dtype,
        sparse=sparse,
        input_tensor=tensor,
    )
    return layer.inbound_nodes[0].outputs
