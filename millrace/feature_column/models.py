"""`input_layer`, `linear_model` and what goes with them: columns of a batch, put together.

Variables are made in variable scopes under the names that TensorFlow gives them, so that
checkpoints go both ways.
"""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.feature_column.column import (
    FeatureColumn,
    _CategoricalColumn,
    _DenseColumn,
    _FeatureColumn,
    _SequenceDenseColumn,
)
from millrace.feature_column.transformation import (
    _LazyBuilder,
    check_batch_sizes,
    normalized,
)

__all__ = [
    "InputLayer",
    "input_layer",
    "linear_model",
    "make_parse_example_spec",
    "make_parse_example_spec_v2",
    "sequence_input_layer",
]


def _columns(feature_columns: Any) -> list[Any]:
    return normalized(feature_columns, _FeatureColumn, "_FeatureColumn")


def _collections(weight_collections: Any) -> list[Any]:
    chosen = list(weight_collections or [])
    for key in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES):
        if key not in chosen:
            chosen.append(key)
    return chosen


def input_layer(
    features: Any,
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Any:
    """The dense columns of a batch side by side, in the order of their names.

    Args:
      features: Tensors and SparseTensors by key.
      feature_columns: Dense columns.
      weight_collections: Collections for the variables, besides the usual ones.
      trainable: Whether the variables are trained.
      cols_to_vars: Filled with the variables of each column.
      cols_to_output_tensors: Filled with the matrix of each column.

    Returns:
      A matrix with a row for each example.

    Raises:
      ValueError: A column is not dense, a name comes twice, or batch sizes differ.
    """
    columns = _dense_columns(feature_columns)
    with tf.variable_scope(None, default_name="input_layer", values=features.values()):
        return _concatenated(
            features, columns, weight_collections, trainable, cols_to_vars, cols_to_output_tensors
        )


def _dense_columns(feature_columns: Any) -> list[Any]:
    columns = _columns(feature_columns)
    for column in columns:
        if not isinstance(column, _DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical "
                f"column with an embedding_column or indicator_column. Given: {column}"
            )
    return columns


def _concatenated(
    features: Any,
    columns: list[Any],
    weight_collections: Any,
    trainable: bool,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Any:
    collections = _collections(weight_collections)
    builder = _LazyBuilder(features)
    ordered = sorted(columns, key=lambda column: column.name)
    outputs = []
    for column in ordered:
        with tf.variable_scope(None, default_name=column._var_scope_name) as scope:
            tensor = column._get_dense_tensor(
                builder, weight_collections=collections, trainable=trainable
            )
            outputs.append(_as_matrix(tensor, column))
            if cols_to_vars is not None:
                cols_to_vars[column] = tf.get_collection(
                    tf.GraphKeys.GLOBAL_VARIABLES, scope=scope.name
                )
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = outputs[-1]
    check_batch_sizes(outputs, ordered)
    return tf.concat(outputs, 1)


def _as_matrix(tensor: Any, column: Any) -> Any:
    width = column._variable_shape.num_elements()
    return tf.reshape(tensor, (tf.shape(tensor)[0], width))


class InputLayer:
    """`input_layer` that uses the same variables each time that it is called."""

    def __init__(
        self,
        feature_columns: Any,
        weight_collections: Any = None,
        trainable: bool = True,
        cols_to_vars: dict[Any, Any] | None = None,
        name: str = "feature_column_input_layer",
        create_scope_now: bool = True,
    ) -> None:
        """Takes `input_layer`'s arguments, and the name of the variable scope."""
        self._columns = feature_columns
        self._name = name
        self._cols_to_vars = cols_to_vars
        self._template = tf.make_template(
            name,
            lambda features: _concatenated(
                features, _dense_columns(feature_columns), weight_collections, trainable
            ),
            create_scope_now_=create_scope_now,
        )

    def __call__(self, features: Any) -> Any:
        """The dense columns of a batch side by side."""
        return self._template(features)

    @property
    def name(self) -> str:
        """The name that the layer was given."""
        return self._name

    def __getattr__(self, name: str) -> Any:
        wanted = ("variables", "weights")
        if name in {f"{kind}{each}" for kind in _KINDS for each in wanted}:
            return getattr(self._template, name)
        raise AttributeError(f"'InputLayer' object has no attribute {name!r}")


_KINDS = ("", "trainable_", "non_trainable_")


def linear_model(
    features: Any,
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Any:
    """A linear model of columns: the weighted sum of all values, and a bias.

    A weight belongs to each number of a dense column, and to each id of a categorical one.

    Args:
      features: Tensors and SparseTensors by key.
      feature_columns: Dense and categorical columns.
      units: How many outputs.
      sparse_combiner: How an example's ids of one column are added up: ``"sum"``, ``"mean"`` or
        ``"sqrtn"``.
      weight_collections: Collections for the variables, besides the usual ones.
      trainable: Whether the variables are trained.
      cols_to_vars: Filled with the variables of each column, and of ``"bias"``.

    Returns:
      ``[batch, units]``.

    Raises:
      ValueError: A column is neither, a name comes twice, or batch sizes differ.
    """
    with tf.variable_scope(None, "linear_model") as scope:
        name = scope.name.rsplit("/", 1)[-1]
    return linear_model_in(
        name, features, feature_columns, units, sparse_combiner, weight_collections, trainable,
        cols_to_vars,
    )  # fmt: skip


def linear_model_in(
    name: str,
    features: Any,
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Any:
    """`linear_model` whose variable scope has this name."""
    columns = _columns(feature_columns)
    collections = _collections(weight_collections)
    for column in columns:
        if not isinstance(column, _DenseColumn | _CategoricalColumn):
            raise ValueError(
                "Items of feature_columns must be either a _DenseColumn or _CategoricalColumn. "
                f"Given: {column}"
            )
    builder = _LazyBuilder(features)
    scopes = _scopes(columns)
    ordered = [scopes[scope_name] for scope_name in sorted(scopes)]
    found: dict[Any, Any] = {}
    with tf.name_scope(name), tf.variable_scope(name):
        sums = []
        for scope_name, column in zip(sorted(scopes), ordered, strict=True):
            with tf.variable_scope(scope_name) as scope:
                weights = _weights(column, units, trainable, collections)
                sums.append(
                    _weighted_sum(column, builder, weights, sparse_combiner, collections, trainable)
                )
                found[column] = tf.get_collection(
                    tf.GraphKeys.GLOBAL_VARIABLES, scope=f"{scope.name}/"
                )
        check_batch_sizes(sums, ordered)
        without_bias = tf.add_n(sums, name="weighted_sum_no_bias")
        bias = _variable("bias_weights", [units], trainable, collections)
        found["bias"] = _parts(bias)[:1]  # of a bias in parts TensorFlow tells the first, too
        total = tf.nn.bias_add(without_bias, tf.convert_to_tensor(bias), name="weighted_sum")
    if cols_to_vars is not None:
        cols_to_vars.update(found)
    return total


def _scopes(columns: list[Any]) -> dict[str, Any]:
    """Columns by the scopes of their weights: names that are new where the model is made."""
    scopes = {}
    for column in sorted(columns, key=lambda column: column.name):
        with tf.variable_scope(None, default_name=column._var_scope_name) as scope:
            scopes[scope.name.rsplit("/", 1)[-1]] = column
    return scopes


def _weights(column: Any, units: int, trainable: bool, collections: list[Any]) -> Any:
    if isinstance(column, _CategoricalColumn):
        rows = column._num_buckets
    else:
        rows = column._variable_shape.num_elements()
    return _variable("weights", [rows, units], trainable, collections)


def _variable(name: str, shape: list[int], trainable: bool, collections: list[Any]) -> Any:
    return tf.get_variable(
        name,
        shape,
        tf.float32,
        initializer=tf.zeros_initializer(),
        trainable=trainable,
        collections=collections,
    )


def _parts(variable: Any) -> list[Any]:
    parts = getattr(variable, "_get_variable_list", None)
    return list(parts()) if parts else [variable]


def _weighted_sum(
    column: Any,
    builder: _LazyBuilder,
    weights: Any,
    sparse_combiner: str,
    collections: list[Any],
    trainable: bool,
) -> Any:
    options = {"weight_collections": collections, "trainable": trainable}
    if not isinstance(column, _CategoricalColumn):
        values = _as_matrix(column._get_dense_tensor(builder, **options), column)
        return tf.matmul(values, weights, name="weighted_sum")
    pair = column._get_sparse_tensors(builder, **options)
    ids, id_weights = _two_dimensional(pair.id_tensor), pair.weight_tensor
    return tf.nn.safe_embedding_lookup_sparse(
        weights,
        ids,
        sparse_weights=None if id_weights is None else _two_dimensional(id_weights),
        combiner=sparse_combiner,
        name="weighted_sum",
    )


def _two_dimensional(sparse: Any) -> Any:
    return tf.sparse_reshape(sparse, [tf.shape(sparse)[0], -1])


def sequence_input_layer(
    features: Any, feature_columns: Any, weight_collections: Any = None, trainable: bool = True
) -> tuple[Any, Any]:
    """`tf.contrib.feature_column.sequence_input_layer`: sequence columns side by side.

    Args:
      features: SparseTensors by key.
      feature_columns: Sequence columns.
      weight_collections: Collections for the variables, besides the usual ones.
      trainable: Whether the variables are trained.

    Returns:
      ``[batch, time, width]``, and the length of each sequence.

    Raises:
      ValueError: A column is no sequence column, or a name comes twice.
    """
    columns = _columns(feature_columns)
    for column in columns:
        if not isinstance(column, _SequenceDenseColumn):
            raise ValueError(
                "All feature_columns must be of type _SequenceDenseColumn. You can wrap a "
                "sequence_categorical_column with an embedding_column or indicator_column. "
                f"Given (type {type(column)}): {column}"
            )
    collections = _collections(weight_collections)
    with tf.variable_scope(None, default_name="sequence_input_layer", values=features.values()):
        builder = _LazyBuilder(features)
        outputs, lengths = [], []
        ordered = sorted(columns, key=lambda column: column.name)
        for column in ordered:
            with tf.variable_scope(None, default_name=column._var_scope_name):
                dense, length = column._get_sequence_dense_tensor(
                    builder, weight_collections=collections, trainable=trainable
                )
                width = column._variable_shape.num_elements()
                shape = tf.shape(dense)
                outputs.append(tf.reshape(dense, [shape[0], shape[1], width]))
                lengths.append(length)
        check_batch_sizes(outputs, ordered)
        check_batch_sizes(lengths, ordered)
        return tf.concat(outputs, -1), same_lengths(lengths)


def same_lengths(lengths: list[Any]) -> Any:
    """The lengths of several columns, which must be the same."""
    with tf.name_scope(None, "assert_all_equal", values=lengths):
        if len(lengths) == 1:
            return lengths[0]
        with tf.control_dependencies([tf.assert_equal(lengths[0], each) for each in lengths[1:]]):
            return tf.identity(lengths[0])


def _transform_features(features: Any, feature_columns: Any) -> dict[Any, Any]:
    """What each column makes of a batch, before it is looked up or put together."""
    with tf.name_scope(None, default_name="transform_features", values=features.values()):
        builder = _LazyBuilder(features)
        outputs = {}
        for column in sorted(_columns(feature_columns), key=lambda column: column.name):
            with tf.name_scope(None, default_name=column.name):
                outputs[column] = builder.get(column)
        return outputs


def _joined_specs(columns: Any, base: Any, hook: str) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for column in columns:
        if not isinstance(column, base):
            raise ValueError(
                f"All feature_columns must be {base.__name__} instances. Given: {column}"
            )
        for key, spec in getattr(column, hook).items():
            if joined.setdefault(key, spec) != spec:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. "
                    f"Given {spec} and {joined[key]}"
                )
    return joined


def make_parse_example_spec(feature_columns: Any) -> dict[str, Any]:
    """What `tf.parse_example` is to be told so that it gives these columns' features.

    Raises:
      ValueError: Something is no column, or two columns want the same feature parsed differently.
    """
    return _joined_specs(feature_columns, _FeatureColumn, "_parse_example_spec")


def make_parse_example_spec_v2(feature_columns: Any) -> dict[str, Any]:
    """`make_parse_example_spec` for columns of the second generation."""
    return _joined_specs(feature_columns, FeatureColumn, "parse_example_spec")
