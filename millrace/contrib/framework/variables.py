"""Variables by kind and name, as `tf.contrib.framework` makes and finds them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millrace.contrib.framework.arg_scope import add_arg_scope
from millrace.graph.defaults import add_to_collection, get_collection, get_default_graph
from millrace.graph.defaults import device as device_scope
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.ops.array import constant
from millrace.ops.control_flow import control_flow
from millrace.ops.state.variable import Variable
from millrace.ops.state.variable_scope import VariableScope, get_variable, get_variable_scope
from millrace.training.global_step import assert_global_step, get_global_step


@add_arg_scope
def variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: bool | None = None,
) -> Any:
    """`tf.get_variable`, with a device and under `arg_scope`."""
    chosen = list(collections) if collections is not None else [GraphKeys.GLOBAL_VARIABLES]
    get = get_variable
    if custom_getter is not None:
        # The getter of a variable scope, which takes the full name.
        get = functools.partial(custom_getter, reuse=get_variable_scope().reuse)
    keywords: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    with device_scope(device or ""):
        return get(
            name,
            shape=shape,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=list(dict.fromkeys(chosen)),
            caching_device=caching_device,
            partitioner=partitioner,
            use_resource=use_resource,
            **keywords,
        )


@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: bool | None = None,
) -> Any:
    """A `variable` that is also in MODEL_VARIABLES."""
    return variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=[
            *(collections or []),
            GraphKeys.GLOBAL_VARIABLES,
            GraphKeys.MODEL_VARIABLES,
        ],
        caching_device=caching_device,
        device=device,
        partitioner=partitioner,
        custom_getter=custom_getter,
        use_resource=use_resource,
    )


def local_variable(
    initial_value: Any,
    validate_shape: bool = True,
    name: str | None = None,
    use_resource: bool | None = None,
) -> Any:
    """A variable of this worker only, which checkpoints leave out."""
    return _plain_variable(
        initial_value, validate_shape, name, use_resource, GraphKeys.LOCAL_VARIABLES
    )


def global_variable(
    initial_value: Any,
    validate_shape: bool = True,
    name: str | None = None,
    use_resource: bool | None = None,
) -> Any:
    """A variable that all workers share, not trained."""
    return _plain_variable(
        initial_value, validate_shape, name, use_resource, GraphKeys.GLOBAL_VARIABLES
    )


def _plain_variable(
    initial_value: Any,
    validate_shape: bool,
    name: str | None,
    use_resource: bool | None,
    collection: str,
) -> Any:
    return Variable(
        initial_value,
        trainable=False,
        collections=[collection],
        validate_shape=validate_shape,
        use_resource=use_resource,
        name=name,
    )


def add_model_variable(var: Any) -> None:
    """Adds a variable to MODEL_VARIABLES unless it is there."""
    if var not in get_collection(GraphKeys.MODEL_VARIABLES):
        add_to_collection(GraphKeys.MODEL_VARIABLES, var)


def assert_or_get_global_step(graph: Any = None, global_step_tensor: Any = None) -> Any:
    """The tensor that was given, checked; or the graph's global step."""
    if global_step_tensor is None:
        return get_global_step(graph)
    assert_global_step(global_step_tensor)
    return global_step_tensor


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """The variables of a collection in a scope, whose names end in `suffix`."""
    if isinstance(scope, VariableScope):
        scope = scope.name
    if suffix is not None:
        suffix = suffix if ":" in suffix else f"{suffix}:0"
        # The scope is a regular expression, the suffix is a text.
        scope = f"{scope or ''}.*{re.escape(suffix)}$"
    return list(get_collection(collection, scope))


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """`get_variables` in MODEL_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """`get_variables` in LOCAL_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """`get_variables` in TRAINABLE_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """The variables called so, in whatever scope inside `scope`."""
    suffix = f"/{given_name}:|^{given_name}:"
    if scope:
        suffix = f"{scope}.*/{given_name}:|{scope}/{given_name}:"
    return [v for v in get_collection(GraphKeys.GLOBAL_VARIABLES) if re.search(suffix, v.name)]


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """The variables whose names end so."""
    return get_variables(scope=scope, suffix=suffix)


def get_unique_variable(var_op_name: str) -> Any:
    """The variable of that name.

    Raises:
      ValueError: There is none, or several.
    """
    candidates = get_variables(scope=f"{re.escape(var_op_name)}:")
    if not candidates:
        raise ValueError(f"Couldn't find variable {var_op_name}")
    for candidate in candidates:
        if candidate.op.name == var_op_name:
            return candidate
    raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable")


def get_variable_full_name(var: Any) -> str:
    """The name that a checkpoint has for a variable: for a slice that of the whole."""
    info = var._get_save_slice_info() if hasattr(var, "_get_save_slice_info") else None
    return str(info.full_name if info is not None else var.op.name)


def get_variables_to_restore(
    include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
) -> list[Any]:
    """Variables in the scopes of `include` (all when None) but not in those of `exclude`."""
    chosen = (
        get_variables()
        if include is None
        else [v for scope in include for v in get_variables(scope)]
    )
    unwanted = {v for scope in exclude or () for v in get_variables(scope)}
    return [v for v in chosen if v not in unwanted]


def filter_variables(
    var_list: Sequence[Any],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None,
    reg_search: bool = True,
) -> list[Any]:
    """Variables whose names some pattern matches, and none of the excluding ones.

    Args:
      var_list: Variables.
      include_patterns: Regular expressions; all pass when None.
      exclude_patterns: Regular expressions.
      reg_search: Whether a match may begin anywhere in the name.
    """
    matches = re.search if reg_search else re.match

    def any_of(patterns: Sequence[str], var: Any) -> bool:
        return any(matches(pattern, var.name) for pattern in patterns)

    return [
        v
        for v in var_list
        if (include_patterns is None or any_of(include_patterns, v))
        and not any_of(exclude_patterns or (), v)
    ]


def assign_from_values(
    var_names_to_values: Mapping[str, Any],
) -> tuple[Operation, dict[Any, Any]]:
    """(operation, feeds) that set variables by name, without big constants in the graph."""
    feeds: dict[Any, Any] = {}
    assigns = []
    for name, value in var_names_to_values.items():
        var = get_unique_variable(name)
        placeholder = constant.placeholder(
            var.dtype.base_dtype, name=get_default_graph().unique_name(f"{var.op.name}/value")
        )
        assigns.append(var.assign(placeholder))
        feeds[placeholder] = value
    return control_flow.group(*assigns), feeds


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Callable[[Any], None]:
    """`assign_from_values` as a function of a session."""
    operation, feeds = assign_from_values(var_names_to_values)

    def assign(session: Any) -> None:
        session.run(operation, feeds)

    return assign
