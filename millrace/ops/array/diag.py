"""Diagonals and bands of matrices.

Which element of a diagonal belongs where in a matrix depends on shapes only, so a kernel is
one gather with indices worked out by NumPy while tracing, and one select.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor, dtype_of
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.array.rules import require_rank_at_least, shape_text, zero_of
from millrace.ops.math import arithmetic

__all__ = [
    "diag",
    "diag_part",
    "eye",
    "matrix_band_part",
    "matrix_diag",
    "matrix_diag_part",
    "matrix_set_diag",
]

_DIAG_TYPES = "{bfloat16, float16, float32, float64, int32, int64, complex64, complex128}"
_ALIGN = '{"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"} = "RIGHT_LEFT"'


# -- Whole tensors as diagonals ----------------------------------------------------------


def _doubled_shape(c: ShapeContext) -> TensorShape:
    require_rank_at_least(c.shape(0), 1)
    return c.shape(0).concatenate(c.shape(0))


@op(f"Diag(diagonal: T) -> output: T where T: {_DIAG_TYPES}", shape=_doubled_shape)
def Diag(diagonal: Any, *, xp: Any) -> Any:
    """A tensor on the diagonal of one with twice as many dimensions."""
    if not diagonal.ndim:
        raise ValueError("Input must be at least rank 1, got 0")
    return xp.diag(diagonal.reshape(-1)).reshape(diagonal.shape * 2)


def _halved_shape(c: ShapeContext) -> TensorShape:
    sizes = c.shape(0).sizes
    if sizes is None:
        return unknown_shape()
    if not sizes or len(sizes) % 2:
        raise ValueError(f"Input must have even and non-zero rank, input rank is {len(sizes)}")
    half = len(sizes) // 2
    return TensorShape(sizes[:half]).merge_with(TensorShape(sizes[half:]))


@op(f"DiagPart(input: T) -> diagonal: T where T: {_DIAG_TYPES}", shape=_halved_shape)
def DiagPart(input: Any, *, xp: Any) -> Any:
    """The diagonal of a tensor whose shape is the same one twice."""
    half = input.ndim // 2
    if not input.ndim or input.ndim % 2:
        raise ValueError(
            f"The rank of the tensor should be even and positive, got shape "
            f"{shape_text(input.shape)}"
        )
    for i in range(half):
        if input.shape[i] != input.shape[half + i]:
            raise ValueError(
                f"Invalid shape {shape_text(input.shape)}: dimensions {i} and {half + i} do not "
                "match."
            )
    count = math.prod(input.shape[:half])
    return xp.diagonal(input.reshape(count, count)).reshape(input.shape[:half])


@Diag.gradient
def _(op: Operation, grad: Any) -> Any:
    return diag_part(grad)


@DiagPart.gradient
def _(op: Operation, grad: Any) -> Any:
    return diag(grad)


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """A tensor with `diagonal` on its diagonal and twice its dimensions, zero elsewhere."""
    result: Tensor = Diag(diagonal, name=name)
    return result


def diag_part(input: Any, name: str | None = None) -> Tensor:
    """The diagonal of a tensor of shape ``[D1, …, Dk, D1, …, Dk]``."""
    result: Tensor = DiagPart(input, name=name)
    return result


# -- Batches of matrices -----------------------------------------------------------------


class _Band(NamedTuple):
    """Diagonals `lower` to `upper` of a matrix; 0 is the main one, positive ones are above."""

    lower: int
    upper: int

    @property
    def width(self) -> int:
        """How many diagonals."""
        return self.upper - self.lower + 1

    def longest(self, rows: int, columns: int) -> int:
        """The length of the longest of the diagonals."""
        return min(rows + min(self.upper, 0), columns - max(self.lower, 0))


def _band(k: Any) -> _Band:
    if k.ndim > 1 or k.size not in (1, 2):
        raise ValueError(
            "diag_index must be a scalar or vector with one or two elements, received shape: "
            f"{shape_text(k.shape)}"
        )
    numbers_ = [int(v) for v in k.reshape(-1)]
    band = _Band(numbers_[0], numbers_[-1])
    if band.lower > band.upper:
        raise ValueError(
            "lower_diag_index must not be larger than upper_diag_index: "
            f"{band.lower} > {band.upper}"
        )
    return band


def _require_in_matrix(band: _Band, rows: int, columns: int) -> None:
    for name, index in (("lower", band.lower), ("upper", band.upper)):
        if index and not -rows < index < columns:
            raise ValueError(
                f"{name}_diag_index is out of bound: {index}. It must be between {-rows} and "
                f"{columns}"
            )


def _offset(diagonal: int, length: int, longest: int, align: bytes) -> int:
    """Where a shorter diagonal begins in a row as long as the longest."""
    above, below = align.split(b"_")
    left = (diagonal >= 0 and above == b"LEFT") or (diagonal <= 0 and below == b"LEFT")
    return 0 if left else longest - length


def _length(diagonal: int, rows: int, columns: int) -> int:
    return min(rows + min(0, diagonal), columns - max(0, diagonal))


def _places_in_matrix(
    rows: int, columns: int, band: _Band, longest: int, align: bytes
) -> tuple[np.ndarray, np.ndarray]:
    """For each element of a matrix: is it in the band, and its place among the diagonals."""
    inside = np.zeros((rows, columns), bool)
    source = np.zeros((rows, columns), np.int32)
    for diagonal in range(band.lower, band.upper + 1):
        length = _length(diagonal, rows, columns)
        if length <= 0:
            continue
        steps = np.arange(length)
        i, j = steps - min(0, diagonal), steps + max(0, diagonal)
        inside[i, j] = True
        start = (band.upper - diagonal) * longest + _offset(diagonal, length, longest, align)
        source[i, j] = start + steps
    return inside, source


def _places_in_diagonals(
    rows: int, columns: int, band: _Band, align: bytes
) -> tuple[np.ndarray, np.ndarray]:
    """For each element of the rows of diagonals: is there one, and its place in the matrix."""
    longest = band.longest(rows, columns)
    inside = np.zeros((band.width, longest), bool)
    source = np.zeros((band.width, longest), np.int32)
    for diagonal in range(band.lower, band.upper + 1):
        length = _length(diagonal, rows, columns)
        if length <= 0:
            continue
        steps = np.arange(length)
        where = _offset(diagonal, length, longest, align) + steps
        inside[band.upper - diagonal, where] = True
        source[band.upper - diagonal, where] = (steps - min(0, diagonal)) * columns + (
            steps + max(0, diagonal)
        )
    return inside, source


def _spread(
    diagonal: Any, k: Any, rows: int, columns: int, elsewhere: Any, align: bytes, xp: Any
) -> Any:
    """Matrices with the given diagonals, and `elsewhere` elsewhere."""
    band = _band(k)
    longest = diagonal.shape[-1]
    batch = diagonal.shape[: -1 if band.width == 1 else -2]
    inside, source = _places_in_matrix(rows, columns, band, longest, align)
    flat = diagonal.reshape(*batch, band.width * longest)
    if not flat.shape[-1]:
        return xp.broadcast_to(elsewhere, (*batch, rows, columns))
    return xp.where(inside, flat[..., source], elsewhere)


def _matrix_sizes(diagonal: Any, band: _Band, num_rows: int, num_cols: int) -> tuple[int, int]:
    if not diagonal.ndim:
        raise ValueError("diagonal must be at least 1-dim, received shape: []")
    if band.width > 1 and (diagonal.ndim < 2 or diagonal.shape[-2] != band.width):
        raise ValueError(
            "The number of diagonals provided in the input does not match the lower_diag_index "
            f"and upper_diag_index range: {shape_text(diagonal.shape)} for {band.width} diagonals"
        )
    longest = diagonal.shape[-1]
    return matrix_sizes(longest, band.lower, band.upper, num_rows, num_cols)


def matrix_sizes(
    longest: int, lower: int, upper: int, num_rows: int, num_cols: int
) -> tuple[int, int]:
    """The size of a matrix with the given diagonals; -1 stands for the smallest possible.

    Raises:
      ValueError: The diagonals do not fit.
    """
    least_rows, least_columns = longest - min(upper, 0), longest + max(lower, 0)
    if num_rows != -1 and num_rows < least_rows:
        raise ValueError("The number of rows is too small.")
    if num_cols != -1 and num_cols < least_columns:
        raise ValueError("The number of columns is too small.")
    if num_rows == -1 and num_cols == -1:
        num_rows = num_cols = max(least_rows, least_columns)
    elif num_rows == -1:
        num_rows = least_rows
    elif num_cols == -1:
        num_cols = least_columns
    if num_rows != least_rows and num_cols != least_columns:
        raise ValueError(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, "
            "and diagonal."
        )
    return num_rows, num_cols


_MAIN = np.zeros((), np.int32)


@op("MatrixDiag(diagonal: T) -> output: T", shape=lambda c: _square_shape(c.shape(0)))
def MatrixDiag(diagonal: Any, *, xp: Any) -> Any:
    """Square matrices with the given main diagonals."""
    rows, columns = _matrix_sizes(diagonal, _Band(0, 0), -1, -1)
    zero = zero_of(diagonal.dtype)
    return _spread(diagonal, _MAIN, rows, columns, zero, b"LEFT_LEFT", xp)


def _square_shape(diagonal: TensorShape) -> TensorShape:
    require_rank_at_least(diagonal, 1)
    if diagonal.sizes is None:
        return unknown_shape()
    return TensorShape([*diagonal.sizes, diagonal.sizes[-1]])


def _matrices_shape(c: ShapeContext) -> TensorShape:
    diagonal, k = c.shape("diagonal"), c.value("k")
    require_rank_at_least(diagonal, 1)
    if diagonal.sizes is None or k is None:
        return unknown_shape()
    band = _band(k)
    batch = diagonal.sizes[: -1 if band.width == 1 else -2]
    if band.width > 1:
        require_rank_at_least(diagonal, 2)
        if diagonal.sizes[-2] not in (None, band.width):
            raise ValueError(
                "The number of rows of `diagonal` doesn't match the number of diagonals implied "
                f"from `d_lower` and `d_upper`. num_diags = {band.width}, d_lower = {band.lower}, "
                f"d_upper = {band.upper}, input_shape[{len(diagonal.sizes) - 2}] = "
                f"{diagonal.sizes[-2]}"
            )
    rows, columns, longest = c.value("num_rows"), c.value("num_cols"), diagonal.sizes[-1]
    if rows is None or columns is None:
        return TensorShape([*batch, None, None])
    if longest is None:
        asked = [None if v == -1 else int(v) for v in (rows, columns)]
        return TensorShape([*batch, *asked])
    return TensorShape(
        [*batch, *matrix_sizes(longest, band.lower, band.upper, int(rows), int(columns))]
    )


@op(
    "MatrixDiagV2(diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T) -> "
    "output: T",
    shape=_matrices_shape,
    static=("k", "num_rows", "num_cols"),
)
def MatrixDiagV2(
    diagonal: Any, k: Any, num_rows: Any, num_cols: Any, padding_value: Any, *, xp: Any
) -> Any:
    """`MatrixDiagV3` with all diagonals aligned to the left."""
    rows, columns = _matrix_sizes(diagonal, _band(k), int(num_rows), int(num_cols))
    return _spread(diagonal, k, rows, columns, padding_value, b"LEFT_LEFT", xp)


@op(
    "MatrixDiagV3(diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T) -> "
    f"output: T where align: {_ALIGN}",
    shape=_matrices_shape,
    static=("k", "num_rows", "num_cols"),
)
def MatrixDiagV3(
    diagonal: Any,
    k: Any,
    num_rows: Any,
    num_cols: Any,
    padding_value: Any,
    *,
    align: bytes,
    xp: Any,
) -> Any:
    """Matrices with the given diagonals, and a value elsewhere."""
    rows, columns = _matrix_sizes(diagonal, _band(k), int(num_rows), int(num_cols))
    return _spread(diagonal, k, rows, columns, padding_value, align, xp)


@MatrixDiag.gradient
def _(op: Operation, grad: Any) -> Any:
    return matrix_diag_part(grad)


@MatrixDiagV2.gradient
def _(op: Operation, grad: Any) -> Any:
    return [matrix_diag_part(grad, k=op.inputs[1], align="LEFT_LEFT"), None, None, None, None]


@MatrixDiagV3.gradient
def _(op: Operation, grad: Any) -> Any:
    part = matrix_diag_part(grad, k=op.inputs[1], align=op.attrs["align"])
    return [part, None, None, None, None]


def _require_matrix(x: Any) -> None:
    if x.ndim < 2:
        raise ValueError(f"input must be at least 2-dim, received shape: {shape_text(x.shape)}")


def _diagonals(input: Any, k: Any, padding_value: Any, align: bytes, xp: Any) -> Any:
    _require_matrix(input)
    rows, columns = input.shape[-2:]
    band = _band(k)
    _require_in_matrix(band, rows, columns)
    inside, source = _places_in_diagonals(rows, columns, band, align)
    if band.width == 1:
        inside, source = inside[0], source[0]
    if not rows * columns:
        return xp.broadcast_to(padding_value, (*input.shape[:-2], *inside.shape))
    flat = input.reshape(*input.shape[:-2], rows * columns)
    taken = flat[..., source]
    return taken if inside.all() else xp.where(inside, taken, padding_value)


def _main_diagonal_shape(c: ShapeContext) -> TensorShape:
    require_rank_at_least(c.shape(0), 2)
    sizes = c.shape(0).sizes
    if sizes is None:
        return unknown_shape()
    last = None if sizes[-1] is None or sizes[-2] is None else min(sizes[-1], sizes[-2])
    return TensorShape([*sizes[:-2], last])


@op("MatrixDiagPart(input: T) -> diagonal: T", shape=_main_diagonal_shape)
def MatrixDiagPart(input: Any, *, xp: Any) -> Any:
    """The main diagonals of matrices."""
    return _diagonals(input, _MAIN, zero_of(input.dtype), b"LEFT_LEFT", xp)


def _diagonals_shape(c: ShapeContext) -> TensorShape:
    require_rank_at_least(c.shape(0), 2)
    sizes, k = c.shape(0).sizes, c.value("k")
    if sizes is None or k is None:
        return unknown_shape()
    band = _band(k)
    rows, columns = sizes[-2:]
    longest: int | None = None
    if rows is not None and columns is not None:
        _require_in_matrix(band, rows, columns)
        longest = band.longest(rows, columns)
    front = [*sizes[:-2]] + ([band.width] if band.width > 1 else [])
    return TensorShape([*front, longest])


@op(
    "MatrixDiagPartV2(input: T, k: int32, padding_value: T) -> diagonal: T",
    shape=_diagonals_shape,
    static=("k",),
)
def MatrixDiagPartV2(input: Any, k: Any, padding_value: Any, *, xp: Any) -> Any:
    """`MatrixDiagPartV3` with all diagonals aligned to the left."""
    return _diagonals(input, k, padding_value, b"LEFT_LEFT", xp)


@op(
    f"MatrixDiagPartV3(input: T, k: int32, padding_value: T) -> diagonal: T where align: {_ALIGN}",
    shape=_diagonals_shape,
    static=("k",),
)
def MatrixDiagPartV3(input: Any, k: Any, padding_value: Any, *, align: bytes, xp: Any) -> Any:
    """Some diagonals of matrices, as rows filled up to one length."""
    return _diagonals(input, k, padding_value, align, xp)


def _part_gradient(op: Operation, grad: Any, k: Any, align: Any) -> Tensor:
    matrix = op.inputs[0]
    sizes = matrix.shape.sizes[-2:] if matrix.shape.sizes is not None else (None,)
    if None not in sizes:
        return matrix_diag(grad, k=k, num_rows=sizes[0], num_cols=sizes[1], align=align)
    return matrix_set_diag(array_fill.zeros_like(matrix), grad, k=k, align=align)


@MatrixDiagPart.gradient
def _(op: Operation, grad: Any) -> Any:
    return _part_gradient(op, grad, 0, "LEFT_LEFT")


@MatrixDiagPartV2.gradient
def _(op: Operation, grad: Any) -> Any:
    return [_part_gradient(op, grad, op.inputs[1], "LEFT_LEFT"), None, None]


@MatrixDiagPartV3.gradient
def _(op: Operation, grad: Any) -> Any:
    return [_part_gradient(op, grad, op.inputs[1], op.attrs["align"]), None, None]


def _replaced(input: Any, diagonal: Any, k: Any, align: bytes, xp: Any) -> Any:
    _require_matrix(input)
    band = _band(k)
    rows, columns = input.shape[-2:]
    _require_in_matrix(band, rows, columns)
    middle = [band.width] if band.width > 1 else []
    expected = [*input.shape[:-2], *middle, band.longest(rows, columns)]
    if list(diagonal.shape) != expected:
        raise ValueError(
            "Either first dimensions of diagonal don't match input.shape[:-2], or "
            "diagonal.shape[:-1] is not equal to the longests diagonal in range "
            f"[lower_diag_index:upper_diag_index]. Input shape: {shape_text(input.shape)} Diagonal "
            f"shape: {shape_text(diagonal.shape)} Expected diagonal shape: {shape_text(expected)}"
        )
    return _spread(diagonal, k, rows, columns, input, align, xp)


def _replaced_shape(c: ShapeContext) -> TensorShape:
    shape, diagonal = c.shape(0), c.shape(1)
    require_rank_at_least(shape, 2)
    require_rank_at_least(diagonal, 1)
    k = c.value("k") if len(c.inputs) > 2 else _MAIN
    if shape.sizes is None:
        return shape
    if k is None or diagonal.sizes is None:
        return shape
    band = _band(k)
    rows, columns = shape.sizes[-2:]
    longest = None
    if rows is not None and columns is not None:
        _require_in_matrix(band, rows, columns)
        longest = band.longest(rows, columns)
    middle = [band.width] if band.width > 1 else []
    merged = diagonal.merge_with(TensorShape([*shape.sizes[:-2], *middle, longest])).sizes
    assert merged is not None
    return TensorShape([*merged[: len(shape.sizes) - 2], rows, columns])


@op("MatrixSetDiag(input: T, diagonal: T) -> output: T", shape=_replaced_shape)
def MatrixSetDiag(input: Any, diagonal: Any, *, xp: Any) -> Any:
    """Matrices with another main diagonal."""
    return _replaced(input, diagonal, _MAIN, b"LEFT_LEFT", xp)


@op(
    "MatrixSetDiagV2(input: T, diagonal: T, k: int32) -> output: T",
    shape=_replaced_shape,
    static=("k",),
)
def MatrixSetDiagV2(input: Any, diagonal: Any, k: Any, *, xp: Any) -> Any:
    """`MatrixSetDiagV3` with all diagonals aligned to the left."""
    return _replaced(input, diagonal, k, b"LEFT_LEFT", xp)


@op(
    f"MatrixSetDiagV3(input: T, diagonal: T, k: int32) -> output: T where align: {_ALIGN}",
    shape=_replaced_shape,
    static=("k",),
)
def MatrixSetDiagV3(input: Any, diagonal: Any, k: Any, *, align: bytes, xp: Any) -> Any:
    """Matrices with other diagonals."""
    return _replaced(input, diagonal, k, align, xp)


def _set_gradient(op: Operation, grad: Any, k: Any, align: Any) -> list[Any]:
    diagonal = op.inputs[1]
    if diagonal.shape.is_fully_defined():
        zeros = array_fill.zeros(diagonal.shape, grad.dtype.base_dtype)
    else:
        zeros = array_fill.zeros(array_shape.shape(diagonal), grad.dtype.base_dtype)
    return [
        matrix_set_diag(grad, zeros, k=k, align=align),
        matrix_diag_part(grad, k=k, align=align),
    ]


@MatrixSetDiag.gradient
def _(op: Operation, grad: Any) -> Any:
    return _set_gradient(op, grad, 0, "LEFT_LEFT")


@MatrixSetDiagV2.gradient
def _(op: Operation, grad: Any) -> Any:
    return [*_set_gradient(op, grad, op.inputs[2], "LEFT_LEFT"), None]


@MatrixSetDiagV3.gradient
def _(op: Operation, grad: Any) -> Any:
    return [*_set_gradient(op, grad, op.inputs[2], op.attrs["align"]), None]


def _value_of_type(value: Any, like: Any) -> Any:
    """A padding value that suits bools too."""
    is_bool = dtype_of(like) == dtypes.bool or getattr(like, "dtype", None) == np.bool_
    return bool(value) if is_bool and isinstance(value, numbers.Number) else value


def matrix_diag(
    diagonal: Any,
    name: str | None = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: Any = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with the given diagonals.

    Args:
      diagonal: ``[…, M]`` for one diagonal, ``[…, D, M]`` for D of them.
      name: Name of the op.
      k: Which diagonal, or a pair (lowest, highest); 0 is the main one.
      num_rows: Rows of a matrix; -1 for the least that will do.
      num_cols: Columns of a matrix; -1 for the least that will do.
      padding_value: What stands elsewhere.
      align: Where shorter diagonals stand in their row: above and below the main one.
    """
    result: Tensor = MatrixDiagV3(
        diagonal,
        k,
        num_rows,
        num_cols,
        _value_of_type(padding_value, diagonal),
        align=align,
        name=name,
    )
    return result


def matrix_diag_part(
    input: Any,
    name: str | None = "diag_part",
    k: Any = 0,
    padding_value: Any = 0,
    align: Any = "RIGHT_LEFT",
) -> Tensor:
    """Diagonals of matrices; arguments as in `matrix_diag`."""
    result: Tensor = MatrixDiagPartV3(
        input, k, _value_of_type(padding_value, input), align=align, name=name
    )
    return result


def matrix_set_diag(
    input: Any,
    diagonal: Any,
    name: str | None = "set_diag",
    k: Any = 0,
    align: Any = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with other diagonals; arguments as in `matrix_diag`."""
    result: Tensor = MatrixSetDiagV3(input, diagonal, k, align=align, name=name)
    return result


# -- Bands -------------------------------------------------------------------------------


def _banded(input: Any, num_lower: Any, num_upper: Any, xp: Any, check: Any) -> Any:
    _require_matrix(input)
    rows, columns = input.shape[-2:]
    for name, value, limit, what in (
        ("num_lower", num_lower, rows, "rows"),
        ("num_upper", num_upper, columns, "columns"),
    ):
        check(
            value <= limit,
            lambda found, name=name, limit=limit, what=what: (
                f"{name} must be negative or less or equal to number of {what} ({limit}) got: "
                f"{int(found)}"
            ),
            value,
        )
    distance = np.arange(rows)[:, None] - np.arange(columns)
    inside = ((num_lower < 0) | (distance <= num_lower)) & (
        (num_upper < 0) | (-distance <= num_upper)
    )
    return xp.where(inside, input, zero_of(input.dtype))


def _band_shape(c: ShapeContext) -> TensorShape:
    require_rank_at_least(c.shape(0), 2)
    return c.shape(0)


@op(
    "MatrixBandPart(input: T, num_lower: Tindex, num_upper: Tindex) -> band: T "
    "where Tindex: index = int64",
    shape=_band_shape,
)
def MatrixBandPart(input: Any, num_lower: Any, num_upper: Any, *, xp: Any, check: Any) -> Any:
    """Matrices with zeros outside of a band around the main diagonal."""
    return _banded(input, num_lower, num_upper, xp, check)


@MatrixBandPart.gradient
def _(op: Operation, grad: Any) -> Any:
    return [matrix_band_part(grad, op.inputs[1], op.inputs[2]), None, None]


def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """Matrices with zeros outside of a band around the main diagonal.

    Args:
      input: ``[…, M, N]``.
      num_lower: How many diagonals below the main one are kept; all if negative.
      num_upper: How many above it.
      name: Name of the op.
    """
    result: Tensor = MatrixBandPart(input, num_lower, num_upper, name=name)
    return result


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Identity matrices.

    Args:
      num_rows: Rows: a number or a scalar tensor.
      num_columns: Columns; as many as rows when None.
      batch_shape: The shape of the batch of matrices, in front.
      dtype: The type.
      name: Name of the scope.

    Raises:
      TypeError: A size is no integer.
    """
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        is_square = num_columns is None
        batch = [] if batch_shape is None else batch_shape
        columns = num_rows if num_columns is None else num_columns
        if isinstance(num_rows, Tensor) or isinstance(columns, Tensor):
            size: Any = arithmetic.minimum(num_rows, columns)
        else:
            for label, value in (("num_rows", num_rows), ("num_columns", columns)):
                if not isinstance(value, numbers.Integral):
                    raise TypeError(
                        f"Argument `{label}` for `tf.eye` must be a Python int or a scalar tensor, "
                        f"got {value!r}"
                    )
            is_square = num_rows == columns
            size = min(int(num_rows), int(columns))
        if isinstance(batch, Tensor) or isinstance(size, Tensor):
            front = convert_to_tensor(batch, dtypes.int32, name="shape")
            ones_shape: Any = array_join.concat([front, [size]], 0)
            shape: Any = None if is_square else array_join.concat([front, [num_rows, columns]], 0)
        else:
            sizes = [int(s) for s in TensorShape(batch).as_list() if s is not None]
            ones_shape, shape = [*sizes, size], [*sizes, num_rows, columns]
        ones = array_fill.ones(ones_shape, dtype)
        if is_square:
            return matrix_diag(ones)
        return matrix_set_diag(array_fill.zeros(shape, dtype), ones)


# -- The names of the first releases -----------------------------------------------------


@op(
    "BatchMatrixBandPart(input: T, num_lower: int64, num_upper: int64) -> band: T",
    shape=_band_shape,
)
def BatchMatrixBandPart(input: Any, num_lower: Any, num_upper: Any, *, xp: Any, check: Any) -> Any:
    """The old name of `MatrixBandPart`."""
    return _banded(input, num_lower, num_upper, xp, check)


@op("BatchMatrixDiag(diagonal: T) -> output: T", shape=lambda c: _square_shape(c.shape(0)))
def BatchMatrixDiag(diagonal: Any, *, xp: Any) -> Any:
    """The old name of `MatrixDiag`."""
    return MatrixDiag.kernel(diagonal, xp=xp)


@op("BatchMatrixDiagPart(input: T) -> diagonal: T", shape=_main_diagonal_shape)
def BatchMatrixDiagPart(input: Any, *, xp: Any) -> Any:
    """The old name of `MatrixDiagPart`."""
    return MatrixDiagPart.kernel(input, xp=xp)


@op("BatchMatrixSetDiag(input: T, diagonal: T) -> output: T", shape=_replaced_shape)
def BatchMatrixSetDiag(input: Any, diagonal: Any, *, xp: Any) -> Any:
    """The old name of `MatrixSetDiag`."""
    return MatrixSetDiag.kernel(input, diagonal, xp=xp)


BatchMatrixBandPart.gradient(MatrixBandPart.gradient_rule)
BatchMatrixDiag.gradient(MatrixDiag.gradient_rule)
BatchMatrixDiagPart.gradient(MatrixDiagPart.gradient_rule)
BatchMatrixSetDiag.gradient(MatrixSetDiag.gradient_rule)
