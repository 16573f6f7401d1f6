"""The variables that `tf.get_variable` has made in a graph, by name.

`VariableStore` finds or makes a variable under its full name; scopes, which make up the full
name and the defaults, are in `variable_scope`. A name is either one variable or the parts
``name/part_0``, ``name/part_1``, … of a partitioned one, never both.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import colocate_with, get_default_graph, name_scope
from millrace.graph.keys import GraphKeys
from millrace.graph.tensor import Tensor
from millrace.ops.array import slicing as array_slicing
from millrace.ops.state import initializers
from millrace.ops.state.partitioned_variable import PartitionedVariable
from millrace.ops.state.variable import SaveSliceInfo, Variable, VariableSynchronization

__all__: list[str] = []


class ReuseMode(enum.Enum):
    """The third answer to whether variables are reused: those that exist are."""

    AUTO_REUSE = 1


AUTO_REUSE = ReuseMode.AUTO_REUSE


class PartitionInfo:
    """Which part of a larger variable an initialiser is asked for.

    Attributes:
      full_shape: Shape of the whole.
      var_offset: Where the part begins.
    """

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        if len(full_shape) != len(var_offset):
            raise ValueError(
                f"Expected equal length, but var_offset is of length {len(var_offset)} while "
                f"full_shape is of length {len(full_shape)}."
            )
        self.full_shape = list(full_shape)
        self.var_offset = list(var_offset)

    def single_offset(self, shape: Sequence[int]) -> int:
        """The offset along the axis that is cut."""
        axis = self.single_slice_dim(shape)
        return 0 if axis is None else self.var_offset[axis]

    def single_slice_dim(self, shape: Sequence[int]) -> int | None:
        """The axis that is cut, or None for the whole."""
        axes = [
            i
            for i, (part, whole) in enumerate(zip(shape, self.full_shape, strict=True))
            if part != whole
        ]
        if len(axes) > 1:
            raise ValueError(f"Cannot use single_slice_dim() with shape {shape}: cut on {axes}")
        return axes[0] if axes else None


class VariableStore:
    """Variables by full name; one store a graph."""

    def __init__(self) -> None:
        self._vars: dict[str, Any] = {}
        self._partitioned_vars: dict[str, PartitionedVariable] = {}

    def get_variable(
        self,
        name: str,
        *,
        shape: Any = None,
        initializer: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        **options: Any,
    ) -> Any:
        """Finds or makes the variable called `name`.

        Args:
          name: Its full name.
          shape: Its shape.
          initializer: A function of a shape, a value, or None for the default.
          partitioner: How to cut it, or None.
          custom_getter: Called instead, with this as its first argument.
          options: The remaining arguments of `tf.get_variable`, and ``reuse``.

        Raises:
          ValueError: It exists and must not, or does not and must, or is another one.
        """
        if custom_getter is not None and not callable(custom_getter):
            raise ValueError(f"Passed a custom_getter which is not callable: {custom_getter}")
        arguments = {
            "shape": shape,
            "initializer": initializer,
            "partitioner": partitioner,
            **options,
        }
        if custom_getter is None:
            return self._getter(name, **arguments)
        if "constraint" not in accepted_arguments(custom_getter):
            # Getters that were written before constraints existed.
            arguments.pop("constraint")
        return custom_getter(self._getter, name=name, **arguments)

    def _getter(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        initializer: Any = None,
        partitioner: Any = None,
        reuse: Any = None,
        **options: Any,
    ) -> Any:
        options.pop("custom_getter", None)
        is_scalar = shape is not None and as_shape(shape).ndims == 0
        if (partitioner is not None and not is_scalar) or (
            partitioner is None and reuse is True and name in self._partitioned_vars
        ):
            return self._get_partitioned(
                name, partitioner, shape, dtype, initializer, reuse, options
            )
        if f"{name}/part_0" in self._vars:
            raise ValueError(
                "No partitioner was provided, but a partitioned version of the variable was "
                f"found: {name}/part_0. Perhaps a variable of the same name was already created "
                "with partitioning?"
            )
        return self._get_single(name, shape, dtype, initializer, reuse, options)

    # -- One variable -----------------------------------------------------------------------

    def _get_single(
        self,
        name: str,
        shape: Any,
        dtype: Any,
        initializer: Any,
        reuse: Any,
        options: dict[str, Any],
        partition_info: PartitionInfo | None = None,
    ) -> Any:
        from_value = initializer is not None and not callable(initializer)
        if shape is not None and from_value:
            raise ValueError("If initializer is a constant, do not specify shape.")
        kind = dtypes.as_dtype(dtype)
        sizes = as_shape(shape)
        if name in self._vars:
            return self._found(name, sizes, kind, reuse)
        if reuse is True:
            raise ValueError(
                f"Variable {name} does not exist, or was not created with tf.get_variable(). Did "
                "you mean to set reuse=tf.AUTO_REUSE in VarScope?"
            )
        if initializer is None:
            if shape is None:
                raise ValueError(
                    f"Variable {name} did not get an initializer, so its `shape` argument must be "
                    "specified."
                )
            initializer = default_initializer(name, kind)
        options = dict(options)
        regularizer = options.pop("regularizer", None)
        value = initializer
        if not from_value:
            value, typed = _initial_value(name, initializer, shape, kind, partition_info)
            options["dtype"] = kind.base_dtype if typed else None
        variable = Variable(value, name=name, **options)
        self._vars[name] = variable
        if regularizer is not None:
            _add_regularizer(name, variable, regularizer)
        return variable

    def _found(self, name: str, shape: TensorShape, dtype: dtypes.DType, reuse: Any) -> Any:
        found = self._vars[name]
        if reuse in (False, None):
            where = "".join(
                f'  File "{f.filename}", line {f.lineno}, in {f.name}\n    {f.line}\n'
                for f in found.op.traceback[-5:]
            )
            raise ValueError(
                f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or "
                f"reuse=tf.AUTO_REUSE in VarScope? Originally defined at:\n\n{where}"
            )
        if not shape.is_compatible_with(found.shape):
            raise ValueError(
                f"Trying to share variable {name}, but specified shape {shape} and found shape "
                f"{found.shape}."
            )
        if not dtype.is_compatible_with(found.dtype):
            raise ValueError(
                f"Trying to share variable {name}, but specified dtype {dtype.name} and found "
                f"dtype {found.dtype.name}."
            )
        return found

    # -- Parts of a variable ----------------------------------------------------------------

    def _get_partitioned(
        self,
        name: str,
        partitioner: Any,
        shape: Any,
        dtype: Any,
        initializer: Any,
        reuse: Any,
        options: dict[str, Any],
    ) -> PartitionedVariable:
        if name in self._vars:
            raise ValueError(
                "A partitioner was provided, but an unpartitioned version of the variable was "
                f"found: {name}.  Perhaps a variable of the same name was already created without "
                "partitioning?"
            )
        sizes = as_shape(shape)
        kind = dtypes.as_dtype(dtype)
        if initializer is not None and not callable(initializer):
            initializer = convert_to_tensor(initializer)
            sizes = sizes.merge_with(initializer.shape)
            kind = initializer.dtype.base_dtype
        partitions = None
        if partitioner is not None:
            partitions = call_partitioner(partitioner, sizes, kind)
        if name in self._partitioned_vars:
            return self._found_parts(name, sizes, kind, partitions, reuse)
        if reuse is True or partitions is None:
            raise ValueError(
                f"PartitionedVariable {name} does not exist, or was not created with "
                "tf.get_variable(). Did you mean to set reuse=False or reuse=tf.AUTO_REUSE in "
                "VarScope?"
            )
        whole = [int(size or 0) for size in sizes.as_list()]
        parts = []
        for i, (offset, part_shape) in enumerate(iterate_slices(whole, partitions)):
            part_name = f"{name}/part_{i}"
            part_initializer = initializer
            asked_shape: list[int] | None = part_shape
            if isinstance(initializer, Tensor):
                with name_scope(f"{part_name}/PartitionedInitializer"):
                    part_initializer = array_slicing.slice(initializer, offset, part_shape)
                asked_shape = None
            elif initializer is None:
                part_initializer = default_initializer(name, kind)
            with name_scope(None):
                part = self._get_single(
                    part_name,
                    asked_shape,
                    kind,
                    part_initializer,
                    reuse,
                    options,
                    PartitionInfo(whole, offset),
                )
            part._set_save_slice_info(SaveSliceInfo(name, whole, offset, part_shape))
            parts.append(part)
        made = PartitionedVariable(name, sizes, kind, parts, partitions)
        self._partitioned_vars[name] = made
        return made

    def _found_parts(
        self,
        name: str,
        shape: TensorShape,
        dtype: dtypes.DType,
        partitions: list[int] | None,
        reuse: Any,
    ) -> PartitionedVariable:
        if reuse in (False, None):
            raise ValueError(
                f"Partitioned variable with name {name} already exists. Did you mean to set "
                "reuse=True or reuse=tf.AUTO_REUSE in VarScope?"
            )
        found = self._partitioned_vars[name]
        if not shape.is_compatible_with(found.shape):
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified shape {shape} and "
                f"found shape {found.shape}."
            )
        if not dtype.is_compatible_with(found.dtype):
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified dtype {dtype.name} "
                f"and found dtype {found.dtype.name}."
            )
        if partitions is not None and found._get_partitions() != partitions:
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified partitions "
                f"{partitions} and found partitions {found._get_partitions()}."
            )
        return found


def default_initializer(name: str, dtype: dtypes.DType) -> Any:
    """The initialiser of a variable that was not given one.

    Raises:
      ValueError: There is none for the type.
    """
    if dtype.is_floating:
        return initializers.GlorotUniform()
    if dtype.is_integer or dtype.is_bool or dtype == dtypes.string:
        return initializers.Zeros()
    raise ValueError(f"An initializer for variable {name} of {dtype} is required")


def _initial_value(
    name: str,
    initializer: Any,
    shape: Any,
    dtype: dtypes.DType,
    partition_info: PartitionInfo | None,
) -> tuple[Callable[[], Any], bool]:
    """A function that gives the initial value, and whether the variable's type is known."""
    if inspect.isclass(initializer):
        initializer = initializer()
    if shape is not None and as_shape(shape).is_fully_defined():
        sizes = as_shape(shape).as_list()
        keywords: dict[str, Any] = {"dtype": dtype}
        if "partition_info" in accepted_arguments(initializer):
            keywords["partition_info"] = partition_info
        return lambda: initializer(sizes, **keywords), True
    if shape is not None and isinstance(initializer, initializers.Initializer):
        raise ValueError(
            f"Shape of a new variable ({name}) must be fully defined, but instead was "
            f"{as_shape(shape)}."
        )
    required = [
        p
        for p in inspect.signature(initializer).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if required:
        raise ValueError(
            "The initializer passed is not valid. It should be a callable with no arguments and "
            "the shape should not be provided or an instance of `tf.keras.initializers.*' and "
            "`shape` should be fully defined."
        )
    return initializer, False


def _add_regularizer(name: str, variable: Any, regularizer: Callable[[Any], Any]) -> None:
    with colocate_with(variable.op), name_scope(f"{name}/Regularizer/"):
        loss = regularizer(variable)
    if loss is not None:
        get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


def accepted_arguments(function: Callable[..., Any]) -> Any:
    """The names that a function takes as keywords; contains everything if it takes any."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return _Everything()
    return parameters


class _Everything:
    def __contains__(self, item: object) -> bool:
        return True


def call_partitioner(partitioner: Any, shape: TensorShape, dtype: dtypes.DType) -> list[int]:
    """What the partitioner says, checked.

    Raises:
      ValueError: It is no partition of such a shape along one axis.
    """
    if not callable(partitioner):
        raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
    if not shape.is_fully_defined():
        raise ValueError(
            f"Shape of a new partitioned variable must be fully defined, but instead was {shape}."
        )
    if shape.ndims is None or shape.ndims < 1:
        raise ValueError(f"A partitioned Variable must have rank at least 1, shape: {shape}")
    slicing = partitioner(shape=shape, dtype=dtype)
    if not isinstance(slicing, Sequence):
        raise ValueError(f"Partitioner must return a sequence, but saw: {slicing}")
    if len(slicing) != shape.ndims:
        raise ValueError(
            "Partitioner returned a partition list that does not match the Variable's rank: "
            f"{slicing} vs. {shape}"
        )
    if any(p < 1 for p in slicing):
        raise ValueError(f"Partitioner returned zero partitions for some axes: {slicing}")
    if sum(p > 1 for p in slicing) > 1:
        raise ValueError(
            f"Can only slice a variable along one dimension: shape: {shape}, partitioning: "
            f"{slicing}"
        )
    return [int(p) for p in slicing]


def iterate_slices(
    shape: Sequence[int], partitions: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """(offset, shape) of each part; the first parts are one longer where it does not divide."""
    axis = next((i for i, p in enumerate(partitions) if p > 1), 0)
    count = partitions[axis]
    least, longer = divmod(shape[axis], count)
    offset = [0] * len(shape)
    for i in range(count):
        part = list(shape)
        part[axis] = least + (i < longer)
        yield list(offset), part
        offset[axis] += part[axis]


def trainable_by(synchronization: VariableSynchronization, trainable: bool | None) -> bool:
    """Whether `get_variable` makes a trainable variable.

    Raises:
      ValueError: A variable that is combined when read is asked to be trained.
    """
    if synchronization is VariableSynchronization.ON_READ:
        if trainable:
            raise ValueError(
                "Synchronization value can be set to VariableSynchronization.ON_READ only for "
                "non-trainable variables. You have specified trainable=True and "
                "synchronization=VariableSynchronization.ON_READ."
            )
        return False
    return True if trainable is None else trainable
