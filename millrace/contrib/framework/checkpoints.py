"""Variables set from a checkpoint whose names differ from the graph's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import millrace as tf
from millrace.contrib.framework.variables import assign_from_values, get_variable_full_name


def _by_name(var_list: Any) -> dict[str, list[Any]]:
    """Variables, or the parts of one, by the name that the checkpoint has for them."""
    if not isinstance(var_list, Mapping):
        grouped: dict[str, list[Any]] = {}
        for variable in var_list:
            grouped.setdefault(get_variable_full_name(variable), []).append(variable)
        return grouped
    named: dict[str, list[Any]] = {}
    for name, variable in var_list.items():
        parts = getattr(variable, "_get_variable_list", None)
        if parts is not None:
            variable = parts()
        named[name] = list(variable) if isinstance(variable, list | tuple) else [variable]
    return named


def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Any, Any]]:
    """(operation, feeds) that set variables from a checkpoint.

    Args:
      model_path: The checkpoint, or its folder.
      var_list: Variables, or a mapping from the checkpoint's names to variables.
      ignore_missing_vars: Whether variables that the checkpoint lacks keep their values.

    Raises:
      ValueError: The checkpoint lacks a variable, or has another shape for it.
    """
    reader = tf.train.load_checkpoint(model_path)
    values: dict[str, Any] = {}
    for name, variables in _by_name(var_list).items():
        if not reader.has_tensor(name):
            message = f"Checkpoint is missing variable [{name}]"
            if not ignore_missing_vars:
                raise ValueError(message)
            tf.logging.warning(message)
            continue
        value = reader.get_tensor(name)
        for variable in variables:
            part = _part_of(value, variable)
            if not variable.shape.is_compatible_with(np.shape(part)):
                raise ValueError(
                    f"Total size of new array must be unchanged for {name} lh_shape: "
                    f"[{np.shape(part)}], rh_shape: [{variable.shape}]"
                )
            values[variable.op.name] = part
    return assign_from_values(values)


def _part_of(value: Any, variable: Any) -> Any:
    """The slice of a whole value that a part of a variable holds."""
    info = variable._get_save_slice_info() if hasattr(variable, "_get_save_slice_info") else None
    if info is None:
        return value
    cut = tuple(
        slice(begin, begin + size)
        for begin, size in zip(info.var_offset, info.var_shape, strict=True)
    )
    return value[cut]


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Any,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Callable[[Any], None] | None:
    """A function of a session that restores variables; None if there is nothing to restore.

    Args:
      model_path: The checkpoint.
      var_list: Variables, or a mapping from the checkpoint's names to variables.
      ignore_missing_vars: Whether variables that the checkpoint lacks keep their values.
      reshape_variables: Whether a value of another shape but the same size fits.

    Raises:
      ValueError: `var_list` is empty.
    """
    if not var_list:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = tf.train.load_checkpoint(model_path)
        named = var_list if isinstance(var_list, Mapping) else _single(var_list)
        available = {}
        for name, variable in named.items():
            if reader.has_tensor(name):
                available[name] = variable
            else:
                tf.logging.warning("Variable %s missing in checkpoint %s", name, model_path)
        var_list = available
    if not var_list:
        tf.logging.warning("No Variables to restore")
        return None
    saver = tf.train.Saver(var_list, reshape=reshape_variables, write_version=2)

    def restore(session: Any) -> None:
        saver.restore(session, model_path)

    return restore


def _single(var_list: Any) -> dict[str, Any]:
    return {
        name: variables[0] if len(variables) == 1 else variables
        for name, variables in _by_name(var_list).items()
    }


def load_checkpoint(filepattern: str) -> Any:
    """`tf.train.load_checkpoint`."""
    return tf.train.load_checkpoint(filepattern)


def load_variable(checkpoint_dir: str, name: str) -> Any:
    """`tf.train.load_variable`."""
    return tf.train.load_variable(checkpoint_dir, name)


def list_variables(checkpoint_dir: str) -> list[Any]:
    """`tf.train.list_variables`."""
    return tf.train.list_variables(checkpoint_dir)


def init_from_checkpoint(checkpoint_dir: str, assignment_map: Mapping[str, Any]) -> None:
    """`tf.train.init_from_checkpoint`."""
    tf.train.init_from_checkpoint(checkpoint_dir, assignment_map)
