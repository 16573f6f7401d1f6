"""Clipping: keeping values, or the length of vectors, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.graph import registry
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import colocate_with, name_scope
from millrace.graph.define import op
from millrace.graph.dispatch import dispatched
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import unchanged
from millrace.graph.slices import IndexedSlices, convert_to_tensor_or_indexed_slices
from millrace.graph.tensor import Tensor
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.math import arithmetic, comparison, elementwise, numeric, reduction
from millrace.ops.math.broadcasting import shape_text, sum_to_inputs

__all__ = [
    "clip_by_average_norm", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "global_norm",
]  # fmt: skip


@op(
    "ClipByValue(t: T, clip_value_min: T, clip_value_max: T) -> output: T where T: number",
    shape=unchanged,
)
def ClipByValue(t: Any, clip_value_min: Any, clip_value_max: Any, *, xp: Any) -> Any:
    for bound in (clip_value_min, clip_value_max):
        if bound.ndim and bound.shape != t.shape:
            raise ValueError(
                "clip_value_min and clip_value_max must be either of the same shape as input, or "
                f"a scalar. input shape: {shape_text(t.shape)}"
                f"clip_value_min shape: {shape_text(clip_value_min.shape)}"
                f"clip_value_max shape: {shape_text(clip_value_max.shape)}"
            )
    return xp.maximum(xp.minimum(t, clip_value_max), clip_value_min)


@ClipByValue.gradient
def _(op: Operation, grad: Any) -> Any:
    x, low, high = op.inputs
    zero = array_fill.zeros_like(grad)
    is_below, is_above = comparison.less(x, low), comparison.greater(x, high)
    outside = comparison.logical_or(is_below, is_above)
    grad_low = array_select.where_v2(is_below, grad, zero)
    grad_high = array_select.where_v2(is_above, grad, zero)
    return (
        array_select.where_v2(outside, zero, grad),
        sum_to_inputs(low, x, grad_low, None)[0],
        sum_to_inputs(high, x, grad_high, None)[0],
    )


def _values(t: Any) -> Tensor:
    return convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")


def _like(t: Any, values: Tensor) -> Any:
    """New values in the form of `t`: IndexedSlices stay IndexedSlices."""
    if isinstance(t, IndexedSlices):
        return IndexedSlices(values, t.indices, t.dense_shape)
    return values


@dispatched
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """`t` with its values cut to a range.

    Args:
      t: A tensor or IndexedSlices.
      clip_value_min: The least value, broadcast to the shape of `t`.
      clip_value_max: The greatest value, broadcast to the shape of `t`.
      name: The node's name.
    """
    with name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as scope:
        values = _values(t)
        lowered = arithmetic.minimum(values, clip_value_max)
        values.shape.assert_is_compatible_with(lowered.shape)
        raised = arithmetic.maximum(lowered, clip_value_min, name=scope)
        values.shape.assert_is_compatible_with(raised.shape)
        return _like(t, raised)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """`t`, scaled down where its Euclidean norm is greater than `clip_norm`.

    Args:
      t: A tensor or IndexedSlices.
      clip_norm: The greatest norm, a positive scalar.
      axes: The axes over which to take norms; all together when None.
      name: The node's name.
    """
    with name_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values: Any = _values(t)
        total = reduction.reduce_sum(values * values, axes, keepdims=True)
        # The root has no gradient at 0, so it is never taken there.
        is_positive = comparison.greater(total, 0)
        safe = array_select.where(is_positive, total, array_fill.ones_like(total))
        norm = array_select.where(is_positive, elementwise.sqrt(safe), total)
        scaled = values * clip_norm
        values.shape.assert_is_compatible_with(scaled.shape)
        clipped = scaled / arithmetic.maximum(norm, clip_norm)
        return _like(t, array_identity.identity(clipped, name=scope))


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Any:
    """The Euclidean norm of all tensors of a list together.

    Args:
      t_list: Tensors, IndexedSlices and None (which is left out).
      name: The name scope.

    Raises:
      TypeError: `t_list` is no sequence.
    """
    t_list = _as_list(t_list)
    with name_scope(name, "global_norm", t_list):
        half_squares = []
        l2_loss: Any = registry.lookup("L2Loss")
        for item in t_list:
            if item is not None:
                tensor = convert_to_tensor(item.values if isinstance(item, IndexedSlices) else item)
                with colocate_with(tensor.op):
                    half_squares.append(l2_loss(tensor))
        total: Any = reduction.reduce_sum(array_join.stack(half_squares))
        return elementwise.sqrt(
            total * convert_to_tensor(2.0, total.dtype.base_dtype), name="global_norm"
        )


def _as_list(t_list: Any) -> list[Any]:
    if not isinstance(t_list, Sequence) or isinstance(t_list, str):
        raise TypeError(f"`t_list` should be a sequence of tensors. Received {type(t_list)}.")
    return list(t_list)


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """Tensors, scaled by one factor such that their common norm is at most `clip_norm`.

    Args:
      t_list: Tensors, IndexedSlices and None (which stays None).
      clip_norm: The greatest norm, a positive scalar.
      use_norm: The common norm, if it is known already.
      name: The name scope.

    Returns:
      The scaled tensors, and the norm from before. All values become NaN when the norm is
      infinite or NaN.

    Raises:
      TypeError: `t_list` is no sequence.
    """
    items = _as_list(t_list)
    norm: Any = global_norm(items, name) if use_norm is None else use_norm
    with name_scope(name, "clip_by_global_norm", [*items, clip_norm]) as scope:
        norm = convert_to_tensor(norm)
        inverse = 1.0 / norm
        one: Any = convert_to_tensor(1.0, norm.dtype.base_dtype)
        scale = clip_norm * arithmetic.minimum(inverse, one / clip_norm)
        # A norm that is not finite minus itself is NaN, and so are the values then.
        scale = scale + (norm - norm)
        clipped: list[Any] = []
        for i, item in enumerate(items):
            if item is None:
                clipped.append(None)
                continue
            item = convert_to_tensor_or_indexed_slices(item, name=f"t_{i}")
            values = item.values if isinstance(item, IndexedSlices) else item
            with colocate_with(values.op):
                scaled = array_identity.identity(values * scale, name=f"{scope}_{i}")
            clipped.append(_like(item, scaled))
        return clipped, norm


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """`t`, scaled down where its norm per element is greater than `clip_norm`.

    Args:
      t: A tensor.
      clip_norm: The greatest norm per element, a positive scalar.
      name: The node's name.
    """
    with name_scope(name, "clip_by_average_norm", [t, clip_norm]) as scope:
        values: Any = convert_to_tensor(t, name="t")
        count = cast.cast(array_shape.size(values), values.dtype.base_dtype)
        total = reduction.reduce_sum(values * values, numeric.range(array_shape.rank(values)))
        inverse: Any = elementwise.rsqrt(total)
        scaled = values * clip_norm
        share = inverse * count
        one: Any = convert_to_tensor(1.0, values.dtype.base_dtype)
        clipped = scaled * arithmetic.minimum(share, one / clip_norm)
        return array_identity.identity(clipped, name=scope)
