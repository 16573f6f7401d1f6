"""Which part of a tensor a checkpoint holds: slices, how they are written, where they overlap.

A `TensorSlice` has a start and a length for each axis; a length of -1 is the whole axis. In graphs
a part is the text ``"5 2 0,3:-"``: the shape of the whole, then a range or ``-`` for each axis. In
files it is a TensorSliceProto, and a part of the key under which its data stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from millrace.data.messages import declare

#: The length of a range that is the whole axis.
WHOLE_AXIS = -1

_messages = declare(
    "tensorflow/core/framework/tensor_slice.proto",
    "tensorflow",
    {
        # TensorFlow nests it in TensorSliceProto; the bytes are the same.
        "TensorSliceExtent": """
            int64 start = 1
            int64 length = 2 oneof has_length
        """,
        "TensorSliceProto": "repeated TensorSliceExtent extent = 1",
    },
)
TensorSliceProto: Any = _messages["TensorSliceProto"]


class Extent(NamedTuple):
    """A range of one axis."""

    start: int
    length: int

    @property
    def is_whole(self) -> bool:
        """Whether it is written as the whole axis."""
        return self.length == WHOLE_AXIS


class TensorSlice(tuple[Extent, ...]):
    """A range of each axis; made by `whole`, `parse`, `from_proto`."""

    @staticmethod
    def whole(rank: int) -> TensorSlice:
        """All of a tensor of `rank` axes."""
        return TensorSlice([Extent(0, WHOLE_AXIS)] * rank)

    @staticmethod
    def parse(text: str) -> TensorSlice:
        """Reads ``"0,3:-"``.

        Raises:
          ValueError: A range is neither ``start,length`` nor ``-``.
        """
        extents = []
        for part in text.split(":") if text else ():
            if part == "-":
                extents.append(Extent(0, WHOLE_AXIS))
                continue
            start, comma, length = part.partition(",")
            if not comma or not start.isdecimal() or not length.isdecimal() or int(length) < 1:
                raise ValueError(
                    "Expected a pair of numbers or '-' but got "
                    f"'{part}': string = {text}; a range is 'start,length'"
                )
            extents.append(Extent(int(start), int(length)))
        return TensorSlice(extents)

    @staticmethod
    def from_proto(message: Any) -> TensorSlice:
        """Reads a TensorSliceProto."""
        return TensorSlice(
            Extent(e.start, e.length if e.WhichOneof("has_length") else WHOLE_AXIS)
            for e in message.extent
        )

    def to_proto(self) -> Any:
        """As a TensorSliceProto."""
        message = TensorSliceProto()
        for extent in self:
            added = message.extent.add()
            if not extent.is_whole:
                added.start, added.length = extent
        return message

    def __str__(self) -> str:
        return ":".join("-" if e.is_whole else f"{e.start},{e.length}" for e in self)

    def shape_in(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The shape of this part of a tensor.

        Raises:
          ValueError: It is no part of a tensor of these sizes.
        """
        if len(self) != len(sizes):
            raise ValueError(
                f"Mismatching ranks: slice {self} has {len(self)}, shape {list(sizes)} has "
                f"{len(sizes)}"
            )
        for axis, (extent, size) in enumerate(zip(self, sizes, strict=True)):
            if not extent.is_whole and extent.start + extent.length > size:
                raise ValueError(
                    f"Extent in dimension {axis} out of bounds: shape = {list(sizes)}, "
                    f"slice = {self}"
                )
        return tuple(size if e.is_whole else e.length for e, size in zip(self, sizes, strict=True))

    def covers(self, sizes: Sequence[int]) -> bool:
        """Whether this is all of a tensor of `sizes`."""
        return self.shape_in(sizes) == tuple(sizes)

    def ranges(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """(begin, end) of each axis in a tensor of `sizes`."""
        return [
            (0, size) if e.is_whole else (e.start, e.start + e.length)
            for e, size in zip(self, sizes, strict=True)
        ]


def overlap(
    wanted: TensorSlice, stored: TensorSlice, sizes: Sequence[int]
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where two parts of a tensor meet.

    Returns:
      The same place as an index into the first part and one into the second; None if they
      have nothing in common.
    """
    in_wanted, in_stored = [], []
    for (w_begin, w_end), (s_begin, s_end) in zip(
        wanted.ranges(sizes), stored.ranges(sizes), strict=True
    ):
        begin, end = max(w_begin, s_begin), min(w_end, s_end)
        if begin >= end:
            return None
        in_wanted.append(slice(begin - w_begin, end - w_begin))
        in_stored.append(slice(begin - s_begin, end - s_begin))
    return tuple(in_wanted), tuple(in_stored)


def parse_shape_and_slice(text: str) -> tuple[tuple[int, ...], TensorSlice, tuple[int, ...]]:
    """Reads ``"5 2 0,3:0,2"``.

    Returns:
      The shape of the whole, the slice, and the slice's shape.

    Raises:
      ValueError: The text cannot be read, or the slice is no part of the shape.
    """
    *sizes, ranges = text.split(" ")
    if not sizes:
        raise ValueError(
            "Need least two elements in shape_and_slice specification: '"
            f"{text}'; expected the sizes of the whole and a range for each axis"
        )
    if not all(size.isdecimal() for size in sizes):
        raise ValueError(f"Non numerical dimension in shape_and_slice: '{text}'")
    shape = tuple(int(size) for size in sizes)
    part = TensorSlice.parse(ranges)
    try:
        return shape, part, part.shape_in(shape)
    except ValueError as error:
        raise ValueError(f"{error} (shape_and_slice: '{text}')") from None


# -- Keys ----------------------------------------------------------------------------------
# Numbers and texts are written so that the order of the bytes is their own order.


def slice_key(name: str, part: TensorSlice) -> bytes:
    """The key under which a table has the data of one part of a tensor."""
    key = _number(0) + _text(name.encode()) + _number(len(part))
    for extent in part:
        key += _signed(extent.start) + _signed(extent.length)
    return key


def _number(value: int) -> bytes:
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _text(value: bytes) -> bytes:
    """Ends with 00 01; a 00 or FF inside is followed by the other one."""
    return re.sub(rb"[\0\xff]", lambda m: m[0] + bytes([m[0][0] ^ 0xFF]), value) + b"\0\x01"


def _signed(value: int) -> bytes:
    """As many leading one bits as there are bytes, then the number; inverted if negative."""
    size = (~value if value < 0 else value).bit_length() // 7 + 1
    # Ten bytes hold the marks of the longest form and 64 bits.
    bits = value & ((1 << 8 * size) - 1)
    marks = ((1 << size) - 1) << (8 * size - size)
    return (bits ^ marks).to_bytes(size, "big")
