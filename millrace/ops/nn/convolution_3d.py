"""Convolutions of volumes: Conv3D, its gradients, and transposed convolution of any rank."""

from __future__ import annotations

from typing import Any

from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape
from millrace.ops.nn import convolution, windows

__all__ = [
    "conv3d",
    "conv3d_backprop_filter",
    "conv3d_backprop_filter_v2",
    "conv3d_transpose",
    "conv_transpose",
]

_FLOATS = "{float16, bfloat16, float32, float64}"
_OLD_ATTRS = (
    'strides: list(int) >= 5; padding: {"SAME", "VALID"}; dilations: list(int) = [1, 1, 1, 1, 1]'
)
_ATTRS = (
    'strides: list(int) >= 5; padding: {"SAME", "VALID"}; '
    'data_format: {"NDHWC", "NCDHW"} = "NDHWC"; dilations: list(int) = [1, 1, 1, 1, 1]'
)


@op(
    f"Conv3D(input: T, filter: T) -> output: T where T: {_FLOATS}; {_ATTRS}",
    shape=lambda c: convolution.convolution_shape(c, 5),
)
def Conv3D(input: Any, filter: Any, *, node: Any, xp: Any) -> Any:
    """Slides filters ``[depth, height, width, in, out]`` over volumes."""
    return convolution.forward(input, filter, node.attrs, xp)


@Conv3D.gradient
def _(op: Operation, grad: Any) -> Any:
    x, filters = op.inputs
    x_shape, filter_shape = array_shape.shape_n([x, filters])
    attrs = convolution.attributes_of(op)
    return (
        Conv3DBackpropInputV2(x_shape, filters, grad, **attrs),
        Conv3DBackpropFilterV2(x, filter_shape, grad, **attrs),
    )


@op(
    "Conv3DBackpropInputV2(input_sizes: Tshape, filter: T, out_backprop: T) -> output: T "
    f"where T: {_FLOATS}; {_ATTRS}; Tshape: index = int32",
    shape=lambda c: convolution.input_gradient_shape(c, 5),
    static=("input_sizes",),
)
def Conv3DBackpropInputV2(
    input_sizes: Any, filter: Any, out_backprop: Any, *, node: Any, xp: Any
) -> Any:
    """The gradient of Conv3D by its input."""
    return convolution.backprop_input(input_sizes, filter, out_backprop, node.attrs, xp)


def _input_gradient_gradient(op: Operation, grad: Any) -> Any:
    filters, upstream = op.inputs[1], op.inputs[2]
    attrs = convolution.attributes_of(op)
    return (
        None,
        Conv3DBackpropFilterV2(grad, array_shape.shape(filters), upstream, **attrs),
        Conv3D(grad, filters, **attrs),
    )


@op(
    "Conv3DBackpropFilterV2(input: T, filter_sizes: int32, out_backprop: T) -> output: T "
    f"where T: {_FLOATS}; {_ATTRS}",
    shape=lambda c: convolution.filter_gradient_shape(c, 5),
    static=("filter_sizes",),
)
def Conv3DBackpropFilterV2(
    input: Any, filter_sizes: Any, out_backprop: Any, *, node: Any, xp: Any
) -> Any:
    """The gradient of Conv3D by its filters."""
    return convolution.backprop_filter(input, filter_sizes, out_backprop, node.attrs, xp)


def _filter_gradient_gradient(op: Operation, grad: Any) -> Any:
    x, upstream = op.inputs[0], op.inputs[2]
    attrs = convolution.attributes_of(op)
    return (
        Conv3DBackpropInputV2(array_shape.shape(x), grad, upstream, **attrs),
        None,
        Conv3D(x, grad, **attrs),
    )


def _channels_last(attrs: dict[str, Any]) -> dict[str, Any]:
    return {**attrs, "data_format": b"NDHWC"}


@op(
    "Conv3DBackpropInput(input: T, filter: T, out_backprop: T) -> output: T "
    f"where T: {{float16, float32, float64}}; {_OLD_ATTRS}",
    shape=lambda c: convolution.ranked(c.shape("input"), 5),
)
def Conv3DBackpropInput(input: Any, filter: Any, out_backprop: Any, *, node: Any, xp: Any) -> Any:
    """The first form of Conv3DBackpropInputV2: takes the input itself, channels last."""
    attrs = _channels_last(node.attrs)
    return convolution.backprop_input(input.shape, filter, out_backprop, attrs, xp)


@op(
    "Conv3DBackpropFilter(input: T, filter: T, out_backprop: T) -> output: T "
    f"where T: {{float16, float32, float64}}; {_OLD_ATTRS}",
    shape=lambda c: convolution.ranked(c.shape("filter"), 5),
)
def Conv3DBackpropFilter(input: Any, filter: Any, out_backprop: Any, *, node: Any, xp: Any) -> Any:
    """The first form of Conv3DBackpropFilterV2: takes the filters themselves, channels last."""
    attrs = _channels_last(node.attrs)
    return convolution.backprop_filter(input, filter.shape, out_backprop, attrs, xp)


for _kind in (Conv3DBackpropInputV2, Conv3DBackpropInput):
    _kind.gradient(_input_gradient_gradient)
for _kind in (Conv3DBackpropFilterV2, Conv3DBackpropFilter):
    _kind.gradient(_filter_gradient_gradient)


def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Slides filters ``[depth, height, width, channels, filters]`` over volumes.

    The arguments are those of `conv2d`, with one more spatial axis.
    """
    filter = convolution.one_of(filters, "filters", filter, "filter")
    layout = (data_format or "NDHWC").encode()
    return Conv3D(
        input,
        filter,
        strides=windows.per_axis(strides, "strides", 3, layout),
        padding=padding,
        data_format=data_format,
        dilations=windows.per_axis(dilations, "dilations", 3, layout),
        name=name,
    )


def conv3d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv3d` by its filters; `filter_sizes` is their shape."""
    return Conv3DBackpropFilterV2(
        input,
        filter_sizes,
        out_backprop,
        strides=list(strides),
        padding=padding,
        data_format=data_format,
        dilations=list(dilations),
        name=name,
    )


conv3d_backprop_filter_v2 = conv3d_backprop_filter


def conv3d_transpose(
    value: Any,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The transpose of `conv3d`; the arguments are those of `conv2d_transpose`."""
    value = convolution.one_of(input, "input", value, "value")
    filter = convolution.one_of(filters, "filters", filter, "filter")
    layout = (data_format or "NDHWC").encode()
    with name_scope(name, "conv3d_transpose", [value, filter, output_shape]) as scope:
        return Conv3DBackpropInputV2(
            convert_to_tensor(output_shape, name="input_sizes"),
            filter,
            value,
            strides=windows.per_axis(strides, "strides", 3, layout),
            padding=padding,
            data_format=data_format,
            dilations=windows.per_axis(dilations, "dilations", 3, layout),
            name=scope,
        )


def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Transposed convolution with one, two or three spatial axes, told from the filters' rank.

    Raises:
      ValueError: The filters have another number of axes.
    """
    with name_scope(name, "conv_transpose", [input, filters, output_shape]) as scope:
        filters = convert_to_tensor(filters, name="filters")
        spatial = None if filters.shape.ndims is None else filters.shape.ndims - 2
        if spatial == 1:
            return convolution.conv1d_transpose(
                input,
                filters,
                output_shape,
                strides,
                padding,
                data_format or "NWC",
                dilations,
                scope,
            )
        if spatial == 2:
            return convolution.conv2d_transpose(
                input,
                filters,
                output_shape,
                strides,
                padding,
                data_format or "NHWC",
                scope,
                dilations=dilations,
            )
        if spatial == 3:
            return conv3d_transpose(
                input,
                filters,
                output_shape,
                strides,
                padding,
                data_format or "NDHWC",
                scope,
                dilations=dilations,
            )
        raise ValueError(
            "`filters` must have 3, 4 or 5 dimensions for one, two or three spatial ones. "
            f"Received: filters.shape={filters.shape}"
        )
