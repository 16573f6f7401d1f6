"""Blocks of images: moved between space, batch and depth, and cut into patches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array.rules import (
    padded,
    require_rank,
    require_rank_at_least,
    shape_text,
    zero_of,
)

__all__ = [
    "batch_to_space",
    "batch_to_space_nd",
    "depth_to_space",
    "extract_image_patches",
    "extract_volume_patches",
    "required_space_to_batch_paddings",
    "space_to_batch",
    "space_to_batch_nd",
    "space_to_depth",
]


# -- Space and batch ---------------------------------------------------------------------


def _blocks_and_edges(
    c: ShapeContext, blocks: np.ndarray | None, edges: str, change: int, rank: int | None = None
) -> TensorShape:
    """The static shape after moving blocks.

    Args:
      c: The context.
      blocks: The block sizes, where known.
      edges: Name of the paddings or crops.
      change: 1 for space to batch, -1 for batch to space.
      rank: The rank, where it is known of all inputs.
    """
    sizes = c.shape(0).sizes
    if blocks is None:
        return unknown_shape() if sizes is None else unknown_shape(len(sizes))
    if any(b < 1 for b in blocks):
        raise ValueError("block_shape must be positive")
    count = len(blocks)
    rows = c.value(edges)
    what = "paddings" if change > 0 else "crops"
    if rows is not None and (rows < 0).any():
        raise ValueError(f"{what} cannot be negative")
    if sizes is None:
        return unknown_shape(rank)
    require_rank_at_least(c.shape(0), count + 1)
    product = math.prod(int(b) for b in blocks)
    batch = sizes[0]
    if change > 0:
        batch = None if batch is None else batch * product
    elif batch is not None:
        if batch % product:
            raise ValueError(f"Dimension size must be evenly divisible by {product} but is {batch}")
        batch //= product
    result: list[int | None] = [batch]
    for i, block in enumerate(blocks):
        size = sizes[i + 1]
        if size is None or rows is None:
            result.append(None)
        elif change > 0:
            whole = size + int(rows[i].sum())
            if whole % block:
                raise ValueError(
                    f"Dimension size must be evenly divisible by {block} but is {whole}"
                )
            result.append(whole // int(block))
        else:
            rest = size * int(block) - int(rows[i].sum())
            if rest < 0:
                raise ValueError(f"Negative dimension size caused by crops: {rest}")
            result.append(rest)
    return TensorShape([*result, *sizes[count + 1 :]])


def _check_blocks(x: Any, blocks: list[int], edges: Any, what: str) -> list[tuple[int, int]]:
    if x.ndim < len(blocks) + 1:
        raise ValueError(f"input rank should be >= {len(blocks) + 1} instead of {x.ndim}")
    if edges.shape != (len(blocks), 2):
        raise ValueError(
            f"{what} should have shape [{len(blocks)}, 2] instead of {shape_text(edges.shape)}"
        )
    if any(b < 1 for b in blocks):
        raise ValueError(f"All values in block_shape must be positive, got {blocks}")
    if (edges < 0).any():
        raise ValueError(f"{what} cannot be negative")
    return [(int(before), int(after)) for before, after in edges]


def _space_to_batch(x: Any, blocks: list[int], paddings: Any, xp: Any) -> Any:
    rows = _check_blocks(x, blocks, paddings, "paddings")
    count = len(blocks)
    batch, rest = x.shape[0], x.shape[count + 1 :]
    space = [size + sum(row) for size, row in zip(x.shape[1 : count + 1], rows, strict=True)]
    split: list[int] = [batch]
    for i, (size, block) in enumerate(zip(space, blocks, strict=True)):
        if size % block:
            raise ValueError(
                f"padded_shape[{i}]={size} is not divisible by block_shape[{i}]={block}"
            )
        split += [size // block, block]
    x = padded(x, [(0, 0), *rows, *[(0, 0)] * (x.ndim - count - 1)], zero_of(x.dtype), xp)
    # [batch, s1, b1, s2, b2, …] becomes [b1, b2, …, batch, s1, s2, …].
    axes = [2 * i + 2 for i in range(count)] + [0] + [2 * i + 1 for i in range(count)]
    axes += [2 * count + 1 + i for i in range(len(rest))]
    moved = x.reshape([*split, *rest]).transpose(axes)
    small = [size // block for size, block in zip(space, blocks, strict=True)]
    return moved.reshape([batch * math.prod(blocks), *small, *rest])


def _batch_to_space(x: Any, blocks: list[int], crops: Any, xp: Any) -> Any:
    rows = _check_blocks(x, blocks, crops, "crops")
    count, product = len(blocks), math.prod(blocks)
    batch, space, rest = x.shape[0], x.shape[1 : count + 1], x.shape[count + 1 :]
    if batch % product:
        raise ValueError(
            f"Input batch dimension ({batch}) is not divisible by product of block sizes "
            f"({product})"
        )
    # [b1, b2, …, batch, s1, s2, …] becomes [batch, s1, b1, s2, b2, …].
    axes = [count]
    for i in range(count):
        axes += [count + 1 + i, i]
    axes += [2 * count + 1 + i for i in range(len(rest))]
    moved = x.reshape([*blocks, batch // product, *space, *rest]).transpose(axes)
    large = [size * block for size, block in zip(space, blocks, strict=True)]
    moved = moved.reshape([batch // product, *large, *rest])
    window = [slice(None)]
    for i, (size, (before, after)) in enumerate(zip(large, rows, strict=True)):
        if size < before + after:
            raise ValueError(f"cropped_shape[{i}]={size - before - after} must be non-negative")
        window.append(slice(before, size - after))
    return moved[tuple(window)]


@op(
    "SpaceToBatchND(input: T, block_shape: Tblock_shape, paddings: Tpaddings) -> output: T "
    "where Tblock_shape: index = int32; Tpaddings: index = int32",
    shape=lambda c: _blocks_and_edges(c, c.value("block_shape"), "paddings", 1),
    static=("block_shape", "paddings"),
)
def SpaceToBatchND(input: Any, block_shape: Any, paddings: Any, *, xp: Any) -> Any:
    """Blocks of the spatial dimensions spread over the batch."""
    return _space_to_batch(input, [int(b) for b in block_shape], paddings, xp)


@op(
    "BatchToSpaceND(input: T, block_shape: Tblock_shape, crops: Tcrops) -> output: T "
    "where Tblock_shape: index = int32; Tcrops: index = int32",
    shape=lambda c: _blocks_and_edges(c, c.value("block_shape"), "crops", -1),
    static=("block_shape", "crops"),
)
def BatchToSpaceND(input: Any, block_shape: Any, crops: Any, *, xp: Any) -> Any:
    """What `SpaceToBatchND` did, undone."""
    return _batch_to_space(input, [int(b) for b in block_shape], crops, xp)


@SpaceToBatchND.gradient
def _(op: Operation, grad: Any) -> Any:
    return [batch_to_space_nd(grad, op.inputs[1], op.inputs[2]), None, None]


@BatchToSpaceND.gradient
def _(op: Operation, grad: Any) -> Any:
    return [space_to_batch_nd(grad, op.inputs[1], op.inputs[2]), None, None]


def _square_blocks(c: ShapeContext) -> np.ndarray:
    require_rank(c.shape(0), 4)
    return np.array([c.attr("block_size")] * 2)


@op(
    "SpaceToBatch(input: T, paddings: Tpaddings) -> output: T "
    "where Tpaddings: index = int32; block_size: int >= 2",
    shape=lambda c: _blocks_and_edges(c, _square_blocks(c), "paddings", 1, 4),
    static=("paddings",),
)
def SpaceToBatch(input: Any, paddings: Any, *, block_size: int, xp: Any) -> Any:
    """`SpaceToBatchND` with square blocks, in old graphs."""
    return _space_to_batch(input, [block_size] * 2, paddings, xp)


@op(
    "BatchToSpace(input: T, crops: Tidx) -> output: T where block_size: int >= 2; "
    "Tidx: index = int32",
    shape=lambda c: _blocks_and_edges(c, _square_blocks(c), "crops", -1, 4),
    static=("crops",),
)
def BatchToSpace(input: Any, crops: Any, *, block_size: int, xp: Any) -> Any:
    """`BatchToSpaceND` with square blocks, in old graphs."""
    return _batch_to_space(input, [block_size] * 2, crops, xp)


@SpaceToBatch.gradient
def _(op: Operation, grad: Any) -> Any:
    return [BatchToSpace(grad, op.inputs[1], block_size=op.attrs["block_size"]), None]


@BatchToSpace.gradient
def _(op: Operation, grad: Any) -> Any:
    return [SpaceToBatch(grad, op.inputs[1], block_size=op.attrs["block_size"]), None]


def space_to_batch_nd(
    input: Any, block_shape: Any, paddings: Any, name: str | None = None
) -> Tensor:
    """Blocks of the spatial dimensions spread over the batch.

    Args:
      input: ``[batch, spatial…, rest…]``.
      block_shape: The size of a block along each spatial dimension.
      paddings: Zeros before and after each spatial dimension, put in first.
      name: Name of the op.
    """
    result: Tensor = SpaceToBatchND(input, block_shape, paddings, name=name)
    return result


def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """What `space_to_batch_nd` did, undone; `crops` are taken away at the end."""
    result: Tensor = BatchToSpaceND(input, block_shape, crops, name=name)
    return result


def _one_of(new: Any, old: Any, new_name: str, old_name: str) -> Any:
    if new is not None and old is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return old if new is None else new


def space_to_batch(
    input: Any,
    paddings: Any,
    block_size: Any = None,
    name: str | None = None,
    block_shape: Any = None,
) -> Tensor:
    """`space_to_batch_nd` of images with square blocks (`block_shape` is the newer name)."""
    size = _one_of(block_shape, block_size, "block_shape", "block_size")
    result = space_to_batch_nd(input, np.array([size, size], np.int32), paddings, name)
    result.set_shape(result.shape.with_rank(4))
    return result


def batch_to_space(
    input: Any,
    crops: Any,
    block_size: Any = None,
    name: str | None = None,
    block_shape: Any = None,
) -> Tensor:
    """`batch_to_space_nd` of images with square blocks (`block_shape` is the newer name)."""
    size = _one_of(block_shape, block_size, "block_shape", "block_size")
    result = batch_to_space_nd(input, np.array([size, size], np.int32), crops, name)
    result.set_shape(result.shape.with_rank(4))
    return result


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The least paddings that make spatial sizes multiples of block sizes.

    Args:
      input_shape: The spatial sizes.
      block_shape: The block sizes.
      base_paddings: Paddings that there are to be at least; zeros when None.
      name: Name of the scope.

    Returns:
      ``(paddings, crops)`` for `space_to_batch_nd` and `batch_to_space_nd`.
    """
    with name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        sizes: Any = convert_to_tensor(input_shape, dtypes.int32, name="input_shape")
        blocks: Any = convert_to_tensor(block_shape, dtypes.int32, name="block_shape")
        blocks.shape.assert_is_fully_defined()
        blocks.shape.assert_has_rank(1)
        count = blocks.shape.as_list()[0]
        if not count:
            return array_fill.zeros([0, 2], dtypes.int32), array_fill.zeros([0, 2], dtypes.int32)
        sizes.shape.assert_is_compatible_with([count])
        if base_paddings is None:
            base: Any = array_fill.zeros([count, 2], dtypes.int32)
        else:
            base = convert_to_tensor(base_paddings, dtypes.int32, name="base_paddings")
            base.shape.assert_is_compatible_with([count, 2])
        known = [constant_value.constant_value(t) for t in (sizes, blocks, base)]
        if all(value is not None for value in known):
            sizes, blocks, base = known
        start, end = base[:, 0], base[:, 1]
        extra = (blocks - (sizes + start + end) % blocks) % blocks
        paddings = [[start[i], end[i] + extra[i]] for i in range(count)]
        crops = [[0, extra[i]] for i in range(count)]
        return array_join.stack(paddings, name="paddings"), array_join.stack(crops, name="crops")


# -- Space and depth ---------------------------------------------------------------------

_FORMAT = 'block_size: int >= 2; data_format: {"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"'


def _channels_last(x: Any, data_format: bytes, change: Any) -> Any:
    """Applies `change` to images with the channels last, whatever the format."""
    if x.ndim != 4:
        raise ValueError(f"Input rank should be 4 instead of {x.ndim}")
    if data_format == b"NHWC":
        return change(x)
    if data_format == b"NCHW":
        return change(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    raise NotImplementedError("The format NCHW_VECT_C is for quantized images on GPUs only")


def _image_sizes(c: ShapeContext) -> tuple[Any, ...] | None:
    """(batch, height, width, channels) or None; ValueError for another rank."""
    require_rank(c.shape(0), 4)
    sizes = c.shape(0).sizes
    if sizes is None or c.attr("data_format") == b"NHWC":
        return sizes
    return (sizes[0], sizes[2], sizes[3], sizes[1])


def _in_format(c: ShapeContext, n: Any, h: Any, w: Any, d: Any) -> TensorShape:
    return TensorShape([n, h, w, d] if c.attr("data_format") == b"NHWC" else [n, d, h, w])


def _divided(size: int | None, by: int) -> int | None:
    if size is None:
        return None
    if size % by:
        raise ValueError(f"Dimension size must be evenly divisible by {by} but is {size}")
    return size // by


def _times(size: int | None, by: int) -> int | None:
    return None if size is None else size * by


def _deeper_shape(c: ShapeContext) -> TensorShape:
    sizes, block = _image_sizes(c), c.attr("block_size")
    if sizes is None:
        return unknown_shape(4)
    n, h, w, d = sizes
    return _in_format(c, n, _divided(h, block), _divided(w, block), _times(d, block * block))


@op(
    f"SpaceToDepth(input: T) -> output: T where {_FORMAT}",
    shape=_deeper_shape,
)
def SpaceToDepth(input: Any, *, block_size: int, data_format: bytes, xp: Any) -> Any:
    """Blocks of pixels as channels."""

    def change(x: Any) -> Any:
        n, h, w, d = x.shape
        b = block_size
        if h % b or w % b:
            raise ValueError(
                f"Image width {w} and height {h} should be divisible by block_size: {b}"
            )
        blocks = x.reshape(n, h // b, b, w // b, b, d).transpose(0, 1, 3, 2, 4, 5)
        return blocks.reshape(n, h // b, w // b, b * b * d)

    return _channels_last(input, data_format, change)


def _wider_shape(c: ShapeContext) -> TensorShape:
    sizes, block = _image_sizes(c), c.attr("block_size")
    if sizes is None:
        return unknown_shape(4)
    n, h, w, d = sizes
    return _in_format(c, n, _times(h, block), _times(w, block), _divided(d, block * block))


@op(
    f"DepthToSpace(input: T) -> output: T where {_FORMAT}",
    shape=_wider_shape,
)
def DepthToSpace(input: Any, *, block_size: int, data_format: bytes, xp: Any) -> Any:
    """Channels as blocks of pixels."""

    def change(x: Any) -> Any:
        n, h, w, d = x.shape
        b = block_size
        if d % (b * b):
            raise ValueError(f"Input depth dimension {d} should be divisible by: {b * b}")
        blocks = x.reshape(n, h, w, b, b, d // (b * b)).transpose(0, 1, 3, 2, 4, 5)
        return blocks.reshape(n, h * b, w * b, d // (b * b))

    return _channels_last(input, data_format, change)


@SpaceToDepth.gradient
def _(op: Operation, grad: Any) -> Any:
    return depth_to_space(grad, op.attrs["block_size"], data_format=op.attrs["data_format"])


@DepthToSpace.gradient
def _(op: Operation, grad: Any) -> Any:
    return space_to_depth(grad, op.attrs["block_size"], data_format=op.attrs["data_format"])


def space_to_depth(
    input: Any, block_size: int, name: str | None = None, data_format: Any = "NHWC"
) -> Tensor:
    """Images with blocks of ``block_size × block_size`` pixels as channels."""
    result: Tensor = SpaceToDepth(input, block_size=block_size, data_format=data_format, name=name)
    return result


def depth_to_space(
    input: Any, block_size: int, name: str | None = None, data_format: Any = "NHWC"
) -> Tensor:
    """Images with channels laid out as blocks of ``block_size × block_size`` pixels."""
    result: Tensor = DepthToSpace(input, block_size=block_size, data_format=data_format, name=name)
    return result


# -- Patches -----------------------------------------------------------------------------


def _patch_axis(
    size: int, kernel: int, stride: int, rate: int, padding: bytes
) -> tuple[int, int, int]:
    """(number of patches, padding before, padding after) along an axis."""
    extent = (kernel - 1) * rate + 1
    if padding == b"VALID":
        count = (size - extent + stride) // stride
        if count < 0 or (size - extent < -1 and count <= 0):
            raise ValueError(
                f"Computed output size would be negative: {size - extent + 1} [input_size: {size}, "
                f"effective_filter_size: {extent}, stride: {stride}]"
            )
        return count, 0, 0
    count = -(-size // stride)
    missing = max((count - 1) * stride + extent - size, 0)
    return count, missing // 2, missing - missing // 2


def _patches(
    x: Any, kernels: list[int], strides: list[int], rates: list[int], padding: bytes, xp: Any
) -> Any:
    """Patches of ``[batch, spatial…, channels]``, laid out along the channels."""
    count = len(kernels)
    if x.ndim != count + 2:
        raise ValueError(f"input must be {count + 2}-dimensional: {shape_text(x.shape)}")
    axes = [
        _patch_axis(*numbers, padding)
        for numbers in zip(x.shape[1:-1], kernels, strides, rates, strict=True)
    ]
    x = padded(
        x, [(0, 0), *((before, after) for _, before, after in axes), (0, 0)], zero_of(x.dtype), xp
    )
    # Each spatial axis becomes two: which patch, and where in it.
    for i in reversed(range(count)):
        places = np.arange(axes[i][0])[:, None] * strides[i] + np.arange(kernels[i]) * rates[i]
        x = xp.take(x, places.astype(np.int32), axis=i + 1)
    order = [0, *(2 * i + 1 for i in range(count)), *(2 * i + 2 for i in range(count))]
    x = x.transpose([*order, 2 * count + 1])
    return x.reshape([x.shape[0], *(number for number, _, _ in axes), -1])


def _patches_shape(c: ShapeContext) -> TensorShape:
    kernels, strides = c.attr("ksizes"), c.attr("strides")
    rank = len(kernels)
    require_rank(c.shape(0), rank)
    rates = c.attrs.get("rates") or [1] * rank
    sizes = c.shape(0).sizes
    if sizes is None:
        return unknown_shape(rank)
    result: list[int | None] = [sizes[0]]
    for i in range(1, rank - 1):
        size = sizes[i]
        result.append(
            None
            if size is None
            else _patch_axis(size, kernels[i], strides[i], rates[i], c.attr("padding"))[0]
        )
    return TensorShape([*result, _times(sizes[-1], math.prod(kernels[1:-1]))])


def _middle(values: list[int], what: str) -> list[int]:
    if values[0] != 1 or values[-1] != 1:
        raise NotImplementedError(f"{what}: only spatial dimensions can be cut, got {values}")
    return list(values[1:-1])


@op(
    "ExtractImagePatches(images: T) -> patches: T where ksizes: list(int) >= 4; "
    "strides: list(int) >= 4; rates: list(int) >= 4; T: {bfloat16, float16, float32, float64, "
    "int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128, bool}; "
    'padding: {"SAME", "VALID"}',
    shape=_patches_shape,
    gradient=JAX_GRADIENT,
)
def ExtractImagePatches(
    images: Any,
    *,
    ksizes: list[int],
    strides: list[int],
    rates: list[int],
    padding: bytes,
    xp: Any,
) -> Any:
    """Patches of images along the channels."""
    return _patches(
        images,
        _middle(ksizes, "ksizes"),
        _middle(strides, "strides"),
        _middle(rates, "rates"),
        padding,
        xp,
    )


@op(
    "ExtractVolumePatches(input: T) -> patches: T where ksizes: list(int) >= 5; "
    "strides: list(int) >= 5; T: {float32, float64, int32, uint8, int16, int8, int64, bfloat16, "
    'uint16, float16, uint32, uint64}; padding: {"SAME", "VALID"}',
    shape=_patches_shape,
    gradient=JAX_GRADIENT,
)
def ExtractVolumePatches(
    input: Any, *, ksizes: list[int], strides: list[int], padding: bytes, xp: Any
) -> Any:
    """Patches of volumes along the channels."""
    kernels = _middle(ksizes, "ksizes")
    return _patches(input, kernels, _middle(strides, "strides"), [1] * len(kernels), padding, xp)


def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    sizes: Any = None,
) -> Tensor:
    """Patches of images, each laid out along the channels.

    Args:
      images: ``[batch, height, width, channels]``.
      ksizes: The size of a patch: ``[1, rows, columns, 1]``.
      strides: How far apart patches are.
      rates: How far apart the pixels of a patch are.
      padding: ``SAME`` or ``VALID``.
      name: Name of the op.
      sizes: The newer name of `ksizes`.
    """
    result: Tensor = ExtractImagePatches(
        images,
        ksizes=_one_of(sizes, ksizes, "sizes", "ksizes"),
        strides=strides,
        rates=rates,
        padding=padding,
        name=name,
    )
    return result


def extract_volume_patches(
    input: Any, ksizes: Any, strides: Any, padding: str, name: str | None = None
) -> Tensor:
    """Patches of volumes ``[batch, planes, rows, columns, channels]`` along the channels."""
    result: Tensor = ExtractVolumePatches(
        input, ksizes=ksizes, strides=strides, padding=padding, name=name
    )
    return result
