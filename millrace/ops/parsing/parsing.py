"""Parsing Example messages: what a program says about its features, and the public functions.

`tf.parse_example` and its relatives build one op for all features; a SparseFeature is put
together from two of its outputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import constant
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import assertion, control_flow
from millrace.ops.math import comparison
from millrace.ops.parsing import example_parsers as parsers
from millrace.ops.sparse import rows as sparse_rows

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "SparseFeature",
    "VarLenFeature",
    "decode_json_example",
    "parse_example",
    "parse_single_example",
    "parse_single_sequence_example",
]


class FixedLenFeature(NamedTuple):
    """A feature with the same number of values in every example: a dense tensor.

    Attributes:
      shape: Of one example's values.
      dtype: float32, int64 or string.
      default_value: For examples that lack the feature; when None they are an error.
    """

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of rows of one shape: a dense tensor, padded.

    Attributes:
      shape: Of one row.
      dtype: float32, int64 or string.
      allow_missing: Whether an example may lack it; must be True for plain Examples.
      default_value: What to pad with.
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values: a SparseTensor."""

    dtype: Any


class SparseFeature(NamedTuple):
    """A sparse tensor that an example holds as a feature of indices and one of values.

    Attributes:
      index_key: The feature of indices (a list of them for more dimensions).
      value_key: The feature of values.
      dtype: Type of the values.
      size: Size of the dimension that the indices are of (a list for several).
      already_sorted: Whether the indices are in order.
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


class _Request:
    """What is asked of a parsing op: sparse and dense keys in a fixed order."""

    def __init__(self, features: Mapping[str, Any] | None, allowed: tuple[type, ...]) -> None:
        self.sparse: dict[str, dtypes.DType] = {}
        self.dense: dict[str, tuple[dtypes.DType, TensorShape, Any]] = {}
        #: Keys of dense features that may be missing.
        self.optional: set[str] = set()
        for key in sorted(features or {}):
            feature: Any = (features or {})[key]
            if not isinstance(feature, allowed):
                raise ValueError(f"Unsupported {type(feature).__name__} {feature} for key '{key}'")
            if isinstance(feature, SparseFeature):
                self._add_pair(feature)
                continue
            dtype = (features or {})[key].dtype
            if not dtype:
                end = "" if isinstance(feature, VarLenFeature) else "."
                raise ValueError(f"Missing type for feature {key}. Received feature={feature}{end}")
            if isinstance(feature, VarLenFeature):
                self._add_sparse(key, dtype)
            else:
                self._add_dense(key, feature)
        for key in self.dense:
            if key in self.sparse:
                raise ValueError(f"Dense and sparse keys must not intersect; intersection: {key}")

    def _add_sparse(self, key: str, dtype: Any) -> None:
        kind = dtypes.as_dtype(dtype)
        if self.sparse.setdefault(key, kind) != kind:
            raise ValueError(f"Conflicting type {self.sparse[key]} vs {kind} for feature {key}.")

    def _add_pair(self, feature: SparseFeature) -> None:
        for part in ("index_key", "value_key"):
            if not getattr(feature, part):
                raise ValueError(f"Missing {part} for SparseFeature {feature}.")
        keys = feature.index_key
        for key in sorted([keys] if isinstance(keys, str) else keys):
            self._add_sparse(key, dtypes.int64)
        self._add_sparse(feature.value_key, feature.dtype)

    def _add_dense(self, key: str, feature: Any) -> None:
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}. Received feature={feature}.")
        shape = as_shape(feature.shape)
        if isinstance(feature, FixedLenFeature) and shape.ndims and shape.as_list()[0] is None:
            raise ValueError(
                f"First dimension of shape for feature {key} unknown. Consider using "
                f"FixedLenSequenceFeature. Received feature={feature}."
            )
        if any(size is None for size in shape.as_list()[1:]):
            raise ValueError(
                f"All dimensions of shape for feature {key} need to be known but received {shape}."
            )
        if isinstance(feature, FixedLenSequenceFeature) and feature.allow_missing:
            self.optional.add(key)
        self.dense[key] = dtypes.as_dtype(feature.dtype), shape, feature.default_value

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return not self.sparse and not self.dense

    def defaults(self) -> list[Tensor]:
        """The defaults of the dense features, as the op takes them."""
        return [self._default(key, *entry) for key, entry in self.dense.items()]

    def _default(self, key: str, kind: dtypes.DType, shape: TensorShape, value: Any) -> Tensor:
        legal = re.sub(r"[^A-Za-z0-9_.\-/]", "_", key)
        if shape.ndims and shape.as_list()[0] is None:
            if value is None:
                return convert_to_tensor("" if kind == dtypes.string else 0, kind)
            padding = convert_to_tensor(value, kind, name=f"padding_{legal}")
            return array_shape.reshape(padding, [])
        if value is None:
            return constant.constant([], kind)
        if isinstance(value, Tensor):
            return value
        return array_shape.reshape(convert_to_tensor(value, kind, name=f"key_{legal}"), shape)

    def outputs(self, sparse_parts: Any, dense_values: Any) -> dict[str, Any]:
        """The op's outputs by key."""
        tensors = [SparseTensor(*part) for part in zip(*sparse_parts, strict=True)]
        return {
            **dict(zip(self.sparse, tensors, strict=True)),
            **dict(zip(self.dense, dense_values, strict=True)),
        }


def parse_example(
    serialized: Any,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: Any = None,
) -> dict[str, Any]:
    """Parses a batch of serialized Examples.

    Args:
      serialized: A vector of strings (or a scalar: one Example).
      features: Key to FixedLenFeature, VarLenFeature, SparseFeature or FixedLenSequenceFeature.
      name: The operation's name.
      example_names: Names of the examples for error messages.

    Returns:
      Key to Tensor or SparseTensor.

    Raises:
      ValueError: A feature is not described well.
      InvalidArgumentError: When run: an Example lacks a feature, or it has another type or size.
    """
    if not features:
        raise ValueError(f"Argument `features` cannot be None or falsy. Got {features}")
    wanted = {key: _with_rows(feature) for key, feature in features.items()}
    request = _Request(
        wanted, (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)
    )
    with name_scope(name, "ParseExample", [serialized, example_names]):
        strings = convert_to_tensor(serialized, name="serialized")
        indices, values, shapes, dense, _, _ = parsers.ParseExampleV2(
            strings,
            constant_strings(example_names),
            constant_strings(list(request.sparse)),
            constant_strings(list(request.dense)),
            constant_strings([]),
            request.defaults(),
            Tdense=[kind for kind, _, _ in request.dense.values()],
            num_sparse=len(request.sparse),
            sparse_types=list(request.sparse.values()),
            ragged_value_types=[],
            ragged_split_types=[],
            dense_shapes=[shape for _, shape, _ in request.dense.values()],
            name=name,
        )
        outputs = request.outputs((indices, values, shapes), dense)
    return _with_sparse_features(wanted, outputs)


def constant_strings(values: Any) -> Any:
    """A list of strings for an op's input, also when it is empty."""
    if values is None or (isinstance(values, list) and not values):
        return np.empty([0], object)
    return values


def _with_rows(feature: Any) -> Any:
    """A FixedLenSequenceFeature's shape with its unknown number of rows in front."""
    if not isinstance(feature, FixedLenSequenceFeature):
        return feature
    if not feature.allow_missing:
        raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
    return feature._replace(shape=[None, *as_shape(feature.shape).as_list()])


def _with_sparse_features(features: Mapping[str, Any], outputs: dict[str, Any]) -> dict[str, Any]:
    """Puts SparseFeatures together, and drops the parts that were not asked for themselves."""
    used: set[str] = set()
    for key in sorted(features):
        feature = features[key]
        if not isinstance(feature, SparseFeature):
            continue
        keys = feature.index_key
        if isinstance(keys, str):
            ids: Any = outputs[keys]
            used.add(keys)
        else:
            ids = [outputs[k] for k in keys]
            used.update(keys)
        used.add(feature.value_key)
        outputs[key] = sparse_rows.sparse_merge(
            ids,
            outputs[feature.value_key],
            vocab_size=feature.size,
            already_sorted=feature.already_sorted,
        )
    return {key: value for key, value in outputs.items() if key in features or key not in used}


def parse_single_example(
    serialized: Any,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: Any = None,
) -> dict[str, Any]:
    """Parses one serialized Example; see `parse_example`. Outputs have no batch dimension."""
    if features is None:
        raise ValueError("Invalid argument: features cannot be None.")
    if not features:
        raise ValueError("Invalid argument: features cannot be empty.")
    with name_scope(name, "ParseSingleExample", [serialized, example_names]):
        string = _scalar(convert_to_tensor(serialized, name="serialized"), "serialized")
        return parse_example(string, features, name, example_names)


def _scalar(value: Tensor, name: str) -> Tensor:
    rank = value.shape.ndims
    if rank == 0:
        return value
    if rank is not None:
        raise ValueError(f"Input {name} must be a scalar")
    check = assertion.Assert(
        comparison.equal(array_shape.rank(value), 0),
        [f"Input {name} must be a scalar"],
        name=f"{name.capitalize()}IsScalar",
    )
    result: Tensor = control_flow.with_dependencies([check], value, name=f"{name}Dependencies")
    result.set_shape([])
    return result


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """`tf.io.parse_sequence_example`: parses a batch of serialized SequenceExamples.

    Returns:
      Context features, feature lists (padded to the longest), and the lengths of the dense lists.
    """
    if not context_features and not sequence_features:
        raise ValueError(
            "Both `context_features` and `sequence_features` argument are None, but at least one "
            "should have values."
        )
    context = _Request(context_features, (VarLenFeature, FixedLenFeature))
    lists = _Request(sequence_features, (VarLenFeature, FixedLenSequenceFeature))
    with name_scope(name, "ParseSequenceExample", [serialized, example_names]):
        return _sequence_op(serialized, example_names, context, lists, name)


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parses one serialized SequenceExample.

    Args:
      serialized: A scalar string.
      context_features: Key to FixedLenFeature or VarLenFeature.
      sequence_features: Key to FixedLenSequenceFeature or VarLenFeature; outputs have a first
        dimension of time.
      example_name: For error messages.
      name: The name scope.

    Returns:
      Context features and feature lists, each a dict from key to Tensor or SparseTensor.
    """
    if not context_features and not sequence_features:
        raise ValueError(
            "Both context_features and sequence_features are None, but at least one should have "
            "values."
        )
    context = _Request(context_features, (VarLenFeature, FixedLenFeature))
    lists = _Request(sequence_features, (VarLenFeature, FixedLenSequenceFeature))
    with name_scope(name, "ParseSingleSequenceExample", [serialized, example_name]):
        with name_scope(name, "ParseSingleExample", [serialized, example_name]):
            string = _scalar(convert_to_tensor(serialized, name="serialized"), "serialized")
        return _sequence_op(string, example_name, context, lists, name)[:2]


def _sequence_op(
    serialized: Any, names: Any, context: _Request, lists: _Request, name: str | None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    with name_scope(name, "ParseSequenceExample", [serialized]):
        for key, (_, _, default) in lists.dense.items():
            if default is not None:
                raise ValueError(f"Value feature_list.dense_defaults[{key}] must be None")
        outputs = parsers.ParseSequenceExampleV2(
            convert_to_tensor(serialized, name="serialized"),
            constant_strings(names),
            constant_strings(list(context.sparse)),
            constant_strings(list(context.dense)),
            constant_strings([]),
            constant_strings(list(lists.sparse)),
            constant_strings(list(lists.dense)),
            constant_strings([]),
            np.array([key in lists.optional for key in lists.dense], bool),
            context.defaults(),
            Ncontext_sparse=len(context.sparse),
            Tcontext_dense=[kind for kind, _, _ in context.dense.values()],
            context_sparse_types=list(context.sparse.values()),
            context_dense_shapes=[shape for _, shape, _ in context.dense.values()],
            Nfeature_list_sparse=len(lists.sparse),
            Nfeature_list_dense=len(lists.dense),
            feature_list_dense_types=[kind for kind, _, _ in lists.dense.values()],
            feature_list_sparse_types=list(lists.sparse.values()),
            feature_list_dense_shapes=[shape for _, shape, _ in lists.dense.values()],
            name=name,
        )
        return (
            context.outputs(outputs[:3], outputs[3]),
            lists.outputs(outputs[6:9], outputs[9]),
            dict(zip(lists.dense, outputs[10], strict=True)),
        )


def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """Examples written as JSON, as serialized messages."""
    return parsers.DecodeJSONExample(json_examples, name=name)
