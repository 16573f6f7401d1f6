"""`tf.assert_*`: what is known while the graph is built is checked at once, the rest in the step.

A check that static shapes, types or constant values decide costs nothing at run time: it raises
here, or becomes a NoOp. What remains is an Assert.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import (
    colocate_with,
    control_dependencies,
    get_default_graph,
    name_scope,
)
from millrace.graph.operation import Operation
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import control_flow
from millrace.ops.control_flow.assertion import Assert, check_numerics
from millrace.ops.math import comparison, elementwise, reduction

__all__ = [
    "add_check_numerics_ops",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_proper_iterable",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_type",
    "is_non_decreasing",
    "is_numeric_tensor",
    "is_strictly_increasing",
    "verify_tensor_all_finite",
]

_NUMERIC = frozenset(
    getattr(dtypes, name)
    for name in (
        "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 qint8 qint16 "
        "qint32 quint8 quint16 complex64 complex128 bfloat16"
    ).split()
)


def _prefix(message: str | None) -> str:
    return f"{message}.  " if message else ""


def _static_text(item: Any) -> str:
    value = constant_value(item) if isinstance(item, Tensor) else item
    return str(item if value is None else value)


# -- Comparisons -------------------------------------------------------------------------


def _comparison(
    symbol: str, compare: Callable[..., Any], static_compare: Callable[..., Any], name: str
) -> Callable[..., Operation]:
    """A check that `x symbol y` holds for all elements."""

    def check(
        x: Any,
        y: Any,
        data: Sequence[Any] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        with name_scope(name, check.__name__, [x, y, *(data or ())]):
            x = convert_to_tensor(x, name="x")
            y = convert_to_tensor(y, name="y")
            shown = (
                list(data)
                if data is not None
                else [
                    f"Condition x {symbol} y did not hold element-wise:",
                    f"x ({x.name}) = ",
                    x,
                    f"y ({y.name}) = ",
                    y,
                ]
            )
            if message is not None:
                shown.insert(0, message)
            x_value, y_value = constant_value(x), constant_value(y)
            both_known = x_value is not None and y_value is not None
            if both_known and not np.all(static_compare(x_value, y_value)):
                raise errors.InvalidArgumentError(
                    None, None, "\n".join(_static_text(item) for item in shown)
                )
            condition = reduction.reduce_all(compare(x, y))
            return Assert(condition, shown, summarize=summarize)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"""Fails unless `x {symbol} y` holds for all (broadcast) elements.

    Args:
      x: A numeric tensor.
      y: One of the same type.
      data: What to show when it fails; by default both tensors.
      summarize: How many entries of each tensor to show.
      message: Text that comes first.
      name: A name for the scope, "{name}" by default.

    Returns:
      The operation that checks.

    Raises:
      InvalidArgumentError: Both are constants, and it does not hold.
    """
    return check


assert_none_equal = _comparison(
    "!=", lambda x, y: comparison.not_equal(x, y), np.not_equal, "assert_none_equal"
)
assert_less = _comparison("<", lambda x, y: comparison.less(x, y), np.less, "assert_less")
assert_less_equal = _comparison(
    "<=", lambda x, y: comparison.less_equal(x, y), np.less_equal, "assert_less_equal"
)
assert_greater = _comparison(
    ">", lambda x, y: comparison.greater(x, y), np.greater, "assert_greater"
)
assert_greater_equal = _comparison(
    ">=", lambda x, y: comparison.greater_equal(x, y), np.greater_equal, "assert_greater_equal"
)
_assert_equal = _comparison("==", lambda x, y: comparison.equal(x, y), np.equal, "assert_equal")


def assert_equal(
    x: Any,
    y: Any,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Fails unless `x == y` holds for all (broadcast) elements; see `assert_less`."""
    if x is y:
        with name_scope(name, "assert_equal", [x, y]):
            return control_flow.no_op()
    return _assert_equal(x, y, data, summarize, message, name)


def _sign_check(
    condition: str, check: Callable[[Tensor, Tensor, Any, Any], Operation], name: str
) -> Callable[..., Operation]:
    """A check of all elements against zero."""

    def function(
        x: Any,
        data: Sequence[Any] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        with name_scope(name, function.__name__, [x, *(data or ())]):
            x = convert_to_tensor(x, name="x")
            shown = (
                data
                if data is not None
                else [
                    _prefix(message),
                    f"Condition x {condition} did not hold element-wise:",
                    f"x ({x.name}) = ",
                    x,
                ]
            )
            zero = convert_to_tensor(0, dtype=x.dtype)
            return check(x, zero, shown, summarize)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Fails unless `x {condition}` holds for all elements.

    Args:
      x: A numeric tensor.
      data: What to show when it fails; by default the tensor.
      summarize: How many entries of each tensor to show.
      message: Text that comes first.
      name: A name for the scope, "{name}" by default.

    Returns:
      The operation that checks.

    Raises:
      InvalidArgumentError: `x` is constant, and it does not hold.
    """
    return function


assert_negative = _sign_check(
    "< 0", lambda x, zero, data, n: assert_less(x, zero, data, n), "assert_negative"
)
assert_positive = _sign_check(
    "> 0", lambda x, zero, data, n: assert_less(zero, x, data, n), "assert_positive"
)
assert_non_negative = _sign_check(
    ">= 0", lambda x, zero, data, n: assert_less_equal(zero, x, data, n), "assert_non_negative"
)
assert_non_positive = _sign_check(
    "<= 0", lambda x, zero, data, n: assert_less_equal(x, zero, data, n), "assert_non_positive"
)


def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Fails unless `|x - y| < atol + rtol * |y|` for all elements.

    The tolerances are by default ten times the precision of the type.
    """
    with name_scope(name, "assert_near", [x, y, rtol, atol, *(data or ())]):
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, dtype=x.dtype, name="y")
        kind = x.dtype.real_dtype if x.dtype.is_complex else x.dtype
        precision = 10 * np.finfo(kind.as_numpy_dtype).eps
        rtol = convert_to_tensor(precision if rtol is None else rtol, kind, name="rtol")
        atol = convert_to_tensor(precision if atol is None else atol, kind, name="atol")
        if data is None:
            data = [
                _prefix(message),
                f"x and y not equal to tolerance rtol = {rtol}, atol = {atol}",
                f"x ({x.name}) = ",
                x,
                f"y ({y.name}) = ",
                y,
            ]
        tolerance = atol + rtol * elementwise.abs(y)
        difference = elementwise.abs(x - y)
        condition = reduction.reduce_all(comparison.less(difference, tolerance))
        return Assert(condition, data, summarize=summarize)


# -- Ranks and shapes --------------------------------------------------------------------


class _RankMismatch(ValueError):
    """The static rank is not what was asked for."""


def _check_rank(
    x: Any,
    ranks: Sequence[Tensor],
    static_condition: Callable[[int, list[int]], bool],
    condition: Callable[[Tensor, Sequence[Tensor]], Tensor],
    data: Sequence[Any],
    summarize: int | None,
) -> Operation:
    for rank in ranks:
        assert_type(rank, dtypes.int32)
    values = [constant_value(rank) for rank in ranks]
    known = [value for value in values if value is not None]
    if len(known) == len(values):
        if any(value.ndim for value in known):
            raise ValueError("Rank must be a scalar.")
        static_rank = x.get_shape().ndims
        if static_rank is not None:
            if not static_condition(static_rank, [int(value) for value in known]):
                raise _RankMismatch
            return control_flow.no_op(name="static_checks_determined_all_ok")
    holds = condition(array_shape.rank(x), ranks)
    for rank, value in zip(ranks, values, strict=True):
        if value is None:
            check = assert_rank(rank, 0, data=["Rank must be a scalar. Received rank: ", rank])
            holds = control_flow.with_dependencies([check], holds)
    return Assert(holds, data, summarize=summarize)


def _rank_assertion(
    name: str | None,
    function: str,
    words: str,
    x: Any,
    ranks: Sequence[Any],
    static_condition: Callable[[int, list[int]], bool],
    condition: Callable[[Tensor, Sequence[Tensor]], Tensor],
    data: Sequence[Any] | None,
    summarize: int | None,
    message: str | None,
) -> Operation:
    with name_scope(name, function, [x, *ranks, *(data or ())]):
        if not isinstance(x, SparseTensor):
            x = convert_to_tensor(x, name="x")
        tensors = [convert_to_tensor(rank, name="rank") for rank in ranks]
        prefix = _prefix(message)
        label = "" if isinstance(x, SparseTensor) else x.name
        shown = (
            data
            if data is not None
            else [
                prefix,
                f"Tensor {label} must have rank{words}",
                *tensors,
                "Received shape: ",
                x.dense_shape if isinstance(x, SparseTensor) else array_shape.shape(x),
            ]
        )
        try:
            return _check_rank(x, tensors, static_condition, condition, shown, summarize)
        except _RankMismatch:
            wanted: Any = tuple(int(constant_value(rank)) for rank in tensors)  # type: ignore[arg-type]
            if function != "assert_rank_in":
                wanted = wanted[0]
            raise ValueError(
                f"{prefix}Tensor {label} must have rank{words} {wanted}.  Received rank "
                f"{x.get_shape().ndims}, shape {x.get_shape()}"
            ) from None


def assert_rank(
    x: Any,
    rank: Any,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Fails unless `x` has the given rank.

    Args:
      x: A tensor.
      rank: A scalar, type int32.
      data: What to show when it fails.
      summarize: How many entries of each tensor to show.
      message: Text that comes first.
      name: A name for the scope.

    Raises:
      ValueError: The static shape decides it, and it does not hold.
    """
    return _rank_assertion(
        name, "assert_rank", "", x, [rank],
        lambda found, wanted: found == wanted[0],
        lambda found, wanted: comparison.equal(found, wanted[0]),
        data, summarize, message,
    )  # fmt: skip


def assert_rank_at_least(
    x: Any,
    rank: Any,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Fails unless `x` has the given rank or a higher one; see `assert_rank`."""
    return _rank_assertion(
        name, "assert_rank_at_least", " at least", x, [rank],
        lambda found, wanted: found >= wanted[0],
        lambda found, wanted: comparison.greater_equal(found, wanted[0]),
        data, summarize, message,
    )  # fmt: skip


def assert_rank_in(
    x: Any,
    ranks: Sequence[Any],
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Fails unless `x` has one of the given ranks; see `assert_rank`."""

    def is_among(found: Tensor, wanted: Sequence[Tensor]) -> Tensor:
        result = convert_to_tensor(False) if not wanted else comparison.equal(wanted[0], found)
        for rank in wanted[1:]:
            result = comparison.logical_or(result, comparison.equal(rank, found))
        return result

    return _rank_assertion(
        name, "assert_rank_in", " in", x, ranks,
        lambda found, wanted: found in wanted, is_among, data, summarize, message,
    )  # fmt: skip


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """`tensor`, if its static shape says that it is a scalar.

    Raises:
      ValueError: It is not known to be one.
    """
    with name_scope(name, "assert_scalar", [tensor]) as scope:
        tensor = convert_to_tensor(tensor, name=scope)
        if tensor.shape.ndims != 0:
            raise ValueError(
                f"{_prefix(message)}Expected scalar shape for {tensor.name}, saw shape: "
                f"{tensor.shape}."
            )
        return tensor


class _SizedTensor:
    """A tensor of `assert_shapes`: its sizes as far as known, and the symbols given for them."""

    def __init__(self, tensor: Any, symbols: Sequence[Any], prefix: str) -> None:
        self.tensor = tensor
        self.label = tensor.name
        #: Whether only the innermost dimensions are stated.
        self.is_open = bool(symbols) and symbols[0] in (Ellipsis, "*")
        for i, symbol in enumerate(symbols):
            if i and symbol in (Ellipsis, "*"):
                raise ValueError(
                    f"{prefix}Tensor {self.label} specified shape index {i}.  Symbol `...` or `*` "
                    "for a variable number of unspecified dimensions is only allowed as the "
                    "first entry"
                )
        stated = tuple(symbols[1:] if self.is_open else symbols)
        self.symbols = stated or (1,)

    def size(self, axis: int) -> Any:
        """The size of a dimension: an int where it is known, else a tensor."""
        shape = self.tensor.get_shape()
        if shape.ndims == 0:
            return 1
        known = shape.sizes[axis] if shape.ndims is not None else None
        if known is not None:
            return known
        return array_shape.shape(self.tensor)[axis]


def assert_shapes(
    shapes: Any,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Fails unless tensors have the shapes given, in which names stand for equal sizes.

    Args:
      shapes: Pairs (or a dict) of a tensor and its shape: a sequence of sizes, of names (equal
        names mean equal sizes), and of None or '.' for any size. A leading ``...`` or '*'
        stands for any number of dimensions. A scalar counts as a vector of one element.
      data: What to show when it fails.
      summarize: How many entries of each tensor to show.
      message: Text that comes first.
      name: A name for the scope.

    Raises:
      ValueError: Static shapes decide it, and it does not hold.
    """
    pairs = list(shapes.items() if isinstance(shapes, dict) else shapes)
    prefix = _prefix(message)
    with name_scope(name, "assert_shapes", [*(tensor for tensor, _ in pairs), *(data or ())]):
        sized = []
        for tensor, symbols in pairs:
            if symbols is None:
                continue
            if not isinstance(tensor, SparseTensor):
                tensor = convert_to_tensor(tensor)
            if not hasattr(symbols, "__iter__") and not hasattr(symbols, "__getitem__"):
                raise ValueError(
                    f"{prefix}Tensor {tensor.name}.  Specified shape must be an iterable.  An "
                    "iterable has the attribute `__iter__` or `__getitem__`.  Received specified "
                    f"shape: {symbols}"
                )
            sized.append(_SizedTensor(tensor, tuple(symbols), prefix))
        ranks = [check for each in sized for check in _shape_ranks(each, data, summarize, message)]
        checks: list[Operation] = []
        #: Of each name: the size, the tensor that stated it first, and where.
        stated: dict[Any, tuple[Any, _SizedTensor, int]] = {}
        for each in sized:
            for i, symbol in enumerate(each.symbols):
                if symbol is None or symbol == ".":
                    continue
                axis = i - len(each.symbols) if each.is_open else i
                with control_dependencies(ranks):
                    found = each.size(axis)
                wanted = _as_size(symbol)
                why = "Specified explicitly"
                if wanted is None:
                    if symbol not in stated:
                        stated[symbol] = (found, each, axis)
                        continue
                    wanted, first, first_axis = stated[symbol]
                    why = f"Specified by tensor {first.label} dimension {first_axis}"
                if isinstance(found, int) and isinstance(wanted, int):
                    if found != wanted:
                        raise ValueError(
                            f"{prefix}{why}.  Tensor {each.label} dimension {axis} must have size "
                            f"{wanted}.  Received size {found}, shape {each.tensor.get_shape()}"
                        )
                    continue
                shown = (
                    data
                    if data is not None
                    else [
                        prefix,
                        why,
                        f"Tensor {each.label} dimension",
                        axis,
                        "must have size",
                        wanted,
                        "Received shape: ",
                        array_shape.shape(each.tensor),
                    ]
                )
                checks.append(Assert(comparison.equal(found, wanted), shown, summarize=summarize))
        with control_dependencies(ranks):
            return control_flow.group(*checks)


def _shape_ranks(
    each: _SizedTensor, data: Any, summarize: int | None, message: str | None
) -> list[Operation]:
    rank = len(each.symbols)
    if each.is_open:
        if rank < 2:
            return []
        return [assert_rank_at_least(each.tensor, rank, data, summarize, message)]
    if rank < 2:
        return [assert_rank_in(each.tensor, [0, 1], data, summarize, message)]
    return [assert_rank(each.tensor, rank, data, summarize, message)]


def _as_size(symbol: Any) -> int | None:
    try:
        return int(symbol)
    except (TypeError, ValueError):
        return None


# -- Types -------------------------------------------------------------------------------


def assert_type(
    tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None
) -> Operation:
    """Raises TypeError unless `tensor` has type `tf_type`; the operation does nothing."""
    wanted = dtypes.as_dtype(tf_type)
    with name_scope(name, "assert_type", [tensor]):
        if not isinstance(tensor, SparseTensor):
            tensor = convert_to_tensor(tensor, name="tensor")
        if tensor.dtype != wanted:
            raise TypeError(
                f"{_prefix(message)}{tensor.name} must be of type tf.{wanted.name}; got "
                f"tf.{tensor.dtype.name}"
            )
        return control_flow.no_op("statically_determined_correct_type")


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Raises TypeError unless `x` is of an integer type; the operation does nothing."""
    with name_scope(name, "assert_integer", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(
                f'{_prefix(message)}Expected "x" to be integer type.  Found: {x.name} of dtype '
                f"{x.dtype}"
            )
        return control_flow.no_op("statically_determined_was_integer")


def assert_same_float_dtype(
    tensors: Sequence[Any] | None = None, dtype: dtypes.DType | None = None
) -> dtypes.DType:
    """The one floating type that all of `tensors` (and `dtype`) have; float32 when none is given.

    Raises:
      ValueError: They differ, or are not floating.
    """
    expected, first = dtype, None
    for tensor in tensors or ():
        if tensor is None:
            continue
        found = tensor.dtype.base_dtype
        if expected is None:
            expected, first = found, tensor
        elif found != expected:
            like = f" as {first.name}" if first is not None else ""
            raise ValueError(
                f"{tensor.name}, type={found}, must be of the same type ({expected}){like}."
            )
    if expected is None:
        return dtypes.float32
    if not expected.is_floating:
        raise ValueError(f"Expected floating point type, got {expected}.")
    return expected


def assert_proper_iterable(values: Any) -> None:
    """Raises TypeError unless `values` is an iterable, and not a tensor, an array or a string."""
    if isinstance(values, Tensor | SparseTensor | np.ndarray | bytes | str):
        raise TypeError(
            f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}'
        )
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether `tensor` is a tensor of a numeric type."""
    return isinstance(tensor, Tensor) and tensor.dtype.base_dtype in _NUMERIC


# -- Order -------------------------------------------------------------------------------


def _all_neighbours(x: Any, compare: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    flat = array_shape.reshape(x, [-1])
    if not is_numeric_tensor(flat):
        raise TypeError(f"Expected x to be numeric, instead found: {flat}")
    # Of fewer than two elements both slices are empty, and all of nothing holds.
    return reduction.reduce_all(compare(flat[1:], flat[:-1]))


def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether each element of `x`, in row-major order, is at least the one before."""
    with name_scope(name, "is_non_decreasing", [x]):
        return _all_neighbours(x, lambda later, earlier: comparison.greater_equal(later, earlier))


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether each element of `x`, in row-major order, is greater than the one before."""
    with name_scope(name, "is_strictly_increasing", [x]):
        return _all_neighbours(x, lambda later, earlier: comparison.greater(later, earlier))


# -- Finite numbers ----------------------------------------------------------------------


def verify_tensor_all_finite(
    t: Any = None,
    msg: str | None = None,
    name: str | None = None,
    x: Any = None,
    message: str | None = None,
) -> Tensor:
    """`x`; the step fails with `message` if it has NaN or infinite entries.

    `t` and `msg` are the old names of `x` and `message`.
    """
    value = _one_of(x, "x", t, "t")
    text = _one_of(message, "message", msg, "msg")
    with name_scope(name, "VerifyFinite", [value]):
        tensor = convert_to_tensor(value, name="x")
        with colocate_with(tensor):
            verified = check_numerics(tensor, message=text)
            result: Tensor = control_flow.with_dependencies([verified], tensor)
    return result


def _one_of(value: Any, name: str, old_value: Any, old_name: str) -> Any:
    if old_value is not None:
        if value is not None:
            raise ValueError(f"Cannot specify both '{old_name}' and '{name}'.")
        return old_value
    if value is None:
        raise ValueError(f"Argument '{name}' is missing.")
    return value


def add_check_numerics_ops() -> Operation:
    """An operation that checks every floating tensor of the default graph, in order of creation.

    Raises:
      ValueError: The graph has conditionals or loops: a tensor inside may never be computed.
    """
    checked: list[Tensor] = []
    for operation in get_default_graph().get_operations():
        for output in operation.outputs:
            if output.dtype not in (dtypes.float16, dtypes.float32, dtypes.float64):
                continue
            if operation._get_control_flow_context() is not None:
                raise ValueError(
                    "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow "
                    "operations such as `tf.cond()` or `tf.while_loop()`."
                )
            with control_dependencies(checked):
                checked = [check_numerics(output, message=output.name)]
    return control_flow.group(*checked)
