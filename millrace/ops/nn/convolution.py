"""Convolutions of images and sequences: Conv2D, its two named gradients, and their functions.

The op types only check shapes; the arithmetic is in `convolution_kernels`. Three dimensions
are in `convolution_3d`, one filter a channel in `depthwise`, dilation in `dilated`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from millrace.compiler.xla import jnp
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.nn import convolution_kernels, host_windows, windows

__all__ = [
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_backprop_filter",
    "conv2d_backprop_input",
    "conv2d_transpose",
]

_ATTRS = (
    "strides: list(int); use_cudnn_on_gpu: bool = true; "
    'padding: {"SAME", "VALID", "EXPLICIT"}; explicit_paddings: list(int) = []; '
    'data_format: {"NHWC", "NCHW"} = "NHWC"; dilations: list(int) = [1, 1, 1, 1]'
)
_FLOATS = "{float16, bfloat16, float32, float64}"
_FLOATS_AND_INT = "{float16, bfloat16, float32, float64, int32}"


# -- What all convolution ops share ------------------------------------------------------


def ranked(shape: TensorShape, rank: int) -> TensorShape:
    """`shape`, or unknown sizes of that rank; ValueError when it has another rank."""
    if shape.ndims is None:
        return unknown_shape(rank)
    if shape.ndims != rank:
        raise ValueError(f"Shape must be rank {rank} but is rank {shape.ndims}")
    return shape


def check_attributes(kind: str, attrs: dict[str, Any], rank: int) -> None:
    """Holds strides, dilations and explicit paddings of a node against the rank of its data.

    Raises:
      ValueError: Of another length, or not positive.
    """
    data_format = attrs["data_format"]
    for name, word in (("strides", "stride"), ("dilations", "dilation")):
        values = attrs[name]
        if len(values) != rank:
            raise ValueError(
                f"{kind} on data format {data_format.decode()} requires the {word} attribute to "
                f"contain {rank} values, but got: {len(values)}"
            )
    windows.check_explicit_paddings(
        attrs["padding"], attrs.get("explicit_paddings", ()), rank, data_format
    )


def refuse_strides_in_batch_and_depth(attrs: dict[str, Any], rank: int) -> None:
    """Raises ValueError where the window would step through the batch or the channels."""
    channel = windows.channel_axis(attrs["data_format"], rank)
    for name in ("strides", "dilations"):
        if attrs[name][0] != 1 or attrs[name][channel] != 1:
            raise ValueError(
                f"Current implementation does not yet support {name} in the batch and depth "
                f"dimensions: {list(attrs[name])}"
            )


def node_windows(filter_sizes: Sequence[int], attrs: dict[str, Any]) -> list[windows.Window]:
    """The windows of a convolution node, one for each spatial axis of its data."""
    rank = len(filter_sizes) + 2
    return windows.windows(
        filter_sizes,
        windows.spatial_axes(attrs["data_format"], rank),
        attrs["strides"],
        attrs["padding"],
        attrs["dilations"],
        attrs.get("explicit_paddings", ()),
    )


def convolution_shape(c: ShapeContext, rank: int) -> TensorShape:
    """The shape rule of Conv2D and Conv3D."""
    data, filters = ranked(c.shape("input"), rank), ranked(c.shape("filter"), rank)
    check_attributes(c.op.type, c.attrs, rank)
    data_format = c.attr("data_format")
    channel = windows.channel_axis(data_format, rank)
    assert data.sizes is not None and filters.sizes is not None
    depth, filter_depth, channels = data.sizes[channel], filters.sizes[-2], filters.sizes[-1]
    if depth is not None and filter_depth is not None:
        if filter_depth == 0 or depth % filter_depth:
            raise ValueError(
                f"Depth of input ({depth}) is not a multiple of input depth of filter "
                f"({filter_depth})"
            )
        groups = depth // filter_depth
        if channels is not None and groups and channels % groups:
            raise ValueError(
                f"Depth of output ({channels}) is not a multiple of the number of groups ({groups})"
            )
    axes = windows.spatial_axes(data_format, rank)
    spatial = filters.sizes[:-2]
    sizes: list[int | None] = [
        None
        if size is None
        else node_windows([s or 1 for s in spatial], c.attrs)[i].output_size(data.sizes[axis])
        for i, (axis, size) in enumerate(zip(axes, spatial, strict=True))
    ]
    if any(s is None for s in spatial) and c.attr("padding") == b"SAME":
        # SAME does not ask how large the filter is.
        sizes = [
            w.output_size(data.sizes[axis])
            for w, axis in zip(node_windows([1] * len(axes), c.attrs), axes, strict=True)
        ]
    return windows.with_sizes(data, axes, sizes, channels, channel)


def input_gradient_shape(c: ShapeContext, rank: int) -> TensorShape:
    """The shape rule of a gradient by the input whose shape is the value of an input."""
    sizes = c.value_as_shape("input_sizes")
    filters, grad = ranked(c.shape("filter"), rank), ranked(c.shape("out_backprop"), rank)
    channel = windows.channel_axis(c.attr("data_format"), rank)
    assert filters.sizes is not None and grad.sizes is not None
    channels, out = grad.sizes[channel], filters.sizes[-1]
    if channels is not None and out is not None and channels != out:
        raise ValueError(f"Dimensions must be equal, but are {channels} and {out}")
    if sizes.ndims == rank - 2:  # only the spatial sizes
        result: list[int | None] = list(grad.sizes)
        result[channel] = filters.sizes[-2]
        axes = windows.spatial_axes(c.attr("data_format"), rank)
        for axis, size in zip(axes, sizes.as_list(), strict=True):
            result[axis] = size
        return TensorShape(result)
    return ranked(sizes, rank)


def filter_gradient_shape(c: ShapeContext, rank: int) -> TensorShape:
    """The shape rule of a gradient by the filters whose shape is the value of an input."""
    ranked(c.shape("input"), rank)
    ranked(c.shape("out_backprop"), rank)
    return ranked(c.value_as_shape("filter_sizes"), rank)


def checked_input(x: Any, filters: Any, attrs: dict[str, Any]) -> None:
    """Raises ValueError unless data and filters of a convolution fit together."""
    rank = len(attrs["strides"])
    if x.ndim != rank or filters.ndim != rank:
        raise ValueError(
            f"input and filter must be {rank}-dimensional, got shapes {x.shape} and {filters.shape}"
        )
    refuse_strides_in_batch_and_depth(attrs, rank)
    depth = x.shape[windows.channel_axis(attrs["data_format"], rank)]
    if filters.shape[-2] == 0 or depth % filters.shape[-2]:
        raise ValueError(
            f"input depth must be evenly divisible by filter depth: {depth} vs {filters.shape[-2]}"
        )


def forward(x: Any, filters: Any, attrs: dict[str, Any], xp: Any) -> Any:
    """The kernel of Conv2D and Conv3D."""
    checked_input(x, filters, attrs)
    steps = node_windows(filters.shape[:-2], attrs)
    first = windows.is_channels_first(attrs["data_format"])
    for w, axis in zip(steps, windows.spatial_axes(attrs["data_format"], x.ndim), strict=True):
        w.output_size(x.shape[axis])  # raises when no window fits
    if xp is np:
        return host_windows.convolve(x, filters, steps, first)
    return convolution_kernels.convolve(jnp.asarray(x), jnp.asarray(filters), steps, first)


def full_input_sizes(sizes: Any, filters: Any, grad: Any, data_format: bytes) -> tuple[int, ...]:
    """The shape that an ``input_sizes`` input denotes; it may hold the spatial sizes only."""
    given = tuple(int(size) for size in sizes)
    rank = grad.ndim
    if len(given) == rank:
        return given
    if len(given) != rank - 2:
        raise ValueError(
            f"input_sizes must have {rank} or {rank - 2} entries, got {len(given)}: {list(given)}"
        )
    full = [0] * rank
    full[0] = grad.shape[0]
    full[windows.channel_axis(data_format, rank)] = filters.shape[-2]
    for axis, size in zip(windows.spatial_axes(data_format, rank), given, strict=True):
        full[axis] = size
    return tuple(full)


def _check_gradient(
    input_shape: Sequence[int], filter_shape: Sequence[int], grad: Any, attrs: dict[str, Any]
) -> list[windows.Window]:
    rank = len(attrs["strides"])
    refuse_strides_in_batch_and_depth(attrs, rank)
    steps = node_windows(filter_shape[:-2], attrs)
    channel = windows.channel_axis(attrs["data_format"], rank)
    expected = list(input_shape)
    expected[channel] = filter_shape[-1]
    for w, axis in zip(steps, windows.spatial_axes(attrs["data_format"], rank), strict=True):
        expected[axis] = w.output_size(input_shape[axis]) or 0
    if tuple(grad.shape) != tuple(expected):
        raise ValueError(
            f"out_backprop has shape {tuple(grad.shape)}, but a convolution of input "
            f"{tuple(input_shape)} with filter {tuple(filter_shape)}, strides "
            f"{list(attrs['strides'])} and padding {attrs['padding'].decode()} gives "
            f"{tuple(expected)}"
        )
    return steps


def backprop_input(sizes: Any, filters: Any, grad: Any, attrs: dict[str, Any], xp: Any) -> Any:
    """The kernel of a convolution's gradient by its input."""
    shape = full_input_sizes(sizes, filters, grad, attrs["data_format"])
    steps = _check_gradient(shape, filters.shape, grad, attrs)
    first = windows.is_channels_first(attrs["data_format"])
    if xp is np:
        return host_windows.gradient_by_input(shape, filters, grad, steps, first)
    return convolution_kernels.gradient_by_input(
        shape, jnp.asarray(filters), jnp.asarray(grad), steps, first
    )


def backprop_filter(x: Any, sizes: Any, grad: Any, attrs: dict[str, Any], xp: Any) -> Any:
    """The kernel of a convolution's gradient by its filters."""
    shape = tuple(int(size) for size in sizes)
    steps = _check_gradient(x.shape, shape, grad, attrs)
    first = windows.is_channels_first(attrs["data_format"])
    if xp is np:
        return host_windows.gradient_by_filter(x, shape, grad, steps, first)
    return convolution_kernels.gradient_by_filter(
        jnp.asarray(x), shape, jnp.asarray(grad), steps, first
    )


# -- Op types ----------------------------------------------------------------------------


@op(
    f"Conv2D(input: T, filter: T) -> output: T where T: {_FLOATS_AND_INT}; {_ATTRS}",
    shape=lambda c: convolution_shape(c, 4),
)
def Conv2D(input: Any, filter: Any, *, node: Any, xp: Any) -> Any:
    """Slides filters ``[height, width, in, out]`` over images."""
    return forward(input, filter, node.attrs, xp)


def attributes_of(op: Operation) -> dict[str, Any]:
    """The attributes that a convolution shares with its gradients."""
    names = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
    return {name: op.attrs[name] for name in names if name in op.attrs}


@Conv2D.gradient
def _(op: Operation, grad: Any) -> Any:
    x, filters = op.inputs
    x_shape, filter_shape = array_shape.shape_n([x, filters])
    attrs = attributes_of(op)
    return (
        Conv2DBackpropInput(x_shape, filters, grad, **attrs),
        Conv2DBackpropFilter(x, filter_shape, grad, **attrs),
    )


@op(
    "Conv2DBackpropInput(input_sizes: int32, filter: T, out_backprop: T) -> output: T "
    f"where T: {_FLOATS_AND_INT}; {_ATTRS}",
    shape=lambda c: input_gradient_shape(c, 4),
    static=("input_sizes",),
)
def Conv2DBackpropInput(
    input_sizes: Any, filter: Any, out_backprop: Any, *, node: Any, xp: Any
) -> Any:
    """The gradient of Conv2D by its input."""
    return backprop_input(input_sizes, filter, out_backprop, node.attrs, xp)


@Conv2DBackpropInput.gradient
def _(op: Operation, grad: Any) -> Any:
    filters, upstream = op.inputs[1], op.inputs[2]
    attrs = attributes_of(op)
    return (
        None,
        Conv2DBackpropFilter(grad, array_shape.shape(filters), upstream, **attrs),
        Conv2D(grad, filters, **attrs),
    )


@op(
    "Conv2DBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) -> output: T "
    f"where T: {_FLOATS}; {_ATTRS}",
    shape=lambda c: filter_gradient_shape(c, 4),
    static=("filter_sizes",),
)
def Conv2DBackpropFilter(
    input: Any, filter_sizes: Any, out_backprop: Any, *, node: Any, xp: Any
) -> Any:
    """The gradient of Conv2D by its filters."""
    return backprop_filter(input, filter_sizes, out_backprop, node.attrs, xp)


@Conv2DBackpropFilter.gradient
def _(op: Operation, grad: Any) -> Any:
    x, upstream = op.inputs[0], op.inputs[2]
    attrs = attributes_of(op)
    return (
        Conv2DBackpropInput(array_shape.shape(x), grad, upstream, **attrs),
        None,
        Conv2D(x, grad, **attrs),
    )


@op(
    "Conv2DBackpropInputV2(input: T, filter: T, out_backprop: T) -> output: T "
    f"where T: {_FLOATS_AND_INT}; {_ATTRS}",
    shape=lambda c: ranked(c.shape("input"), 4),
)
def Conv2DBackpropInputV2(input: Any, filter: Any, out_backprop: Any, *, node: Any, xp: Any) -> Any:
    """Conv2DBackpropInput that takes the input itself, for its shape."""
    return backprop_input(input.shape, filter, out_backprop, node.attrs, xp)


@Conv2DBackpropInputV2.gradient
def _(op: Operation, grad: Any) -> Any:
    filters, upstream = op.inputs[1], op.inputs[2]
    attrs = attributes_of(op)
    return (
        None,
        Conv2DBackpropFilter(grad, array_shape.shape(filters), upstream, **attrs),
        Conv2D(grad, filters, **attrs),
    )


@op(
    "Conv2DBackpropFilterV2(input: T, filter: T, out_backprop: T) -> output: T "
    f"where T: {_FLOATS}; {_ATTRS}",
    shape=lambda c: ranked(c.shape("filter"), 4),
)
def Conv2DBackpropFilterV2(
    input: Any, filter: Any, out_backprop: Any, *, node: Any, xp: Any
) -> Any:
    """Conv2DBackpropFilter that takes the filters themselves, for their shape."""
    return backprop_filter(input, filter.shape, out_backprop, node.attrs, xp)


@Conv2DBackpropFilterV2.gradient
def _(op: Operation, grad: Any) -> Any:
    x, upstream = op.inputs[0], op.inputs[2]
    attrs = attributes_of(op)
    return (
        Conv2DBackpropInput(array_shape.shape(x), grad, upstream, **attrs),
        None,
        Conv2D(x, grad, **attrs),
    )


# -- Public functions --------------------------------------------------------------------


def padding_attributes(padding: Any, rank: int = 4) -> dict[str, Any]:
    """The two attributes that a ``padding`` argument stands for.

    Args:
      padding: ``"SAME"``, ``"VALID"``, or pairs (before, behind), one for each axis.
      rank: How many pairs there must be.

    Raises:
      ValueError: Another form.
      TypeError: None.
    """
    if padding is None:
        raise TypeError("Expected string for argument 'padding' not None.")
    if isinstance(padding, str | bytes):
        name = padding.decode() if isinstance(padding, bytes) else padding
        if name == "EXPLICIT":
            raise ValueError(
                "'EXPLICIT' is not a valid value for `padding`. To use explicit padding, "
                "`padding` must be a list."
            )
        return {"padding": name}
    pairs = [list(pair) for pair in np.asarray(padding).tolist()]
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"`padding` must be a list of {rank} pairs of integers. Received: padding={padding}"
        )
    return {"padding": "EXPLICIT", "explicit_paddings": [p for pair in pairs for p in pair]}


def one_of(first: Any, first_name: str, second: Any, second_name: str) -> Any:
    """The value of an argument that has an old and a new name.

    Raises:
      ValueError: Both are given.
    """
    if first is not None and second is not None:
        raise ValueError(f"Cannot specify both '{first_name}' and '{second_name}'.")
    return first if first is not None else second


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Slides filters over images.

    Args:
      input: ``[batch, height, width, channels]``, or as `data_format` says.
      filter: ``[height, width, channels, filters]``.
      strides: How far the window moves: one number, one for each spatial axis, or four.
      padding: ``"SAME"`` (zeros around, so that the size is divided by the stride only),
        ``"VALID"`` (none), or four pairs of numbers.
      use_cudnn_on_gpu: Accepted for compatibility.
      data_format: ``"NHWC"`` or ``"NCHW"``.
      dilations: Steps between the filter's elements, given as `strides`.
      name: The node's name.
      filters: The newer name of `filter`.
    """
    filter = one_of(filters, "filters", filter, "filter")
    layout = data_format.encode() if data_format else b"NHWC"
    return Conv2D(
        input,
        filter,
        strides=windows.per_axis(strides, "strides", 2, layout),
        dilations=windows.per_axis(dilations, "dilations", 2, layout),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        name=name,
        **padding_attributes(padding),
    )


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv2d` by its filters; `filter_sizes` is their shape."""
    layout = data_format.encode() if data_format else b"NHWC"
    return Conv2DBackpropFilter(
        input,
        filter_sizes,
        out_backprop,
        strides=windows.per_axis(strides, "strides", 2, layout),
        dilations=windows.per_axis(dilations, "dilations", 2, layout),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        name=name,
        **padding_attributes(padding),
    )


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The gradient of `conv2d` by its input; `input_sizes` is the input's shape."""
    filter = one_of(filters, "filters", filter, "filter")
    layout = data_format.encode() if data_format else b"NHWC"
    return Conv2DBackpropInput(
        input_sizes,
        filter,
        out_backprop,
        strides=windows.per_axis(strides, "strides", 2, layout),
        dilations=windows.per_axis(dilations, "dilations", 2, layout),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        name=name,
        **padding_attributes(padding),
    )


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The transpose ("deconvolution") of `conv2d`: its gradient used as a layer.

    Args:
      value: ``[batch, height, width, channels]``, or as `data_format` says.
      filter: ``[height, width, output channels, channels]``.
      output_shape: The shape of the result.
      strides: As for `conv2d`.
      padding: As for `conv2d`.
      data_format: ``"NHWC"`` or ``"NCHW"``.
      name: The node's name.
      input: The newer name of `value`.
      filters: The newer name of `filter`.
      dilations: As for `conv2d`.
    """
    value = one_of(input, "input", value, "value")
    filter = one_of(filters, "filters", filter, "filter")
    data_format = data_format or "NHWC"
    with name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as scope:
        return conv2d_backprop_input(
            output_shape,
            filter,
            value,
            strides,
            padding,
            data_format=data_format,
            dilations=dilations if dilations is not None else (1, 1, 1, 1),
            name=scope,
        )


def _sequence_layout(data_format: str | None) -> tuple[str, int]:
    """The image layout for a sequence layout, and where the height of 1 goes."""
    if data_format in (None, "NHWC", "NWC"):
        return "NHWC", 1
    if data_format in ("NCHW", "NCW"):
        return "NCHW", 2
    raise ValueError(f"`data_format` must be 'NWC' or 'NCW'. Received: data_format={data_format}")


def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Slides filters over sequences: `conv2d` of images with a height of 1.

    Args:
      value: ``[batch, width, channels]``, or as `data_format` says.
      filters: ``[width, channels, filters]``.
      stride: How far the window moves.
      padding: ``"SAME"`` or ``"VALID"``.
      use_cudnn_on_gpu: Accepted for compatibility.
      data_format: ``"NWC"`` or ``"NCW"``.
      name: The name scope.
      input: The newer name of `value`.
      dilations: Steps between the filter's elements.
    """
    value = one_of(input, "input", value, "value")
    with name_scope(name, "conv1d", [value, filters]) as scope:
        layout, place = _sequence_layout(data_format)
        image = array_shape.expand_dims(value, -4 + place)
        result = conv2d(
            image,
            array_shape.expand_dims(filters, 0),
            strides=_with_height(stride, "stride", layout),
            padding=padding,
            use_cudnn_on_gpu=True if use_cudnn_on_gpu is None else use_cudnn_on_gpu,
            data_format=layout,
            dilations=_with_height(dilations, "dilations", layout),
            name=scope,
        )
        return array_shape.squeeze(result, [-4 + place])


def _with_height(value: Any, name: str, layout: str) -> list[int]:
    """One number for each axis of an image with a height of 1."""
    numbers = windows.per_axis(value, name, 1, b"NCW" if layout == "NCHW" else b"NWC")
    place = 2 if layout == "NCHW" else 1
    return [*numbers[:place], 1, *numbers[place:]]


def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of `conv1d`; the arguments are those of `conv2d_transpose`."""
    with name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        layout, place = _sequence_layout(data_format)
        shape = convert_to_tensor(output_shape, "int32", name="output_shape")
        result = conv2d_transpose(
            array_shape.expand_dims(input, -4 + place),
            array_shape.expand_dims(filters, 0),
            array_join.concat([shape[:place], [1], shape[place:]], 0),
            _with_height(strides, "strides", layout),
            padding,
            data_format=layout,
            dilations=_with_height(dilations, "dilations", layout),
            name=scope,
        )
        return array_shape.squeeze(result, [-4 + place])
