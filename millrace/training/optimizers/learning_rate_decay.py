"""Learning rates that change with the global step.

Each function gives a scalar tensor that an optimizer takes as its learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.ops.array import cast
from millrace.ops.array import fill as array_fill
from millrace.ops.array import gather as array_gather
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.array import shape as array_shape
from millrace.ops.math import arithmetic, comparison, elementwise, reduction
from millrace.ops.random import random
from millrace.ops.state.variable import Variable


def _prepared(learning_rate: Any, *others: Any) -> list[Any]:
    """The learning rate as a tensor, and everything else in its type."""
    rate = convert_to_tensor(learning_rate, name="learning_rate")
    if any(other is None for other in others):
        raise ValueError("None values not supported.")
    return [rate, *(cast.cast(other, rate.dtype) for other in others)]


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """``learning_rate · decay_rate ^ (global_step / decay_steps)``.

    Args:
      learning_rate: The rate at step 0.
      global_step: The step.
      decay_steps: After how many steps the rate has decayed once.
      decay_rate: What it is multiplied by then.
      staircase: Whether it changes only then.
      name: The name scope.
    """
    with name_scope(name, "ExponentialDecay", [learning_rate, global_step, decay_rate]) as scope:
        rate, step, steps, factor = _prepared(learning_rate, global_step, decay_steps, decay_rate)
        progress = step / steps
        if staircase:
            progress = elementwise.floor(progress)
        return arithmetic.multiply(rate, arithmetic.pow(factor, progress), name=scope)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """``learning_rate · exp(-decay_rate · global_step / decay_steps)``."""
    factor = elementwise.exp(elementwise.negative(decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, factor, staircase, name)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """``learning_rate / (1 + decay_rate · global_step / decay_steps)``."""
    with name_scope(name, "InverseTimeDecay", [learning_rate, global_step, decay_rate]) as scope:
        rate, step, steps, factor = _prepared(learning_rate, global_step, decay_steps, decay_rate)
        progress = step / steps
        if staircase:
            progress = elementwise.floor(progress)
        return arithmetic.divide(rate, 1 + factor * progress, name=scope)


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """From `learning_rate` to `end_learning_rate` in `decay_steps` steps, as a power of time.

    ``(learning_rate - end) · (1 - step/decay_steps)^power + end``

    Args:
      learning_rate: The rate at step 0.
      global_step: The step.
      decay_steps: The number of steps.
      end_learning_rate: The rate after them.
      power: 1 is a straight line.
      cycle: Whether, after the end, the rate rises again, for ever longer descents.
      name: The name scope.
    """
    values = [learning_rate, global_step, decay_steps, end_learning_rate, power]
    with name_scope(name, "PolynomialDecay", values) as scope:
        rate, step, steps, end, exponent = _prepared(
            learning_rate, global_step, decay_steps, end_learning_rate, power
        )
        if cycle:
            descents = array_select.where(
                comparison.equal(step, 0),
                array_fill.ones_like(step),
                elementwise.ceil(step / steps),
            )
            steps = steps * descents
        else:
            step = arithmetic.minimum(step, steps)
        left = arithmetic.pow(1 - step / steps, exponent)
        return arithmetic.add(arithmetic.multiply(rate - end, left), end, name=scope)


def piecewise_constant(
    x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None
) -> Any:
    """``values[0]`` up to ``boundaries[0]``, then ``values[1]`` up to ``boundaries[1]``, ….

    Raises:
      ValueError: The numbers or types of boundaries and values do not fit.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            "The length of boundaries should be 1 less than the length of values. "
            f"Got {len(boundaries)} boundaries and {len(values)} values."
        )
    with name_scope(name, "PiecewiseConstant", [x, *boundaries, *values]):
        x = x.value() if isinstance(x, Variable) else convert_to_tensor(x)
        limits = [convert_to_tensor(boundary) for boundary in boundaries]
        for i, limit in enumerate(limits):
            if limit.dtype.base_dtype == x.dtype.base_dtype:
                continue
            # Python integers, against steps of type int64.
            if (limit.dtype.base_dtype, x.dtype.base_dtype) != (dtypes.int32, dtypes.int64):
                raise ValueError(
                    f"Boundaries ({limit.dtype.base_dtype.name}) must have the same dtype as x "
                    f"({x.dtype.base_dtype.name})."
                )
            limits[i] = cast.cast(limit, dtypes.int64)
        tensors = [convert_to_tensor(value) for value in values]
        kind = tensors[0].dtype.base_dtype
        for tensor in tensors:
            if tensor.dtype.base_dtype != kind:
                raise ValueError(
                    "Values must have elements all with the same dtype "
                    f"({kind.name} vs {tensor.dtype.base_dtype.name})."
                )
        passed = comparison.greater(x, array_join.stack(limits))
        place = reduction.reduce_sum(cast.cast(passed, dtypes.int32))
        return array_gather.gather(array_join.stack(tensors), place)


piecewise_constant_decay = piecewise_constant


def cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    alpha: float = 0.0,
    name: str | None = None,
) -> Any:
    """Half a cosine wave from `learning_rate` to ``alpha · learning_rate``."""
    with name_scope(name, "CosineDecay", [learning_rate, global_step]):
        rate, step, steps = _prepared(learning_rate, global_step, decay_steps)
        done = arithmetic.minimum(step, steps) / steps
        wave = 0.5 * (1.0 + elementwise.cos(math.pi * done))
        return arithmetic.multiply(rate, (1 - alpha) * wave + alpha)


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> Any:
    """Cosine waves one after the other, each `t_mul` as long and `m_mul` as high as the last."""
    with name_scope(name, "SGDRDecay", [learning_rate, global_step]) as scope:
        rate, step, steps, longer, lower, least = _prepared(
            learning_rate, global_step, first_decay_steps, t_mul, m_mul, alpha
        )
        done = step / steps
        if t_mul == 1.0:
            restarts = elementwise.floor(done)
            done = done - restarts
        else:
            restarts = elementwise.floor(
                elementwise.log(1.0 - done * (1.0 - longer)) / elementwise.log(longer)
            )
            before = (1.0 - longer**restarts) / (1.0 - longer)
            done = (done - before) / longer**restarts
        wave = 0.5 * lower**restarts * (1.0 + elementwise.cos(math.pi * done))
        return arithmetic.multiply(rate, (1 - least) * wave + least, name=scope)


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """A cosine wave under a falling line: ``rate · ((alpha + line) · wave + beta)``."""
    with name_scope(name, "LinearCosineDecay", [learning_rate, global_step]) as scope:
        rate, step, steps, periods, above, least = _prepared(
            learning_rate, global_step, decay_steps, num_periods, alpha, beta
        )
        step = arithmetic.minimum(step, steps)
        line = (steps - step) / steps
        wave = 0.5 * (1.0 + elementwise.cos(math.pi * (2.0 * periods * (step / steps))))
        return arithmetic.multiply(rate, (above + line) * wave + least, name=scope)


def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """As `linear_cosine_decay`, with noise on the line that gets smaller with the steps."""
    with name_scope(name, "NoisyLinearCosineDecay", [learning_rate, global_step]) as scope:
        rate, step, steps, variance, decay, periods, above, least = _prepared(
            learning_rate,
            global_step,
            decay_steps,
            initial_variance,
            variance_decay,
            num_periods,
            alpha,
            beta,
        )
        step = arithmetic.minimum(step, steps)
        line = (steps - step) / steps
        deviation = elementwise.sqrt(variance / arithmetic.pow(1.0 + step, decay))
        noisy = line + random.random_normal(
            array_shape.shape(line), stddev=deviation, dtype=rate.dtype
        )
        wave = 0.5 * (1.0 + elementwise.cos(math.pi * (2.0 * periods * (step / steps))))
        return arithmetic.multiply(rate, (above + noisy) * wave + least, name=scope)
