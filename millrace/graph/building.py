"""From a call such as ``MatMul(x, [[1.0]], transpose_b=True)`` to a node.

Converts the arguments, works out type and number attributes from them, checks the
attributes against the signature, and adds the operation under its own name scope.
"""

from __future__ import annotations

import contextlib
from typing import Any

from millrace.core.convert import to_ndarray
from millrace.core.dtypes import DType, as_dtype
from millrace.graph import attributes
from millrace.graph.convert import convert_to_tensor, dtype_of
from millrace.graph.defaults import graph_of
from millrace.graph.operation import Operation
from millrace.graph.registry import OpDefinition
from millrace.graph.signature import MISSING, ArgSpec, AttrSpec
from millrace.graph.tensor import Tensor


def build(definition: OpDefinition, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Adds a node of the given op type to the graph of its inputs.

    Args:
      definition: The op type.
      args: Its inputs in the order of the signature.
      keywords: Further inputs and attributes by name, and ``name``.

    Returns:
      The operation when it has no outputs; the tensor of a single output; a list for a
      single list output; else a tuple with one entry an output argument.

    Raises:
      TypeError: An argument is missing, unknown, or of the wrong type.
      ValueError: An attribute has a value that is not allowed, or shapes do not fit.
    """
    op = build_operation(definition, args, keywords)
    return outputs_of(op)


def outputs_of(op: Operation) -> Any:
    """The outputs of `op` grouped as its signature groups them."""
    places = op.definition.signature.output_slices(op.attrs)
    groups = [op.outputs[place] for place in places]
    if not op.outputs:
        return op
    return groups[0] if len(groups) == 1 else tuple(groups)


def build_operation(
    definition: OpDefinition, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Operation:
    """As `build`, but returns the operation itself."""
    signature = definition.signature
    name = keywords.pop("name", None)
    inputs = _bind_inputs(definition, args, keywords)
    graph = graph_of(_flatten(inputs.values()))
    with graph.as_default(), graph.name_scope(name if name else signature.name) as scope:
        attrs = _explicit_attrs(definition, keywords)
        flat: list[Tensor] = []
        references: list[Tensor] = []
        for arg in signature.inputs:
            converted = _convert_input(definition, arg, inputs[arg.name], attrs)
            flat.extend(converted)
            if arg.is_ref:
                references.extend(converted)
        for spec in signature.attrs.values():
            if spec.name not in attrs and spec.default is MISSING:
                raise TypeError(
                    f"{signature.name}: no value was given for attribute '{spec.name}' "
                    f"({spec.type}), and it cannot be told from the inputs"
                )
        with contextlib.ExitStack() as stack:
            for tensor in references:
                # An op that holds a reference must be where the variable is.
                stack.enter_context(graph.colocate_with(tensor.op))
            return graph.create_op(signature.name, flat, name=scope, attrs=attrs)


def _bind_inputs(
    definition: OpDefinition, args: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Any]:
    specs = definition.signature.inputs
    if len(args) > len(specs):
        raise TypeError(f"{definition.name} takes {len(specs)} inputs, got {len(args)}")
    bound = {spec.name: value for spec, value in zip(specs, args, strict=False)}
    for spec in specs[len(args) :]:
        if spec.name not in keywords:
            raise TypeError(f"No argument for input '{spec.name}' of {definition.name}")
        bound[spec.name] = keywords.pop(spec.name)
    return bound


def _flatten(values: Any) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat.extend(value) if isinstance(value, list | tuple) else flat.append(value)
    return flat


def _explicit_attrs(definition: OpDefinition, keywords: dict[str, Any]) -> dict[str, Any]:
    attrs: dict[str, Any] = {}
    for key, value in keywords.items():
        spec = definition.signature.attrs.get(key)
        if spec is None:
            if key.startswith("_"):  # TensorFlow's convention for attributes outside the signature
                attrs[key] = value
                continue
            raise TypeError(f"{definition.name} got an unexpected keyword argument '{key}'")
        if value is None:
            continue
        stored = attributes.normalize(
            value, spec.type, f"argument '{key}' to '{definition.name}' Op"
        )
        check_attr(definition, spec, stored)
        attrs[key] = stored
    return attrs


def check_attr(definition: OpDefinition, spec: AttrSpec, value: Any) -> None:
    """Holds an attribute's value against what the signature allows.

    Raises:
      TypeError: A type that is not allowed.
      ValueError: A string that is not allowed, or a number or length below the least.
    """
    items = value if spec.type.startswith("list(") else [value]
    if spec.allowed is not None:
        for item in items:
            if item in spec.allowed:
                continue
            if isinstance(item, DType):
                raise TypeError(
                    f"Value passed to parameter '{spec.name}' has DataType {item.name} not in "
                    f"list of allowed values: {', '.join(d.name for d in spec.allowed)}"
                )
            allowed = '", "'.join(a.decode() for a in spec.allowed)
            raise ValueError(
                f"Value for attr '{spec.name}' of \"{item.decode()}\" is not in the list of "
                f'allowed values: "{allowed}". Op<name={definition.name}>'
            )
    if spec.minimum is not None:
        size = len(value) if spec.type.startswith("list(") else value
        if size < spec.minimum:
            raise ValueError(
                f"Attr '{spec.name}' of '{definition.name}' Op passed {size} less than minimum "
                f"{spec.minimum}."
            )


def _set_type(definition: OpDefinition, arg: ArgSpec, attrs: dict[str, Any], dtype: DType) -> None:
    assert arg.type_attr is not None
    spec = definition.signature.attrs[arg.type_attr]
    if spec.allowed is not None and dtype not in spec.allowed:
        raise TypeError(
            f"Value passed to parameter '{arg.name}' has DataType {dtype.name} not in list of "
            f"allowed values: {', '.join(d.name for d in spec.allowed)}"
        )
    attrs[arg.type_attr] = dtype


def _convert_input(
    definition: OpDefinition, arg: ArgSpec, value: Any, attrs: dict[str, Any]
) -> list[Tensor]:
    if arg.type_list_attr is not None:
        return _convert_type_list(definition, arg, value, attrs)
    known = arg.dtype if arg.dtype is not None else attrs.get(arg.type_attr or "")
    preferred = None
    if known is None and arg.type_attr is not None:
        default = definition.signature.attrs[arg.type_attr].default
        preferred = None if default is MISSING else default
    if arg.number_attr is not None:
        if not isinstance(value, list | tuple):
            raise TypeError(
                f"Expected list for '{arg.name}' argument to '{definition.name}' Op, not {value!r}."
            )
        count = attrs.setdefault(arg.number_attr, len(value))
        if count != len(value):
            raise ValueError(
                f"List argument '{arg.name}' to '{definition.name}' Op with length {len(value)} "
                f"must match length {count} of argument given before."
            )
        check_attr(definition, definition.signature.attrs[arg.number_attr], count)
        is_given = known is not None
        if known is None:
            known = next((d for d in map(dtype_of, value) if d is not None), None)
        if any(dtype_of(item) not in (None, known) for item in value):
            raise _list_type_error(definition, arg, value, known if is_given else None)
        tensors: list[Tensor] = []
        for i, item in enumerate(value):
            tensor = _convert_one(definition, arg, item, known, preferred, f"{arg.name}_{i}")
            known = known or tensor.dtype.base_dtype
            if tensor.dtype.base_dtype != known:
                raise _list_type_error(definition, arg, value, None)
            tensors.append(tensor)
    else:
        if preferred is not None and _has_allowed_type(definition, arg, value):
            preferred = None
        tensors = [_convert_one(definition, arg, value, known, preferred, arg.name)]
    if arg.type_attr is not None and arg.type_attr not in attrs:
        if not tensors:
            if preferred is not None:
                attrs[arg.type_attr] = preferred
        else:
            _set_type(definition, arg, attrs, tensors[0].dtype.base_dtype)
    return tensors


def _has_allowed_type(definition: OpDefinition, arg: ArgSpec, value: Any) -> bool:
    """Whether a value has a type of its own that the op takes: then the default is not used."""
    allowed = definition.signature.attrs[arg.type_attr or ""].allowed
    if allowed is None or dtype_of(value) is not None:
        return False
    try:
        return as_dtype(to_ndarray(value).dtype) in allowed
    except (TypeError, ValueError, NotImplementedError):
        # No plain value: a list with tensors in it, for one.
        return False


def _list_type_error(
    definition: OpDefinition, arg: ArgSpec, values: Any, wanted: DType | None
) -> TypeError:
    """For a list of tensors of different types, or of another type than `wanted`."""
    types = ", ".join(str(d.name) if (d := dtype_of(v)) else type(v).__name__ for v in values)
    reason = "that don't all match."
    if wanted is not None:
        reason = f"that do not match type {wanted.name} inferred from earlier arguments."
        if arg.dtype is not None:
            reason = f"that do not match expected type {wanted.name}."
    return TypeError(
        f"Tensors in list passed to '{arg.name}' of '{definition.name}' Op have types [{types}] "
        f"{reason}"
    )


def _type_giver(definition: OpDefinition, arg: ArgSpec) -> str:
    """The earlier input that decided the type, or the attribute where there is none."""
    for earlier in definition.signature.inputs:
        if earlier is arg:
            break
        if earlier.type_attr == arg.type_attr:
            return earlier.name
    return arg.type_attr or ""


def _convert_type_list(
    definition: OpDefinition, arg: ArgSpec, value: Any, attrs: dict[str, Any]
) -> list[Tensor]:
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"Expected list for '{arg.name}' argument to '{definition.name}' Op, not {value!r}."
        )
    key = arg.type_list_attr or ""
    types = attrs.get(key)
    if types is not None and len(types) != len(value):
        raise ValueError(
            f"'{arg.name}' of '{definition.name}' Op has {len(value)} tensors, but attribute "
            f"'{key}' names {len(types)} types"
        )
    tensors = [
        _convert_one(definition, arg, item, types[i] if types else None, None, f"{arg.name}_{i}")
        for i, item in enumerate(value)
    ]
    if types is None:
        attrs[key] = [t.dtype.base_dtype for t in tensors]
        check_attr(definition, definition.signature.attrs[key], attrs[key])
    return tensors


def _convert_one(
    definition: OpDefinition,
    arg: ArgSpec,
    value: Any,
    dtype: DType | None,
    preferred: DType | None,
    name: str,
) -> Tensor:
    found = dtype_of(value)
    if dtype is not None and found is not None and found != dtype:
        other = f" of argument '{_type_giver(definition, arg)}'" if arg.type_attr else ""
        raise TypeError(
            f"Input '{arg.name}' of '{definition.name}' Op has type {found.name} that does not "
            f"match {'expected type of' if arg.dtype is not None else 'type'} {dtype.name}"
            f"{other if arg.dtype is None else ''}."
        )
    try:
        tensor = convert_to_tensor(
            value, dtype, name=name, preferred_dtype=preferred, as_ref=arg.is_ref
        )
    except (TypeError, ValueError) as error:
        if dtype is None:
            raise
        raise TypeError(
            f"Expected {dtype.name} passed to parameter '{arg.name}' of op '{definition.name}', "
            f"got {value!r} of type '{type(value).__name__}' instead. Error: {error}"
        ) from error
    if arg.is_ref and not tensor.dtype._is_ref_dtype:
        raise TypeError(
            f"'{definition.name}' Op requires that input '{arg.name}' be a mutable tensor "
            f"(e.g.: a tf.Variable), but got {tensor!r}"
        )
    return tensor
