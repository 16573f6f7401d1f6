"""Which public functions take ragged tensors, and what they are then.

Functions that work element by element are called on the innermost values; others have versions of
their own (`functions`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.dispatch import register_handler
from millrace.graph.tensor import Tensor
from millrace.ops.array import gather, join, select, shape
from millrace.ops.math import arithmetic, reduction
from millrace.ops.ragged import functions
from millrace.ops.ragged.ragged_tensor import RaggedTensor, is_ragged, map_flat_values

#: Public function → what it is for ragged tensors.
_OWN: dict[Any, Callable[..., Any]] = {
    reduction.reduce_sum: functions.reduce_sum,
    reduction.reduce_prod: functions.reduce_prod,
    reduction.reduce_max: functions.reduce_max,
    reduction.reduce_min: functions.reduce_min,
    reduction.reduce_mean: functions.reduce_mean,
    reduction.reduce_any: functions.reduce_any,
    reduction.reduce_all: functions.reduce_all,
    join.concat: functions.concat,
    join.stack: functions.stack,
    shape.expand_dims: functions.expand_dims,
    shape.size: lambda input, name=None, out_type=dtypes.int32: shape.size(
        input.flat_values, out_type=out_type
    ),
    gather.gather: functions.gather_ragged,
    select.boolean_mask: lambda tensor, mask, name="boolean_mask", axis=None: (
        functions.boolean_mask(tensor, mask, name)
    ),
    select.where: functions.where,
}


def _handle(function: Any, args: Any, kwargs: Any) -> Any:
    given = [*args, *kwargs.values()]
    lists = [each for value in given if isinstance(value, list | tuple) for each in value]
    if not any(is_ragged(each) for each in (*given, *lists)):
        return NotImplemented
    own = _OWN.get(function)
    if own is not None:
        return own(*args, **kwargs)
    return elementwise(function, *args, **kwargs)


def elementwise(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function on the innermost values; tensors are spread over the rows first."""
    args = tuple(functions.as_ragged(a) if is_ragged(a) else a for a in args)
    first = next((a for a in args if isinstance(a, RaggedTensor)), None)
    if first is None:
        return map_flat_values(function, *args, **kwargs)
    args = tuple(_spread(each, first) for each in args)
    return map_flat_values(function, *args, **kwargs)


def _spread(value: Any, like: RaggedTensor) -> Any:
    """A tensor of one value per row, as one per element; scalars stay."""
    if not isinstance(value, Tensor | list):
        return value
    tensor = value if isinstance(value, Tensor) else convert_to_tensor(value)
    if tensor.shape.ndims in (None, 0) or like.ragged_rank > 1:
        return tensor
    rank = like.shape.ndims
    if tensor.shape.ndims == rank and tensor.shape[1].value == 1:
        column = select_column(tensor)
        return gather.gather(column, like.value_rowids())
    if tensor.shape.ndims == rank:
        return RaggedTensor.from_tensor(tensor, like.row_lengths())
    return tensor


def select_column(tensor: Tensor) -> Tensor:
    """The only column of a matrix."""
    return tensor[:, 0]


register_handler(_handle)


# -- Python's operators --------------------------------------------------------------------


def _binary(function: Callable[..., Any], reverse: bool = False) -> Callable[..., Any]:
    def call(self: RaggedTensor, other: Any) -> Any:
        return elementwise(function, *((other, self) if reverse else (self, other)))

    return call


def _unary(self: RaggedTensor, function: Callable[..., Any]) -> Any:
    return map_flat_values(function, self)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "div": arithmetic.div,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
for _name, _function in _OPERATORS.items():
    setattr(RaggedTensor, f"__{_name}__", _binary(_function))
    setattr(RaggedTensor, f"__r{_name}__", _binary(_function, reverse=True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(RaggedTensor, f"__{_name}__", _binary(getattr(operator, _name)))
for _name in ("neg", "abs", "invert"):
    setattr(
        RaggedTensor,
        f"__{_name}__",
        functools.partialmethod(_unary, getattr(operator, _name)),
    )

__all__: list[str] = []
