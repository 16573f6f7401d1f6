"""Where the variables and tables of feature columns are kept.

`StateManager` is TensorFlow's interface. `LayerState` keeps them in a Keras layer;
`VariableScopeState` makes them in the current variable scope, as `tf.feature_column.input_layer`
does.
"""

from __future__ import annotations

import collections
from typing import Any

import millrace as tf

__all__ = ["LayerState", "StateManager", "VariableScopeState"]


class StateManager:
    """Makes and finds the variables and tables of feature columns."""

    def create_variable(
        self,
        feature_column: Any,
        name: str,
        shape: Any,
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> Any:
        """Makes a variable of a column."""
        raise NotImplementedError("StateManager.create_variable")

    def add_variable(self, feature_column: Any, var: Any) -> None:
        """Adds a variable that exists."""
        raise NotImplementedError("StateManager.add_variable")

    def get_variable(self, feature_column: Any, name: str) -> Any:
        """A variable of a column."""
        raise NotImplementedError("StateManager.get_var")

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        """Keeps something else for a column: a table."""
        raise NotImplementedError("StateManager.add_resource")

    def has_resource(self, feature_column: Any, name: str) -> bool:
        """Whether `add_resource` was called with this name."""
        raise NotImplementedError("StateManager.has_resource")

    def get_resource(self, feature_column: Any, name: str) -> Any:
        """What `add_resource` was given."""
        raise NotImplementedError("StateManager.get_resource")


class LayerState(StateManager):
    """The variables of the columns are weights of a layer."""

    def __init__(self, layer: Any, trainable: bool) -> None:
        """Takes the layer, and whether variables may be trained at all."""
        self._layer = layer
        self._trainable = trainable
        self._variables: dict[Any, dict[str, Any]] = collections.defaultdict(dict)
        self._resources: dict[Any, dict[str, Any]] = collections.defaultdict(dict)

    def create_variable(
        self,
        feature_column: Any,
        name: str,
        shape: Any,
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> Any:
        """Makes a weight of the layer, in the current variable scope."""
        if name in self._variables[feature_column]:
            raise ValueError("Variable already exists.")
        variable = self._layer.add_weight(
            name=name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            trainable=self._trainable and trainable,
            use_resource=use_resource,
            getter=tf.get_variable,
        )
        self._variables[feature_column][name] = variable
        return variable

    def get_variable(self, feature_column: Any, name: str) -> Any:
        """A variable of a column."""
        if name in self._variables[feature_column]:
            return self._variables[feature_column][name]
        raise ValueError("Variable does not exist.")

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        """Keeps a table for a column."""
        self._resources[feature_column][name] = resource

    def has_resource(self, feature_column: Any, name: str) -> bool:
        """Whether there is such a table."""
        return name in self._resources[feature_column]

    def get_resource(self, feature_column: Any, name: str) -> Any:
        """A table of a column."""
        if name not in self._resources[feature_column]:
            raise ValueError("Resource does not exist.")
        return self._resources[feature_column][name]


class VariableScopeState(StateManager):
    """The variables of the columns are those of the current variable scope, which shares them.

    Attributes:
      collections: The collections that variables go to; None for the usual ones.
      trainable: Whether variables may be trained.
    """

    def __init__(self, collections: list[Any] | None, trainable: bool | None) -> None:
        """Takes what `tf.get_variable` is to be told."""
        self.collections = collections
        self.trainable = trainable
        self._made: dict[str, Any] = {}

    def create_variable(
        self,
        feature_column: Any,
        name: str,
        shape: Any,
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> Any:
        """Gets the variable of this name in the scope."""
        if self.collections and tf.GraphKeys.GLOBAL_VARIABLES not in self.collections:
            self.collections.append(tf.GraphKeys.GLOBAL_VARIABLES)
        self._made[name] = tf.get_variable(
            name=name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            trainable=trainable and self.trainable,
            collections=self.collections,
        )
        return self._made[name]

    def get_variable(self, feature_column: Any, name: str) -> Any:
        """The variable of a column, which is made when it is first asked for."""
        feature_column.create_state(self)
        return self._made[name]

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        """Keeps nothing: what was transformed is cached."""

    def has_resource(self, feature_column: Any, name: str) -> bool:
        """Nothing is kept."""
        return False
