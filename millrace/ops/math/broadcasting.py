"""Broadcasting: what the kernels and the gradients of two-sided ops share.

A gradient that flows back to an input that was broadcast is summed over the axes along which
the input was repeated. Where static shapes tell these axes nothing is left for the run; where
they do not, a BroadcastGradientArgs node works them out, as in TensorFlow's graphs.

Every op file may import from here, so this module imports none of them: it finds the ops
that it builds in the registry.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from millrace.core.tensor_shape import TensorShape
from millrace.graph import registry
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor

__all__: list[str] = []


def broadcasting(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a kernel of two arrays refuse shapes that do not broadcast, in TensorFlow's words."""

    @functools.wraps(kernel)
    def checked(x: Any, y: Any, **keywords: Any) -> Any:
        require_broadcast(x.shape, y.shape)
        return kernel(x, y, **keywords)

    checked.broadcasts = True  # type: ignore[attr-defined]
    return checked


def require_broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Raises ValueError unless the two shapes broadcast against each other."""
    if x != y and not can_broadcast(x, y):
        raise ValueError(f"Incompatible shapes: {shape_text(x)} vs. {shape_text(y)}")


def can_broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """Whether two shapes broadcast against each other."""
    pairs = zip(reversed(x), reversed(y), strict=False)
    return all(m == n or m == 1 or n == 1 for m, n in pairs)


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as TensorFlow's kernels print it: ``[2,3]``."""
    return f"[{','.join(str(size) for size in shape)}]"


# -- Gradients ---------------------------------------------------------------------------


def sum_to_inputs(x: Tensor, y: Tensor, grad_x: Any, grad_y: Any) -> tuple[Any, Any]:
    """Gradients in the shape of a broadcast result, summed to the shapes of its two inputs.

    Args:
      x: The first input.
      y: The second input.
      grad_x: The gradient that belongs to `x`, or None.
      grad_y: The gradient that belongs to `y`, or None.
    """
    axes = repeated_axes(x.shape, y.shape)
    if axes is None:
        shape_x, shape_y = _build("Shape", x), _build("Shape", y)
        axes_x, axes_y = _build("BroadcastGradientArgs", shape_x, shape_y)
        return _summed(grad_x, axes_x, shape_x), _summed(grad_y, axes_y, shape_y)
    return _summed_statically(x, y, grad_x, axes[0]), _summed_statically(y, x, grad_y, axes[1])


def sum_batches_to_inputs(x: Tensor, y: Tensor, grad_x: Any, grad_y: Any) -> tuple[Any, Any]:
    """As `sum_to_inputs`, where all but the last two axes broadcast (batches of matrices)."""
    if x.shape.ndims is not None and y.shape.ndims is not None:
        axes = repeated_axes(x.shape[:-2], y.shape[:-2])
        if axes is not None:
            return (
                _summed_statically(x, y, grad_x, axes[0]),
                _summed_statically(y, x, grad_y, axes[1]),
            )
    shape_x: Any = _build("Shape", x)
    shape_y: Any = _build("Shape", y)
    axes_x, axes_y = _build("BroadcastGradientArgs", shape_x[:-2], shape_y[:-2])
    return _summed(grad_x, axes_x, shape_x), _summed(grad_y, axes_y, shape_y)


def repeated_axes(x: TensorShape, y: TensorShape) -> tuple[list[int], list[int]] | None:
    """The axes of the result along which x and y are repeated; None where shapes do not tell."""
    if x.sizes is None or y.sizes is None:
        return None
    rank = max(len(x.sizes), len(y.sizes))
    sizes_x = (1,) * (rank - len(x.sizes)) + x.sizes
    sizes_y = (1,) * (rank - len(y.sizes)) + y.sizes
    axes_x: list[int] = []
    axes_y: list[int] = []
    for axis, (m, n) in enumerate(zip(sizes_x, sizes_y, strict=True)):
        if m == 1 and n != 1:
            axes_x.append(axis)
        elif n == 1 and m != 1:
            axes_y.append(axis)
        elif m is None or n is None:
            return None
    return axes_x, axes_y


def _build(op_type: str, *args: Any, **keywords: Any) -> Any:
    builder: Any = registry.lookup(op_type)
    return builder(*args, **keywords)


def _summed(grad: Any, axes: Any, shape: Any) -> Any:
    return None if grad is None else _build("Reshape", _build("Sum", grad, axes), shape)


def _summed_statically(tensor: Tensor, other: Tensor, grad: Any, axes: list[int]) -> Any:
    lower_rank = len(tensor.shape.sizes or ()) < len(other.shape.sizes or ())
    if grad is None or not (axes or lower_rank):
        return grad
    total = _build("Sum", grad, axes, keep_dims=True)
    if not lower_rank:
        return total
    sizes = tensor.shape.sizes or ()
    shape = _build("Shape", tensor) if None in sizes else list(sizes)
    return _build("Reshape", total, shape)


# -- Operators ---------------------------------------------------------------------------


def binary_operator(
    function: Callable[..., Any], name: str
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What a Python operator does with a tensor on its left, and on its right.

    Args:
      function: The meaning, ``function(x, y, name)``.
      name: The name scope of the nodes that it makes.
    """

    def on_left(x: Any, y: Any) -> Any:
        if isinstance(y, SparseTensor):
            return NotImplemented
        with name_scope(None, name, [x, y]) as scope:
            return function(x, y, name=scope)

    def on_right(y: Any, x: Any) -> Any:
        with name_scope(None, name, [x, y]) as scope:
            x = convert_to_tensor(x, dtype=y.dtype.base_dtype, name="x")
            return function(x, y, name=scope)

    return on_left, on_right


def overload_pair(operator: str, function: Callable[..., Any], name: str) -> None:
    """Makes `function` the meaning of an operator with a tensor on either side."""
    on_left, on_right = binary_operator(function, name)
    Tensor.overload(f"__{operator}__", on_left)
    Tensor.overload(f"__r{operator}__", on_right)
