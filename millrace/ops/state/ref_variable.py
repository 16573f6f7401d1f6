"""`RefVariable`: a variable whose node gives a reference, TensorFlow 1.x's default.

Its nodes are ``w`` (the reference), ``w/Assign`` (the initialiser) and ``w/read`` (the
snapshot that everything reads).
"""

from __future__ import annotations

import contextlib
from typing import Any

from tensorboard.compat.proto import variable_pb2

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape, unknown_shape
from millrace.graph import registry
from millrace.graph.collection_protos import prepend_name_scope, strip_name_scope
from millrace.graph.convert import convert_to_tensor, register_tensor_conversion_function
from millrace.graph.defaults import get_default_graph, init_scope, name_scope
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import identity as array_identity
from millrace.ops.state import variable_ops, variable_slices
from millrace.ops.state.initial_value import guarded_initial_value
from millrace.ops.state.variable import (
    SaveSliceInfo,
    Variable,
    VariableAggregation,
    VariableSynchronization,
    checked_arguments,
    checked_collections,
    is_trainable,
)

__all__: list[str] = []


class RefVariable(Variable):
    """A variable that is handed on by reference; made by ``tf.Variable(...)``."""

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Any = None,
        synchronization: VariableSynchronization | None = None,
        aggregation: VariableAggregation | None = None,
        shape: Any = None,
    ) -> None:
        self._synchronization = synchronization or VariableSynchronization.AUTO
        self._aggregation = aggregation or VariableAggregation.NONE
        self._constraint = constraint
        self._caching_device = caching_device
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._init_from_proto(variable_def, import_scope)
            return
        self._trainable = is_trainable(trainable, self._synchronization)
        names = checked_collections(collections, self._trainable)
        with init_scope():
            checked_arguments(initial_value, constraint, name)
            self._build(initial_value, validate_shape, name, dtype, shape)
            get_default_graph().add_to_collections(names, self)

    def _build(
        self, initial_value: Any, validate_shape: bool, name: str | None, dtype: Any, shape: Any
    ) -> None:
        graph = get_default_graph()
        is_function = callable(initial_value)
        with name_scope(name, "Variable", [] if is_function else [initial_value]) as scope:
            if is_function:
                # The variable does not exist yet, but its initial value belongs beside it.
                group = {"_class": [f"loc:@{scope[:-1]}".encode()]}
                with graph._attr_scope(group):
                    with graph.name_scope("Initializer"), graph.device(None):
                        self._initial_value = convert_to_tensor(
                            initial_value(), dtype, name="initial_value"
                        )
                    self._variable = self._node(scope, validate_shape, shape)
            else:
                self._initial_value = convert_to_tensor(initial_value, dtype, name="initial_value")
                self._variable = self._node(scope, validate_shape, shape)
            self._name = self._variable.name
            if validate_shape and not self._initial_value.shape.is_fully_defined():
                raise ValueError(
                    f"initial_value must have a shape specified: {self._initial_value}"
                )
            self._initializer_op = variable_ops.Assign.operation(
                self._variable,
                guarded_initial_value(scope, self._initial_value),
                validate_shape=validate_shape,
                name="Assign",
            )
            with contextlib.ExitStack() as stack:
                if self._caching_device is not None:
                    stack.enter_context(graph.device(self._caching_device))
                else:
                    stack.enter_context(graph.colocate_with(self._variable.op))
                self._snapshot = array_identity.identity(self._variable, name="read")

    def _node(self, scope: str, validate_shape: bool, shape: Any) -> Tensor:
        if shape is None:
            shape = self._initial_value.shape if validate_shape else unknown_shape()
        result: Tensor = variable_ops.VariableV2(
            shape=as_shape(shape),
            dtype=self._initial_value.dtype.base_dtype,
            container=get_default_graph()._container,
            name=scope,
        )
        return result

    def _init_from_proto(self, variable_def: Any, import_scope: str | None) -> None:
        graph = get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(prepend_name_scope(name, import_scope))

        self._variable = element(variable_def.variable_name)
        self._name = self._variable.name
        self._initializer_op = element(variable_def.initializer_name)
        # Variables that were written before TensorFlow 1.2 do not tell their initial value.
        known = bool(variable_def.initial_value_name)
        self._initial_value = element(variable_def.initial_value_name) if known else None
        self._trainable = bool(getattr(variable_def, "trainable", True))
        self._synchronization = VariableSynchronization(variable_def.synchronization)
        self._aggregation = VariableAggregation(variable_def.aggregation)
        self._snapshot = element(variable_def.snapshot_name)
        if variable_def.HasField("save_slice_info_def"):
            self._save_slice_info = SaveSliceInfo(
                save_slice_info_def=variable_def.save_slice_info_def, import_scope=import_scope
            )

    # -- Reading ----------------------------------------------------------------------------

    @property
    def dtype(self) -> dtypes.DType:
        """The type, a reference type."""
        return self._variable.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._variable.shape

    @property
    def op(self) -> Operation:
        """The operation that is the variable."""
        return self._variable.op

    def set_shape(self, shape: Any) -> None:
        """Merges what is known of the shape with `shape`."""
        self._variable.set_shape(shape)
        self.value().set_shape(shape)

    def value(self) -> Tensor:
        """The snapshot ``w/read``."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """The value read here: after what this place in the program depends on."""
        return array_identity.identity(self._variable, name="read")

    def _ref(self) -> Tensor:
        """The reference itself, for ops that change it."""
        return self._variable

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def _is_initialized(self, name: str | None = None) -> Tensor:
        result: Tensor = variable_ops.IsVariableInitialized(self._variable, name=name)
        return result

    # -- Changing ---------------------------------------------------------------------------

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Replaces the value; the reference after it, or the operation."""
        changed = self._change("Assign", value, name=name, use_locking=use_locking)
        return changed if read_value else changed.op

    def assign_add(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Adds to the value; the reference after it, or the operation."""
        changed = self._change("AssignAdd", delta, name=name, use_locking=use_locking)
        return changed if read_value else changed.op

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Subtracts from the value; the reference after it, or the operation."""
        changed = self._change("AssignSub", delta, name=name, use_locking=use_locking)
        return changed if read_value else changed.op

    def _change(self, kind: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
        builder: Any = registry.lookup(kind)
        return builder(self._variable, *inputs, name=name, **attrs)

    def count_up_to(self, limit: int) -> Any:
        """The value before it is incremented; OutOfRangeError once it is `limit`."""
        return variable_ops.CountUpTo(self._variable, limit=limit)

    # -- Messages ---------------------------------------------------------------------------

    def to_proto(self, export_scope: str | None = None) -> Any:
        """As a VariableDef message, or None when it is not under `export_scope`."""
        if export_scope is not None and not self._variable.name.startswith(export_scope):
            return None
        message = variable_pb2.VariableDef(
            variable_name=strip_name_scope(self._variable.name, export_scope),
            initializer_name=strip_name_scope(self.initializer.name, export_scope),
            snapshot_name=strip_name_scope(self._snapshot.name, export_scope),
            trainable=self._trainable,
            synchronization=self._synchronization.value,
            aggregation=self._aggregation.value,
        )
        if self._initial_value is not None:
            message.initial_value_name = strip_name_scope(self._initial_value.name, export_scope)
        if self._save_slice_info is not None:
            message.save_slice_info_def.MergeFrom(
                self._save_slice_info.to_proto(export_scope=export_scope)
            )
        return message


def _to_tensor(
    value: RefVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type '{dtypes.as_dtype(dtype).name}' for "
            f"variable of type '{value.dtype.name}'"
        )
    return value._ref() if as_ref else value.value()


register_tensor_conversion_function(RefVariable, _to_tensor)
# Loads the op types that `_change` looks up by name.
_CHANGES = (variable_ops, variable_slices)
