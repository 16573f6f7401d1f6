"""`PartitionedVariable`: one tensor kept as several variables, cut along an axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.convert import register_tensor_conversion_function
from millrace.graph.defaults import get_default_graph, name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.control_flow import control_flow
from millrace.ops.state.variable import Variable

__all__: list[str] = []


class PartitionedVariable:
    """The parts of a variable that a partitioner cut, in order.

    Iterating gives the parts; used as a tensor it is their concatenation.
    """

    def __init__(
        self,
        name: str,
        shape: Any,
        dtype: Any,
        variable_list: Sequence[Any],
        partitions: Sequence[int],
    ) -> None:
        if not isinstance(variable_list, list | tuple):
            raise TypeError(f"variable_list is not a list or tuple: {variable_list}")
        if not isinstance(partitions, list | tuple):
            raise TypeError(f"partitions is not a list or tuple: {partitions}")
        if not all(p >= 1 for p in partitions):
            raise ValueError(f"partition values must be positive: {partitions}")
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        for variable in variable_list:
            info = variable._get_save_slice_info()
            if info is None:
                raise ValueError(f"All variables must have a save_slice_info available: {variable}")
            if as_shape(shape) != TensorShape(info.full_shape):
                raise ValueError(
                    f"All variables' full shapes must match shape: {shape}; but full shapes "
                    f"were: {[v._get_save_slice_info().full_shape for v in variable_list]}"
                )
        self._variable_list = sorted(
            variable_list, key=lambda v: v._get_save_slice_info().var_offset
        )
        self._name = name
        self._shape = as_shape(shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._partitions = list(partitions)
        self._as_tensor_value: Tensor | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._variable_list)

    def __len__(self) -> int:
        axes = self._partition_axes()
        if len(axes) > 1:
            raise ValueError(f"Cannot get a length for {len(axes)} > 1 partition axes")
        return len(self._variable_list)

    def _partition_axes(self) -> list[int]:
        """The axes that are cut; the first when none is."""
        axes = [i for i, p in enumerate(self._partitions) if p > 1]
        return axes or [0]

    def _concat(self) -> Tensor:
        if len(self._variable_list) == 1:
            with name_scope(None):
                return array_identity.identity(self._variable_list[0], name=self._name)
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError(
                f"Cannot concatenate along more than one dimension: {axes}. "
                "Multi-axis partition concat is not supported"
            )
        with name_scope(self._name + "/ConcatPartitions/"):
            whole = array_join.concat(self._variable_list, axes[0])
        with name_scope(None):
            return array_identity.identity(whole, name=self._name)

    def as_tensor(self) -> Tensor:
        """All parts as one tensor."""
        with get_default_graph().control_dependencies(None):
            return self._concat()

    @property
    def name(self) -> str:
        """The name of the whole."""
        return self._name

    @property
    def dtype(self) -> dtypes.DType:
        """The type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """The shape of the whole."""
        return self._shape

    def _get_variable_list(self) -> list[Any]:
        return self._variable_list

    def _get_partitions(self) -> list[int]:
        return self._partitions

    @property
    def initializer(self) -> Any:
        """The operation that initialises all parts."""
        return control_flow.group(*[v.initializer for v in self._variable_list])

    def _apply(self, method: str, value: Any, **options: Any) -> list[Any]:
        # Parts of the value go to the parts of the variable along the axis that is cut.
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError(
                "Cannot do assign action along more than one dimension: "
                f"{axes}. Multi-axis partition assign action is not supported"
            )
        if isinstance(value, list):
            if len(value) != len(self._variable_list):
                raise ValueError(
                    f"{len(value)} values were given for {len(self._variable_list)} partitions"
                )
            parts = value
        else:
            axis = axes[0]
            sizes = [v.shape.as_list()[axis] for v in self._variable_list]
            parts = array_join.split(value, sizes, axis=axis)
        return [
            getattr(variable, method)(part, **options)
            for variable, part in zip(self._variable_list, parts, strict=True)
        ]

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Any]:
        """Replaces the value; a list with what each part's `assign` gives."""
        return self._apply(
            "assign", value, use_locking=use_locking, name=name, read_value=read_value
        )

    def assign_add(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Any]:
        """Adds to the value; a list with what each part's `assign_add` gives."""
        return self._apply(
            "assign_add", value, use_locking=use_locking, name=name, read_value=read_value
        )

    def assign_sub(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Any]:
        """Subtracts from the value; a list with what each part's `assign_sub` gives."""
        return self._apply(
            "assign_sub", value, use_locking=use_locking, name=name, read_value=read_value
        )

    def __repr__(self) -> str:
        return (
            f"PartitionedVariable(name={self._name!r}, shape={self._shape}, "
            f"dtype={self._dtype.name}, {len(self._variable_list)} partitions)"
        )


def _to_tensor(
    value: PartitionedVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type '{dtypes.as_dtype(dtype).name}' for "
            f"variable of type '{value.dtype.name}'"
        )
    if as_ref:
        raise NotImplementedError("PartitionedVariable doesn't support being used as a reference.")
    return value.as_tensor()


register_tensor_conversion_function(PartitionedVariable, _to_tensor)


def is_variable(value: Any) -> bool:
    """Whether `value` is a variable or a partitioned one."""
    return isinstance(value, Variable | PartitionedVariable)
