"""Parts of a tensor by position: slice and strided_slice.

A position that is a tensor (``x[i]``) stays dynamic in the compiled program as long as it
does not decide a shape; a range whose ends are tensors (``x[i:j]``) does, and joins the
compile key. Which inputs of a node must be static is read off the graph: a Pack of numbers
and tensors, which indexing builds, is known in its numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from millrace.compiler.xla import jnp, lax
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph import constant_value
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import ShapeContext, merge_shapes, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import pad as array_pad
from millrace.ops.array import shape as array_shape
from millrace.ops.array.rules import require_rank, shape_text, zero_of

__all__ = ["slice", "strided_slice"]

_range = slice  # the builtin: `slice` below is TensorFlow's


# -- What is known of an index vector ----------------------------------------------------


def _constant_entries(edge: Any) -> list[int | None] | None:
    """The entries of an integer vector in the runtime's graph, None for those not constant.

    Args:
      edge: Where the vector comes from.

    Returns:
      None if not even the number of entries is known.
    """
    node = edge.node
    if node.type == "Const":
        return [int(v) for v in np.ravel(node.attrs["value"])]
    if node.type == "Pack" and node.attrs["axis"] == 0:
        return [
            int(e.node.attrs["value"].item())
            if e.node.type == "Const" and e.node.attrs["value"].size == 1
            else None
            for e in node.inputs
        ]
    return None


def _entries(value: Any, position: int, node: Any) -> list[Any]:
    """The entries of an index vector in a kernel: numbers where known, else scalars in XLA."""
    if isinstance(value, np.ndarray):
        return [int(v) for v in np.ravel(value)]
    known = _constant_entries(node.inputs[position]) or [None] * value.shape[0]
    return [value[i] if number is None else number for i, number in enumerate(known)]


# -- slice -------------------------------------------------------------------------------


def _slice_statics(node: Any) -> list[str]:
    """`size` always; `begin` where a size is -1 (to the end) and its begin is not constant."""
    sizes = _constant_entries(node.inputs[2])
    begins = _constant_entries(node.inputs[1])
    if sizes is not None and None not in sizes:
        if -1 not in sizes:
            return ["size"]
        if begins is not None and all(
            b is not None for b, s in zip(begins, sizes, strict=False) if s == -1
        ):
            return ["size"]
    return ["begin", "size"]


def _slice_shape(c: ShapeContext) -> TensorShape:
    source, begin, size = c.shape(0), c.value(1), c.value_as_shape(2)
    require_rank(c.shape(1), 1)
    require_rank(c.shape(2), 1)
    count = merge_shapes(c.shape(1), c.shape(2)).sizes
    given = None if count is None else count[0]
    if None not in (given, source.ndims) and source.ndims != given:
        raise ValueError(
            f"Slicing needs a begin and a size for each dimension: {source.ndims}, not {given}"
        )
    exact = c.value(2)
    if exact is None:
        # Entries of `size` that are not constant may be -1, which `value_as_shape` does not tell.
        return unknown_shape(source.ndims) if size.sizes is None else size
    result: list[int | None] = []
    for i, length in enumerate(exact.tolist()):
        whole = None if source.sizes is None else source.sizes[i]
        if length == -1:
            if whole is None or begin is None:
                result.append(None)
                continue
            length = whole - int(begin[i])
            if length < 0:
                raise ValueError(f"begin[{i}] is {begin[i]}, past the end: {whole}")
        if length < -1:
            raise ValueError(f"Expected size[{i}] to be -1 or more, but got {length}")
        result.append(length)
    return TensorShape(result)


@op(
    "Slice(input: T, begin: Index, size: Index) -> output: T where Index: index",
    shape=_slice_shape,
    static=_slice_statics,
)
def Slice(input: Any, begin: Any, size: Any, *, xp: Any, node: Any, check: Any) -> Any:
    """A box of the input."""
    if begin.shape != (input.ndim,) or size.shape != (input.ndim,):
        raise ValueError(
            "Expected begin and size arguments to be 1-D tensors of size "
            f"{input.ndim}, but got shapes {shape_text(begin.shape)} and {shape_text(size.shape)} "
            "instead."
        )
    starts = _entries(begin, 1, node)
    lengths = []
    for i, (start, length) in enumerate(zip(starts, size.tolist(), strict=True)):
        whole = input.shape[i]
        known = isinstance(start, int)
        if known and not 0 <= start <= whole:
            raise ValueError(f"Expected begin[{i}] in [0, {whole}], but got {start}")
        if length == -1:
            length = whole - start
        if not 0 <= length <= whole - (start if known else 0):
            room = whole - (start if known else 0)
            raise ValueError(f"Expected size[{i}] in [0, {room}], but got {length}")
        lengths.append(int(length))
        if not known:
            check(
                (start >= 0) & (start <= whole - length),
                _complaint_about_begin(i, whole, int(length)),
                start,
            )
    return _box(input, starts, lengths)


@Slice.on_host
def _(node: Any, known: Any) -> Any:
    if known[1] is not None and known[2] is not None and known[2].ndim == 1:
        box = list(zip(known[1].ravel().tolist(), known[2].tolist(), strict=False))

        def known_box(x: Any, _begin: Any, _size: Any) -> Any:
            return _checked_box(x, box)

        return known_box

    def slice_(x: Any, begin: Any, size: Any) -> Any:
        return _checked_box(x, list(zip(begin.tolist(), size.tolist(), strict=True)))

    return slice_


def _checked_box(x: Any, box: list[tuple[int, int]]) -> Any:
    """What begins and sizes of all dimensions take out of a NumPy array."""
    if len(box) != x.ndim:
        raise ValueError("Slice: a begin and a size for each dimension are needed")
    ranges = []
    for (start, length), whole in zip(box, x.shape, strict=True):
        stop = whole if length == -1 else start + length
        if not 0 <= start <= stop <= whole:
            raise ValueError("Slice: out of range")
        ranges.append(_range(start, stop))
    return x[tuple(ranges)]


def _complaint_about_begin(i: int, whole: int, length: int) -> Callable[[Any], str]:
    def complaint(start: Any) -> str:
        if 0 <= start <= whole:
            return f"Expected size[{i}] in [0, {whole - int(start)}], but got {length}"
        return f"Expected begin[{i}] in [0, {whole}], but got {int(start)}"

    return complaint


def _box(x: Any, starts: list[Any], lengths: list[int]) -> Any:
    """``x[start : start + length, …]`` for starts that may be scalars in XLA."""
    if all(isinstance(start, int) for start in starts):
        return x[tuple(_range(s, s + n) for s, n in zip(starts, lengths, strict=True))]
    x = jnp.asarray(x)
    # Known starts first: what the dynamic slice reads is then as small as can be.
    x = x[
        tuple(
            _range(s, s + n) if isinstance(s, int) else _range(None)
            for s, n in zip(starts, lengths, strict=True)
        )
    ]
    return lax.dynamic_slice(x, _dynamic_starts(starts), lengths)


def _dynamic_starts(starts: list[Any]) -> list[Any]:
    """Zero for starts that were dealt with, all of one type, as XLA wants it."""
    kind = next(s.dtype for s in starts if not isinstance(s, int))
    return [np.zeros((), kind) if isinstance(s, int) else s.astype(kind) for s in starts]


@Slice.on_host
def _(node: Any, known: Any) -> Any:
    whole = functools.partial(Slice.kernel, xp=np, node=node, check=constant_value.check_now)

    def box(input: Any, begin: Any, size: Any) -> Any:
        starts, lengths = begin.tolist(), size.tolist()
        if type(starts) is not list or type(lengths) is not list:
            return whole(input, begin, size)
        if not len(starts) == len(lengths) == input.ndim:
            return whole(input, begin, size)
        parts = []
        for start, length, count in zip(starts, lengths, input.shape, strict=True):
            end = count if length == -1 else start + length
            if not 0 <= start <= end <= count:
                return whole(input, begin, size)
            parts.append(_range(start, end))
        return input[tuple(parts)]

    return box


@Slice.gradient
def _(op: Operation, grad: Any) -> Any:
    source, begin, _ = op.inputs
    index = begin.dtype.base_dtype
    if constant_value.constant_value(begin) is None:
        # TensorFlow pads here too, but padding by amounts that change would recompile.
        shape = array_shape.shape(source, out_type=index)
        return [SliceGrad(shape, begin, grad), None, None]
    rank = array_shape.rank(source)
    before = array_shape.reshape(begin, array_join.stack([rank, 1]))
    whole: Any = array_shape.shape(source, out_type=index)
    part = array_shape.shape(op.outputs[0], out_type=index)
    after = array_shape.reshape(whole - part - begin, array_join.stack([rank, 1]))
    return [array_pad.pad(grad, array_join.concat([before, after], 1)), None, None]


def _first_as_shape(c: ShapeContext) -> TensorShape:
    return c.value_as_shape(0)


@op(
    "SliceGrad(shape: Index, begin: Index, dy: T) -> output: T where Index: index",
    shape=_first_as_shape,
    static=("shape",),
)
def SliceGrad(shape: Any, begin: Any, dy: Any, *, xp: Any) -> Any:
    """Zeros of the given shape, with `dy` from `begin` on. Not one of TensorFlow's op types."""
    if xp is np:
        result = np.zeros(shape, dy.dtype)
        result[tuple(_range(b, b + n) for b, n in zip(begin, dy.shape, strict=True))] = dy
        return result
    zeros = jnp.zeros([int(s) for s in shape], dy.dtype)
    return lax.dynamic_update_slice(zeros, jnp.asarray(dy), [begin[i] for i in range(dy.ndim)])


@SliceGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    begin, dy = op.inputs[1:]
    size = array_shape.shape(dy, out_type=begin.dtype.base_dtype)
    return [None, None, slice(grad, begin, size)]


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """The box of `input_` that begins at `begin` and has the given size.

    Args:
      input_: The tensor.
      begin: One position for each dimension.
      size: One length for each dimension; -1 means up to the end.
      name: Name of the op.
    """
    result: Tensor = Slice(input_, begin, size, name=name)
    return result


# -- strided_slice -----------------------------------------------------------------------


class Masks(NamedTuple):
    """The five bit masks of a strided slice; bit i is about entry i of its vectors."""

    begin: int
    end: int
    ellipsis: int
    new_axis: int
    shrink_axis: int


class _Dimension(NamedTuple):
    """What happens to one dimension of the input.

    Attributes:
      entry: The entry of begin, end and strides that speaks of it; None under an ellipsis.
      shrinks: Whether one position is taken, and the dimension goes.
    """

    entry: int | None
    shrinks: bool


class _Layout(NamedTuple):
    """A slice spec applied to a rank: input dimensions, and the result's in terms of them.

    Attributes:
      dimensions: One for each dimension of the input.
      result: The input dimension behind each dimension of the result; None for a new axis.
    """

    dimensions: list[_Dimension]
    result: list[int | None]


def _bit(mask: int, i: int) -> bool:
    return bool(mask >> i & 1)


def _layout(count: int, rank: int, masks: Masks) -> _Layout:
    """Lines up the `count` entries of a slice spec with the dimensions of the input.

    Raises:
      ValueError: There are two ellipses, or more entries than dimensions.
    """
    ellipses = [i for i in range(count) if _bit(masks.ellipsis, i)]
    if len(ellipses) > 1:
        raise ValueError("Multiple ellipses in slice spec not allowed")
    used = sum(
        1
        for i in range(count)
        if not _bit(masks.ellipsis, i)
        # A new axis that is also an ellipsis is an ellipsis.
        and not _bit(masks.new_axis, i)
    )
    if used > rank:
        raise ValueError(f"Index out of range using input dim {rank}; input has only {rank} dims")
    dimensions: list[_Dimension] = []
    result: list[int | None] = []

    def take_whole(number: int) -> None:
        for _ in range(number):
            result.append(len(dimensions))
            dimensions.append(_Dimension(None, False))

    for i in range(count):
        if _bit(masks.ellipsis, i):
            take_whole(rank - used)
        elif _bit(masks.new_axis, i):
            result.append(None)
        else:
            shrinks = _bit(masks.shrink_axis, i)
            if not shrinks:
                result.append(len(dimensions))
            dimensions.append(_Dimension(i, shrinks))
    take_whole(rank - len(dimensions))
    return _Layout(dimensions, result)


def _window(
    entry: int | None, begin: Any, end: Any, stride: int, size: int, masks: Masks
) -> tuple[int, int, int]:
    """(first position, number of positions, stride) of a range along a dimension."""
    if entry is None:
        return 0, size, 1
    bounds = _range(
        None if _bit(masks.begin, entry) else begin,
        None if _bit(masks.end, entry) else end,
        stride,
    )
    first, last, step = bounds.indices(size)
    return first, len(range(first, last, step)), step


def _check_stride(i: int, stride: int, shrinks: bool) -> None:
    if stride == 0:
        raise ValueError(f"strides[{i}] must be non-zero")
    if shrinks and stride <= 0:
        raise ValueError("only stride 1 allowed on non-range indexing.")


def _out_of_bounds(index: Any, dimension: int) -> str:
    return f"slice index {int(index)} of dimension {dimension} out of bounds."


def _strided_shape(c: ShapeContext) -> TensorShape:
    masks = _masks_of(c.attrs)
    vectors = [c.shape(i) for i in (1, 2, 3)]
    for vector in vectors:
        require_rank(vector, 1)
    merged = merge_shapes(merge_shapes(vectors[0], vectors[1]), vectors[2])
    count = merged.sizes[0] if merged.sizes is not None else None
    strides = c.value(3)
    if strides is not None and count is not None:
        for i, stride in enumerate(strides.tolist()):
            if not _bit(masks.ellipsis | masks.new_axis, i):
                _check_stride(i, stride, _bit(masks.shrink_axis, i))
    sizes = c.shape(0).sizes
    if sizes is None or count is None:
        if count is not None:
            _layout(count, count, masks)  # Any rank would do: what is wrong with the masks shows.
        return unknown_shape()
    layout = _layout(count, len(sizes), masks)
    begins, ends = (_known_entries(c, which, count) for which in (1, 2))
    steps = [None] * count if strides is None else strides.tolist()
    lengths: list[int | None] = []
    for i, (dimension, size) in enumerate(zip(layout.dimensions, sizes, strict=True)):
        entry = dimension.entry
        if entry is None:
            lengths.append(size)
            continue
        begin, end, step = begins[entry], ends[entry], steps[entry]
        if dimension.shrinks:
            if size is not None and begin is not None and not -size <= begin < size:
                raise ValueError(_out_of_bounds(begin, i))
            lengths.append(1)
        elif step is None or not (
            (begin is not None or _bit(masks.begin, entry))
            and (end is not None or _bit(masks.end, entry))
        ):
            lengths.append(None)
        elif size is not None:
            lengths.append(_window(entry, begin, end, step, size, masks)[1])
        else:
            lengths.append(_length_of_unknown(entry, begin, end, step, masks))
    return TensorShape([1 if i is None else lengths[i] for i in layout.result])


def _length_of_unknown(entry: int, begin: Any, end: Any, step: int, masks: Masks) -> int | None:
    """How long a range along a dimension of unknown size is, in the cases that tell."""
    open_begin, open_end = _bit(masks.begin, entry), _bit(masks.end, entry)
    if open_begin or open_end:
        return None
    # Both ends counted from the same side, and an empty range: empty for every size.
    if (begin >= 0) == (end >= 0) and len(range(begin, end, step)) == 0:
        return 0
    return None


def _known_entries(c: ShapeContext, which: int, count: int) -> list[int | None]:
    value = c.value(which)
    if value is not None:
        return [int(v) for v in value]
    source = c.tensor(which).op
    if source.type == "Pack" and source.attrs["axis"] == 0 and len(source.inputs) == count:
        parts = [constant_of(t) for t in source.inputs]
        return [None if p is None else int(p.item()) for p in parts]
    return [None] * count


def constant_of(tensor: Tensor) -> Any:
    """The value of a tensor where it is a constant."""
    return tensor.op.attrs["value"] if tensor.op.type == "Const" else None


def _masks_of(attrs: Any) -> Masks:
    return Masks(*(attrs[f"{name}_mask"] for name in Masks._fields))


def _strided_statics(node: Any) -> list[str]:
    """Which of begin, end and strides (inputs 1 to 3) decide the shape of a node."""
    masks = _masks_of(node.attrs)
    wanted = ["strides"]
    for position, name in ((1, "begin"), (2, "end")):
        entries = _constant_entries(node.inputs[position])
        free = masks.shrink_axis | masks.ellipsis | masks.new_axis | getattr(masks, name)
        if entries is None or any(
            entry is None and not _bit(free, i) for i, entry in enumerate(entries)
        ):
            wanted.append(name)
    return wanted


def _strided_grad_statics(node: Any) -> list[str]:
    return ["shape", *_strided_statics(node)]


class _Selection(NamedTuple):
    """A strided slice of an array of known shape.

    Attributes:
      starts: First position along each dimension; a scalar in XLA where it is dynamic (then
        one position is taken).
      lengths: How many positions.
      steps: The distance between them.
      result: The shape of the result, with new axes and without shrunk ones.
    """

    starts: list[Any]
    lengths: list[int]
    steps: list[int]
    result: list[int]


def select(
    sizes: tuple[int, ...], begin: Any, end: Any, strides: Any, masks: Masks, check: Any
) -> _Selection:
    """Applies a slice spec to a shape.

    Args:
      sizes: The shape of the array.
      begin: The entries of begin: numbers, or scalars in XLA.
      end: The entries of end; looked at only where they matter.
      strides: The entries of strides, numbers.
      masks: The masks.
      check: For positions that are known only in the run.

    Raises:
      ValueError: The spec does not fit the shape.
    """
    layout = _layout(len(strides), len(sizes), masks)
    starts: list[Any] = []
    lengths: list[int] = []
    steps: list[int] = []
    for i, (dimension, size) in enumerate(zip(layout.dimensions, sizes, strict=True)):
        entry = dimension.entry
        if entry is not None:
            _check_stride(entry, strides[entry], dimension.shrinks)
        if dimension.shrinks:
            assert entry is not None
            index = begin[entry]
            if isinstance(index, int):
                if not -size <= index < size:
                    raise ValueError(_out_of_bounds(index, i))
                index %= size
            else:
                check(
                    (index >= -size) & (index < size),
                    lambda value, i=i: _out_of_bounds(value, i),
                    index,
                )
                index = jnp.where(index < 0, index + size, index)
            starts.append(index)
            lengths.append(1)
            steps.append(1)
        else:
            first, length, step = _window(
                entry,
                None if entry is None else begin[entry],
                None if entry is None else end[entry],
                1 if entry is None else strides[entry],
                size,
                masks,
            )
            starts.append(first)
            lengths.append(length)
            steps.append(step)
    return _Selection(
        starts, lengths, steps, [1 if i is None else lengths[i] for i in layout.result]
    )


def _take(x: Any, chosen: _Selection) -> Any:
    index = []
    for start, length, step in zip(chosen.starts, chosen.lengths, chosen.steps, strict=True):
        if not isinstance(start, int):
            index.append(_range(None))
        elif step > 0:
            index.append(_range(start, start + length * step, step))
        else:
            stop = start + length * step
            backward = _range(start, None if stop < 0 else stop, step)
            index.append(backward if length else _range(0, 0))
    x = x[tuple(index)]
    if not all(isinstance(start, int) for start in chosen.starts):
        x = lax.dynamic_slice(jnp.asarray(x), _dynamic_starts(chosen.starts), chosen.lengths)
    return x.reshape(chosen.result)


_MASK_ATTRS = (
    "begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; "
    "shrink_axis_mask: int = 0"
)


@op(
    "StridedSlice(input: T, begin: Index, end: Index, strides: Index) -> output: T "
    f"where Index: {{int16, int32, int64}}; {_MASK_ATTRS}",
    shape=_strided_shape,
    static=_strided_statics,
)
def StridedSlice(
    input: Any, begin: Any, end: Any, strides: Any, *, xp: Any, node: Any, check: Any
) -> Any:
    """What ``input[begin:end:strides]`` selects, with Python's other ways to index as masks."""
    chosen = select(
        input.shape,
        _entries(begin, 1, node),
        _entries(end, 2, node),
        _entries(strides, 3, node),
        _masks_of(node.attrs),
        check,
    )
    return _take(input, chosen)


@StridedSlice.gradient
def _(op: Operation, grad: Any) -> Any:
    source, begin, end, strides = op.inputs
    shape = array_shape.shape(source, out_type=begin.dtype.base_dtype)
    masks = {f"{name}_mask": op.attrs[f"{name}_mask"] for name in Masks._fields}
    return [StridedSliceGrad(shape, begin, end, strides, grad, **masks), None, None, None]


def _index_of(masks: Masks, begin: Any, end: Any, strides: Any) -> tuple[Any, ...]:
    """A slice spec as an index of NumPy's, which means the same."""
    index: list[Any] = []
    for i, (first, last, step) in enumerate(
        zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
    ):
        bit = 1 << i
        if masks.ellipsis & bit:
            index.append(...)
        elif masks.new_axis & bit:
            index.append(None)
        elif masks.shrink_axis & bit:
            if step <= 0:
                raise ValueError("only stride 1 allowed on non-range indexing.")
            index.append(first)
        else:
            index.append(
                _range(
                    None if masks.begin & bit else first, None if masks.end & bit else last, step
                )
            )
    return tuple(index)


@StridedSlice.on_host
def _(node: Any, known: Any) -> Any:
    masks = _masks_of(node.attrs)
    try:
        index = None if any(v is None for v in known[1:]) else _index_of(masks, *known[1:])
    except (TypeError, ValueError):
        return None
    if index is not None:
        return lambda input, begin, end, strides: input[index]

    def slice_of(input: Any, begin: Any, end: Any, strides: Any) -> Any:
        return input[_index_of(masks, begin, end, strides)]

    return slice_of


@op(
    "StridedSliceGrad(shape: Index, begin: Index, end: Index, strides: Index, dy: T) -> output: T "
    f"where Index: index; {_MASK_ATTRS}",
    shape=_first_as_shape,
    static=_strided_grad_statics,
)
def StridedSliceGrad(
    shape: Any, begin: Any, end: Any, strides: Any, dy: Any, *, xp: Any, node: Any, check: Any
) -> Any:
    """Zeros of the given shape, with `dy` where a strided slice of that shape would look."""
    sizes = tuple(int(s) for s in shape)
    chosen = select(
        sizes,
        _entries(begin, 1, node),
        _entries(end, 2, node),
        _entries(strides, 3, node),
        _masks_of(node.attrs),
        check,
    )
    if list(dy.shape) != chosen.result:
        raise ValueError(
            f"shape of dy was {shape_text(dy.shape)} instead of {shape_text(chosen.result)}"
        )
    return place(sizes, chosen, dy, xp)


@StridedSliceGrad.on_host
def _(node: Any, known: Any) -> Any:
    masks = _masks_of(node.attrs)

    def spread(shape: Any, begin: Any, end: Any, strides: Any, dy: Any) -> Any:
        result = np.zeros(shape.tolist(), dy.dtype)
        index = _index_of(masks, begin, end, strides)
        if np.shape(result[index]) != dy.shape:
            raise ValueError("dy has another shape than the slice")
        result[index] = dy
        return result

    return None if node.output_types[0].base_dtype.name == "string" else spread


def place(sizes: tuple[int, ...], chosen: _Selection, part: Any, xp: Any) -> Any:
    """Zeros of shape `sizes` with `part` at the selection."""
    part = part.reshape(chosen.lengths)
    backward = [i for i, step in enumerate(chosen.steps) if step < 0]
    if backward:
        part = xp.flip(part, backward)
    paddings, window = [], []
    for start, length, step, size in zip(
        chosen.starts, chosen.lengths, chosen.steps, sizes, strict=True
    ):
        if not isinstance(start, int):
            paddings.append((0, 0, 0))
            window.append(1)
            continue
        if step < 0:
            start, step = start + (length - 1) * step, -step
        extent = (length - 1) * step + 1 if length else 0
        paddings.append((start, size - start - extent, step - 1) if length else (0, size, 0))
        window.append(size)
    if xp is np:
        result = np.full(sizes, zero_of(part.dtype), part.dtype)
        result[
            tuple(
                _range(low, low + length * (gap + 1), gap + 1)
                for (low, _, gap), length in zip(paddings, chosen.lengths, strict=True)
            )
        ] = part
        return result
    part = jnp.asarray(part)
    spread = lax.pad(part, jnp.zeros((), part.dtype), paddings)
    if window == list(sizes):
        return spread
    zeros = jnp.zeros(sizes, part.dtype)
    return lax.dynamic_update_slice(zeros, spread, _dynamic_starts(chosen.starts))


@StridedSliceGrad.gradient
def _(op: Operation, grad: Any) -> Any:
    begin, end, strides = op.inputs[1:4]
    masks = {f"{name}_mask": op.attrs[f"{name}_mask"] for name in Masks._fields}
    return [None, None, None, None, strided_slice(grad, begin, end, strides, **masks)]


@op(
    "TensorStridedSliceUpdate(input: T, begin: Index, end: Index, strides: Index, value: T) -> "
    f"output: T where Index: index; {_MASK_ATTRS}",
    shape=unchanged,
    static=("begin", "end", "strides"),
)
def TensorStridedSliceUpdate(
    input: Any, begin: Any, end: Any, strides: Any, value: Any, *, xp: Any, node: Any, check: Any
) -> Any:
    """The input with another value at a strided slice of it."""
    bounds = [[int(v) for v in vector] for vector in (begin, end, strides)]
    chosen = select(input.shape, bounds[0], bounds[1], bounds[2], _masks_of(node.attrs), check)
    value = xp.broadcast_to(value, chosen.result).reshape(chosen.lengths)
    index = tuple(
        range(start, start + length * step, step)
        for start, length, step in zip(chosen.starts, chosen.lengths, chosen.steps, strict=True)
    )
    grid = np.ix_(*(np.array(positions, np.int64) for positions in index))
    if xp is np:
        result = input.copy()
        result[grid] = value
        return result
    return jnp.asarray(input).at[grid].set(value)


@TensorStridedSliceUpdate.gradient
def _(op: Operation, grad: Any) -> Any:
    begin, end, strides, value = op.inputs[1:]
    masks = {f"{name}_mask": op.attrs[f"{name}_mask"] for name in Masks._fields}
    whole = TensorStridedSliceUpdate(
        grad, begin, end, strides, array_fill.zeros_like(value), **masks
    )
    part = strided_slice(grad, begin, end, strides, **masks)
    # The value may have been broadcast to the slice.
    return [whole, None, None, None, array_shape.sum_to(part, part, value)]


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """What ``input_[begin:end:strides]`` selects.

    Args:
      input_: The tensor.
      begin: First position, for as many dimensions as are spoken of.
      end: The position past the last.
      strides: The steps; ones when None.
      begin_mask: Bit i: ignore ``begin[i]``, and begin at the edge.
      end_mask: Bit i: ignore ``end[i]``, and go up to the edge.
      ellipsis_mask: Bit i: entry i is ``...``.
      new_axis_mask: Bit i: entry i puts in a dimension of size 1.
      shrink_axis_mask: Bit i: only position ``begin[i]``, and the dimension goes.
      var: The variable that `input_` was read from; gives the result an ``assign`` method.
      name: Name of the op.
    """
    if strides is None:
        strides = array_fill.ones_like(begin)
    masks = Masks(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    attrs = {f"{field}_mask": value for field, value in masks._asdict().items()}
    result: Tensor = StridedSlice(input_, begin, end, strides, name=name, **attrs)
    if var is not None:

        def assign(value: Any, name: str | None = None) -> Any:
            return var._strided_slice_assign(
                begin=begin, end=end, strides=strides, value=value, name=name, **attrs
            )

        result.assign = assign
    return result
