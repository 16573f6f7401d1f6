"""`tf.train.init_from_checkpoint`: variables whose initial values come from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.graph.defaults import device
from millrace.ops.io import save_restore
from millrace.ops.state import variable_scope
from millrace.ops.state.partitioned_variable import PartitionedVariable
from millrace.ops.state.variable import Variable
from millrace.platform import logging
from millrace.training.checkpoint.reader import checkpoint_filename, load_checkpoint
from millrace.training.checkpoint.saveable import op_list_to_dict, saveable_objects_for_op


def init_from_checkpoint(ckpt_dir_or_file: Any, assignment_map: Any) -> None:
    """Makes initialisers load from a checkpoint; call it before making the op that runs them.

    Args:
      ckpt_dir_or_file: A checkpoint, or a folder whose newest one is meant.
      assignment_map: What is loaded into what, as a dict or as pairs: a name in the checkpoint
        to a variable, a list of the parts of one, or the name of one; or a scope there
        (``"old/"``, ``"/"`` for all) to a scope of the graph (``"new/"``), for all variables
        in it.

    Raises:
      ValueError: A variable is missing in the graph or in the checkpoint, or has another shape.
    """
    reader = load_checkpoint(ckpt_dir_or_file)
    filename = checkpoint_filename(ckpt_dir_or_file)
    assert filename is not None  # or there would be no reader
    shapes = reader.get_variable_to_shape_map()
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    store = variable_scope._variable_store()._vars
    for name, target in sorted(pairs, key=lambda pair: pair[0]):
        variable = _find(target, store)
        if variable is not None:
            if name not in shapes:
                raise ValueError(
                    f"Tensor {name} is not found in {ckpt_dir_or_file} checkpoint {shapes}"
                )
            _check_shape(variable, name, shapes[name])
            _set_initializers(variable, filename, name)
            continue
        for tensor_name, inner in _under_scope(name, target, store, shapes, ckpt_dir_or_file):
            _set_initializers(inner, filename, tensor_name)


def _find(target: Any, store: Mapping[str, Any]) -> Any:
    """A variable, or the list of its parts; None if `target` is no variable and names none."""
    if isinstance(target, Variable):
        return target
    if isinstance(target, PartitionedVariable):
        return list(target)
    if isinstance(target, list | tuple) and all(isinstance(v, Variable) for v in target):
        return list(target)
    if not isinstance(target, str):
        raise ValueError(
            "A value of the assignment map must be a variable, a list of the parts of one, or a "
            f"name, not {target!r}"
        )
    return _named(target, store)


def _named(name: str, store: Mapping[str, Any]) -> Any:
    if name in store:
        return store[name]
    parts: list[Any] = []
    while f"{name}/part_{len(parts)}" in store:
        parts.append(store[f"{name}/part_{len(parts)}"])
    return parts or None


def _check_shape(variable: Any, name: str, shape: list[int]) -> None:
    if isinstance(variable, list):
        info = variable[0]._save_slice_info
        fits = info is None or list(info.full_shape) == shape
        whole = [] if info is None else list(info.full_shape)
        label, own = ",".join(v.name for v in variable), str(whole)
    else:
        fits = variable.shape.is_compatible_with(shape)
        label, own = variable.name, str(variable.shape)
    if not fits:
        raise ValueError(
            f"Shape of variable {label} ({own}) doesn't match with shape of tensor {name} "
            f"({shape}) from checkpoint reader."
        )


def _under_scope(
    source: str, target: str, store: Mapping[str, Any], shapes: Mapping[str, Any], checkpoint: Any
) -> list[tuple[str, Any]]:
    """(name in the checkpoint, variable) for all variables of a scope."""
    scope = target[: target.rindex("/")] if "/" in target else ""
    if not source.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {scope} should map to scope only {source}. "
            "Should be 'scope/': 'other_scope/'."
        )
    prefix = f"{scope}/" if scope else ""
    names = {name.partition("/part_")[0] for name in store if name.startswith(prefix)}
    found = []
    for name in sorted(names):
        inner = name.removeprefix(prefix)
        tensor_name = inner if source == "/" else source + inner
        if tensor_name not in shapes:
            raise ValueError(
                f"Tensor {tensor_name} ({inner} in {source}) is not found in {checkpoint} "
                "checkpoint"
            )
        variable = _named(name, store)
        _check_shape(variable, tensor_name, shapes[tensor_name])
        found.append((tensor_name, variable))
    return found


def _set_initializers(variable: Any, filename: str, tensor_name: str) -> None:
    if not isinstance(variable, list):
        _set_initializer(variable, filename, tensor_name, "")
        return
    wholes = {part._save_slice_info.full_name for part in variable if part._save_slice_info}
    if len(wholes) != 1 or not all(part._save_slice_info for part in variable):
        raise ValueError(
            f"Slices must all be from the same tensor: {' != '.join(sorted(wholes)) or variable}"
        )
    for part in variable:
        _set_initializer(part, filename, tensor_name, part._save_slice_info.spec)


def _set_initializer(variable: Any, filename: str, tensor_name: str, slice_spec: str) -> None:
    with device(variable.device), device("/cpu:0"):
        value = save_restore.RestoreV2(
            filename,
            [tensor_name],
            [slice_spec],
            dtypes=[variable.dtype.base_dtype],
            name="checkpoint_initializer",
        )[0]
        ((name, saved),) = op_list_to_dict([variable]).items()
        (saveable,) = saveable_objects_for_op(saved, name)
    made = saveable.restore([value], None)
    variable._initializer_op = getattr(made, "op", made)
    value.set_shape(variable.shape)
    variable._initial_value = value
    logging.debug("Variable %s is initialised with %s of %s", variable.name, tensor_name, filename)
