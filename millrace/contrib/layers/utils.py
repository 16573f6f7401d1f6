"""Aliases and collections of outputs, and sizes as tuples: `tf.contrib.layers.utils`."""

from __future__ import annotations

import collections
from typing import Any

import millrace as tf
from millrace.keras.engine.naming import constant_value, smart_cond

__all__ = [
    "append_tensor_alias",
    "channel_dimension",
    "collect_named_outputs",
    "constant_value",
    "convert_collection_to_dict",
    "gather_tensors_aliases",
    "get_tensor_aliases",
    "get_variable_collections",
    "last_dimension",
    "n_positive_integers",
    "smart_cond",
    "static_cond",
    "two_element_tuple",
]


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """Gives a tensor one more name of the program's own."""
    if alias.endswith("/"):
        alias = alias[:-1]
    if not hasattr(tensor, "aliases"):
        tensor.aliases = []
    tensor.aliases.append(alias)
    return tensor


def get_tensor_aliases(tensor: Any) -> list[str]:
    """The aliases of a tensor, or its op's name."""
    if hasattr(tensor, "aliases"):
        return list(tensor.aliases)
    name = tensor.op.name
    return [name[:-1] if name.endswith("/") else name]


def gather_tensors_aliases(tensors: Any) -> list[str]:
    """The aliases of several tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Adds `outputs` to collections under an alias; gives them back."""
    if collections:
        append_tensor_alias(outputs, alias)
        tf.add_to_collections(collections, outputs)
    return outputs


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict[str, Any]:
    """The tensors of a collection by alias."""
    found = collections.OrderedDict(
        (alias, tensor)
        for tensor in tf.get_collection(collection)
        for alias in get_tensor_aliases(tensor)
    )
    if clear_collection:
        tf.get_default_graph().clear_collection(collection)
    return found


def static_cond(pred: Any, fn1: Any, fn2: Any) -> Any:
    """One of two functions' results, by a Python bool or 0 or 1.

    Raises:
      TypeError: A function or the condition is of another type.
    """
    if not callable(fn1) or not callable(fn2):
        raise TypeError("fn1 and fn2 must be callable.")
    if pred not in (True, False):
        raise TypeError("pred must be a boolean value")
    return fn1() if pred else fn2()


def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """The collections of the variable `name`."""
    if isinstance(variables_collections, dict):
        return variables_collections.get(name)
    return variables_collections


def _dimension(shape: Any, axis: int, min_rank: int) -> int:
    shape = tf.TensorShape(shape)
    if shape.ndims is None:
        raise ValueError("dims of shape must be known but is None")
    if shape.ndims < min_rank:
        raise ValueError(f"rank of shape must be at least {min_rank} not: {shape.ndims}")
    size = shape.as_list()[axis]
    if size is None:
        raise ValueError(f"dimension {axis} of {shape} must be known")
    return int(size)


def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> int:
    """The number of channels, which must be known."""
    return _dimension(shape, 1 if data_format == "NCHW" else -1, min_rank)


def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """The size of the last axis, which must be known."""
    return _dimension(shape, -1, min_rank)


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """A pair of whole numbers, from one or two.

    Raises:
      ValueError: It is neither.
    """
    if isinstance(int_or_tuple, list | tuple):
        if len(int_or_tuple) != 2:
            raise ValueError(f"Must be a list with 2 elements: {int_or_tuple}")
        return int(int_or_tuple[0]), int(int_or_tuple[1])
    if isinstance(int_or_tuple, int):
        return int_or_tuple, int_or_tuple
    if isinstance(int_or_tuple, tf.TensorShape) and len(int_or_tuple) == 2:
        sizes: list[Any] = int_or_tuple.as_list()
        return sizes[0], sizes[1]
    raise ValueError("Must be an int, a list with 2 elements or a TensorShape of length 2")


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """`n` positive whole numbers, from one or from `n`.

    Raises:
      ValueError: `n` or a number is not positive, or there are others than `n`.
    """
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"n must be a positive integer, is {n}")
    values = [value] * n if isinstance(value, int) else list(value)
    if len(values) != n or any(not isinstance(v, int) or v < 1 for v in values):
        raise ValueError(f"Expected {n} positive integers, received {value}")
    return tuple(values)
