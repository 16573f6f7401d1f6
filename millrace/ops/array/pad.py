"""Padding a tensor at its edges: with a constant, or with a mirror image of itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph import constant_value
from millrace.graph.convert import convert_to_tensor, is_tensor_like
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.array.rules import padded, require_rank, shape_text, zero_of

__all__ = ["pad"]


def _rank_of_padded(c: ShapeContext) -> int | None:
    """The rank that input and paddings tell; ValueError if they differ."""
    shape, paddings = c.shape(0), c.shape(1)
    require_rank(paddings, 2)
    if paddings.sizes is None:
        return shape.ndims
    if paddings.sizes[1] not in (None, 2):
        raise ValueError(f"Dimension must be 2 but is {paddings.sizes[1]}")
    if None not in (shape.ndims, paddings.sizes[0]) and shape.ndims != paddings.sizes[0]:
        raise ValueError(f"Shape must be rank {paddings.sizes[0]} but is rank {shape.ndims}")
    return shape.ndims if shape.ndims is not None else paddings.sizes[0]


def _changed_by_paddings(c: ShapeContext, sign: int) -> TensorShape:
    rank = _rank_of_padded(c)
    if rank is None:
        return unknown_shape()
    sizes = c.shape(0).sizes or (None,) * rank
    rows = _known_rows(c.tensor(1))
    if rows is None:
        return unknown_shape(rank)
    result: list[int | None] = []
    for size, row in zip(sizes, rows, strict=True):
        if row is None or size is None:
            result.append(None)
            continue
        if min(row) < 0:
            raise ValueError(f"Paddings must be non-negative: {row[0]} {row[1]}")
        if size + sign * sum(row) < 0:
            raise ValueError(f"Paddings {row[0]} and {row[1]} are larger than the size {size}")
        result.append(size + sign * sum(row))
    return TensorShape(result)


def _known_rows(paddings: Tensor) -> list[list[int] | None] | None:
    """The rows of a paddings matrix; None for rows that are not known."""
    value = constant_value.constant_value(paddings)
    if value is not None:
        rows: list[list[int] | None] = [[int(v) for v in row] for row in value]
        return rows
    if paddings.op.type == "Pack" and paddings.op.attrs["axis"] == 0:
        parts = [constant_value.constant_value(t) for t in paddings.op.inputs]
        return [None if p is None else [int(v) for v in p] for p in parts]
    return None


def _padded_shape(c: ShapeContext) -> TensorShape:
    return _changed_by_paddings(c, 1)


def _rows(paddings: Any, shape: tuple[int, ...], separator: str = " ") -> list[tuple[int, int]]:
    if paddings.ndim != 2 or paddings.shape[1] != 2:
        raise ValueError(f"paddings must be a matrix with 2 columns: {shape_text(paddings.shape)}")
    if paddings.shape[0] != len(shape):
        raise ValueError(
            "The first dimension of paddings must be the rank of inputs"
            f"{shape_text(paddings.shape)}{separator}{shape_text(shape)}"
        )
    rows = [(int(before), int(after)) for before, after in paddings]
    for before, after in rows:
        if before < 0 or after < 0:
            raise ValueError(f"Paddings must be non-negative: {before} {after}")
    return rows


@op(
    "Pad(input: T, paddings: Tpaddings) -> output: T where Tpaddings: index = int32",
    shape=_padded_shape,
    static=("paddings",),
)
def Pad(input: Any, paddings: Any, *, xp: Any) -> Any:
    """The input with zeros around it."""
    return padded(input, _rows(paddings, input.shape), zero_of(input.dtype), xp)


@op(
    "PadV2(input: T, paddings: Tpaddings, constant_values: T) -> output: T "
    "where Tpaddings: index = int32",
    shape=_padded_shape,
    static=("paddings",),
)
def PadV2(input: Any, paddings: Any, constant_values: Any, *, xp: Any) -> Any:
    """The input with a value around it."""
    if constant_values.ndim:
        raise ValueError(
            f"constant_values must be a scalar. Found: {shape_text(constant_values.shape)}"
        )
    value = constant_values.item() if xp is np else constant_values
    return padded(input, _rows(paddings, input.shape), value, xp)


def _inner_part(op: Operation, grad: Any) -> Tensor:
    source, paddings = op.inputs[:2]
    first_column = array_slicing.slice(
        paddings, [0, 0], array_join.stack([array_shape.rank(source), 1])
    )
    begin = array_shape.reshape(first_column, [-1])
    size = array_shape.shape(source, out_type=begin.dtype.base_dtype)
    return array_slicing.slice(grad, begin, size)


@Pad.gradient
def _(op: Operation, grad: Any) -> Any:
    return [_inner_part(op, grad), None]


@PadV2.gradient
def _(op: Operation, grad: Any) -> Any:
    return [_inner_part(op, grad), None, None]


def _mirror_rows(paddings: Any, shape: tuple[int, ...], offset: int) -> list[tuple[int, int]]:
    """The paddings, checked for how much there is to mirror.

    Args:
      paddings: The paddings.
      shape: The shape of what is padded.
      offset: 1 where the edge itself is not repeated (REFLECT), else 0.
    """
    rows = _rows(paddings, shape, ", ")
    for size, (before, after) in zip(shape, rows, strict=True):
        if max(before, after) > size - offset:
            rule, verb = (
                ("less than", "not less than")
                if offset
                else (
                    "no greater than",
                    "greater than",
                )
            )
            raise ValueError(
                f"paddings must be {rule} the dimension size: {before}, {after} {verb} {size}"
            )
    return rows


@op(
    "MirrorPad(input: T, paddings: Tpaddings) -> output: T "
    'where Tpaddings: index = int32; mode: {"REFLECT", "SYMMETRIC"}',
    shape=_padded_shape,
    static=("paddings",),
)
def MirrorPad(input: Any, paddings: Any, *, mode: bytes, xp: Any) -> Any:
    """The input with its mirror image around it."""
    offset = int(mode == b"REFLECT")
    x = input
    for axis, (before, after) in enumerate(_mirror_rows(paddings, x.shape, offset)):
        size = x.shape[axis]
        parts = [x]
        if before:
            parts.insert(0, xp.flip(_along(x, axis, offset, offset + before), axis))
        if after:
            end = size - offset
            parts.append(xp.flip(_along(x, axis, end - after, end), axis))
        x = xp.concatenate(parts, axis) if len(parts) > 1 else x
    return x


def _along(x: Any, axis: int, start: int, stop: int) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]


@MirrorPad.gradient
def _(op: Operation, grad: Any) -> Any:
    return [MirrorPadGrad(grad, op.inputs[1], mode=op.attrs["mode"]), None]


def _unpadded_shape(c: ShapeContext) -> TensorShape:
    return _changed_by_paddings(c, -1)


@op(
    "MirrorPadGrad(input: T, paddings: Tpaddings) -> output: T "
    'where Tpaddings: index = int32; mode: {"REFLECT", "SYMMETRIC"}',
    shape=_unpadded_shape,
    static=("paddings",),
)
def MirrorPadGrad(input: Any, paddings: Any, *, mode: bytes, xp: Any) -> Any:
    """The mirror image folded back: each element and its copies are added up."""
    offset = int(mode == b"REFLECT")
    rows = _rows(paddings, input.shape)
    inner = tuple(n - sum(row) for n, row in zip(input.shape, rows, strict=True))
    _mirror_rows(paddings, inner, offset)
    x = input
    for axis, (before, after) in enumerate(rows):
        size = inner[axis]
        result = _along(x, axis, before, before + size)
        keep = [(0, 0)] * x.ndim
        if before:
            keep[axis] = (offset, size - offset - before)
            edge = xp.flip(_along(x, axis, 0, before), axis)
            result = result + padded(edge, keep, zero_of(x.dtype), xp)
        if after:
            keep[axis] = (size - offset - after, offset)
            edge = xp.flip(_along(x, axis, before + size, x.shape[axis]), axis)
            result = result + padded(edge, keep, zero_of(x.dtype), xp)
        x = result
    return x


@MirrorPadGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    return [MirrorPad(grad, op.inputs[1], mode=op.attrs["mode"]), None]


def pad(
    tensor: Any,
    paddings: Any,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: Any = 0,
) -> Tensor:
    """`tensor` with something around it.

    Args:
      tensor: The tensor.
      paddings: A matrix: how much before and after, for each dimension.
      mode: ``CONSTANT``, ``REFLECT`` (a mirror image without the edge itself) or
        ``SYMMETRIC`` (with the edge), in any case.
      name: Name of the op.
      constant_values: What to pad with in mode CONSTANT.

    Raises:
      ValueError: Another mode.
    """
    kind = mode.upper()
    if kind == "CONSTANT":
        if _is_plain_zero(constant_values):
            result: Tensor = Pad(tensor, paddings, name=name)
        else:
            result = PadV2(tensor, paddings, constant_values, name=name)
    elif kind in ("REFLECT", "SYMMETRIC"):
        result = MirrorPad(tensor, paddings, mode=kind, name=name)
    else:
        raise ValueError(
            'Value of argument `mode` expected to be one of "CONSTANT", "REFLECT", or '
            f'"SYMMETRIC". Received `mode` = {mode}'
        )
    return result


def _is_plain_zero(value: Any) -> bool:
    return not is_tensor_like(value) and np.ndim(value) == 0 and value == np.zeros_like(value)


def mirror_pad(input: Any, paddings: Any, mode: str, name: str | None = None) -> Tensor:
    """`pad` in mode REFLECT or SYMMETRIC."""
    result: Tensor = MirrorPad(convert_to_tensor(input), paddings, mode=mode, name=name)
    return result


def pad_v2(input: Any, paddings: Any, constant_values: Any, name: str | None = None) -> Tensor:
    """`pad` with a value that may be a tensor."""
    result: Tensor = PadV2(input, paddings, constant_values, name=name)
    return result
