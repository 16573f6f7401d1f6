"""Layers of feature columns: `DenseFeatures` and `SequenceFeatures`."""

from __future__ import annotations

import re
from typing import Any

import millrace as tf
from millrace.feature_column.column import DenseColumn, FeatureColumn, SequenceDenseColumn
from millrace.feature_column.models import same_lengths
from millrace.feature_column.serialization import (
    deserialize_feature_column,
    serialize_feature_column,
)
from millrace.feature_column.state import LayerState
from millrace.feature_column.transformation import (
    FeatureTransformationCache,
    check_batch_sizes,
    normalized,
)
from millrace.keras.engine.base_layer import Layer

__all__ = ["DenseFeatures", "SequenceFeatures", "scope_name_of"]


def scope_name_of(column: Any) -> str:
    """The variable scope of a column in a layer."""
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", column.name)


class _FeaturesLayer(Layer):
    """What both layers share: the columns' variables are the layer's weights."""

    _expected: Any = FeatureColumn

    def __init__(
        self,
        feature_columns: Any,
        trainable: bool = True,
        name: str | None = None,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, trainable=trainable, **kwargs)
        columns = normalized(feature_columns, FeatureColumn, "FeatureColumn")
        self._feature_columns = sorted(columns, key=lambda column: column.name)
        self._state_manager = LayerState(self, self.trainable)
        self._partitioner = partitioner
        for column in self._feature_columns:
            if not isinstance(column, self._expected):
                raise ValueError(
                    f"Items of feature_columns must be a {self._expected}. You can wrap a "
                    "categorical column with an embedding_column or indicator_column. "
                    f"Given: {column}"
                )

    def build(self, input_shape: Any) -> None:
        """Makes the columns' variables."""
        for column in self._feature_columns:
            with (
                tf.variable_scope(self.name, partitioner=self._partitioner),
                tf.variable_scope(scope_name_of(column)),
            ):
                column.create_state(self._state_manager)
        super().build(None)

    def _target_shape(self, input_shape: Any, width: int) -> tuple[Any, ...]:
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The widths of all columns together."""
        widths = (column.variable_shape.num_elements() for column in self._feature_columns)
        return self._target_shape(input_shape, sum(widths))

    def _reshaped(self, column: Any, tensor: Any) -> Any:
        width = column.variable_shape.num_elements()
        return tf.reshape(tensor, self._target_shape(tf.shape(tensor), width))

    def _joined(self, outputs: list[Any]) -> Any:
        check_batch_sizes(outputs, self._feature_columns)
        return tf.concat(outputs, -1)

    def _ask(self, column: Any, hook: str, cache: Any, training: Any) -> Any:
        """Calls a column's hook, with `training` if it takes that."""
        if training is None:
            return getattr(column, hook)(cache, self._state_manager)
        try:
            return getattr(column, hook)(cache, self._state_manager, training=training)
        except TypeError:
            return getattr(column, hook)(cache, self._state_manager)

    def get_config(self) -> dict[str, Any]:
        """The columns, written out."""
        return {
            **super().get_config(),
            "feature_columns": [serialize_feature_column(c) for c in self._feature_columns],
            "partitioner": self._partitioner,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer that `get_config` described."""
        known: dict[str, Any] = {}
        columns = [
            deserialize_feature_column(each, custom_objects, known)
            for each in config["feature_columns"]
        ]
        return cls(**{**config, "feature_columns": columns})


def _cache(features: Any) -> FeatureTransformationCache:
    if not isinstance(features, dict):
        raise ValueError("We expected a dictionary here. Instead we got: ", features)
    return FeatureTransformationCache(features)


class DenseFeatures(_FeaturesLayer):
    """The dense columns of a batch side by side, in the order of their names.

    Args:
      feature_columns: Dense columns.
      trainable: Whether the columns' variables are trained.
      name: The layer's name, which is the variable scope.
      partitioner: How variables are cut into parts.
    """

    _expected = DenseColumn

    def _target_shape(self, input_shape: Any, width: int) -> tuple[Any, ...]:
        return (input_shape[0], width)

    def call(
        self,
        inputs: Any,
        cols_to_output_tensors: dict[Any, Any] | None = None,
        training: Any = None,
    ) -> Any:
        """A matrix with a row for each example.

        Args:
          inputs: Tensors and SparseTensors by key.
          cols_to_output_tensors: Filled with the matrix of each column.
          training: Passed to columns that take it.
        """
        cache = _cache(inputs)
        outputs = []
        for column in self._feature_columns:
            with tf.name_scope(scope_name_of(column)):
                tensor = self._ask(column, "get_dense_tensor", cache, training)
                outputs.append(self._reshaped(column, tensor))
                if cols_to_output_tensors is not None:
                    cols_to_output_tensors[column] = outputs[-1]
        return self._joined(outputs)


class SequenceFeatures(_FeaturesLayer):
    """Sequence columns of a batch side by side, and how long each sequence is.

    Args:
      feature_columns: Sequence columns.
      trainable: Whether the columns' variables are trained.
      name: The layer's name, which is the variable scope.
    """

    _expected = SequenceDenseColumn

    def _target_shape(self, input_shape: Any, width: int) -> tuple[Any, ...]:
        return (input_shape[0], input_shape[1], width)

    def call(self, inputs: Any, training: Any = None) -> Any:
        """``[batch, time, width]``, and the lengths."""
        cache = _cache(inputs)
        outputs, lengths = [], []
        for column in self._feature_columns:
            with tf.name_scope(scope_name_of(column)):
                dense, length = self._ask(column, "get_sequence_dense_tensor", cache, training)
                outputs.append(self._reshaped(column, dense))
                lengths.append(length)
        check_batch_sizes(lengths, self._feature_columns)
        return self._joined(outputs), same_lengths(lengths)
