"""Depthwise and separable convolutions: every channel has filters of its own."""

from __future__ import annotations

from typing import Any

from millrace.compiler.xla import jnp
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape
from millrace.ops.nn import convolution, convolution_kernels, windows

__all__ = [
    "depthwise_conv2d",
    "depthwise_conv2d_backprop_filter",
    "depthwise_conv2d_backprop_input",
    "depthwise_conv2d_native",
    "depthwise_conv2d_native_backprop_filter",
    "depthwise_conv2d_native_backprop_input",
    "separable_conv2d",
]

_ATTRS = (
    "T: {float16, bfloat16, float32, float64}; strides: list(int); "
    'padding: {"SAME", "VALID", "EXPLICIT"}; explicit_paddings: list(int) = []; '
    'data_format: {"NHWC", "NCHW"} = "NHWC"; dilations: list(int) = [1, 1, 1, 1]'
)


def _depthwise_shape(c: ShapeContext) -> TensorShape:
    data = convolution.ranked(c.shape("input"), 4)
    filters = convolution.ranked(c.shape("filter"), 4)
    convolution.check_attributes(c.op.type, c.attrs, 4)
    assert data.sizes is not None and filters.sizes is not None
    data_format = c.attr("data_format")
    channel = windows.channel_axis(data_format, 4)
    depth, filter_depth, multiplier = data.sizes[channel], filters.sizes[2], filters.sizes[3]
    if depth is not None and filter_depth is not None and depth != filter_depth:
        raise ValueError(f"Dimensions must be equal, but are {depth} and {filter_depth}")
    depth = depth if depth is not None else filter_depth
    channels = None if depth is None or multiplier is None else depth * multiplier
    axes = windows.spatial_axes(data_format, 4)
    sizes: list[int | None] = []
    for i, axis in enumerate(axes):
        size = filters.sizes[i]
        if size is None and c.attr("padding") != b"SAME":
            sizes.append(None)
            continue
        w = convolution.node_windows([size or 1] * 2, c.attrs)[i]
        sizes.append(w.output_size(data.sizes[axis]))
    return windows.with_sizes(data, axes, sizes, channels, channel)


def _channels_last(x: Any, attrs: dict[str, Any]) -> Any:
    x = jnp.asarray(x)
    return jnp.moveaxis(x, 1, 3) if attrs["data_format"] == b"NCHW" else x


def _as_given(x: Any, attrs: dict[str, Any]) -> Any:
    return jnp.moveaxis(x, 3, 1) if attrs["data_format"] == b"NCHW" else x


@op(
    f"DepthwiseConv2dNative(input: T, filter: T) -> output: T where {_ATTRS}",
    shape=_depthwise_shape,
)
def DepthwiseConv2dNative(input: Any, filter: Any, *, node: Any) -> Any:
    """Convolves channel k with the filters ``[:, :, k, :]``."""
    convolution.refuse_strides_in_batch_and_depth(node.attrs, 4)
    steps = convolution.node_windows(filter.shape[:2], node.attrs)
    data = _channels_last(input, node.attrs)
    if data.shape[3] != filter.shape[2]:
        raise ValueError(
            f"input and filter must have the same depth: {data.shape[3]} vs {filter.shape[2]}"
        )
    return _as_given(convolution_kernels.depthwise(data, jnp.asarray(filter), steps), node.attrs)


@DepthwiseConv2dNative.gradient
def _(op: Operation, grad: Any) -> Any:
    x, filters = op.inputs
    attrs = convolution.attributes_of(op)
    return (
        DepthwiseConv2dNativeBackpropInput(array_shape.shape(x), filters, grad, **attrs),
        DepthwiseConv2dNativeBackpropFilter(x, array_shape.shape(filters), grad, **attrs),
    )


@op(
    "DepthwiseConv2dNativeBackpropInput(input_sizes: int32, filter: T, out_backprop: T) "
    f"-> output: T where {_ATTRS}",
    shape=lambda c: convolution.ranked(c.value_as_shape("input_sizes"), 4),
    static=("input_sizes",),
)
def DepthwiseConv2dNativeBackpropInput(
    input_sizes: Any, filter: Any, out_backprop: Any, *, node: Any
) -> Any:
    """The gradient of DepthwiseConv2dNative by its input."""
    steps = convolution.node_windows(filter.shape[:2], node.attrs)
    shape = [int(size) for size in input_sizes]
    if node.attrs["data_format"] == b"NCHW":
        shape = [shape[0], *shape[2:], shape[1]]
    result = convolution_kernels.depthwise_gradient_by_input(
        shape, jnp.asarray(filter), _channels_last(out_backprop, node.attrs), steps
    )
    return _as_given(result, node.attrs)


@DepthwiseConv2dNativeBackpropInput.gradient
def _(op: Operation, grad: Any) -> Any:
    filters, upstream = op.inputs[1], op.inputs[2]
    attrs = convolution.attributes_of(op)
    return (
        None,
        DepthwiseConv2dNativeBackpropFilter(grad, array_shape.shape(filters), upstream, **attrs),
        DepthwiseConv2dNative(grad, filters, **attrs),
    )


@op(
    "DepthwiseConv2dNativeBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) "
    f"-> output: T where {_ATTRS}",
    shape=lambda c: convolution.ranked(c.value_as_shape("filter_sizes"), 4),
    static=("filter_sizes",),
)
def DepthwiseConv2dNativeBackpropFilter(
    input: Any, filter_sizes: Any, out_backprop: Any, *, node: Any
) -> Any:
    """The gradient of DepthwiseConv2dNative by its filters."""
    shape = tuple(int(size) for size in filter_sizes)
    steps = convolution.node_windows(shape[:2], node.attrs)
    return convolution_kernels.depthwise_gradient_by_filter(
        _channels_last(input, node.attrs), shape, _channels_last(out_backprop, node.attrs), steps
    )


@DepthwiseConv2dNativeBackpropFilter.gradient
def _(op: Operation, grad: Any) -> Any:
    x, upstream = op.inputs[0], op.inputs[2]
    attrs = convolution.attributes_of(op)
    return (
        DepthwiseConv2dNativeBackpropInput(array_shape.shape(x), grad, upstream, **attrs),
        None,
        DepthwiseConv2dNative(x, grad, **attrs),
    )


# -- Public functions --------------------------------------------------------------------


def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Depthwise convolution with strides and dilations for all four axes."""
    return DepthwiseConv2dNative(
        input,
        filter,
        strides=list(strides),
        data_format=data_format,
        dilations=list(dilations),
        name=name,
        **convolution.padding_attributes(padding),
    )


def depthwise_conv2d_native_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d_native` by its input, whose shape is `input_sizes`."""
    return DepthwiseConv2dNativeBackpropInput(
        input_sizes,
        filter,
        out_backprop,
        strides=list(strides),
        data_format=data_format,
        dilations=list(dilations),
        name=name,
        **convolution.padding_attributes(padding),
    )


def depthwise_conv2d_native_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d_native` by its filters, of shape `filter_sizes`."""
    return DepthwiseConv2dNativeBackpropFilter(
        input,
        filter_sizes,
        out_backprop,
        strides=list(strides),
        data_format=data_format,
        dilations=list(dilations),
        name=name,
        **convolution.padding_attributes(padding),
    )


depthwise_conv2d_backprop_input = depthwise_conv2d_native_backprop_input
depthwise_conv2d_backprop_filter = depthwise_conv2d_native_backprop_filter


def _rate(rate: Any, dilations: Any) -> list[int]:
    chosen = convolution.one_of(dilations, "dilations", rate, "rate")
    numbers = [1, 1] if chosen is None else [int(r) for r in chosen]
    if len(numbers) != 2:
        raise ValueError(f"`rate` must be two numbers. Received: rate={chosen}")
    return numbers


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Convolves every channel with filters of its own and joins the results.

    Args:
      input: ``[batch, height, width, channels]``, or as `data_format` says.
      filter: ``[height, width, channels, multiplier]``.
      strides: Four numbers.
      padding: ``"SAME"``, ``"VALID"`` or four pairs of numbers.
      rate: Dilation of height and width; all strides must then be 1.
      name: The node's name.
      data_format: ``"NHWC"`` or ``"NCHW"``.
      dilations: The newer name of `rate`.

    Returns:
      ``[batch, height, width, channels * multiplier]``, or as `data_format` says.
    """
    rates = _rate(rate, dilations)
    with name_scope(name, "depthwise", [input, filter]) as scope:
        return _dilated_depthwise(input, filter, strides, padding, rates, data_format, scope)


def _dilated_depthwise(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    rates: list[int],
    data_format: str | None,
    name: str,
) -> Tensor:
    if any(rate > 1 for rate in rates) and any(stride > 1 for stride in strides):
        raise ValueError(
            "`strides > 1` not supported in conjunction with `rate > 1`. "
            f"Received: strides={strides} and rate={rates}"
        )
    layout = data_format or "NHWC"
    return depthwise_conv2d_native(
        convert_to_tensor(input, name="tensor_in"),
        convert_to_tensor(filter, name="filter_in"),
        strides,
        padding,
        data_format=layout,
        dilations=windows.per_axis(rates, "rate", 2, layout.encode()),
        name=name,
    )


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """A depthwise convolution, then one with filters of size 1 that mixes the channels.

    Args:
      input: ``[batch, height, width, channels]``, or as `data_format` says.
      depthwise_filter: ``[height, width, channels, multiplier]``.
      pointwise_filter: ``[1, 1, channels * multiplier, output channels]``.
      strides: Four numbers, for the depthwise convolution.
      padding: ``"SAME"``, ``"VALID"`` or four pairs of numbers.
      rate: Dilation of height and width; all strides must then be 1.
      name: The name scope.
      data_format: ``"NHWC"`` or ``"NCHW"``.
      dilations: The newer name of `rate`.
    """
    rates = _rate(rate, dilations)
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        pointwise = convert_to_tensor(pointwise_filter, name="pointwise_filter")
        sizes = pointwise.shape.sizes
        if sizes is not None and (len(sizes) != 4 or any(s not in (1, None) for s in sizes[:2])):
            raise ValueError(
                "`pointwise_filter` must have shape [1, 1, channels * multiplier, outputs]. "
                f"Received: pointwise_filter.shape={pointwise.shape}"
            )
        with name_scope("depthwise") as inner:
            middle = _dilated_depthwise(
                input, depthwise_filter, strides, padding, rates, data_format, inner
            )
        return convolution.conv2d(
            middle, pointwise, [1, 1, 1, 1], "VALID", data_format=data_format or "NHWC", name=scope
        )
