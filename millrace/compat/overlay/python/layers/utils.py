"""What programs take from TensorFlow's python.layers.utils that has no public name."""

from collections.abc import Callable
from typing import Any

from millrace.graph.constant_value import constant_value as _static_value
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow.control_flow import cond


def constant_value(pred: Any) -> Any:
    """What is known of a condition while the graph is built: a bool, or None."""
    if isinstance(pred, Tensor):
        return _static_value(pred)
    return pred if isinstance(pred, bool) else bool(pred)


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Calls one of two functions if the condition is known, else builds a conditional."""
    known = constant_value(pred)
    if known is None:
        return cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    chosen = true_fn if known else false_fn
    if chosen is None:
        raise TypeError("true_fn and false_fn must be callable.")
    return chosen()
