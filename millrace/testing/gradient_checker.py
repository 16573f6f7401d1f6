"""Gradients against differences: `tf.test.compute_gradient` and `compute_gradient_error`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_session
from millrace.graph.slices import IndexedSlices
from millrace.ops.functions import gradients as gradients_module


def compute_gradient(
    x: Any,
    x_shape: Any,
    y: Any,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> Any:
    """The Jacobian of `y` by `x`, as the graph computes it and by differences.

    Args:
      x: A tensor, or a list of them.
      x_shape: Its shape, or a list of shapes.
      y: A tensor.
      y_shape: Its shape.
      x_init_value: Where to differentiate; random values by default.
      delta: How far apart the two values of a difference are from the middle.
      init_targets: What to run in the session first.
      extra_feed_dict: Further feeds.

    Returns:
      A pair of arrays of shape (elements of x, elements of y), or a list of pairs. A complex
      number counts as two elements.

    Raises:
      ValueError: A shape does not fit, or there is no default session.
    """
    session = get_default_session()
    if session is None:
        raise ValueError("compute_gradient needs a default session: call it inside `with session`")
    if init_targets is not None:
        session.run(init_targets)
    is_list = isinstance(x, list)
    xs, shapes = (list(x), list(x_shape)) if is_list else ([x], [x_shape])
    starts = list(x_init_value) if is_list and x_init_value is not None else [x_init_value]
    if is_list and x_init_value is None:
        starts = [None] * len(xs)
    check = _GradientCheck(session, y, tuple(y_shape), delta, dict(extra_feed_dict or {}))
    values = [_start(t, s, v) for t, s, v in zip(xs, shapes, starts, strict=True)]
    pairs = [check.jacobians(i, xs, values) for i in range(len(xs))]
    return pairs if is_list else pairs[0]


def compute_gradient_error(
    x: Any,
    x_shape: Any,
    y: Any,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Any = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> float:
    """The largest difference between the two Jacobians of `compute_gradient`."""
    found = compute_gradient(
        x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict
    )
    pairs = found if isinstance(found, list) else [found]
    return max((float(np.abs(a - b).max()) if a.size else 0.0 for a, b in pairs), default=0.0)


def _start(x: Any, shape: Sequence[int], value: Any) -> np.ndarray:
    dtype = np.dtype(x.dtype.base_dtype.as_numpy_dtype)
    if value is None:
        made = np.random.random_sample(tuple(shape))
        if dtype.kind == "c":
            made = made + 1j * np.random.random_sample(tuple(shape))
        return made.astype(dtype)
    array = np.array(value, dtype=dtype)
    if array.shape != tuple(shape):
        raise ValueError(f"x_init_value has shape {array.shape}, x_shape says {tuple(shape)}")
    return array


def _real(array: np.ndarray) -> np.ndarray:
    """The numbers of an array in a row; a complex one is two."""
    wide = np.ascontiguousarray(array)
    if wide.dtype.kind == "c":
        return wide.view(wide.real.dtype).reshape(-1)
    return wide.reshape(-1)


class _GradientCheck:
    """One call's session and what stays the same for all xs."""

    def __init__(
        self, session: Any, y: Any, y_shape: tuple[int, ...], delta: float, feeds: dict[Any, Any]
    ) -> None:
        self._session = session
        self._y = y
        self._y_shape = y_shape
        self._delta = delta
        self._feeds = feeds
        self._y_type = np.dtype(y.dtype.base_dtype.as_numpy_dtype)

    def jacobians(
        self, which: int, xs: list[Any], values: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        feeds = {**self._feeds, **dict(zip(xs, values, strict=True))}
        return (
            self._from_graph(xs[which], values[which], feeds),
            self._from_differences(xs[which], values[which], feeds),
        )

    def _from_graph(self, x: Any, value: np.ndarray, feeds: dict[Any, Any]) -> np.ndarray:
        graph = x.graph
        with graph.as_default():
            seed = convert_to_tensor(np.zeros(self._y_shape, self._y_type), name="grad_ys")
            (grad,) = gradients_module.gradients(self._y, x, grad_ys=seed)
        columns = _real(np.zeros(self._y_shape, self._y_type)).size
        rows = _real(value).size
        jacobian = np.zeros((rows, columns), _real(value).dtype)
        if grad is None:
            return jacobian
        for column in range(columns):
            cotangent = np.zeros(self._y_shape, self._y_type)
            _real_view(cotangent)[column] = 1
            found = self._session.run(grad, {**feeds, seed: cotangent})
            if isinstance(grad, IndexedSlices):
                dense = np.zeros_like(value)
                np.add.at(dense, np.asarray(found.indices), np.asarray(found.values))
                found = dense
            if np.shape(found) != value.shape:
                raise ValueError(
                    f"The gradient for {x.name} has shape {np.shape(found)}, expected {value.shape}"
                )
            jacobian[:, column] = _real(np.asarray(found, value.dtype))
        return jacobian

    def _from_differences(self, x: Any, value: np.ndarray, feeds: dict[Any, Any]) -> np.ndarray:
        rows = _real(value).size
        columns = _real(np.zeros(self._y_shape, self._y_type)).size
        jacobian = np.zeros((rows, columns), _real(value).dtype)
        for row in range(rows):
            ends = []
            for sign in (1, -1):
                moved = value.copy()
                _real_view(moved)[row] += sign * self._delta
                ends.append(np.asarray(self._session.run(self._y, {**feeds, x: moved})))
            difference = _real(ends[0]).astype(np.float64) - _real(ends[1]).astype(np.float64)
            jacobian[row] = difference / (2 * self._delta)
        return jacobian


def _real_view(array: np.ndarray) -> np.ndarray:
    """A flat view that writes into `array`, which must be contiguous."""
    flat = array.reshape(-1)
    return flat.view(flat.real.dtype) if array.dtype.kind == "c" else flat
