"""What input functions return, made into features, labels and hooks."""

from __future__ import annotations

from typing import Any

import millrace as tf


class DatasetInitializerHook(tf.train.SessionRunHook):
    """Initialises a dataset's iterator in each new session."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def begin(self) -> None:
        """Finds the operation, before the graph is finalized."""
        self._initializer = self._iterator.initializer

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs it."""
        session.run(self._initializer)


def features_labels_and_hooks(result: Any) -> tuple[Any, Any, list[Any]]:
    """Features, labels (None for none) and hooks of what an input function returned.

    Args:
      result: A dataset of features or of pairs, or the tensors of these.

    Raises:
      ValueError: It is a tuple, but no pair.
    """
    hooks: list[Any] = []
    if isinstance(result, tf.data.Dataset):
        iterator = tf.data.make_initializable_iterator(result)
        hooks.append(DatasetInitializerHook(iterator))
        result = iterator.get_next()
    return (*features_and_labels(result), hooks)


def features_and_labels(result: Any) -> tuple[Any, Any]:
    """Features and labels of an element; the labels are None if it is no pair.

    Raises:
      ValueError: It is a tuple of another length.
    """
    if not isinstance(result, list | tuple):
        return result, None
    if len(result) != 2:
        raise ValueError(
            "input_fn should return (features, labels) as a len 2 tuple. "
            f"It returned {len(result)} elements; put several features into a dict."
        )
    return result[0], result[1]


def may_end(features: Any) -> bool:
    """Whether an input can come to an end: it is a dataset's, or a queue runner's."""
    tensors = [each for each in tf.nest.flatten(features) if isinstance(each, tf.Tensor)]
    if any(tensor.op.type == "IteratorGetNext" for tensor in tensors):
        return True
    return bool(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS))
