"""`pandas_input_fn`: features and labels from a pandas DataFrame. pandas is optional."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import millrace as tf
from millrace.estimator.inputs import feeding


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int | None = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], Any]:
    """An input function that gives batches of a data frame, a feature for each column.

    Args:
      x: A DataFrame.
      y: A Series, or a DataFrame for several labels; None for none.
      batch_size: How many rows a batch has.
      num_epochs: How often all rows come; None for ever.
      shuffle: Whether rows come in random order; has no default.
      queue_capacity: How many rows are kept ready; None for all of them.
      num_threads: How many threads read; with one, rows come in order unless shuffled.
      target_column: What the label is called inside.

    Raises:
      TypeError: pandas is not installed, or `target_column` is no string.
      ValueError: `shuffle` is not given, or `x` and `y` do not match.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise TypeError(
            "pandas_input_fn should not be called without pandas installed; pip install pandas, or "
            "use numpy_input_fn"
        ) from None
    feeding.check_shuffle(shuffle)
    if not isinstance(target_column, str):
        raise TypeError("target_column must be a string type")
    labels = _labels(pandas, x, y, target_column)
    frame = x.copy()
    for inner, (_, column) in labels.items():
        frame[inner] = column
    if queue_capacity is None:
        queue_capacity = (4 if shuffle else 1) * len(frame)

    def rows_of(rows: list[int]) -> list[Any]:
        part = frame.iloc[rows]
        return [part.index.values, *(part[column].values for column in part.columns)]

    def input_fn() -> Any:
        dtypes = [tf.as_dtype(each) for each in (frame.index.dtype, *frame.dtypes)]
        queue = feeding.enqueue_columns(
            rows_of,
            len(frame),
            dtypes,
            [()] * len(dtypes),
            queue_capacity,
            shuffle=bool(shuffle),
            min_after_dequeue=max(queue_capacity / 4, 1),
            num_threads=num_threads,
            enqueue_size=batch_size,
            num_epochs=num_epochs,
        )
        batch = feeding.dequeue_batch(queue, batch_size, num_epochs)[1:]
        features = dict(zip(frame.columns, batch, strict=True))
        targets = {outer: features.pop(inner) for inner, (outer, _) in labels.items()}
        if y is None:
            return features
        return features, targets if isinstance(y, pandas.DataFrame) else next(
            iter(targets.values())
        )

    return input_fn


def _labels(pandas: Any, x: Any, y: Any, target_column: str) -> dict[str, tuple[str, Any]]:
    """Names of the labels and their columns, by the names that they have beside the features."""
    if y is None:
        return {}
    if target_column in x:
        raise ValueError(
            f"Cannot use name {target_column} for target column: DataFrame already has a column "
            f"with that name: {x.columns}"
        )
    if not np.array_equal(x.index, y.index):
        raise ValueError(
            f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}\n"
        )
    if not isinstance(y, pandas.DataFrame):
        return {target_column: (target_column, y)}
    found = {}
    for name in y.columns:
        inner = name
        while inner in x:
            inner += "_n"
        found[inner] = (name, y[name])
    return found
