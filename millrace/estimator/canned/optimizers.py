"""Optimizers of canned models, by name, instance or function."""

from __future__ import annotations

from typing import Any

import millrace as tf

_BY_NAME = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}


def get_optimizer_instance(opt: Any, learning_rate: float | None = None) -> Any:
    """An optimizer.

    Args:
      opt: A name, an optimizer, or a function that makes one in the current graph.
      learning_rate: For a name.

    Raises:
      ValueError: The name is unknown, the learning rate missing, or `opt` no optimizer.
    """
    if isinstance(opt, str):
        if opt not in _BY_NAME:
            raise ValueError(
                f"Unsupported optimizer name: {opt}. Supported names are: {tuple(sorted(_BY_NAME))}"
            )
        if not learning_rate:
            raise ValueError("learning_rate must be specified when opt is string.")
        return _BY_NAME[opt](learning_rate=learning_rate)
    if callable(opt):
        opt = opt()
    if not isinstance(opt, tf.train.Optimizer):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {opt}")
    return opt
