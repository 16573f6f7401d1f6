"""`tf.gradients` and `tf.hessians`."""

from __future__ import annotations

from typing import Any

from millrace.core import dtypes
from millrace.graph import gradient_walk
from millrace.graph.convert import convert_to_tensor, register_tensor_conversion_function
from millrace.graph.defaults import get_default_graph
from millrace.graph.gradient_walk import AggregationMethod
from millrace.graph.slices import IndexedSlices
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import loops, tensor_array
from millrace.ops.functions import vector_jacobian as _generic_gradient  # noqa: F401 - registers itself
from millrace.ops.math import segment

__all__ = ["AggregationMethod", "UnconnectedGradients", "gradients", "hessians"]


class UnconnectedGradients:
    """What `gradients` gives for an x that no y depends on."""

    NONE = "none"
    ZERO = "zero"


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """Symbolic derivatives of the sum of `ys` with respect to each x in `xs`.

    Args:
      ys: A tensor or a list of tensors.
      xs: A tensor or a list of tensors or variables.
      grad_ys: Weights for the ys, of their shapes; ones when None.
      name: The name scope of the gradient ops.
      colocate_gradients_with_ops: Whether each gradient op goes where its op is.
      gate_gradients: Whether the gradients of one op are used only once all are there.
      aggregation_method: One of `AggregationMethod`.
      stop_gradients: Tensors that count as constants.
      unconnected_gradients: None or zeros for an x that no y depends on.

    Returns:
      A tensor, IndexedSlices or None for each x.
    """
    y_list = list(ys) if isinstance(ys, list | tuple) else [ys]
    x_list = list(xs) if isinstance(xs, list | tuple) else [xs]
    if grad_ys is not None and not isinstance(grad_ys, list | tuple):
        grad_ys = [grad_ys]
    stops = stop_gradients if stop_gradients is not None else []
    stop_list = list(stops) if isinstance(stops, list | tuple) else [stops]
    found = gradient_walk.gradients(
        y_list,
        x_list,
        grad_ys,
        name=name,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        stop_gradients=stop_list,
        graph=get_default_graph(),
    )
    wants_zero = getattr(unconnected_gradients, "value", unconnected_gradients) == "zero"
    if wants_zero:
        found = [
            array_fill.zeros_like(x) if g is None else g for g, x in zip(found, x_list, strict=True)
        ]
    return found


def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Any]:
    """The matrix of second derivatives of the sum of `ys` for each x (shape x.shape twice)."""
    x_list = list(xs) if isinstance(xs, list | tuple) else [xs]
    options: dict[str, Any] = {
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
        "gate_gradients": gate_gradients,
        "aggregation_method": aggregation_method,
    }
    result = []
    firsts = gradients(ys, x_list, **options)
    for first, x in zip(firsts, x_list, strict=True):
        x = convert_to_tensor(x)
        flat = array_shape.reshape(first, [-1])
        count = array_shape.size(flat)

        def row(i: Any, rows: Any, flat: Any = flat, x: Any = x) -> tuple[Any, Any]:
            return i + 1, rows.write(i, gradients(flat[i], x, **options)[0])

        rows = tensor_array.TensorArray(dtype=x.dtype.base_dtype, size=count)
        _, rows = loops.while_loop(
            lambda i, _, count=count: i < count, row, [convert_to_tensor(0), rows]
        )
        shape = array_shape.shape(x)
        matrix = array_shape.reshape(rows.stack(), array_join.concat([shape, shape], 0))
        if x.shape.is_fully_defined():
            matrix.set_shape(x.shape.concatenate(x.shape))
        result.append(matrix)
    return result


def _densify(
    value: IndexedSlices, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for IndexedSlices "
            f"with dtype {value.dtype.name}"
        )
    if value.dense_shape is None:
        raise ValueError(
            f"Tensor conversion requested for IndexedSlices without dense_shape: {value}"
        )
    rows = value.dense_shape[0]
    return segment.unsorted_segment_sum(value.values, value.indices, rows, name=name)


register_tensor_conversion_function(IndexedSlices, _densify, 90)
