"""Files that were damaged, by chance or on purpose, with checksums that are right.

Whatever they say, reading them ends in TensorFlow's error with the file's name, or in a value; it
never takes memory for what the file does not hold.
"""

import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core import dtypes, errors
from millrace.data import checkpoint_v1
from millrace.data.table import TableReader, TableWriter, varint
from millrace.data.tensor_bundle import BundleEntryProto, BundleHeaderProto, BundleWriter
from millrace.data.tensor_slice import TensorSlice
from millrace.data.tfrecord import TFRecordWriter, masked_crc32c

#: More than any of these files needs, by far.
MOST_BYTES = 64 << 20
#: What a file that cannot be used may be called.
REFUSALS = (errors.DataLossError, errors.NotFoundError, errors.InvalidArgumentError,
            errors.UnimplementedError)  # fmt: skip
ABSURD = (-1, 0, 1, 7, 127, 1 << 20, (1 << 31) - 1, 1 << 40, (1 << 62) - 1, -(1 << 62))


def read_all(prefix: Path) -> None:
    """Reads whatever a checkpoint has, as a user would."""
    reader = tf.train.NewCheckpointReader(str(prefix))
    reader.debug_string()
    for name in reader.get_variable_to_shape_map():
        reader.get_tensor(name)


def attempt(read: Callable[[], Any], file: str) -> bool:
    """Whether a file can be read; if not, its error says which file it is."""
    tracemalloc.start()
    try:
        read()
    except REFUSALS as error:
        assert file in error.message, error.message
        return False
    finally:
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert highest < MOST_BYTES, f"{highest:,} bytes were taken"
    return True


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A V2 checkpoint with numbers, strings and a tensor in parts."""
    prefix = tmp_path / "model.ckpt"
    writer = BundleWriter(str(prefix))
    writer.add("numbers", np.arange(12, dtype=np.float32).reshape(3, 4), dtypes.float32)
    writer.add("strings", np.array([b"a", b"bcd", b""], object), dtypes.string)
    for i in range(2):
        part = TensorSlice.parse(f"{2 * i},2:-")
        writer.add_slice("parted", [4, 2], part, np.ones((2, 2), np.int64), dtypes.int64)
    writer.finish()
    return prefix


def stored(name: Path) -> list[tuple[bytes, bytes]]:
    with name.open("rb") as stream:
        return list(TableReader(stream, str(name), name.stat().st_size))


def rewrite(name: Path, entries: list[tuple[bytes, bytes]]) -> None:
    """Writes a table with right checksums."""
    with name.open("wb") as stream:
        table = TableWriter(stream)
        for key, value in entries:
            table.add(key, value)
        table.finish()


def damaged_message(draw: random.Random, message: Any) -> bytes:
    """A message with one number changed to another one."""
    numbers = ("dtype", "shard_id", "offset", "size", "num_shards")
    fields = [f for f in numbers if f in message.DESCRIPTOR.fields_by_name]
    if "shape" in message.DESCRIPTOR.fields_by_name:
        fields.append("shape")
    field, value = draw.choice(fields), draw.choice(ABSURD)
    if field in ("dtype", "shard_id", "num_shards"):
        value = max(-(1 << 31), min(value, (1 << 31) - 1))
    if field != "shape":
        setattr(message, field, value)
    elif message.shape.dim and draw.random() < 0.7:
        draw.choice(message.shape.dim).size = value
    else:
        message.shape.dim.add(size=value)
    if "slices" in message.DESCRIPTOR.fields_by_name and message.slices and draw.random() < 0.5:
        extent = draw.choice(message.slices).extent[0]
        setattr(extent, draw.choice(("start", "length")), draw.choice(ABSURD))
    data: bytes = message.SerializeToString()
    return data


def test_an_index_that_declares_two_billion_strings_in_a_few_bytes_is_data_loss(bundle):
    index = bundle.with_suffix(".ckpt.index")
    entries = dict(stored(index))
    entry = BundleEntryProto.FromString(entries[b"strings"])
    entry.shape.dim[0].size = 2_000_000_000
    entries[b"strings"] = entry.SerializeToString()
    rewrite(index, sorted(entries.items()))
    with pytest.raises(errors.DataLossError, match=r"model\.ckpt\.data.*strings.*2000000000"):
        tf.train.NewCheckpointReader(str(bundle)).get_tensor("strings")
    assert not attempt(lambda: read_all(bundle), "model.ckpt")


def test_an_index_with_absurd_numbers_takes_no_memory_and_raises_nothing_raw(bundle):
    index = bundle.with_suffix(".ckpt.index")
    good, draw, refused = stored(index), random.Random(1), 0
    for _ in range(200):
        entries = list(good)
        i = draw.randrange(len(entries))
        kind = BundleEntryProto if i else BundleHeaderProto
        entries[i] = entries[i][0], damaged_message(draw, kind.FromString(entries[i][1]))
        rewrite(index, entries)
        refused += not attempt(lambda: read_all(bundle), "model.ckpt")
    assert refused > 100


def flip(draw: random.Random, data: bytes) -> bytes:
    """Bytes with a few changed, cut off or put in."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    cut = draw.randrange(3)
    if cut == 0:
        return bytes(changed[: draw.randrange(len(changed))])
    return bytes(changed) + (draw.randbytes(draw.randrange(50)) if cut == 1 else b"")


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_a_checkpoint_with_changed_bytes_raises_nothing_raw(bundle, suffix):
    name = bundle.with_name(bundle.name + suffix)
    good, draw = name.read_bytes(), random.Random(2)
    for _ in range(100):
        name.write_bytes(flip(draw, good))
        attempt(lambda: read_all(bundle), "model.ckpt")


def test_values_of_a_table_that_are_noise_raise_nothing_raw(bundle):
    index = bundle.with_suffix(".ckpt.index")
    good, draw = stored(index), random.Random(3)
    for _ in range(200):
        entries = [(k, flip(draw, v) if draw.random() < 0.5 and v else v) for k, v in good]
        rewrite(index, entries)
        attempt(lambda: read_all(bundle), "model.ckpt")


def test_a_v1_checkpoint_with_absurd_numbers_raises_nothing_raw(tmp_path):
    name = tmp_path / "old"
    part = checkpoint_v1.PartToSave(
        "w", (2, 3), TensorSlice.whole(2), np.ones((2, 3), np.float32), dtypes.float32
    )
    checkpoint_v1.write(str(name), [part])
    good, draw, refused = stored(name), random.Random(4), 0
    for _ in range(150):
        message = checkpoint_v1.SavedTensorSlices.FromString(good[0][1])
        tensor = message.meta.tensor[0]
        choice = draw.randrange(4)
        if choice == 0:
            draw.choice(tensor.shape.dim).size = draw.choice(ABSURD)
        elif choice == 1:
            tensor.shape.dim.add(size=draw.choice(ABSURD))
        elif choice == 2:
            tensor.type = draw.choice((0, 3, 7, 20, 9999))
        else:
            extent = draw.choice(tensor.slice[0].extent)
            extent.start, extent.length = draw.choice(ABSURD), draw.choice(ABSURD)
        entries = [(good[0][0], message.SerializeToString()), *good[1:]]
        if draw.random() < 0.3:
            entries[1] = entries[1][0], flip(draw, entries[1][1])
        rewrite(name, entries)
        refused += not attempt(lambda: read_all(name), "old")
    assert refused > 75
    content = name.read_bytes()
    for _ in range(100):
        name.write_bytes(flip(draw, content))
        attempt(lambda: read_all(name), "old")


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("length", [1 << 33, (1 << 62), (1 << 64) - 1, (1 << 64) - 16])
def test_a_record_of_an_absurd_length_is_data_loss_with_file_and_offset(
    tmp_path, length, compression
):
    name = tmp_path / "records"
    with TFRecordWriter(str(name), compression) as writer:
        writer.write(b"good")
        header = struct.pack("<Q", length)
        damaged = header + struct.pack("<I", masked_crc32c(header)) + b"few bytes"
        compressor = writer._compressor
        writer._file.write(damaged if compressor is None else compressor.compress(damaged))
    records = tf.python_io.tf_record_iterator(
        str(name), tf.python_io.TFRecordOptions(compression or None)
    )
    assert next(records) == b"good"
    with pytest.raises(errors.DataLossError, match=r"at 20 in file '.*records'"):
        next(records)
    if not compression:  # b"good" is no event
        with pytest.raises(errors.DataLossError, match=r"at 0 in file '.*records'"):
            list(tf.train.summary_iterator(str(name)))


def test_a_number_that_does_not_end_is_data_loss(bundle):
    index = bundle.with_suffix(".ckpt.index")
    footer = index.read_bytes()[-48:]
    index.write_bytes(b"\xff" * 100 + footer)
    assert not attempt(lambda: read_all(bundle), "model.ckpt")
    index.write_bytes(bytes(100) + varint(1 << 63) * 4 + footer[-8:].rjust(20, b"\xff"))
    assert not attempt(lambda: read_all(bundle), "model.ckpt")
