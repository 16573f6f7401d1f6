"""`dataset_op`: op types that make a dataset, which travels as a variant.

A kernel gets `data.pipeline` datasets for its variant inputs and returns one; text and numbers that
are tensors in TensorFlow's signatures arrive as arrays.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from millrace.data.pipeline.dataset import Dataset
from millrace.graph.define import Op, op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import scalars

OUTPUTS = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"
METADATA = 'metadata: string = ""'


def dataset_of(value: Any) -> Dataset:
    """The dataset in a variant.

    Raises:
      ValueError: It holds something else.
    """
    found = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if not isinstance(found, Dataset):
        raise ValueError("Tensor must be a Dataset object.")
    return found


def boxed(value: Any) -> Any:
    """A variant that holds the value."""
    box = np.empty((), object)
    box[()] = value
    return box


def dataset_op(
    text: str, *, stateful: bool = False, also: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Op]:
    """Registers the decorated function as the kernel of an op type that makes a dataset.

    Args:
      text: Its signature without ``-> handle: variant``; OUTPUTS and METADATA stand for
        themselves in it.
      stateful: Whether TensorFlow says so of it.
      also: Older names of the same op type; these have no metadata.
    """

    def register(kernel: Callable[..., Any]) -> Op:
        wrapped = _on_datasets(kernel)
        name, rest = text.split("(", 1)
        inputs, attributes = rest.split(")", 1)
        attributes = attributes.replace("OUTPUTS", OUTPUTS)
        made = [
            op(
                _signature(each, inputs, attributes, with_metadata=each == name),
                shape=scalars,
                gradient=NO_GRADIENT,
                host=True,
                stateful=stateful,
            )(wrapped)
            for each in (name, *also)
        ]
        return made[0]

    return register


def _signature(name: str, inputs: str, attributes: str, with_metadata: bool) -> str:
    if with_metadata:
        attributes = attributes.replace("METADATA", METADATA)
    else:
        attributes = attributes.replace("; METADATA", "").replace(" where METADATA", "")
    return f"{name}({inputs}) -> handle: variant{attributes}"


def _on_datasets(kernel: Callable[..., Any]) -> Callable[..., Any]:
    names = list(inspect.signature(kernel).parameters)
    single = [i for i, name in enumerate(names) if name in ("input_dataset", "another_dataset")]
    several = [i for i, name in enumerate(names) if name == "input_datasets"]

    @functools.wraps(kernel)
    def call(*args: Any, **keywords: Any) -> Any:
        values = list(args)
        for i in single:
            values[i] = dataset_of(values[i])
        for i in several:
            values[i] = [dataset_of(value) for value in values[i]]
        return boxed(kernel(*values, **keywords))

    return call


def texts(array: Any) -> list[str]:
    """A vector (or scalar) of strings as text."""
    return [text.decode() for text in np.ravel(array)]


def number(value: Any, name: str) -> int:
    """A scalar input as a number.

    Raises:
      ValueError: It is no scalar.
    """
    if np.ndim(value):
        raise ValueError(f"{name} must be a scalar")
    return int(value)
