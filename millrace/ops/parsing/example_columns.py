"""Columns of parsed Example messages: one feature of a batch as arrays.

A *feature map* is the ``feature`` field of a Features message. Missing features, wrong types and
wrong lengths are reported as TensorFlow reports them, with the feature's key and the position of
the example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.data.example import SequenceExample
from millrace.ops.parsing import example_wire as wire
from millrace.ops.parsing.example_scan import FEW, Irregular, ScannedFeatures
from millrace.ops.strings.string_arrays import strings, text

#: Type of a feature: the field that holds its values, and its name in messages.
FIELDS = {
    dtypes.float32: ("float_list", "float"),
    dtypes.int64: ("int64_list", "int64"),
    dtypes.string: ("bytes_list", "string"),
}


T = TypeVar("T")

#: What `fixed_column` and the others take features from.
Features = wire.FeatureMaps | ScannedFeatures


def read_examples(
    serialized: Sequence[bytes], keys: Sequence[str], read: Callable[[Features], T]
) -> T:
    """What `read` makes of the features of serialized Examples.

    Args:
      serialized: The Examples.
      keys: The features that it reads.
      read: Called again, with all Examples parsed one by one, if one of them is encoded in a way
        that only this knows.

    Raises:
      ValueError: A string is not an Example.
    """
    if len(serialized) >= FEW:
        try:
            return read(ScannedFeatures(serialized, keys))
        except Irregular:
            pass  # Damaged, or merely unusual.
    maps = []
    for i, string in enumerate(serialized):
        try:
            maps.append(wire.features_of(string))
        except Exception:
            where = f" (example {i} of a batch of {len(serialized)})" if len(serialized) > 1 else ""
            raise ValueError(
                f"Could not parse example input, value: '{text(string)}'{where}"
            ) from None
    return read(wire.FeatureMaps(maps))


def encoded(messages: Sequence[Any]) -> Features:
    """Features messages as `parse_examples` gives them."""
    return wire.FeatureMaps(
        [{k: feature.SerializeToString() for k, feature in m.feature.items()} for m in messages]
    )


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


def known_sizes(shape: TensorShape) -> tuple[int, ...]:
    """The sizes of a fully known shape."""
    assert shape.sizes is not None
    return tuple(size or 0 for size in shape.sizes)


def _text(shape: TensorShape) -> str:
    return str(shape.as_list()).replace("None", "?").replace(" ", "")


class WrongType(ValueError):
    """A feature holds values of another type.

    Attributes:
      index: Of the example.
    """

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


class _Column:
    """One feature of a batch.

    Attributes:
      present: Whether each example has it.
      values: The values of all examples, one after the other.
      counts: How many of them each example has.
    """

    def __init__(self, features: Features, key: str, kind: dtypes.DType, mismatch: Any) -> None:
        wanted = _KIND_BYTES[kind]
        try:
            kinds, self.values, self.counts = features.read(key, wanted)
        except wire.Unreadable as error:
            where = "" if error.index is None else f" of example {error.index}"
            raise ValueError(f"Could not parse feature {key}{where}: {error}") from None
        self.present = kinds == wanted
        if not self.present.all():
            wrong = np.flatnonzero(~self.present & (kinds != 0))
            if len(wrong):
                i = int(wrong[0])
                raise WrongType(i, mismatch(i, _KINDS[int(kinds[i])]))


_KIND_BYTES = {
    dtypes.float32: wire.FLOAT_LIST,
    dtypes.int64: wire.INT64_LIST,
    dtypes.string: wire.BYTES_LIST,
}
_KINDS = {byte: FIELDS[kind][1] for kind, byte in _KIND_BYTES.items()}


def _dense(features: Features, key: str, kind: dtypes.DType, places: Places) -> _Column:
    """A feature that is to be a dense tensor."""
    return _Column(
        features,
        key,
        kind,
        lambda i, found: (
            f"{places.feature(key, i)} Data types don't match. Data type: {found} but "
            f"expected type: {FIELDS[kind][1]}"
        ),
    )


def _flat(values: Any, kind: dtypes.DType) -> Any:
    return strings(values) if kind == dtypes.string else values


def dense_columns(
    features: Features,
    wanted: Sequence[tuple[str, dtypes.DType, TensorShape, Any]],
    places: Places,
) -> list[Any]:
    """Features as dense tensors; those of one type and size are read together where they can be.

    Args:
      features: Where they are.
      wanted: Key, type, shape and default of each.
      places: For messages.
    """
    alike: dict[tuple[int, int], list[tuple[int, tuple[int, ...]]]] = {}
    for i, (_, kind, shape, _) in enumerate(wanted):
        if shape.sizes is None or None in shape.sizes or kind == dtypes.string:
            continue
        sizes = tuple(size or 0 for size in shape.sizes)
        alike.setdefault((_KIND_BYTES[kind], math.prod(sizes)), []).append((i, sizes))
    found: list[Any] = [None] * len(wanted)
    for (kind_byte, count), members in alike.items():
        block = features.equal([wanted[i][0] for i, _ in members], kind_byte, count)
        if block is not None:
            for column, (i, sizes) in zip(block, members, strict=True):
                found[i] = column.reshape(len(features), *sizes)
    for i, (key, kind, shape, default) in enumerate(wanted):
        if found[i] is None:
            make = padded_column if _is_padded(shape) else fixed_column
            found[i] = make(features, key, kind, shape, default, places)
    return found


def _is_padded(shape: TensorShape) -> bool:
    """Whether a dense feature may have any number of rows."""
    return bool(shape.ndims) and shape.as_list()[0] is None


def fixed_column(
    features: Features,
    key: str,
    kind: dtypes.DType,
    shape: TensorShape,
    default: Any,
    places: Places,
) -> Any:
    """A feature with as many values in every example: [batch, *shape]."""
    field, kind_name = FIELDS[kind]
    sizes = known_sizes(shape)
    count = math.prod(sizes)
    column = _dense(features, key, kind, places)
    if not column.present.all() and not (default.size or not count):
        prefix = where = ""
        if places.is_batch:
            first = int(np.argmin(column.present))
            prefix = f"Name: {places.name(first)}, "
            where = f" (example {first} of a batch of {len(features)})"
        raise ValueError(
            f"{prefix}Feature: {key} (data type: {kind_name}) is required but could not be found."
            f"{where}"
        )
    wrong = np.flatnonzero(column.present & (column.counts != count))
    if len(wrong):
        i = int(wrong[0])
        found = int(column.counts[i])
        if not places.is_batch and found > count:
            raise ValueError(
                f"{places.feature(key, i)} Can't parse serialized Example: Some {field} slice was "
                "not parsed."
            )
        raise ValueError(
            f"{places.feature(key, i)} Number of {kind_name} values != expected.  Values size: "
            f"{found} but output shape: {_text(shape)}"
        )
    values = _flat(column.values, kind)
    if column.present.all():
        return values.reshape(len(features), *sizes)
    result = np.empty((len(features), count), kind.as_numpy_dtype)
    result[column.present] = values.reshape(-1, count)
    result[~column.present] = default.reshape(-1)
    return result.reshape(len(features), *sizes)


def padded_column(
    features: Features,
    key: str,
    kind: dtypes.DType,
    shape: TensorShape,
    padding: Any,
    places: Places,
) -> Any:
    """A feature of any length, filled up to the longest: [batch, longest, *shape[1:]]."""
    kind_name = FIELDS[kind][1]
    inner = known_sizes(shape[1:])
    stride = int(np.prod(inner))
    column = _dense(features, key, kind, places)
    uneven = np.flatnonzero(column.counts % stride)
    if len(uneven):
        i = int(uneven[0])
        found = int(column.counts[i])
        if not places.is_batch:
            raise ValueError(
                f"Error while parsing feature with key {key}: number of elements should be "
                f"divisible by {stride}, found {found} instead"
            )
        raise ValueError(
            f"{places.feature(key, i)} Number of {kind_name} values is not a multiple of stride "
            f"length. Saw {found} values but output shape is: {_text(shape)}"
        )
    longest = int(column.counts.max(initial=0))
    result = np.empty((len(features), longest), kind.as_numpy_dtype)
    result.fill(padding.item() if np.size(padding) else (b"" if kind == dtypes.string else 0))
    result[np.arange(longest) < column.counts[:, None]] = _flat(column.values, kind)
    return result.reshape(len(features), longest // stride, *inner)


def sparse_column(
    features: Features, key: str, kind: dtypes.DType, places: Places
) -> tuple[Any, Any, Any]:
    """A feature of any length as indices, values and shape."""
    kind_name = FIELDS[kind][1]
    column = _Column(
        features,
        key,
        kind,
        lambda i, found: (
            f"{places.feature(key, i)} Data types don't match. Expected type: "
            f"{kind_name}, Actual type: {found}"
        ),
    )
    values, counts = _flat(column.values, kind), column.counts
    if not places.is_batch:
        total = len(values)
        return np.arange(total, dtype=np.int64).reshape(-1, 1), values, np.array([total], np.int64)
    starts = np.cumsum(counts) - counts
    indices = np.empty((len(values), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(features)), counts)
    indices[:, 1] = np.arange(len(values)) - np.repeat(starts, counts)
    return indices, values, np.array([len(features), counts.max(initial=0)], np.int64)


# -- Feature lists of SequenceExamples ----------------------------------------------------------


def _array(values: list[Any], kind: dtypes.DType) -> Any:
    if kind == dtypes.string:
        return strings(values)
    return np.array(values, kind.as_numpy_dtype)


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
