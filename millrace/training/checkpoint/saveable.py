"""What a Saver saves: variables, their parts, and other objects, as tensors with names.

A `SaveableObject` says which tensors of an object go into a checkpoint, under which names, and
how the object takes them back. `saveables` makes them of what a program hands to a Saver: a
list, or a dict by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millrace.core import nest
from millrace.core.device_spec import DeviceSpec
from millrace.core.dtypes import DType
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import device, get_default_graph
from millrace.graph.keys import GraphKeys
from millrace.graph.tensor import Tensor
from millrace.ops.array import identity as array_identity
from millrace.ops.array import shape as array_shape
from millrace.ops.state import variable_ops
from millrace.ops.state.partitioned_variable import PartitionedVariable
from millrace.ops.state.resource_variable import ResourceVariable
from millrace.ops.state.variable import Variable

_REFERENCE_OPS = frozenset(("Variable", "VariableV2", "AutoReloadVariable"))
_VARIABLE_OPS = _REFERENCE_OPS | {"VarHandleOp", "ReadVariableOp"}


def on_cpu(device_name: str | None) -> str:
    """The CPU of the task that a device belongs to: where files are read and written."""
    spec = DeviceSpec.from_string(device_name or "")
    return str(spec.replace(device_type="CPU", device_index=0).to_string())


class SaveSpec:
    """One tensor of an object.

    Args:
      tensor: The tensor, or a function of no arguments that makes it.
      slice_spec: Which part of a larger tensor it is, or "".
      name: Its name in the checkpoint.
      dtype: Its type; needed with a function.
      device: Its device; needed with a function.
    """

    def __init__(
        self,
        tensor: Any,
        slice_spec: str,
        name: str,
        dtype: DType | None = None,
        device: str | None = None,
    ) -> None:
        self._tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        if callable(tensor) and not isinstance(tensor, Tensor | Variable):
            if dtype is None or device is None:
                raise AssertionError(
                    "When passing a callable `tensor` to a SaveSpec, an explicit dtype and "
                    "device must be provided."
                )
            self.dtype = dtype
            self.device = device
        else:
            self.dtype = tensor.dtype
            self.device = tensor.device if device is None else device

    @property
    def tensor(self) -> Any:
        """The tensor."""
        is_function = callable(self._tensor) and not isinstance(self._tensor, Tensor | Variable)
        return self._tensor() if is_function else self._tensor


class SaveableObject:
    """An object that a checkpoint keeps; to be derived from.

    Attributes:
      op: What is saved: a tensor, variable or operation.
      specs: Its tensors.
      name: Its name in the checkpoint.
    """

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str) -> None:
        self.op = op
        self.specs = list(specs)
        self.name = name

    @property
    def device(self) -> str:
        """The device that all its tensors are on."""
        return self.specs[0].device

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """An operation (or tensor) that gives the object the values of a checkpoint.

        Args:
          restored_tensors: What the checkpoint has for each of `specs`.
          restored_shapes: Shapes to give them, if the Saver was made with ``reshape=True``.
        """
        raise ValueError("Calling an abstract method.")


def is_saveable(value: Any) -> bool:
    """Whether it is a SaveableObject, or does what one does."""
    return isinstance(value, SaveableObject) or (
        hasattr(value, "specs") and hasattr(value, "restore")
    )


class ReferenceVariableSaveable(SaveableObject):
    """A reference variable, or a part of one."""

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        super().__init__(var, [SaveSpec(var, slice_spec, name, dtype=var.dtype)], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """Assigns the value."""
        (value,) = restored_tensors
        if restored_shapes is not None:
            value = array_shape.reshape(value, restored_shapes[0])
        reference = convert_to_tensor(self.op, as_ref=True)
        return variable_ops.Assign(
            reference,
            value,
            validate_shape=restored_shapes is None and reference.shape.is_fully_defined(),
        )


class ResourceVariableSaveable(SaveableObject):
    """A variable behind a handle, or a part of one.

    Args:
      var: The variable, or a tensor that reads it.
      slice_spec: Which part of a larger tensor it is, or "".
      name: Its name in the checkpoint.
    """

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        tensor: Any = var
        if isinstance(var, Tensor):
            self.handle_op: Any = var if var.op.type == "VarHandleOp" else var.op.inputs[0]
        elif isinstance(var, ResourceVariable):
            self.handle_op = var.handle

            def read() -> Tensor:
                with device(var.device):
                    value = var.read_value()
                    with device("/device:CPU:0"):
                        result: Tensor = array_identity.identity(value)
                        return result

            tensor = read
        else:
            raise ValueError(
                f"Saveable is neither a resource variable nor a read operation. Got: {var!r}"
            )
        self._var_device = var.device
        self._var_shape = var.shape
        spec = SaveSpec(tensor, slice_spec, name, dtype=var.dtype, device=var.device)
        super().__init__(var, [spec], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """Assigns the value."""
        (value,) = restored_tensors
        if restored_shapes is not None:
            value = array_shape.reshape(value, restored_shapes[0])
        with device(self._var_device):
            value = array_identity.identity(value)
            if not self._var_shape.is_compatible_with(value.shape):
                raise ValueError(
                    f"Received incompatible tensor with shape {value.shape} when attempting to "
                    f"restore variable with shape {self._var_shape} and name {self.name}."
                )
            # TensorFlow does not look, and a variable may come out with another shape.
            return variable_ops.AssignVariableOp(
                self.handle_op, value, validate_shape=self._var_shape.is_fully_defined()
            )


# -- From what a program saves to saveables ------------------------------------------------


def all_saveable_objects(scope: str | None = None) -> list[Any]:
    """The global variables and the other objects of the default graph that are saved."""
    graph = get_default_graph()
    return [
        *graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope),
        *graph.get_collection(GraphKeys.SAVEABLE_OBJECTS, scope),
    ]


def saveables(to_save: Any) -> list[Any]:
    """SaveableObjects for a list of variables, or for a dict by name, sorted by name.

    Raises:
      TypeError: Something is no variable, or a name no string.
      ValueError: Two have the same name, or one has two.
    """
    by_name = to_save if isinstance(to_save, dict) else op_list_to_dict(to_save)
    for name in by_name:
        if not isinstance(name, str):
            raise TypeError(
                "names_to_saveables must be a dict mapping string names to trackable operations. "
                f"Name is not a string: {name}"
            )
    found: list[Any] = []
    seen: set[int] = set()
    for name in sorted(by_name):
        for saveable in saveable_objects_for_op(by_name[name], name):
            if saveable.op is not None and id(saveable.op) in seen:
                raise ValueError(
                    f"The same saveable will be restored with two names: {saveable.name}"
                )
            seen.add(id(saveable.op))
            found.append(saveable)
    return found


def op_list_to_dict(op_list: Any) -> dict[str, Any]:
    """Names for a (nested) list of variables; the parts of one variable go together."""
    if not isinstance(op_list, list | tuple | set):
        raise TypeError(f"Variables to save should be passed in a dict or a list. Got {op_list}")
    by_name: dict[str, Any] = {}
    for var in sorted(nest.flatten(list(op_list)), key=lambda each: each.name):
        if is_saveable(var):
            by_name[var.name] = var
            continue
        info = var._save_slice_info if isinstance(var, Variable) else None
        if info is not None:
            parts = by_name.setdefault(info.full_name, [])
            if not isinstance(parts, list):
                raise ValueError(
                    f"Mixing slices and non-slices with the same name: {info.full_name}"
                )
            parts.append(var)
            continue
        value: Any = var if isinstance(var, PartitionedVariable) else _variable_tensor(var)
        if value is None:
            raise TypeError(f"Variable to save is not a Variable: {var}")
        name = var.name if value is var and not isinstance(var, Tensor) else _name_of(value)
        if name in by_name:
            raise ValueError(f"At least two variables have the same name: {name}")
        by_name[name] = value
    return by_name


def _variable_tensor(var: Any) -> Tensor | None:
    """The reference of a variable, or what reads it; None if it is no variable."""
    if isinstance(var, ResourceVariable):
        return var._graph_element
    tensor = convert_to_tensor(var, as_ref=True)
    return tensor if tensor.op.type in _VARIABLE_OPS else None


def _name_of(tensor: Tensor) -> str:
    return tensor.op.inputs[0].op.name if tensor.op.type == "ReadVariableOp" else tensor.op.name


def saveable_objects_for_op(op: Any, name: str) -> Iterator[Any]:
    """The SaveableObjects that save a variable, its parts, or another object as `name`."""
    if is_saveable(op):
        yield op
        return
    if isinstance(op, list | tuple | PartitionedVariable):
        yield from _parts(list(op), name)
        return
    tensor = _variable_tensor(op)
    if tensor is None:
        raise TypeError(
            "names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a "
            f"variable: {op}"
        )
    yield _saveable(tensor, "", name)


def _saveable(variable: Any, slice_spec: str, name: str) -> SaveableObject:
    if variable.op.type in _REFERENCE_OPS:
        return ReferenceVariableSaveable(variable, slice_spec, name)
    return ResourceVariableSaveable(variable, slice_spec, name)


def _parts(parts: list[Any], name: str) -> Iterator[Any]:
    whole: str | None = None
    for part in parts:
        if is_saveable(part):
            yield part
            continue
        if not isinstance(part, Variable):
            raise ValueError(f"Slices must all be Variables: {part}")
        info = part._save_slice_info
        if info is None:
            raise ValueError(f"Slices must all be slices: {part}")
        if whole is not None and whole != info.full_name:
            raise ValueError(
                f"Slices must all be from the same tensor: {whole} != {info.full_name}"
            )
        whole = info.full_name
        yield _saveable(part, info.spec, name)


def group_by_device(found: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Saveables by the device that their tensors are on, in the order of the devices' names.

    Raises:
      ValueError: The tensors of one are on several devices.
    """
    groups: dict[str, list[Any]] = {}
    for saveable in found:
        devices = {_canonical(spec.device) for spec in saveable.specs}
        if len(devices) != 1:
            raise ValueError(
                f"All tensors of a saveable object must be on the same device: {saveable.name}"
            )
        groups.setdefault(devices.pop(), []).append(saveable)
    return sorted(groups.items())


def _canonical(device_name: str | None) -> str:
    return str(DeviceSpec.from_string(device_name or "").to_string())


NamesToSaveables = Mapping[str, Any]
