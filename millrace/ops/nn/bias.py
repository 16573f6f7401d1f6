"""Adding a bias to every channel, and the small layers built from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.linalg import linear_algebra
from millrace.ops.math import numeric, reduction
from millrace.ops.nn import activation

__all__ = ["bias_add", "bias_add_v1", "relu_layer", "xw_plus_b"]


def _channel_axis(data_format: bytes, rank: int) -> int:
    return 1 if data_format == b"NCHW" else rank - 1


def _bias_shape(c: ShapeContext) -> TensorShape:
    data_format = c.attrs.get("data_format", b"NHWC")
    least = 3 if data_format == b"NCHW" else 2
    shape = c.shape("value")
    if shape.ndims is not None and shape.ndims < least:
        raise ValueError(f"Shape must be at least rank {least} but is rank {shape.ndims}")
    bias = c.shape("bias")
    if bias.ndims not in (None, 1):
        raise ValueError(f"Shape must be rank 1 but is rank {bias.ndims}")
    if shape.sizes is None:
        return unknown_shape()
    sizes = list(shape.sizes)
    length = None if bias.sizes is None else bias.sizes[0]
    axis = _channel_axis(data_format, len(sizes))
    if length is not None and sizes[axis] is not None and sizes[axis] != length:
        raise ValueError(f"Dimensions must be equal, but are {sizes[axis]} and {length}")
    sizes[axis] = length if sizes[axis] is None else sizes[axis]
    return TensorShape(sizes)


def _add_bias(value: Any, bias: Any, data_format: bytes, xp: Any) -> Any:
    if value.ndim < 2:
        raise ValueError(f"Input tensor must be at least 2D: {value.shape}")
    if bias.ndim != 1:
        raise ValueError(f"Biases must be 1D: {bias.shape}")
    axis = _channel_axis(data_format, value.ndim)
    if bias.shape[0] != value.shape[axis]:
        raise ValueError(
            f"Must provide as many biases as the channel dimension of the input tensor: "
            f"{bias.shape} vs. {value.shape[axis]} in {value.shape}"
        )
    return value + xp.reshape(bias, (-1,) + (1,) * (value.ndim - 1 - axis))


@op(
    "BiasAdd(value: T, bias: T) -> output: T where T: number; "
    'data_format: {"NHWC", "NCHW"} = "NHWC"',
    shape=_bias_shape,
)
def BiasAdd(value: Any, bias: Any, *, data_format: bytes, xp: Any) -> Any:
    """Adds ``bias[c]`` to every element of channel c."""
    return _add_bias(value, bias, data_format, xp)


@BiasAdd.on_host
def _(node: Any, known: Any) -> Any:
    if node.attrs["data_format"] != b"NHWC":
        return None

    def add(value: Any, bias: Any) -> Any:
        if value.ndim < 2 or bias.shape != value.shape[-1:]:
            raise ValueError("There is not a bias for each channel")
        return np.add(value, bias)

    return add


@BiasAdd.gradient
def _(op: Operation, grad: Any) -> Any:
    return grad, BiasAddGrad(grad, data_format=op.attrs["data_format"])


def _bias_grad_shape(c: ShapeContext) -> TensorShape:
    shape = c.shape(0)
    if shape.sizes is None:
        return TensorShape([None])
    least = 3 if c.attr("data_format") == b"NCHW" else 2
    if len(shape.sizes) < least:
        raise ValueError(f"Shape must be at least rank {least} but is rank {len(shape.sizes)}")
    return TensorShape([shape.sizes[_channel_axis(c.attr("data_format"), len(shape.sizes))]])


@op(
    "BiasAddGrad(out_backprop: T) -> output: T where T: number; "
    'data_format: {"NHWC", "NCHW"} = "NHWC"',
    shape=_bias_grad_shape,
)
def BiasAddGrad(out_backprop: Any, *, data_format: bytes, xp: Any) -> Any:
    """The sum over all axes but that of the channels."""
    if out_backprop.ndim < 2:
        raise ValueError(f"Input tensor must be at least 2D: {out_backprop.shape}")
    channels = _channel_axis(data_format, out_backprop.ndim)
    axes = tuple(i for i in range(out_backprop.ndim) if i != channels)
    return xp.sum(out_backprop, axis=axes, dtype=out_backprop.dtype)


@BiasAddGrad.on_host
def _(node: Any, known: Any) -> Any:
    if node.attrs["data_format"] != b"NHWC":
        return None

    def total(out_backprop: Any) -> Any:
        if out_backprop.ndim < 2:
            raise ValueError("There are no channels")
        axes = tuple(range(out_backprop.ndim - 1))
        return np.add.reduce(out_backprop, axes, out_backprop.dtype)

    return total


@BiasAddGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    """Every element of a channel gets the gradient of its bias."""
    upstream = op.inputs[0]
    shape = array_shape.shape(upstream)
    if op.attrs["data_format"] == b"NCHW":
        rank = array_shape.rank(upstream)
        ones_behind = array_fill.fill(array_shape.expand_dims(rank - 2, 0), 1)
        column = array_shape.reshape(grad, array_join.concat([[-1], ones_behind], 0))
        return array_shape.broadcast_to(column, shape)
    return array_shape.broadcast_to(grad, shape)


@op("BiasAddV1(value: T, bias: T) -> output: T where T: number", shape=_bias_shape)
def BiasAddV1(value: Any, bias: Any, *, xp: Any) -> Any:
    """The first form of BiasAdd: channels last."""
    return _add_bias(value, bias, b"NHWC", xp)


@BiasAddV1.gradient
def _(op: Operation, grad: Any) -> Any:
    axes = numeric.range(array_shape.rank(grad) - 1)
    return grad, reduction.reduce_sum(grad, axes)


def bias_add(
    value: Any, bias: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Adds `bias`, a vector with one entry a channel, to `value`.

    Args:
      value: A tensor of rank 2 or more.
      bias: As long as the channel dimension of `value`.
      data_format: ``N...C`` (the default: channels last) or ``NC...``.
      name: The node's name.
    """
    with name_scope(name, "BiasAdd", [value, bias]) as scope:
        if data_format is not None:
            if data_format.startswith("NC"):
                data_format = "NCHW"
            elif data_format.startswith("N") and data_format.endswith("C"):
                data_format = "NHWC"
            else:
                raise ValueError(
                    "`data_format` must be of the form `N...C` or `NC...`. "
                    f"Received: data_format={data_format}"
                )
        value = convert_to_tensor(value, name="input")
        bias = convert_to_tensor(bias, value.dtype.base_dtype, name="bias")
        return BiasAdd(value, bias, data_format=data_format, name=scope)


def bias_add_v1(value: Any, bias: Any, name: str | None = None) -> Tensor:
    """`bias_add` with the op type of the first releases."""
    with name_scope(name, "BiasAddV1", [value, bias]) as scope:
        value = convert_to_tensor(value, name="input")
        bias = convert_to_tensor(bias, value.dtype.base_dtype, name="bias")
        return BiasAddV1(value, bias, name=scope)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """matmul(x, weights) + biases."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        product = _product(x, weights)
        return bias_add(product, convert_to_tensor(biases, name="biases"), name=scope)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """relu(matmul(x, weights) + biases)."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        product = _product(x, weights)
        sums = bias_add(product, convert_to_tensor(biases, name="biases"))
        return activation.relu(sums, name=scope)


def _product(x: Any, weights: Any) -> Tensor:
    x = convert_to_tensor(x, name="x")
    return linear_algebra.matmul(x, convert_to_tensor(weights, name="weights"))
