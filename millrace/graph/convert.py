"""Turning Python values into tensors: `convert_to_tensor` and its registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace.core import dtypes
from millrace.core.dtypes import DType
from millrace.graph.defaults import get_default_graph
from millrace.graph.tensor import Tensor

#: ``(value, dtype, name, as_ref) -> Tensor | NotImplemented``
Conversion = Callable[..., Any]

_conversions: dict[int, list[tuple[tuple[type, ...], Conversion]]] = {}
_by_type: dict[type, list[Conversion]] = {}


def register_tensor_conversion_function(
    base_type: type | tuple[type, ...], conversion_func: Conversion, priority: int = 100
) -> None:
    """Registers how values of `base_type` become tensors; lower priorities are tried first."""
    types = base_type if isinstance(base_type, tuple) else (base_type,)
    if not all(isinstance(t, type) for t in types):
        raise TypeError("base_type must be a type or a tuple of types.")
    if not callable(conversion_func):
        raise TypeError("conversion_func must be callable.")
    _conversions.setdefault(priority, []).append((types, conversion_func))
    _by_type.clear()


def _conversions_for(kind: type) -> list[Conversion]:
    found = _by_type.get(kind)
    if found is None:
        found = [
            function
            for priority in sorted(_conversions)
            for types, function in _conversions[priority]
            if issubclass(kind, types)
        ]
        _by_type[kind] = found
    return found


def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
    dtype_hint: Any = None,
    as_ref: bool = False,
) -> Tensor:
    """A tensor with the given value.

    Args:
      value: A tensor, variable, NumPy array, Python value, or anything registered.
      dtype: The type wanted.
      name: Name for an operation that this may create.
      preferred_dtype: A type to try first when `dtype` is None; not binding.
      dtype_hint: The newer name of `preferred_dtype`.
      as_ref: Whether a variable gives its reference.

    Raises:
      TypeError: No conversion is known for the value's type.
      ValueError: A tensor of another type was given.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    if isinstance(value, Tensor):
        if wanted is not None and not wanted.is_compatible_with(value.dtype.base_dtype):
            raise ValueError(
                f"Tensor conversion requested dtype {wanted.name} for Tensor with dtype "
                f"{value.dtype.name}: {str(value)!r}"
            )
        return value
    preferred = preferred_dtype if preferred_dtype is not None else dtype_hint
    for function in _conversions_for(type(value)):
        result: Any = NotImplemented
        if wanted is None and preferred is not None:
            try:
                result = function(value, dtype=dtypes.as_dtype(preferred), name=name, as_ref=as_ref)
            except (TypeError, ValueError):
                result = NotImplemented
        if result is NotImplemented:
            result = function(value, dtype=wanted, name=name, as_ref=as_ref)
        if result is NotImplemented:
            continue
        if not isinstance(result, Tensor):
            raise RuntimeError(
                f"Conversion function {function!r} for type {type(value)} returned non-Tensor: "
                f"{result!r}"
            )
        if wanted is not None and not wanted.is_compatible_with(result.dtype.base_dtype):
            raise RuntimeError(
                f"Conversion function {function!r} for type {type(value)} returned incompatible "
                f"dtype: requested = {wanted.name}, actual = {result.dtype.name}"
            )
        return result
    raise TypeError(
        f"Cannot convert {value!r} with type {type(value)} to Tensor: no conversion function "
        "registered."
    )


def convert_n_to_tensor(
    values: Sequence[Any], dtype: Any = None, name: str | None = None, preferred_dtype: Any = None
) -> list[Tensor]:
    """`convert_to_tensor` for each of `values`."""
    return [
        convert_to_tensor(v, dtype, None if name is None else f"{name}_{i}", preferred_dtype)
        for i, v in enumerate(values)
    ]


def is_tensor_like(value: Any) -> bool:
    """Whether `value` already stands for a tensor (and needs no constant)."""
    return (
        isinstance(value, Tensor)
        or hasattr(value, "_as_tensor")
        or hasattr(value, "_as_graph_element")
    )


def dtype_of(value: Any) -> DType | None:
    """The dtype of a tensor or variable, else None."""
    found = getattr(value, "dtype", None)
    return found.base_dtype if isinstance(found, DType) else None


def register_dense_tensor_like_type(tensor_type: type) -> None:
    """Accepted for compatibility: any registered type with a conversion is tensor-like."""


__all__ = [
    "convert_n_to_tensor",
    "convert_to_tensor",
    "dtype_of",
    "get_default_graph",
    "is_tensor_like",
    "register_dense_tensor_like_type",
    "register_tensor_conversion_function",
]
