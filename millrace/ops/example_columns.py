"""Columns of parsed Example messages: one feature of a batch as arrays.

A *feature map* is the ``feature`` field of a Features message. Missing features, wrong types and
wrong lengths are reported as TensorFlow reports them, with the feature's key and the position of
the example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.data.example import Example, SequenceExample
from millrace.ops.string_arrays import strings, text

#: Type of a feature: the field that holds its values, and its name in messages.
FIELDS = {
    dtypes.float32: ("float_list", "float"),
    dtypes.int64: ("int64_list", "int64"),
    dtypes.string: ("bytes_list", "string"),
}
_KIND_NAMES = dict(FIELDS.values())


def parse_examples(serialized: Sequence[bytes]) -> list[Any]:
    """The feature map of each serialized Example.

    Raises:
      ValueError: A string is not an Example.
    """
    parse = Example.FromString
    maps = []
    for string in serialized:
        try:
            maps.append(parse(string).features.feature)
        except Exception:
            raise ValueError(f"Could not parse example input, value: '{text(string)}'") from None
    return maps


def parse_sequence_example(serialized: bytes, name: str) -> Any:
    """A serialized SequenceExample as a message."""
    try:
        return SequenceExample.FromString(serialized)
    except Exception:
        raise ValueError(f"Invalid protocol message input, example id: {name}") from None


class Places:
    """How messages name the examples of a batch, or the one example there is."""

    def __init__(self, names: Sequence[bytes], is_batch: bool) -> None:
        self._names = names
        self.is_batch = is_batch

    def name(self, index: int) -> str:
        """The example's name."""
        return text(self._names[index]) if len(self._names) else "<unknown>"

    def feature(self, key: str, index: int) -> str:
        """The beginning of a message about a feature of an example."""
        if not self.is_batch:
            return f"Key: {key}. "
        return f"Name: {self.name(index)}, Key: {key}, Index: {index}. "


def _array(values: list[Any], kind: dtypes.DType) -> Any:
    if kind == dtypes.string:
        return strings(values)
    return np.array(values, kind.as_numpy_dtype)


def known_sizes(shape: TensorShape) -> tuple[int, ...]:
    """The sizes of a fully known shape."""
    assert shape.sizes is not None
    return tuple(size or 0 for size in shape.sizes)


def fixed_column(
    maps: list[Any],
    key: str,
    kind: dtypes.DType,
    shape: TensorShape,
    default: Any,
    places: Places,
) -> Any:
    """A feature with as many values in every example: [batch, *shape]."""
    field, kind_name = FIELDS[kind]
    sizes = known_sizes(shape)
    count = int(np.prod(sizes))
    fallback = default.reshape(-1).tolist() if default.size or not count else None
    column: list[Any] = []
    for i, features in enumerate(maps):
        feature = features.get(key)
        found = None if feature is None else feature.WhichOneof("kind")
        if found is None:
            if fallback is None:
                prefix = f"Name: {places.name(i)}, " if places.is_batch else ""
                raise ValueError(
                    f"{prefix}Feature: {key} (data type: {kind_name}) is required but could not "
                    "be found."
                )
            column.extend(fallback)
            continue
        if found != field:
            raise ValueError(
                f"{places.feature(key, i)} Data types don't match. Data type: "
                f"{_KIND_NAMES[found]} but expected type: {kind_name}"
            )
        values = getattr(feature, field).value
        if len(values) != count:
            if not places.is_batch and len(values) > count:
                raise ValueError(
                    f"{places.feature(key, i)} Can't parse serialized Example: Some {field} slice "
                    "was not parsed."
                )
            raise ValueError(
                f"{places.feature(key, i)} Number of {kind_name} values != expected.  Values "
                f"size: {len(values)} but output shape: {_text(shape)}"
            )
        column.extend(values)
    return _array(column, kind).reshape(len(maps), *sizes)


def _text(shape: TensorShape) -> str:
    return str(shape.as_list()).replace("None", "?").replace(" ", "")


def _rows(
    maps: list[Any], key: str, kind: dtypes.DType, places: Places, is_dense: bool
) -> list[Any]:
    """The values of a feature in each example, as many as there are."""
    field, kind_name = FIELDS[kind]
    rows: list[Any] = []
    for i, features in enumerate(maps):
        feature = features.get(key)
        found = None if feature is None else feature.WhichOneof("kind")
        if found is None:
            rows.append(())
        elif found == field:
            rows.append(getattr(feature, field).value)
        else:
            actual = _KIND_NAMES[found]
            told = (
                f"Data type: {actual} but expected type: {kind_name}"
                if is_dense
                else f"Expected type: {kind_name}, Actual type: {actual}"
            )
            raise ValueError(f"{places.feature(key, i)} Data types don't match. {told}")
    return rows


def padded_column(
    maps: list[Any],
    key: str,
    kind: dtypes.DType,
    shape: TensorShape,
    padding: Any,
    places: Places,
) -> Any:
    """A feature of any length, filled up to the longest: [batch, longest, *shape[1:]]."""
    inner = known_sizes(shape[1:])
    stride = int(np.prod(inner))
    rows = _rows(maps, key, kind, places, is_dense=True)
    for i, row in enumerate(rows):
        if len(row) % stride:
            if not places.is_batch:
                raise ValueError(
                    f"Error while parsing feature with key {key}: number of elements should be "
                    f"divisible by {stride}, found {len(row)} instead"
                )
            raise ValueError(
                f"{places.feature(key, i)} Number of {FIELDS[kind][1]} values is not a multiple "
                f"of stride length. Saw {len(row)} values but output shape is: {_text(shape)}"
            )
    return _padded(rows, kind, stride, inner, padding)


def _padded(
    rows: list[Any], kind: dtypes.DType, stride: int, inner: tuple[int, ...], padding: Any
) -> Any:
    longest = max((len(row) for row in rows), default=0)
    result = np.empty((len(rows), longest), kind.as_numpy_dtype)
    result.fill(padding.item() if np.size(padding) else (b"" if kind == dtypes.string else 0))
    for i, row in enumerate(rows):
        if len(row):
            result[i, : len(row)] = _array(list(row), kind)
    return result.reshape(len(rows), longest // stride, *inner)


def sparse_column(
    maps: list[Any], key: str, kind: dtypes.DType, places: Places
) -> tuple[Any, Any, Any]:
    """A feature of any length as indices, values and shape."""
    rows = _rows(maps, key, kind, places, is_dense=False)
    values = _array([value for row in rows for value in row], kind)
    if not places.is_batch:
        count = len(values)
        return np.arange(count, dtype=np.int64).reshape(-1, 1), values, np.array([count], np.int64)
    lengths = np.array([len(row) for row in rows], np.int64)
    starts = np.cumsum(lengths) - lengths
    indices = np.empty((len(values), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(rows)), lengths)
    indices[:, 1] = np.arange(len(values)) - np.repeat(starts, lengths)
    longest = int(lengths.max()) if len(rows) else 0
    return indices, values, np.array([len(rows), longest], np.int64)


# -- Feature lists of SequenceExamples ----------------------------------------------------------


def _steps(
    message: Any, key: str, kind: dtypes.DType, name: str, missing_is_empty: bool
) -> list[Any]:
    """The values of every step of a feature list."""
    field, kind_name = FIELDS[kind]
    lists = message.feature_lists.feature_list
    feature_list = lists.get(key)
    if feature_list is None:
        if missing_is_empty:
            return []
        raise ValueError(
            f"Name: {name}, Feature list '{key}' is required but could not be found.  Did you "
            "mean to include it in feature_list_dense_missing_assumed_empty or "
            "feature_list_dense_defaults?"
        )
    steps: list[Any] = []
    for t, feature in enumerate(feature_list.feature):
        found = feature.WhichOneof("kind")
        if found is not None and found != field:
            raise ValueError(
                f"Name: {name}, Feature list: {key}, Index: {t}.  Data types don't match. "
                f"Expected type: {kind_name}"
            )
        steps.append(() if found is None else getattr(feature, field).value)
    return steps


def dense_steps(
    messages: list[Any],
    key: str,
    kind: dtypes.DType,
    shape: TensorShape,
    places: Places,
    missing_is_empty: bool,
) -> tuple[Any, Any]:
    """A feature list of equal steps: [batch, longest, *shape] padded, and the lengths."""
    sizes = known_sizes(shape)
    count = int(np.prod(sizes))
    rows, lengths = [], []
    for i, message in enumerate(messages):
        steps = _steps(message, key, kind, places.name(i), missing_is_empty)
        for t, step in enumerate(steps):
            if len(step) != count:
                raise ValueError(
                    f"Name: {places.name(i)}, Key: {key}, Index: {t}.  Number of values != "
                    f"expected.  values size: {len(step)} but output shape: {_text(shape)}"
                )
        rows.append([value for step in steps for value in step])
        lengths.append(len(steps))
    longest = max(lengths, default=0)
    result = np.empty((len(messages), longest * count), kind.as_numpy_dtype)
    result.fill(b"" if kind == dtypes.string else 0)
    for i, row in enumerate(rows):
        if row:
            result[i, : len(row)] = _array(row, kind)
    return result.reshape(len(messages), longest, *sizes), np.array(lengths, np.int64)


def sparse_steps(
    messages: list[Any], key: str, kind: dtypes.DType, places: Places
) -> tuple[Any, Any, Any]:
    """A feature list as indices (example, step, position), values and shape."""
    indices: list[tuple[int, int, int]] = []
    values: list[Any] = []
    most_steps = most_values = 0
    for i, message in enumerate(messages):
        steps = _steps(message, key, kind, places.name(i), True)
        most_steps = max(most_steps, len(steps))
        for t, step in enumerate(steps):
            most_values = max(most_values, len(step))
            indices.extend((i, t, k) for k in range(len(step)))
            values.extend(step)
    where = np.array(indices, np.int64).reshape(-1, 3)
    return where, _array(values, kind), np.array([len(messages), most_steps, most_values], np.int64)
