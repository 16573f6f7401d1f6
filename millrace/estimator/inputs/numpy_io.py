"""`numpy_input_fn`: features and labels from NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import millrace as tf
from millrace.estimator.inputs import feeding

#: The name of a feature that is a plain array, inside the queue.
_DIRECT = "__direct_np_input__"
_TARGET = "__target_key__"


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """An input function that gives batches of arrays.

    Args:
      x: An array, or a dict of arrays: the features.
      y: An array, or a dict of arrays: the labels; None for none.
      batch_size: How many rows a batch has.
      num_epochs: How often all rows come; None for ever.
      shuffle: Whether rows come in random order; has no default.
      queue_capacity: How many rows are kept ready.
      num_threads: How many threads read; with one, rows come in order unless shuffled.

    Raises:
      ValueError: `shuffle` is not given.
    """
    feeding.check_shuffle(shuffle)

    def input_fn() -> Any:
        features = _sorted_features(x)
        labels = _sorted_labels(y, features)
        arrays = {**features, **labels}
        if len({len(array) for array in arrays.values()}) != 1:
            shapes = [{k: v.shape for k, v in each.items()} for each in (features, labels)]
            of_y = shapes[1] if isinstance(y, dict) else None if y is None else y.shape
            raise ValueError(
                "Length of tensors in x and y is mismatched. All elements in x and y must have the "
                f"same length.\nShapes in x: {shapes[0]}\nShapes in y: {of_y}\n"
            )
        queue = feeding.enqueue_columns(
            feeding.array_columns(arrays),
            len(next(iter(arrays.values()))),
            [tf.int64, *(tf.as_dtype(array.dtype) for array in arrays.values())],
            [(), *(array.shape[1:] for array in arrays.values())],
            queue_capacity,
            shuffle=bool(shuffle),
            num_threads=num_threads,
            enqueue_size=batch_size,
            num_epochs=num_epochs,
        )
        batch = feeding.dequeue_batch(queue, batch_size, num_epochs)[1:]
        given = dict(zip(arrays, batch, strict=True))
        result = {key: given[key] for key in features} if isinstance(x, dict) else batch[0]
        if y is None:
            return result
        return result, {key: given[key] for key in labels} if isinstance(y, dict) else batch[-1]

    return input_fn


def _sorted_features(x: Any) -> dict[str, Any]:
    if isinstance(x, dict):
        if not x:
            raise ValueError("x cannot be an empty dict")
        return {key: x[key] for key in sorted(x)}
    if not isinstance(x, np.ndarray):
        raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
    if x.size == 0:
        raise ValueError("x cannot be an empty array")
    return {_DIRECT: x}


def _sorted_labels(y: Any, features: dict[str, Any]) -> dict[str, Any]:
    if y is None:
        return {}
    if not isinstance(y, dict):
        name = _TARGET
        while name in features:
            name += "_n"
        return {name: y}
    if not y:
        raise ValueError("y cannot be empty dict, use None instead.")
    twice = set(features) & set(y)
    if twice:
        raise ValueError(f"{len(twice)} duplicate keys are found in both x and y: {twice}")
    return {key: y[key] for key in sorted(y)}
