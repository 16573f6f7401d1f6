"""Layers of several inputs: sums, products, concatenations, dot products."""

from __future__ import annotations

import functools
import operator
from typing import Any

import millrace as tf
from millrace.keras.engine.base_layer import Layer


class _Merge(Layer):
    """A function of several tensors that broadcast against one another."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Checks that there are several inputs.

        Raises:
          ValueError: There is one, or none.
        """
        if not isinstance(input_shape, list | tuple) or len(input_shape) < 2:
            raise ValueError(
                f"A merge layer should be called on a list of at least 2 inputs. Got {input_shape}"
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The merged tensor; lower ranks are widened after the batch."""
        rank = max(x.shape.ndims for x in inputs)
        wide = []
        for x in inputs:
            while x.shape.ndims < rank:
                x = tf.expand_dims(x, 1)
            wide.append(x)
        return self._merge(wide)

    def _merge(self, inputs: list[Any]) -> Any:
        raise NotImplementedError

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """True where all masks are."""
        masks = [m for m in mask or [] if m is not None]
        return functools.reduce(tf.logical_and, masks) if masks else None


class Add(_Merge):
    """The sum."""

    def _merge(self, inputs: list[Any]) -> Any:
        return functools.reduce(operator.add, inputs)


class Subtract(_Merge):
    """The first less the second."""

    def _merge(self, inputs: list[Any]) -> Any:
        if len(inputs) != 2:
            raise ValueError("A `Subtract` layer should be called on exactly 2 inputs")
        return inputs[0] - inputs[1]


class Multiply(_Merge):
    """The product."""

    def _merge(self, inputs: list[Any]) -> Any:
        return functools.reduce(operator.mul, inputs)


class Average(_Merge):
    """The mean."""

    def _merge(self, inputs: list[Any]) -> Any:
        return functools.reduce(operator.add, inputs) / len(inputs)


class Maximum(_Merge):
    """The largest."""

    def _merge(self, inputs: list[Any]) -> Any:
        return functools.reduce(tf.maximum, inputs)


class Minimum(_Merge):
    """The smallest."""

    def _merge(self, inputs: list[Any]) -> Any:
        return functools.reduce(tf.minimum, inputs)


class Concatenate(_Merge):
    """Side by side along an axis."""

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def build(self, input_shape: Any) -> None:
        """Checks that the other axes fit.

        Raises:
          ValueError: They do not.
        """
        if not isinstance(input_shape, list | tuple) or len(input_shape) < 1:
            raise ValueError("A `Concatenate` layer should be called on a list of inputs")
        others = []
        for shape in input_shape:
            sizes = tf.TensorShape(shape).as_list()
            del sizes[self.axis]
            others.append(sizes)
        for sizes in others[1:]:
            if len(sizes) != len(others[0]) or any(
                a is not None and b is not None and a != b
                for a, b in zip(sizes, others[0], strict=True)
            ):
                raise ValueError(
                    "A `Concatenate` layer requires inputs with matching shapes except for the "
                    f"concat axis. Got inputs shapes: {input_shape}"
                )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The joined tensor."""
        return tf.concat(inputs, axis=self.axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The masks, joined if they have the axis."""
        if not mask or all(m is None for m in mask):
            return None
        masks = []
        for value, each in zip(inputs, mask, strict=True):
            each = tf.ones_like(value, dtype=tf.bool) if each is None else each
            while each.shape.ndims < value.shape.ndims:
                each = tf.expand_dims(each, -1)
            masks.append(tf.logical_and(each, tf.ones_like(value, dtype=tf.bool)))
        return tf.reduce_all(tf.concat(masks, axis=self.axis), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "axis": self.axis}


class Dot(_Merge):
    """Dot products along axes of two tensors."""

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axes = axes
        self.normalize = normalize

    def call(self, inputs: Any) -> Any:
        """The products of each example."""
        first, second = inputs
        axes = [self.axes] * 2 if isinstance(self.axes, int) else list(self.axes)
        axes = [a % x.shape.ndims for a, x in zip(axes, inputs, strict=True)]
        if self.normalize:
            first = tf.nn.l2_normalize(first, axes[0])
            second = tf.nn.l2_normalize(second, axes[1])
        return batch_dot(first, second, axes)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "axes": self.axes, "normalize": self.normalize}


def batch_dot(x: Any, y: Any, axes: Any = None) -> Any:
    """Dot products of each pair of examples."""
    if isinstance(axes, int):
        axes = (axes, axes)
    ranks = x.shape.ndims, y.shape.ndims
    if axes is None:
        axes = [ranks[0] - 1, ranks[1] - 2 if ranks[1] > 2 else ranks[1] - 1]
    if ranks == (2, 2):
        return tf.reduce_sum(x * y, axis=1, keepdims=True)
    lone_x, lone_y = ranks[0] == 2, ranks[1] == 2
    if lone_x:
        x = tf.expand_dims(x, 1)
        axes = [2, axes[1]]
    if lone_y:
        y = tf.expand_dims(y, 2)
    result = tf.matmul(
        x, y, transpose_a=axes[0] != x.shape.ndims - 1, transpose_b=axes[1] == y.shape.ndims - 1
        and not lone_y and y.shape.ndims == 3,
    )  # fmt: skip
    if lone_x:
        result = tf.squeeze(result, [1])
    if lone_y:
        result = tf.squeeze(result, [-1])
    return result if result.shape.ndims != 1 else tf.expand_dims(result, -1)


def add(inputs: Any, **kwargs: Any) -> Any:
    """`Add`, applied."""
    return Add(**kwargs)(inputs)


def subtract(inputs: Any, **kwargs: Any) -> Any:
    """`Subtract`, applied."""
    return Subtract(**kwargs)(inputs)


def multiply(inputs: Any, **kwargs: Any) -> Any:
    """`Multiply`, applied."""
    return Multiply(**kwargs)(inputs)


def average(inputs: Any, **kwargs: Any) -> Any:
    """`Average`, applied."""
    return Average(**kwargs)(inputs)


def maximum(inputs: Any, **kwargs: Any) -> Any:
    """`Maximum`, applied."""
    return Maximum(**kwargs)(inputs)


def minimum(inputs: Any, **kwargs: Any) -> Any:
    """`Minimum`, applied."""
    return Minimum(**kwargs)(inputs)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Any:
    """`Concatenate`, applied."""
    return Concatenate(axis=axis, **kwargs)(inputs)


def dot(inputs: Any, axes: Any, normalize: bool = False, **kwargs: Any) -> Any:
    """`Dot`, applied."""
    return Dot(axes=axes, normalize=normalize, **kwargs)(inputs)
