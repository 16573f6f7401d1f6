"""Grayscale morphology: dilation (the largest sum of image and kernel in a window) and erosion.

Windows are stacked, one slice for each place of the kernel, and the first of the largest is
taken: its place gets the gradient, as in TensorFlow. What is outside of the image never wins.
"""

from __future__ import annotations

from typing import Any

from millrace.compiler.xla import jax, jnp
from millrace.core.tensor_shape import TensorShape
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, like
from millrace.graph.tensor import Tensor
from millrace.ops.array import layout as array_layout
from millrace.ops.array.rules import require_rank
from millrace.ops.math import elementwise

__all__ = ["dilation2d", "erosion2d"]

_WINDOW = 'strides: list(int) >= 4; rates: list(int) >= 4; padding: {"SAME", "VALID"}; T: real'


def _check_window(strides: Any, rates: Any) -> None:
    if len(strides) != 4 or strides[0] != 1 or strides[3] != 1:
        raise ValueError(
            "Dilation requires the stride for the batch and depth dimensions to be 1 and 4 of "
            f"them, but got {list(strides)}"
        )
    if len(rates) != 4 or rates[0] != 1 or rates[3] != 1:
        raise ValueError(
            "Dilation requires the rate for the batch and depth dimensions to be 1 and 4 of "
            f"them, but got {list(rates)}"
        )


def _extent(size: int, kernel: int, stride: int, rate: int, padding: bytes) -> tuple[int, int, int]:
    """How many windows there are along an axis, and the padding before and after."""
    reach = (kernel - 1) * rate + 1
    if padding == b"VALID":
        return max(0, -(-(size - reach + 1) // stride)), 0, 0
    count = -(-size // stride)
    total = max(0, (count - 1) * stride + reach - size)
    return count, total // 2, total - total // 2


def _dilated_shape(c: ShapeContext) -> TensorShape:
    strides, rates = c.attr("strides"), c.attr("rates")
    _check_window(strides, rates)
    x = require_rank_of(c.shape(0), 4)
    kernel = require_rank_of(c.shape(1), 3)
    depth = x[3].merge_with(kernel[2]) if x.ndims is not None else kernel[2]
    result: list[Any] = [x[0], None, None, depth]
    for i in (1, 2):
        size, width = x[i].value, kernel[i - 1].value
        if size is not None and width is not None:
            result[i] = _extent(size, width, strides[i], rates[i], c.attr("padding"))[0]
    return TensorShape(result)


def require_rank_of(shape: TensorShape, rank: int) -> TensorShape:
    """The shape with that rank; ValueError if it has another."""
    require_rank(shape, rank)
    return shape.with_rank(rank)


def _stacked(x: Any, kernel_size: tuple[int, int], attrs: Any, fill: Any) -> Any:
    """The windows, [kernel places, batch, rows, columns, depth]."""
    strides, rates, padding = attrs["strides"], attrs["rates"], attrs["padding"]
    extents = [
        _extent(x.shape[i], kernel_size[i - 1], strides[i], rates[i], padding) for i in (1, 2)
    ]
    edges = [(0, 0), *((before, after) for _, before, after in extents), (0, 0)]
    x = jnp.pad(x, edges, constant_values=fill)
    slices = []
    for i in range(kernel_size[0]):
        for j in range(kernel_size[1]):
            starts = (i * rates[1], j * rates[2])
            window = tuple(
                slice(start, start + (count - 1) * stride + 1 if count else start, stride)
                for start, (count, _, _), stride in zip(starts, extents, strides[1:3], strict=True)
            )
            slices.append(x[(slice(None), *window)])
    return jnp.stack(slices)


def _sums(x: Any, kernel: Any, attrs: Any) -> Any:
    """Image plus kernel at all places of all windows; the lowest number outside of the image."""
    _check_window(attrs["strides"], attrs["rates"])
    size = kernel.shape[:2]
    is_integer = jnp.issubdtype(x.dtype, jnp.integer)
    lowest = jnp.iinfo(x.dtype).min if is_integer else jnp.finfo(x.dtype).min
    inside = _stacked(jnp.ones(x.shape[1:3], bool)[None, :, :, None], size, attrs, False)
    values = _stacked(x, size, attrs, 0) + kernel.reshape(-1, 1, 1, 1, kernel.shape[2])
    return jnp.where(inside, values, jnp.asarray(lowest, x.dtype))


def _chosen(x: Any, kernel: Any, grad: Any, attrs: Any) -> Any:
    """The gradient at the place of each window that was the first of the largest."""
    sums = _sums(x, kernel, attrs)
    places = jnp.arange(sums.shape[0]).reshape(-1, 1, 1, 1, 1)
    return jnp.where(places == jnp.argmax(sums, axis=0), grad, jnp.zeros((), grad.dtype))


@op(
    f"Dilation2D(input: T, filter: T) -> output: T where {_WINDOW}",
    shape=_dilated_shape,
)
def Dilation2D(input: Any, filter: Any, *, node: Any) -> Any:
    """The largest sum of image and kernel in each window."""
    return jnp.max(_sums(input, filter, node.attrs), axis=0)


@op(
    "Dilation2DBackpropInput(input: T, filter: T, out_backprop: T) -> in_backprop: T where "
    f"{_WINDOW}",
    shape=like("input"),
    gradient=NO_GRADIENT,
)
def Dilation2DBackpropInput(input: Any, filter: Any, out_backprop: Any, *, node: Any) -> Any:
    """The gradient of the image."""
    chosen = _chosen(input, filter, out_backprop, node.attrs)
    spread = jax.linear_transpose(
        lambda x: _stacked(x, filter.shape[:2], node.attrs, 0),
        jnp.zeros(input.shape, input.dtype),
    )
    return spread(chosen)[0]


@op(
    "Dilation2DBackpropFilter(input: T, filter: T, out_backprop: T) -> filter_backprop: T where "
    f"{_WINDOW}",
    shape=like("filter"),
    gradient=NO_GRADIENT,
)
def Dilation2DBackpropFilter(input: Any, filter: Any, out_backprop: Any, *, node: Any) -> Any:
    """The gradient of the kernel."""
    chosen = _chosen(input, filter, out_backprop, node.attrs)
    return jnp.sum(chosen, axis=(1, 2, 3)).reshape(filter.shape)


@Dilation2D.gradient
def _(op: Operation, grad: Tensor) -> Any:
    attrs = {name: op.attrs[name] for name in ("strides", "rates", "padding")}
    return (
        Dilation2DBackpropInput(*op.inputs, grad, **attrs),
        Dilation2DBackpropFilter(*op.inputs, grad, **attrs),
    )


def dilation2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The largest sum of image and kernel in each window.

    Args:
      input: [batch, height, width, depth].
      filter: [height, width, depth].
      strides: Steps between windows, [1, rows, columns, 1].
      rates: Steps inside of a window, [1, rows, columns, 1].
      padding: ``"SAME"`` or ``"VALID"``.
      name: Name of the op.
      filters: The newer name of `filter`.
      dilations: The newer name of `rates`.
    """
    kernel = filter if filters is None else filters
    steps = rates if dilations is None else dilations
    result: Tensor = Dilation2D(
        input, kernel, strides=strides, rates=steps, padding=padding, name=name
    )
    return result


def erosion2d(
    value: Any, kernel: Any, strides: Any, rates: Any, padding: Any, name: str | None = None
) -> Tensor:
    """The smallest difference of image and kernel in each window; see `dilation2d`."""
    with name_scope(name, "erosion2d", [value, kernel]) as scope:
        turned = array_layout.reverse(kernel, [0, 1])
        negated = elementwise.negative(value)
        widest = Dilation2D(
            negated, turned, strides=strides, rates=rates, padding=padding, name=scope
        )
        result: Tensor = elementwise.negative(widest)
        return result
