"""What programs take from TensorFlow's python.ops.rnn_cell_impl that has no public name."""

from collections.abc import Sequence
from typing import Any

from millrace.core.tensor_shape import TensorShape, as_shape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.ops.array import join, shape
from millrace.ops.linalg import linear_algebra
from millrace.ops.nn import bias
from millrace.ops.state import initializers
from millrace.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope

_BIAS_VARIABLE_NAME = "bias"
_WEIGHTS_VARIABLE_NAME = "kernel"


def assert_like_rnncell(cell_name: str, cell: Any) -> None:
    """Raises a TypeError for what cannot be used as a cell."""
    wanted = {
        "'output_size' property is missing": hasattr(cell, "output_size"),
        "'state_size' property is missing": hasattr(cell, "state_size"),
        "either 'zero_state' or 'get_initial_state' method is required": hasattr(cell, "zero_state")
        or hasattr(cell, "get_initial_state"),
        "is not callable": callable(cell),
    }
    if not all(wanted.values()):
        errors = [text for text, holds in wanted.items() if not holds]
        raise TypeError(
            f"The argument {cell_name!r} ({cell}) is not an RNNCell: {', '.join(errors)}."
        )


def _like_rnncell(cell: Any) -> bool:
    """Whether it can be used as a cell."""
    try:
        assert_like_rnncell("cell", cell)
    except TypeError:
        return False
    return True


def _concat(prefix: Any, suffix: Any, static: bool = False) -> Any:
    """Two parts of a shape, one behind the other: as a list if static, else as a tensor."""
    parts = [_dimensions(each, static) for each in (prefix, suffix)]
    if static:
        return as_shape([*parts[0], *parts[1]]).as_list()
    return join.concat(parts, 0)


def _dimensions(part: Any, static: bool) -> Any:
    if hasattr(part, "op"):
        known = constant_value(part)
        if static:
            return [None] if known is None else [int(d) for d in known.reshape(-1)]
        return shape.expand_dims(part, 0) if part.shape.ndims == 0 else part
    whole = TensorShape([part]) if isinstance(part, int) else as_shape(part)
    if not static and not whole.is_fully_defined():
        raise ValueError(f"{part} has to be a fully defined shape here")
    return whole.as_list() if static else convert_to_tensor(whole.as_list(), dtype="int32")


class _Linear:
    """A map of the concatenated arguments: ``sum(args[i] @ W[i]) + bias``, with one kernel."""

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        """Makes the variables in the scope that is open.

        Args:
          args: A tensor of two dimensions, or a list of them.
          output_size: The width of the result.
          build_bias: Whether to add one.
          bias_initializer: For it; zeros by default.
          kernel_initializer: For the weights.

        Raises:
          ValueError: An argument is missing, or not a matrix of known width.
        """
        arguments: Sequence[Any] = args if isinstance(args, list | tuple) else [args]
        if not arguments or any(each is None for each in arguments):
            raise ValueError("`args` must be specified")
        width = 0
        for each in arguments:
            its = each.get_shape()
            if its.ndims != 2:
                raise ValueError(f"linear is expecting 2D arguments: {[its]}")
            if its[1].value is None:
                raise ValueError(f"linear expects shape[1] to be provided for shape {its}")
            width += its[1].value
        self._build_bias = build_bias
        dtype = arguments[0].dtype.base_dtype
        with variable_scope(get_variable_scope()) as outer:
            self._weights = get_variable(
                _WEIGHTS_VARIABLE_NAME,
                [width, output_size],
                dtype=dtype,
                initializer=kernel_initializer,
            )
            if build_bias:
                with variable_scope(outer) as inner:
                    inner.set_partitioner(None)
                    self._biases = get_variable(
                        _BIAS_VARIABLE_NAME,
                        [output_size],
                        dtype=dtype,
                        initializer=bias_initializer or initializers.Zeros(dtype),
                    )

    def __call__(self, args: Any) -> Any:
        """Applies it."""
        arguments = args if isinstance(args, list | tuple) else [args]
        whole = arguments[0] if len(arguments) == 1 else join.concat(arguments, 1)
        result = linear_algebra.matmul(whole, self._weights)
        return bias.bias_add(result, self._biases) if self._build_bias else result


def _linear(
    args: Any,
    output_size: int,
    bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> Any:
    """As `_Linear`, made and applied at once."""
    return _Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)
