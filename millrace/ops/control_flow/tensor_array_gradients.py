"""Gradients of TensorArrays: arrays of gradients, which begin empty and in which writes add up.

Here a flow carries an array's value, so the gradient of a flow is an array of the same form. These
ops take no handle: what they need of the array is in its flow.
"""

from __future__ import annotations

from typing import Any

from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import scalars, unknown
from millrace.graph.tensor import Tensor
from millrace.ops.control_flow.tensor_array import (
    TensorArrayGatherV3,
    TensorArrayReadV3,
    TensorArrayScatterV3,
    TensorArrayWriteV3,
)

__all__: list[str] = []


@op("_EmptyGradientArray(flow: float32) -> gradient: float32", shape=scalars, gradient=NO_GRADIENT)
def EmptyGradientArray(flow: Any, *, xp: Any) -> Any:
    """An array of gradients for the array behind a flow, without a gradient yet."""
    return flow.empty_gradient()


@op("_AddToElement(gradient: float32, index: int32, value: T) -> sum: float32", shape=scalars)
def AddToElement(gradient: Any, index: Any, value: Any, *, xp: Any) -> Any:
    """The array of gradients with `value` added to one of them."""
    return gradient.write(index, value, True)


@op(
    "_GradientOfElement(gradient: float32, index: int32) -> value: dtype where dtype: type",
    shape=unknown,
)
def GradientOfElement(gradient: Any, index: Any, *, xp: Any) -> Any:
    """One gradient of an array; zeros if there is none."""
    return gradient.gradient(index, xp)


@op("_AddToElements(gradient: float32, indices: int32, values: T) -> sum: float32", shape=scalars)
def AddToElements(gradient: Any, indices: Any, values: Any, *, xp: Any) -> Any:
    """The array of gradients with the rows of `values` added to some of them."""
    return gradient.add_rows(indices, values)


@op(
    "_GradientsOfElements(gradient: float32, indices: int32) -> values: dtype where dtype: type",
    shape=unknown,
)
def GradientsOfElements(gradient: Any, indices: Any, *, xp: Any) -> Any:
    """Some gradients of an array, stacked; zeros where there is none."""
    return gradient.gradients(indices, xp)


@TensorArrayReadV3.gradient
def _(op: Operation, grad: Any) -> Any:
    return [None, None, AddToElement(EmptyGradientArray(op.inputs[2]), op.inputs[1], grad)]


@TensorArrayGatherV3.gradient
def _(op: Operation, grad: Any) -> Any:
    return [None, None, AddToElements(EmptyGradientArray(op.inputs[2]), op.inputs[1], grad)]


@TensorArrayWriteV3.gradient
def _(op: Operation, grad: Any) -> Any:
    _, index, value, _ = op.inputs
    return [None, None, _element(grad, index, value), grad]


@TensorArrayScatterV3.gradient
def _(op: Operation, grad: Any) -> Any:
    _, indices, value, _ = op.inputs
    return [None, None, _elements(grad, indices, value), grad]


def _element(grad: Any, index: Any, value: Tensor) -> Tensor:
    found: Tensor = GradientOfElement(grad, index, dtype=value.dtype.base_dtype)
    found.set_shape(value.shape)
    return found


def _elements(grad: Any, indices: Any, value: Tensor) -> Tensor:
    found: Tensor = GradientsOfElements(grad, indices, dtype=value.dtype.base_dtype)
    found.set_shape(value.shape)
    return found


@AddToElement.gradient
def _(op: Operation, grad: Any) -> Any:
    return [grad, None, _element(grad, op.inputs[1], op.inputs[2])]


@AddToElements.gradient
def _(op: Operation, grad: Any) -> Any:
    return [grad, None, _elements(grad, op.inputs[1], op.inputs[2])]


@GradientOfElement.gradient
def _(op: Operation, grad: Any) -> Any:
    return [AddToElement(EmptyGradientArray(op.inputs[0]), op.inputs[1], grad), None]


@GradientsOfElements.gradient
def _(op: Operation, grad: Any) -> Any:
    return [AddToElements(EmptyGradientArray(op.inputs[0]), op.inputs[1], grad), None]
