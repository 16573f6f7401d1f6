"""Sorted tables and the keys in them."""

from __future__ import annotations

import io
import itertools
import random

import pytest

from millrace.core import errors
from millrace.data import table
from millrace.data.table import TableReader, TableWriter
from millrace.data.tensor_slice import Extent, TensorSlice, overlap, slice_key


def written(entries: list[tuple[bytes, bytes]]) -> bytes:
    stream = io.BytesIO()
    writer = TableWriter(stream)
    for key, value in entries:
        writer.add(key, value)
    writer.finish()
    return stream.getvalue()


def reader(content: bytes) -> TableReader:
    return TableReader(io.BytesIO(content), "the table", len(content))


@pytest.mark.parametrize("count", [0, 1, 16, 17, 3000])
def test_entries_come_back_in_order_and_by_key(count: int) -> None:
    random.seed(count)
    keys = sorted({random.randbytes(random.randrange(1, 40)) for _ in range(count)})
    entries = [(key, random.randbytes(random.randrange(500))) for key in keys]
    found = reader(written(entries))
    assert list(found) == entries
    for key, value in entries[:: max(1, count // 50)]:
        assert found.get(key) == value
    assert found.get(b"\xff" * 50) is None
    assert found.get(b"no such key") is None


def test_keys_must_grow() -> None:
    writer = TableWriter(io.BytesIO())
    writer.add(b"", b"the empty key is one")
    writer.add(b"b", b"")
    for key in (b"b", b"a", b""):
        with pytest.raises(ValueError, match="is not greater"):
            writer.add(key, b"")


def test_a_compressed_block_is_read() -> None:
    """Snappy: 'abcd', then 8 bytes copied from 4 before (more than there are), then 'xyz'."""
    packed = bytes([15, 3 << 2]) + b"abcd" + bytes([(8 - 4) << 2 | 1, 4, 2 << 2]) + b"xyz"
    assert table._unsnap(packed) == b"abcdabcdabcdxyz"
    long_literal = b"q" * 300
    packed = table.varint(303) + bytes([61 << 2]) + (299).to_bytes(2, "little") + long_literal
    packed += bytes([2 << 2 | 2]) + (300).to_bytes(2, "little")
    assert table._unsnap(packed) == long_literal + b"qqq"
    with pytest.raises(ValueError, match="before the beginning"):
        table._unsnap(bytes([4, 1, 9]))


def test_something_else_is_no_table() -> None:
    good = written([(b"k", b"v")])
    for bad, text in (
        (b"", "too short to be an sstable: 0 bytes"),
        (b"x" * 60, "not an sstable"),
        (good[:-1] + b"x", "bad magic number"),
        (b"\1" + good[1:], "block checksum mismatch: block at 0"),
    ):
        with pytest.raises(errors.DataLossError, match=f"the table: .*{text}"):
            list(reader(bad))


@pytest.mark.parametrize("number", [0, 1, 63, 64, 8191, 8192, 2**20, 2**33, 2**62, 2**63 - 1])
def test_numbers_in_keys_have_the_order_of_numbers(number: int) -> None:
    def key(start: int) -> bytes:
        return slice_key("x", TensorSlice([Extent(start, -1)]))

    assert key(number - 1) < key(number)
    assert key(number) < key(number + 1) or number == 2**63 - 1


def test_names_in_keys_may_have_any_bytes() -> None:
    names = ["", "a", "a\0", "a\0\0", "a\0b", "ab", "aÿ", "b"]
    keys = [slice_key(name, TensorSlice.parse("0,1")) for name in names]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)


def test_slices_meet_where_both_are() -> None:
    sizes = (4, 3)
    ranges = [Extent(a, b - a) for a, b in itertools.combinations(range(5), 2)]
    for first, second in itertools.product(ranges, repeat=2):
        one, two = TensorSlice([first, Extent(0, -1)]), TensorSlice([second, Extent(1, 2)])
        common = set(range(first.start, first.start + first.length)) & set(
            range(second.start, second.start + second.length)
        )
        found = overlap(one, two, sizes)
        if not common:
            assert found is None
            continue
        assert found is not None
        (rows, columns), (other_rows, other_columns) = found
        assert rows.start + first.start == other_rows.start + second.start == min(common)
        assert rows.stop - rows.start == other_rows.stop - other_rows.start == len(common)
        assert (columns, other_columns) == (slice(1, 3), slice(0, 2))
        assert TensorSlice.parse(str(one)) == one
        assert TensorSlice.from_proto(one.to_proto()) == one
