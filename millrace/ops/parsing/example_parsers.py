"""Op types that parse Example and SequenceExample messages, in all the forms that graphs contain.

The forms differ in how keys arrive (inputs, lists of inputs, attributes) and in what an example
without a batch gives; the work is done by `example_columns`. Ragged features are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf import json_format

from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.data.example import Example
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, unchanged
from millrace.ops.parsing import example_columns as columns
from millrace.ops.strings.string_arrays import each, text

__all__: list[str] = []

_TYPES = "list({float32, int64, string}) >= 0"
_SPLITS = "list({int32, int64}) >= 0"


def _keys(tensor: Any) -> list[str]:
    return [text(key) for key in np.ravel(tensor).tolist()]


def _refuse_ragged(*keys: Any) -> None:
    if any(np.size(k) for k in keys):
        raise NotImplementedError(
            "Ragged features are not there: use VarLenFeature, which gives a SparseTensor"
        )


# -- Example ------------------------------------------------------------------------------------


def _parse(
    serialized: Any,
    names: Any,
    sparse_keys: list[str],
    sparse_types: list[Any],
    dense_keys: list[str],
    dense_types: list[Any],
    dense_shapes: list[TensorShape],
    dense_defaults: list[Any],
) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """(sparse indices, sparse values, sparse shapes, dense values)."""
    if serialized.ndim > 1:
        raise ValueError(
            f"Expected serialized to be a scalar or vector, got shape: {list(serialized.shape)}"
        )
    is_batch = serialized.ndim == 1
    batch = serialized.reshape(-1).tolist()
    given = np.reshape(names, -1).tolist()
    if given and is_batch and len(given) != len(batch):
        raise ValueError(
            f"Expected len(names) == len(serialized), but got: {len(given)} vs. {len(batch)}"
        )
    places = columns.Places(given, is_batch)
    dense = list(zip(dense_keys, dense_types, dense_shapes, dense_defaults, strict=True))
    sparse = list(zip(sparse_keys, sparse_types, strict=True))

    def read(features: columns.Features) -> tuple[list[Any], list[Any]]:
        found = columns.dense_columns(features, dense, places)
        return found, [columns.sparse_column(features, *each, places) for each in sparse]

    found, parts = columns.read_examples(batch, [*dense_keys, *sparse_keys], read)
    indices, values, shapes = ([part[i] for part in parts] for i in range(3))
    return indices, values, shapes, found if is_batch else [column[0] for column in found]


def _example_shapes(c: ShapeContext) -> list[TensorShape]:
    serialized = c.shape("serialized")
    rank = serialized.ndims
    if c.op.type == "ParseExample":
        serialized.assert_has_rank(1)
    elif c.op.type == "ParseSingleExample":
        serialized.assert_has_rank(0)
    elif rank is not None and rank > 1:
        raise ValueError(f"Shape must be at most rank 1 but is rank {rank}")
    count = len(c.attr("sparse_types"))
    wide = None if rank is None else rank + 1
    sparse = (
        [TensorShape([None, wide])] * count
        + [TensorShape([None])] * count
        + [TensorShape([wide])] * count
    )
    dense = [
        unknown_shape() if rank is None else serialized.concatenate(shape)
        for shape in c.attr("dense_shapes")
    ]
    ragged = [unknown_shape()] * (c.output_count - len(sparse) - len(dense))
    return sparse + dense + ragged


@op(
    "ParseExampleV2(serialized: string, names: string, sparse_keys: string, dense_keys: string, "
    "ragged_keys: string, dense_defaults: [Tdense]) -> (sparse_indices: num_sparse*int64, "
    "sparse_values: [sparse_types], sparse_shapes: num_sparse*int64, dense_values: [Tdense], "
    "ragged_values: [ragged_value_types], ragged_row_splits: [ragged_split_types]) where "
    f"Tdense: {_TYPES}; num_sparse: int >= 0; sparse_types: {_TYPES}; "
    f"ragged_value_types: {_TYPES}; ragged_split_types: {_SPLITS}; dense_shapes: list(shape) >= 0",
    shape=_example_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def ParseExampleV2(
    serialized: Any,
    names: Any,
    sparse_keys: Any,
    dense_keys: Any,
    ragged_keys: Any,
    dense_defaults: list[Any],
    *,
    Tdense: Any,
    sparse_types: Any,
    dense_shapes: Any,
) -> Any:
    """Features of Examples: of a batch, or of one."""
    _refuse_ragged(ragged_keys)
    parsed = _parse(
        serialized,
        names,
        _keys(sparse_keys),
        sparse_types,
        _keys(dense_keys),
        Tdense,
        dense_shapes,
        dense_defaults,
    )
    return *parsed, [], []


@op(
    "ParseExample(serialized: string, names: string, sparse_keys: Nsparse*string, "
    "dense_keys: Ndense*string, dense_defaults: [Tdense]) -> (sparse_indices: Nsparse*int64, "
    "sparse_values: [sparse_types], sparse_shapes: Nsparse*int64, dense_values: [Tdense]) where "
    f"Nsparse: int >= 0; Ndense: int >= 0; sparse_types: {_TYPES}; Tdense: {_TYPES}; "
    "dense_shapes: list(shape) >= 0",
    shape=_example_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def ParseExample(
    serialized: Any,
    names: Any,
    sparse_keys: list[Any],
    dense_keys: list[Any],
    dense_defaults: list[Any],
    *,
    sparse_types: Any,
    Tdense: Any,
    dense_shapes: Any,
) -> Any:
    """Features of a batch of Examples, as TensorFlow 1 asks for them."""
    return _parse(
        serialized,
        names,
        [key for item in sparse_keys for key in _keys(item)],
        sparse_types,
        [key for item in dense_keys for key in _keys(item)],
        Tdense,
        dense_shapes,
        dense_defaults,
    )


@op(
    "ParseSingleExample(serialized: string, dense_defaults: [Tdense]) -> "
    "(sparse_indices: num_sparse*int64, sparse_values: [sparse_types], "
    "sparse_shapes: num_sparse*int64, dense_values: [Tdense]) where num_sparse: int >= 0; "
    "sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; "
    f"sparse_types: {_TYPES}; Tdense: {_TYPES}; dense_shapes: list(shape) >= 0",
    shape=_example_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def ParseSingleExample(
    serialized: Any,
    dense_defaults: list[Any],
    *,
    sparse_keys: list[bytes],
    dense_keys: list[bytes],
    sparse_types: Any,
    Tdense: Any,
    dense_shapes: Any,
) -> Any:
    """Features of one Example."""
    return _parse(
        serialized,
        [],
        [text(key) for key in sparse_keys],
        sparse_types,
        [text(key) for key in dense_keys],
        Tdense,
        dense_shapes,
        dense_defaults,
    )


@op(
    "DecodeJSONExample(json_examples: string) -> binary_examples: string",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
)
def DecodeJSONExample(json_examples: Any) -> Any:
    """Examples written as JSON, as serialized messages."""

    def convert(string: bytes) -> bytes:
        try:
            message = json_format.Parse(string.decode(), Example())
        except Exception as error:
            raise ValueError(f"Error while parsing JSON: {error}") from None
        return bytes(message.SerializeToString())

    return each(json_examples, convert)


# -- SequenceExample ------------------------------------------------------------------------------


class _Wanted:
    """What a SequenceExample op asks for: keys and types of context and feature lists."""

    def __init__(self, node: Any, keys: dict[str, list[str]], defaults: list[Any]) -> None:
        attrs = node.attrs
        self.context_sparse = list(
            zip(keys["context_sparse"], attrs["context_sparse_types"], strict=True)
        )
        self.context_dense = list(
            zip(
                keys["context_dense"],
                attrs["Tcontext_dense"],
                attrs["context_dense_shapes"],
                defaults,
                strict=True,
            )
        )
        self.list_sparse = list(
            zip(keys["feature_list_sparse"], attrs["feature_list_sparse_types"], strict=True)
        )
        self.list_dense = list(
            zip(
                keys["feature_list_dense"],
                attrs["feature_list_dense_types"],
                attrs["feature_list_dense_shapes"],
                strict=True,
            )
        )


def _parse_sequences(
    serialized: Any, names: Any, wanted: _Wanted, assumed_empty: set[str]
) -> tuple[list[list[Any]], list[list[Any]], list[Any], list[Any]]:
    """(context outputs, feature list outputs), each as lists of arrays by output argument."""
    is_batch = serialized.ndim == 1
    batch = serialized.reshape(-1).tolist()
    places = columns.Places(np.reshape(names, -1).tolist(), is_batch)
    messages = [
        columns.parse_sequence_example(string, places.name(i)) for i, string in enumerate(batch)
    ]
    maps = columns.encoded([message.context for message in messages])
    context_dense = [_context_column(maps, *feature, places) for feature in wanted.context_dense]
    context_sparse = [
        _context_sparse(maps, key, kind, places) for key, kind in wanted.context_sparse
    ]
    steps = [
        columns.dense_steps(messages, key, kind, shape, places, key in assumed_empty)
        for key, kind, shape in wanted.list_dense
    ]
    list_sparse = [
        columns.sparse_steps(messages, key, kind, places) for key, kind in wanted.list_sparse
    ]
    list_dense = [column for column, _ in steps]
    lengths = [length for _, length in steps]
    if not is_batch:
        context_dense = [column[0] for column in context_dense]
        list_dense = [column[0] for column in list_dense]
        lengths = [length[0] for length in lengths]
        list_sparse = [
            (indices[:, 1:], values, shape[1:]) for indices, values, shape in list_sparse
        ]
    context = [[part[i] for part in context_sparse] for i in range(3)] + [context_dense]
    lists = [[part[i] for part in list_sparse] for i in range(3)] + [list_dense]
    return context, lists, lengths, []


def _context_column(
    maps: columns.Features,
    key: str,
    kind: Any,
    shape: TensorShape,
    default: Any,
    places: columns.Places,
) -> Any:
    _, _, sizes = _context_sparse(maps, key, kind, columns.Places([], is_batch=True))
    count = int(np.prod(columns.known_sizes(shape)))
    if not default.size and sizes[1] != count:
        raise ValueError(
            f"Inconsistent max number of elements for feature {key}: expected {count}, but found "
            f"{sizes[1]}"
        )
    return columns.fixed_column(maps, key, kind, shape, default, places)


def _context_sparse(maps: columns.Features, key: str, kind: Any, places: columns.Places) -> Any:
    try:
        return columns.sparse_column(maps, key, kind, places)
    except columns.WrongType as wrong:
        raise ValueError(
            f"Name: {places.name(wrong.index)}, Context feature: {key}.  Data types don't match. "
            f"Expected type: {columns.FIELDS[kind][1]}"
        ) from None


def _sequence_shapes(c: ShapeContext) -> list[TensorShape]:
    serialized = c.shape("serialized")
    rank = 0 if c.op.type == "ParseSingleSequenceExample" else serialized.ndims
    wide = (lambda extra: None) if rank is None else (lambda extra: rank + extra)
    batch = serialized if rank is not None else unknown_shape()

    def sparse(count: int, extra: int) -> list[TensorShape]:
        return (
            [TensorShape([None, wide(extra)])] * count
            + [TensorShape([None])] * count
            + [TensorShape([wide(extra)])] * count
        )

    context_dense = [batch.concatenate(s) for s in c.attr("context_dense_shapes")]
    dense = [
        batch.concatenate(TensorShape([None])).concatenate(s) if rank is not None else batch
        for s in c.attr("feature_list_dense_shapes")
    ]
    context = sparse(len(c.attr("context_sparse_types")), 1) + context_dense
    lists = sparse(len(c.attr("feature_list_sparse_types")), 2) + dense
    shapes = context + lists
    return shapes + [batch] * (c.output_count - len(shapes))


_SEQUENCE_ATTRS = (
    f"Nfeature_list_sparse: int >= 0 = 0; Nfeature_list_dense: int >= 0 = 0; "
    f"context_sparse_types: {_TYPES} = []; Tcontext_dense: {_TYPES} = []; "
    f"feature_list_dense_types: {_TYPES} = []; context_dense_shapes: list(shape) >= 0 = []; "
    f"feature_list_sparse_types: {_TYPES} = []; feature_list_dense_shapes: list(shape) >= 0 = []"
)
_SEQUENCE_OUTPUTS = (
    "context_sparse_indices: Ncontext_sparse*int64, "
    "context_sparse_values: [context_sparse_types], "
    "context_sparse_shapes: Ncontext_sparse*int64, context_dense_values: [Tcontext_dense]"
)
_LIST_OUTPUTS = (
    "feature_list_sparse_indices: Nfeature_list_sparse*int64, "
    "feature_list_sparse_values: [feature_list_sparse_types], "
    "feature_list_sparse_shapes: Nfeature_list_sparse*int64, "
    "feature_list_dense_values: [feature_list_dense_types]"
)


@op(
    "ParseSequenceExampleV2(serialized: string, debug_name: string, context_sparse_keys: string, "
    "context_dense_keys: string, context_ragged_keys: string, feature_list_sparse_keys: string, "
    "feature_list_dense_keys: string, feature_list_ragged_keys: string, "
    "feature_list_dense_missing_assumed_empty: bool, context_dense_defaults: [Tcontext_dense]) "
    f"-> ({_SEQUENCE_OUTPUTS}, context_ragged_values: [context_ragged_value_types], "
    f"context_ragged_row_splits: [context_ragged_split_types], {_LIST_OUTPUTS}, "
    "feature_list_dense_lengths: Nfeature_list_dense*int64, "
    "feature_list_ragged_values: [feature_list_ragged_value_types], "
    "feature_list_ragged_outer_splits: [feature_list_ragged_split_types], "
    "feature_list_ragged_inner_splits: [feature_list_ragged_split_types]) where "
    "Ncontext_sparse: int >= 0 = 0; "
    f"context_ragged_value_types: {_TYPES} = []; context_ragged_split_types: {_SPLITS} = []; "
    f"feature_list_ragged_value_types: {_TYPES} = []; "
    f"feature_list_ragged_split_types: {_SPLITS} = []; {_SEQUENCE_ATTRS}",
    shape=_sequence_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def ParseSequenceExampleV2(
    serialized: Any,
    debug_name: Any,
    context_sparse_keys: Any,
    context_dense_keys: Any,
    context_ragged_keys: Any,
    feature_list_sparse_keys: Any,
    feature_list_dense_keys: Any,
    feature_list_ragged_keys: Any,
    feature_list_dense_missing_assumed_empty: Any,
    context_dense_defaults: list[Any],
    *,
    node: Any,
) -> Any:
    """Context and feature lists of SequenceExamples: of a batch, or of one."""
    _refuse_ragged(context_ragged_keys, feature_list_ragged_keys)
    keys = {
        "context_sparse": _keys(context_sparse_keys),
        "context_dense": _keys(context_dense_keys),
        "feature_list_sparse": _keys(feature_list_sparse_keys),
        "feature_list_dense": _keys(feature_list_dense_keys),
    }
    flags = np.ravel(feature_list_dense_missing_assumed_empty).tolist()
    assumed = {key for key, flag in zip(keys["feature_list_dense"], flags, strict=True) if flag}
    wanted = _Wanted(node, keys, context_dense_defaults)
    context, lists, lengths, none = _parse_sequences(serialized, debug_name, wanted, assumed)
    return *context, none, none, *lists, lengths, none, none, none


@op(
    "ParseSequenceExample(serialized: string, debug_name: string, "
    "context_dense_defaults: [Tcontext_dense]) -> "
    f"({_SEQUENCE_OUTPUTS}, {_LIST_OUTPUTS}, "
    "feature_list_dense_lengths: Nfeature_list_dense*int64) where "
    "feature_list_dense_missing_assumed_empty: list(string) >= 0; "
    "context_sparse_keys: list(string) >= 0; context_dense_keys: list(string) >= 0; "
    "feature_list_sparse_keys: list(string) >= 0; feature_list_dense_keys: list(string) >= 0; "
    f"Ncontext_sparse: int >= 0 = 0; Ncontext_dense: int >= 0 = 0; {_SEQUENCE_ATTRS}",
    shape=_sequence_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def ParseSequenceExample(
    serialized: Any, debug_name: Any, context_dense_defaults: list[Any], *, node: Any
) -> Any:
    """Context and feature lists of a batch of SequenceExamples, as TensorFlow 1 asks for them."""
    keys = {
        part: [text(key) for key in node.attrs[f"{part}_keys"]]
        for part in ("context_sparse", "context_dense", "feature_list_sparse", "feature_list_dense")
    }
    assumed = {text(key) for key in node.attrs["feature_list_dense_missing_assumed_empty"]}
    wanted = _Wanted(node, keys, context_dense_defaults)
    context, lists, lengths, _ = _parse_sequences(serialized, debug_name, wanted, assumed)
    return *context, *lists, lengths


@op(
    "ParseSingleSequenceExample(serialized: string, "
    "feature_list_dense_missing_assumed_empty: string, "
    "context_sparse_keys: Ncontext_sparse*string, context_dense_keys: Ncontext_dense*string, "
    "feature_list_sparse_keys: Nfeature_list_sparse*string, "
    "feature_list_dense_keys: Nfeature_list_dense*string, "
    "context_dense_defaults: [Tcontext_dense], debug_name: string) -> "
    f"({_SEQUENCE_OUTPUTS}, {_LIST_OUTPUTS}) where "
    f"Ncontext_sparse: int >= 0 = 0; Ncontext_dense: int >= 0 = 0; {_SEQUENCE_ATTRS}",
    shape=_sequence_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def ParseSingleSequenceExample(
    serialized: Any,
    feature_list_dense_missing_assumed_empty: Any,
    context_sparse_keys: list[Any],
    context_dense_keys: list[Any],
    feature_list_sparse_keys: list[Any],
    feature_list_dense_keys: list[Any],
    context_dense_defaults: list[Any],
    debug_name: Any,
    *,
    node: Any,
) -> Any:
    """Context and feature lists of one SequenceExample."""
    parts = {
        "context_sparse": context_sparse_keys,
        "context_dense": context_dense_keys,
        "feature_list_sparse": feature_list_sparse_keys,
        "feature_list_dense": feature_list_dense_keys,
    }
    keys = {part: [key for item in items for key in _keys(item)] for part, items in parts.items()}
    assumed = set(_keys(feature_list_dense_missing_assumed_empty))
    wanted = _Wanted(node, keys, context_dense_defaults)
    name = debug_name if np.size(debug_name) and debug_name.reshape(-1)[0] else []
    context, lists, _, _ = _parse_sequences(serialized, name, wanted, assumed)
    return *context, *lists
