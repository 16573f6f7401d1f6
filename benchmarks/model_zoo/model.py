"""What a model is to the benchmark, and first values that are the same in every library."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


@dataclasses.dataclass
class Model:
    """A program that makes steps.

    Attributes:
      step: What a step runs: a training op, or nothing but the loss.
      loss: What is compared between libraries: a scalar.
      feeds: What is fed, for ever.
      before: Runs in the session before each step, if there is something.
    """

    step: Any
    loss: Any
    feeds: Iterator[dict]
    before: Any = None


def first_value(shape: list[int], seed: int) -> np.ndarray:
    """The same first weights for every library."""
    scale = 1.0 / np.sqrt(max(1, int(np.prod(shape[:-1])))) if len(shape) > 1 else 0.1
    if len(shape) == 2 and shape[0] > 20 * shape[1]:
        scale = 0.05  # a table of rows
    return (np.random.RandomState(seed).randn(*shape) * scale).astype(np.float32)


def endless(make: Callable[[np.random.RandomState], dict], count: int = 400) -> Iterator[dict]:
    """Batches for ever: `count` that differ, made as they are needed."""
    step = 0
    while True:
        yield make(np.random.RandomState(step % count))
        step += 1


def dense(tf: Any, x: Any, width: int, name: str, active: Any = None) -> Any:
    """A fully connected layer."""
    with tf.variable_scope(name):
        w = tf.get_variable("w", [int(x.shape[-1]), width])
        b = tf.get_variable("b", [width], initializer=tf.zeros_initializer())
    y = tf.nn.bias_add(tf.matmul(x, w), b)
    return active(y) if active is not None else y


def mean_cross_entropy(tf: Any, labels: Any, logits: Any) -> Any:
    """The mean loss of labels that are 0 or 1."""
    each = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(each)
