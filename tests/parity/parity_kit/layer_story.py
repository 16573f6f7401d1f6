"""All that a layer does to a graph: names, shapes, collections, values, gradients, updates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def ramp(tf: Any, low: float = -1.0, high: float = 1.0) -> Any:
    """An initializer whose values are the same everywhere: evenly spaced, in a mixed order."""

    def initialize(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        sizes = [int(size) for size in shape]
        count = math.prod(sizes)
        values = np.linspace(low, high, max(count, 1), dtype=np.float32)[:count]
        mixed = values[np.argsort([(7 * i) % (count + 1) for i in range(count)], kind="stable")]
        return tf.constant(mixed.reshape(sizes), dtype=dtype or tf.float32)

    return initialize


def data(*shape: int) -> np.ndarray:
    """Inputs that are the same everywhere."""
    values = np.sin(np.arange(math.prod(shape), dtype=np.float64) * 1.7) * 1.5
    return values.reshape(shape).astype(np.float32)


def tell(
    run: Any,
    tf: Any,
    layer: Any,
    shapes: Any,
    feed: dict[Any, Any] | None = None,
    names: bool = True,
) -> None:
    """Builds ``layer(*inputs)`` and records everything about it.

    Args:
      run: The scenario's runner.
      tf: TensorFlow or Millrace.
      layer: A function of the inputs that gives the output, or a structure of outputs.
      shapes: The shape of each input; the batch is left open in the graph.
      feed: More to feed, by placeholder.
      names: Whether the outputs' names are recorded: not where TensorFlow 2 changed them.
    """
    arrays = [data(*shape) for shape in shapes]
    inputs = [
        tf.placeholder(tf.float32, [None, *shape[1:]], name=f"x{i}")
        for i, shape in enumerate(shapes)
    ]
    outputs = tf.nest.flatten(layer(*inputs))
    fed = {**dict(zip(inputs, arrays, strict=True)), **(feed or {})}
    keys = tf.GraphKeys
    run.note([[o.name if names else "", o.dtype.name, o.shape.as_list()] for o in outputs])

    def label(variable: Any) -> str:
        return variable.name if names else variable.name.rpartition("/")[2]

    run.note([[label(v), v.shape.as_list()] for v in tf.global_variables()])
    run.note([label(v) for v in tf.trainable_variables()])
    run.note([loss.name for loss in tf.get_collection(keys.REGULARIZATION_LOSSES)])
    updates = tf.get_collection(keys.UPDATE_OPS)
    run.note([update.name for update in updates])
    run.initialize()
    run(outputs, fed)
    losses = tf.get_collection(keys.REGULARIZATION_LOSSES)
    if losses:
        run(losses, fed)
    total = tf.add_n([tf.reduce_sum(tf.square(o)) for o in outputs])
    sources = [*inputs, *tf.trainable_variables()]
    gradients = [g for g in tf.gradients(total, sources) if g is not None]
    if gradients:
        run(gradients, fed)
    if updates:
        run.value(updates, fed)
        run([v for v in tf.global_variables() if v not in tf.trainable_variables()])
