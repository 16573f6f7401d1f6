"""Static shapes: what an op's shape rule sees, and the rules that many ops share.

A rule is a function ``rule(c: ShapeContext) -> TensorShape | list of TensorShape``. It
raises ValueError when the input shapes cannot go together; `infer` adds the op's name and
input shapes to the message, as TensorFlow does. A rule must accept unknown shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, as_shape, scalar, unknown_shape
from millrace.core.tensor_shape import merge_shapes as merge_shapes  # for shape rules
from millrace.graph import constant_value
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor


class ShapeContext:
    """One node's inputs and attributes, as its shape rule sees them.

    Inputs are addressed by position among the flattened inputs, or by argument name (then
    a list argument gives a list).
    """

    __slots__ = ("attrs", "inputs", "op")

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.inputs: Sequence[Tensor] = op.inputs
        self.attrs = op.attrs

    def attr(self, name: str) -> Any:
        """The stored value of an attribute."""
        return self.attrs[name]

    def tensors(self, name: str) -> list[Tensor]:
        """The tensors of the input argument called `name`."""
        signature = self.op.definition.signature
        place = signature.input_slices(self.attrs)[signature.input_index(name)]
        return list(self.inputs[place]) if isinstance(place, slice) else [self.inputs[place]]

    def tensor(self, which: int | str) -> Tensor:
        """The tensor at a position, or of a single argument."""
        return self.inputs[which] if isinstance(which, int) else self.tensors(which)[0]

    def shape(self, which: int | str) -> TensorShape:
        """The shape of an input."""
        return self.tensor(which).shape

    def shapes(self, name: str) -> list[TensorShape]:
        """The shapes of a list argument."""
        return [t.shape for t in self.tensors(name)]

    def value(self, which: int | str) -> np.ndarray | None:
        """The value of an input, where it is known while the graph is built."""
        return constant_value.constant_value(self.tensor(which))

    def value_as_shape(self, which: int | str) -> TensorShape:
        """The shape that an integer vector input denotes, as far as it is known."""
        return constant_value.constant_value_as_shape(self.tensor(which))

    def handle(self, which: int | str) -> tuple[TensorShape, DType] | None:
        """Shape and type of the variable behind a resource input, where known."""
        return self.tensor(which).handle_data

    @property
    def output_count(self) -> int:
        """How many outputs the node has."""
        return len(self.op.outputs)


ShapeRule = Callable[[ShapeContext], Any]


def infer(op: Operation) -> None:
    """Sets the shapes of a new operation's outputs.

    Raises:
      ValueError: The input shapes cannot go together; says which op and which shapes.
    """
    context = ShapeContext(op)
    try:
        result = op.definition.shape_rule(context)
    except (ValueError, ArithmeticError) as error:  # A stride of 0, a number of 100 digits.
        shapes = ", ".join(
            str(t.shape.as_list()).replace("None", "?").replace(" ", "")
            if t.shape.ndims is not None
            else "<unknown>"
            for t in op.inputs
        )
        raise ValueError(
            f"{str(error).rstrip('.')} for '{op.name}' (op: '{op.type}') "
            f"with input shapes: {shapes}."
        ) from None
    if result is None:
        return
    shapes_out = [result] if isinstance(result, TensorShape) else list(result)
    if len(shapes_out) != len(op.outputs):
        raise AssertionError(
            f"Shape rule of {op.type} gave {len(shapes_out)} shapes for {len(op.outputs)} outputs"
        )
    for tensor, shape in zip(op.outputs, shapes_out, strict=True):
        tensor._shape = as_shape(shape)


# -- Rules that many ops share -----------------------------------------------------------


def unknown(c: ShapeContext) -> list[TensorShape]:
    """Nothing is known of any output."""
    return [unknown_shape()] * c.output_count


def none(c: ShapeContext) -> list[TensorShape]:
    """For ops without outputs."""
    return []


def scalars(c: ShapeContext) -> list[TensorShape]:
    """Every output is a scalar."""
    return [scalar()] * c.output_count


def unchanged(c: ShapeContext) -> list[TensorShape]:
    """Every output has the shape of the first input."""
    return [c.inputs[0].shape] * c.output_count


def like(which: int | str) -> ShapeRule:
    """Every output has the shape of the given input."""

    def rule(c: ShapeContext) -> list[TensorShape]:
        return [c.shape(which)] * c.output_count

    return rule


def merged(c: ShapeContext) -> list[TensorShape]:
    """All inputs have one shape, and so has every output."""
    shape = unknown_shape()
    for tensor in c.inputs:
        shape = merge_shapes(shape, tensor.shape)
    return [shape] * c.output_count


def from_attr(name: str = "shape") -> ShapeRule:
    """The shape is stated by an attribute."""

    def rule(c: ShapeContext) -> list[TensorShape]:
        return [as_shape(c.attr(name))] * c.output_count

    return rule


def from_input(which: int | str) -> ShapeRule:
    """The shape is the value of an input."""

    def rule(c: ShapeContext) -> list[TensorShape]:
        return [c.value_as_shape(which)] * c.output_count

    return rule


def vector_of_unknown(c: ShapeContext) -> list[TensorShape]:
    """Every output is a vector whose length is not known."""
    return [TensorShape([None])] * c.output_count


def broadcast(c: ShapeContext) -> TensorShape:
    """The first two inputs broadcast against each other."""
    return broadcast_shapes(c.inputs[0].shape, c.inputs[1].shape)


def broadcast_shapes(x: TensorShape, y: TensorShape) -> TensorShape:
    """The shape that NumPy's broadcasting gives.

    Raises:
      ValueError: Two dimensions differ and neither is 1.
    """
    a, b = x.sizes, y.sizes
    if a is None or b is None:
        return unknown_shape()
    if len(a) < len(b):
        a = (1,) * (len(b) - len(a)) + a
    elif len(b) < len(a):
        b = (1,) * (len(a) - len(b)) + b
    result: list[int | None] = []
    for m, n in zip(a, b, strict=True):
        if m == n:
            result.append(m)
        elif m == 1:
            result.append(n)
        elif n == 1:
            result.append(m)
        elif m is None:
            # An unknown size against n > 1 must turn out to be 1 or n.
            result.append(n)
        elif n is None:
            result.append(m)
        else:
            raise ValueError(f"Dimensions must be equal, but are {m} and {n}")
    return TensorShape(result)


def reduction(c: ShapeContext) -> TensorShape:
    """Input 0 reduced over the axes in input 1, with attribute ``keep_dims``."""
    shape, axes_value = c.inputs[0].shape, c.value(1)
    keep = bool(c.attrs.get("keep_dims", False))
    if shape.sizes is None:
        return unknown_shape()
    rank = len(shape.sizes)
    if axes_value is None:
        if keep:
            return unknown_shape(rank)
        axes_shape = c.inputs[1].shape
        count = axes_shape.num_elements() if axes_shape.is_fully_defined() else None
        if count == 1 or (count is not None and axes_shape.ndims == 0):
            return unknown_shape(rank - 1)
        return unknown_shape()
    axes = set()
    for axis in np.ravel(axes_value):
        if not -rank <= axis < rank:
            raise ValueError(
                f"Invalid reduction dimension {int(axis)} for input with {rank} dimensions"
            )
        axes.add(int(axis) % rank)
    if keep:
        return TensorShape([1 if i in axes else d for i, d in enumerate(shape.sizes)])
    return TensorShape([d for i, d in enumerate(shape.sizes) if i not in axes])
