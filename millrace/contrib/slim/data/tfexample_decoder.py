"""Decoders of `tf.Example` records, and the handlers that make items of their features."""

from __future__ import annotations

import abc
from typing import Any

import millrace as tf
from millrace.contrib.slim.data.data_decoder import DataDecoder


class ItemHandler(abc.ABC):
    """Makes one item of some features.

    Attributes:
      keys: The names of the features that it uses.
    """

    def __init__(self, keys: Any) -> None:
        self._keys = list(keys) if isinstance(keys, tuple | list) else [keys]

    @property
    def keys(self) -> list[str]:
        """The features that it uses."""
        return self._keys

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""


class ItemHandlerCallback(ItemHandler):
    """An item that a function makes of the features."""

    def __init__(self, keys: Any, func: Any) -> None:
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The function's result."""
        return self._func(keys_to_tensors)


class BoundingBox(ItemHandler):
    """Boxes from four features, as rows of (ymin, xmin, ymax, xmax)."""

    def __init__(self, keys: Any = None, prefix: str = "") -> None:
        keys = list(keys or ["ymin", "xmin", "ymax", "xmax"])
        if len(keys) != 4:
            raise ValueError(f"BoundingBox expects 4 keys but got {len(keys)}")
        self._prefix = prefix
        self._full_keys = [prefix + key for key in keys]
        super().__init__(self._full_keys)

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The boxes."""
        sides = []
        for key in self._full_keys:
            side = keys_to_tensors[key]
            if isinstance(side, tf.SparseTensor):
                side = side.values
            sides.append(tf.expand_dims(side, 0))
        return tf.transpose(tf.concat(sides, 0))


class Tensor(ItemHandler):
    """A feature as it is, reshaped if asked."""

    def __init__(
        self,
        tensor_key: str,
        shape_keys: Any = None,
        shape: Any = None,
        default_value: Any = 0,
    ) -> None:
        if shape_keys and shape is not None:
            raise ValueError("Cannot specify both shape_keys and shape parameters.")
        keys = [tensor_key]
        if shape_keys:
            shape_keys = shape_keys if isinstance(shape_keys, list) else [shape_keys]
            keys += shape_keys
        super().__init__(keys)
        self._tensor_key = tensor_key
        self._shape_keys = shape_keys
        self._shape = shape
        self._default_value = default_value

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The feature."""
        tensor = keys_to_tensors[self._tensor_key]
        shape = self._shape
        if self._shape_keys:
            dims = []
            for key in self._shape_keys:
                dim = keys_to_tensors[key]
                if isinstance(dim, tf.SparseTensor):
                    dim = tf.sparse_tensor_to_dense(dim)
                dims.append(dim)
            shape = tf.reshape(tf.stack(dims), [-1])
        if isinstance(tensor, tf.SparseTensor):
            if shape is not None:
                tensor = tf.sparse_reshape(tensor, shape)
            return tf.sparse_tensor_to_dense(tensor, self._default_value)
        return tensor if shape is None else tf.reshape(tensor, shape)


class LookupTensor(Tensor):
    """A feature that a table translates."""

    def __init__(
        self,
        tensor_key: str,
        table: Any,
        shape_keys: Any = None,
        shape: Any = None,
        default_value: Any = "",
    ) -> None:
        self._table = table
        super().__init__(tensor_key, shape_keys, shape, default_value)

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The translated feature."""
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class BackupHandler(ItemHandler):
    """One handler's item, or another's where the first has none."""

    def __init__(self, handler: ItemHandler, backup: ItemHandler) -> None:
        for each in (handler, backup):
            if not isinstance(each, ItemHandler):
                raise ValueError(f"Handler is of type {type(each)} instead of ItemHandler")
        self._handler = handler
        self._backup = backup
        super().__init__(handler.keys + backup.keys)

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""
        item = self._handler.tensors_to_item(keys_to_tensors)
        other = self._backup.tensors_to_item(keys_to_tensors)
        return tf.cond(tf.equal(tf.reduce_prod(tf.shape(item)), 0), lambda: other, lambda: item)


class SparseTensor(ItemHandler):
    """A sparse tensor from a feature of places and one of values."""

    def __init__(
        self,
        indices_key: str | None = None,
        values_key: str | None = None,
        shape_key: str | None = None,
        shape: Any = None,
        densify: bool = False,
        default_value: Any = 0,
    ) -> None:
        self._indices_key = indices_key or "indices"
        self._values_key = values_key or "values"
        self._shape_key = shape_key
        self._shape = shape
        self._densify = densify
        self._default_value = default_value
        keys = [self._indices_key, self._values_key] + ([shape_key] if shape_key else [])
        super().__init__(keys)

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The sparse tensor, or a dense one if asked."""
        indices, values = keys_to_tensors[self._indices_key], keys_to_tensors[self._values_key]
        if self._shape_key:
            shape = keys_to_tensors[self._shape_key]
            if isinstance(shape, tf.SparseTensor):
                shape = tf.sparse_tensor_to_dense(shape)
        elif self._shape is not None:
            shape = self._shape
        else:
            shape = indices.dense_shape
        columns = tf.expand_dims(indices.values, 1)
        rows = tf.cast(tf.zeros_like(columns), tf.int64)
        places = tf.concat([columns], 1) if len(list(self._shape or [0])) == 1 else tf.concat(
            [rows, columns], 1
        )  # fmt: skip
        tensor = tf.SparseTensor(places, values.values, tf.cast(shape, tf.int64))
        if self._densify:
            return tf.sparse_tensor_to_dense(tensor, self._default_value)
        return tensor


class Image(ItemHandler):
    """An image from its encoded bytes and the name of its format."""

    def __init__(
        self,
        image_key: str | None = None,
        format_key: str | None = None,
        shape: Any = None,
        channels: int = 3,
        dtype: Any = tf.uint8,
        repeated: bool = False,
        dct_method: str = "",
    ) -> None:
        self._image_key = image_key or "image/encoded"
        self._format_key = format_key or "image/format"
        super().__init__([self._image_key, self._format_key])
        self._shape = shape
        self._channels = channels
        self._dtype = dtype
        self._repeated = repeated
        self._dct_method = dct_method

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The image."""
        buffer, kind = keys_to_tensors[self._image_key], keys_to_tensors[self._format_key]
        if self._repeated:
            return tf.map_fn(lambda one: self._decode(one, kind), buffer, dtype=self._dtype)
        return self._decode(buffer, kind)

    def _decode(self, buffer: Any, kind: Any) -> Any:
        def by_content() -> Any:
            return tf.cast(tf.image.decode_image(buffer, channels=self._channels), self._dtype)

        def raw() -> Any:
            return tf.decode_raw(buffer, out_type=self._dtype)

        is_raw = tf.logical_or(tf.equal(kind, "raw"), tf.equal(kind, "RAW"))
        if self._dtype == tf.uint8 or self._dtype == tf.uint16:
            image = tf.cond(is_raw, lambda: tf.reshape(raw(), [-1]), lambda: tf.reshape(
                by_content(), [-1])) if self._shape is not None else by_content()  # fmt: skip
        else:
            image = raw()
        if self._shape is not None:
            return tf.reshape(image, self._shape)
        image.set_shape([None, None, self._channels])
        return image


class TFExampleDecoder(DataDecoder):
    """Parses records by feature specifications, and makes items of them."""

    def __init__(self, keys_to_features: dict[str, Any], items_to_handlers: dict[str, Any]) -> None:
        self._keys_to_features = keys_to_features
        self._items_to_handlers = items_to_handlers

    def list_items(self) -> list[str]:
        """The items that there are handlers for."""
        return list(self._items_to_handlers)

    def decode(self, serialized_example: Any, items: Any = None) -> list[Any]:
        """The items of one record."""
        example = tf.parse_single_example(serialized_example, self._keys_to_features)
        for key in sorted(self._keys_to_features):
            feature = self._keys_to_features[key]
            if isinstance(feature, tf.FixedLenFeature):
                example[key] = tf.reshape(example[key], feature.shape)
        outputs = []
        for item in items or list(self._items_to_handlers):
            handler = self._items_to_handlers[item]
            outputs.append(handler.tensors_to_item({key: example[key] for key in handler.keys}))
        return outputs


class TFSequenceExampleDecoder(DataDecoder):
    """The same for `SequenceExample` records."""

    def __init__(
        self,
        keys_to_context_features: dict[str, Any],
        keys_to_sequence_features: dict[str, Any],
        items_to_handlers: dict[str, Any],
    ) -> None:
        both = set(keys_to_context_features) & set(keys_to_sequence_features)
        if both:
            raise ValueError(f"Context and sequence features share keys: {sorted(both)}")
        self._context = keys_to_context_features
        self._sequence = keys_to_sequence_features
        self._items_to_handlers = items_to_handlers

    def list_items(self) -> list[str]:
        """The items that there are handlers for."""
        return list(self._items_to_handlers)

    def decode(self, serialized_example: Any, items: Any = None) -> list[Any]:
        """The items of one record."""
        context, sequence = tf.parse_single_sequence_example(
            serialized_example, self._context, self._sequence
        )
        everything = {**context, **sequence}
        return [
            self._items_to_handlers[item].tensors_to_item(
                {key: everything[key] for key in self._items_to_handlers[item].keys}
            )
            for item in items or list(self._items_to_handlers)
        ]
