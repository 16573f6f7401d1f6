"""`tf.layers.Layer`: a Keras layer whose variables live in variable scopes.

What it adds: variables come from `tf.get_variable` (so that they are shared, cut and placed as
the program's variable scopes say), losses go to REGULARIZATION_LOSSES, updates to UPDATE_OPS.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import millrace as tf
from millrace.keras.engine import base_layer, naming, state
from millrace.keras.engine.input_spec import InputSpec

__all__ = ["InputSpec", "Layer", "keras_style_scope", "set_keras_style"]


class _Style:
    """Whether layers of `tf.layers` behave as Keras's do."""

    keras = False


@contextlib.contextmanager
def keras_style_scope() -> Iterator[None]:
    """Layers made inside do not use variable scopes."""
    before = _Style.keras
    _Style.keras = True
    try:
        yield
    finally:
        _Style.keras = before


def set_keras_style() -> None:
    """Layers made from now on do not use variable scopes."""
    _Style.keras = True


class Layer(base_layer.Layer):
    """The base of `tf.layers`' classes.

    Attributes:
      scope_name: The variable scope, once the layer was called.
    """

    def __init__(
        self, trainable: bool = True, name: Any = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        scope = kwargs.pop("_scope", None)
        self._reuse = kwargs.pop("_reuse", None)
        self._keras_style = _Style.keras
        self._graph = None
        if self._keras_style and self._reuse is not None:
            raise ValueError("Keras-style layers cannot be used with `_reuse`.")
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)
        self._scope: Any = None
        self._current_scope: Any = None
        if scope is not None:
            self._set_scope(scope)

    def _init_set_name(self, name: Any, zero_based: bool = True) -> None:
        if self._keras_style:
            super()._init_set_name(name, zero_based)
            return
        if isinstance(name, tf.VariableScope):
            self._base_name = name.name
            self._name = self._unique_name()[0]
        elif name:
            self._base_name = self._name = name
        else:
            self._name, self._base_name = self._unique_name()

    def _unique_name(self) -> tuple[str, str]:
        base = naming.to_snake_case(type(self).__name__)
        namespace = tf.get_variable_scope().name
        return state.unique_object_name(base, namespace=namespace), base

    @property
    def graph(self) -> Any:
        """The graph of the layer."""
        return tf.get_default_graph() if self._graph is None else self._graph

    @property
    def scope_name(self) -> str:
        """The name of the variable scope.

        Raises:
          ValueError: The layer was not called yet.
        """
        if self._scope is None:
            raise ValueError(
                f'No name available for layer scope because the layer "{self.name}" has not been '
                "used yet. The scope name is determined the first time the layer instance is "
                "called. You must therefore call the layer before querying `scope_name`."
            )
        return str(self._scope.name)

    def _set_scope(self, scope: Any = None) -> None:
        if self._scope is not None:
            return
        if self._reuse:
            with tf.variable_scope(self._base_name if scope is None else scope) as captured:
                self._scope = captured
        else:
            with tf.variable_scope(scope, default_name=self._base_name) as captured:
                self._scope = captured

    def _name_scope(self) -> str:
        if self._keras_style or self._current_scope is None:
            return super()._name_scope()
        return str(self._current_scope.original_name_scope)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs the layer in its variable scope; `scope` names another one at the first call."""
        scope = kwargs.pop("scope", None)
        if self._keras_style:
            if scope is not None:
                raise ValueError("scope argument not allowed when keras style layers are enabled")
            return super().__call__(inputs, *args, **kwargs)
        self._set_scope(scope)
        with tf.variable_scope(
            self._scope, reuse=True if self.built else self._reuse, auxiliary_name_scope=False
        ) as current:
            self._current_scope = current
            if self._takes("scope"):
                kwargs["scope"] = current
            return super().__call__(inputs, *args, **kwargs)

    def add_weight(  # type: ignore[override]  # `partitioner` comes last, as TensorFlow has it
        self,
        name: Any,
        shape: Any,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        use_resource: bool | None = None,
        synchronization: Any = tf.VariableSynchronization.AUTO,
        aggregation: Any = tf.VariableAggregation.NONE,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Finds or makes a variable in the layer's variable scope.

        Args:
          name: Its name in the scope.
          shape: Its shape.
          dtype: Its type, the layer's when None.
          initializer: Its initial value, the scope's or Glorot's uniform one when None.
          regularizer: A function of the variable that gives a loss.
          trainable: Whether it is trained.
          constraint: A function that projects its value after an update.
          use_resource: Whether it is a resource variable.
          synchronization: For `tf.distribute`.
          aggregation: For `tf.distribute`.
          partitioner: How to cut it; the scope's when None.
          **kwargs: Further arguments of `tf.get_variable`.
        """
        options: dict[str, Any] = {
            "dtype": dtype,
            "initializer": initializer,
            "regularizer": regularizer,
            "trainable": trainable,
            "constraint": constraint,
            "use_resource": use_resource,
            "synchronization": synchronization,
            "aggregation": aggregation,
            "partitioner": partitioner,
            **kwargs,
        }
        if self._keras_style:
            return super().add_weight(name, shape, **options)
        self._set_scope(None)
        with (
            tf.variable_scope(
                self._scope,
                reuse=True if self.built else self._reuse,
                auxiliary_name_scope=False,
            ) as scope,
        ):
            self._current_scope = scope
            with tf.name_scope(self._name_scope()):
                before = set(tf.global_variables())
                options["getter"] = tf.get_variable
                if use_resource is None:
                    options["use_resource"] = scope.use_resource
                options.pop("regularizer")
                variable = super().add_weight(name, shape, **options)
                fresh = [v for v in base_layer.parts_of(variable) if v not in before]
                if regularizer is not None and fresh:
                    self._regularize_now(name, fresh, regularizer)
        return variable

    def _default_initializer(self, name: str | None, dtype: Any) -> Any:
        # That of the variable scope, unless there is none.
        return super()._default_initializer(name, dtype) if self._keras_style else None

    def _regularize_now(self, name: str, variables: list[Any], regularizer: Any) -> None:
        for variable in variables:
            with tf.colocate_with(variable.op), tf.name_scope(f"{name}/Regularizer"):
                loss = regularizer(variable)
            if loss is not None:
                self.add_loss(loss)

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds losses, to REGULARIZATION_LOSSES too."""
        before = len(self._own_losses)
        super().add_loss(losses, inputs)
        collected = tf.get_default_graph().get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES)
        for loss in self.losses[before:] if self._loss_functions else self._own_losses[before:]:
            if not any(loss is known for known in collected):
                collected.append(loss)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Adds operations that a training step must run, to UPDATE_OPS too."""
        before = len(self._own_updates)
        super().add_update(updates, inputs)
        collected = tf.get_default_graph().get_collection_ref(tf.GraphKeys.UPDATE_OPS)
        for update, _ in self._own_updates[before:]:
            if not any(update is known for known in collected):
                collected.append(update)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy that shares scope and graph."""
        shared = {"_graph", "_metrics", "_scope", "_always_reuse_variable_scope"}
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        for key, value in self.__dict__.items():
            copied = value if key in shared else copy.deepcopy(value, memo)
            object.__setattr__(result, key, copied)
        return result
