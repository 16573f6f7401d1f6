"""`tf.keras.utils`."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.keras.serialization import (
    CustomObjectScope,
    custom_object_scope,
    deserialize_keras_object,
    get_custom_objects,
    get_registered_name,
    get_registered_object,
    register_keras_serializable,
    serialize_keras_object,
)

__all__ = [
    "CustomObjectScope",
    "Sequence",
    "custom_object_scope",
    "deserialize_keras_object",
    "get_custom_objects",
    "get_registered_name",
    "get_registered_object",
    "normalize",
    "register_keras_serializable",
    "serialize_keras_object",
    "to_categorical",
]


def to_categorical(y: Any, num_classes: int | None = None, dtype: str = "float32") -> Any:
    """One-hot rows of class numbers."""
    labels = np.array(y, dtype="int")
    shape = labels.shape
    if shape and shape[-1] == 1 and len(shape) > 1:
        shape = shape[:-1]
    flat = labels.ravel()
    count = num_classes or int(flat.max()) + 1
    rows = np.zeros((len(flat), count), dtype=dtype)
    rows[np.arange(len(flat)), flat] = 1
    return rows.reshape((*shape, count))


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    """Vectors of length 1."""
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    return x / np.expand_dims(norms, axis)


class Sequence:
    """Batches by number, for `fit_generator`."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def on_epoch_end(self) -> None:
        """After each epoch."""
