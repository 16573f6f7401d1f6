"""Dilation by moving blocks of space into the batch, and convolutions of any rank.

TensorFlow 1.x runs a dilated convolution as an ordinary one between SpaceToBatchND and
BatchToSpaceND. `convolution` and `atrous_conv2d` do not: Conv2D has an attribute for it, which
gives the same numbers and spares two copies. `with_space_to_batch` is there for ops that have
none (pooling, functions of the user's own).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.tensor import Tensor
from millrace.ops.array import blocks as array_blocks
from millrace.ops.array import shape as array_shape
from millrace.ops.nn import convolution as image_convolution
from millrace.ops.nn import convolution_3d, windows

__all__ = [
    "atrous_conv2d",
    "atrous_conv2d_transpose",
    "convolution",
    "with_space_to_batch",
]


def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: str,
    op: Callable[..., Tensor],
    filter_shape: Any = None,
    spatial_dims: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Applies `op` as if its window had gaps of ``dilation_rate - 1`` elements.

    Args:
      input: A tensor of rank ``n + 2`` or more for n spatial axes.
      dilation_rate: n numbers.
      padding: ``"SAME"`` or ``"VALID"``.
      op: ``op(tensor, num_spatial_dims, padding)``; moves its window in steps of 1.
      filter_shape: The window's shape; needed for ``"SAME"``.
      spatial_dims: The spatial axes; ``1..n`` (``2..n+1`` for ``NC...``) by default.
      data_format: Where the channels are.
    """
    tensor = convert_to_tensor(input, name="input")
    rates = _numbers(dilation_rate, "dilation_rate")
    if any(rate < 1 for rate in rates):
        raise ValueError(f"`dilation_rate` must be positive. Received: {rates}")
    is_first = (data_format or "").startswith("NC")
    count = len(rates)
    axes = (
        list(spatial_dims) if spatial_dims else [i + (2 if is_first else 1) for i in range(count)]
    )
    if sorted(axes) != axes or axes[0] < 1:
        raise ValueError(f"`spatial_dims` must be increasing and positive. Received: {axes}")
    if all(rate == 1 for rate in rates):
        return op(tensor, num_spatial_dims=count, padding=padding)
    if padding == "SAME":
        if filter_shape is None:
            raise ValueError("`filter_shape` must be specified for `padding='SAME'`.")
        window = _numbers(filter_shape, "filter_shape")[:count]
        total = [(size - 1) * rate for size, rate in zip(window, rates, strict=True)]
        base: Any = [[t // 2, t - t // 2] for t in total]
    elif padding == "VALID":
        base = [[0, 0]] * count
    else:
        raise ValueError(f"`padding` must be 'SAME' or 'VALID'. Received: padding={padding}")
    block, pads, crops = _blocks(tensor, axes, rates, base)
    spread = array_blocks.space_to_batch_nd(input=tensor, block_shape=block, paddings=pads)
    result = op(spread, num_spatial_dims=count, padding="VALID")
    return array_blocks.batch_to_space_nd(input=result, block_shape=block, crops=crops)


def _numbers(value: Any, name: str) -> list[int]:
    known = constant_value(convert_to_tensor(value, "int32", name=name))
    if known is None:
        raise ValueError(f"`{name}` must be known while the graph is built")
    return [int(v) for v in np.ravel(known)]


def _blocks(
    tensor: Tensor, axes: list[int], rates: list[int], base: list[list[int]]
) -> tuple[Any, Any, Any]:
    """Block shape, paddings and crops for axes 1 to the last spatial one."""
    last = max(axes)
    block = [1] * last
    before_behind = [[0, 0] for _ in range(last)]
    for axis, rate, pair in zip(axes, rates, base, strict=True):
        block[axis - 1], before_behind[axis - 1] = rate, pair
    sizes = tensor.shape[1 : last + 1] if tensor.shape.ndims is not None else None
    if sizes is not None and sizes.is_fully_defined():
        lengths: Any = sizes.as_list()
    else:
        lengths = array_shape.shape(tensor)[1 : last + 1]
    pads, crops = array_blocks.required_space_to_batch_paddings(
        input_shape=lengths, block_shape=block, base_paddings=before_behind
    )
    return block, pads, crops


def convolution(
    input: Any,
    filter: Any = None,
    padding: Any = None,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Convolution with one, two or three spatial axes, told from the filters' rank.

    Args:
      input: ``[batch, *space, channels]``, or ``NC...`` as `data_format` says.
      filter: ``[*window, channels, filters]``.
      padding: ``"SAME"`` or ``"VALID"``.
      strides: One number for each spatial axis, or one for all.
      dilation_rate: One number for each spatial axis, or one for all; not together with
        strides other than 1.
      name: The node's name.
      data_format: ``NWC``, ``NHWC``, ``NDHWC``, ``NCW``, ``NCHW`` or ``NCDHW``.
      filters: The newer name of `filter`.
      dilations: The newer name of `dilation_rate`.
    """
    filter = image_convolution.one_of(filters, "filters", filter, "filter")
    rate = image_convolution.one_of(dilations, "dilations", dilation_rate, "dilation_rate")
    with name_scope(name, "convolution", [input, filter]) as scope:
        data = convert_to_tensor(input, name="input")
        kernel = convert_to_tensor(filter, name="filter")
        rank = kernel.shape.ndims if kernel.shape.ndims is not None else data.shape.ndims
        if rank is None:
            raise ValueError("The rank of `filter` or of `input` must be known")
        if rank not in (3, 4, 5):
            raise ValueError(
                "`filter` must have one, two or three spatial dimensions. "
                f"Received: filter.shape={kernel.shape}"
            )
        layout = data_format or {3: "NWC", 4: "NHWC", 5: "NDHWC"}[rank]
        steps = windows.per_axis(strides, "strides", rank - 2, layout.encode())
        gaps = windows.per_axis(rate, "dilation_rate", rank - 2, layout.encode())
        if max(steps) > 1 and max(gaps) > 1:
            raise ValueError(
                "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
                f"Received: strides={strides} and dilation_rate={rate}"
            )
        if rank == 3:
            return image_convolution.conv1d(
                data, kernel, steps, padding, data_format=layout, name=scope, dilations=gaps
            )
        function = image_convolution.conv2d if rank == 4 else convolution_3d.conv3d
        return function(
            data, kernel, steps, padding, data_format=layout, dilations=gaps, name=scope
        )


def atrous_conv2d(
    value: Any, filters: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """`conv2d` whose filters have ``rate - 1`` zeros between their elements."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


def atrous_conv2d_transpose(
    value: Any,
    filters: Any,
    output_shape: Any,
    rate: int,
    padding: str,
    name: str | None = None,
) -> Tensor:
    """The transpose of `atrous_conv2d`.

    Args:
      value: ``[batch, height, width, channels]``.
      filters: ``[height, width, output channels, channels]``.
      output_shape: The shape of the result.
      rate: The dilation of both axes.
      padding: ``"SAME"`` or ``"VALID"``.
      name: The node's name.
    """
    if rate < 1:
        raise ValueError(f"`rate` cannot be less than one. Received: rate={rate}")
    with name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]) as scope:
        return image_convolution.conv2d_transpose(
            value,
            filters,
            output_shape,
            1,
            padding,
            name=scope,
            dilations=[rate, rate],
        )
