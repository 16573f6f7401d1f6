"""From a loss to a training operation, with gradients changed on the way (`tf.contrib.training`).

Functions on (gradient, variable) pairs, as `Optimizer.compute_gradients` gives them and
`apply_gradients` takes them; a gradient may be None or an IndexedSlices and stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace.graph.defaults import (
    add_to_collection,
    control_dependencies,
    get_collection,
    name_scope,
)
from millrace.graph.keys import GraphKeys
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import constant
from millrace.ops.control_flow import assertion, control_flow
from millrace.ops.math import clip
from millrace.ops.state.variables import trainable_variables
from millrace.platform import logging
from millrace.summary import builders as summary
from millrace.training.global_step import get_or_create_global_step
from millrace.training.optimizers.optimizer import Optimizer

Pairs = list[tuple[Any, Any]]

#: Says "make a global step when there is none": None means that none is counted.
_USE_GLOBAL_STEP: Any = object()


def _on_values(change: Callable[[Any], Any], gradient: Any) -> Any:
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(change(gradient.values), gradient.indices, gradient.dense_shape)
    return change(gradient)


def add_gradients_summaries(grads_and_vars: Sequence[tuple[Any, Any]]) -> list[Tensor]:
    """Histograms of gradients and scalars of their norms; returns the summaries."""
    made = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            logging.info("Var %s has no gradient", variable.op.name)
            continue
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        made.append(summary.histogram(f"{variable.op.name}_gradient", values))
        made.append(summary.scalar(f"{variable.op.name}_gradient_norm", clip.global_norm([values])))
    return made


def clip_gradient_norms(gradients_to_variables: Sequence[tuple[Any, Any]], max_norm: Any) -> Pairs:
    """Pairs whose gradients are each scaled so that their norm is at most `max_norm`."""
    return [
        (None if g is None else _on_values(lambda v: clip.clip_by_norm(v, max_norm), g), variable)
        for g, variable in gradients_to_variables
    ]


def clip_gradient_norms_fn(max_norm: Any) -> Callable[[Sequence[tuple[Any, Any]]], Pairs]:
    """`clip_gradient_norms` as a function of the pairs only, for `create_train_op`."""
    return lambda gradients_to_variables: clip_gradient_norms(gradients_to_variables, max_norm)


def multiply_gradients(grads_and_vars: Any, gradient_multipliers: Any) -> Pairs:
    """Pairs in which some gradients are scaled.

    Args:
      grads_and_vars: A list of pairs.
      gradient_multipliers: Factors by variable, or by the name of a variable's op.

    Raises:
      ValueError: An argument is of the wrong type or empty, or a gradient to scale is None.
    """
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a dict.")
    result: Pairs = []
    for gradient, variable in grads_and_vars:
        for key in (variable, variable.op.name):
            if key not in gradient_multipliers:
                continue
            if gradient is None:
                raise ValueError(
                    f"Requested multiple of `None` gradient: variable {variable.op.name}."
                )
            factor = gradient_multipliers[key]
            if not isinstance(factor, Tensor):
                factor = constant.constant(factor, dtype=gradient.dtype.base_dtype)
            gradient = _on_values(lambda v, f=factor: v * f, gradient)  # type: ignore[misc]
            break
        result.append((gradient, variable))
    return result


def create_train_op(
    total_loss: Any,
    optimizer: Optimizer,
    global_step: Any = _USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Sequence[Any] | None = None,
    transform_grads_fn: Callable[[Pairs], Pairs] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = Optimizer.GATE_OP,
    aggregation_method: int | None = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Tensor:
    """A tensor that, when it is evaluated, does a training step and has the loss as value.

    Args:
      total_loss: The loss.
      optimizer: What computes and applies gradients.
      global_step: A variable to count up; the graph's own when left out, none when None.
      update_ops: Operations to run before; those in UPDATE_OPS when None.
      variables_to_train: Variables to train; all trainable ones when None.
      transform_grads_fn: Changes the (gradient, variable) pairs.
      summarize_gradients: Whether to add summaries of the gradients.
      gate_gradients: As in `Optimizer.minimize`.
      aggregation_method: As in `Optimizer.minimize`.
      colocate_gradients_with_ops: As in `Optimizer.minimize`.
      check_numerics: Whether a loss that is no number is an error.
    """
    if global_step is _USE_GLOBAL_STEP:
        global_step = get_or_create_global_step()
    collected = set(get_collection(GraphKeys.UPDATE_OPS))
    updates = collected if update_ops is None else set(update_ops)
    if not collected <= updates:
        logging.warning(
            "update_ops in create_train_op does not contain all the update_ops in "
            "GraphKeys.UPDATE_OPS"
        )
    if updates:
        with control_dependencies(sorted(updates, key=lambda op: str(op.name))):
            barrier = control_flow.no_op(name="update_barrier")
        total_loss = control_flow.with_dependencies([barrier], total_loss)
    trainable = trainable_variables()
    if variables_to_train is None:
        variables_to_train = trainable
    for variable in variables_to_train:
        if variable not in trainable:
            raise ValueError(f"Variable {variable.op.name} in variables_to_train is not trainable.")
    if not variables_to_train:
        raise ValueError("There are no variables to train.")
    pairs = optimizer.compute_gradients(
        total_loss,
        list(variables_to_train),
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if transform_grads_fn is not None:
        pairs = transform_grads_fn(pairs)
    if summarize_gradients:
        with name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    applied = optimizer.apply_gradients(pairs, global_step=global_step)
    with name_scope("train_op"):
        if check_numerics:
            total_loss = assertion.check_numerics(total_loss, "LossTensor is inf or nan")
        train_op: Tensor = control_flow.with_dependencies([applied], total_loss)
    if train_op not in get_collection(GraphKeys.TRAIN_OP):
        add_to_collection(GraphKeys.TRAIN_OP, train_op)
    return train_op
