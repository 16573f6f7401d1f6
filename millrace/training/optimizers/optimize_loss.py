"""`tf.contrib.layers.optimize_loss`: rate, optimizer, clipping and summaries in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace.core import dtypes
from millrace.graph.defaults import get_collection
from millrace.graph.keys import GraphKeys
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow import control_flow
from millrace.ops.math import clip
from millrace.ops.random import random
from millrace.ops.state import initializers
from millrace.ops.state.variable_scope import get_variable, variable_scope
from millrace.ops.state.variables import trainable_variables
from millrace.summary import builders as summary
from millrace.training.global_step import assert_global_step, get_global_step
from millrace.training.optimizers.adagrad import AdagradOptimizer
from millrace.training.optimizers.adam import AdamOptimizer
from millrace.training.optimizers.ftrl import FtrlOptimizer
from millrace.training.optimizers.gradient_descent import GradientDescentOptimizer
from millrace.training.optimizers.momentum import MomentumOptimizer
from millrace.training.optimizers.optimizer import Optimizer
from millrace.training.optimizers.rmsprop import RMSPropOptimizer
from millrace.training.optimizers.train_op import Pairs, multiply_gradients

OPTIMIZER_CLS_NAMES: dict[str, Callable[..., Optimizer]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "Momentum": lambda learning_rate: MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}

OPTIMIZER_SUMMARIES = [
    "learning_rate",
    "loss",
    "gradients",
    "gradient_norm",
    "global_gradient_norm",
]


def optimize_loss(
    loss: Tensor,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: dict[Any, Any] | None = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
    update_ops: Sequence[Any] | None = None,
    variables: Sequence[Any] | None = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Tensor:
    """A tensor that does a training step when it is evaluated, with the loss as value.

    Args:
      loss: A scalar.
      global_step: Counts steps; the graph's own when None.
      learning_rate: A number or scalar tensor; None if the optimizer knows it.
      optimizer: A name in `OPTIMIZER_CLS_NAMES`, a class, an Optimizer, or a function of the
        learning rate (or, when that is None, of nothing) that returns one.
      gradient_noise_scale: How much normal noise is added to gradients.
      gradient_multipliers: Factors by variable or name.
      clip_gradients: The largest global norm, or a function on (gradient, variable) pairs.
      learning_rate_decay_fn: A function of the learning rate and the global step.
      update_ops: Operations to run before; those in UPDATE_OPS when None.
      variables: Variables to train; all trainable ones when None.
      name: A scope.
      summaries: Which of `OPTIMIZER_SUMMARIES`; when None, without those of gradients.
      colocate_gradients_with_ops: As in `Optimizer.minimize`.
      increment_global_step: Whether to count.

    Raises:
      ValueError: An argument is of the wrong type or value.
    """
    step = get_global_step() if global_step is None else global_step
    if step is not None:
        assert_global_step(step)
    wanted = ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else summaries
    for item in wanted:
        if item not in OPTIMIZER_SUMMARIES:
            raise ValueError(
                f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided "
                f"{item}."
            )
    with variable_scope(name, "OptimizeLoss", [loss, global_step]):
        updates = get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
        if updates:
            loss = control_flow.with_dependencies(updates, loss)
        rate = _learning_rate(learning_rate, learning_rate_decay_fn, step, wanted)
        opt = _optimizer(optimizer, rate)
        trained = trainable_variables() if variables is None else list(variables)
        pairs = opt.compute_gradients(
            loss, trained, colocate_gradients_with_ops=colocate_gradients_with_ops
        )
        if gradient_noise_scale is not None:
            pairs = [(_with_noise(g, gradient_noise_scale), v) for g, v in pairs]
        if gradient_multipliers is not None:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        if "global_gradient_norm" in wanted or "gradient_norm" in wanted:
            summary.scalar("global_norm/gradient_norm", _global_norm(pairs))
        pairs = _clipped(pairs, clip_gradients)
        if "loss" in wanted:
            summary.scalar("loss", loss)
        _summarize(pairs, wanted)
        if clip_gradients is not None and (
            "global_gradient_norm" in wanted or "gradient_norm" in wanted
        ):
            summary.scalar("global_norm/clipped_gradient_norm", _global_norm(pairs))
        applied = opt.apply_gradients(
            pairs, global_step=step if increment_global_step else None, name="train"
        )
        result: Tensor = control_flow.with_dependencies([applied], loss)
        return result


def _learning_rate(given: Any, decay: Any, step: Any, wanted: Sequence[str]) -> Any:
    if given is None:
        return None
    rate: Any
    if isinstance(given, Tensor) and given.shape.ndims == 0:
        rate = given
    elif isinstance(given, float | int):
        if given < 0.0:
            raise ValueError(f"Invalid learning_rate {given}.")
        rate = get_variable(
            "learning_rate",
            [],
            dtype=dtypes.float32,
            trainable=False,
            initializer=initializers.constant_initializer(float(given)),
        )
    else:
        raise ValueError(
            f"Learning rate should be 0d Tensor or float. Got {given!r} of type {type(given)}"
        )
    if decay is not None:
        if step is None:
            raise ValueError("global_step is required for learning_rate_decay_fn.")
        rate = decay(rate, step)
    if "learning_rate" in wanted:
        summary.scalar("learning_rate", rate)
    return rate


def _optimizer(given: Any, rate: Any) -> Optimizer:
    if isinstance(given, str):
        if given not in OPTIMIZER_CLS_NAMES:
            raise ValueError(
                "Optimizer name should be one of "
                f"[{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {given}."
            )
        given = OPTIMIZER_CLS_NAMES[given]
    if isinstance(given, Optimizer):
        return given
    if isinstance(given, type) and issubclass(given, Optimizer):
        if rate is None:
            raise ValueError("Learning rate is required when optimizer is a class or a name.")
        return given(learning_rate=rate)  # type: ignore[call-arg]
    if callable(given):
        made = given() if rate is None else given(rate)
        if isinstance(made, Optimizer):
            return made
        raise ValueError(f"optimizer must return an Optimizer, but returned {made!r}.")
    raise ValueError(
        "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of "
        f"Optimizer or function with one argument. Got {given!r}."
    )


def _clipped(pairs: Pairs, how: Any) -> Pairs:
    if how is None:
        return pairs
    if isinstance(how, float | int):
        gradients, _ = clip.clip_by_global_norm([g for g, _ in pairs], how)
        return list(zip(gradients, (v for _, v in pairs), strict=True))
    if callable(how):
        return list(how(pairs))
    raise ValueError(f"Unknown type {type(how)} for clip_gradients")


def _global_norm(pairs: Pairs) -> Any:
    return clip.global_norm([g for g, _ in pairs])


def _with_noise(gradient: Any, scale: float) -> Any:
    if gradient is None:
        return None
    values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
    noisy = values + scale * random.truncated_normal(values.shape, dtype=values.dtype.base_dtype)
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(noisy, gradient.indices, gradient.dense_shape)
    return noisy


def _summarize(pairs: Pairs, wanted: Sequence[str]) -> None:
    for gradient, variable in pairs:
        if gradient is None:
            continue
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        label = variable.op.name.replace(":", "_")
        if "gradients" in wanted:
            summary.histogram(f"gradients/{label}", values)
        if "gradient_norm" in wanted:
            summary.scalar(f"gradient_norm/{label}", clip.global_norm([values]))
