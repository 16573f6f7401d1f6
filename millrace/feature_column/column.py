"""What a feature column is, in TensorFlow's two generations.

The first generation's hooks begin with an underscore (`_transform_feature`, `_get_dense_tensor`)
and make their variables in the current variable scope. The second's have public names and make
them through a `StateManager`. Libraries subclass either. Millrace's own columns are written once,
for the second, and answer the first through `VariableScopeState`: a state manager whose state is
the variable scope.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import millrace as tf
from millrace.feature_column.state import StateManager, VariableScopeState

__all__ = [
    "CategoricalColumn",
    "DenseColumn",
    "FeatureColumn",
    "IdWeightPair",
    "SequenceDenseColumn",
    "TensorSequenceLengthPair",
    "is_feature_column_v2",
]


class IdWeightPair(NamedTuple):
    """A categorical column's ids, and their weights if it has any: SparseTensors."""

    id_tensor: Any
    weight_tensor: Any


class TensorSequenceLengthPair(NamedTuple):
    """A sequence column's values, ``[batch, time, ...]``, and the lengths, ``[batch]``."""

    dense_tensor: Any
    sequence_length: Any


class _Named(abc.ABC):
    """What both generations share: a name, and an order by what a column prints as."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The column's name, from which those of its variables are made."""

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: Any) -> bool:
        return str(self) > str(other)


class _FeatureColumn(_Named):
    """The first generation's base class."""

    __slots__ = ()

    @property
    def _var_scope_name(self) -> str:
        """The variable scope of the column's variables."""
        return self.name

    @abc.abstractmethod
    def _transform_feature(self, inputs: Any) -> Any:
        """The column's tensor, made of those that ``inputs.get(key)`` gives."""

    @property
    @abc.abstractmethod
    def _parse_example_spec(self) -> dict[str, Any]:
        """What `tf.parse_example` is to be told, by feature."""

    def _reset_config(self) -> None:
        """Accepted for libraries that call it."""


class _DenseColumn(_FeatureColumn):
    """First generation: a column whose value is a dense tensor."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def _variable_shape(self) -> Any:
        """The shape of one example's value."""

    @abc.abstractmethod
    def _get_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        """The value, ``[batch] + _variable_shape``."""


class _CategoricalColumn(_FeatureColumn):
    """First generation: a column whose value is ids."""

    __slots__ = ()

    IdWeightPair = IdWeightPair

    @property
    @abc.abstractmethod
    def _num_buckets(self) -> int:
        """How many ids there are."""

    @abc.abstractmethod
    def _get_sparse_tensors(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        """The ids, and their weights or None: an IdWeightPair."""


class _SequenceDenseColumn(_FeatureColumn):
    """First generation: a column whose value is a padded sequence."""

    __slots__ = ()

    TensorSequenceLengthPair = TensorSequenceLengthPair

    @abc.abstractmethod
    def _get_sequence_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        """The value and the lengths: a TensorSequenceLengthPair."""


class FeatureColumn(_Named):
    """The second generation's base class."""

    __slots__ = ()

    @abc.abstractmethod
    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The column's tensor, made of those that the cache gives."""

    @property
    @abc.abstractmethod
    def parse_example_spec(self) -> dict[str, Any]:
        """What `tf.parse_example` is to be told, by feature."""

    def create_state(self, state_manager: Any) -> None:
        """Makes the column's variables; most have none."""

    @property
    @abc.abstractmethod
    def _is_v2_column(self) -> bool:
        """Whether everything that the column is made of is of the second generation."""

    @property
    @abc.abstractmethod
    def parents(self) -> list[Any]:
        """The columns and keys of features that this column is made of."""

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs to make the column again."""
        return self._get_config()

    def _get_config(self) -> dict[str, Any]:
        raise NotImplementedError("Must be implemented in subclasses.")

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None, columns_by_name: Any = None
    ) -> Any:
        """A column from what `get_config` gave."""
        return cls._from_config(config, custom_objects, columns_by_name)

    @classmethod
    def _from_config(
        cls, config: dict[str, Any], custom_objects: Any = None, columns_by_name: Any = None
    ) -> Any:
        raise NotImplementedError("Must be implemented in subclasses.")


class DenseColumn(FeatureColumn):
    """A column whose value is a dense tensor."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def variable_shape(self) -> Any:
        """The shape of one example's value."""

    @abc.abstractmethod
    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The value, ``[batch] + variable_shape``."""


class CategoricalColumn(FeatureColumn):
    """A column whose value is ids."""

    __slots__ = ()

    IdWeightPair = IdWeightPair

    @property
    @abc.abstractmethod
    def num_buckets(self) -> int:
        """How many ids there are."""

    @abc.abstractmethod
    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The ids, and their weights or None: an IdWeightPair."""


class SequenceDenseColumn(FeatureColumn):
    """A column whose value is a padded sequence."""

    __slots__ = ()

    TensorSequenceLengthPair = TensorSequenceLengthPair

    @abc.abstractmethod
    def get_sequence_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The value and the lengths: a TensorSequenceLengthPair."""


class Column(FeatureColumn, _FeatureColumn):
    """The base of Millrace's own columns: both generations in one."""

    __slots__ = ()

    def _transform_feature(self, inputs: Any) -> Any:
        return self.transform_feature(inputs, VariableScopeState(None, None))

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.parse_example_spec

    @property
    def _is_v2_column(self) -> bool:
        return all(
            isinstance(parent, str) or getattr(parent, "_is_v2_column", False)
            for parent in self.parents
        )


class OwnDenseColumn(Column, DenseColumn, _DenseColumn):
    """Both generations of a dense column."""

    __slots__ = ()

    @property
    def _variable_shape(self) -> Any:
        return self.variable_shape

    def _get_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        return self.get_dense_tensor(inputs, VariableScopeState(weight_collections, trainable))


class OwnCategoricalColumn(Column, CategoricalColumn, _CategoricalColumn):
    """Both generations of a categorical column; its transformed feature is its ids."""

    __slots__ = ()

    @property
    def _num_buckets(self) -> int:
        return self.num_buckets

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> IdWeightPair:
        """The ids; there are no weights."""
        return IdWeightPair(transformation_cache.get(self, state_manager), None)

    def _get_sparse_tensors(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> IdWeightPair:
        return self.get_sparse_tensors(inputs, VariableScopeState(weight_collections, trainable))


class OwnSequenceDenseColumn(Column, SequenceDenseColumn, _SequenceDenseColumn):
    """Both generations of a sequence column."""

    __slots__ = ()

    def _get_sequence_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> TensorSequenceLengthPair:
        state = VariableScopeState(weight_collections, trainable)
        pair: TensorSequenceLengthPair = self.get_sequence_dense_tensor(inputs, state)
        return pair


def sparse_tensors_of(column: Any, cache: Any, state: StateManager | None) -> IdWeightPair:
    """The ids of a categorical column, by the hook of the generation that is asking."""
    if isinstance(state, VariableScopeState) or not isinstance(column, CategoricalColumn):
        collections = getattr(state, "collections", None)
        trainable = getattr(state, "trainable", None)
        pair: IdWeightPair = column._get_sparse_tensors(cache, collections, trainable)
    else:
        pair = column.get_sparse_tensors(cache, state)
    return pair


def num_buckets_of(column: Any) -> int:
    """How many ids a categorical column of either generation has."""
    own = isinstance(column, CategoricalColumn)
    return int(column.num_buckets if own else column._num_buckets)


def parse_spec_of(column: Any) -> dict[str, Any]:
    """What `tf.parse_example` is to be told for a column of either generation."""
    if isinstance(column, str):
        return {column: tf.VarLenFeature(tf.string)}
    own = isinstance(column, FeatureColumn)
    spec: dict[str, Any] = column.parse_example_spec if own else column._parse_example_spec
    return spec


def is_feature_column_v2(feature_columns: Any) -> bool:
    """Whether all columns, and all they are made of, are of the second generation."""
    return all(
        isinstance(column, FeatureColumn) and column._is_v2_column for column in feature_columns
    )
