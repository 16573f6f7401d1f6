"""Dense columns of ids: indicators and embeddings.

A column of ids becomes a dense one by counting them (`indicator_column`) or by looking up a row
of a table for each (`embedding_column`; `shared_embedding_columns` for several columns of ids with
one table).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import millrace as tf
from millrace.feature_column.column import (
    CategoricalColumn,
    IdWeightPair,
    OwnDenseColumn,
    OwnSequenceDenseColumn,
    TensorSequenceLengthPair,
    _CategoricalColumn,
    num_buckets_of,
    parse_spec_of,
    sparse_tensors_of,
)
from millrace.feature_column.combined import WeightedCategoricalColumn
from millrace.feature_column.sequence import SequenceCategoricalColumn
from millrace.feature_column.serialization import Configurable, register_feature_column
from millrace.feature_column.state import VariableScopeState
from millrace.feature_column.transformation import sequence_length

__all__ = [
    "EmbeddingColumn",
    "IndicatorColumn",
    "SharedEmbeddingColumn",
    "SharedEmbeddingColumnCreator",
    "embedding_column",
    "indicator_column",
    "shared_embedding_columns",
    "shared_embeddings",
]


class _OfIds(OwnDenseColumn, OwnSequenceDenseColumn):
    """What dense columns of ids share: they are of sequences if their ids are."""

    __slots__ = ()

    categorical_column: Any
    #: The function that made the column, and what its name ends with.
    _function = "embedding_column"
    _suffix = "embedding"

    @property
    def name(self) -> str:
        """Says what the ids are."""
        return f"{self.categorical_column.name}_{self._suffix}"

    @property
    def parents(self) -> list[Any]:
        """The ids."""
        return [self.categorical_column]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the ids."""
        return parse_spec_of(self.categorical_column)

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The ids."""
        return transformation_cache.get(self.categorical_column, state_manager)

    def _dense(self, pair: IdWeightPair, transformation_cache: Any, state_manager: Any) -> Any:
        raise NotImplementedError

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The value.

        Raises:
          ValueError: The ids are sequences.
        """
        if isinstance(self.categorical_column, SequenceCategoricalColumn):
            raise ValueError(
                f"In {self._function}: {self.name}. "
                "categorical_column must not be of type SequenceCategoricalColumn. "
                "Suggested fix A: If you wish to use DenseFeatures, use a non-sequence "
                "categorical_column_with_*. Suggested fix B: If you wish to create sequence "
                "input, use SequenceFeatures instead of DenseFeatures. "
                f"Given (type {type(self.categorical_column)}): {self.categorical_column}"
            )
        pair = sparse_tensors_of(self.categorical_column, transformation_cache, state_manager)
        return self._dense(pair, transformation_cache, state_manager)

    def get_sequence_dense_tensor(
        self, transformation_cache: Any, state_manager: Any
    ) -> TensorSequenceLengthPair:
        """The value of each step, and how many there are.

        Raises:
          ValueError: The ids are no sequences.
        """
        if not isinstance(self.categorical_column, SequenceCategoricalColumn):
            raise ValueError(
                f"In {self._function}: {self.name}. "
                "categorical_column must be of type SequenceCategoricalColumn to use "
                "SequenceFeatures. Suggested fix: Use one of "
                "sequence_categorical_column_with_*. "
                f"Given (type {type(self.categorical_column)}): {self.categorical_column}"
            )
        pair = sparse_tensors_of(self.categorical_column, transformation_cache, state_manager)
        dense = self._dense(pair, transformation_cache, state_manager)
        return TensorSequenceLengthPair(dense, sequence_length(pair.id_tensor))


class _IndicatorFields(NamedTuple):
    categorical_column: Any


@register_feature_column
class IndicatorColumn(Configurable, _OfIds, _IndicatorFields):
    """How often each id occurs, or the sum of its weights."""

    _function = "indicator_column"
    _suffix = "indicator"

    @property
    def variable_shape(self) -> Any:
        """A number for each id."""
        return tf.TensorShape([1, num_buckets_of(self.categorical_column)])

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The numbers."""
        pair = sparse_tensors_of(self.categorical_column, transformation_cache, state_manager)
        size = num_buckets_of(self.categorical_column)
        if pair.weight_tensor is not None:
            merged = tf.sparse_merge(pair.id_tensor, pair.weight_tensor, vocab_size=size)
            # Ids that are out of range (-1, say) count nowhere.
            merged = tf.sparse_slice(merged, [0, 0], merged.dense_shape)
            return tf.scatter_nd(merged.indices, merged.values, merged.dense_shape)
        ids = tf.sparse_tensor_to_dense(pair.id_tensor, default_value=-1)
        one_hot = tf.one_hot(ids, depth=size, on_value=1.0, off_value=0.0)
        return tf.reduce_sum(one_hot, axis=[-2])

    def _dense(self, pair: IdWeightPair, transformation_cache: Any, state_manager: Any) -> Any:
        return transformation_cache.get(self, state_manager)


def _load(variable: Any, checkpoint: str | None, name: str | None) -> None:
    """Lets a table begin as a tensor of a checkpoint, if there is one."""
    if checkpoint is not None:
        parts = getattr(variable, "_get_variable_list", None)
        tf.train.init_from_checkpoint(checkpoint, {name: parts() if parts else variable})


def _look_up(column: Any, weights: Any, pair: IdWeightPair) -> Any:
    """The rows of a table for the ids of each example, combined."""
    rank = tf.dimension_value(pair.id_tensor.dense_shape.get_shape()[0])
    safe = column.use_safe_embedding_lookup or rank is None or rank > 2
    look_up: Any = tf.nn.safe_embedding_lookup_sparse if safe else tf.nn.embedding_lookup_sparse
    strategy = {} if safe else {"partition_strategy": "div"}
    return look_up(
        weights,
        pair.id_tensor,
        pair.weight_tensor,
        combiner=column.combiner,
        name=f"{column.name}_weights",
        max_norm=column.max_norm,
        **strategy,
    )


class _EmbeddingFields(NamedTuple):
    categorical_column: Any
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool
    use_safe_embedding_lookup: bool = True


@register_feature_column
class EmbeddingColumn(Configurable, _OfIds, _EmbeddingFields):
    """Rows of a table of its own."""

    @property
    def variable_shape(self) -> Any:
        """A row."""
        return tf.TensorShape([self.dimension])

    def create_state(self, state_manager: Any) -> None:
        """Makes the table."""
        state_manager.create_variable(
            self,
            name="embedding_weights",
            shape=(num_buckets_of(self.categorical_column), self.dimension),
            dtype=tf.float32,
            trainable=self.trainable,
            use_resource=True,
            initializer=self.initializer,
        )

    def _dense(self, pair: IdWeightPair, transformation_cache: Any, state_manager: Any) -> Any:
        weights = state_manager.get_variable(self, name="embedding_weights")
        _load(weights, self.ckpt_to_load_from, self.tensor_name_in_ckpt)
        return _look_up(self, weights, pair)


class _CollectedFields(NamedTuple):
    categorical_column: Any
    dimension: int
    combiner: str
    initializer: Any
    shared_embedding_collection_name: str
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool
    use_safe_embedding_lookup: bool = True


class _SharedEmbeddingColumn(_OfIds, _CollectedFields):
    """Rows of a table that columns share through a collection: the first generation only."""

    _suffix = "shared_embedding"

    @property
    def _is_v2_column(self) -> bool:
        return False

    @property
    def _var_scope_name(self) -> str:
        return self.shared_embedding_collection_name

    @property
    def variable_shape(self) -> Any:
        """A row."""
        return tf.TensorShape([self.dimension])

    def create_state(self, state_manager: Any) -> None:
        """Makes the table, for all columns that share it."""
        table = state_manager.create_variable(
            self,
            name="embedding_weights",
            shape=(num_buckets_of(self.categorical_column), self.dimension),
            dtype=tf.float32,
            trainable=self.trainable,
            initializer=self.initializer,
        )
        tf.add_to_collection(self.shared_embedding_collection_name, table)

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The rows."""
        with tf.name_scope(None, default_name=self.name):
            return super().get_dense_tensor(transformation_cache, state_manager)

    def _dense(self, pair: IdWeightPair, transformation_cache: Any, state_manager: Any) -> Any:
        weights = self._table(state_manager)
        _load(weights, self.ckpt_to_load_from, self.tensor_name_in_ckpt)
        return _look_up(self, weights, pair)

    def _table(self, state_manager: Any) -> Any:
        collection = self.shared_embedding_collection_name
        there = tf.get_collection(collection)
        advice = (
            "Suggested fix A: Choose a unique name for this collection. Suggested fix B: Do not "
            "add any variables to this collection. The feature_column library already adds a "
            "variable under the hood."
        )
        if len(there) > 1:
            raise ValueError(f"Collection {there} can only contain one variable. {advice}")
        if not there:
            return state_manager.get_variable(self, name="embedding_weights")
        wanted = (num_buckets_of(self.categorical_column), self.dimension)
        if there[0].get_shape() != wanted:
            raise ValueError(
                f"Shared embedding collection {collection} contains variable {there[0].name} of "
                f"unexpected shape {there[0].get_shape()}. Expected shape is {wanted}. {advice}"
            )
        return there[0]


class SharedEmbeddingColumnCreator:
    """Makes columns that share a table, and the table once for each graph."""

    def __init__(
        self,
        dimension: int,
        initializer: Any,
        ckpt_to_load_from: str | None,
        tensor_name_in_ckpt: str | None,
        num_buckets: int,
        trainable: bool,
        name: str = "shared_embedding_column_creator",
        use_safe_embedding_lookup: bool = True,
    ) -> None:
        """Takes what `shared_embeddings` was told."""
        self._dimension = dimension
        self._initializer = initializer
        self._checkpoint = ckpt_to_load_from, tensor_name_in_ckpt
        self._num_buckets = num_buckets
        self._trainable = trainable
        self._name = name
        self._use_safe_embedding_lookup = use_safe_embedding_lookup
        self._tables: dict[Any, Any] = {}

    def __call__(self, categorical_column: Any, combiner: str, max_norm: Any) -> Any:
        """A column with this table."""
        return SharedEmbeddingColumn(
            categorical_column, self, combiner, max_norm, self._use_safe_embedding_lookup
        )

    @property
    def embedding_weights(self) -> Any:
        """The table in the current graph."""
        graph = tf.get_default_graph()
        if graph not in self._tables:
            self._tables[graph] = tf.get_variable(
                name=self._name,
                shape=(self._num_buckets, self._dimension),
                dtype=tf.float32,
                initializer=self._initializer,
                trainable=self._trainable,
            )
            _load(self._tables[graph], *self._checkpoint)
        return self._tables[graph]

    @property
    def dimension(self) -> int:
        """The length of a row."""
        return self._dimension


class _SharedFields(NamedTuple):
    categorical_column: Any
    shared_embedding_column_creator: Any
    combiner: str
    max_norm: float | None
    use_safe_embedding_lookup: bool = True


@register_feature_column
class SharedEmbeddingColumn(_OfIds, _SharedFields):
    """Rows of a table that columns share through their creator: the second generation only."""

    _suffix = "shared_embedding"

    @property
    def variable_shape(self) -> Any:
        """A row."""
        return tf.TensorShape([self.shared_embedding_column_creator.dimension])

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The rows.

        Raises:
          ValueError: `input_layer` is asking, which is of the first generation.
        """
        if isinstance(state_manager, VariableScopeState):
            raise ValueError(
                "SharedEmbeddingColumns are not supported in `linear_model` or `input_layer`. "
                "Please use `DenseFeatures` or `LinearModel` instead."
            )
        with tf.name_scope(None, default_name=self.name):
            return super().get_dense_tensor(transformation_cache, state_manager)

    def _dense(self, pair: IdWeightPair, transformation_cache: Any, state_manager: Any) -> Any:
        return _look_up(self, self.shared_embedding_column_creator.embedding_weights, pair)


def indicator_column(categorical_column: Any) -> IndicatorColumn:
    """Counts of ids: a dense vector with a number for each.

    Args:
      categorical_column: The ids.

    Raises:
      ValueError: It is no categorical column.
    """
    if not isinstance(categorical_column, CategoricalColumn | _CategoricalColumn):
        raise ValueError(
            "Unsupported input type. Input must be a CategoricalColumn. "
            f"Given: {categorical_column}"
        )
    return IndicatorColumn(categorical_column)


def _checked_initializer(
    dimension: int | None, checkpoint: Any, tensor_name: Any, initializer: Any, of: str = ""
) -> Any:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (checkpoint is None) != (tensor_name is None):
        raise ValueError(
            "Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them."
        )
    if initializer is not None and not callable(initializer):
        raise ValueError(f"initializer must be callable if specified.{of}")
    if initializer is None:
        return tf.truncated_normal_initializer(mean=0.0, stddev=1 / math.sqrt(dimension))
    return initializer


def embedding_column(
    categorical_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """Rows of a table for ids.

    Args:
      categorical_column: The ids.
      dimension: The length of a row.
      combiner: How an example's rows become one: ``"mean"``, ``"sqrtn"`` or ``"sum"``.
      initializer: Of the table; truncated normal with deviation ``1 / sqrt(dimension)``.
      ckpt_to_load_from: A checkpoint that has the table.
      tensor_name_in_ckpt: Its name there.
      max_norm: Rows with a larger L2 norm are scaled down to it.
      trainable: Whether the table is trained.
      use_safe_embedding_lookup: False skips the care for empty rows and negative ids.

    Raises:
      ValueError: `dimension` is not positive, one of the two arguments about the checkpoint is
        missing, or `initializer` cannot be called.
    """
    of = f" Embedding of column_name: {getattr(categorical_column, 'name', categorical_column)}"
    initializer = _checked_initializer(
        dimension, ckpt_to_load_from, tensor_name_in_ckpt, initializer, of
    )
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )


def _shared(columns: Any, base: Any, what: str) -> tuple[int, str]:
    """How many ids columns that share a table have, and the table's name by default."""
    ordered = sorted(columns, key=lambda column: column.name)
    names = "_".join(column.name for column in ordered)
    if not isinstance(ordered[0], base):
        raise ValueError(
            f"All categorical_columns must be subclasses of {what}. "
            f"Given: {ordered[0]}, of type: {type(ordered[0])}"
        )
    count = num_buckets_of(ordered[0])
    first, *others = map(_innermost, ordered)
    for other in others:
        if not isinstance(other, type(first)):
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same "
                "type, or be weighted_categorical_column or sequence column of the same type. "
                f"Given column: {first} of type: {type(first)} does not match given column: "
                f"{other} of type: {type(other)}"
            )
        if num_buckets_of(other) != count:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same "
                f"number of buckets. Given column: {first} with buckets: {count} does not match "
                f"column: {other} with buckets: {num_buckets_of(other)}"
            )
    return count, f"{names}_shared_embedding"


def _innermost(column: Any) -> Any:
    while isinstance(column, WeightedCategoricalColumn | SequenceCategoricalColumn):
        column = column.categorical_column
    return column


def shared_embedding_columns(
    categorical_columns: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[Any]:
    """Rows of one table for the ids of several columns, for `input_layer`.

    Args:
      categorical_columns: The columns of ids, of one type and with as many ids.
      dimension: The length of a row.
      combiner: As for `embedding_column`.
      initializer: As for `embedding_column`.
      shared_embedding_collection_name: The collection in which the columns find the table, and
        its variable scope; made of the columns' names by default.
      ckpt_to_load_from: As for `embedding_column`.
      tensor_name_in_ckpt: As for `embedding_column`.
      max_norm: As for `embedding_column`.
      trainable: As for `embedding_column`.
      use_safe_embedding_lookup: As for `embedding_column`.

    Returns:
      A dense column for each column of ids.

    Raises:
      ValueError: As for `embedding_column`, or the columns differ.
    """
    initializer = _checked_initializer(
        dimension, ckpt_to_load_from, tensor_name_in_ckpt, initializer
    )
    _, default = _shared(categorical_columns, _CategoricalColumn, "_CategoricalColumn")
    return [
        _SharedEmbeddingColumn(
            column,
            dimension,
            combiner,
            initializer,
            shared_embedding_collection_name or default,
            ckpt_to_load_from,
            tensor_name_in_ckpt,
            max_norm,
            trainable,
            use_safe_embedding_lookup,
        )
        for column in categorical_columns
    ]


def shared_embeddings(
    categorical_columns: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[Any]:
    """Rows of one table for the ids of several columns, for `DenseFeatures`.

    The arguments are those of `shared_embedding_columns`; the collection's name is the table's.
    """
    initializer = _checked_initializer(
        dimension, ckpt_to_load_from, tensor_name_in_ckpt, initializer
    )
    count, default = _shared(categorical_columns, CategoricalColumn, "CategoricalColumn")
    creator = SharedEmbeddingColumnCreator(
        dimension,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        count,
        trainable,
        shared_embedding_collection_name or default,
        use_safe_embedding_lookup,
    )
    return [creator(column, combiner, max_norm) for column in categorical_columns]
