"""Max and average pooling: op types, their named gradients, and the public functions.

The arithmetic is in `pooling_kernels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from millrace.compiler.xla import jnp
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, like
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import shape as array_shape
from millrace.ops.nn import convolution, dilated, windows
from millrace.ops.nn import pooling_kernels as kernels

__all__ = [
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "avg_pool_v2",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool_v2",
    "max_pool_with_argmax",
    "pool",
]

_FLOATS = "{float16, bfloat16, float32, float64}"
_SIZES = "ksize: list(int) >= 4; strides: list(int) >= 4"
_PADDING = 'padding: {"SAME", "VALID"}'
_ANY_PADDING = 'padding: {"SAME", "VALID", "EXPLICIT"}; explicit_paddings: list(int) = []'
_LAYOUT = 'data_format: {"NHWC", "NCHW"} = "NHWC"'
_MAX_LAYOUT = 'data_format: {"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"'
_MAX_TYPES = (
    "T: {float16, bfloat16, float32, float64, int32, int64, uint8, int16, int8, uint16, qint8} "
    "= float32"
)
_SIZES_3D = (
    'ksize: list(int) >= 5; strides: list(int) >= 5; padding: {"SAME", "VALID"}; '
    'data_format: {"NDHWC", "NCDHW"} = "NDHWC"'
)
_FLOATS_3D = "{float16, bfloat16, float32}"


def _windows(
    ksize: Sequence[int], strides: Sequence[int], attrs: dict[str, Any]
) -> list[windows.Window]:
    """A window for every axis of the tensor, batch and channels too."""
    if attrs.get("data_format") == b"NCHW_VECT_C":
        raise NotImplementedError("Pooling of NCHW_VECT_C is for quantized values on GPUs")
    if len(ksize) != len(strides):
        raise ValueError(
            f"Sliding window ksize must have as many entries as strides: {list(ksize)} vs. "
            f"{list(strides)}"
        )
    for name, values in (("ksize", ksize), ("stride", strides)):
        if any(value <= 0 for value in values):
            raise ValueError(f"Sliding window {name} must be > 0, but got {list(values)}")
    if ksize[0] != 1 or strides[0] != 1:
        raise NotImplementedError("Pooling is not yet supported on the batch dimension.")
    return windows.windows(
        ksize,
        range(len(ksize)),
        strides,
        attrs["padding"],
        explicit_paddings=attrs.get("explicit_paddings", ()),
    )


def _node_windows(attrs: dict[str, Any]) -> list[windows.Window]:
    return _windows(attrs["ksize"], attrs["strides"], attrs)


def _pooled(
    shape: TensorShape, ksize: Sequence[int], strides: Sequence[int], attrs: dict[str, Any]
) -> TensorShape:
    rank = len(ksize)
    shape = convolution.ranked(shape, rank)
    if attrs.get("data_format") != b"NCHW_VECT_C":
        windows.check_explicit_paddings(
            attrs["padding"],
            attrs.get("explicit_paddings", ()),
            rank,
            attrs.get("data_format", b"NHWC"),
        )
    steps = windows.windows(
        ksize,
        range(rank),
        strides,
        attrs["padding"],
        explicit_paddings=attrs.get("explicit_paddings", ()),
    )
    assert shape.sizes is not None
    return TensorShape([w.output_size(n) for w, n in zip(steps, shape.sizes, strict=True)])


def _pooled_shape(c: ShapeContext) -> list[TensorShape]:
    pooled = _pooled(c.shape(0), c.attr("ksize"), c.attr("strides"), c.attrs)
    return [pooled] * c.output_count


def _pooled_shape_by_value(c: ShapeContext) -> TensorShape:
    ksize, strides = c.value("ksize"), c.value("strides")
    if ksize is None or strides is None:
        return convolution.ranked(TensorShape(None), 4)
    return _pooled(c.shape(0), ksize.tolist(), strides.tolist(), c.attrs)


def _attributes(op: Operation) -> dict[str, Any]:
    names = ("ksize", "strides", "padding", "explicit_paddings", "data_format")
    return {name: op.attrs[name] for name in names if name in op.attrs}


def _without_explicit(op: Operation) -> dict[str, Any]:
    attrs = _attributes(op)
    if attrs.pop("explicit_paddings", None):
        raise NotImplementedError(
            f"{op.name}: max pooling with explicit padding has no second derivative"
        )
    return attrs


# -- Maximum, two dimensions -------------------------------------------------------------


@op(
    f"MaxPool(input: T) -> output: T where {_MAX_TYPES}; {_SIZES}; {_ANY_PADDING}; {_MAX_LAYOUT}",
    shape=_pooled_shape,
)
def MaxPool(input: Any, *, node: Any, xp: Any) -> Any:
    """The largest element of each window."""
    return kernels.max_pool(xp.asarray(input), _node_windows(node.attrs))


@MaxPool.gradient
def _(op: Operation, grad: Any) -> Any:
    return MaxPoolGrad(op.inputs[0], op.outputs[0], grad, **_attributes(op))


@op(
    "MaxPoolGrad(orig_input: T, orig_output: T, grad: T) -> output: T where "
    f"{_SIZES}; {_ANY_PADDING}; {_LAYOUT}; T: real = float32",
    shape=lambda c: c.shape("orig_input").with_rank(4),
)
def MaxPoolGrad(orig_input: Any, orig_output: Any, grad: Any, *, node: Any, xp: Any) -> Any:
    """The gradient of each window goes to its first maximum."""
    return kernels.max_pool_gradient(
        xp.asarray(orig_input), xp.asarray(orig_output), xp.asarray(grad), _node_windows(node.attrs)
    )


@MaxPoolGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs[0], op.inputs[1]
    second = MaxPoolGradGrad(x, y, grad, **_without_explicit(op))
    return array_fill.zeros_like(x), array_fill.zeros_like(y), second


@op(
    "MaxPoolGradGrad(orig_input: T, orig_output: T, grad: T) -> output: T where "
    f"{_SIZES}; {_PADDING}; {_LAYOUT}; T: real",
    shape=lambda c: c.shape("orig_output").with_rank(4),
)
def MaxPoolGradGrad(orig_input: Any, orig_output: Any, grad: Any, *, node: Any) -> Any:
    """The element of `grad` that stands where each window has its first maximum."""
    return kernels.max_pool_gradient_gradient(
        orig_input, orig_output, grad, _node_windows(node.attrs)
    )


@MaxPoolGradGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs[0], op.inputs[1]
    return (
        array_fill.zeros_like(x),
        array_fill.zeros_like(y),
        MaxPoolGrad(x, y, grad, **_attributes(op)),
    )


@op(
    "MaxPoolV2(input: T, ksize: int32, strides: int32) -> output: T where "
    f"{_MAX_TYPES}; {_PADDING}; {_MAX_LAYOUT}",
    shape=_pooled_shape_by_value,
    static=("ksize", "strides"),
)
def MaxPoolV2(input: Any, ksize: Any, strides: Any, *, node: Any, xp: Any) -> Any:
    """MaxPool whose window is given by inputs."""
    return kernels.max_pool(
        xp.asarray(input), _windows(ksize.tolist(), strides.tolist(), node.attrs)
    )


@MaxPoolV2.gradient
def _(op: Operation, grad: Any) -> Any:
    x, ksize, strides = op.inputs
    attrs = {name: op.attrs[name] for name in ("padding", "data_format")}
    return MaxPoolGradV2(x, op.outputs[0], grad, ksize, strides, **attrs), None, None


@op(
    "MaxPoolGradV2(orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32) "
    f"-> output: T where {_PADDING}; {_LAYOUT}; T: real = float32",
    shape=lambda c: c.shape("orig_input").with_rank(4),
    static=("ksize", "strides"),
)
def MaxPoolGradV2(
    orig_input: Any, orig_output: Any, grad: Any, ksize: Any, strides: Any, *, node: Any, xp: Any
) -> Any:
    """MaxPoolGrad whose window is given by inputs."""
    return kernels.max_pool_gradient(
        xp.asarray(orig_input),
        xp.asarray(orig_output),
        xp.asarray(grad),
        _windows(ksize.tolist(), strides.tolist(), node.attrs),
    )


@MaxPoolGradV2.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y, _, ksize, strides = op.inputs
    attrs = {name: op.attrs[name] for name in ("padding", "data_format")}
    second = MaxPoolGradGradV2(x, y, grad, ksize, strides, **attrs)
    return array_fill.zeros_like(x), array_fill.zeros_like(y), second, None, None


@op(
    "MaxPoolGradGradV2(orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32) "
    f"-> output: T where {_PADDING}; {_LAYOUT}; T: real",
    shape=lambda c: c.shape("orig_output").with_rank(4),
    static=("ksize", "strides"),
)
def MaxPoolGradGradV2(
    orig_input: Any, orig_output: Any, grad: Any, ksize: Any, strides: Any, *, node: Any
) -> Any:
    """MaxPoolGradGrad whose window is given by inputs."""
    return kernels.max_pool_gradient_gradient(
        orig_input,
        orig_output,
        grad,
        _windows(ksize.tolist(), strides.tolist(), node.attrs),
    )


@MaxPoolGradGradV2.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y, _, ksize, strides = op.inputs
    attrs = {name: op.attrs[name] for name in ("padding", "data_format")}
    first = MaxPoolGradV2(x, y, grad, ksize, strides, **attrs)
    return array_fill.zeros_like(x), array_fill.zeros_like(y), first, None, None


# -- Maximum with positions --------------------------------------------------------------

_ARGMAX = f"{_SIZES}; {_PADDING}; include_batch_in_index: bool = false"


@op(
    "MaxPoolWithArgmax(input: T) -> (output: T, argmax: Targmax) where "
    f"{_SIZES}; Targmax: index = int64; {_PADDING}; include_batch_in_index: bool = false; T: real",
    shape=_pooled_shape,
)
def MaxPoolWithArgmax(input: Any, *, include_batch_in_index: bool, node: Any) -> Any:
    """MaxPool, and where in the flattened image (or batch of images) the maxima stand."""
    x, steps = jnp.asarray(input), _node_windows(node.attrs)
    maxima = kernels.max_pool(x, steps)
    return maxima, kernels.max_pool_positions(x, maxima, steps, include_batch_in_index)


@MaxPoolWithArgmax.gradient
def _(op: Operation, grad: Any, unused: Any) -> Any:
    names = ("ksize", "strides", "padding", "include_batch_in_index")
    attrs = {name: op.attrs[name] for name in names}
    return MaxPoolGradWithArgmax(op.inputs[0], grad, op.outputs[1], **attrs)


def _flat_positions(argmax: Any, shape: Sequence[int], with_batch: bool) -> Any:
    """Positions in the whole flattened array."""
    positions = jnp.asarray(argmax, jnp.int64)
    if with_batch:
        return positions
    image = 1
    for size in shape[1:]:
        image *= size
    batch = jnp.arange(shape[0], dtype=jnp.int64) * image
    return positions + jnp.reshape(batch, (-1,) + (1,) * (positions.ndim - 1))


@op(
    f"MaxPoolGradWithArgmax(input: T, grad: T, argmax: Targmax) -> output: T where {_ARGMAX}; "
    "Targmax: index; T: real",
    shape=like("input"),
)
def MaxPoolGradWithArgmax(
    input: Any, grad: Any, argmax: Any, *, include_batch_in_index: bool
) -> Any:
    """Adds every gradient where its maximum stood."""
    places = _flat_positions(argmax, input.shape, include_batch_in_index)
    flat = jnp.zeros((input.size,), grad.dtype)
    return jnp.reshape(flat.at[jnp.ravel(places)].add(jnp.ravel(grad)), input.shape)


@MaxPoolGradWithArgmax.gradient
def _(op: Operation, grad: Any) -> Any:
    x, _, argmax = op.inputs
    names = ("ksize", "strides", "padding", "include_batch_in_index")
    attrs = {name: op.attrs[name] for name in names}
    return array_fill.zeros_like(x), MaxPoolGradGradWithArgmax(x, grad, argmax, **attrs), None


@op(
    f"MaxPoolGradGradWithArgmax(input: T, grad: T, argmax: Targmax) -> output: T where {_ARGMAX}; "
    "Targmax: index; T: real",
    shape=like("argmax"),
    gradient=NO_GRADIENT,
)
def MaxPoolGradGradWithArgmax(
    input: Any, grad: Any, argmax: Any, *, include_batch_in_index: bool
) -> Any:
    """Takes the elements of `grad` that stand where the maxima stood."""
    places = _flat_positions(argmax, input.shape, include_batch_in_index)
    return jnp.ravel(jnp.asarray(grad))[places]


# -- Averages ----------------------------------------------------------------------------


@op(
    f"AvgPool(value: T) -> output: T where {_SIZES}; {_PADDING}; {_LAYOUT}; T: {_FLOATS}",
    shape=_pooled_shape,
)
def AvgPool(value: Any, *, node: Any, xp: Any) -> Any:
    """The mean of each window; padding does not count."""
    return kernels.average_pool(xp.asarray(value), _node_windows(node.attrs))


@AvgPool.gradient
def _(op: Operation, grad: Any) -> Any:
    return AvgPoolGrad(array_shape.shape(op.inputs[0]), grad, **_attributes(op))


def _original_shape(c: ShapeContext) -> TensorShape:
    return convolution.ranked(c.value_as_shape("orig_input_shape"), len(c.attr("ksize")))


@op(
    "AvgPoolGrad(orig_input_shape: int32, grad: T) -> output: T where "
    f"{_SIZES}; {_PADDING}; {_LAYOUT}; T: {_FLOATS}",
    shape=_original_shape,
    static=("orig_input_shape",),
)
def AvgPoolGrad(orig_input_shape: Any, grad: Any, *, node: Any, xp: Any) -> Any:
    """The gradient of each window in equal parts to its elements."""
    return kernels.average_pool_gradient(
        orig_input_shape.tolist(), xp.asarray(grad), _node_windows(node.attrs)
    )


@AvgPoolGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    return None, AvgPool(grad, **_attributes(op))


# -- Three dimensions --------------------------------------------------------------------


@op(f"MaxPool3D(input: T) -> output: T where {_SIZES_3D}; T: {_FLOATS_3D}", shape=_pooled_shape)
def MaxPool3D(input: Any, *, node: Any, xp: Any) -> Any:
    """MaxPool of volumes."""
    return kernels.max_pool(xp.asarray(input), _node_windows(node.attrs))


@MaxPool3D.gradient
def _(op: Operation, grad: Any) -> Any:
    return MaxPool3DGrad(op.inputs[0], op.outputs[0], grad, **_attributes(op))


@op(
    "MaxPool3DGrad(orig_input: TInput, orig_output: TInput, grad: T) -> output: T where "
    f"{_SIZES_3D}; T: {_FLOATS_3D} = float32; TInput: {_FLOATS_3D} = float32",
    shape=lambda c: c.shape("orig_input").with_rank(5),
)
def MaxPool3DGrad(orig_input: Any, orig_output: Any, grad: Any, *, node: Any, xp: Any) -> Any:
    """MaxPoolGrad of volumes."""
    return kernels.max_pool_gradient(
        xp.asarray(orig_input), xp.asarray(orig_output), xp.asarray(grad), _node_windows(node.attrs)
    )


@MaxPool3DGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs[0], op.inputs[1]
    second = MaxPool3DGradGrad(x, y, grad, **_attributes(op))
    return array_fill.zeros_like(x), array_fill.zeros_like(y), second


@op(
    "MaxPool3DGradGrad(orig_input: T, orig_output: T, grad: T) -> output: T where "
    f"{_SIZES_3D}; T: real",
    shape=lambda c: c.shape("orig_output").with_rank(5),
)
def MaxPool3DGradGrad(orig_input: Any, orig_output: Any, grad: Any, *, node: Any) -> Any:
    """MaxPoolGradGrad of volumes."""
    return kernels.max_pool_gradient_gradient(
        orig_input, orig_output, grad, _node_windows(node.attrs)
    )


@MaxPool3DGradGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    x, y = op.inputs[0], op.inputs[1]
    return (
        array_fill.zeros_like(x),
        array_fill.zeros_like(y),
        MaxPool3DGrad(x, y, grad, **_attributes(op)),
    )


@op(f"AvgPool3D(input: T) -> output: T where {_SIZES_3D}; T: {_FLOATS}", shape=_pooled_shape)
def AvgPool3D(input: Any, *, node: Any, xp: Any) -> Any:
    """AvgPool of volumes."""
    return kernels.average_pool(xp.asarray(input), _node_windows(node.attrs))


@AvgPool3D.gradient
def _(op: Operation, grad: Any) -> Any:
    return AvgPool3DGrad(array_shape.shape(op.inputs[0]), grad, **_attributes(op))


@op(
    f"AvgPool3DGrad(orig_input_shape: int32, grad: T) -> output: T where {_SIZES_3D}; T: {_FLOATS}",
    shape=_original_shape,
    static=("orig_input_shape",),
)
def AvgPool3DGrad(orig_input_shape: Any, grad: Any, *, node: Any, xp: Any) -> Any:
    """AvgPoolGrad of volumes."""
    return kernels.average_pool_gradient(
        orig_input_shape.tolist(), xp.asarray(grad), _node_windows(node.attrs)
    )


@AvgPool3DGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    return None, AvgPool3D(grad, **_attributes(op))


# -- Public functions --------------------------------------------------------------------


def max_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The largest element of each window of an image.

    Args:
      value: ``[batch, height, width, channels]``, or as `data_format` says.
      ksize: The window's size: one number, one for each spatial axis, or four.
      strides: How far the window moves, given as `ksize`.
      padding: ``"SAME"``, ``"VALID"``, or four pairs of numbers.
      data_format: ``"NHWC"`` or ``"NCHW"``.
      name: The node's name.
      input: The newer name of `value`.
    """
    value = convolution.one_of(input, "input", value, "value")
    with name_scope(name, "MaxPool", [value]) as scope:
        layout = (data_format or "NHWC").encode()
        return MaxPool(
            convert_to_tensor(value, name="input"),
            ksize=windows.per_axis(ksize, "ksize", 2, layout),
            strides=windows.per_axis(strides, "strides", 2, layout),
            data_format=data_format,
            name=scope,
            **convolution.padding_attributes(padding),
        )


def avg_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The mean of each window of an image; the arguments are those of `max_pool`."""
    value = convolution.one_of(input, "input", value, "value")
    with name_scope(name, "AvgPool", [value]) as scope:
        layout = (data_format or "NHWC").encode()
        return AvgPool(
            convert_to_tensor(value, name="input"),
            ksize=windows.per_axis(ksize, "ksize", 2, layout),
            strides=windows.per_axis(strides, "strides", 2, layout),
            padding=padding,
            data_format=data_format,
            name=scope,
        )


def max_pool2d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """`max_pool` under the name of TensorFlow 2."""
    with name_scope(name, "MaxPool2d", [input]) as scope:
        return max_pool(input, ksize, strides, padding, data_format, scope)


avg_pool2d = avg_pool


def max_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """The largest element of each window of a volume; see `max_pool`."""
    with name_scope(name, "MaxPool3D", [input]) as scope:
        layout = (data_format or "NDHWC").encode()
        return MaxPool3D(
            input,
            ksize=windows.per_axis(ksize, "ksize", 3, layout),
            strides=windows.per_axis(strides, "strides", 3, layout),
            padding=padding,
            data_format=data_format,
            name=scope,
        )


def avg_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of a volume; see `max_pool`."""
    with name_scope(name, "AvgPool3D", [input]) as scope:
        layout = (data_format or "NDHWC").encode()
        return AvgPool3D(
            input,
            ksize=windows.per_axis(ksize, "ksize", 3, layout),
            strides=windows.per_axis(strides, "strides", 3, layout),
            padding=padding,
            data_format=data_format,
            name=scope,
        )


def max_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """The largest element of each window of a sequence; see `max_pool`."""
    return _pool_sequence(max_pool, "MaxPool1d", input, ksize, strides, padding, data_format, name)


def avg_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of a sequence; see `max_pool`."""
    return _pool_sequence(avg_pool, "AvgPool1D", input, ksize, strides, padding, data_format, name)


def _pool_sequence(
    function: Any,
    default_name: str,
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    name: str | None,
) -> Tensor:
    with name_scope(name, default_name, [input]) as scope:
        layout = data_format or "NWC"
        if layout not in ("NWC", "NCW"):
            raise ValueError(
                f"`data_format` must be 'NWC' or 'NCW'. Received: data_format={data_format}"
            )
        place = 2 if layout == "NCW" else 1
        sizes = windows.per_axis(ksize, "ksize", 1, layout.encode())
        steps = windows.per_axis(strides, "strides", 1, layout.encode())
        result = function(
            array_shape.expand_dims(input, place),
            [*sizes[:place], 1, *sizes[place:]],
            [*steps[:place], 1, *steps[place:]],
            padding,
            data_format="NCHW" if layout == "NCW" else "NHWC",
            name=scope,
        )
        return array_shape.squeeze(result, [place])


def max_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Max pooling with one, two or three spatial axes, told from the input's rank."""
    functions = {3: max_pool1d, 4: max_pool2d, 5: max_pool3d}
    return _of_any_rank(functions, input, ksize, strides, padding, data_format, name)


def avg_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Average pooling with one, two or three spatial axes, told from the input's rank."""
    functions = {3: avg_pool1d, 4: avg_pool2d, 5: avg_pool3d}
    return _of_any_rank(functions, input, ksize, strides, padding, data_format, name)


def _of_any_rank(
    functions: dict[int, Any],
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    name: str | None,
) -> Tensor:
    tensor = convert_to_tensor(input, name="input")
    rank = tensor.shape.ndims if tensor.shape.ndims is not None else len(data_format or "")
    if rank not in functions:
        raise ValueError(f"`input` must have 3, 4 or 5 dimensions. Received: {tensor.shape}")
    layout = data_format or {3: "NWC", 4: "NHWC", 5: "NDHWC"}[rank]
    return functions[rank](tensor, ksize, strides, padding, data_format=layout, name=name)


class MaxPoolWithArgmaxResult(NamedTuple):
    """What `max_pool_with_argmax` returns."""

    output: Tensor
    argmax: Tensor


def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    Targmax: Any = None,
    name: str | None = None,
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
) -> MaxPoolWithArgmaxResult:
    """Max pooling, and where in its flattened image each maximum stands.

    Args:
      input: ``[batch, height, width, channels]``.
      ksize: The window's size, as for `max_pool`.
      strides: How far the window moves, as for `max_pool`.
      padding: ``"SAME"`` or ``"VALID"``.
      data_format: Must be ``"NHWC"``.
      Targmax: int32 or int64 (the default), the type of the positions.
      name: The node's name.
      output_dtype: The newer name of `Targmax`.
      include_batch_in_index: Whether positions count from the start of the batch.
    """
    if data_format != "NHWC":
        raise ValueError(f"`data_format` must be 'NHWC'. Received: data_format={data_format}")
    kind = convolution.one_of(Targmax, "Targmax", output_dtype, "output_dtype")
    return MaxPoolWithArgmaxResult(
        *MaxPoolWithArgmax(
            input,
            ksize=windows.per_axis(ksize, "ksize", 2, b"NHWC"),
            strides=windows.per_axis(strides, "strides", 2, b"NHWC"),
            padding=padding,
            Targmax=kind if kind is not None else dtypes.int64,
            include_batch_in_index=include_batch_in_index,
            name=name,
        )
    )


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    padding: str,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Pooling with one, two or three spatial axes.

    Args:
      input: ``[batch, *space, channels]``, or ``NC...`` as `data_format` says.
      window_shape: The window's size along each spatial axis.
      pooling_type: ``"MAX"`` or ``"AVG"``.
      padding: ``"SAME"`` or ``"VALID"``.
      dilation_rate: Steps between the window's elements; not together with strides.
      strides: How far the window moves along each spatial axis.
      name: The name scope.
      data_format: Where the channels are.
      dilations: The newer name of `dilation_rate`.
    """
    rate = convolution.one_of(dilations, "dilations", dilation_rate, "dilation_rate")
    default_name = f"{pooling_type.lower()}_pool"
    with name_scope(name, default_name, [input]) as scope:
        tensor = convert_to_tensor(input, name="input")
        sizes = [int(size) for size in window_shape]
        count = len(sizes)
        functions: dict[tuple[str, int], Any] = {
            ("MAX", 1): max_pool1d,
            ("MAX", 2): max_pool,
            ("MAX", 3): max_pool3d,
            ("AVG", 1): avg_pool1d,
            ("AVG", 2): avg_pool,
            ("AVG", 3): avg_pool3d,
        }
        if (pooling_type, count) not in functions:
            raise ValueError(
                "`pooling_type` must be 'MAX' or 'AVG', and `window_shape` must have one, two or "
                f"three entries. Received: {pooling_type} and {sizes}"
            )
        steps = [1] * count if strides is None else [int(s) for s in strides]
        rates = [1] * count if rate is None else [int(r) for r in rate]
        if max(steps) > 1 and max(rates) > 1:
            raise ValueError(
                "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
                f"Received: strides={steps} and dilation_rate={rates}"
            )
        layout = data_format or {1: "NWC", 2: "NHWC", 3: "NDHWC"}[count]

        def one_step(part: Tensor, num_spatial_dims: int, padding: str) -> Tensor:
            return functions[pooling_type, count](
                part, sizes, steps, padding, data_format=layout, name=scope
            )

        return dilated.with_space_to_batch(
            tensor, rates, padding, one_step, filter_shape=sizes, data_format=layout
        )
