"""`ResourceVariable`: a variable behind a handle, with reads that say when they happen.

Its nodes are ``w`` (the handle), ``w/IsInitialized/VarIsInitializedOp``, ``w/Assign`` (the
initialiser) and ``w/Read/ReadVariableOp`` (what fetching it reads). Each use as a value adds
a read of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tensorboard.compat.proto import variable_pb2

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape
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


class ResourceVariable(Variable):
    """A variable behind a handle; made by ``tf.Variable(..., use_resource=True)``."""

    _handle: Tensor
    _dtype: dtypes.DType
    _shape: TensorShape
    _graph_element: Tensor
    _cached_value: Tensor | None = None

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        dtype: Any = None,
        variable_def: Any = None,
        import_scope: str | None = None,
        constraint: Any = None,
        synchronization: VariableSynchronization | None = None,
        aggregation: VariableAggregation | None = None,
        shape: Any = None,
    ) -> None:
        self._synchronization = synchronization or VariableSynchronization.AUTO
        self._aggregation = aggregation or VariableAggregation.NONE
        self._constraint = constraint
        self._validate_shape = validate_shape
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._init_from_proto(variable_def, import_scope)
            return
        self._trainable = is_trainable(trainable, self._synchronization)
        names = checked_collections(collections, self._trainable)
        with init_scope():
            checked_arguments(initial_value, constraint, name)
            self._build(initial_value, caching_device, name, dtype, shape)
            get_default_graph().add_to_collections(names, self)

    def _build(
        self, initial_value: Any, caching_device: Any, name: str | None, dtype: Any, shape: Any
    ) -> None:
        graph = get_default_graph()
        is_function = callable(initial_value)
        with name_scope(name, "Variable", [] if is_function else [initial_value]) as scope:
            shared_name = scope[:-1]
            # The variable does not exist yet, but its initial value belongs beside it.
            with graph._attr_scope({"_class": [f"loc:@{shared_name}".encode()]}):
                with graph.name_scope("Initializer"), graph.device(None):
                    self._initial_value = convert_to_tensor(
                        initial_value() if is_function else initial_value,
                        dtype,
                        name="initial_value",
                    )
                self._dtype = self._initial_value.dtype.base_dtype
                self._shape = as_shape(self._initial_value.shape if shape is None else shape)
                self._handle = variable_ops.VarHandleOp(
                    shape=self._shape,
                    dtype=self._dtype,
                    container=graph._container,
                    shared_name=shared_name,
                    debug_name=scope,
                    name=scope,
                )
            self._name = self._handle.name
            with graph.name_scope("IsInitialized"):
                self._is_initialized_op = variable_ops.VarIsInitializedOp(self._handle).op
            with graph.name_scope("Assign") as assign_scope, self._beside_handle():
                self._initializer_op = variable_ops.AssignVariableOp.operation(
                    self._handle,
                    guarded_initial_value(scope, self._initial_value),
                    name=assign_scope,
                )
            with graph.name_scope("Read"):
                with self._beside_handle():
                    self._graph_element = self._read_variable_op()
                if caching_device is not None:
                    with (
                        graph.colocate_with(None, ignore_existing=True),
                        graph.device(caching_device),
                    ):
                        self._cached_value = array_identity.identity(self._graph_element)

    def _init_from_proto(self, variable_def: Any, import_scope: str | None) -> None:
        if not variable_def.is_resource:
            raise ValueError("Trying to restore Variable as ResourceVariable.")
        graph = get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(prepend_name_scope(name, import_scope))

        self._handle = element(variable_def.variable_name)
        self._name = self._handle.name
        self._shape = as_shape(self._handle.op.get_attr("shape"))
        self._dtype = self._handle.op.get_attr("dtype")
        self._initializer_op = element(variable_def.initializer_name)
        known = bool(variable_def.initial_value_name)
        self._initial_value = element(variable_def.initial_value_name) if known else None
        self._trainable = bool(variable_def.trainable)
        self._synchronization = VariableSynchronization(variable_def.synchronization)
        self._aggregation = VariableAggregation(variable_def.aggregation)
        snapshot = element(variable_def.snapshot_name)
        if snapshot.op.type == "ReadVariableOp":
            self._graph_element = snapshot
        else:
            self._cached_value = snapshot
            self._graph_element = graph.get_tensor_by_name(
                f"{self._handle.op.name}/Read/ReadVariableOp:0"
            )
        if variable_def.HasField("save_slice_info_def"):
            self._save_slice_info = SaveSliceInfo(
                save_slice_info_def=variable_def.save_slice_info_def, import_scope=import_scope
            )

    # -- Reading ----------------------------------------------------------------------------

    @property
    def handle(self) -> Tensor:
        """The handle, for ops that read or change the variable."""
        return self._handle

    @property
    def dtype(self) -> dtypes.DType:
        """The type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._shape

    @property
    def op(self) -> Operation:
        """The operation that is the variable."""
        return self._handle.op

    @property
    def create(self) -> Operation:
        """The initialiser, under the name that tables and other resources have for it."""
        return self.initializer

    def set_shape(self, shape: Any) -> None:
        """Merges what is known of the shape with `shape`."""
        self._shape = self._shape.merge_with(as_shape(shape))

    @contextlib.contextmanager
    def _beside_handle(self) -> Iterator[None]:
        graph = get_default_graph()
        with graph.colocate_with(None, ignore_existing=True), graph.device(self._handle.device):
            yield

    def _read_variable_op(self) -> Tensor:
        result: Tensor = variable_ops.ReadVariableOp(self._handle, dtype=self._dtype)
        result.set_shape(self._shape)
        return result

    def value(self) -> Tensor:
        """The value read here, or the cached one."""
        if self._cached_value is not None:
            return self._cached_value
        with self._beside_handle():
            return self._read_variable_op()

    def read_value(self) -> Tensor:
        """The value read here: after what this place in the program depends on."""
        with name_scope("Read"), self._beside_handle():
            value = self._read_variable_op()
        # Where the reader is, not where the variable is.
        return array_identity.identity(value)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Rows of the value; what `tf.gather` of this variable is."""
        with name_scope("Gather" if name is None else name) as scope:
            rows = variable_slices.ResourceGather(
                self._handle, indices, dtype=self._dtype, name=scope
            )
        return array_identity.identity(rows)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """Elements or slices of the value; what `tf.gather_nd` of this variable is."""
        with name_scope("GatherNd" if name is None else name) as scope:
            parts = variable_slices.ResourceGatherNd(
                self._handle, indices, dtype=self._dtype, name=scope
            )
        return array_identity.identity(parts)

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Whether it has a value."""
        return self._is_initialized(name)

    def _is_initialized(self, name: str | None = None) -> Tensor:
        result: Tensor = variable_ops.VarIsInitializedOp(self._handle, name=name)
        return result

    def _as_graph_element(self) -> Tensor:
        return self._graph_element

    def __bool__(self) -> bool:
        return bool(self.read_value())

    # -- Changing ---------------------------------------------------------------------------

    def assign(
        self,
        value: Any,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Replaces the value; a variable to read after it, or the operation."""
        tensor = convert_to_tensor(value, self._dtype)
        if not self._shape.is_compatible_with(tensor.shape):
            raise ValueError(
                f"Cannot assign value to variable '{self.name}': Shape mismatch. The variable "
                f"shape {self._shape}, and the assigned value shape {tensor.shape} are "
                "incompatible."
            )
        op = variable_ops.AssignVariableOp(
            self._handle,
            tensor,
            name=name,
            validate_shape=self._validate_shape and self._shape.is_fully_defined(),
        )
        return self._lazy_read(op) if read_value else op

    def assign_add(
        self,
        delta: Any,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Adds to the value; a variable to read after it, or the operation."""
        op = variable_ops.AssignAddVariableOp(
            self._handle, convert_to_tensor(delta, self._dtype), name=name
        )
        return self._lazy_read(op) if read_value else op

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Subtracts from the value; a variable to read after it, or the operation."""
        op = variable_ops.AssignSubVariableOp(
            self._handle, convert_to_tensor(delta, self._dtype), name=name
        )
        return self._lazy_read(op) if read_value else op

    def _lazy_read(self, op: Operation) -> Any:
        return _UnreadVariable(self, op)

    def _change(self, kind: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
        builder: Any = registry.lookup(f"Resource{kind}")
        *leading, value = inputs
        known = {k: v for k, v in attrs.items() if k in builder.signature.attrs}
        op = builder(
            self._handle, *leading, convert_to_tensor(value, self._dtype), name=name, **known
        )
        return self._lazy_read(op)

    def count_up_to(self, limit: int) -> Any:
        """The value before it is incremented; OutOfRangeError once it is `limit`."""
        return variable_ops.ResourceCountUpTo(self._handle, limit=limit, T=self._dtype)

    # -- Messages ---------------------------------------------------------------------------

    def to_proto(self, export_scope: str | None = None) -> Any:
        """As a VariableDef message, or None when it is not under `export_scope`."""
        if export_scope is not None and not self._handle.name.startswith(export_scope):
            return None
        snapshot = self._graph_element if self._cached_value is None else self._cached_value
        message = variable_pb2.VariableDef(
            variable_name=strip_name_scope(self._handle.name, export_scope),
            initializer_name=strip_name_scope(self.initializer.name, export_scope),
            snapshot_name=strip_name_scope(snapshot.name, export_scope),
            is_resource=True,
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


class _UnreadVariable(ResourceVariable):
    """What a change of a variable gives: the variable, read only after the change."""

    def __init__(self, variable: ResourceVariable, change: Operation) -> None:
        self._handle = variable._handle
        self._dtype = variable._dtype
        self._shape = variable._shape
        self._validate_shape = getattr(variable, "_validate_shape", True)
        self._constraint = variable._constraint
        self._trainable = variable._trainable
        self._synchronization = variable._synchronization
        self._aggregation = variable._aggregation
        self._initial_value = variable._initial_value
        self._initializer_op = variable._initializer_op
        self._save_slice_info = variable._save_slice_info
        self._parent_op = change
        self._name = change.name
        self._graph_element = self.value()

    @property
    def op(self) -> Operation:
        """The operation that makes the change."""
        return self._parent_op

    def _read_variable_op(self) -> Tensor:
        with get_default_graph().control_dependencies([self._parent_op]):
            return super()._read_variable_op()

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Rows of the value after the change."""
        with get_default_graph().control_dependencies([self._parent_op]):
            return super().sparse_read(indices, name)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """Elements or slices of the value after the change."""
        with get_default_graph().control_dependencies([self._parent_op]):
            return super().gather_nd(indices, name)

    def assign(self, *args: Any, **kwargs: Any) -> Any:
        """Replaces the value after the change."""
        with get_default_graph().control_dependencies([self._parent_op]):
            return super().assign(*args, **kwargs)

    def assign_add(self, *args: Any, **kwargs: Any) -> Any:
        """Adds to the value after the change."""
        with get_default_graph().control_dependencies([self._parent_op]):
            return super().assign_add(*args, **kwargs)

    def assign_sub(self, *args: Any, **kwargs: Any) -> Any:
        """Subtracts from the value after the change."""
        with get_default_graph().control_dependencies([self._parent_op]):
            return super().assign_sub(*args, **kwargs)

    def _change(self, kind: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
        with get_default_graph().control_dependencies([self._parent_op]):
            return super()._change(kind, *inputs, name=name, **attrs)


def _to_tensor(
    value: ResourceVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type '{dtypes.as_dtype(dtype).name}' for "
            f"variable of type '{value.dtype.name}'"
        )
    return value.handle if as_ref else value.value()


register_tensor_conversion_function(ResourceVariable, _to_tensor)
